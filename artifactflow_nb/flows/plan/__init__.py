"""The plan flow: an agent that creates plans, whose steps are executed one after the other."""

PLAN = "plan"
"""The name of the flow."""
