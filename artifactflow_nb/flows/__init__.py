"""In what order things happen: LangGraph graphs over one agent loop."""
