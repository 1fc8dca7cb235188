"""The search agent: finds out where the answer stands. What it may do stands in `graph_config.yaml`."""

from artifactflow_nb.agents.base import AgentConfig

SEARCH = AgentConfig(
    name="search_agent",
    description="Searches the sources and brings back the addresses of passages that matter.",
    capabilities=(
        "Turns a question into queries and judges the results.",
        "Needs the question in its own words, with the names and terms that matter.",
    ),
)
