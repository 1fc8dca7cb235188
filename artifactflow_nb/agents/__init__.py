"""Who does it: a prompt, a model and a set of tools."""
