"""One turn of a language model, whoever takes it."""
