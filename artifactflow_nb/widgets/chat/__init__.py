"""The chat panel: view, turns, active branch, usage, saved output."""
