"""An adapted graph as a flow: the graph runs until there is an answer, or interrupts to ask a person.

::

    input ──> graph ──> no node is left ─────────> answer
                ^  └──> interrupts ──> requests ──> all decided? ─ no ──> the run waits
                └───────────────────────────────────── yes

Every call is stored immediately and only once. But LangGraph runs an interrupted node again from its start, so the code
before its `interrupt` runs twice.

If a node fails on the answer of a person, the person is asked again and sees the error; see `interrupts.py` for the
forms of questions and answers.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langgraph.errors import is_invalid_resume
from langgraph.types import Command, Interrupt, StateSnapshot

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.events import MAIN_JOB
from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.errors import RunFailed, describe_error
from artifactflow_nb.flows.approval import request_approval
from artifactflow_nb.flows.base import FlowOutcome
from artifactflow_nb.flows.loop import ANSWER_NOTES, with_saver
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.plugins.graphs.adapt import AdaptedGraph, History, messages_input
from artifactflow_nb.plugins.graphs.breakpoints import decide_at_breakpoint
from artifactflow_nb.plugins.graphs.calls import GraphTools
from artifactflow_nb.plugins.graphs.fingerprint import ask_for_usage
from artifactflow_nb.plugins.graphs.interrupts import (
    InterruptPart,
    StoredAnswers,
    interrupt_parts,
    interrupt_request,
    restore_answers,
    resume_value,
    stored_answers,
)
from artifactflow_nb.plugins.graphs.messages import last_answer, to_plain_json
from artifactflow_nb.plugins.graphs.state import guess_answer, guess_input, input_advice, load_state, store_state
from artifactflow_nb.plugins.graphs.tool_nodes import separate_calls
from artifactflow_nb.plugins.graphs.tracer import GraphPaused, GraphTracer
from artifactflow_nb.tools.base import ToolPermission
from artifactflow_nb.tools.threads import is_task_cancelled

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import BaseCheckpointSaver

RECURSION_LIMIT = 10_007
"""Limit of supersteps for a graph that sets none: LangGraph's own default, instead of the 25 of its event stream."""

_OTHER_LOOP_MESSAGES = ("bound to a different event loop", "attached to a different loop", "Event loop is closed")
_OTHER_LOOP_ADVICE = (
    ". The graph was awaited in a cell, so its HTTP client has connections of another event loop: create its models "
    'with default_headers={"Connection": "close"}, or call the graph through the workbench only. Create locks and '
    "clients of your own within the node."
)


@dataclass(frozen=True, slots=True)
class _Question:
    """An interrupt with its parts, and for each part the subject of the request."""

    interrupt: Interrupt
    parts: tuple[InterruptPart, ...]
    subjects: tuple[str, ...]


class AdaptedFlow:
    """Runs an adapted graph. `saver` returns the checkpointer of the workbench, for a graph that has none."""

    def __init__(self, adapted: AdaptedGraph, saver: "Callable[[], BaseCheckpointSaver[str]]") -> None:
        self.adapted = adapted
        self._saver = saver
        ask_for_usage(adapted.graph)
        separate_calls(adapted.graph)

    async def advance(self, ctx: RunContext, *, has_checkpoint: bool) -> FlowOutcome:
        """Run the graph from its last checkpoint until it ends or interrupts."""
        del has_checkpoint  # the graph may have a checkpointer of its own
        with ctx.jobs.cancellation.waiting():  # a graph can be cancelled anywhere, since its nodes are unknown
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
            has_stopped = False
            problems: dict[str, str] = {}
            while is_new or state.tasks:  # `next` lacks a node that has ended before its process was killed
                stop = await decide_at_breakpoint(ctx, graph, config, state, has_stopped=has_stopped)
                if stop is not None and stop.decision is None:
                    return FlowOutcome([[stop.request_id]])
                if stop is not None and stop.is_denied:
                    return FlowOutcome(response=self._answer(ctx, state.values), notices=(stop.notice,))
                decisions: dict[str, list[Decision]] = {}  # by interrupt
                answers_before: StoredAnswers | None = None
                if state.interrupts:
                    questions = await self._request_decisions(ctx, state, tracer, problems)
                    subjects = [subject for question in questions for subject in question.subjects]
                    requests = await ctx.services.approvals.decisions(subjects)
                    if gate := [requests[key].request_id for key in subjects if requests[key].decision is None]:
                        return FlowOutcome([gate])
                    for question in questions:
                        of_parts = [requests[subject].decision for subject in question.subjects]
                        decisions[question.interrupt.id] = [decision for decision in of_parts if decision is not None]
                        if self.adapted.resume is None:
                            tools.record_reviews(question.parts, decisions[question.interrupt.id])
                    # A checkpointer that lists no checkpoints cannot restore the answers to ask again after a failure.
                    with suppress(NotImplementedError):
                        answers_before = await stored_answers(graph.checkpointer, ctx.run.thread_id)
                    values: dict[str, Any] = {}
                    for key, interrupt in ((question.interrupt.id, question.interrupt) for question in questions):
                        on_parts, resume = decisions[key], self.adapted.resume
                        values[key] = resume_value(interrupt, on_parts) if resume is None else resume(on_parts[0])
                    graph_input = Command(resume=values)
                try:
                    retriable = {} if answers_before is None else decisions
                    was_halted = await self._run(graph, graph_input, config, tracer, retriable)
                except GraphPaused as paused:
                    return FlowOutcome([paused.requests])
                except _AnswerFailed as failed:
                    was_halted, problems = False, failed.problems
                    await restore_answers(graph.checkpointer, ctx.run.thread_id, answers_before or {})
                state, graph_input, is_new = await graph.aget_state(config), None, False
                has_stopped = not was_halted
            output = state.values if tracer.output is None else tracer.output
            await store_state(ctx, graph, state.values)
            return FlowOutcome(response=ctx.secrets.text(self._answer(ctx, output)))

    async def _first_input(self, ctx: RunContext) -> Any:
        """Return the graph's input; `RunFailed` for a run that has started before, and would repeat its work."""
        run, saver = ctx.run, self.adapted.checkpointer
        if ctx.event_writer.last_seq > 1:  # the first event is the question
            if saver is None:
                raise RunFailed(
                    "The run had started, and the checkpoint of its graph is not in this data folder. Perhaps "
                    "checkpoints.db was deleted, or the run was copied from elsewhere. Ask again."
                )
            raise RunFailed(
                f"The run had started, and the graph's own checkpointer, {type(saver).__name__}, has no checkpoint of "
                "the run; a checkpoint in memory is lost with the process. Compile the graph with a persistent "
                "checkpointer, or without one, so that the workbench stores the checkpoints; then ask again."
            )
        messages = await ctx.services.conversations.format_conversation_history(
            run.conversation_id, run.parent_message_id
        )
        history: History = [(message.role, message.content) for message in messages]
        graph_input = self.adapted.graph_input(run.question, history)
        if self.adapted.input is not messages_input:
            return graph_input
        graph_input = guess_input(self.adapted.graph, run.question) or graph_input
        if isinstance(graph_input, str):
            return graph_input
        return {**await load_state(ctx, self.adapted.graph), **graph_input}

    async def _run(
        self,
        graph: Any,
        graph_input: Any,
        config: "RunnableConfig",
        tracer: GraphTracer,
        decisions: Mapping[str, Sequence[Decision]],
    ) -> bool:
        """Run the graph until the graph stops; return True if the budget stopped the graph and the run may continue.

        `graph_input` may be the answers to interrupts. `decisions` has the decisions by interrupt, for interrupts about
        which a person can be asked again.

        Errors: `_AnswerFailed` if a node fails on an answer of a person; `RunFailed` for the error of another node.
        """
        traced = {**config, "callbacks": await tracer.start()}
        context = self.adapted.context
        options: dict[str, Any] = {"stream_mode": ["custom", "updates"], "subgraphs": True, "durability": "async"}
        try:
            async with aclosing(
                graph.astream_events(graph_input, traced, version="v2", context=context, **options)
            ) as events:
                async for event in events:
                    await tracer.handle_event(event)
            await tracer.finish()
        except BaseException as error:
            if is_task_cancelled() or not tracer.is_halted:
                is_failure = not is_task_cancelled()  # also SystemExit: user code may raise anything
                if decisions and isinstance(error, Exception) and not is_task_cancelled():
                    problems = _failed_answers(await graph.aget_state(config), error, decisions)
                    if problems:
                        await tracer.stop(error, graph_continues=True)
                        raise _AnswerFailed(problems) from error
                await tracer.stop(error if is_failure else None)
                node = tracer.failed_node(error)
                if is_failure and (node is not None or not isinstance(error, Exception)):
                    location = f" in {node}" if node else ""
                    advice = input_advice(graph) if self.adapted.input is messages_input else ""
                    advice = _OTHER_LOOP_ADVICE if _is_of_other_loop(error) else advice
                    raise RunFailed(f"The graph failed{location}: {describe_error(error)}{advice}") from error
                raise
        if tracer.is_halted:
            await tracer.settle_halt()
        return tracer.is_halted

    async def _request_decisions(
        self, ctx: RunContext, state: StateSnapshot, tracer: GraphTracer, problems: Mapping[str, str]
    ) -> list[_Question]:
        """Request decisions on all parts of the interrupts, unless the requests exist already; return the interrupts.

        Args:
            ctx: The run.
            state: The interrupted graph.
            tracer: The run's tracer.
            problems: The errors of nodes that failed on the last answers, by interrupt; the person is asked again.
        """
        nodes = {interrupt.id: task.name for task in state.tasks for interrupt in task.interrupts}
        approvals, questions = ctx.services.approvals, []
        for interrupt in state.interrupts:
            if self.adapted.resume is None:
                parts = interrupt_parts(interrupt)
            else:  # the graph's own function gets the decision on the whole value
                is_mapping = isinstance(interrupt.value, Mapping)
                whole = to_plain_json(interrupt.value if is_mapping else {"question": interrupt.value})
                parts = (InterruptPart(whole),)
            attempt = 1
            while await approvals.decisions(_subjects(ctx, interrupt, parts, attempt + 1)):
                attempt += 1
            problem = ctx.services.secrets.redact(problems.get(interrupt.id, ""))
            question = _Question(interrupt, parts, _subjects(ctx, interrupt, parts, attempt + bool(problem)))
            states = await approvals.decisions(question.subjects)
            node = tracer.interrupted_agents.get(interrupt.id) or nodes.get(interrupt.id, self.adapted.name)
            tool = tracer.interrupted_tools.get(interrupt.id, node)
            if first := await approvals.decisions(_subjects(ctx, interrupt, parts, 1)):
                # No node runs when the person is asked again, so the first request determines the agent and the tool.
                request = await approvals.get(next(iter(first.values())).request_id)
                node, tool = request.agent, request.tool
            for part, subject in zip(parts, question.subjects, strict=True):
                if subject not in states:
                    request = interrupt_request(ctx, part, subject, node, tool, problem)
                    await request_approval(ctx, MAIN_JOB, request, ToolPermission.CONFIRM, must_ask=bool(problem))
            questions.append(question)
        return questions

    def _answer(self, ctx: RunContext, output: Any) -> str:
        """Return the answer in the graph's output, or guess an answer: an error would lose the finished work."""
        text, reason = last_answer(output)
        note = ANSWER_NOTES.get(reason, "")
        if self.adapted.answer is not None:
            try:
                text, note = self.adapted.answer(output), ""
            except Exception as error:  # noqa: BLE001 - a function of the user
                text, note = None, f"The answer= function of the graph failed: {describe_error(error)}."
            else:
                if not isinstance(text, str) or not text.strip():
                    text, note = None, f"The answer= function of the graph returned {text!r:.80}, which is not a text."
        if text is None:
            text = guess_answer(output, ctx.run.question)
        return storable_text("\n\n".join(filter(None, (text.strip(), ctx.services.secrets.redact(note)))))


def _is_of_other_loop(error: BaseException | None) -> bool:
    """Return whether an error, or a cause of the error, comes from an object of another event loop."""
    while error is not None:
        if isinstance(error, RuntimeError) and any(text in str(error) for text in _OTHER_LOOP_MESSAGES):
            return True
        error = error.__cause__
    return False


class _AnswerFailed(Exception):
    """Nodes failed on the answers of a person; `problems` has their errors by interrupt."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("The graph failed with an answer.")
        self.problems = dict(problems)


def _failed_answers(
    state: StateSnapshot, error: Exception, decisions: Mapping[str, Sequence[Decision]]
) -> dict[str, str]:
    """Return the errors of the nodes that failed on the answer of a person, by interrupt.

    `state` is the state after the failure, in which unfinished tasks still have their interrupts.
    """
    failed = {
        interrupt.id: describe_error(task.error if isinstance(task.error, Exception) else error)  # or a text
        for task in state.tasks
        for interrupt in task.interrupts
        if interrupt.id in decisions and (task.error is not None or is_invalid_resume(error))
    }
    # A policy would make the same decision again.
    is_by_person = all(decision.decided_by == "user" for key in failed for decision in decisions[key])
    return failed if is_by_person else {}


def _subjects(ctx: RunContext, interrupt: Interrupt, parts: Sequence[InterruptPart], attempt: int) -> tuple[str, ...]:
    """Return the subjects of the requests for the parts of an interrupt; `attempt` counts answers, from 1."""
    base = f"interrupt:{ctx.run.run_id}:{interrupt.id}" + (f":attempt-{attempt}" if attempt > 1 else "")
    return tuple(base + (f":{n}" if n else "") for n in range(len(parts)))
