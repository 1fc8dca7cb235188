"""A model that answers without a language model: it delegates, searches, reads and quotes, by rules alone.

It is stateless and deterministic. The tools that it is offered tell it which part it plays; the transcript tells it how
far that part has come; every turn is the text that a language model would write, tool calls included::

    propose_edits offered   editor        the edits that are asked for word by word
    a block is asked for    writer        search -> reading -> the block's text, of quotes
    blocks can be arranged  composer      the call that a plain request asks for -> what came of it
    plan_create offered     agent         plan -> answer from the plan's report
    report_failure offered  executor      as a step says: addresses, quotes, the report, or a failure
    plan_decide offered     replanner     retry, go on or finish, by the kind of failure
    none, and a plan asked  summarizer    what the steps have quoted
    call_subagent offered   coordinator   plan, search job -> reading job -> report -> answer
    web_search offered      searcher      query -> second query if the first gave little -> list of addresses
    web_fetch offered       reader        fetch -> quotes
    only unknown ones       says that this takes a language model
    none                    concludes with what the transcript holds

No question and no answer is known to it: what it says of a subject is quoted from the sources.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping

from artifactflow_nb.messages import ToolProtocol
from artifactflow_nb.models import (
    offline_compose,
    offline_edit,
    offline_lead,
    offline_plan,
    offline_read,
    offline_replan,
    offline_step,
    offline_write,
)
from artifactflow_nb.models.base import ModelDelta, ModelEvent, ModelReply, ModelRequest, estimate_usage, model_card
from artifactflow_nb.models.offline_block_read import is_writing
from artifactflow_nb.models.offline_plan_read import is_summary
from artifactflow_nb.models.offline_report import words
from artifactflow_nb.models.offline_transcript import Transcript
from artifactflow_nb.text.cards import Card, Shown

_PIECE = re.compile(r"(?:\S+\s*){1,4}|\s+")


_PARTS: Mapping[str, Callable[[Transcript], str]] = {
    offline_edit.PROPOSE: offline_edit.turn,
    **dict.fromkeys(offline_compose.TOOLS, offline_compose.turn),
    "plan_create": offline_plan.turn,
    "report_failure": offline_step.turn,
    "plan_decide": offline_replan.turn,
    "call_subagent": offline_lead.turn,
    "web_search": offline_read.look,
    "web_fetch": offline_read.turn,
}
"""Who plays: the first whose tool is offered."""

_LEADING = (*offline_compose.TOOLS, "call_subagent", "plan_create")
"""Who has one of these is asked by a person, whatever the words are; a writer has none."""


class OfflineModel(Shown):
    """The model that answers when no endpoint is configured.

    Args:
        delay_s: Seconds between two pieces of text, for demonstrations.
    """

    provider = "offline"
    tool_protocols: tuple[ToolProtocol, ...] = ("xml",)
    default_model = "offline-extractive"

    def __init__(self, *, delay_s: float = 0.0) -> None:
        self._delay_s = delay_s

    def __repr__(self) -> str:
        return "OfflineModel()"

    def _card(self) -> Card:
        return model_card(self, answers="with sentences quoted from the sources; no language model is used")

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Take a turn: a few words at a time, then the reply."""
        started = time.perf_counter()
        text = await asyncio.to_thread(_turn, request)
        first: float | None = None
        for piece in _PIECE.findall(text):
            await asyncio.sleep(self._delay_s)
            first = first if first is not None else (time.perf_counter() - started) * 1000
            yield ModelDelta(piece)
        usage = estimate_usage(request, text)
        yield ModelReply(text, usage, "stop", request.model or self.default_model, ttft_ms=first)

    async def list_models(self) -> list[str]:
        """Its one name."""
        return [self.default_model]

    async def aclose(self) -> None:
        """Nothing to free."""


def _turn(request: ModelRequest) -> str:
    transcript = Transcript.read(request.messages, _offered(request))
    if is_writing(transcript.instruction) and not any(map(transcript.plays, _LEADING)):
        return offline_write.turn(transcript)
    for tool, part in _PARTS.items():
        if transcript.plays(tool):
            return part(transcript)
    if not transcript.tools and is_summary(transcript.instruction):
        return offline_replan.summary(transcript.instruction)
    if transcript.tools.isdisjoint(offline_lead.WRITING) and transcript.tools:
        return words(transcript.question)["cannot"]
    return offline_lead.turn(transcript)


def _offered(request: ModelRequest) -> frozenset[str]:
    """The names of the tools that may be called now."""
    return frozenset(tool.name for tool in request.tools) if request.tool_choice == "auto" else frozenset()
