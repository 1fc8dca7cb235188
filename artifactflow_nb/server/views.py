"""The views of the page: the panels of the notebook, connected by HTTP instead of a comm.

::

GET /views/{name} opens a view; its messages come as server-sent events, and the end of the connection closes it POST
/views/{id} a message from the page
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import orjson

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.clock_ids import RandomIds
from artifactflow_nb.engine.run_client import RunClient
from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.errors import NotFound
from artifactflow_nb.server.lifecycle import RunLifecycle
from artifactflow_nb.server.stream import PING, Mailbox
from artifactflow_nb.store.runs import StoredRun, load_run
from artifactflow_nb.widgets.artifacts.view import ArtifactPanel
from artifactflow_nb.widgets.chat.view import ChatView
from artifactflow_nb.widgets.conversations.view import TreeView
from artifactflow_nb.widgets.page.stream import PageStream
from artifactflow_nb.widgets.pending import Decide, PendingView

_MAX_MESSAGES = 200
_NEVER_S = 1e9
_PAGE_MESSAGES = frozenset({"snapshot", "patch", "effect", "result", "ping"})
_READING_ACTIONS = frozenset(
    {
        "choose",
        "cited_page",
        "complete",
        "example",
        "compare",
        "compare_end",
        "compare_form",
        "compare_with",
        "copy",
        "dismiss",
        "download",
        "earlier",
    }
    | {"export", "layout", "list", "look", "more", "new", "older", "read", "search", "show", "unfold"}
)
"""The actions that change nothing in the store."""

ServedView = ChatView | TreeView | ArtifactPanel | PendingView


class UserClient(RunClient):
    """A client of a run whose decisions are made in the name of a server's user."""

    def __init__(self, thread: EngineThread, stored: StoredRun, *, decide: Decide) -> None:
        super().__init__(thread, stored)
        self._decide = decide

    def subrun(self, run_id: str) -> "UserClient":
        """Return the client of a subrun; `NotFound` if it is not in the store."""
        return UserClient(self._thread, self.read(lambda db: load_run(db, run_id)), decide=self._decide)

    async def decide(self, request_id: str, decision: Decision) -> None:
        """Decide a request by a click, in the name of the user."""
        await self._decide(request_id, decision)


@dataclass(frozen=True, slots=True)
class _OpenView:
    user: str
    stream: PageStream


class PageViews:
    """The views that are open in the pages of a server."""

    def __init__(self, lifecycle: RunLifecycle) -> None:
        self._lifecycle = lifecycle
        self._open: dict[str, _OpenView] = {}

    async def open(self, name: str, conversation_id: str | None, user: str) -> AsyncGenerator[bytes, None]:
        """Open a view; return its messages as server-sent events, the first with the id of the view.

        Errors: `NotFound` for an unknown view or conversation.
        """
        thread = self._lifecycle.thread
        if conversation_id is not None:
            await self._lifecycle.call(thread.engine.conversations.get(conversation_id))
        view = self._make(name, conversation_id, f"http:{user}")
        messages = Mailbox[Mapping[str, Any]](
            _MAX_MESSAGES, lambda _items: []
        )  # the page misses a number: it asks again
        self._lifecycle.mailboxes.add(messages)
        stream = PageStream(view, messages.put, save_delay_s=_NEVER_S)
        await self._lifecycle.call(stream.open())
        view_id = RandomIds().new("view")

        async def events() -> AsyncGenerator[bytes, None]:
            self._open[view_id] = _OpenView(user, stream)
            shown_id = conversation_id
            try:
                yield _event({"type": "opened", "view": view_id})
                while True:
                    if not await messages.wait():
                        yield PING
                        continue
                    if messages.is_closed:
                        return
                    parts = [_event(message) for message in messages.take() if message["type"] in _PAGE_MESSAGES]
                    if view.conversation_id != shown_id:
                        shown_id = view.conversation_id
                        parts.append(_event({"type": "conversation", "id": shown_id}))
                    yield b"".join(parts)
            finally:
                del self._open[view_id]
                thread.call_soon(stream.close)

        return events()

    def _make(self, name: str, conversation_id: str | None, decided_by: str) -> ServedView:
        lifecycle, thread = self._lifecycle, self._lifecycle.thread

        async def decide(request_id: str, decision: Decision) -> None:
            await lifecycle.decide(request_id, replace(decision, by_code=False, decided_by=decided_by))

        make_client = partial(UserClient, decide=decide)
        makers: Mapping[str, Callable[[], ServedView]] = {
            "chat": lambda: ChatView(
                thread,
                conversation_id,
                budget=thread.engine.settings.budget,
                is_served=True,
                make_client=make_client,
            ),
            "conversations": lambda: TreeView(thread, conversation_id, make_client=make_client),
            "artifacts": lambda: ArtifactPanel(thread, conversation_id, has_cells=False),
            "approvals": lambda: PendingView(thread.engine, decide, address=lambda run: f"#chat/{run.conversation_id}"),
        }
        if name not in makers:
            raise NotFound(f"There is no view {name!r}. Known: {', '.join(makers)}.")
        return makers[name]()

    def receive(self, view_id: str, message: Mapping[str, Any], user: str) -> None:
        """Pass a message of a page to its view; `NotFound` if the view is closed or belongs to another user."""
        found = self._open.get(view_id)
        if found is None or found.user != user:
            raise NotFound(f"The view {view_id!r} is closed.")
        if message.get("type") == "act" and message.get("act") not in _READING_ACTIONS:
            self._lifecycle.check_writable()
        self._lifecycle.thread.call_soon(found.stream.receive, message)


def _event(message: Mapping[str, Any]) -> bytes:
    return b"data: %s\n\n" % orjson.dumps(message, default=str, option=orjson.OPT_NON_STR_KEYS)
