"""A model that says what it was told to say: for tests of flows, tools and views."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace

from artifactflow_nb.messages import ToolCall, ToolProtocol
from artifactflow_nb.models.base import ModelDelta, ModelEvent, ModelReply, ModelRequest, estimate_usage, model_card
from artifactflow_nb.text.cards import Card, Shown
from artifactflow_nb.text.figures import count
from artifactflow_nb.xml_calls import format_call

Turn = str | ToolCall | Sequence[str | ToolCall] | Exception | ModelReply
Script = Callable[[ModelRequest], Turn]


class ScriptedModel(Shown):
    """Gives the turns of a script, each streamed in small pieces.

    Args:
        turns: The replies in order: text, a call, or several of both, the calls written as the request's protocol has
            them; a whole reply as it is; an exception is raised. A callable is asked at each request, so that
            concurrent agents can be answered by what they ask.
        chunk_chars: Characters in each piece.
        delay_s: Seconds between two pieces.

    Attributes:
        requests: Every request, in the order in which they came.
    """

    provider = "scripted"
    tool_protocols: tuple[ToolProtocol, ...] = ("xml", "native")
    default_model = "scripted"

    def __init__(self, turns: Iterable[Turn] | Script, *, chunk_chars: int = 16, delay_s: float = 0.0) -> None:
        self.requests: list[ModelRequest] = []
        self._script = turns if callable(turns) else _in_order(turns)
        self._chunk_chars = chunk_chars
        self._delay_s = delay_s

    def __repr__(self) -> str:
        return f"ScriptedModel(asked {count(len(self.requests), 'time')})"

    def _card(self) -> Card:
        return model_card(self, asked=count(len(self.requests), "time"))

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Give the next turn of the script."""
        self.requests.append(request)
        turn = self._script(request)
        if isinstance(turn, Exception):
            raise turn
        reply = turn if isinstance(turn, ModelReply) else _reply(request, turn)
        started, first = time.perf_counter(), None
        for i in range(0, len(reply.content), self._chunk_chars):
            await asyncio.sleep(self._delay_s)
            first = first if first is not None else (time.perf_counter() - started) * 1000
            yield ModelDelta(reply.content[i : i + self._chunk_chars])
        for call in reply.calls:
            yield ModelDelta(json.dumps(dict(call.params), ensure_ascii=False), "call", call.name)
        yield reply if isinstance(turn, ModelReply) else replace(reply, ttft_ms=first)

    async def list_models(self) -> list[str]:
        """Its one name."""
        return [self.default_model]

    async def aclose(self) -> None:
        """Nothing to free."""


def _reply(request: ModelRequest, turn: str | ToolCall | Sequence[str | ToolCall]) -> ModelReply:
    parts = [turn] if isinstance(turn, str | ToolCall) else turn
    native = request.tool_protocol == "native"
    calls = tuple(part for part in parts if isinstance(part, ToolCall)) if native else ()
    text = "".join(
        part if isinstance(part, str) else "" if native else format_call(part.name, part.params) for part in parts
    )
    usage = replace(estimate_usage(request, text, calls), estimated=False)
    return ModelReply(text, usage, "tool_calls" if calls else "stop", request.model or "scripted", calls)


def _in_order(turns: Iterable[Turn]) -> Script:
    remaining = iter(turns)

    def next_turn(_request: ModelRequest) -> Turn:
        try:
            return next(remaining)
        except StopIteration:
            return AssertionError("The script has no more turns, and another was asked for.")

    return next_turn
