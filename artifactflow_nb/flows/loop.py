"""The one agent loop, from which every flow is made.

::

    START -> model ---- done ----> END
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

The gate only interrupts. Everything else is keyed by rows of the store, so that a node that is entered again after a
crash or an interrupt repeats nothing.
"""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import Any

from pydantic import BaseModel

from artifactflow_nb.agents.base import BaseAgent
from artifactflow_nb.errors import CassetteMiss, RunFailed, StoreError, ToolError, masked, told
from artifactflow_nb.flows.execute import keep_result, run_call, with_word
from artifactflow_nb.flows.flow import Standing
from artifactflow_nb.flows.permission import announce_decisions, bind, has_to_wait, params_of, waiting_calls
from artifactflow_nb.flows.services import RunContext, agent_of
from artifactflow_nb.flows.spending import waits_for_budget
from artifactflow_nb.flows.state import (
    AgentState,
    ExecutionPhase,
    GraphResponse,
    executing_phase,
    initial_state,
    merge_agent_response_to_state,
    start_of_job,
)
from artifactflow_nb.flows.turn import take_turn, taken
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.store.calls import FINISHED, StoredCall
from artifactflow_nb.store.requests import Asked
from artifactflow_nb.store.runs import StoredRun
from artifactflow_nb.tools.delegate import Delegation
from artifactflow_nb.tools.threads import is_cancelled
from artifactflow_nb.xml_calls import parse_reply

os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")  # read when LangGraph is imported

from langgraph.errors import GraphBubbleUp
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Send, interrupt

RECURSION_LIMIT = 1_000_000_000
"""None: what ends a loop is its agent's own limit of rounds, with an answer, and not LangGraph's, with an error."""

CUT_OFF = "[The answer ends here because the model reached its output limit.]"

LoopGraph = CompiledStateGraph[AgentState, RunContext, AgentState, AgentState]

Delegate = Callable[[RunContext, AgentState, str, BaseModel], Awaitable[ToolResult]]
"""Carries out a call that delegates: in which run, the state of the loop that called, the call's id, its parameters."""


async def model(state: AgentState, runtime: Runtime[RunContext]) -> dict[str, Any]:
    """Take a turn, unless the run's budget is spent, and find out which of its calls wait for a person."""
    ctx = runtime.context
    agent = agent_of(ctx, state)
    turns = await ctx.services.calls.transcript(ctx.run.run_id, state["job_id"])
    turn = taken(state, turns)
    if turn is None:
        if waiting := await waits_for_budget(ctx, agent.config.name, state["job_id"]):
            return {"phase": ExecutionPhase.WAITING_PERMISSION.value, "pending": waiting}
        turn = await take_turn(ctx, state, turns)
    waiting = await waiting_calls(ctx, agent, state["job_id"], turn.calls)
    return merge_agent_response_to_state(
        state, call_id=turn.call_id, has_calls=bool(turn.calls), waiting=waiting, level=turn.level
    )


async def gate(state: AgentState, runtime: Runtime[RunContext]) -> dict[str, Any]:
    """Wait until all requests of the reply are decided; the decisions are read from the store."""
    pending, ctx = state["pending"], runtime.context
    await ctx.beside.halting.wait_for(ctx.tape.until_taken(pending))
    asked = await ctx.services.requests.decisions(pending)
    if undecided := [asked[key].request_id for key in pending if asked[key].decision is None]:
        interrupt({"gates": [undecided]})  # raises: the node is entered anew, and reads anew, when the run goes on
    return {"phase": ExecutionPhase.TOOL_EXECUTING.value, "pending": []}


def tools_node(delegates: Mapping[str, Delegate]) -> Any:
    """The node that runs the calls of a reply in order.

    It stops at the first call that waits, and at the first one that delegates; those become `pending`.
    """

    def is_job(agent: BaseAgent, call: StoredCall) -> bool:
        return call.call.name in delegates and call.call.name in agent.tool_names and not call.call.error

    async def tools(state: AgentState, runtime: Runtime[RunContext]) -> dict[str, Any]:
        ctx = runtime.context
        agent = agent_of(ctx, state)
        calls = [call for call in await _calls(ctx, state) if call.status != FINISHED]
        asked = await ctx.services.requests.decisions([call.tool_call_id for call in calls])
        if asked:  # another process may have decided meanwhile
            await announce_decisions(ctx.services.requests, ctx.journal, ctx.run.run_id)
        for index, call in enumerate(calls):
            jobs = list(takewhile(lambda call: is_job(agent, call), calls[index:]))
            if waiting := await _that_wait(ctx, agent, state["job_id"], jobs or [call], asked):
                return {"phase": ExecutionPhase.WAITING_PERMISSION.value, "pending": waiting}
            if jobs:
                return {"phase": ExecutionPhase.TOOL_EXECUTING.value, "pending": [job.tool_call_id for job in jobs]}
            await run_call(ctx, agent, state["job_id"], call, asked.get(call.tool_call_id))
        return {"phase": executing_phase(state["job_id"]).value, "pending": []}

    return tools


async def _that_wait(
    ctx: RunContext, agent: BaseAgent, job_id: str, calls: Sequence[StoredCall], asked: Mapping[str, Asked]
) -> list[str]:
    """The ids of those calls that have to wait for a person, now that their turn has come."""
    keys = [call.tool_call_id for call in calls]
    return [
        key
        for key, call in zip(keys, calls, strict=True)
        if await has_to_wait(ctx, agent, job_id, call, asked.get(key))
    ]


async def _calls(ctx: RunContext, state: AgentState) -> tuple[StoredCall, ...]:
    return await ctx.services.calls.calls_of(state["agent_memory"]["call_id"])


def build_loop(
    delegates: Mapping[str, Delegate] | None = None,
) -> StateGraph[AgentState, RunContext, AgentState, AgentState]:
    """The loop as a graph.

    Args:
        delegates: What carries out the calls that delegate, by the names of their tools; None for agents that cannot.
    """
    delegates = delegates or {}
    graph = StateGraph(AgentState, context_schema=RunContext)
    graph.add_node("model", model)
    graph.add_node("gate", gate)
    graph.add_node("tools", tools_node(delegates))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", _after_model, ["gate", "tools", END])
    graph.add_edge("gate", "tools")
    if not delegates:
        graph.add_conditional_edges("tools", _after_tools, ["gate", "model"])
        return graph
    graph.add_node("job", job_node(delegates))
    graph.add_conditional_edges("tools", _after_tools, ["gate", "job", "model"])
    graph.add_edge("job", "tools")
    return graph


@cache
def job_loop() -> LoopGraph:
    """The loop of agents that hand nothing on, compiled: it keeps nothing, so one does for all flows and engines."""
    return build_loop().compile()


# Coroutines, though they wait for nothing: LangGraph calls a plain function on another thread, and waits for that.


async def _after_model(state: AgentState) -> str:
    if state["phase"] == ExecutionPhase.COMPLETED:
        return END
    return "gate" if state["phase"] == ExecutionPhase.WAITING_PERMISSION else "tools"


async def _after_tools(state: AgentState) -> str | list[Send]:
    if state["phase"] == ExecutionPhase.WAITING_PERMISSION:
        return "gate"
    return [Send("job", {**state, "pending": [key]}) for key in state["pending"]] or "model"


def job_node(delegates: Mapping[str, Delegate]) -> Any:
    """The node that carries out one delegating call."""

    async def job(state: AgentState, runtime: Runtime[RunContext]) -> dict[str, Any]:
        ctx = runtime.context
        key = state["pending"][0]
        agent = agent_of(ctx, state)
        call = next(call for call in await _calls(ctx, state) if call.tool_call_id == key)
        asked = await ctx.services.requests.decisions([key])

        async def perform() -> ToolResult:
            if (given := ctx.tape.given(key)) is not None:
                return given
            entry, _ = bind(ctx, agent, call)
            args = entry.bind(params_of(call, asked.get(key)))
            return with_word(await delegates[entry.name](ctx, state, key, args), asked.get(key))

        with ctx.beside.at_work(key):
            if call.status != FINISHED:
                await keep_result(ctx, agent, state["job_id"], call, asked.get(key), perform)
        return {}

    return job


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How the loop of a job ended.

    Attributes:
        text: Its answer; empty if it failed.
        error: What went wrong; None if nothing did.
        is_used_up: Whether it asked for tools when its rounds were used up, and could say otherwise.
    """

    text: str = ""
    error: Exception | None = None
    is_used_up: bool = False


async def run_job(ctx: RunContext, loop: LoopGraph, start: AgentState) -> JobEnd:
    """Run the loop of a job. What goes wrong in it is told, unless the store or a recording is to blame."""
    try:
        end = await loop.ainvoke(start, context=ctx)
        text = await final_text(ctx, end["graph_response"])
    except (GraphBubbleUp, StoreError, CassetteMiss):
        raise
    except Exception as error:
        if is_cancelled():  # LangGraph tells a cancelled node as an error of its own
            raise
        return JobEnd(error=masked(error, ctx.services.mask))
    most = agent_of(ctx, start).config.max_tool_rounds
    return JobEnd(text, is_used_up=end["agent_memory"]["tool_round_count"] > most)


async def last_call(ctx: RunContext, job_id: str, tool: str) -> Mapping[str, Any] | None:
    """The parameters of the last call of a tool in a job that succeeded, as it was carried out; None if none did."""
    turns = await ctx.services.calls.transcript(ctx.run.run_id, job_id)
    calls = [call for turn in turns for call in turn.calls if call.call.name == tool]
    done = [call for call in calls if call.result is not None and call.result.success]
    if not done:
        return None
    asked = await ctx.services.requests.decisions([done[-1].tool_call_id])
    return params_of(done[-1], asked.get(done[-1].tool_call_id))


def to_subagents(loop: LoopGraph) -> Delegate:
    """Carries out what is delegated to a sub-agent: its loop, whose answer is the result."""

    async def delegate(ctx: RunContext, state: AgentState, key: str, args: BaseModel) -> ToolResult:
        if not isinstance(args, Delegation):
            raise ToolError("This call cannot be delegated.")
        ctx.subagent(args.agent_name)
        end = await run_job(ctx, loop, start_of_job(state, key, args.agent_name, args.instruction))
        if (error := end.error) is not None:
            problem = f"{args.agent_name} could not finish: {told(error)}"
            return ToolResult(success=False, error=problem, metadata={"error_type": type(error).__name__})
        return ToolResult(success=True, data=end.text, metadata={"agent": args.agent_name})

    return delegate


async def final_text(ctx: RunContext, response: GraphResponse) -> str:
    """The prose of the reply that ended a loop; `RunFailed` if there is none."""
    reply = await ctx.services.calls.reply(response["call_id"])
    is_cut = reply.finish_reason == "length"
    text = parse_reply(reply.content, cut=is_cut).text
    if not text:
        what = "nothing but reasoning" if reply.reasoning else "an empty answer"
        limit = ", cut off at its output limit" if is_cut else ""
        raise RunFailed(f"The model ended with {what}{limit}. Ask again, or choose another model.")
    return f"{text}\n\n{CUT_OFF}" if is_cut else text


@dataclass(frozen=True, slots=True)
class LoopFlow:
    """A flow that is made of loops.

    Attributes:
        graph: Gives its graph, ready to run; asked only when one runs: nobody waits for flows that are not used.
        agent: The agent that the main loop runs.
    """

    graph: Callable[[], LoopGraph]
    agent: str

    async def go_on(self, ctx: RunContext, *, is_begun: bool) -> Standing:
        """Enter the graph where it stands: at its start, or where its last checkpoint says."""
        config: Any = {"configurable": {"thread_id": ctx.run.thread_id}, "recursion_limit": RECURSION_LIMIT}
        start = None if is_begun else self._start(ctx)
        ctx.beside.begin()
        state = await self.graph().ainvoke(start, config, context=ctx, durability="async")
        if stops := state.get("__interrupt__"):
            return Standing([list(gate) for stop in stops for gate in stop.value["gates"]])
        return Standing(response=await final_text(ctx, state["graph_response"]))

    def leader(self, run: StoredRun) -> str:
        """The agent that the main loop of a run is of."""
        del run
        return self.agent

    def _start(self, ctx: RunContext) -> AgentState:
        run = ctx.run
        return initial_state(
            task=run.question,
            agent=self.leader(run),
            session_id=run.conversation_id,
            thread_id=run.thread_id,
            user_message_id=run.message_id,
        )
