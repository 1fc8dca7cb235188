"""The views of the page: the panels of the notebook, connected by HTTP instead of a comm.

::

    GET /views                 connects a page; the messages of its views come as server-sent events
    POST /views/{connection}   a message of the page to one of its views; `open` and `close` begin and end a view

The end of the connection closes its views.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, replace
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
from artifactflow_nb.widgets.home.view import HomeView
from artifactflow_nb.widgets.page.stream import PageStream
from artifactflow_nb.widgets.pending import Decide, PendingView

_MAX_MESSAGES = 200
_NEVER_S = 1e9
_PAGE_MESSAGES = frozenset({"snapshot", "patch", "effect", "result", "ping"})
_READING_ACTIONS = (
    *("back", "choose", "cited_page", "complete", "example", "compare", "compare_end", "compare_form", "compare_with"),
    *("copy", "dismiss", "download", "earlier", "export", "layout", "list", "look", "more", "new", "older", "open"),
    *("read", "search", "show", "unfold"),
)
"""The actions that change nothing in the store."""

ServedView = HomeView | ChatView | TreeView | ArtifactPanel | PendingView


class UserClient(RunClient):
    """A client of a run whose decisions are made in the name of a server's user."""

    def __init__(self, thread: EngineThread, stored: StoredRun, *, decide: Decide) -> None:
        super().__init__(thread, stored)
        self._decide = decide

    def subrun(self, run_id: str) -> "UserClient":
        """Return the client of a subrun; `NotFound` if the subrun is not in the store."""
        return UserClient(self._thread, self.read(lambda db: load_run(db, run_id)), decide=self._decide)

    async def decide(self, request_id: str, decision: Decision) -> None:
        """Decide a request by a click, in the name of the user."""
        await self._decide(request_id, decision)


@dataclass(frozen=True, slots=True)
class _Connection:
    """A connected page and its views by the keys that the page chose."""

    user: str
    messages: Mailbox[tuple[str, Mapping[str, Any]]]
    views: dict[str, tuple[ServedView, PageStream]] = field(default_factory=dict)


class PageViews:
    """The views that are open in the pages of a server.

    A page has one connection for all its views, since a browser opens at most six connections to a server.
    """

    def __init__(self, lifecycle: RunLifecycle) -> None:
        self._lifecycle = lifecycle
        self._connections: dict[str, _Connection] = {}

    async def connect(self, user: str) -> AsyncGenerator[bytes, None]:
        """Yield the messages of the views of a page as server-sent events; the first has the id of the connection."""
        messages = Mailbox[tuple[str, Mapping[str, Any]]](
            _MAX_MESSAGES, lambda _items: []
        )  # the page notices the missing number, and asks again
        self._lifecycle.mailboxes.add(messages)
        connection_id, connection = RandomIds().new("page"), _Connection(user, messages)
        self._connections[connection_id] = connection
        try:
            yield _event("", {"type": "connected", "connection": connection_id})
            shown: dict[str, str | None] = {}
            while True:
                if not await messages.wait():
                    yield PING
                    continue
                if messages.is_closed:
                    return
                events = [_event(key, each) for key, each in messages.take() if each["type"] in _PAGE_MESSAGES]
                now_shown = {key: view.conversation_id for key, (view, _) in connection.views.items()}
                changed = now_shown.items() - shown.items()
                events += [_event(key, {"type": "conversation", "id": conversation}) for key, conversation in changed]
                shown = now_shown
                yield b"".join(events) or PING
        finally:
            del self._connections[connection_id]
            for key in [*connection.views]:
                self._close(connection, key)

    async def receive(self, connection_id: str, key: str, message: Mapping[str, Any], user: str) -> None:
        """Open or close a view of a connected page, or pass a message of the page to the view.

        Errors: `NotFound` for a closed connection or view, for a connection of another user, and for an unknown view or
        conversation to open.
        """
        connection = self._connections.get(connection_id)
        if connection is None or connection.user != user:
            raise NotFound(f"The connection {connection_id!r} is closed.")
        if message.get("type") == "open":
            await self._open(connection, key, message)
            return
        if key not in connection.views:
            raise NotFound(f"The view {key!r} is closed.")
        if message.get("type") == "close":
            self._close(connection, key)
            return
        if message.get("type") == "act" and str(message.get("act")) not in _READING_ACTIONS:
            self._lifecycle.check_writable()
        self._lifecycle.thread.call_soon(connection.views[key][1].receive, message)

    async def _open(self, connection: _Connection, key: str, message: Mapping[str, Any]) -> None:
        conversation_id = message.get("conversation") or None
        if conversation_id is not None:
            await self._lifecycle.call(self._lifecycle.thread.engine.conversations.get(str(conversation_id)))
        view = self._make(str(message.get("name")), conversation_id, f"http:{connection.user}", message)
        stream = PageStream(view, lambda each: connection.messages.put((key, each)), save_delay_s=_NEVER_S)
        await self._lifecycle.call(stream.open())
        if key in connection.views:
            self._close(connection, key)
        connection.views[key] = view, stream

    def _close(self, connection: _Connection, key: str) -> None:
        _, stream = connection.views.pop(key)
        self._lifecycle.thread.call_soon(stream.close)

    def _make(self, name: str, conversation_id: str | None, decided_by: str, options: Mapping[str, Any]) -> ServedView:
        lifecycle, thread = self._lifecycle, self._lifecycle.thread

        async def decide(request_id: str, decision: Decision) -> None:
            await lifecycle.decide(request_id, replace(decision, by_code=False, decided_by=decided_by))

        make_client = partial(UserClient, decide=decide)
        makers: Mapping[str, Callable[[], ServedView]] = {
            "home": lambda: HomeView(
                thread, is_served=True, takes_files=lifecycle.root is not None, make_client=make_client
            ),
            "chat": lambda: ChatView(
                thread,
                conversation_id,
                budget=thread.engine.settings.budget,
                is_served=True,
                keeps_list=options.get("list") is True,
                make_client=make_client,
            ),
            "conversations": lambda: TreeView(thread, conversation_id, make_client=make_client),
            "artifacts": lambda: ArtifactPanel(thread, conversation_id, has_cells=False),
            "approvals": lambda: PendingView(thread.engine, decide, address=lambda run: f"#chat/{run.conversation_id}"),
        }
        if name not in makers:
            raise NotFound(f"There is no view {name[:100]!r}. Known: {', '.join(makers)}.")
        return makers[name]()


def _event(key: str, message: Mapping[str, Any]) -> bytes:
    return b"data: %s\n\n" % orjson.dumps({**message, "view": key}, default=str, option=orjson.OPT_NON_STR_KEYS)
