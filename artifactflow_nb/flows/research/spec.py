"""The research flow as a `FlowSpec`."""

from artifactflow_nb.flows.base import FlowSpec
from artifactflow_nb.flows.research import RESEARCH
from artifactflow_nb.flows.research.agents import RESEARCH_AGENTS
from artifactflow_nb.flows.research.graph import research_loop

RESEARCH_FLOW = FlowSpec(RESEARCH, research_loop, RESEARCH_AGENTS, cites_sources=True)
