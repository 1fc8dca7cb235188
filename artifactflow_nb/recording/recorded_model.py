"""Models that use a recording: a model for replays, and a model with prices, ids and a clock for verification."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any

import orjson

from artifactflow_nb import errors
from artifactflow_nb.core.budget import Price
from artifactflow_nb.core.clock_ids import RandomIds, SystemClock
from artifactflow_nb.core.messages import Message, ToolCall, ToolProtocol, Usage
from artifactflow_nb.core.redaction.redactor import is_same_text
from artifactflow_nb.errors import (
    CassetteMiss,
    ContextOverflow,
    ModelError,
    ModelUnavailable,
    RunCancelled,
    ToolsRefused,
)
from artifactflow_nb.models.base import ModelDelta, ModelEvent, ModelReply, ModelRequest, RetryNotice
from artifactflow_nb.recording.identity import text_difference
from artifactflow_nb.recording.rows import Row, RunRows

_COMPARED_CHARS = 4_000
_NEXT_REQUEST = frozenset({ContextOverflow.__name__, ToolsRefused.__name__})
"""The errors after which another request follows, instead of another attempt at the same request."""
_PRETTY = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS


@dataclass(frozen=True, slots=True)
class RecordedUsage(Usage):
    """The tokens of a recorded model call, with the recorded cost in US dollars."""

    cost: float = 0.0


class RecordedPrice(Price):
    """A price that returns the recorded cost of a model call, because a recording has no price list."""

    def cost_usd(self, usage: Usage) -> float:
        """Return the recorded cost; 0 for tokens that are not recorded."""
        return usage.cost if isinstance(usage, RecordedUsage) else 0.0


class _Turn:
    """A recorded model turn: the attempts of one request."""

    def __init__(self, rows: RunRows, attempts: Sequence[Row]) -> None:
        self.attempts = attempts
        self.last = attempts[-1]
        self._rows = rows

    @cached_property
    def prompt(self) -> "Prompt":
        """The role and text of each message."""
        return [
            (role, self._rows.texts[key] + "".join(f"\n[call {name} {params}]" for name, params in (calls or [[]])[0]))
            for role, key, *calls in self._rows.prompts[self.last["call_id"]]
        ]

    @property
    def tools(self) -> Mapping[str, Any] | None:
        """The tools that the model could call, by name; None if the tools are not recorded."""
        offered = orjson.loads(self.last["offer_json"] or "{}").get("tools")
        return None if offered is None else {tool["name"]: tool for tool in orjson.loads(self._rows.texts[offered])}

    @property
    def job(self) -> tuple[str, str]:
        """The run and the job that took the turn."""
        return self.last["run_id"], self.last["job_id"]

    @property
    def was_cut(self) -> bool:
        """Whether the run was cancelled during this turn."""
        return bool(self.last["error_type"] == RunCancelled.__name__)

    @property
    def was_copied(self) -> bool:
        """Whether a fork copied the turn, with the prompt of the forked run."""
        return bool(self.last["cassette"] == "hit" and self.last["llm_duration_ms"] == 0)

    def error(self) -> ModelError:
        """Return the error of the last attempt."""
        kind = getattr(errors, self.last["error_type"], ModelUnavailable)
        error = kind if isinstance(kind, type) and issubclass(kind, ModelError) else ModelUnavailable
        return error(self.last["error_message"] or "", partial=self.last["content"])

    def reply(self) -> ModelReply:
        """Return the recorded reply."""
        row = self.last
        native = orjson.loads(row["offer_json"] or "{}").get("n_native_calls", 0)
        calls = (
            ToolCall(
                call["tool_name"],
                orjson.loads(call["args_json"]),
                str(call["error_message"]) if call["error_type"] == "Unreadable" else None,
            )
            for call in self._rows.calls_of_replies.get(row["call_id"], ())[:native]
        )
        usage = RecordedUsage(
            row["input_tokens"] or 0,
            row["output_tokens"] or 0,
            row["reasoning_tokens"],
            row["cache_read_tokens"],
            estimated=bool(row["tokens_estimated"]),
            cost=row["cost_usd"] or 0.0,
        )
        model = row["response_model"] or row["request_model"]
        return ModelReply(
            row["content"],
            usage,
            row["finish_reason"] or "stop",
            model,
            tuple(calls),
            row["reasoning"],
            row["ttft_ms"],
            len(self.attempts),
            row["provider_json"] and orjson.loads(row["provider_json"]),
        )


class ReplayModel:
    """A stand-in for the recorded models in a replay, with the names of the models, which never replies.

    `models` has the provider and name of each recorded model, in the order of the calls.
    """

    tool_protocols: tuple[ToolProtocol, ...] = ("xml", "native")

    def __init__(self, models: Iterable[tuple[str, str]] = (), name: str | None = None) -> None:
        recorded = list(models)
        self.provider, first = recorded[0] if recorded else ("recorded", "recorded")
        self.default_model = name or first
        self._models = list(dict.fromkeys([self.default_model, *(model for _, model in recorded)]))

    def __repr__(self) -> str:
        return f"ReplayModel({self.default_model!r}, provider={self.provider!r})"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Raise `CassetteMiss`: replies are read from the recording, so only unrecorded requests arrive here."""
        raise CassetteMiss(f"{request.model or self.default_model} received a request that is not recorded.")
        yield  # makes the function an async generator, as the protocol requires

    async def list_models(self) -> list[str]:
        """Return the names of the recorded models."""
        return list(self._models)

    async def aclose(self) -> None:
        """Do nothing: there are no connections."""


class RecordedModel(ReplayModel):
    """Replies to a request with the recorded reply to the same prompt, or to the most similar prompt.

    The first tool protocol is the recorded protocol; `graphs` are the runs of adapted graphs, which have no protocol.

    Attributes:
        cancelled: Set when a turn is requested in which the recorded run was cancelled.
    """

    def __init__(self, rows: RunRows, graphs: Collection[str] = ()) -> None:
        super().__init__(("recorded", row["request_model"]) for row in rows["llm_calls"])
        calls = (row for row in rows["llm_calls"] if row["run_id"] not in graphs)
        offers = (orjson.loads(row["offer_json"] or "{}") for row in calls)
        first: ToolProtocol = next((offer["tool_protocol"] for offer in offers if "tool_protocol" in offer), "xml")
        self.tool_protocols = (first, "native" if first == "xml" else "xml")
        self._left = list(_turns(rows))
        self.differences: list[str] = []
        self.cancelled = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Stream the recorded turn."""
        if not self._left:
            raise ModelUnavailable("This request is not recorded, and all recorded turns were used.")
        prompt = [(message.role, _text(message)) for message in request.messages]
        turn = next((turn for turn in self._left if _is_same(turn.prompt, prompt)), None)
        differing: list[str] = []
        if turn is None:
            next_turns = {turn.job: turn for turn in reversed(self._left)}  # a job takes turns in order
            turn = max(next_turns.values(), key=lambda turn: _likeness(turn.prompt, prompt))
            differing += _differing(turn.prompt, prompt)
        differing += _differing_tools(turn.tools, request)
        if differing and not turn.was_copied:
            where = f"{turn.last['agent_name']}, step {turn.last['step']} of {turn.last['job_id']}"
            self.differences.append("\n".join([f"{where}:", *differing]))
        self._left.remove(turn)
        for number, failed in enumerate(turn.attempts[:-1], 1):
            yield RetryNotice(number, 0.0, failed["error_message"] or "")
        if turn.was_cut:
            self.cancelled.set()
            await asyncio.Event().wait()
        if turn.last["error_type"]:
            raise turn.error()
        reply = turn.reply()
        if reply.content:
            yield ModelDelta(reply.content)
        yield reply


def _turns(rows: RunRows) -> Iterator[_Turn]:
    """Yield the turns in the order of the recording; a turn has the attempts of one request."""
    attempts: dict[tuple[Any, ...], list[Row]] = {}
    last = {(row["run_id"], row["job_id"], row["step"]): row["call_id"] for row in rows["llm_calls"]}
    for row in rows["llm_calls"]:
        step = row["run_id"], row["job_id"], row["step"]
        is_last = last[step] == row["call_id"]
        if row["error_type"] == RunCancelled.__name__ and not is_last:
            continue  # the process of the attempt was killed; another attempt followed
        attempts.setdefault(step, []).append(row)
        if is_last or row["error_type"] in _NEXT_REQUEST or not row["error_type"]:
            yield _Turn(rows, attempts.pop(step))


def _text(message: Message) -> str:
    return message.content + "".join(f"\n[call {call.name} {dict(call.params)}]" for call in message.calls)


Prompt = Sequence[tuple[str, str]]


def _is_same(recorded: Prompt, now: Prompt) -> bool:
    return len(recorded) == len(now) and all(
        before[0] == after[0] and is_same_text(before[1], after[1]) for before, after in zip(recorded, now, strict=True)
    )


def _likeness(recorded: Prompt, now: Prompt) -> tuple[bool, float, float]:
    def ending(prompt: Prompt) -> str:
        return "\n".join(text[-_COMPARED_CHARS:] for _, text in prompt[1:])[-_COMPARED_CHARS:]

    def first(prompt: Prompt) -> str:
        return prompt[0][1][:_COMPARED_CHARS] if prompt else ""

    is_as_long = len(recorded) == len(now)
    alike = (SequenceMatcher(None, of(recorded), of(now)).quick_ratio() for of in (ending, first))
    return (is_as_long, *alike)  # type: ignore[return-value]


def _differing(recorded: Prompt, now: Prompt) -> Iterator[str]:
    pairs: Mapping[int, tuple[str, str]] = {
        n: (recorded[n][1] if n < len(recorded) else "", now[n][1] if n < len(now) else "")
        for n in range(max(len(recorded), len(now)))
    }
    for n, (before, after) in pairs.items():
        if not is_same_text(before, after):
            yield f"message {n + 1} of the prompt:"
            yield from text_difference(before, after)


def _differing_tools(recorded: Mapping[str, Any] | None, request: ModelRequest) -> Iterator[str]:
    """Yield the differences between the recorded native tools and the tools of a request; `xml` prompts name tools."""
    if recorded is None or request.tool_protocol != "native":
        return
    now = {
        tool.name: {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in request.tools
    }
    for name in sorted({*recorded, *now}):
        before, after = (orjson.dumps(tools.get(name), option=_PRETTY).decode() for tools in (recorded, now))
        if name not in recorded or name not in now:
            yield f"tool {name}: {'missing' if name in recorded else 'new'}"
        elif not is_same_text(before, after) and not is_same_text(after, before):
            yield f"tool {name}:"
            yield from text_difference(before, after)


class RecordedIds(RandomIds):
    """Assigns runs the ids of the recording, in the order in which the runs start."""

    def __init__(self, rows: RunRows) -> None:
        self._left: dict[str, list[str]] = {"run": [], "msg": [], "thd": [], "conv": []}
        for row in rows["runs"]:
            for prefix, name in (("run", "run_id"), ("msg", "message_id"), ("thd", "thread_id")):
                self._left[prefix].append(row[name])
        self._conversations = {row["run_id"]: row["conversation_id"] for row in rows["runs"]}

    def new(self, prefix: str) -> str:
        """Return the id of the next recorded run, message, thread or conversation, and new ids for other things."""
        left = self._left.get(prefix)
        if prefix == "run" and left:
            self._left["conv"] = [self._conversations[left[0]]]
        return left.pop(0) if left else super().new(prefix)

    def skip(self, run: Row) -> None:
        """Remove the ids of a run that is not executed again, so that `new` does not return these ids."""
        for prefix, name in (("run", "run_id"), ("msg", "message_id"), ("thd", "thread_id")):
            self._left[prefix].remove(run[name])


class RecordedClock(SystemClock):
    """The system clock set back to the time of the recording, because prompts contain the date."""

    def __init__(self, started_at: datetime) -> None:
        self._behind = super().now() - started_at

    def now(self) -> datetime:
        """Return the time of day, counted from the start of the recording."""
        return super().now() - self._behind
