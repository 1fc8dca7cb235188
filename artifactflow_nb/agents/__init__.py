"""Agents: who takes a turn, with a prompt, a model and a set of tools."""
