"""The research flow: the lead's loop, with the sub-agents' loop inside; agents are added before it is compiled."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from artifactflow_nb.agents.base import AgentConfig, BaseAgent
from artifactflow_nb.agents.lead import LeadAgent
from artifactflow_nb.flows.loop import LoopGraph, build_loop, to_subagents
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
        """The graph, ready to run; done once for an engine.

        Args:
            checkpointer: Where the program counter is kept.
            interrupt_before: Names of nodes (`model`, `gate`, `tools`, `job`) before which a run shall pause.
        """
        stops = list(interrupt_before) if interrupt_before else None
        delegates = {call_subagent.name: to_subagents(build_loop().compile())}
        return build_loop(delegates).compile(checkpointer=checkpointer, interrupt_before=stops)
