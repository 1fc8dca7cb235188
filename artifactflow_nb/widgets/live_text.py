"""A model's reply while it streams: the prose is shown, tool calls of the text protocol are not.

Chunks carry the raw reply. From the first `<tool_call` on, its text is only counted; an end that may become such a tag,
or the fence around one, is held back until the next piece decides.
"""

import re

from artifactflow_nb.text.markdown_blocks import TextBlocks

_OPENING = "<tool_call"
_PREFIXES = "|".join(re.escape(_OPENING[:n]) for n in range(len(_OPENING) - 1, 0, -1))
_UNDECIDED = re.compile(rf"(?:^|(?<=\n))[ ]{{0,3}}`{{1,3}}[\w-]*\s*(?:{_PREFIXES})?$|(?:{_PREFIXES})$|\s+$")
_FENCE_LEFT = re.compile(r"\s*```[\w-]*\s*$")
_NAME = re.compile(r"<name>\s*(?:<!\[CDATA\[)?\s*([\w.-]+)")
_HELD_CHARS = 80


class LiveText:
    """The reply of one model call as far as it has come.

    Attributes:
        prose: What of it is prose.
        call_chars: Characters of tool calls so far; 0 while none has begun.
        call_name: The tool of the last call that was begun; empty while it is not known.
    """

    def __init__(self) -> None:
        self.prose = TextBlocks()
        self.call_chars = 0
        self.call_name = ""
        self._held = ""
        self._hidden_end = ""

    def append(self, delta: str) -> None:
        """Add the next piece of the raw reply."""
        if self._hidden_end:
            self._hide(delta)
            return
        pending = self._held + delta
        at = pending.find(_OPENING)
        if at >= 0:
            self.prose.append(_FENCE_LEFT.sub("", pending[:at]).rstrip())
            self._held = ""
            self._hide(pending[at:])
            return
        end = _UNDECIDED.search(pending, max(len(pending) - _HELD_CHARS, 0))
        cut = end.start() if end else len(pending)
        self.prose.append(pending[:cut])
        self._held = pending[cut:]

    def append_call(self, tool: str, delta: str) -> None:
        """Count the next piece of a native call."""
        self.call_chars += max(len(delta), 1)  # a call that has begun is shown before its arguments come
        self.call_name = tool

    def settle(self, text: str) -> None:
        """Replace the prose by the final text, which came with the end of the call."""
        if self.prose.text != text:
            self.prose = TextBlocks(text)
        self.call_chars, self.call_name, self._held, self._hidden_end = 0, "", "", ""

    def _hide(self, text: str) -> None:
        """Count the text of calls, and look in it for the name of the last one."""
        self.call_chars += len(text)
        window = self._hidden_end + text
        if names := _NAME.findall(window):
            self.call_name = names[-1]
        self._hidden_end = window[-_HELD_CHARS:]
