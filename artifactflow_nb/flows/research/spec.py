"""The research flow as a `FlowSpec`: a lead agent that delegates to search and crawl agents."""

from artifactflow_nb.core.runs import Depth
from artifactflow_nb.flows.base import FlowSpec
from artifactflow_nb.flows.research import RESEARCH
from artifactflow_nb.flows.research.agents import RESEARCH_AGENTS
from artifactflow_nb.flows.research.graph import research_loop

_DEPTHS: dict[Depth, dict[str, dict[str, int]]] = {
    "quick": {"lead_agent": {"max_iterations": 4}, "search_agent": {"max_iterations": 2}},
    "deep": {
        "lead_agent": {"max_iterations": 15},
        "search_agent": {"max_iterations": 6},
        "crawl_agent": {"max_iterations": 4},
    },
}

RESEARCH_FLOW = FlowSpec(RESEARCH, research_loop, RESEARCH_AGENTS, depths=_DEPTHS, cites_sources=True)
