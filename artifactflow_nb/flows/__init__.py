"""Flows: LangGraph graphs over one agent loop."""
