"""Redaction of texts: known secrets, and whatever has the form of one."""
