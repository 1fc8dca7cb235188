"""Agents: a configuration, a prompt, a model and a set of tools; the loop of a flow lets them take turns."""
