"""Separation of reasoning and answer in a stream.

Endpoints send reasoning in fields of their own, in parts of the content, or between marks before the answer
(`THINKING`). Some endpoints omit the opening mark, because the chat template puts it into the prompt. Models of gpt-oss
write messages in channels; some endpoints remove the marks of the channels. A delta may end within a mark.
"""

import re
from collections.abc import Mapping
from typing import Any, Literal

from artifactflow_nb.core.messages import DeltaKind
from artifactflow_nb.core.toolcalls.marks import CALL_BEGINNING, THINKING
from artifactflow_nb.models.base import ModelDelta

_State = Literal["start", "thinking", "watching", "answer"]

_FIELDS = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
_BLANKS = " \t\r\n\ufeff\u200b"
_CHANNELS = ("<|channel|>", "<|start|>")
_MESSAGE = "<|message|>"
_BARE_ANALYSIS = "analysis"
_BARE_END = re.compile(r"assistant(?:final(?:<\|message\|>)?|(?=commentary))")
_CHANNEL_END = re.compile(r"<\|end\|>|(?=<\|start\|>|<\|channel\|>)")
_CLOSINGS = re.compile("|".join(re.escape(closing) for closing in {*THINKING.values()}))
_MENTIONS = re.compile("|".join(re.escape(mark) for mark in {*THINKING, *THINKING.values()}))
_QUOTES = ("`", "'", '"')
_MAX_MARK_CHARS = 24
_MAX_HEADER_CHARS = 200
_MARK_CHARACTERS = frozenset("<[◁")
_PARTIAL_MARK = re.compile(rf"(?:[<\[◁][^\s>]{{0,{_MAX_MARK_CHARS}}}|a[a-z]{{0,18}})\Z")


def split_delta(delta: Mapping[str, Any]) -> tuple[str, str]:
    """Return the reasoning and the answer of a delta or message; text that comes in two fields counts once."""
    content = delta.get("content") or delta.get("refusal") or ""
    parts = [{"text": content}] if isinstance(content, str) else content
    thoughts = [part for part in parts if "think" in str(part.get("type")) or "reason" in str(part.get("type"))]
    answer = "".join(part.get("text") or "" for part in parts if part not in thoughts)
    reasoning = next((delta[name] for name in _FIELDS if delta.get(name)), None)
    return _text(reasoning or delta.get("reasoning_details") or ()) + _text(thoughts), answer


def _text(value: Any) -> str:
    """Return the text of a field, which some endpoints send as parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return _text(next((value[name] for name in ("text", "thinking", "summary", "content") if value.get(name)), ()))
    return "".join(map(_text, value))


class AnswerText:
    """Accumulated text of a turn.

    The text before a `</think>` without opening tag counts as reasoning. This text was already streamed as answer,
    but `content` omits the text.
    """

    def __init__(self) -> None:
        self._answer: list[str] = []
        self._reasoning: list[str] = []
        self._pending = ""  # may be the start of a mark
        self._state: _State = "start"  # -> thinking -> start -> answer, or -> watching (-> start) -> answer
        self._closing = _CLOSINGS
        self._has_thought = False

    @property
    def content(self) -> str:
        """The answer so far, without reasoning."""
        return "".join(self._answer)

    @property
    def reasoning(self) -> str:
        """The reasoning so far."""
        return "".join(self._reasoning)

    def add_reasoning(self, text: str) -> ModelDelta:
        """Add text of a reasoning field and return its delta."""
        self._reasoning.append(text)
        return ModelDelta(text, "reasoning")

    def add(self, text: str) -> list[ModelDelta]:
        """Add text of the answer field, which may contain marks, and return the resulting deltas."""
        # Most deltas take this fast path, because they contain no mark.
        is_plain = not self._pending and _MARK_CHARACTERS.isdisjoint(text)
        if self._state == "answer" or (self._state == "watching" and is_plain):
            self._answer.append(text)
            return [ModelDelta(text)]
        text, self._pending = self._pending + text, ""
        deltas: list[ModelDelta] = []
        while text:
            text = self._step(text, deltas)
        return deltas

    def _step(self, text: str, deltas: list[ModelDelta]) -> str:
        """Process text in the current state; return the rest for the next state."""
        match self._state:
            case "start":
                return self._start(text)
            case "thinking":
                end = self._closing.search(text)
                self._emit(text[: end.start()] if end else self._hold_back(text), "reasoning", deltas)
                self._state = "start" if end else "thinking"
                return text[end.end() :] if end else ""
            case "watching":
                mention, call = _MENTIONS.search(text), CALL_BEGINNING.search(text)
                if call and (mention is None or call.start() < mention.start()):
                    mention = None
                if mention is None and call is None:
                    self._emit(self._hold_back(text), "answer", deltas)
                    return ""
                before = text[: mention.start()] if mention else ""
                if mention and mention[0] not in THINKING and not (before or self._last()).endswith(_QUOTES):
                    self._reasoning += [*self._answer, before]
                    self._answer = []
                    self._state, self._has_thought = "start", True
                    return text[mention.end() :]
                # The answer mentions a mark, or a call has started: later marks are part of the answer.
                self._state = "answer"
                return text
        self._emit(text, "answer", deltas)
        return ""

    def _start(self, text: str) -> str:
        """Recognise an opening mark at the beginning of the text; return the rest of the text."""
        beginning = text.lstrip(_BLANKS)
        opening = next((mark for mark in THINKING if beginning.startswith(mark)), None)
        if opening:
            return self._think(re.compile(re.escape(THINKING[opening])), beginning[len(opening) :])
        if beginning.startswith(_CHANNELS) and len(beginning) < _MAX_HEADER_CHARS and _MESSAGE not in beginning:
            self._pending = text
            return ""
        header, message, body = beginning.partition(_MESSAGE)
        if message and header.startswith(_CHANNELS) and "to=" not in header:
            if "analysis" in header:
                return self._think(_CHANNEL_END, body)
            if "final" in header:
                self._state = "answer"
                return body
        if beginning.startswith(_BARE_ANALYSIS) and beginning[len(_BARE_ANALYSIS) :][:1].isupper():
            return self._think(_BARE_END, beginning[len(_BARE_ANALYSIS) :])
        marks = (*THINKING, *_CHANNELS, _BARE_ANALYSIS)
        if any(mark.startswith(beginning) for mark in marks):
            self._pending = text
            return ""
        self._state = "answer" if self._has_thought else "watching"
        return beginning if self._has_thought else text

    def _think(self, closing: re.Pattern[str], text: str) -> str:
        self._state, self._closing, self._has_thought = "thinking", closing, True
        return text

    def _last(self) -> str:
        return self._answer[-1] if self._answer else ""

    def finish(self) -> list[ModelDelta]:
        """Return the text that was withheld as the possible beginning of a mark; called at the end of the stream."""
        deltas: list[ModelDelta] = []
        if self._pending.strip(_BLANKS):
            self._emit(self._pending, "reasoning" if self._state == "thinking" else "answer", deltas)
        self._pending = ""
        if self._state == "thinking" and self._closing is _BARE_END:  # the text was no channel, but an answer
            self._answer, self._reasoning = [_BARE_ANALYSIS, *self._reasoning], []
        return deltas

    def _hold_back(self, text: str) -> str:
        """Set aside an end of the text that may be the start of a mark; return the text before that end."""
        partial = _PARTIAL_MARK.search(text, max(0, len(text) - _MAX_MARK_CHARS))
        if partial is None or (partial[0][0] == "a" and self._closing is not _BARE_END):
            return text
        self._pending = partial[0]
        return text[: partial.start()]

    def _emit(self, text: str, kind: DeltaKind, deltas: list[ModelDelta]) -> None:
        if text:
            (self._answer if kind == "answer" else self._reasoning).append(text)
            deltas.append(ModelDelta(text, kind))
