"""`ChatHost`: a view that can show a chat in place of its own content, with a button that leads back."""

from abc import abstractmethod

import orjson

from artifactflow_nb.core.language import translate
from artifactflow_nb.engine.run_client import MakeClient, RunClient
from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.widgets.chat.view import ChatView
from artifactflow_nb.widgets.page.elements import button
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.saved import SavedOutput, saved_output
from artifactflow_nb.widgets.page.view import PageAction
from artifactflow_nb.widgets.run.polled_view import PolledView


class ChatHost(PolledView):
    """The base of views that open chats; the saved output never contains a chat.

    Args:
        is_served: Whether a server shows the view.
        make_client: Creates the clients of the runs.
    """

    def __init__(self, thread: EngineThread, *, is_served: bool = False, make_client: MakeClient = RunClient) -> None:
        super().__init__(thread.engine)
        self._thread = thread
        self._is_served = is_served
        self._make_client = make_client
        self._chat: ChatView | None = None
        self._opener = ""

    @abstractmethod
    def own_nodes(self, *, is_saved: bool = False) -> tuple[Node, ...]:
        """Return the content without a chat."""

    @property
    def conversation_id(self) -> str | None:
        """The conversation of the open chat, or None."""
        return self._chat.conversation_id if self._chat else None

    def nodes(self) -> tuple[Node, ...]:
        """Return the content or, if a chat is open, the chat below a button that closes the chat."""
        if self._chat is None:
            return self.own_nodes()
        label = f"‹ {translate(self.label)}"
        return Node(
            "back", button(label, "back", css="af-small"), "controls", "af-controls af-back"
        ), *self._chat.nodes()

    def saved_output(self) -> SavedOutput:
        """Return the content, even while a chat is open."""
        return saved_output(self.own_nodes(is_saved=True), css=type(self).css)

    def announcement(self) -> str:
        """Return the announcement of the open chat, or an empty string."""
        return self._chat.announcement() if self._chat else ""

    async def act(self, act: PageAction) -> str:
        """Handle an action; an open chat handles its own actions."""
        if self._chat is not None and act.name != "back":
            return await self._chat.act(act)
        return await super().act(act)

    async def act_open(self, act: PageAction) -> None:
        """Open a conversation as a chat, optionally at a message; without a conversation, open a new chat."""
        conversation_id, message_id = (act.args.get(name) for name in ("conversation", "message"))
        if conversation_id is not None:
            await self._engine.conversations.get(str(conversation_id))  # raises `NotFound` before anything changes
        shown_id = None if conversation_id is None else str(conversation_id)
        chat = ChatView(self._thread, shown_id, is_served=self._is_served, make_client=self._make_client)
        await chat.open(self.screen)
        if conversation_id is not None and message_id is not None:
            await chat.act(PageAction("choose", {"conversation": conversation_id, "message": message_id}, act.page))
        self._chat, self.css, self._opener = chat, f"{ChatView.css} af-home-chat", orjson.dumps(act.args).decode()
        self.screen.effect(act.page, "focus", key="composer")

    async def act_back(self, act: PageAction) -> None:
        """Close the open chat, and focus the button that opened it."""
        if self._chat is not None:
            self._chat.close()
        self._chat, self.css = None, type(self).css
        await self.load()
        self.screen.effect(act.page, "focus", text=self._opener)

    def close(self) -> None:
        """Stop following the store, and close the open chat."""
        super().close()
        if self._chat is not None:
            self._chat.close()
