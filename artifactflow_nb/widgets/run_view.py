"""The live view of a run: one comm, numbered patches, and nobody but the engine's thread sends.

::

    page   hello ──> snapshot      a number is missing, or the page was loaded again: hello once more
    engine events ──> transcript ──(at most 25 times a second)──> patch {seq, tree, head}
    page   decide, stop ──(call_soon)──> engine

A callback of the page runs in the main thread or in a subshell, depending on the kernel; it only hands its message
over.
"""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

import anywidget
from IPython.core.getipython import get_ipython

from artifactflow_nb.events import StreamEvent
from artifactflow_nb.text.chinese import language_tag
from artifactflow_nb.widgets import labels
from artifactflow_nb.widgets.base import ViewedRun
from artifactflow_nb.widgets.frozen import stylesheet
from artifactflow_nb.widgets.render import RunRenderer
from artifactflow_nb.widgets.transcript import Transcript
from artifactflow_nb.widgets.tree import TreeDiff

PATCH_INTERVAL_S = 0.04
BLIND_INTERVAL_S = 1.0
_PING_INTERVAL_S = 0.2
_SCRIPTS = ("run_tree.js", "run_place.js", "run_view.js")
_STATIC = files("artifactflow_nb.widgets") / "static"

Send = Callable[[Mapping[str, Any]], None]


class RunStream:
    """What a view of a run sends and hears; all of it on the engine's loop.

    Args:
        run: The run.
        send: Hands a message to the page; a page that is not there loses it.
        on_end: Called once, when the terminal event has been taken in.

    Attributes:
        transcript: The state of the view.
        renderer: Its renderer, with what it has rendered already.
    """

    def __init__(self, run: ViewedRun, send: Send, on_end: Callable[[], None] = lambda: None) -> None:
        self.transcript = Transcript(run.question)
        self.renderer = RunRenderer(run)
        self._run = run
        self._send = send
        self._on_end = on_end
        self._diff = TreeDiff()
        self._head: Mapping[str, Any] = {}
        self._seq = 0
        self._page_seen = False
        self._due: asyncio.TimerHandle | None = None
        self._answered = asyncio.Event()

    def take(self, event: StreamEvent) -> None:
        """Take in an event of the run, and have the page follow soon."""
        ended = self.transcript.ended
        self.transcript.apply(event)
        if self.transcript.ended and not ended:
            self.flush()
            self._on_end()
        elif self._due is None:
            interval = PATCH_INTERVAL_S if self._page_seen else BLIND_INTERVAL_S
            self._due = asyncio.get_running_loop().call_later(interval, self.flush)

    def flush(self) -> None:
        """Send what changed; nothing if nothing did."""
        if self._due:
            self._due.cancel()
            self._due = None
        if not self._page_seen:  # its hello may be stuck behind a cell that computes, and what was sent may be lost
            self._snapshot()
            return
        tree = self._diff.patch(self.renderer.nodes(self.transcript))
        head = self._describe()
        if head != self._head:
            self._post("patch", tree=tree, head=self._timed(head))
        elif tree:
            self._post("patch", tree=tree)

    def _snapshot(self) -> None:
        tree = self._diff.snapshot(self.renderer.nodes(self.transcript))
        self._post("snapshot", tree=tree, head=self._timed(self._describe()))

    def hear(self, message: Mapping[str, Any]) -> None:
        """Act on a message of the page; one that is not understood is left alone."""
        match message:
            case {"type": "hello"}:
                self._page_seen = True
                self._answered.set()
                self._snapshot()
            case {"type": "pong"}:
                self._answered.set()
            case {"type": "decide", "request": str(request), "approved": bool(approved), "instruction": str(said)}:
                self._run.decide(request, approved, said.strip())
            case {"type": "stop"}:
                self._run.cancel()

    async def answers_ping(self, timeout_s: float = 2.0) -> bool:
        """Whether a page is there: asks until one answers or the time is over."""
        self._answered.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._ping_until_answered()
        except TimeoutError:
            return False
        return True

    async def _ping_until_answered(self) -> None:
        # A page that has not rendered the view yet loses what is sent to it, so one ping is not enough.
        while not self._answered.is_set():
            self._send({"type": "ping"})
            try:
                await asyncio.wait_for(self._answered.wait(), _PING_INTERVAL_S)
            except TimeoutError:
                continue

    def _post(self, kind: str, **parts: Any) -> None:
        self._seq += 1
        self._send({"type": kind, "seq": self._seq, **parts})

    def _timed(self, head: dict[str, Any]) -> dict[str, Any]:
        """The header with the time that the page counts on from; remembered as what the page has."""
        self._head = head
        return {**head, "elapsed": labels.elapsed_ms(self.transcript, datetime.now(UTC))}

    def _describe(self) -> dict[str, Any]:
        """The header, but for the time, which the page counts by itself."""
        transcript = self.transcript
        status = transcript.status
        return {
            "question": transcript.question,
            "language": language_tag(transcript.question),
            "status": status,
            "mark": labels.MARKS[status],
            "label": labels.STATUS_LABELS[status],
            "counts": labels.count(transcript.totals.tokens, "token"),
            "ended": transcript.ended,
            "announce": _announcement(transcript),
        }


def _announcement(transcript: Transcript) -> str:
    """What a screen reader says: that a decision is needed, and how the run ended."""
    if transcript.ended:
        return f"Run {transcript.status}."
    asking = transcript.open_questions
    return f"{asking[-1].tool} asks for your approval." if asking else ""


def _let_page_choose_shell(comm: Any) -> None:
    """Have messages of the page handled by the shell that it asks for, so that a click is heard while a cell computes.

    ipykernel 7.4 instead has them handled by the shell whose request the kernel's last message on the comm answered:
    the one that opened it, which is that of the cells and may be busy for minutes. It notes that in this attribute;
    without it, and with messages that answer no request, the page's own choice holds.
    """
    vars(comm).pop("_reply_subshell_id", None)


class RunView(anywidget.AnyWidget):
    """The widget: a page's end of a `RunStream`.

    Args:
        run: The run to show.
        on_end: Called on the engine's thread, with the stream, when the run has ended.
    """

    _esm = "\n".join((_STATIC / name).read_text(encoding="utf-8") for name in _SCRIPTS)
    _css = stylesheet()

    def __init__(self, run: ViewedRun, on_end: Callable[[RunStream], None] = lambda _stream: None) -> None:
        super().__init__()
        _let_page_choose_shell(self.comm)
        self._kernel: Any = getattr(get_ipython(), "kernel", None)
        self.stream = RunStream(run, self._post, lambda: on_end(self.stream))
        self._run = run
        self.on_msg(self._on_message)
        self._unsubscribe = run.subscribe(self.stream.take)

    def _on_message(self, _widget: object, content: Mapping[str, Any], _buffers: object) -> None:
        self._run.call_soon(self.stream.hear, content)

    def _post(self, message: Mapping[str, Any]) -> None:
        """Send a message to the page, as an answer to no request: see `_let_page_choose_shell`."""
        comm: Any = self.comm
        session = getattr(self._kernel, "session", None)
        if comm is None or session is None:
            self.send(message)
            return
        content = {"comm_id": comm.comm_id, "data": {"method": "custom", "content": message}}
        session.send(self._kernel.iopub_socket, "comm_msg", content, parent={}, ident=comm.topic)

    async def answers_ping(self, timeout_s: float = 2.0) -> bool:
        """Whether a live page shows this view; to be awaited on the engine's loop."""
        return await self.stream.answers_ping(timeout_s)

    def __repr__(self) -> str:
        return f"Run: {self._run.question}"
