"""`StreamingText`: separates a streamed reply into visible prose and hidden tool calls of the text protocol.

Chunks contain the raw reply. From the first `<tool_call` on, characters are only counted. A tail that may turn into
that tag, or into the code fence around it, is buffered until the next chunk.
"""

import re

from artifactflow_nb.core.text.shortened import GrowingText

_OPENING = "<tool_call"
_PREFIXES = "|".join(re.escape(_OPENING[:n]) for n in range(len(_OPENING) - 1, 0, -1))
_AMBIGUOUS_TAIL = re.compile(rf"(?:^|(?<=\n))[ ]{{0,3}}`{{1,3}}[\w-]*\s*(?:{_PREFIXES})?$|(?:{_PREFIXES})$|\s+$")
_FENCE_BEFORE_CALL = re.compile(r"\s*```[\w-]*\s*$")
_NAME = re.compile(r"<name>\s*(?:<!\[CDATA\[)?\s*([\w.-]+)")
# Longer than any fence, tag prefix or `<name>` with a tool name that chunks may split.
_WINDOW_CHARS = 80


class StreamingText:
    """The reply of one model call so far.

    Attributes:
        prose: The visible part.
        call_chars: Number of characters of tool calls; 0 before the first call.
        call_name: Tool of the last call; empty until its name has arrived.
    """

    def __init__(self) -> None:
        self.prose = GrowingText()
        self.call_chars = 0
        self.call_name = ""
        self._pending = ""
        self._call_tail = ""

    def append(self, delta: str) -> None:
        """Add the next chunk of the raw reply."""
        if self._call_tail:
            self._count_call(delta)
            return
        pending = self._pending + delta
        at = pending.find(_OPENING)
        if at >= 0:
            self.prose.append(_FENCE_BEFORE_CALL.sub("", pending[:at]).rstrip())
            self._pending = ""
            self._count_call(pending[at:])
            return
        end = _AMBIGUOUS_TAIL.search(pending, max(len(pending) - _WINDOW_CHARS, 0))
        cut = end.start() if end else len(pending)
        self.prose.append(pending[:cut])
        self._pending = pending[cut:]

    def append_call(self, tool: str, delta: str) -> None:
        """Count the next chunk of a native tool call."""
        self.call_chars += max(len(delta), 1)  # at least 1: a call is displayed before its arguments arrive
        self.call_name = tool

    def settle(self, text: str) -> None:
        """Replace the prose with the final text from the end of the model call."""
        if self.prose.text != text:  # equal text keeps its rendered blocks
            self.prose = GrowingText(text)
        self.call_chars, self.call_name, self._pending, self._call_tail = 0, "", "", ""

    def _count_call(self, text: str) -> None:
        """Add the length of a piece of a tool call, and note the name of the last tool in it."""
        self.call_chars += len(text)
        window = self._call_tail + text
        if names := _NAME.findall(window):
            self.call_name = names[-1]
        self._call_tail = window[-_WINDOW_CHARS:]
