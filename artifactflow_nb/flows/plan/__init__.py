"""The plan flow: an agent that makes plans, whose steps are carried out one after the other."""

PLAN = "plan"
"""The name of the flow."""
