"""A deterministic, extractive model: retrieves, quotes and cites without a language model."""
