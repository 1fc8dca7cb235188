"""The services of a run, passed to nodes through LangGraph's runtime context, so that a graph is compiled once.

The module also has the state of a running job: its place among parallel jobs, and a cache of its turns.

A subrun carries out a tool call of another run, with its own id, approvals and metrics.

::

    call ──> started (or found again) ──> running ──> ended: its result
                                           ^  └─────> waits: the parent run pauses at the same gates
                                           └── decided ──┘
"""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from langgraph.errors import GraphInterrupt
from langgraph.types import interrupt

from artifactflow_nb.agents.base import BaseAgent
from artifactflow_nb.agents.protocols import CallProtocol
from artifactflow_nb.agents.reviewer import Reviewer
from artifactflow_nb.agents.settings import GraphConfig
from artifactflow_nb.core.approvals import ApprovalPolicy
from artifactflow_nb.core.budget import Budget, Price
from artifactflow_nb.core.clock_ids import Clock, Ids, RunClock
from artifactflow_nb.core.events import MAIN_JOB, StreamEventType
from artifactflow_nb.core.messages import ToolCall, ToolResult
from artifactflow_nb.core.runs import CLARIFY_SETTING, ParentCall
from artifactflow_nb.errors import ToolError
from artifactflow_nb.flows.base import FlowSpec
from artifactflow_nb.flows.cancellation import Cancellation
from artifactflow_nb.flows.compression import TurnMessages, displayed_results
from artifactflow_nb.flows.events import EventWriter
from artifactflow_nb.flows.known_secrets import KnownSecrets, SecretLookup
from artifactflow_nb.flows.middleware import MiddlewareStack, RunMiddleware
from artifactflow_nb.store.approvals import ApprovalStore
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.artifacts import ArtifactManager
from artifactflow_nb.store.calls import FINISHED, CallStore, StoredReply, StoredTurn
from artifactflow_nb.store.conversations import ConversationManager
from artifactflow_nb.store.plans import PlanStore
from artifactflow_nb.store.runs import RunStore, StoredRun
from artifactflow_nb.tools.base import ToolContext
from artifactflow_nb.tools.lead import ask_person
from artifactflow_nb.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from artifactflow_nb.flows.tool_call import AskingCall


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SubrunPause:
    """A subrun that waits or has ended.

    Attributes:
        gates: The gates at which the subrun waits, see `FlowOutcome`; empty if the subrun has ended.
    """

    run: StoredRun
    gates: Sequence[Sequence[str]]


class SubrunRunner(Protocol):
    """Starts and drives subruns; implemented by the engine."""

    async def begin_subrun(self, parent_call: ParentCall, question: str, flow: str, **chosen: Any) -> StoredRun:
        """Start a run for a tool call, in a conversation of its own, with the budget and model in `chosen`."""

    async def wait_until_idle(self, run_id: str) -> SubrunPause:
        """Drive a run that can continue and has no driver; return when the run has ended or waits.

        Errors: `StoreError` if the store failed, and the run was left abandoned.
        """

    async def cancel_subruns(self, run_ids: Sequence[str], *, by_code: bool) -> None:
        """Cancel the subruns of a run that has ended."""


async def begin_subrun(ctx: "RunContext", key: str, question: str, flow: str, budget: Budget | None) -> StoredRun:
    """Start a subrun that carries out a call, with the model of the calling run."""
    caller = await ctx.services.runs.parent_call(key)
    return await ctx.subruns.begin_subrun(caller, question, flow, budget=budget, model=ctx.run.settings.get("model"))


async def publish_subrun_start(ctx: "RunContext", key: str, subrun: StoredRun) -> None:
    """Publish the start of a subrun exactly once, even if an earlier process started it without publishing."""
    await ctx.event_writer.flush()
    if await ctx.services.runs.is_start_published(key):
        return
    data = {
        "job_id": key,
        "tool_call_id": key,
        "run_id": subrun.run_id,
        "flow": subrun.flow,
        "question": subrun.question,
    }
    ctx.event_writer.emit(StreamEventType.SUBRUN_START, data)


async def wait_for_subrun(ctx: "RunContext", run: StoredRun) -> StoredRun:
    """Wait until a subrun has ended; while the subrun waits for a person, the calling run waits too."""
    pause = await ctx.jobs.cancellation.wait_for(ctx.subruns.wait_until_idle(run.run_id))
    if pause.gates:
        interrupt({"gates": [list(gate) for gate in pause.gates]})  # raises: the resumed run waits here again
    await ctx.jobs.cancellation.wait_if_cancelled()
    return pause.run


class JobTranscript:
    """The turns of one job. `is_new` means that no turn of the job is stored yet.

    Attributes:
        has_taken_turn: Whether the job has had a turn since this process started or resumed the run.
        last_reply: The last reply since this process started or resumed the run, or None.
        finished_calls: The finished calls with their results, cut to the length that the model sees.
        interactions: The finished calls in the form of `AgentResponse.tool_interactions`.
    """

    def __init__(self, calls: CallStore, run_id: str, job_id: str, *, is_new: bool) -> None:
        self.has_taken_turn = False
        self.last_reply: StoredReply | None = None
        self.finished_calls: list[tuple[ToolCall, ToolResult]] = []
        self.interactions: list[dict[str, Any]] = []
        self._calls = calls
        self._is_new = is_new
        self._place = run_id, job_id
        self._turns: list[StoredTurn] = []
        self._written: TurnMessages | None = None

    async def read(self) -> list[StoredTurn]:
        """Return all turns that did not fail; only new turns are read from the store."""
        if self._is_new and not self.has_taken_turn:
            return []
        fresh = await self._calls.transcript(*self._place, after=self._last_step)
        for index, turn in enumerate(fresh):
            if any(call.status != FINISHED for call in turn.calls):
                return [*self._turns, *fresh[index:]]
            if turn.step > self._last_step:  # a concurrent reader may have added the turn
                self._turns.append(turn)
                finished = [(call.call, result) for call, result in displayed_results(turn)]
                self.finished_calls += finished
                for call, result in finished:
                    text = result.data if result.success else result.error
                    interaction = {"tool_name": call.name, "params": dict(call.params), "success": result.success}
                    self.interactions.append({**interaction, "result": text})
        return list(self._turns)

    @property
    def _last_step(self) -> int:
        return self._turns[-1].step if self._turns else 0

    def written(self, protocol: CallProtocol, turns: Sequence[StoredTurn]) -> TurnMessages:
        """Return the turns as messages of a prompt; messages of earlier prompts are reused."""
        if self._written is None or self._written.protocol is not protocol:
            self._written = TurnMessages(protocol)
        if len(turns) != len(self._turns):  # calls of the last turn are not finished
            return TurnMessages(protocol, turns)
        for turn in turns[self._written.n_turns :]:
            self._written.add(turn)
        return self._written


class JobBoard:
    """The jobs of a run that are running in this process."""

    def __init__(self) -> None:
        self.cancellation = Cancellation()
        self._ends: dict[str, asyncio.Future[GraphInterrupt | None]] = {}
        self._started: dict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def reset(self) -> None:
        """Remove the jobs from before a pause of the run."""
        self._ends.clear()
        self._started.clear()

    @contextmanager
    def track(self, key: str) -> Iterator[None]:
        """Track the job of a call within a `with` block; waiting jobs continue when the block ends or fails."""
        with self.cancellation.worker():  # the worker ends last: jobs that wait for this job continue before its end
            try:
                yield
            except GraphInterrupt as stop:
                self._end(key, stop)
                raise
            except BaseException:
                self._end(key, None)
                raise
            self._end(key, None)

    def mark_started(self, key: str) -> None:
        """Record that the job of a call has started, so that its instruction is final."""
        self._started[key].set()

    async def wait_started(self, key: str) -> None:
        """Wait until the job of a call of this step has started, or has ended without starting."""
        started = self._started[key]
        with self.cancellation.waiting(started.is_set):
            await started.wait()

    async def wait_ended(self, key: str) -> None:
        """Wait until the job of a call of this step has ended."""
        end = self._future(key)
        with self.cancellation.waiting(end.done):
            stop = await end
        if stop is not None:
            interrupt(stop.args[0][0].value)  # raises: this job waits at the same gates

    def _end(self, key: str, stop: GraphInterrupt | None) -> None:
        self.mark_started(key)
        if not (end := self._future(key)).done():
            end.set_result(stop)

    def _future(self, key: str) -> "asyncio.Future[GraphInterrupt | None]":
        if key not in self._ends:
            self._ends[key] = asyncio.get_running_loop().create_future()
        return self._ends[key]


@dataclass(frozen=True, slots=True)
class Services:
    """The services of an engine that flows use.

    Attributes:
        agents: All agents, by name.
        subagents: The agents to which other agents can delegate, by name.
        of_plugins: The objects that plugins provide, by class.
        tool_services: Returns the services that tools of a run get from their context, by class.
        prices: The prices of tokens, by model.
        secrets: The secrets that are known by their values, which errors of third-party code must not show.
        reviewer: The model that decides on calls before a person is asked, or None.
        asking_calls: The calls whose tools have asked the person and wait in this process, by id.
        text_models: The models whose endpoints refuse or ignore tools, by identity of the model object and model name.
    """

    clock: Clock
    ids: Ids
    conversations: ConversationManager
    artifacts: ArtifactManager
    runs: RunStore
    calls: CallStore
    approvals: ApprovalStore
    tools: ToolRegistry
    plans: PlanStore
    agents: Mapping[str, BaseAgent]
    subagents: Mapping[str, BaseAgent]
    graph_config: GraphConfig
    of_plugins: Mapping[type, Any] = field(default_factory=dict)
    tool_services: Callable[[StoredRun], Mapping[type, Any]] = lambda _run: {}
    prices: Mapping[str, Price] = field(default_factory=dict)
    middleware: MiddlewareStack = field(default_factory=MiddlewareStack)
    secrets: SecretLookup = field(default_factory=SecretLookup)
    reviewer: Reviewer | None = None
    text_models: set[tuple[int, str]] = field(default_factory=set)
    asking_calls: dict[str, "AskingCall"] = field(default_factory=dict)

    def service(self, kind: type[T]) -> T:
        """Return the object of this class that a plugin provides."""
        provided: T = self.of_plugins[kind]
        return provided


@dataclass(frozen=True, slots=True)
class RunContext:
    """One run, with the services that it uses.

    Attributes:
        policy: Answers approval requests before a person does.
        is_new: Whether the run was started in this process and has not waited yet.
        secrets: Masks the results of models, tools and graphs.
        transcripts: The turns of jobs that were read since the flow was entered, by job; see `transcript`.
        flow: The run's flow; None for an adapted graph.
        text_agents: The agents that write calls in the text although their models have native calls.
    """

    run: StoredRun
    policy: ApprovalPolicy
    event_writer: EventWriter
    services: Services
    clock: RunClock
    middleware: RunMiddleware
    subruns: SubrunRunner
    is_new: bool = True
    jobs: JobBoard = field(default_factory=JobBoard)
    secrets: KnownSecrets = field(default_factory=KnownSecrets)
    transcripts: dict[str, JobTranscript] = field(default_factory=dict)
    flow: FlowSpec | None = None
    text_agents: set[str] = field(default_factory=set)

    def transcript(self, job_id: str) -> JobTranscript:
        """Return the cached turns of a job."""
        if job_id not in self.transcripts:
            is_new = self.is_new and is_main(job_id)
            self.transcripts[job_id] = JobTranscript(self.services.calls, self.run.run_id, job_id, is_new=is_new)
        return self.transcripts[job_id]

    async def artifacts(self) -> list[Artifact]:
        """Return the artifacts on the branch of the run."""
        run = self.run
        return await self.services.artifacts.list_artifacts(run.conversation_id, message_id=run.message_id)

    def enter(self) -> None:
        """Remove the jobs from before a pause; called before the flow is entered."""
        self.jobs.reset()
        self.transcripts.clear()

    def agent(self, name: str, tools: Sequence[str] = ()) -> BaseAgent:
        """Return the agent of this name, restricted to `tools` if there are any; `ToolError` for an unknown name.

        In a run without questions to the person, the agent does not get the tool `ask_person`.
        """
        agent = self.services.agents.get(name) or self.subagent(name)
        if agent.can_change_protocol and agent.protocol.name == "native":
            is_text = name in self.text_agents or self._model_key(agent) in self.services.text_models
            agent = agent.with_text_calls() if is_text else agent
        offered = [tool for tool in agent.tool_names if not tools or tool in tools]
        if ask_person.name in offered and CLARIFY_SETTING not in self.run.settings:
            offered.remove(ask_person.name)
        return agent if len(offered) == len(agent.tool_names) else agent.with_tools(offered)

    def use_text_calls(self, agent: BaseAgent) -> BaseAgent:
        """Return the agent with calls in the text; later runs with this model also use calls in the text."""
        self.text_agents.add(agent.config.name)
        self.services.text_models.add(self._model_key(agent))
        return agent.with_text_calls()

    def _model_key(self, agent: BaseAgent) -> tuple[int, str]:
        return id(agent.model), agent.model_for_run(self.run.settings.get("model"))

    def subagent(self, name: str) -> BaseAgent:
        """Return the delegable agent of this name; `ToolError` for any other name."""
        try:
            return self.services.subagents[name]
        except KeyError:
            names = ", ".join(self.services.subagents) or "nobody"
            raise ToolError(f"There is no agent {name!r}. You can delegate to: {names}.") from None

    def tool_context(self, agent: BaseAgent, job_id: str, tool_call_id: str, tool: str) -> ToolContext:
        """Create the context of a tool call; the tool may call `notify` from any thread."""
        loop, thread = asyncio.get_running_loop(), threading.get_ident()
        services = self.services.tool_services(self.run)
        if self.flow is not None and self.flow.tool_services is not None:
            services = {**services, **self.flow.tool_services(self.services, self.policy, self.run)}

        def notify(kind: str, data: Mapping[str, Any]) -> None:
            payload = {"job_id": job_id, **data}
            emit = partial(self.event_writer.emit, StreamEventType(kind), payload, agent=agent.config.name, tool=tool)
            emit() if threading.get_ident() == thread else loop.call_soon_threadsafe(emit)

        return ToolContext(
            run_id=self.run.run_id,
            conversation_id=self.run.conversation_id,
            message_id=self.run.message_id,
            agent=agent.config.name,
            tool_call_id=tool_call_id,
            now=self.clock.now(),
            services=services,
            notify=notify,
            tool_protocol=agent.protocol.name,
        )


def is_main(job_id: str) -> bool:
    """Return whether a job is the main loop of its run."""
    return job_id == MAIN_JOB
