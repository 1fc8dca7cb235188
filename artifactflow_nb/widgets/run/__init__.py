"""Transcript of one run, its live view and its saved output."""
