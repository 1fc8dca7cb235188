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
             +--- all have run ---+   |          tools runs calls in order; adjacent jobs for sub-agents
                                  |   |          run at the same time, each with a loop of its own
                                  +> job, job, ...

The gate only interrupts. Everything else is keyed by rows of the store, so that a node that is entered again after a
crash or an interrupt repeats nothing.
"""

import os
from itertools import takewhile
from typing import Any

from artifactflow_nb.errors import CassetteMiss, RunFailed, StoreError, ToolError, told
from artifactflow_nb.flows.execute import keep_result, params_of, run_call
from artifactflow_nb.flows.permission import announce_decisions, bind, has_to_wait, waiting_calls
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.flows.spending import waits_for_budget
from artifactflow_nb.flows.state import (
    AgentState,
    ExecutionPhase,
    GraphResponse,
    executing_phase,
    initial_state,
    merge_agent_response_to_state,
)
from artifactflow_nb.flows.turn import take_turn, taken
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.store.calls import FINISHED, StoredCall
from artifactflow_nb.tools.delegate import Delegation, call_subagent
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


async def model(state: AgentState, runtime: Runtime[RunContext]) -> dict[str, Any]:
    """Take a turn, unless the run's budget is spent, and find out which of its calls wait for a person."""
    ctx = runtime.context
    agent = ctx.agent(state["current_agent"])
    turns = await ctx.services.calls.transcript(ctx.run.run_id, state["job_id"])
    turn = taken(state, turns)
    if turn is None:
        if waiting := await waits_for_budget(ctx, agent, state["job_id"]):
            return {"phase": ExecutionPhase.WAITING_PERMISSION.value, "pending": waiting}
        turn = await take_turn(ctx, state, turns)
    waiting = await waiting_calls(ctx, agent, state["job_id"], turn.calls)
    return merge_agent_response_to_state(
        state, call_id=turn.call_id, has_calls=bool(turn.calls), waiting=waiting, level=turn.level
    )


async def gate(state: AgentState, runtime: Runtime[RunContext]) -> dict[str, Any]:
    """Wait until all requests of the reply are decided; the decisions are read from the store."""
    pending = state["pending"]
    await runtime.context.tape.until_taken(pending)
    asked = await runtime.context.services.requests.decisions(pending)
    if undecided := [asked[key].request_id for key in pending if asked[key].decision is None]:
        interrupt({"requests": undecided})  # raises: the node is entered anew, and reads anew, when the run goes on
    return {"phase": ExecutionPhase.TOOL_EXECUTING.value, "pending": []}


def tools_node(*, has_jobs: bool) -> Any:
    """The node that runs the calls of a reply in order.

    It stops at the first call that waits, and at the first job for a sub-agent where the loop has jobs; those become
    `pending`.
    """

    def is_job(call: StoredCall) -> bool:
        return has_jobs and call.call.name == call_subagent.name

    async def tools(state: AgentState, runtime: Runtime[RunContext]) -> dict[str, Any]:
        ctx = runtime.context
        agent = ctx.agent(state["current_agent"])
        calls = [call for call in await _calls(ctx, state) if call.status != FINISHED]
        asked = await ctx.services.requests.decisions([call.tool_call_id for call in calls])
        if asked:  # another process may have decided meanwhile
            await announce_decisions(ctx.services.requests, ctx.journal, ctx.run.run_id)
        for index, call in enumerate(calls):
            if is_job(call) and call_subagent in agent.tools:
                jobs = takewhile(is_job, calls[index:])
                return {"phase": ExecutionPhase.TOOL_EXECUTING.value, "pending": [job.tool_call_id for job in jobs]}
            if await has_to_wait(ctx, agent, state["job_id"], call, asked.get(call.tool_call_id)):
                return {"phase": ExecutionPhase.WAITING_PERMISSION.value, "pending": [call.tool_call_id]}
            await run_call(ctx, agent, state["job_id"], call, asked.get(call.tool_call_id))
        return {"phase": executing_phase(state["job_id"]).value, "pending": []}

    return tools


async def _calls(ctx: RunContext, state: AgentState) -> tuple[StoredCall, ...]:
    return await ctx.services.calls.calls_of(state["agent_memory"]["call_id"])


def build_loop(jobs: "LoopGraph | None" = None) -> StateGraph[AgentState, RunContext, AgentState, AgentState]:
    """The loop as a graph.

    Args:
        jobs: The loop that carries out what is delegated; None for agents that cannot delegate.
    """
    graph = StateGraph(AgentState, context_schema=RunContext)
    graph.add_node("model", model)
    graph.add_node("gate", gate)
    graph.add_node("tools", tools_node(has_jobs=jobs is not None))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", _after_model, ["gate", "tools", END])
    graph.add_edge("gate", "tools")
    if jobs is None:
        graph.add_conditional_edges("tools", _after_tools, ["gate", "model"])
        return graph
    graph.add_node("job", job_node(jobs))
    graph.add_conditional_edges("tools", _after_tools, ["gate", "job", "model"])
    graph.add_edge("job", "tools")
    return graph


def _after_model(state: AgentState) -> str:
    if state["phase"] == ExecutionPhase.COMPLETED:
        return END
    return "gate" if state["phase"] == ExecutionPhase.WAITING_PERMISSION else "tools"


def _after_tools(state: AgentState) -> str | list[Send]:
    if state["phase"] == ExecutionPhase.WAITING_PERMISSION:
        return "gate"
    return [Send("job", {**state, "pending": [key]}) for key in state["pending"]] or "model"


def job_node(loop: LoopGraph) -> Any:
    """The node that carries out one delegating call with a loop of its own."""

    async def job(state: AgentState, runtime: Runtime[RunContext]) -> dict[str, Any]:
        ctx = runtime.context
        key = state["pending"][0]
        agent = ctx.agent(state["current_agent"])
        call = next(call for call in await _calls(ctx, state) if call.tool_call_id == key)
        asked = await ctx.services.requests.decisions([key])

        async def perform() -> ToolResult:
            if (given := ctx.tape.given(key)) is not None:
                return given
            entry, _ = bind(ctx, agent, call)
            args = entry.bind(params_of(call, asked.get(key)))
            if not isinstance(args, Delegation):
                raise ToolError(f"{call.call.name} cannot be delegated.")
            return await _delegate(ctx, loop, state, key, args)

        if call.status != FINISHED:
            await keep_result(ctx, agent, state["job_id"], call, asked.get(key), perform)
        return {}

    return job


async def _delegate(ctx: RunContext, loop: LoopGraph, state: AgentState, key: str, job: Delegation) -> ToolResult:
    """Run the job's loop; what goes wrong in it is a result that tells the agent that delegated."""
    ctx.subagent(job.agent_name)
    start = initial_state(
        task=job.instruction,
        agent=job.agent_name,
        session_id=state["session_id"],
        thread_id=state["thread_id"],
        user_message_id=state["user_message_id"],
        job_id=key,
    )
    try:
        end = await loop.ainvoke(start, context=ctx)
        text = await final_text(ctx, end["graph_response"])
    except (GraphBubbleUp, StoreError, CassetteMiss):
        raise
    except Exception as error:
        if is_cancelled():  # LangGraph tells a cancelled node as an error of its own
            raise
        problem = f"{job.agent_name} could not finish: {told(error)}"
        return ToolResult(success=False, error=problem, metadata={"error_type": type(error).__name__})
    return ToolResult(success=True, data=text, metadata={"agent": job.agent_name})


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
