"""An adapted graph as a flow: it runs until it has an answer, or interrupts to ask a person.

::

    input ──> graph ──> no node is left ─────────> answer
                ^  └──> interrupts ──> requests ──> all decided? ─ no ──> the run waits
                └───────────────────────────────────── yes

What happens is stored at once and only once. But LangGraph runs an interrupted node again from its start, so the code
before its `interrupt` runs twice.

`interrupt("Publish it?")` is the simplest request. A mapping can contain more: `title` or `question`, `message`,
`preview`, `kind` (`tool`, `plan` or `edit`), `tool`, and in `params` values that the person can edit; other keys are
shown as parameters.
"""

from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, cast

from langgraph.types import Command, Interrupt, StateSnapshot

from artifactflow_nb.core.approvals import ApprovalRequest, RequestKind
from artifactflow_nb.core.clock_ids import request_id
from artifactflow_nb.core.events import MAIN_JOB
from artifactflow_nb.core.text.format import clip, storable_text
from artifactflow_nb.errors import RunFailed, describe_error
from artifactflow_nb.flows.approval import TITLE_COLUMNS, request_approval
from artifactflow_nb.flows.base import FlowOutcome
from artifactflow_nb.flows.langgraph.adapt import AdaptedGraph, resume_value
from artifactflow_nb.flows.langgraph.messages import last_answer, to_plain_json
from artifactflow_nb.flows.langgraph.tools import GraphTools
from artifactflow_nb.flows.langgraph.tracer import GraphPaused, GraphTracer
from artifactflow_nb.flows.loop import with_saver
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.store.encoding import to_json
from artifactflow_nb.tools.base import ToolPermission
from artifactflow_nb.tools.threads import is_task_cancelled

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver

RECURSION_LIMIT = 10_007
"""Limit of supersteps for a graph that sets none: LangGraph's own default, instead of the 25 of its event stream."""

_FOREIGN_LOOP = ("bound to a different event loop", "attached to a different loop", "Event loop is closed")
_FOREIGN_LOOP_ADVICE = (
    " The graph was awaited in a cell, so its HTTP client has connections of another event loop: create its models "
    'with default_headers={"Connection": "close"}, or call the graph through the workbench only.'
)

_KINDS = ("tool", "plan", "edit")
_REQUEST_KEYS = ("title", "question", "message", "preview", "kind", "tool", "params")


class AdaptedFlow:
    """Runs an adapted graph.

    Args:
        adapted: The graph.
        saver: Returns the workbench's checkpointer, for a graph without its own.

    Attributes:
        fingerprint: The graph's fingerprint.
    """

    def __init__(self, adapted: AdaptedGraph, saver: "Callable[[], BaseCheckpointSaver[str]]") -> None:
        self.adapted = adapted
        self.fingerprint: dict[str, Any] = dict(adapted.fingerprint)
        self._saver = saver

    async def advance(self, ctx: RunContext, *, has_checkpoint: bool) -> FlowOutcome:
        """Run the graph from its last checkpoint until it ends or interrupts."""
        del has_checkpoint  # the graph may have a checkpointer of its own
        with ctx.jobs.cancellation.waiting():  # a graph can be cancelled anywhere, since its nodes are unknown
            ctx.on_model_call()
            graph: Any = self.adapted.graph
            if self.adapted.checkpointer is None:
                graph = with_saver(graph, self._saver())
            limit = (graph.config or {}).get("recursion_limit", RECURSION_LIMIT)
            config: RunnableConfig = {"configurable": {"thread_id": ctx.run.thread_id}, "recursion_limit": limit}
            tools = GraphTools(ctx, await ctx.services.calls.unfinished(ctx.run.run_id))
            tracer = GraphTracer(ctx, self.adapted.name, tools)
            state = await graph.aget_state(config)
            is_new = state.created_at is None
            graph_input: Any = await self._first_input(ctx) if is_new else None
            must_run = is_new or bool(state.next or state.interrupts)
            while must_run:
                if state.interrupts:
                    if gate := await self._request_decisions(ctx, state, tracer):
                        return FlowOutcome([gate])
                    subjects = {interrupt.id: _subject(ctx, interrupt) for interrupt in state.interrupts}
                    requests = await ctx.services.approvals.decisions(list(subjects.values()))
                    decided = {key: requests[subject].decision for key, subject in subjects.items()}
                    to_value = self.adapted.resume or resume_value
                    values = {key: to_value(decision) for key, decision in decided.items() if decision is not None}
                    graph_input = Command(resume=values)
                try:
                    was_halted = await self._run(graph, graph_input, config, tracer)
                except GraphPaused as paused:
                    return FlowOutcome([paused.requests])
                state, graph_input = await graph.aget_state(config), None
                must_run = bool(state.interrupts) or (was_halted and bool(state.next))
            if state.next:
                raise RunFailed(
                    f"The graph stopped before {', '.join(state.next)} because of interrupt_before or interrupt_after, "
                    "where nobody can be asked. Call interrupt() in the node instead."
                )
            output = state.values if tracer.output is None else tracer.output
            return FlowOutcome(response=ctx.secrets.text(self._answer(output)))

    async def _first_input(self, ctx: RunContext) -> Any:
        """Return the graph's input; `RunFailed` if the run has started before, because it would repeat its work."""
        run, saver = ctx.run, self.adapted.checkpointer
        if ctx.event_writer.last_seq > 1:  # the first event is the question
            if saver is None:
                raise RunFailed(
                    "The run had started, and the checkpoint of its graph is not in this data folder. Perhaps "
                    "checkpoints.db was deleted, or the run was copied from elsewhere. Ask again."
                )
            raise RunFailed(
                f"The run had started, and the graph's own checkpointer, {type(saver).__name__}, has no checkpoint of "
                "it; one in memory is lost with its process. Compile the graph with a persistent checkpointer, or "
                "without one, so that the workbench stores its checkpoints; then ask again."
            )
        messages = await ctx.services.conversations.format_conversation_history(
            run.conversation_id, run.parent_message_id
        )
        return self.adapted.graph_input(run.question, [(message.role, message.content) for message in messages])

    async def _run(self, graph: Any, graph_input: Any, config: "RunnableConfig", tracer: GraphTracer) -> bool:
        """Run the graph until it stops; True if its budget stopped it and it may continue."""
        traced = {**config, "callbacks": await tracer.start()}
        options = {"stream_mode": ["custom"], "subgraphs": True, "durability": "async", "context": self.adapted.context}
        try:
            async with aclosing(graph.astream_events(graph_input, traced, version="v2", **options)) as events:
                async for event in events:
                    await tracer.handle_event(event)
            await tracer.finish()
        except BaseException as error:
            if is_task_cancelled() or not tracer.is_halted:
                is_failure = isinstance(error, Exception)
                await tracer.stop(error if is_failure and not is_task_cancelled() else None)
                if is_failure and (node := tracer.failed_node(error)) is not None:
                    advice = _FOREIGN_LOOP_ADVICE if _is_of_foreign_loop(error) else ""
                    raise RunFailed(f"The graph failed in {node}: {describe_error(error)}{advice}") from error
                raise
        if tracer.is_halted:
            await tracer.settle_halt()
        return tracer.is_halted

    async def _request_decisions(self, ctx: RunContext, state: StateSnapshot, tracer: GraphTracer) -> list[str]:
        """Request approval for each interrupt; return the ids of the undecided requests."""
        nodes = {interrupt.id: task.name for task in state.tasks for interrupt in task.interrupts}
        subjects = [_subject(ctx, interrupt) for interrupt in state.interrupts]
        known = await ctx.services.approvals.decisions(subjects)
        for interrupt, subject in zip(state.interrupts, subjects, strict=True):
            if subject not in known:
                node = nodes.get(interrupt.id, self.adapted.name)
                tool = tracer.interrupted_tools.get(interrupt.id, node)
                request = interrupt_request(ctx, interrupt, node, tool)
                await request_approval(ctx, MAIN_JOB, request, ToolPermission.CONFIRM)
        requests = await ctx.services.approvals.decisions(subjects)
        return [requests[subject].request_id for subject in subjects if requests[subject].decision is None]

    def _answer(self, state: Any) -> str:
        text = last_answer(state) if self.adapted.answer is None else self.adapted.answer(state)
        if not isinstance(text, str) or not text.strip():
            content = ", ".join(state) if isinstance(state, dict) else type(state).__name__
            raise RunFailed(
                f"The graph ended without an answer in text. Its output has: {content or 'nothing'}. "
                "Pass a function that returns the answer: af.adapt(graph, answer=lambda state: ...)."
            )
        return storable_text(text.strip())


def _is_of_foreign_loop(error: BaseException | None) -> bool:
    """True if an error, or a cause of it, comes from an object that another event loop uses."""
    while error is not None:
        if isinstance(error, RuntimeError) and any(text in str(error) for text in _FOREIGN_LOOP):
            return True
        error = error.__cause__
    return False


def _subject(ctx: RunContext, interrupt: Interrupt) -> str:
    """Return the subject of the request for an interrupt."""
    return f"interrupt:{ctx.run.run_id}:{interrupt.id}"


def interrupt_request(ctx: RunContext, interrupt: Interrupt, node: str, tool: str) -> ApprovalRequest:
    """Create the request for an interrupt.

    Args:
        ctx: The run.
        interrupt: The interrupt.
        node: The node that interrupted.
        tool: The tool within which it interrupted, or the node.
    """
    is_mapping = isinstance(interrupt.value, Mapping)
    fields = ctx.secrets.value(to_plain_json(interrupt.value) if is_mapping else {"question": _text(interrupt.value)})
    question = _text(fields.get("title") or fields.get("question") or f"{node} asks before it continues")
    first, _, rest = question.strip().partition("\n")
    line = " ".join(first.split())
    title = clip(line, TITLE_COLUMNS)
    params = to_plain_json(fields.get("params", {key: fields[key] for key in fields if key not in _REQUEST_KEYS}))
    subject = _subject(ctx, interrupt)
    return ApprovalRequest(
        id=request_id(subject),
        run_id=ctx.run.run_id,
        kind=cast("RequestKind", fields["kind"] if fields.get("kind") in _KINDS else "tool"),
        agent=node,
        tool=_text(fields.get("tool")) or tool,
        params=params if isinstance(params, dict) else {"value": params},
        title=title,
        preview=_text(fields.get("preview")),
        message=_text(fields.get("message")) or (rest.strip() if title == line else question),
        about=subject,
    )


def _text(value: Any) -> str:
    if value is None:
        return ""
    return storable_text(value if isinstance(value, str) else to_json(value))
