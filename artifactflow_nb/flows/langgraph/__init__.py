"""LangGraph graphs of other people as flows."""
