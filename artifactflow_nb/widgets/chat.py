"""The chat: a conversation's active branch, question by question, and the place to ask the next one.

::

    bar        title, how full the context is, other conversations
    turns      the questions with what came of them; the newest are shown, older ones when asked for
    composer   the next question
    metrics    who used how much, while it goes on
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from artifactflow_nb.budget import Budget
from artifactflow_nb.engine_thread import EngineThread
from artifactflow_nb.errors import Conflict, NotFound, UsageError
from artifactflow_nb.run_port import RunPort
from artifactflow_nb.store.conversation_list import Conversation
from artifactflow_nb.store.conversations import StoredMessage
from artifactflow_nb.store.runs import StoredRun
from artifactflow_nb.text.cards import visible
from artifactflow_nb.text.figures import count
from artifactflow_nb.text.markdown import portable_line, speak
from artifactflow_nb.text.width import clip
from artifactflow_nb.tools.forms import Field
from artifactflow_nb.widgets.chat_nodes import TITLE_COLUMNS, conversation_entry, noted
from artifactflow_nb.widgets.controls import button
from artifactflow_nb.widgets.frozen import STILL_RUNNING, WAITS, framed
from artifactflow_nb.widgets.gauges import context_gauge, metrics_table, uses
from artifactflow_nb.widgets.run_view import announcement
from artifactflow_nb.widgets.tree import Node, static_html
from artifactflow_nb.widgets.turns import ChatTurn
from artifactflow_nb.widgets.view import Act, Face, Screen, View
from artifactflow_nb.widgets.watch import Watch

SHOWN_TURNS = 30
LISTED = 12
NOTHING = "Nothing has been asked yet."
DELETED = "This question was deleted."
BUSY = "The question before is not answered yet. Wait for the answer, decide what it asks of you, or stop it; then ask."
_AT_ANY_TIME = frozenset({"copy", "decide", "resume", "stop"})
_QUESTION = Field(
    "text",
    "multiline",
    label="Question",
    placeholder="What do you want to know? Shift+Enter asks.",
    rows=2,
    hide_label=True,
)
# Always the same: a form whose data change is made anew, without the focus and what was written in it.
_COMPOSER = Node(
    "composer", kind="form", css="af-composer",
    data={"act": "send", "args": {}, "submit": "Ask", "label": "The next question", "fields": [_QUESTION.as_json()]},
)  # fmt: skip


class ChatView(View):
    """A conversation that goes on.

    Args:
        thread: The engine's thread.
        conversation_id: The conversation; None to begin one with the first question.
        only: Show this message alone, and no place to ask the next; None for the whole branch.
        flow: Which flow answers.
        budget: What each run may spend; None for what is configured.
        model: The name of the model that is asked; None for what is configured.
        measured: Show times and tokens; without them the same conversation has the same face each time.
    """

    label = "Chat"
    css = "af-chat"

    def __init__(
        self,
        thread: EngineThread,
        conversation_id: str | None = None,
        *,
        only: str | None = None,
        flow: str = "research",
        budget: Budget | Mapping[str, Any] | None = None,
        model: str | None = None,
        measured: bool = True,
    ) -> None:
        self._measured = measured
        self._thread = thread
        self._engine = thread.engine
        self._conversation_id = conversation_id
        self._only = only
        self._flow = flow
        self._budget = budget
        self._model = model
        self._title = ""
        self._turns: list[ChatTurn] = []
        self._n_earlier = 0
        self._n_shown = SHOWN_TURNS
        self._others: Sequence[Conversation] | None = None
        self._changing = asyncio.Lock()
        self._watch = Watch(self._state, self._reload)

    async def open(self, screen: Screen) -> None:
        """Load the branch, and follow it."""
        await super().open(screen)
        async with self._changing:
            await self._watch.start()  # first: what comes while the branch is loaded is seen by the next look
            await self._load()
            await self._make_faces()

    async def _state(self) -> object:
        return self._conversation_id and await self._engine.conversations.state(self._conversation_id)

    async def _reload(self) -> None:
        async with self._changing:
            await self._load()
            self.screen.refresh()
            await self._keep()

    async def _load(self) -> None:
        """Bring the turns to what the store says is the branch; those that stay are not made anew."""
        path = await self._path()
        n_earlier = max(len(path) - self._n_shown, 0)
        known = {turn.message.message_id: turn for turn in self._turns}
        turns = [await self._turn(message, known) for message in path[n_earlier:]]
        for turn in known.values():
            if turn not in turns:
                turn.close()
        self._turns, self._n_earlier = turns, n_earlier

    async def _keep(self) -> None:
        await self._make_faces()
        self.screen.keep()

    async def _make_faces(self) -> None:
        """Make what is to be saved turn by turn: long answers take a while, and other views are not to wait for it."""
        for turn in self._turns:
            turn.face()
            await asyncio.sleep(0)

    async def _path(self) -> list[StoredMessage]:
        if self._conversation_id is None:
            return []
        conversations = self._engine.conversations
        try:
            self._title = (await conversations.get(self._conversation_id)).title
            if self._only is not None:
                return [await conversations.message(self._only)]
            return await conversations.path(self._conversation_id)
        except NotFound:  # it was deleted meanwhile
            if self._only is None:  # what follows is a new one
                self._conversation_id, self._title = None, ""
            return []

    async def _turn(self, message: StoredMessage, known: Mapping[str, ChatTurn]) -> ChatTurn:
        is_going_on = message.status in {"running", "waiting"}
        turn = known.get(message.message_id)
        if turn and (is_going_on or turn.is_complete):
            turn.change(message=message)
            return turn
        runs = self._engine.runs
        run = None if message.run_id is None else RunPort(self._thread, await runs.get(message.run_id))
        turn = ChatTurn(message, run, self._on_change, measured=self._measured)
        if is_going_on:
            await turn.follow()
        elif message.run_id is not None:
            turn.take_all(await runs.events(message.run_id))
        return turn

    def _on_change(self, is_worth_keeping: bool) -> None:
        self.screen.refresh()
        if is_worth_keeping:
            self.screen.keep()

    # --- what it shows ---------------------------------------------------------------------------------------------

    def nodes(self) -> tuple[Node, ...]:
        """The chat as it stands."""
        css = "af-turns af-follow" if self._only is None else "af-turns"
        turns = Node("turns", kind="box", css=css, children=(*self._earlier(), *self._shown()))
        if self._only is not None:
            return (turns,)
        return (self._bar(), *self._list(), turns, _COMPOSER, *self._metrics())

    def _shown(self) -> tuple[Node, ...]:
        if self._turns:
            return tuple(turn.node for turn in self._turns)
        return (Node("empty", f"<p>{self._why_empty()}</p>", css="af-empty af-quiet"),)

    def _why_empty(self) -> str:
        return NOTHING if self._only is None else DELETED

    def _earlier(self) -> tuple[Node, ...]:
        if not self._n_earlier:
            return ()
        n = min(self._n_earlier, SHOWN_TURNS)
        text = f"Show {count(n, 'earlier question')} of {self._n_earlier:,}"
        return (Node("earlier", button(text, "earlier"), "controls", "af-controls af-earlier"),)

    def _bar(self) -> Node:
        title = Node("title", speak(clip(self._title, TITLE_COLUMNS)) or "New conversation", css="af-chat-title")
        gauge = Node("gauge", context_gauge(self._context()), css="af-gauge-line af-quiet")
        listed = self._others is not None
        buttons = button("Conversations", "list", css="af-small", pressed=listed)
        if self._conversation_id is not None:
            buttons += " " + button("New", "new", css="af-small", name="New: begin a new conversation")
        controls = Node("bar-controls", buttons, "controls", "af-controls")
        return Node("bar", kind="box", css="af-bar", children=(title, gauge, controls))

    def _context(self) -> Mapping[str, int]:
        return next((turn.transcript.context for turn in reversed(self._turns) if turn.transcript.context), {})

    def _list(self) -> tuple[Node, ...]:
        if self._others is None:
            return ()
        if not self._others:
            return (Node("list", "<p>There are no conversations yet.</p>", "controls", "af-list af-quiet"),)
        entries = "".join(f"<li>{conversation_entry(entry)}</li>" for entry in self._others)
        return (Node("list", f"<ul>{entries}</ul>", "controls", "af-list"),)

    def _metrics(self) -> tuple[Node, ...]:
        found = uses(turn.transcript for turn in self._turns)
        if not found:
            return ()
        table = Node("metrics-table", metrics_table(found), css="af-metrics-table")
        title = "Tokens, time and cost" + (" of the questions shown" if self._n_earlier else "")
        return (Node("metrics", title, "fold", "af-metrics", children=(table,)),)

    def announcement(self) -> str:
        """That a decision is needed, and how the last run ended."""
        return announcement(self._turns[-1].transcript) if self._turns and self._turns[-1].run else ""

    def face(self) -> Face:
        """The shown questions with their answers."""
        if self._only is not None and self._turns:
            face = self._turns[0].face()
            html = framed(noted(self._hints()) + face["text/html"], "chat.css", css="af-chat")
            return {**face, "text/html": html}
        title, nothing = self._title or "New conversation", "" if self._turns else self._why_empty()
        notes = [note for note in (nothing, self._earlier_note(), *self._hints()) if note]
        faces = [turn.face() for turn in self._turns]
        metrics = self._metrics() if self._measured else ()
        head = f'<div class="af-bar"><div class="af-chat-title">{speak(title)}</div></div>'
        shown = f'<div class="af-turns">{"".join(face["text/html"] for face in faces)}</div>'
        heading = "\n\n".join([f"**Chat: {portable_line(title)}**", *notes])
        return {
            "text/plain": "\n\n".join([visible(f"Chat: {title}"), *notes, *(face["text/plain"] for face in faces)]),
            "text/markdown": "\n\n---\n\n".join([heading, *(face["text/markdown"] for face in faces)]),
            "text/html": framed(head + noted(notes) + shown + static_html(metrics), "chat.css", css="af-chat"),
        }

    def _earlier_note(self) -> str:
        n = self._n_earlier
        return f"Before these: {count(n, 'question')} that are not shown here." if n else ""

    def _hints(self) -> list[str]:
        """What is to be known of what had not ended when this was saved."""
        present = {turn.transcript.status for turn in self._turns}
        return [hint for status, hint in (("waiting", WAITS), ("running", STILL_RUNNING)) if status in present]

    # --- what it does ----------------------------------------------------------------------------------------------

    async def act(self, act: Act) -> str:
        """What changes the conversation is done one after another: two presses at once do not begin two of them."""
        if act.name in _AT_ANY_TIME:
            return await super().act(act)
        async with self._changing:
            return await super().act(act)

    async def act_send(self, act: Act) -> None:
        """Ask the next question."""
        try:
            run = await self._engine.controller.begin(
                _written(act),
                conversation_id=self._conversation_id,
                flow=self._flow,
                budget=self._budget,
                model=self._model,
            )
        except Conflict as error:
            raise Conflict(BUSY) from error
        self._conversation_id = run.conversation_id
        await self._started(run)
        self.screen.effect(act.page, "end", key="turns")

    async def act_regenerate(self, act: Act) -> None:
        """Ask a question once more."""
        message_id = self._turn_of(act).message.message_id
        await self._started(
            await self._engine.controller.begin_sibling(message_id, budget=self._budget, model=self._model)
        )

    async def act_resend(self, act: Act) -> None:
        """Ask another question in the place of one."""
        turn = self._turn_of(act)
        run = await self._engine.controller.begin_sibling(
            turn.message.message_id, _written(act), budget=self._budget, model=self._model
        )
        turn.change(editing=False)
        await self._started(run)

    async def _started(self, run: StoredRun) -> None:
        await self._engine.controller.start(run)
        if self._only is not None:
            self._only = run.message_id
        await self._load()
        await self._keep()

    async def act_edit(self, act: Act) -> None:
        """Begin to edit a question."""
        self._turn_of(act).change(editing=True)

    async def act_cancel_edit(self, act: Act) -> None:
        """Leave a question as it is."""
        self._turn_of(act).change(editing=False)

    async def act_sibling(self, act: Act) -> None:
        """Go to the version of a question before or after this one."""
        conversations, message_id = self._engine.conversations, self._turn_of(act).message.message_id
        siblings = await conversations.siblings(message_id)
        at = siblings.index(message_id) + (1 if act.args.get("step") == 1 else -1)
        if not 0 <= at < len(siblings):
            return
        await conversations.activate(siblings[at])
        if self._only is not None:
            self._only = siblings[at]
        await self._load()
        await self._keep()

    async def act_copy(self, act: Act) -> None:
        """Copy an answer."""
        self.screen.effect(act.page, "copy", text=self._turn_of(act).answer)

    async def act_stop(self, act: Act) -> None:
        """End a run."""
        turn = self._turn_of(act)
        if turn.run is not None:
            await turn.run.cancel()

    async def act_resume(self, act: Act) -> None:
        """Go on with a run whose process is gone."""
        await self._turn_of(act).go_on()

    async def act_decide(self, act: Act) -> None:
        """Answer a request of one of the runs."""
        for turn in self._turns:
            if str(act.args.get("request")) in turn.transcript.questions:
                return await turn.decide(act.args)
        raise NotFound("This question is not shown any more.")

    async def act_earlier(self, _act: Act) -> None:
        """Show more of the questions before."""
        self._n_shown += SHOWN_TURNS
        await self._load()

    async def act_new(self, act: Act) -> None:
        """Begin another conversation with the next question."""
        await self._change_to(None, act)

    async def act_open(self, act: Act) -> None:
        """Go to another conversation."""
        conversation_id = str(act.args.get("conversation"))
        await self._engine.conversations.get(conversation_id)  # or it is told that there is none
        await self._change_to(conversation_id, act)

    async def _change_to(self, conversation_id: str | None, act: Act) -> None:
        self._conversation_id, self._title = conversation_id, ""
        self._others, self._n_shown = None, SHOWN_TURNS
        await self._load()
        self.screen.effect(act.page, "end", key="turns")
        self.screen.effect(act.page, "focus", key="composer")
        await self._keep()

    async def act_list(self, _act: Act) -> None:
        """Show the other conversations, or hide them."""
        shown = self._others is not None
        self._others = None if shown else await self._engine.conversations.list_conversations(LISTED)

    def _turn_of(self, act: Act) -> ChatTurn:
        for turn in self._turns:
            if turn.message.message_id == act.args.get("message"):
                return turn
        raise NotFound("This question is not shown any more.")

    def close(self) -> None:
        """Follow no more."""
        self._watch.stop()
        for turn in self._turns:
            turn.close()


def _written(act: Act) -> str:
    """The question that stands in a form."""
    values = act.args.get("values")
    text = values.get("text") if isinstance(values, Mapping) else None
    if not isinstance(text, str) or not text.strip():
        raise UsageError("The question is empty. Write what you want to know.")
    return text
