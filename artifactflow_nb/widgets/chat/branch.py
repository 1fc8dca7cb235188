"""`ChatBranch`: the turns of a conversation's active branch that a chat shows."""

import asyncio
from collections.abc import Mapping

from artifactflow_nb.engine.run_client import MakeClient, RunClient
from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.errors import NotFound
from artifactflow_nb.store.conversations import StoredMessage
from artifactflow_nb.widgets.chat.saved import saved_turns
from artifactflow_nb.widgets.chat.turn import ChatTurn, OnChange

MAX_TURNS = 30


class ChatBranch:
    """The newest turns of a branch; follows the runs that have not ended, on the engine's loop.

    Args:
        conversation_id: The conversation; None for a new conversation.
        single_message_id: Show only this message; None for the whole branch.
        on_change: See `ChatTurn`.
        with_metrics: Show times and tokens.
        make_client: Creates the clients of the runs.

    Attributes:
        conversation_id: The conversation; None before the first question.
        single_message_id: The only message to show; None for the whole branch.
        title: Title of the conversation; empty before the first question.
        turns: The displayed turns, the oldest first.
        n_earlier: Number of turns of the branch before the displayed turns.
    """

    def __init__(
        self,
        thread: EngineThread,
        conversation_id: str | None,
        *,
        single_message_id: str | None,
        on_change: OnChange,
        with_metrics: bool,
        make_client: MakeClient = RunClient,
    ) -> None:
        self.conversation_id = conversation_id
        self.single_message_id = single_message_id
        self.title = ""
        self.turns: list[ChatTurn] = []
        self.n_earlier = 0
        self._max_turns = MAX_TURNS
        self._thread = thread
        self._conversations = thread.engine.conversations
        self._runs = thread.engine.runs
        self._on_change = on_change
        self._with_metrics = with_metrics
        self._make_client = make_client
        self._is_closed = False

    async def change_token(self) -> object:
        """Return a value that differs after every change of the conversation in the store."""
        return self.conversation_id and await self._conversations.change_token(self.conversation_id)

    async def load(self) -> None:
        """Load the branch from the store; turns that remain are reused."""
        path = await self._path()
        n_earlier = max(len(path) - self._max_turns, 0)
        former_turns = {turn.message.message_id: turn for turn in self.turns}
        turns = [await self._turn(message, former_turns) for message in path[n_earlier:]]
        for turn in former_turns.values():
            if turn not in turns:
                turn.close()
        self.turns, self.n_earlier = turns, n_earlier
        if self._is_closed:  # `close` was called meanwhile and did not see the new turns
            self.close()

    async def _path(self) -> list[StoredMessage]:
        if self.conversation_id is None:
            return []
        try:
            self.title = (await self._conversations.get(self.conversation_id)).title
            if self.single_message_id is not None:
                return [await self._conversations.message(self.single_message_id)]
            return await self._conversations.path(self.conversation_id)
        except NotFound:  # the conversation or message was deleted meanwhile
            if self.single_message_id is None:  # the next question starts a new conversation
                self.conversation_id, self.title = None, ""
            return []

    async def _turn(self, message: StoredMessage, former_turns: Mapping[str, ChatTurn]) -> ChatTurn:
        is_running = message.status in {"running", "waiting"}
        turn = former_turns.get(message.message_id)
        if turn and (is_running or turn.is_complete):
            turn.change(message=message)
            return turn
        run = None if message.run_id is None else self._make_client(self._thread, await self._runs.get(message.run_id))
        # In a whole branch the composer has the button that stops the answer.
        options = {"with_metrics": self._with_metrics, "with_stop": self.single_message_id is not None}
        turn = ChatTurn(message, run, self._on_change, **options)
        if is_running:
            await turn.follow()
        elif message.run_id is not None:
            await turn.apply_all(await self._runs.events(message.run_id))
        return turn

    async def save_turns(self) -> None:
        """Render and cache the saved output of the turns, yielding to other views after each turn."""
        for _ in saved_turns(self.turns):  # long answers take a while to render
            await asyncio.sleep(0)

    async def show_earlier(self) -> None:
        """Show more of the earlier turns."""
        self._max_turns += MAX_TURNS
        await self.load()

    async def change_to(self, conversation_id: str | None, message_id: str | None = None) -> None:
        """Show another conversation; with a message, activate its branch and show all turns from the message on."""
        self.conversation_id, self.title, self._max_turns = conversation_id, "", MAX_TURNS
        if message_id is not None and conversation_id is not None:
            path = [message.message_id for message in await self._conversations.path(conversation_id)]
            if message_id not in path:
                await self._conversations.activate(message_id)
                path = [message.message_id for message in await self._conversations.path(conversation_id)]
            self._max_turns = max(MAX_TURNS, len(path) - path.index(message_id))
        await self.load()

    async def go_to_sibling(self, message_id: str, step: int) -> bool:
        """Activate the branch through the previous or next version of a question; False if there is none."""
        siblings = await self._conversations.siblings(message_id)
        position = siblings.index(message_id) + step
        if not 0 <= position < len(siblings):
            return False
        await self._conversations.activate(siblings[position])
        await self.show(siblings[position])
        return True

    async def show(self, message_id: str) -> None:
        """Load the branch; a chat with a single message shows this message instead."""
        if self.single_message_id is not None:
            self.single_message_id = message_id
        await self.load()

    def turn(self, message_id: object) -> ChatTurn:
        """Return the turn of a message.

        Errors: `NotFound` if the turn is not displayed.
        """
        for turn in self.turns:
            if turn.message.message_id == message_id:
                return turn
        raise NotFound("This question is no longer displayed.")

    def turn_of_request(self, request_id: str) -> ChatTurn:
        """Return the turn whose run or subrun has this permission request.

        Errors: `NotFound` if the turn is not displayed.
        """
        for turn in self.turns:
            if turn.transcript.find_request(request_id) is not None:
                return turn
        raise NotFound("The run of this request is no longer displayed. wb.pending() lists the open requests.")

    def close(self) -> None:
        """Stop following the runs; the object cannot be used again."""
        self._is_closed = True
        for turn in self.turns:
            turn.close()
