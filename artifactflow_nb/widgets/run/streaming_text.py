"""`StreamingText`: the prose of a streamed reply, and the progress of the tool calls in it."""

from artifactflow_nb.core.text.shortened import GrowingText
from artifactflow_nb.core.toolcalls.partial import PartialParameter

_WRITTEN_PARAM = "content"
_TITLE_PARAM = "title"


class StreamingText:
    """The reply of one model call so far.

    Attributes:
        prose: The visible part.
        call_chars: Number of characters of tool calls; 0 before the first call.
        call_name: Tool of the last call; empty until its name has arrived.
        written: What the last call writes, its parameter `content`.
        title: The title of what it writes, its parameter `title`; empty if there is none.
    """

    def __init__(self) -> None:
        self.prose = GrowingText()
        self.call_chars = 0
        self.call_name = ""
        self.written = GrowingText()
        self.title = ""
        self._content = PartialParameter(_WRITTEN_PARAM)
        self._title = PartialParameter(_TITLE_PARAM)

    def append_call(self, tool: str, delta: str) -> None:
        """Add the next chunk of a tool call."""
        self.call_chars += max(len(delta), 1)  # at least 1: a native call is displayed before its arguments arrive
        self.call_name = tool
        text, is_new = self._content.read(delta)
        if is_new:
            self.written = GrowingText()
        self.written.append(text)
        title, is_new = self._title.read(delta)
        self.title = title if is_new else self.title + title

    def settle(self, text: str) -> None:
        """Replace the prose with the final text from the end of the model call."""
        if self.prose.text != text:  # equal text keeps its rendered blocks
            self.prose = GrowingText(text)
        self.call_chars, self.call_name = 0, ""
