"""Tool calls in a reply that a model is still writing."""

import json
import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from artifactflow_nb.core.toolcalls.marks import CALL_BEGINNING
from artifactflow_nb.core.toolcalls.parser import unescape
from artifactflow_nb.core.toolcalls.scanner import CDATA_CLOSE, CDATA_OPEN

MARKS = frozenset("<[`")
_FENCE = r"(?:^|(?<=\n))[ ]{0,3}`{1,3}[\w-]*\s*"
_AMBIGUOUS_TAIL = re.compile(
    rf"""{_FENCE}(?:<[^\s<>]{{0,40}}|\[?\s*\{{?\s*["']?\w{{0,12}})$|<[^\s<>]{{0,40}}$|\[[A-Z_]{{0,11}}$"""
)
_FENCE_BEFORE_CALL = re.compile(rf"{_FENCE}$")
_UNDECIDED_START = re.compile(r"\s*(?:$|[{\[].{0,30}$|[acf][a-z]{0,19}(?: t?o?=?[a-z]{0,9}\.?|\[\s*)?$)", re.DOTALL)
_NAME = re.compile(r"<name>\s*(?:<!\[CDATA\[)?\s*([\w.-]+)")
_WINDOW_CHARS = 80
"""Longer than any fence, mark or `<name>` element with a tool name; it bounds the text to search after a piece."""


class ReplyPart(NamedTuple):
    """A part of a streamed reply.

    Attributes:
        kind: `answer` for prose, or `call`.
        tool: The tool of the last call so far; empty for prose, and until the name has arrived.
    """

    kind: Literal["answer", "call"]
    text: str
    tool: str = ""


class ReplySplitter:
    """Splits the pieces of one reply of the text protocol into prose and tool calls as they arrive.

    Everything from the first mark of a call on counts as calls, because only the complete reply shows whether prose
    follows. A tail that may be the beginning of a mark, or of a code fence around it, is withheld until the next
    piece. Prose and calls together are the whole reply.

    Attributes:
        is_open: Whether text is withheld, a call has begun, or nothing has arrived. While `is_open` is false, a piece
            without `MARKS` is prose: its caller may set `last` to the end of the piece instead of calling `feed`.
        last: The last character of the published prose.
    """

    def __init__(self) -> None:
        self.is_open = True
        self.last = ""
        self._withheld = ""
        self._call_tail = ""
        self._tool = ""

    def feed(self, piece: str) -> list[ReplyPart]:
        """Return the parts that can be published after a piece; the list is empty while all text is withheld."""
        if self._call_tail:
            return [self._call(piece)]
        start = len(self.last)
        text = self.last + self._withheld + piece
        if beginning := CALL_BEGINNING.search(text, start):
            fence = _FENCE_BEFORE_CALL.search(text, max(beginning.start() - _WINDOW_CHARS, start), beginning.start())
            at = fence.start() if fence else beginning.start()
            self._withheld, self.is_open = "", True
            return [*([ReplyPart("answer", text[start:at])] if at > start else []), self._call(text[at:])]
        if not start and len(text) < _WINDOW_CHARS and _UNDECIDED_START.match(text):
            cut = 0
        else:
            end = _AMBIGUOUS_TAIL.search(text, max(len(text) - _WINDOW_CHARS, start))
            cut = end.start() if end else len(text)
        self._withheld, self.is_open = text[cut:], cut < len(text)
        self.last = text[cut - 1 : cut] or self.last
        return [ReplyPart("answer", text[start:cut])] if cut > start else []

    def finish(self) -> list[ReplyPart]:
        """Return the withheld text at the end of the reply."""
        withheld, self._withheld = self._withheld, ""
        return [ReplyPart("answer", withheld)] if withheld else []

    def _call(self, text: str) -> ReplyPart:
        window = self._call_tail + text
        if names := _NAME.findall(window):
            self._tool = names[-1]
        self._call_tail = window[-_WINDOW_CHARS:]
        return ReplyPart("call", text, self._tool)


_STRING = re.compile(r"""[^"\\]*+(?:\\(?:u[0-9a-fA-F]{4}|[^u])[^"\\]*+)*+""")
_HIGH_SURROGATE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_INCOMPLETE_ENTITY = re.compile(r"&[#\w]{0,9}\Z")
_MAX_OPENING_CHARS = 80


class PartialParameter:
    """The text of a parameter, read piece by piece from JSON arguments or from the elements of the XML protocol.

    The text is for display only: the call itself is parsed when it is complete.
    """

    def __init__(self, name: str) -> None:
        element = rf"<{name}>\s*+(?:(?P<cdata>{re.escape(CDATA_OPEN)})|(?=[^<\s]))"
        self._openings = [re.compile(rf'"{name}"\s*+:\s*+"'), re.compile(element)]
        self._rest = ""
        self._read_value: Callable[[], str] | None = None

    def read(self, piece: str) -> tuple[str, bool]:
        """Read the next piece of the call.

        Returns:
            The text that the piece adds to the parameter, and whether this text begins the parameter of another call.
        """
        self._rest += piece
        text, is_new = (self._read_value() if self._read_value else ""), False
        while self._read_value is None:
            opening = next(filter(None, (opening.search(self._rest) for opening in self._openings)), None)
            if opening is None:
                self._rest = self._rest[-_MAX_OPENING_CHARS:]
                break
            self._openings = [opening.re]  # a call has one form, and its text may look like another form
            is_json = opening.re.pattern.startswith('"')
            self._read_value = self._json if is_json else self._cdata if opening["cdata"] else self._xml
            self._rest = self._rest[opening.end() :]
            text, is_new = self._read_value(), True
        return text, is_new

    def _json(self) -> str:
        value = _STRING.match(self._rest)
        end = value.end() if value else 0
        part, self._rest = self._rest[:end], self._rest[end:]
        if self._rest.startswith('"'):
            self._read_value = None
        elif half := _HIGH_SURROGATE.search(part):  # the other half of the character comes with the next piece
            part, self._rest = part[: half.start()], half[0] + self._rest
        try:
            text: str = json.loads(f'"{part}"', strict=False)
        except json.JSONDecodeError:  # an escape that JSON does not know
            text = part
        return text

    def _cdata(self) -> str:
        end = self._rest.find(CDATA_CLOSE)
        if end < 0:
            end = max(len(self._rest) - len(CDATA_CLOSE) + 1, 0)
        else:
            self._read_value = None
        part, self._rest = self._rest[:end], self._rest[end:]
        return part

    def _xml(self) -> str:
        end = self._rest.find("<")
        if end >= 0:
            self._read_value = None
        else:
            incomplete = _INCOMPLETE_ENTITY.search(self._rest)
            end = incomplete.start() if incomplete else len(self._rest)
        part, self._rest = self._rest[:end], self._rest[end:]
        return unescape(part)
