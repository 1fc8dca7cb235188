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
from copy import copy
from typing import TYPE_CHECKING, Any

from langgraph.types import Command, Interrupt, StateSnapshot

from artifactflow_nb.errors import RunFailed, told
from artifactflow_nb.events import MAIN_JOB
from artifactflow_nb.flows.adapted import AdaptedGraph, resume_value
from artifactflow_nb.flows.adapted_questions import request_of, subject_of
from artifactflow_nb.flows.adapted_replay import GraphReplay
from artifactflow_nb.flows.adapted_tools import GraphTools
from artifactflow_nb.flows.adapted_values import last_answer
from artifactflow_nb.flows.adapted_watch import GraphWatch, Paused
from artifactflow_nb.flows.flow import Standing
from artifactflow_nb.flows.permission import ask
from artifactflow_nb.flows.services import RunContext
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
    """

    def __init__(self, adapted: AdaptedGraph, saver: "Callable[[], BaseCheckpointSaver[str]]") -> None:
        self.adapted = adapted
        self._saver = saver

    @property
    def described(self) -> dict[str, Any]:
        """What tells the graph from another one."""
        return self.adapted.described

    def asked(self, question: str) -> Any:
        """What the graph gets of a question, as JSON."""
        return self.adapted.asked(question)

    async def go_on(self, ctx: RunContext, *, is_begun: bool) -> Standing:
        """Let the graph go on from its last checkpoint, its own if it keeps any, until it ends or interrupts."""
        del is_begun  # of a graph that keeps its own checkpoints, ours say nothing
        if isinstance(ctx.tape, GraphPlayer):
            return await GraphReplay(ctx, ctx.tape).go_on()
        ctx.under_way()
        graph = self._graph()
        limit = (graph.config or {}).get("recursion_limit", RECURSION_LIMIT)
        config: RunnableConfig = {"configurable": {"thread_id": ctx.run.thread_id}, "recursion_limit": limit}
        tools = GraphTools(ctx, await ctx.services.calls.unfinished(ctx.run.run_id))
        watch = GraphWatch(ctx, self.adapted.name, tools)
        state = await graph.aget_state(config)
        is_new = state.created_at is None
        start: Any = self.adapted.input(ctx.run.question) if is_new else None
        goes_on = is_new or bool(state.next or state.interrupts)
        while goes_on:
            if state.interrupts:
                if gate := await self._ask(ctx, state, watch):
                    return Standing([gate])
                start = await self._decided(ctx, state.interrupts)
            try:
                await self._run(graph, start, config, watch)
            except Paused as paused:
                return Standing([paused.requests])
            state = await graph.aget_state(config)
            goes_on = bool(state.interrupts)
        if state.next:
            raise RunFailed(
                f"The graph stopped before {', '.join(state.next)}, as interrupt_before or interrupt_after says, where "
                "nobody can be asked. Call interrupt() in the node instead."
            )
        return Standing(response=self._answer(state.values if watch.output is None else watch.output))

    def _graph(self) -> Any:
        """The graph, with our checkpoints if it has none; `Pregel.copy` would forget the classes of its state."""
        if self.adapted.graph.checkpointer:
            return self.adapted.graph
        ours = copy(self.adapted.graph)
        ours.checkpointer = self._saver()
        return ours

    async def _run(self, graph: Any, start: Any, config: "RunnableConfig", watch: GraphWatch) -> None:
        """Let the graph run until it stops by itself; what of it is left when it fails or is stopped is stored."""
        told_of = {**config, "callbacks": [watch.failures]}
        how = {"stream_mode": ["custom"], "subgraphs": True, "durability": "async", "context": self.adapted.context}
        try:
            async with aclosing(graph.astream_events(start, told_of, version="v2", **how)) as events:
                async for event in events:
                    await watch.take(event)
        except Exception as error:
            await watch.stop(None if is_cancelled() else error)
            if (node := watch.failed_node()) is None or error not in watch.failures.of.values():
                raise
            raise RunFailed(f"The graph failed in {node}: {told(error)}") from error
        except BaseException:
            await watch.stop(None)
            raise

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
