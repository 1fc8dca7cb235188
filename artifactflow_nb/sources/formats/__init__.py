"""Readers of file formats: bytes in, sections of text out. No store, no tools, no network."""
