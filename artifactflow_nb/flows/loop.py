"""The agent loop, of which every flow consists.

::

    START -> model ---- done ----> END        a main loop takes its first turn before it starts, at gate or tools
             ^   |
             |   +-- a person is waited for -----> gate <-+
             |   |                                  |     |
             |   +--------------> tools <-----------+     |
             |                    |   |                   |
             |                    |   +-- the next waits -+
             |                    |   ^
             +--- all have run ---+   |          tools runs calls in order; adjacent calls that delegate
                                  |   |          are jobs that run at the same time, each with loops of its own
                                  +> job, job, ...

The gate only interrupts. All other steps are identified by rows of the store, so that a node that is entered again
after a crash or an interrupt repeats nothing.

Compiling a graph takes ten milliseconds or more, and the result does not depend on an engine. Each graph is therefore
compiled once per process, and each engine makes a shallow copy with its own checkpoints in microseconds.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache, partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeVar

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.errors import GraphBubbleUp
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, Send, interrupt

from artifactflow_nb.agents.base import BaseAgent
from artifactflow_nb.core.events import MAIN_JOB, StreamEventType
from artifactflow_nb.core.language import EnglishText
from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.core.toolcalls.xml import parse_reply
from artifactflow_nb.errors import CassetteMiss, RunFailed, StoreError, UsageError, describe_error, redacted
from artifactflow_nb.flows.approval import bind_call, effective_params, must_wait, publish_decisions, waiting_calls
from artifactflow_nb.flows.base import FlowOutcome, FlowSpec
from artifactflow_nb.flows.budget import pending_budget_requests
from artifactflow_nb.flows.services import RunContext, is_main
from artifactflow_nb.flows.state import (
    AgentMemory,
    AgentState,
    ExecutionPhase,
    GraphResponse,
    executing_phase,
    merge_agent_response_to_state,
    state_classes,
)
from artifactflow_nb.flows.tool_call import execute_call, run_call, with_decision_note
from artifactflow_nb.flows.turn import ModelTurn, take_turn
from artifactflow_nb.sources.citation_marks import SourceNumbers
from artifactflow_nb.sources.citations import find_addresses
from artifactflow_nb.store.artifact_versions import TASK_PLAN_ID, Artifact
from artifactflow_nb.store.artifacts import Authorship
from artifactflow_nb.store.calls import FINISHED, StoredCall
from artifactflow_nb.tools.lead import Delegation
from artifactflow_nb.tools.threads import is_task_cancelled

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
    from langgraph.pregel import Pregel


G = TypeVar("G", bound="Pregel[Any, Any, Any, Any]")


def with_saver(graph: G, saver: BaseCheckpointSaver[str]) -> G:
    """Copy a graph with other checkpoints; keep the classes that the state may have, which `Pregel.copy` drops."""
    ours = copy(graph)
    ours.checkpointer = saver.with_allowlist({(cls.__module__, cls.__name__) for cls in state_classes(graph)})
    return ours


RECURSION_LIMIT = 1_000_000_000
"""No limit in effect: a loop ends with an answer at the round limit of its agent, not with an error of LangGraph."""

LABEL_CHARS = 120

TRUNCATION_NOTE = "[The answer ends here because the model reached its output limit.]"
FILTER_NOTE = "[The answer ends here because the endpoint's content filter stopped it.]"
ANSWER_NOTES = {"length": TRUNCATION_NOTE, "content_filter": FILTER_NOTE}
"""Notes below an incomplete answer, by finish reason."""
_REASONS = {
    "length": ", cut off at its output limit",
    "content_filter": ", because the endpoint's content filter stopped it",
}
"""Endings of the error for a missing answer, by finish reason."""

NO_SOURCE: EnglishText = "This answer names no source."
"""Notice about an answer without sources in a flow that cites sources; the text of the model stays unchanged."""

LoopGraph = CompiledStateGraph[AgentState, RunContext, AgentState, AgentState]

Delegate = Callable[[RunContext, AgentState, str, Any], Awaitable[ToolResult]]
"""Executes a delegating call; takes the run, the state of the calling loop, and the id and parameters of the call."""


def initial_state(
    *,
    task: str,
    agent: str,
    session_id: str,
    thread_id: str,
    user_message_id: str,
    job_id: str = MAIN_JOB,
    tools: Sequence[str] = (),
) -> AgentState:
    """Create the state in which a loop starts."""
    restricted = AgentState(tools=list(tools)) if tools else AgentState()
    return AgentState(
        **restricted,
        current_task=" ".join(task.split())[:LABEL_CHARS],
        session_id=session_id,
        thread_id=thread_id,
        user_message_id=user_message_id,
        current_agent=agent,
        job_id=job_id,
        phase=executing_phase(job_id).value,
        pending=[],
        agent_memory=AgentMemory(tool_round_count=0, step=0, call_id=""),
        compression_level="normal",
        graph_response=None,
    )


def start_of_job(
    caller: Mapping[str, Any], job_id: str, agent: str, instruction: str, tools: Sequence[str] = ()
) -> AgentState:
    """Create the state in which the loop of a delegated job starts, in the same run as the calling loop."""
    return initial_state(
        task=instruction,
        agent=agent,
        session_id=caller["session_id"],
        thread_id=caller["thread_id"],
        user_message_id=caller["user_message_id"],
        job_id=job_id,
        tools=tools,
    )


async def model_node(state: AgentState, runtime: Runtime[RunContext]) -> Command[str]:
    """Take a turn, unless the budget is exceeded, and request the approvals of its calls."""
    ctx = runtime.context
    agent = ctx.agent(state["current_agent"], state.get("tools", ()))
    turns = await ctx.transcript(state["job_id"]).read()
    if turns and turns[-1].step > state["agent_memory"]["step"]:  # the node is entered again
        turn = ModelTurn(turns[-1].call_id, turns[-1].calls, state["compression_level"])
    else:
        if waiting := await pending_budget_requests(ctx, agent.config.name, state["job_id"]):
            return _to_gate(waiting)
        turn = await take_turn(ctx, state, turns)
    waiting = await waiting_calls(ctx, agent, state["job_id"], turn.calls)
    update = merge_agent_response_to_state(
        state, call_id=turn.call_id, has_calls=bool(turn.calls), waiting=waiting, level=turn.level
    )
    return Command(update=update, goto="gate" if waiting else "tools" if turn.calls else END)


async def _first_node(state: AgentState) -> str:  # a coroutine, or LangGraph would call it on another thread
    """Return the node after the first turn, or the model if no turn was taken before the graph was entered."""
    if "pending" not in state:
        raise UsageError(
            "This graph reads and stores its turns in an engine, so ainvoke() cannot run it. Ask with "
            "engine.controller.execute(question); make a graph of your own a flow with af.adapt(graph)."
        )
    return "gate" if state["pending"] else "tools" if state["agent_memory"]["call_id"] else "model"


async def gate_node(state: AgentState, runtime: Runtime[RunContext]) -> dict[str, Any]:
    """Interrupt until all requests of the reply are decided; the decisions are read from the store."""
    pending, ctx = state["pending"], runtime.context
    requests = await ctx.services.approvals.decisions(pending)
    if undecided := [requests[key].request_id for key in pending if requests[key].decision is None]:
        interrupt({"gates": [undecided]})  # raises: the node is entered again, and reads again, on resume
    return {"phase": ExecutionPhase.TOOL_EXECUTING.value, "pending": []}


def _to_gate(waiting: Sequence[str]) -> Command[str]:
    return Command(update={"phase": ExecutionPhase.WAITING_PERMISSION.value, "pending": waiting}, goto="gate")


def tools_node(delegates: Mapping[str, Delegate]) -> Any:
    """Create the node that runs the calls of a reply in order.

    The node stops at the first call that waits, and at adjacent calls that delegate, and stores their ids in `pending`.
    """

    def is_job(agent: BaseAgent, call: StoredCall) -> bool:
        return call.call.name in delegates and call.call.name in agent.tool_names and not call.call.error

    async def tools(state: AgentState, runtime: Runtime[RunContext]) -> Command[str]:
        ctx = runtime.context
        agent = ctx.agent(state["current_agent"], state.get("tools", ()))
        reply_calls = await ctx.services.calls.calls_of_reply(state["agent_memory"]["call_id"])
        calls = [call for call in reply_calls if call.status != FINISHED]
        requests = await ctx.services.approvals.decisions([call.tool_call_id for call in calls])
        if requests:  # another process may have decided meanwhile
            await publish_decisions(ctx.services.approvals, ctx.event_writer, ctx.run.run_id)
        for index, call in enumerate(calls):
            jobs = list(takewhile(lambda call: is_job(agent, call), calls[index:]))
            keys = [(job, requests.get(job.tool_call_id)) for job in jobs or [call]]
            if waiting := [
                job.tool_call_id for job, request in keys if await must_wait(ctx, agent, state["job_id"], job, request)
            ]:
                return _to_gate(waiting)
            if jobs:
                pending = [job.tool_call_id for job in jobs]
                update = {"phase": ExecutionPhase.TOOL_EXECUTING.value, "pending": pending}
                starts = [Send("job", {**state, **update, "pending": [key]}) for key in pending]
                return Command(update=update, goto=starts)
            await run_call(ctx, agent, state["job_id"], call, requests.get(call.tool_call_id))
        return Command(update={"phase": executing_phase(state["job_id"]).value, "pending": []}, goto="model")

    return tools


def build_loop(
    delegates: Mapping[str, Delegate] | None = None,
) -> StateGraph[AgentState, RunContext, AgentState, AgentState]:
    """Build the loop as a graph.

    Args:
        delegates: The functions that execute delegating calls, by name of the tool; None for agents without delegates.
    """
    delegates = delegates or {}
    graph = StateGraph(AgentState, context_schema=RunContext)
    # Nodes name the next node: for a conditional edge LangGraph copies the state, which takes longer than the node.
    graph.add_node("model", model_node, destinations=("gate", "tools", END))
    graph.add_node("gate", gate_node)
    after_tools = ("gate", "job", "model") if delegates else ("gate", "model")
    graph.add_node("tools", tools_node(delegates), destinations=after_tools)
    graph.add_conditional_edges(START, _first_node, ["model", "gate", "tools"])
    graph.add_edge("gate", "tools")
    if delegates:
        graph.add_node("job", job_node(delegates))
        graph.add_edge("job", "tools")
    return graph


@cache
def job_loop() -> LoopGraph:
    """Return the loop of agents that do not delegate; the loop has no state and is compiled once per process."""
    return build_loop().compile()


def job_node(delegates: Mapping[str, Delegate]) -> Any:
    """Create the node that executes one delegating call."""

    async def job(state: AgentState, runtime: Runtime[RunContext]) -> dict[str, Any]:
        ctx = runtime.context
        key = state["pending"][0]
        agent = ctx.agent(state["current_agent"], state.get("tools", ()))
        calls = await ctx.services.calls.calls_of_reply(state["agent_memory"]["call_id"])
        call = next(call for call in calls if call.tool_call_id == key)
        request = (await ctx.services.approvals.decisions([key])).get(key)

        async def perform() -> ToolResult:
            entry, _ = bind_call(ctx, agent, call)
            args = entry.bind(effective_params(call, request), agent.protocol.name)
            return with_decision_note(await delegates[entry.name](ctx, state, key, args), request)

        with ctx.jobs.track(key):
            if call.status != FINISHED:
                await execute_call(ctx, agent, state["job_id"], call, request, perform)
        return {}

    return job


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The end of the loop of a job.

    Attributes:
        text: The answer; empty if the job failed.
        error: The error of a failed job.
        hit_round_limit: Whether the agent called tools after its last round, although it could report a failure.
    """

    text: str = ""
    error: Exception | None = None
    hit_round_limit: bool = False


async def run_job(ctx: RunContext, loop: LoopGraph, start: AgentState) -> JobOutcome:
    """Run the loop of a job. The outcome has the error of the job; errors of the store or a recording are raised."""
    try:
        end = await loop.ainvoke(start, context=ctx)
        final = await final_text(ctx, start["job_id"], end["graph_response"])
    except (GraphBubbleUp, StoreError, CassetteMiss):
        raise
    except Exception as error:
        if is_task_cancelled():  # LangGraph reports a cancelled node as an error of its own
            raise
        return JobOutcome(error=redacted(error, ctx.services.secrets.redact))
    finally:
        ctx.transcripts.pop(start["job_id"], None)
    max_rounds = ctx.agent(start["current_agent"], start.get("tools", ())).config.max_tool_rounds
    text = "\n\n".join([final.text, *(f"[{notice}]" for notice in final.notices)])
    return JobOutcome(text, hit_round_limit=end["agent_memory"]["tool_round_count"] > max_rounds)


async def last_call(ctx: RunContext, job_id: str, tool: str) -> Mapping[str, Any] | None:
    """Return the parameters with which a job's last successful call of a tool was executed, or None."""
    turns = await ctx.services.calls.transcript(ctx.run.run_id, job_id)
    calls = [call for turn in turns for call in turn.calls if call.call.name == tool]
    done = [call for call in calls if call.result is not None and call.result.success]
    if not done:
        return None
    requests = await ctx.services.approvals.decisions([done[-1].tool_call_id])
    return effective_params(done[-1], requests.get(done[-1].tool_call_id))


def subagent_delegate(loop: LoopGraph) -> Delegate:
    """Create the function that runs the loop of a sub-agent, whose answer is the result of the call."""

    async def delegate(ctx: RunContext, state: AgentState, key: str, args: Delegation) -> ToolResult:
        ctx.subagent(args.agent_name)
        end = await run_job(ctx, loop, start_of_job(state, key, args.agent_name, args.instruction))
        if (error := end.error) is not None:
            problem = f"{args.agent_name} could not finish: {describe_error(error)}"
            return ToolResult(success=False, error=problem, metadata={"error_type": type(error).__name__})
        return ToolResult(success=True, data=end.text, metadata={"agent": args.agent_name})

    return delegate


@dataclass(frozen=True, slots=True)
class FinalText:
    """The text with which a loop ended, notices for the person, and the outcome of the loop."""

    text: str
    notices: tuple[str, ...] = ()
    outcome: str | None = None


async def final_text(ctx: RunContext, job_id: str, response: GraphResponse) -> FinalText:
    """Return the text of the reply that ended a loop, or the results so far if the reply has only tool calls.

    Errors: `RunFailed` if there is neither text nor a result.
    """
    reply = ctx.transcript(job_id).last_reply or await ctx.services.calls.reply(response["call_id"])
    text, called = reply.text, ", ".join(dict.fromkeys(reply.ignored_calls))
    notices: tuple[str, ...] = ()
    if called:
        notices = (f"The model called {called} in its last turn, in which it had to answer. No tool was run.",)
    if called and not text:
        if is_main(job_id) and (written := await _written_artifacts(ctx)):
            text = "\n".join(f"The artifact `{entry.artifact_id}` is written: {entry.title}." for entry in written)
        else:
            turns = await ctx.services.calls.transcript(ctx.run.run_id, job_id)
            text = next(filter(None, (parse_reply(turn.content).text for turn in reversed(turns))), "")
    if not text:
        if called:
            problem = f"a call of {called}, which it could not make any more, instead of an answer"
        else:
            problem = "nothing but reasoning" if reply.reasoning else "an empty answer"
        reason = _REASONS.get(reply.finish_reason, "")
        raise RunFailed(f"The model ended with {problem}{reason}. Ask again, or choose another model.")
    note = ANSWER_NOTES.get(reply.finish_reason)
    return FinalText(f"{text}\n\n{note}" if note else text, notices, reply.outcome)


async def _written_artifacts(ctx: RunContext) -> list[Artifact]:
    """Return the artifacts that the run has written, except the plan; the newest is the last."""
    run_id = ctx.run.run_id
    written = [entry for entry in await ctx.artifacts() if entry.run_id == run_id and entry.artifact_id != TASK_PLAN_ID]
    return sorted(written, key=lambda entry: entry.created_at)


async def _renumber_written(ctx: RunContext, numbers: SourceNumbers) -> list[str]:
    """Give each source one number in all reports of the run; return the text of every artifact.

    Sources are renumbered at the end of the run, because each agent cites by its own numbers while it writes.
    """
    run, artifacts = ctx.run, ctx.services.artifacts
    texts = []
    for entry in await _written_artifacts(ctx):
        text = numbers.apply(entry.content) if entry.content_type == "text/markdown" else entry.content
        texts.append(text)
        if text == entry.content:
            continue
        by = Authorship(
            run.conversation_id,
            run.message_id,
            entry.created_by,
            run.run_id,
            at=ctx.clock.now(),
            reason="The workbench gave each source one number.",
        )
        version = await artifacts.revise(
            by, entry.artifact_id, lambda current: numbers.apply(current.content), update_type="update"
        )
        payload = {"job_id": MAIN_JOB, "tool_call_id": "", **version.event_payload}
        ctx.event_writer.emit(StreamEventType.ARTIFACT_CHANGED, payload, agent=entry.created_by)
    return texts


class DeferredSaver(BaseCheckpointSaver[str]):
    """Keeps checkpoints in memory until the run waits, because a run that ends without waiting needs none."""

    def __init__(self, saver: BaseCheckpointSaver[str], *, has_checkpoint: bool) -> None:
        super().__init__(serde=saver.serde)
        self._saver = saver
        self._has_checkpoint = has_checkpoint
        self._steps: list[Callable[[], Awaitable[object]]] = []

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return the version of a channel after `current`."""
        return self._saver.get_next_version(current, channel)

    async def aget_tuple(self, config: "RunnableConfig") -> "CheckpointTuple | None":
        """Return the checkpoint from which the graph continues."""
        return await self._saver.aget_tuple(config) if self._has_checkpoint else None

    async def aput(
        self,
        config: "RunnableConfig",
        checkpoint: "Checkpoint",
        metadata: "CheckpointMetadata",
        new_versions: "ChannelVersions",
    ) -> "RunnableConfig":
        """Add a checkpoint."""
        self._steps.append(partial(self._saver.aput, config, checkpoint, metadata, new_versions))
        return {"configurable": dict(config["configurable"], checkpoint_id=checkpoint["id"])}

    async def aput_writes(
        self, config: "RunnableConfig", writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Add the writes of a task since the checkpoint."""
        self._steps.append(partial(self._saver.aput_writes, config, writes, task_id, task_path))

    async def store(self) -> None:
        """Store all checkpoints and writes, in order."""
        for step in self._steps:
            await step()


@dataclass(frozen=True, slots=True)
class LoopFlow:
    """A built-in flow, which consists of loops.

    Attributes:
        saver: Returns the saver of the engine, once the engine is open.
    """

    spec: FlowSpec
    saver: Callable[[], BaseCheckpointSaver[str]]

    async def advance(self, ctx: RunContext, *, has_checkpoint: bool) -> FlowOutcome:
        """Enter the graph at its start or at its last checkpoint, which only a waiting run has.

        The first turn is taken before the graph is entered, which saves a run of one turn a third of its CPU time.

        LangSmith's tracing is off: `LANGSMITH_TRACING=true`, set for a user's own LangChain code, would send the
        prompts and sources of every run to its server.
        """
        from langsmith import tracing_context

        run = ctx.run
        state: Any = None
        ctx.enter()
        with tracing_context(enabled=False):
            if not has_checkpoint:
                state = initial_state(
                    task=run.question,
                    agent=self.spec.main_agent(run) if self.spec.main_agent else self.spec.agents[0].config.name,
                    session_id=run.conversation_id,
                    thread_id=run.thread_id,
                    user_message_id=run.message_id,
                )
                first = await model_node(state, Runtime(context=ctx))
                state |= first.update
            if state is None or state["graph_response"] is None:
                config: Any = {"configurable": {"thread_id": run.thread_id}, "recursion_limit": RECURSION_LIMIT}
                graph = copy(self.spec.graph())
                graph.checkpointer = saver = DeferredSaver(self.saver(), has_checkpoint=has_checkpoint)
                state = await graph.ainvoke(state, config, context=ctx, durability="exit")
        if interrupts := state.get("__interrupt__"):
            await saver.store()
            return FlowOutcome([list(gate) for stop in interrupts for gate in stop.value["gates"]])
        final = await final_text(ctx, MAIN_JOB, state["graph_response"])
        notices, numbers = final.notices, SourceNumbers()
        if self.spec.cites_sources:
            texts = (final.text, *await _renumber_written(ctx, numbers))
            notices += () if any(map(find_addresses, texts)) else (NO_SOURCE,)
        return FlowOutcome(response=numbers.apply(final.text), notices=notices, answer_outcome=final.outcome)
