"""The research flow: the lead's loop, with the sub-agents' loop inside; agents are added before it is compiled."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from artifactflow_nb.agents.base import AgentConfig, BaseAgent
from artifactflow_nb.agents.lead import LeadAgent
from artifactflow_nb.flows.loop import LoopGraph, build_loop, job_loop, to_subagents
from artifactflow_nb.flows.with_saver import with_saver
from artifactflow_nb.tools.delegate import call_subagent

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver


class ExtendableGraph:
    """A flow to which agents can be added: each appears in the lead's prompt, in routing and in metrics by itself.

    Args:
        lead: The agent that coordinates.
    """

    def __init__(self, lead: LeadAgent) -> None:
        self.lead = lead
        self._agents: dict[str, BaseAgent] = {}

    @property
    def agents(self) -> dict[str, BaseAgent]:
        """The agents that can be delegated to, by name."""
        return self._agents

    def register_agent(self, agent: BaseAgent) -> AgentConfig:
        """Add an agent; `UsageError` if its name is taken."""
        self.lead.register_subagent(agent.config)
        self._agents[agent.config.name] = agent
        return agent.config

    def compile(
        self, checkpointer: "BaseCheckpointSaver[str]", interrupt_before: Sequence[str] | None = None
    ) -> LoopGraph:
        """The graph, ready to run, with these checkpoints.

        Args:
            checkpointer: Where the program counter is kept.
            interrupt_before: Names of nodes (`model`, `gate`, `tools`, `job`) before which a run shall pause.
        """
        graph = with_saver(_research_loop(), checkpointer)
        graph.interrupt_before_nodes = list(interrupt_before or ())
        graph.validate()
        return graph


@cache
def _research_loop() -> LoopGraph:
    """The lead's loop, compiled: the agents that it may hand work to stand in a run's context, not in the graph."""
    return build_loop({call_subagent.name: to_subagents(job_loop())}).compile()
