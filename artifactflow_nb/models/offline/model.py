"""A model that answers without a language model: it plans, searches, reads and quotes by rules alone.

It is stateless and deterministic, and it does not read the prompt: it uses the context of its request, which has the
values behind the prompt. The context and the offered tools determine its role::

    a running job of a plan         executor, replanner or summarizer
    propose_edits                   editor       edits of quoted passages
    a block                         writer       search -> reading -> a text of quotes
    a project, no block             composer     the calls of a plain request -> their results
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

from artifactflow_nb.core.messages import ToolProtocol
from artifactflow_nb.core.text.cards import Card
from artifactflow_nb.models.base import (
    LocalModel,
    ModelDelta,
    ModelEvent,
    ModelReply,
    ModelRequest,
    estimate_usage,
    model_card,
)
from artifactflow_nb.models.offline.compose import PROPOSE_TOOL, compose, edit
from artifactflow_nb.models.offline.phrases import phrases_for
from artifactflow_nb.models.offline.plan import decide, execute_step, make_plan, summarize
from artifactflow_nb.models.offline.requests import ProjectView
from artifactflow_nb.models.offline.research import LOOKUP_TOOLS, REPORT_TOOLS, coordinate, look_up
from artifactflow_nb.models.offline.turn import Reply, Turn
from artifactflow_nb.models.offline.write import BlockTask, write_block

_PIECE = re.compile(r"(?:\S+\s*){1,4}|\s+")


class OfflineModel(LocalModel):
    """The model that answers when no endpoint is configured.

    Args:
        delay_s: Seconds between two pieces of text, for demonstrations.
    """

    provider = "offline"
    tool_protocols: tuple[ToolProtocol, ...] = ("native",)
    default_model = "offline-extractive"

    def __init__(self, *, delay_s: float = 0.0) -> None:
        self._delay_s = delay_s

    def __repr__(self) -> str:
        return "OfflineModel()"

    def _card(self) -> Card:
        return model_card(self, answers="with sentences quoted from the sources; no language model is used")

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
    if turn.has(PROPOSE_TOOL):
        return edit(turn)
    if context.project is not None and context.blocks is not None:
        if context.block is None:
            return compose(turn, ProjectView(context.project, context.blocks))
        return write_block(turn, BlockTask.of(context.project, context.blocks, context.block, context.wish))
    if turn.has("plan_create"):
        return make_plan(turn)
    if turn.has_any(LOOKUP_TOOLS) and not turn.has("call_subagent"):
        return look_up(turn)
    needs_model = bool(turn.tools) and turn.tools.isdisjoint({*REPORT_TOOLS, "call_subagent"})
    return Reply(phrases_for(turn.question)["needs_model"]) if needs_model else coordinate(turn)
