"""A model that streams scripted replies, for tests of flows, tools and views."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import replace

from artifactflow_nb.core.messages import ToolCall, ToolProtocol
from artifactflow_nb.core.text.format import count
from artifactflow_nb.core.toolcalls.xml import format_call
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.models.base import LocalModel, ModelDelta, ModelEvent, ModelReply, ModelRequest, estimate_usage

ScriptedTurn = str | ToolCall | Sequence[str | ToolCall] | Exception | ModelReply
Script = Callable[[ModelRequest], ScriptedTurn]


class ScriptedModel(LocalModel):
    """Model that replies with the turns of a script, streamed in small pieces.

    Args:
        turns: The replies in order: text, a call, or several of both, with calls in the protocol of the request; a
            complete `ModelReply`; or an exception to raise. A function computes the reply from each request, which
            suits concurrent agents, whose order varies.
        chunk_chars: Characters of each piece.
        delay_s: Seconds before each piece.

    Attributes:
        requests: All requests, in order of arrival.
    """

    provider = "scripted"
    tool_protocols: tuple[ToolProtocol, ...] = ("xml", "native")
    default_model = "scripted"

    def __init__(self, turns: Iterable[ScriptedTurn] | Script, *, chunk_chars: int = 16, delay_s: float = 0.0) -> None:
        self.requests: list[ModelRequest] = []
        if not callable(turns) and not isinstance(turns, Iterable):
            raise UsageError(f"turns is {brief(turns)}; pass a list of turns or a function that returns the next turn.")
        self._script = turns if callable(turns) else script_from_turns(turns)
        self._chunk_chars = chunk_chars
        self._delay_s = delay_s

    def __repr__(self) -> str:
        return f"ScriptedModel(asked {count(len(self.requests), 'time')})"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the next turn of the script."""
        self.requests.append(request)
        turn = self._script(request)
        if isinstance(turn, Exception):
            raise turn
        reply = turn if isinstance(turn, ModelReply) else _reply(request, turn)
        started, ttft_ms = time.perf_counter(), None
        for i in range(0, len(reply.content), self._chunk_chars):
            await asyncio.sleep(self._delay_s)
            ttft_ms = ttft_ms if ttft_ms is not None else (time.perf_counter() - started) * 1000
            yield ModelDelta(reply.content[i : i + self._chunk_chars])
        for call in reply.calls:
            yield ModelDelta(json.dumps(dict(call.params), ensure_ascii=False), "call", call.name)
        yield reply if isinstance(turn, ModelReply) else replace(reply, ttft_ms=ttft_ms)


def _reply(request: ModelRequest, turn: str | ToolCall | Sequence[str | ToolCall]) -> ModelReply:
    items = [turn] if isinstance(turn, str | ToolCall) else turn
    is_native = request.tool_protocol == "native"
    calls = tuple(item for item in items if isinstance(item, ToolCall)) if is_native else ()
    text = "".join(
        item if isinstance(item, str) else "" if is_native else format_call(item.name, item.params) for item in items
    )
    # The usage is not marked as estimated: four characters a token are the definition of this model's usage.
    usage = replace(estimate_usage(request, text, calls), estimated=False)
    return ModelReply(text, usage, "tool_calls" if calls else "stop", request.model or "scripted", calls)


def script_from_turns(turns: Iterable[ScriptedTurn]) -> Script:
    """Return a script that replies with the turns in order, and with an error when no turn is left."""
    remaining = iter(turns)

    def next_turn(_request: ModelRequest) -> ScriptedTurn:
        try:
            return next(remaining)
        except StopIteration:
            return AssertionError("The script has no turn left for this request. Add a turn.")

    return next_turn
