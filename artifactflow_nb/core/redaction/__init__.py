"""Redaction of texts: known secrets, and texts in the form of a secret."""
