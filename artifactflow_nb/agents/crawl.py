"""The crawl agent: reads sources and quotes them. What it may do stands in `graph_config.yaml`."""

from artifactflow_nb.agents.base import AgentConfig

CRAWL = AgentConfig(
    name="crawl_agent",
    description="Reads sources in full and brings back the sentences that answer a question, word for word.",
    capabilities=(
        "Reads several addresses at once.",
        "Its instruction must name a specific URL or source (such as local:guide#setup), and the question.",
    ),
)
