"""The agents of the research flow."""

from artifactflow_nb.agents.base import AgentConfig
from artifactflow_nb.agents.lead import LeadAgent
from artifactflow_nb.flows.base import FlowAgent
from artifactflow_nb.tools.artifacts import ARTIFACT_TOOLS
from artifactflow_nb.tools.ask import ask_person
from artifactflow_nb.tools.delegate import call_subagent

LEAD = AgentConfig(
    name="lead_agent",
    description="Plans the research, delegates it, writes the report and answers.",
    required_tools=(*(entry.name for entry in ARTIFACT_TOOLS), call_subagent.name, ask_person.name),
    temperature=0.7,
    max_tool_rounds=5,
)

SEARCH = AgentConfig(
    name="search_agent",
    description="Searches the sources and brings back the addresses of passages that matter.",
    capabilities=(
        "Turns a question into queries and judges the results.",
        "Needs the question in its own words, with the names and terms that matter.",
    ),
    required_tools=("web_search",),
    temperature=0.5,
    max_tool_rounds=3,
)

CRAWL = AgentConfig(
    name="crawl_agent",
    description="Reads sources in full and brings back the sentences that answer a question, word for word.",
    capabilities=(
        "Reads several addresses at once.",
        "Its instruction must name a specific URL or source (such as local:guide#setup), and the question.",
    ),
    required_tools=("web_fetch",),
    temperature=0.3,
    max_tool_rounds=2,
)

RESEARCH_AGENTS = (FlowAgent(LEAD, LeadAgent), FlowAgent(SEARCH, is_subagent=True), FlowAgent(CRAWL, is_subagent=True))
