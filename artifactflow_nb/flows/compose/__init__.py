"""The compose flow: a document of blocks, written phase by phase."""

COMPOSE = "compose"
"""The name of the flow."""
