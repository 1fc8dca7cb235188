"""An adapted graph as a flow: it runs until it has an answer, or interrupts and a person is asked.

::

    input ──> graph ──> no node is left ─────────> answer
                ^  └──> interrupts ──> requests ──> all decided? ─ no ──> the run waits
                └───────────────────────────────────── yes

What happened is stored as it does, and never again; but LangGraph begins an interrupted node anew, so what stands in it
before its `interrupt` is done twice.
"""

from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from langgraph.types import Command, Interrupt, StateSnapshot

from artifactflow_nb.errors import RunFailed, told
from artifactflow_nb.events import MAIN_JOB
from artifactflow_nb.flows.adapted import AdaptedGraph, History, history_of, resume_value
from artifactflow_nb.flows.adapted_questions import request_of, subject_of
from artifactflow_nb.flows.adapted_replay import GraphReplay
from artifactflow_nb.flows.adapted_tools import GraphTools
from artifactflow_nb.flows.adapted_values import last_answer
from artifactflow_nb.flows.adapted_watch import GraphWatch, Paused
from artifactflow_nb.flows.flow import Standing
from artifactflow_nb.flows.permission import ask
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.flows.with_saver import with_saver
from artifactflow_nb.recordings.graph_player import GraphPlayer
from artifactflow_nb.store.storable import storable_text
from artifactflow_nb.tools.base import ToolPermission
from artifactflow_nb.tools.threads import is_cancelled

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver

RECURSION_LIMIT = 10_007
"""Supersteps of a graph that sets no limit: as LangGraph has it; its stream of events would put 25 in that place."""


class AdaptedFlow:
    """Runs an adapted graph.

    Args:
        adapted: The graph.
        saver: Gives the workbench's checkpoints, for a graph that has none of its own.

    Attributes:
        described: What tells the graph from another one.
    """

    def __init__(self, adapted: AdaptedGraph, saver: "Callable[[], BaseCheckpointSaver[str]]") -> None:
        self.adapted = adapted
        self.described: dict[str, Any] = dict(adapted.described)
        self._saver = saver

    def asked(self, question: str, history: History) -> Any:
        """What the graph gets of a question, as JSON."""
        return self.adapted.asked(question, history)

    async def go_on(self, ctx: RunContext, *, is_begun: bool) -> Standing:
        """Let the graph go on from its last checkpoint, its own if it keeps any, until it ends or interrupts."""
        del is_begun  # of a graph that keeps its own checkpoints, ours say nothing
        with ctx.beside.halting.stands():  # it may be cut short anywhere: nobody knows what its nodes are at
            if isinstance(ctx.tape, GraphPlayer):
                return await GraphReplay(ctx, ctx.tape).go_on()
            return await self._go_on(ctx)

    async def _go_on(self, ctx: RunContext) -> Standing:
        ctx.under_way()
        graph = self._graph()
        limit = (graph.config or {}).get("recursion_limit", RECURSION_LIMIT)
        config: RunnableConfig = {"configurable": {"thread_id": ctx.run.thread_id}, "recursion_limit": limit}
        tools = GraphTools(ctx, await ctx.services.calls.unfinished(ctx.run.run_id))
        watch = GraphWatch(ctx, self.adapted.name, tools)
        state = await graph.aget_state(config)
        is_new = state.created_at is None
        start: Any = await self._start(ctx) if is_new else None
        goes_on = is_new or bool(state.next or state.interrupts)
        while goes_on:
            if state.interrupts:
                if gate := await self._ask(ctx, state, watch):
                    return Standing([gate])
                start = await self._decided(ctx, state.interrupts)
            try:
                was_halted = await self._run(graph, start, config, watch)
            except Paused as paused:
                return Standing([paused.requests])
            state, start = await graph.aget_state(config), None
            goes_on = bool(state.interrupts) or (was_halted and bool(state.next))
        if state.next:
            raise RunFailed(
                f"The graph stopped before {', '.join(state.next)}, as interrupt_before or interrupt_after says, where "
                "nobody can be asked. Call interrupt() in the node instead."
            )
        return Standing(response=self._answer(state.values if watch.output is None else watch.output))

    async def _start(self, ctx: RunContext) -> Any:
        """What the graph begins with; `RunFailed` if the run has begun before: what it did would be done again."""
        run = ctx.run
        if ctx.journal.last_seq > 1:  # the first tells that the question was asked
            raise RunFailed(_lost(self.adapted.checkpointer))
        told_before = await ctx.services.conversations.format_conversation_history(
            run.conversation_id, run.parent_message_id
        )
        return self.adapted.given(run.question, history_of(told_before))

    def _graph(self) -> Any:
        """The graph, with our checkpoints if it has none."""
        graph = self.adapted.graph
        return graph if self.adapted.checkpointer is not None else with_saver(graph, self._saver())

    async def _run(self, graph: Any, start: Any, config: "RunnableConfig", watch: GraphWatch) -> bool:
        """Let the graph run until it stops by itself, or at its budget: whether it did, and may go on all the same.

        What of it is left when it fails or is stopped is stored.
        """
        told_of = {**config, "callbacks": await watch.enter()}
        how = {"stream_mode": ["custom"], "subgraphs": True, "durability": "async", "context": self.adapted.context}
        try:
            async with aclosing(graph.astream_events(start, told_of, version="v2", **how)) as events:
                async for event in events:
                    await watch.take(event)
            await watch.end()
        except BaseException as error:
            if is_cancelled() or not watch.is_halted:
                await self._failed(error, watch)
                raise
        if watch.is_halted:
            await watch.halt()
        return watch.is_halted

    async def _failed(self, error: BaseException, watch: GraphWatch) -> None:
        """Store what a graph leaves that failed or was cancelled; `RunFailed` if the node that failed is known."""
        cause = error if isinstance(error, Exception) and not is_cancelled() else None
        await watch.stop(cause)
        if isinstance(error, Exception) and (node := watch.failed_node(error)) is not None:
            raise RunFailed(f"The graph failed in {node}: {told(error)}") from error

    async def _ask(self, ctx: RunContext, state: StateSnapshot, watch: GraphWatch) -> list[str]:
        """Put before the person what the graph interrupted for; the requests that are open, all by their ids."""
        nodes = {one.id: task.name for task in state.tasks for one in task.interrupts}
        subjects = [subject_of(ctx, one) for one in state.interrupts]
        known = await ctx.services.requests.decisions(subjects)
        ctx.tape.clock.read(MAIN_JOB)
        for one, subject in zip(state.interrupts, subjects, strict=True):
            if subject not in known:
                node = nodes.get(one.id, self.adapted.name)
                request = request_of(ctx, one, node, watch.within.get(one.id, node))
                await ask(ctx, MAIN_JOB, request, ToolPermission.CONFIRM)
        asked = await ctx.services.requests.decisions(subjects)
        return [asked[subject].request_id for subject in subjects if asked[subject].decision is None]

    async def _decided(self, ctx: RunContext, interrupts: tuple[Interrupt, ...]) -> Command[Any]:
        """What the graph goes on with: for each interrupt what was decided."""
        subjects = {one.id: subject_of(ctx, one) for one in interrupts}
        asked = await ctx.services.requests.decisions(list(subjects.values()))
        gives = self.adapted.resume or resume_value
        decided = {key: asked[subject].decision for key, subject in subjects.items()}
        return Command(resume={key: gives(one) for key, one in decided.items() if one is not None})

    def _answer(self, state: Any) -> str:
        text = last_answer(state) if self.adapted.answer is None else self.adapted.answer(state)
        if not isinstance(text, str) or not text.strip():
            held = ", ".join(state) if isinstance(state, dict) else type(state).__name__
            raise RunFailed(
                f"The graph ended without an answer in text. It gave: {held or 'nothing'}. "
                "Say what the answer is with af.adapt(graph, answer=lambda state: ...)."
            )
        return storable_text(text.strip())


def _lost(saver: "BaseCheckpointSaver[Any] | None") -> str:
    """That a run has begun, and that how far it has come is not to be found."""
    if saver is None:
        return (
            "The run had begun, and how far its graph has come is not in this data folder, as after checkpoints.db was "
            "deleted, or when the run was brought here from elsewhere. Ask again."
        )
    return (
        f"The run had begun, and the graph's own checkpointer, {type(saver).__name__}, knows nothing of it, as one in "
        "memory does in a new process. Compile the graph with one that lasts, or without one, so that the workbench "
        "keeps how far it has come; then ask again."
    )
