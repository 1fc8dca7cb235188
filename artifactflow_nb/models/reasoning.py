"""What a model thinks and what it answers, told apart while it streams.

Endpoints give reasoning in a field of its own, or between `<think>` and `</think>` before the answer; some leave the
opening tag out, because it stood in the prompt. A tag may be cut anywhere.
"""

from typing import Literal

from artifactflow_nb.models.base import DeltaKind, ModelDelta

_State = Literal["start", "thinking", "after", "watching", "answer"]

_OPEN = "<think>"
_CLOSE = "</think>"
_CALL = "<tool_call"
_QUOTES = ("`", "'", '"')


class AnswerText:
    """The text of a turn as it grows.

    A lone `</think>` turns what came before it into reasoning: by then it has been streamed as answer, but it does not
    stay in `content`.
    """

    def __init__(self) -> None:
        self._answer: list[str] = []
        self._reasoning: list[str] = []
        self._held = ""  # may be the beginning of a tag
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
        """Add text of a reasoning field."""
        self._reasoning.append(text)
        return ModelDelta(text, "reasoning")

    def add(self, text: str) -> list[ModelDelta]:
        """Add text of the answer field, which may hold tags; give what can be shown by now."""
        if self._state == "answer" or (self._state == "watching" and not self._held and "<" not in text):
            self._answer.append(text)
            return [ModelDelta(text)]
        text, self._held = self._held + text, ""
        deltas: list[ModelDelta] = []
        while text:
            text = self._step(text, deltas)
        return deltas

    def _step(self, text: str, deltas: list[ModelDelta]) -> str:
        """Read as far as the state allows; return what the next state has to read."""
        match self._state:
            case "start":
                return self._read_start(text)
            case "thinking":
                return self._read_thinking(text, deltas)
            case "after":
                return self._read_after(text)
            case "watching":
                return self._read_watching(text, deltas)
        self._emit(text, "answer", deltas)
        return ""

    def finish(self) -> list[ModelDelta]:
        """What had been held back and turned out to be no tag."""
        deltas: list[ModelDelta] = []
        if self._held.strip():
            self._emit(self._held, "reasoning" if self._state == "thinking" else "answer", deltas)
        self._held = ""
        return deltas

    def _read_start(self, text: str) -> str:
        beginning = text.lstrip()
        if beginning.startswith(_OPEN):
            self._state = "thinking"
            return beginning[len(_OPEN) :]
        if _OPEN.startswith(beginning):
            self._held = text
            return ""
        self._state = "watching"
        return text

    def _read_thinking(self, text: str, deltas: list[ModelDelta]) -> str:
        before, tag, after = text.partition(_CLOSE)
        if not tag:
            before = self._hold(text)
        self._emit(before, "reasoning", deltas)
        if tag:
            self._state = "after"
        return after

    def _read_after(self, text: str) -> str:
        """Leave out the blank lines between reasoning and answer."""
        text = text.lstrip()
        if text:
            self._state = "answer"
        return text

    def _read_watching(self, text: str, deltas: list[ModelDelta]) -> str:
        found = sorted((text.index(tag), tag) for tag in (_OPEN, _CLOSE, _CALL) if tag in text)
        if not found:
            self._emit(self._hold(text), "answer", deltas)
            return ""
        position, tag = found[0]
        if tag == _CLOSE and not self._quoted(text, position):
            self._reasoning += [*self._answer, text[:position]]
            self._answer = []
            self._state = "after"
            return text[position + len(_CLOSE) :]
        self._state = "answer"  # the tag is spoken of, or a call has begun: all that follows is the answer's own
        return text

    def _quoted(self, text: str, position: int) -> bool:
        before = text[:position] or (self._answer[-1] if self._answer else "")
        return before.endswith(_QUOTES)

    def _hold(self, text: str) -> str:
        """Keep back an end that may be the beginning of a tag; return the rest."""
        start = text.rfind("<", max(0, len(text) - len(_CALL)))
        if start >= 0 and any(tag.startswith(text[start:]) for tag in (_OPEN, _CLOSE, _CALL)):
            self._held = text[start:]
            return text[:start]
        return text

    def _emit(self, text: str, kind: DeltaKind, deltas: list[ModelDelta]) -> None:
        if text:
            (self._answer if kind == "answer" else self._reasoning).append(text)
            deltas.append(ModelDelta(text, kind))
