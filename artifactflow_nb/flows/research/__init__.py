"""The research flow: a lead agent that delegates to search and crawl agents."""

RESEARCH = "research"
"""The name of the flow."""
