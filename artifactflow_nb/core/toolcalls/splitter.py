"""`ReplySplitter`: separates a streamed reply of the text protocol into prose and tool calls.

Everything from the first `<tool_call` on counts as calls, because only the complete reply shows whether prose follows.
A tail that may be the beginning of that tag, or of a code fence around it, is withheld until the next piece. Prose and
calls together are the whole reply.
"""

import re
from typing import Literal, NamedTuple

OPENING = "<tool_call"

_PREFIXES = "|".join(re.escape(OPENING[:n]) for n in range(len(OPENING) - 1, 0, -1))
_FENCE = r"(?:^|(?<=\n))[ ]{0,3}`{1,3}[\w-]*\s*"
_AMBIGUOUS_TAIL = re.compile(rf"{_FENCE}(?:{_PREFIXES})?$|(?:{_PREFIXES})$")
_FENCE_BEFORE_CALL = re.compile(rf"{_FENCE}$")
_NAME = re.compile(r"<name>\s*(?:<!\[CDATA\[)?\s*([\w.-]+)")
_WINDOW_CHARS = 80
"""More than any fence, tag prefix or `<name>` with a tool name that pieces may split; bounds the work for a piece."""


class ReplyPart(NamedTuple):
    """A part of a streamed reply.

    Attributes:
        kind: `answer` for prose, or `call`.
        text: The text.
        tool: The tool of the last call so far; empty for prose, and until its name has arrived.
    """

    kind: Literal["answer", "call"]
    text: str
    tool: str = ""


class ReplySplitter:
    """Splits the pieces of one reply as they arrive.

    Attributes:
        is_open: Whether text is withheld, or a call has begun. While it is false, a piece without `<` and backticks is
            prose, and `feed` need not be called.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._withheld = ""
        self._call_tail = ""
        self._tool = ""

    def feed(self, piece: str) -> list[ReplyPart]:
        """The parts that can be published after a piece; empty if all of it is withheld."""
        if self._call_tail:
            return [self._call(piece)]
        text = self._withheld + piece
        at = text.find(OPENING)
        if at >= 0:
            fence = _FENCE_BEFORE_CALL.search(text, max(at - _WINDOW_CHARS, 0), at)
            at = fence.start() if fence else at
            self._withheld, self.is_open = "", True
            return [*([ReplyPart("answer", text[:at])] if at else []), self._call(text[at:])]
        end = _AMBIGUOUS_TAIL.search(text, max(len(text) - _WINDOW_CHARS, 0))
        cut = end.start() if end else len(text)
        self._withheld, self.is_open = text[cut:], cut < len(text)
        return [ReplyPart("answer", text[:cut])] if cut else []

    def finish(self) -> list[ReplyPart]:
        """The text that was withheld, at the end of the reply."""
        withheld, self._withheld = self._withheld, ""
        return [ReplyPart("answer", withheld)] if withheld else []

    def _call(self, text: str) -> ReplyPart:
        window = self._call_tail + text
        if names := _NAME.findall(window):
            self._tool = names[-1]
        self._call_tail = window[-_WINDOW_CHARS:]
        return ReplyPart("call", text, self._tool)
