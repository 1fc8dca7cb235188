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
from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.run_port import RunPort
from artifactflow_nb.store.conversation_list import Conversation
from artifactflow_nb.store.conversations import StoredMessage
from artifactflow_nb.store.runs import StoredRun
from artifactflow_nb.text.figures import count
from artifactflow_nb.text.markdown import portable, speak
from artifactflow_nb.text.width import clip
from artifactflow_nb.widgets.controls import button
from artifactflow_nb.widgets.frozen import framed
from artifactflow_nb.widgets.gauges import context_gauge, metrics_table, uses
from artifactflow_nb.widgets.run_view import announcement
from artifactflow_nb.widgets.tree import Node, static_html
from artifactflow_nb.widgets.turns import ChatTurn
from artifactflow_nb.widgets.view import Act, Face, Screen, View
from artifactflow_nb.widgets.watch import Watch

SHOWN_TURNS = 30
LISTED = 12
WAITS = "A decision is waited for: wb.pending() lists it, wb.approve(id) and wb.deny(id) take it."
NOTHING = "Nothing has been asked yet."
_TITLE_COLUMNS = 60


class ChatView(View):
    """A conversation that goes on.

    Args:
        thread: The engine's thread.
        conversation_id: The conversation; None to begin one with the first question.
        only: Show this message alone, and no place to ask the next; None for the whole branch.
        flow: Which flow answers.
        budget: What each run may spend; None for what is configured.
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
        measured: bool = True,
    ) -> None:
        self._measured = measured
        self._thread = thread
        self._engine = thread.engine
        self._conversation_id = conversation_id
        self._only = only
        self._flow = flow
        self._budget = budget
        self._title = ""
        self._turns: list[ChatTurn] = []
        self._n_earlier = 0
        self._n_shown = SHOWN_TURNS
        self._others: Sequence[Conversation] | None = None
        self._loading = asyncio.Lock()
        self._watch = Watch(self._state, self._reload)

    async def open(self, screen: Screen) -> None:
        """Load the branch, and follow it."""
        await super().open(screen)
        await self._load()
        await self._watch.start()

    async def _state(self) -> object:
        return self._conversation_id and await self._engine.conversations.state(self._conversation_id)

    async def _reload(self) -> None:
        await self._load()
        self.screen.refresh()
        self.screen.keep()

    async def _load(self) -> None:
        """Bring the turns to what the store says is the branch; those that stay are not made anew."""
        async with self._loading:
            path = await self._path()
            self._n_earlier = max(len(path) - self._n_shown, 0)
            known = {turn.message.message_id: turn for turn in self._turns}
            turns = [await self._turn(message, known) for message in path[self._n_earlier :]]
            for turn in known.values():
                if turn not in turns:
                    turn.close()
            self._turns = turns

    async def _path(self) -> list[StoredMessage]:
        if self._conversation_id is None:
            return []
        conversations = self._engine.conversations
        try:
            self._title = (await conversations.get(self._conversation_id)).title
            if self._only is not None:
                return [await conversations.message(self._only)]
            return await conversations.path(self._conversation_id)
        except NotFound:  # it was deleted meanwhile: what follows is a new one
            self._conversation_id, self._only, self._title = None, None, ""
            return []

    async def _turn(self, message: StoredMessage, known: Mapping[str, ChatTurn]) -> ChatTurn:
        if turn := known.get(message.message_id):
            turn.change(message=message)
            return turn
        runs = self._engine.runs
        run = None if message.run_id is None else RunPort(self._thread, await runs.get(message.run_id))
        turn = ChatTurn(message, run, self._on_change, measured=self._measured)
        if message.status in {"running", "waiting"}:
            turn.follow()
        elif message.run_id is not None:
            turn.take_all(await runs.events(message.run_id))
        return turn

    def _on_change(self, _turn: ChatTurn, at_rest: bool) -> None:
        self.screen.refresh()
        if at_rest:
            self.screen.keep()

    # --- what it shows ---------------------------------------------------------------------------------------------

    def nodes(self) -> tuple[Node, ...]:
        """The chat as it stands."""
        css = "af-turns af-follow" if self._only is None else "af-turns"
        turns = Node("turns", kind="box", css=css, children=(*self._earlier(), *self._shown()))
        if self._only is not None:
            return (turns,)
        return (self._bar(), *self._list(), turns, _composer(is_first=not self._turns), *self._metrics())

    def _shown(self) -> tuple[Node, ...]:
        if self._turns:
            return tuple(turn.node for turn in self._turns)
        return (Node("empty", f"<p>{NOTHING}</p>", css="af-empty af-quiet"),)

    def _earlier(self) -> tuple[Node, ...]:
        if not self._n_earlier:
            return ()
        n = min(self._n_earlier, SHOWN_TURNS)
        text = f"Show {count(n, 'earlier question')} of {self._n_earlier:,}"
        return (Node("earlier", button(text, "earlier"), "controls", "af-controls af-earlier"),)

    def _bar(self) -> Node:
        title = Node("title", speak(clip(self._title, _TITLE_COLUMNS)) or "New conversation", css="af-chat-title")
        gauge = Node("gauge", context_gauge(self._context()), css="af-gauge-line af-quiet")
        listed = self._others is not None
        buttons = button("Conversations", "list", css="af-small", pressed=listed)
        if self._conversation_id is not None:
            buttons += " " + button("New", "new", css="af-small", name="Begin a new conversation")
        controls = Node("bar-controls", buttons, "controls", "af-controls")
        return Node("bar", kind="box", css="af-bar", children=(title, gauge, controls))

    def _context(self) -> Mapping[str, int]:
        return next((turn.transcript.context for turn in reversed(self._turns) if turn.transcript.context), {})

    def _list(self) -> tuple[Node, ...]:
        if self._others is None:
            return ()
        if not self._others:
            return (Node("list", "<p>There are no conversations yet.</p>", "controls", "af-list af-quiet"),)
        entries = "".join(f"<li>{_entry(entry)}</li>" for entry in self._others)
        return (Node("list", f"<ul>{entries}</ul>", "controls", "af-list"),)

    def _metrics(self) -> tuple[Node, ...]:
        found = uses(turn.transcript for turn in self._turns)
        if not found:
            return ()
        table = Node("metrics-table", metrics_table(found), css="af-metrics-table")
        return (Node("metrics", "Tokens, time and cost", "fold", "af-metrics", children=(table,)),)

    def announcement(self) -> str:
        """That a decision is needed, and how the last run ended."""
        return announcement(self._turns[-1].transcript) if self._turns and self._turns[-1].run else ""

    def face(self) -> Face:
        """The shown questions with their answers."""
        if self._only is not None and self._turns:
            turn = self._turns[0]
            html = framed(static_html((turn.node,)), "chat.css", css="af-chat")
            return {"text/plain": turn.plain(), "text/markdown": turn.markdown(), "text/html": html}
        title, nothing = self._title or "New conversation", "" if self._turns else NOTHING
        waits = WAITS if any(turn.transcript.status == "waiting" for turn in self._turns) else ""
        notes = [note for note in (nothing, self._earlier_note(), waits) if note]
        shown = Node("turns", kind="box", css="af-turns", children=tuple(turn.node for turn in self._turns))
        metrics = self._metrics() if self._measured else ()
        head = f'<div class="af-bar"><div class="af-chat-title">{speak(title)}</div></div>'
        said = "".join(f'<p class="af-empty af-quiet">{note}</p>' for note in notes)
        texts = [turn.markdown() for turn in self._turns]
        return {
            "text/plain": "\n\n".join([f"Chat: {title}", *notes, *(turn.plain() for turn in self._turns)]),
            "text/markdown": "\n\n---\n\n".join(["\n\n".join([f"**Chat: {portable(title)}**", *notes]), *texts]),
            "text/html": framed(head + said + static_html((shown, *metrics)), "chat.css", css="af-chat"),
        }

    def _earlier_note(self) -> str:
        n = self._n_earlier
        return f"Before these: {count(n, 'question')} that are not shown here." if n else ""

    # --- what it does ----------------------------------------------------------------------------------------------

    async def act_send(self, act: Act) -> None:
        """Ask the next question."""
        text = str(act.args["values"]["text"])
        run = await self._engine.controller.begin(
            text, conversation_id=self._conversation_id, flow=self._flow, budget=self._budget
        )
        self._conversation_id = run.conversation_id
        await self._started(run)
        self.screen.effect(act.page, "end", key="turns")

    async def act_regenerate(self, act: Act) -> None:
        """Ask a question once more."""
        await self._started(await self._engine.controller.begin_sibling(str(act.args["message"]), budget=self._budget))

    async def act_resend(self, act: Act) -> None:
        """Ask another question in the place of one."""
        text = str(act.args["values"]["text"])
        if not text.strip():
            raise UsageError("The question is empty. Write what you want to know.")
        message_id = str(act.args["message"])
        run = await self._engine.controller.begin_sibling(message_id, text, budget=self._budget)
        self._find(message_id).change(editing=False)
        await self._started(run)

    async def _started(self, run: StoredRun) -> None:
        await self._engine.controller.start(run)
        if self._only is not None:
            self._only = run.message_id
        await self._load()
        self.screen.keep()

    async def act_edit(self, act: Act) -> None:
        """Begin to edit a question."""
        self._find(str(act.args["message"])).change(editing=True)

    async def act_cancel_edit(self, act: Act) -> None:
        """Leave a question as it is."""
        self._find(str(act.args["message"])).change(editing=False)

    async def act_sibling(self, act: Act) -> None:
        """Go to the version of a question before or after this one."""
        conversations, message_id = self._engine.conversations, str(act.args["message"])
        siblings = await conversations.siblings(message_id)
        at = siblings.index(message_id) + int(act.args["step"])
        if not 0 <= at < len(siblings):
            return
        await conversations.activate(siblings[at])
        if self._only is not None:
            self._only = siblings[at]
        await self._load()
        self.screen.keep()

    async def act_copy(self, act: Act) -> None:
        """Copy an answer."""
        self.screen.effect(act.page, "copy", text=self._find(str(act.args["message"])).answer)

    async def act_stop(self, act: Act) -> None:
        """End a run."""
        turn = self._find(str(act.args["message"]))
        if turn.run is not None:
            await turn.run.cancel()

    async def act_decide(self, act: Act) -> None:
        """Answer a request of one of the runs."""
        for turn in self._turns:
            if act.args.get("request") in turn.transcript.questions:
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
        await self._change_to(str(act.args["conversation"]), act)

    async def _change_to(self, conversation_id: str | None, act: Act) -> None:
        self._conversation_id, self._title = conversation_id, ""
        self._others, self._n_shown = None, SHOWN_TURNS
        await self._load()
        self.screen.keep()
        self.screen.effect(act.page, "focus", key="composer")

    async def act_list(self, _act: Act) -> None:
        """Show the other conversations, or hide them."""
        shown = self._others is not None
        self._others = None if shown else await self._engine.conversations.list_conversations(LISTED)

    def _find(self, message_id: str) -> ChatTurn:
        for turn in self._turns:
            if turn.message.message_id == message_id:
                return turn
        raise NotFound("This question is not shown any more.")

    def close(self) -> None:
        """Follow no more."""
        self._watch.stop()
        for turn in self._turns:
            turn.close()


def _composer(*, is_first: bool) -> Node:
    field = {
        "name": "text", "kind": "multiline", "label": "Question", "hideLabel": True, "rows": 2, "value": "",
        "placeholder": "What do you want to know? Shift+Enter asks." if is_first else "Ask on. Shift+Enter asks.",
    }  # fmt: skip
    data = {"act": "send", "args": {}, "submit": "Ask", "label": "The next question", "fields": [field]}
    return Node("composer", kind="form", css="af-composer", data=data)


def _entry(entry: Conversation) -> str:
    title = clip(entry.title, _TITLE_COLUMNS) or "Untitled"
    n = count(entry.n_messages, "question")
    return (
        f'{button(title, "open", css="af-entry", conversation=entry.conversation_id)} <span class="af-quiet">{n}</span>'
    )
