"""The board of a project: blocks by phase, edits, runs."""
