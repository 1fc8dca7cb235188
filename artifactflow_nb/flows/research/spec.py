"""The research flow: the loop of a lead agent with the loop of sub-agents inside; agents can be added any time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from artifactflow_nb.agents.base import AgentConfig, AgentLike, BaseAgent, as_agent
from artifactflow_nb.agents.lead import LeadAgent
from artifactflow_nb.core.runs import Depth
from artifactflow_nb.flows.base import FlowAgent, FlowSpec
from artifactflow_nb.flows.loop import LoopGraph, build_loop, job_loop, subagent_delegate, with_saver
from artifactflow_nb.flows.research import RESEARCH
from artifactflow_nb.tools.artifacts import ARTIFACT_TOOLS
from artifactflow_nb.tools.lead import ask_person, call_subagent

LEAD = AgentConfig(
    name="lead_agent",
    description="Plans the research, delegates it, writes the report and answers.",
    required_tools=(*(entry.name for entry in ARTIFACT_TOOLS), call_subagent.name, ask_person.name),
    temperature=0.7,
    temperature_is_optional=True,
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
    temperature_is_optional=True,
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
    temperature_is_optional=True,
    max_tool_rounds=2,
)

RESEARCH_AGENTS = (FlowAgent(LEAD, LeadAgent), FlowAgent(SEARCH, is_subagent=True), FlowAgent(CRAWL, is_subagent=True))


@cache
def research_loop() -> LoopGraph:
    """Return the lead's loop, compiled once per process: agents are in the context of a run, not in the graph."""
    return build_loop({call_subagent.name: subagent_delegate(job_loop())}).compile()


@dataclass(frozen=True, slots=True)
class ExtendableGraph:
    """The research graph with its agents, to look at the nodes, the edges and the agents of the research flow.

    An engine runs the graph, since the turns are read from its store: ask with `engine.controller.execute(question)`.
    Add an agent to the runs with `Workbench.register_agent` or `Engine.register_agent`.

    Attributes:
        lead: The agent that coordinates; by default the lead agent of the research flow.
        agents: The agents to which the lead can delegate, by name; by default the agents of the research flow.
    """

    lead: LeadAgent = field(default_factory=lambda: LeadAgent(LEAD))
    agents: dict[str, BaseAgent] = field(
        default_factory=lambda: {config.name: BaseAgent(config) for config in (SEARCH, CRAWL)}
    )

    def __post_init__(self) -> None:
        names = {config.name for config in self.lead.subagents}
        for name, agent in self.agents.items():
            if name not in names:
                self.lead.register_subagent(agent.config)

    def register_agent(self, source: AgentLike) -> AgentConfig:
        """Add an agent, and return its configuration; `UsageError` if its name is in use."""
        agent = as_agent(source)
        self.lead.register_subagent(agent.config)
        self.agents[agent.config.name] = agent
        return agent.config

    @staticmethod
    def compile(checkpointer: "BaseCheckpointSaver[str]", interrupt_before: Sequence[str] | None = None) -> LoopGraph:
        """Return the graph, ready to run, with this checkpointer.

        Args:
            checkpointer: Stores the position in the graph.
            interrupt_before: The nodes (`model`, `gate`, `tools`, `job`) before which a run pauses.
        """
        graph = with_saver(research_loop(), checkpointer)
        graph.interrupt_before_nodes = list(interrupt_before or ())
        graph.validate()
        return graph


_DEPTHS: dict[Depth, dict[str, dict[str, int]]] = {
    "quick": {"lead_agent": {"max_tool_rounds": 4}, "search_agent": {"max_tool_rounds": 2}},
    "deep": {
        "lead_agent": {"max_tool_rounds": 15},
        "search_agent": {"max_tool_rounds": 6},
        "crawl_agent": {"max_tool_rounds": 4},
    },
}

RESEARCH_FLOW = FlowSpec(RESEARCH, research_loop, RESEARCH_AGENTS, depths=_DEPTHS, cites_sources=True)


if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
