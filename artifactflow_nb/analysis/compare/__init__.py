"""Comparison of two runs: answers, artifacts, steps and cost."""
