"""A model that answers without a language model: it plans, searches, reads and quotes by rules alone.

It is stateless and deterministic, and it does not read the prompt: it uses the context of its request, which has the
values behind the prompt. The context and the offered tools determine its role::

    a running job of a plan         executor, replanner or summarizer
    a text to write                 writer       search -> reading -> a text of quotes, or how to do the work by hand
    plan_create                     agent        plan -> answer from the results of its steps
    call_subagent                   coordinator  plan, search job -> reading job -> report -> answer
    web_search, web_fetch           searcher, reader
    only other tools                the answer that a language model is needed
    no tools                        an answer from the results so far

No question or answer is built in: every statement about a subject is quoted from the sources.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator

from artifactflow_nb.core.messages import OFFLINE_MODEL, OFFLINE_PROVIDER, ToolProtocol
from artifactflow_nb.models.base import (
    LocalModel,
    ModelDelta,
    ModelEvent,
    ModelReply,
    ModelRequest,
    WritingTask,
    estimate_usage,
)
from artifactflow_nb.models.offline.plan import decide, execute_step, make_plan, summarize
from artifactflow_nb.models.offline.report import Section, phrases_for, quotes_with_sources
from artifactflow_nb.models.offline.research import LOOKUP_TOOLS, REPORT_TOOLS, coordinate, find_quotes, look_up
from artifactflow_nb.models.offline.turn import Reply, Turn, find_failures, state_question, without_addresses
from artifactflow_nb.sources.citations import find_addresses, read_sources

_PIECE = re.compile(r"(?:\S+\s*){1,4}|\s+")


class OfflineModel(LocalModel):
    """The model that answers when no endpoint is configured.

    Args:
        delay_s: Seconds between two pieces of text, for demonstrations.
    """

    provider = OFFLINE_PROVIDER
    tool_protocols: tuple[ToolProtocol, ...] = ("native",)
    default_model = OFFLINE_MODEL

    def __init__(self, *, delay_s: float = 0.0) -> None:
        self._delay_s = delay_s

    def __repr__(self) -> str:
        return "OfflineModel()"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Run a turn: yield a few words at a time, then the calls, then the reply."""
        started = time.perf_counter()
        reply = await asyncio.to_thread(_reply, Turn.of(request))
        ttft_ms: float | None = None
        deltas = [ModelDelta(piece) for piece in _PIECE.findall(reply.text)]
        for call in reply.calls:
            arguments = json.dumps(dict(call.params), ensure_ascii=False)
            deltas += [ModelDelta(piece, "call", call.name) for piece in _PIECE.findall(arguments)]
        for delta in deltas:
            await asyncio.sleep(self._delay_s)
            ttft_ms = ttft_ms if ttft_ms is not None else (time.perf_counter() - started) * 1000
            yield delta
        usage, model = estimate_usage(request, reply.text, reply.calls), request.model or self.default_model
        reason = "tool_calls" if reply.calls else "stop"
        yield ModelReply(reply.text, usage, reason, model, reply.calls, ttft_ms=ttft_ms)


def _reply(turn: Turn) -> Reply:
    """Reply in the role that follows from the context and the tools."""
    context = turn.context
    if context.plan is not None and (job := context.plan.open_job) is not None:
        if job.kind == "execute":
            return execute_step(turn, context.plan.plan, context.plan.plan.step(job.step_id))
        return decide(turn, context.plan) if job.kind == "replan" else summarize(context.plan.plan)
    if context.task is not None:
        return write_text(turn, context.task)
    if turn.has("plan_create"):
        return make_plan(turn)
    if turn.has_any(LOOKUP_TOOLS) and not turn.has("call_subagent"):
        return look_up(turn)
    needs_model = bool(turn.tools) and turn.tools.isdisjoint({*REPORT_TOOLS, "call_subagent"})
    return Reply(phrases_for(turn.question)["needs_model"]) if needs_model else coordinate(turn)


_QUESTION = re.compile(r"[^.!?。！？\n]*[^.!?。！？\s][^.!?。！？\n]*[?？]")


def write_text(turn: Turn, task: WritingTask) -> Reply:
    """Search and read for the question of a task, then quote the sources."""
    phrases, prompt = phrases_for(task.prompt or task.name), f"{task.prompt}\n{task.wish}"
    question = " ".join(part.strip() for part in _QUESTION.findall(without_addresses(prompt)))
    if not question:
        return Reply(task.by_hand)
    # A rewritten text is based on the sources of the earlier text.
    addresses = find_addresses(prompt) or [source.address for text in task.basis for source in read_sources(text)]
    lines = [state_question(question), *(["Sources:"] if addresses else []), *(f"- {entry}" for entry in addresses)]
    tools = turn.tools.intersection(LOOKUP_TOOLS[1:] if addresses else LOOKUP_TOOLS)
    lookup = turn.with_instruction("\n".join(lines), tools)
    reply = look_up(lookup) if lookup.has_any(LOOKUP_TOOLS) else Reply()
    if reply.calls:
        return reply
    remarks = [phrases["problem"].format(problem=problem) for problem in find_failures(reply.text)]
    remarks += [task.change_by_hand] if task.wish and not _QUESTION.search(task.wish) else []
    notes = [f"*{remark}*" for remark in remarks]
    if not (quotes := find_quotes(lookup)):
        return Reply("\n\n".join([f"*{phrases['no_quotes']}*", *notes]))
    *paragraphs, heading, sources = quotes_with_sources(
        [Section("", tuple(quotes))], f"**{phrases['sources']}** ({phrases['quoted']})"
    )
    return Reply("\n\n".join([*paragraphs, *notes, heading, sources]))
