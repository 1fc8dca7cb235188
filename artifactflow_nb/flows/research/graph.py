"""The research flow: the lead's loop, with the sub-agents' loop inside; agents can be added at any time."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from artifactflow_nb.agents.base import AgentConfig, BaseAgent
from artifactflow_nb.agents.lead import LeadAgent
from artifactflow_nb.flows.loop import LoopGraph, build_loop, job_loop, subagent_delegate, with_saver
from artifactflow_nb.tools.delegate import call_subagent

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver


@cache
def research_loop() -> LoopGraph:
    """The lead's loop, compiled once in a process: agents are in the context of a run, not in the graph."""
    return build_loop({call_subagent.name: subagent_delegate(job_loop())}).compile()


@dataclass(frozen=True, slots=True)
class ExtendableGraph:
    """The research graph with its agents, for a caller that drives the graph without an engine's runs.

    Attributes:
        lead: The agent that coordinates.
        agents: The agents that it can delegate to, by name.
    """

    lead: LeadAgent
    agents: dict[str, BaseAgent]

    def register_agent(self, agent: BaseAgent) -> AgentConfig:
        """Add an agent; `UsageError` if its name is in use."""
        self.lead.register_subagent(agent.config)
        self.agents[agent.config.name] = agent
        return agent.config

    @staticmethod
    def compile(checkpointer: "BaseCheckpointSaver[str]", interrupt_before: Sequence[str] | None = None) -> LoopGraph:
        """The graph, ready to run, with these checkpoints.

        Args:
            checkpointer: Stores the position in the graph.
            interrupt_before: The nodes (`model`, `gate`, `tools`, `job`) before which a run pauses.
        """
        graph = with_saver(research_loop(), checkpointer)
        graph.interrupt_before_nodes = list(interrupt_before or ())
        graph.validate()
        return graph
