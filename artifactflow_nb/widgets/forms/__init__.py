"""Forms for tool parameters, derived from JSON schemas."""
