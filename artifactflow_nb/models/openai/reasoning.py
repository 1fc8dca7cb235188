"""Separation of reasoning and answer in a stream.

Endpoints send reasoning in a field of its own, or between `<think>` and `</think>` before the answer. Some omit the
opening tag, because their chat template puts it into the prompt. A delta may end within a tag.
"""

from typing import Literal

from artifactflow_nb.core.messages import DeltaKind
from artifactflow_nb.models.base import ModelDelta

_State = Literal["start", "thinking", "after", "watching", "answer"]

_OPEN = "<think>"
_CLOSE = "</think>"
_CALL = "<tool_call"
_QUOTES = ("`", "'", '"')


class AnswerText:
    """Accumulated text of a turn.

    After a `</think>` without opening tag, the text before it counts as reasoning. It was already streamed as answer,
    but `content` does not contain it.
    """

    def __init__(self) -> None:
        self._answer: list[str] = []
        self._reasoning: list[str] = []
        self._pending = ""  # may be the start of a tag
        # start -> thinking -> after -> answer, or start -> watching (-> after) -> answer
        self._state: _State = "start"

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
        """Add text of the answer field, which may contain tags, and return the resulting deltas."""
        # The fast path of most deltas: nothing to look for.
        if self._state == "answer" or (self._state == "watching" and not self._pending and "<" not in text):
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
                beginning = text.lstrip()
                if beginning.startswith(_OPEN):
                    self._state = "thinking"
                    return beginning[len(_OPEN) :]
                if _OPEN.startswith(beginning):
                    self._pending, text = text, ""
                else:
                    self._state = "watching"
                return text
            case "thinking":
                before, tag, after = text.partition(_CLOSE)
                self._emit(before if tag else self._hold_back(text), "reasoning", deltas)
                self._state = "after" if tag else "thinking"
                return after
            case "after":  # skip white space between reasoning and answer
                text = text.lstrip()
                self._state = "answer" if text else "after"
                return text
            case "watching":
                tags = sorted((text.index(tag), tag) for tag in (_OPEN, _CLOSE, _CALL) if tag in text)
                if not tags:
                    self._emit(self._hold_back(text), "answer", deltas)
                    return ""
                position, tag = tags[0]
                before = text[:position] or (self._answer[-1] if self._answer else "")
                if tag == _CLOSE and not before.endswith(_QUOTES):
                    self._reasoning += [*self._answer, text[:position]]
                    self._answer = []
                    self._state = "after"
                    return text[position + len(_CLOSE) :]
                # The answer mentions a tag, or a call has started: later tags are part of the answer.
                self._state = "answer"
                return text
        self._emit(text, "answer", deltas)
        return ""

    def finish(self) -> list[ModelDelta]:
        """Return the text that was withheld as the possible beginning of a tag; called at the end of the stream."""
        deltas: list[ModelDelta] = []
        if self._pending.strip():
            self._emit(self._pending, "reasoning" if self._state == "thinking" else "answer", deltas)
        self._pending = ""
        return deltas

    def _hold_back(self, text: str) -> str:
        """Set aside an end of the text that may be the start of a tag; return the text before it."""
        start = text.rfind("<", max(0, len(text) - len(_CALL)))
        if start >= 0 and any(tag.startswith(text[start:]) for tag in (_OPEN, _CLOSE, _CALL)):
            self._pending = text[start:]
            return text[:start]
        return text

    def _emit(self, text: str, kind: DeltaKind, deltas: list[ModelDelta]) -> None:
        if text:
            (self._answer if kind == "answer" else self._reasoning).append(text)
            deltas.append(ModelDelta(text, kind))
