"""What the nodes of a flow work with; it comes through LangGraph's runtime context, so a graph is compiled once."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from artifactflow_nb.agents.base import BaseAgent
from artifactflow_nb.agents.lead import LeadAgent
from artifactflow_nb.agents.planning import EXECUTOR
from artifactflow_nb.ambient import Clock, Ids
from artifactflow_nb.approvals import ApprovalPolicy
from artifactflow_nb.budget import Price
from artifactflow_nb.errors import ToolError
from artifactflow_nb.events import MAIN_JOB, StreamEventType
from artifactflow_nb.flows.beside import Beside
from artifactflow_nb.flows.journal import Journal
from artifactflow_nb.flows.state import COMPOSE, PLAN, AgentState
from artifactflow_nb.flows.subruns import Subruns
from artifactflow_nb.flows.watch import Watch, Watchers
from artifactflow_nb.graph_config import GraphConfig
from artifactflow_nb.plans import PlanRules
from artifactflow_nb.recordings.tape import Tape
from artifactflow_nb.skills import SETTING
from artifactflow_nb.store.artifacts import ArtifactManager
from artifactflow_nb.store.belongings import BelongingStore
from artifactflow_nb.store.block_jobs import BlockJobStore
from artifactflow_nb.store.blocks import BlockStore
from artifactflow_nb.store.calls import CallStore
from artifactflow_nb.store.conversations import ConversationManager
from artifactflow_nb.store.plans import PlanStore
from artifactflow_nb.store.requests import RequestStore
from artifactflow_nb.store.runs import RunStore, StoredRun
from artifactflow_nb.store.subruns import SubrunStore
from artifactflow_nb.tools.base import ToolContext, ToolPermission
from artifactflow_nb.tools.plan import REPORT_FAILURE, PlanDuty
from artifactflow_nb.tools.registry import ToolRegistry
from artifactflow_nb.tools.skills import SharedSkills


@dataclass(frozen=True, slots=True)
class Services:
    """The engine's rooms, opened and wired.

    Attributes:
        parts: The agents that have a part of their own in a flow, by name.
        agents: The agents that can be delegated to, by name.
        tool_services: What the tools of a run may ask their context for, by class.
        prices: What tokens cost, by model.
        graph_config: What is configured for the nodes of flows.
        watchers: The middleware.
        mask: Takes secrets out of a text: for whatever code of others raises, before it is stored or told.
    """

    clock: Clock
    ids: Ids
    conversations: ConversationManager
    artifacts: ArtifactManager
    runs: RunStore
    calls: CallStore
    requests: RequestStore
    tools: ToolRegistry
    lead: LeadAgent
    plans: PlanStore
    blocks: BlockStore
    block_jobs: BlockJobStore
    belongings: BelongingStore
    subruns: SubrunStore
    parts: Mapping[str, BaseAgent]
    agents: Mapping[str, BaseAgent]
    graph_config: GraphConfig
    tool_services: Callable[[StoredRun], Mapping[type, Any]] = lambda _run: {}
    prices: Mapping[str, Price] = field(default_factory=dict)
    watchers: Watchers = field(default_factory=Watchers)
    mask: Callable[[str], str] = lambda text: text

    def plan_duty(self, policy: ApprovalPolicy) -> PlanDuty:
        """How plans are carried out, where this policy answers before a person is asked."""
        tools = {entry.name: entry for entry in self.parts[EXECUTOR.name].tools if entry.name != REPORT_FAILURE}
        confirmed = {name: entry.permission is ToolPermission.CONFIRM for name, entry in tools.items()}
        asking = {name for name, is_confirmed in confirmed.items() if policy.concerns(name, is_confirmed)}
        return PlanDuty(PlanRules.of(self.graph_config), tools, asking)


@dataclass(frozen=True, slots=True)
class RunContext:
    """One run, with the services that it uses.

    Attributes:
        run: The run's row.
        policy: Who answers before a person is asked.
        journal: Where events go.
        services: The engine's rooms.
        tape: What comes from outside.
        watch: Tells middleware of the run's calls.
        subruns: What begins runs for calls of this one.
        under_way: Told when the run's model is asked: from now on others do the work.
        is_new: Whether the run was begun here and never stopped since.
        beside: The jobs of the run that are at work.
    """

    run: StoredRun
    policy: ApprovalPolicy
    journal: Journal
    services: Services
    tape: Tape
    watch: Watch
    subruns: Subruns
    under_way: Callable[[], None] = lambda: None
    is_new: bool = True
    beside: Beside = field(default_factory=Beside)

    def agent(self, name: str) -> BaseAgent:
        """The agent of this name: one that has a part in a flow, or one that can be delegated to; else `ToolError`."""
        return self.services.parts.get(name) or self.subagent(name)

    def subagent(self, name: str) -> BaseAgent:
        """The agent of this name that the lead can delegate to; `ToolError` for any other."""
        try:
            return self.services.agents[name]
        except KeyError:
            known = ", ".join(config.name for config in self.services.lead.subagents)
            raise ToolError(f"There is no agent {name!r}. You can delegate to: {known or 'nobody'}.") from None

    async def stand_within(self, key: str) -> None:
        """Come to a call: return, unless the run ends here, or was recorded to."""
        halting = self.beside.halting
        with halting.stands():
            await self.tape.within(key)
        await halting.unless_halted()

    @property
    def plan_duty(self) -> PlanDuty:
        """How the run carries out plans."""
        return self.services.plan_duty(self.policy)

    def tool_context(self, agent: str, job_id: str, tool_call_id: str, tool: str) -> ToolContext:
        """What a tool is told of the call; it may notify from any thread."""
        loop, thread = asyncio.get_running_loop(), threading.get_ident()
        duty: Mapping[type, Any] = {PlanDuty: self.plan_duty} if self.run.flow == PLAN else {}
        if self.run.flow == COMPOSE:
            duty = {SharedSkills: SharedSkills(self.run.settings.get(SETTING, {}))}

        def notify(kind: str, data: Mapping[str, Any]) -> None:
            told = {"job_id": job_id, **data}
            emit = partial(self.journal.emit, StreamEventType(kind), told, agent=agent, tool=tool)
            emit() if threading.get_ident() == thread else loop.call_soon_threadsafe(emit)

        return ToolContext(
            run_id=self.run.run_id,
            conversation_id=self.run.conversation_id,
            message_id=self.run.message_id,
            agent=agent,
            tool_call_id=tool_call_id,
            now=self.tape.clock.now(job_id),
            services={**self.services.tool_services(self.run), **duty},
            notify=notify,
        )


def agent_of(ctx: RunContext, state: AgentState) -> BaseAgent:
    """The agent of a loop, with the tools that it has there."""
    agent = ctx.agent(state["current_agent"])
    return agent.restricted(state["tools"]) if state.get("tools") else agent


def is_main(job_id: str) -> bool:
    """Whether the loop is the lead's."""
    return job_id == MAIN_JOB
