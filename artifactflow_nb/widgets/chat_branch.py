"""The questions that a chat shows: those of a conversation's active branch, as the store has them."""

import asyncio
from collections.abc import Mapping

from artifactflow_nb.engine_thread import EngineThread
from artifactflow_nb.errors import NotFound
from artifactflow_nb.run_port import RunPort
from artifactflow_nb.store.conversations import StoredMessage
from artifactflow_nb.widgets.chat_face import kept
from artifactflow_nb.widgets.turns import ChatTurn, OnChange

SHOWN_TURNS = 30


class ChatBranch:
    """The newest questions of a branch, each followed while it goes on; all of it on the engine's loop.

    Args:
        thread: The engine's thread.
        conversation_id: The conversation; None while there is none.
        only: Show this message alone; None for the whole branch.
        on_change: As for a turn.
        measured: Show times and tokens.

    Attributes:
        conversation_id: The conversation; None while there is none.
        only: The message that is shown alone; None for the whole branch.
        title: The conversation's title; empty while there is none.
        turns: The questions that are shown, the oldest first.
        n_earlier: How many of the branch stand before them.
    """

    def __init__(
        self,
        thread: EngineThread,
        conversation_id: str | None,
        *,
        only: str | None,
        on_change: OnChange,
        measured: bool,
    ) -> None:
        self.conversation_id = conversation_id
        self.only = only
        self.title = ""
        self.turns: list[ChatTurn] = []
        self.n_earlier = 0
        self._n_shown = SHOWN_TURNS
        self._thread = thread
        self._conversations = thread.engine.conversations
        self._runs = thread.engine.runs
        self._on_change = on_change
        self._measured = measured
        self._is_over = False

    async def state(self) -> object:
        """Something small that is another whenever there is something new."""
        return self.conversation_id and await self._conversations.state(self.conversation_id)

    async def load(self) -> None:
        """Bring the turns to what the store says is the branch; those that stay are not made anew."""
        path = await self._path()
        n_earlier = max(len(path) - self._n_shown, 0)
        known = {turn.message.message_id: turn for turn in self.turns}
        turns = [await self._turn(message, known) for message in path[n_earlier:]]
        for turn in known.values():
            if turn not in turns:
                turn.close()
        self.turns, self.n_earlier = turns, n_earlier
        if self._is_over:  # closed meanwhile
            self.close()

    async def _path(self) -> list[StoredMessage]:
        if self.conversation_id is None:
            return []
        try:
            self.title = (await self._conversations.get(self.conversation_id)).title
            if self.only is not None:
                return [await self._conversations.message(self.only)]
            return await self._conversations.path(self.conversation_id)
        except NotFound:  # it was deleted meanwhile
            if self.only is None:  # what follows is a new one
                self.conversation_id, self.title = None, ""
            return []

    async def _turn(self, message: StoredMessage, known: Mapping[str, ChatTurn]) -> ChatTurn:
        is_going_on = message.status in {"running", "waiting"}
        turn = known.get(message.message_id)
        if turn and (is_going_on or turn.is_complete):
            turn.change(message=message)
            return turn
        run = None if message.run_id is None else RunPort(self._thread, await self._runs.get(message.run_id))
        turn = ChatTurn(message, run, self._on_change, measured=self._measured)
        if is_going_on:
            await turn.follow()
        elif message.run_id is not None:
            await turn.take_all(await self._runs.events(message.run_id))
        return turn

    async def make_faces(self) -> None:
        """Make what is to be saved turn by turn: long answers take a while, and other views are not to wait for it."""
        for _ in kept(self.turns):
            await asyncio.sleep(0)

    async def show_earlier(self) -> None:
        """Show more of the questions before."""
        self._n_shown += SHOWN_TURNS
        await self.load()

    async def change_to(self, conversation_id: str | None, message_id: str | None = None) -> None:
        """Show another conversation; with a message, the branch through it, back to it at least."""
        self.conversation_id, self.title, self._n_shown = conversation_id, "", SHOWN_TURNS
        if message_id is not None and conversation_id is not None:
            await self._reach(conversation_id, message_id)
        await self.load()

    async def _reach(self, conversation_id: str, message_id: str) -> None:
        """Have a message be among those that are shown; its branch becomes the active one."""
        path = [message.message_id for message in await self._conversations.path(conversation_id)]
        if message_id not in path:
            await self._conversations.activate(message_id)
            path = [message.message_id for message in await self._conversations.path(conversation_id)]
        self._n_shown = max(SHOWN_TURNS, len(path) - path.index(message_id))

    async def go_to_sibling(self, message_id: str, step: int) -> bool:
        """Make the branch through the version of a question before or after this one active; whether there is one."""
        siblings = await self._conversations.siblings(message_id)
        at = siblings.index(message_id) + step
        if not 0 <= at < len(siblings):
            return False
        await self._conversations.activate(siblings[at])
        await self.show(siblings[at])
        return True

    async def show(self, message_id: str) -> None:
        """Show what the store has by now; where one message is shown alone, this one."""
        if self.only is not None:
            self.only = message_id
        await self.load()

    def turn(self, message_id: object) -> ChatTurn:
        """The turn of a message; `NotFound` if it is not shown."""
        for turn in self.turns:
            if turn.message.message_id == message_id:
                return turn
        raise NotFound("This question is not shown any more.")

    def turn_that_asks(self, request_id: str) -> ChatTurn:
        """The turn whose run asks this of the person; `NotFound` if none that is shown does."""
        for turn in self.turns:
            if turn.transcript.asked(request_id) is not None:
                return turn
        raise NotFound("The run that asks this is not shown any more. wb.pending() lists what waits.")

    def close(self) -> None:
        """Follow no more, for good."""
        self._is_over = True
        for turn in self.turns:
            turn.close()
