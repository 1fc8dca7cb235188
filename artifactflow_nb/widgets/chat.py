"""The chat: a conversation's active branch, question by question, and the place to ask the next one.

::

    bar        title, how full the context is, other conversations
    turns      the questions with what came of them; the newest are shown, older ones when asked for
    composer   the next question
    metrics    who used how much, while it goes on
"""

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

from artifactflow_nb.budget import Budget
from artifactflow_nb.engine_thread import EngineThread
from artifactflow_nb.errors import Conflict, UsageError
from artifactflow_nb.export import FORMS, conversation_document, document_bytes, document_name
from artifactflow_nb.store.runs import StoredRun
from artifactflow_nb.text.cards import visible
from artifactflow_nb.text.figures import count
from artifactflow_nb.text.markdown import portable_line, speak
from artifactflow_nb.widgets.chat_branch import SHOWN_TURNS, ChatBranch
from artifactflow_nb.widgets.chat_face import kept, left_out
from artifactflow_nb.widgets.chat_nodes import COMPOSER, bar, downloads, form_text, noted, written
from artifactflow_nb.widgets.controls import button
from artifactflow_nb.widgets.conversation_picker import ConversationPicker
from artifactflow_nb.widgets.frozen import HOW_TO_DECIDE, STILL_RUNNING, framed, plan_styles
from artifactflow_nb.widgets.gauges import metrics_table, uses
from artifactflow_nb.widgets.pieces import scrolling
from artifactflow_nb.widgets.run_view import announcement
from artifactflow_nb.widgets.tree import Node, static_html
from artifactflow_nb.widgets.tree_store import TreeStore
from artifactflow_nb.widgets.turns import ChatTurn
from artifactflow_nb.widgets.view import Act, Face
from artifactflow_nb.widgets.watched_view import WatchedView

NOTHING = "Nothing has been asked yet."
DELETED = "This question was deleted."
BUSY = "The last question has no answer yet. Wait for it, decide what waits for you, or stop the run; then ask."
_AT_ANY_TIME = frozenset({"copy", "decide", "download", "resume", "stop"})
_LIST, _EXPORT = "list", "export"
"""What can be open below the bar."""


class ChatView(WatchedView):
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
        super().__init__()
        self._measured = measured
        self._engine = thread.engine
        self._flow = flow
        self._budget = budget
        self._model = model
        self._branch = ChatBranch(thread, conversation_id, only=only, on_change=self._on_change, measured=measured)
        self._picker = ConversationPicker(TreeStore(thread))
        self._opened = ""
        self._changing = asyncio.Lock()

    async def _state(self) -> object:
        return await self._branch.state()

    async def _load(self) -> None:
        async with self._changing:
            await self._branch.load()
            await self._branch.make_faces()

    async def _follow(self) -> None:
        await self._load()
        self.screen.refresh()
        self.screen.keep()

    async def _keep(self) -> None:
        await self._branch.make_faces()
        self.screen.keep()

    def _on_change(self, is_worth_keeping: bool) -> None:
        self.screen.refresh()
        if is_worth_keeping:
            self.screen.keep()

    @property
    def _turns(self) -> list[ChatTurn]:
        return self._branch.turns

    @property
    def _is_alone(self) -> bool:
        """Whether one question is shown, and no place to ask the next."""
        return self._branch.only is not None

    # --- what it shows ---------------------------------------------------------------------------------------------

    def nodes(self) -> tuple[Node, ...]:
        """The chat as it stands."""
        css = "af-turns" if self._is_alone else "af-turns af-follow"
        turns = Node("turns", kind="box", css=css, children=(*self._earlier(), *self._shown()))
        if self._is_alone:
            return (turns,)
        return (self._bar(), *self._below_bar(), turns, COMPOSER, *self._metrics())

    def _shown(self) -> tuple[Node, ...]:
        if self._turns:
            return tuple(turn.node for turn in self._turns)
        return (Node("empty", f"<p>{self._why_empty()}</p>", css="af-empty af-quiet"),)

    def _why_empty(self) -> str:
        return DELETED if self._is_alone else NOTHING

    def _earlier(self) -> tuple[Node, ...]:
        if not (n_earlier := self._branch.n_earlier):
            return ()
        text = f"Show {count(min(n_earlier, SHOWN_TURNS), 'earlier question')} of {n_earlier:,}"
        return (Node("earlier", button(text, "earlier"), "controls", "af-controls af-earlier"),)

    def _bar(self) -> Node:
        context = next((turn.transcript.context for turn in reversed(self._turns) if turn.transcript.context), {})
        is_begun = self._branch.conversation_id is not None
        return bar(self._branch.title, context, is_begun=is_begun, opened=self._opened)

    def _below_bar(self) -> tuple[Node, ...]:
        if self._opened == _EXPORT:
            return (downloads(),)
        if self._opened == _LIST:
            listed = self._picker.nodes(self._branch.conversation_id)
            return (Node("lists", kind="box", css="af-list af-tree-lists", children=listed),)
        return ()

    def _metrics(self) -> tuple[Node, ...]:
        found = uses(run for turn in self._turns for run in turn.transcript.with_subruns())
        if not found:
            return ()
        table = Node("metrics-table", scrolling(metrics_table(found), "af-metrics-table", "Tokens, time and cost"))
        title = "Tokens, time and cost" + (" of the questions shown" if self._branch.n_earlier else "")
        return (Node("metrics", title, "fold", "af-metrics", children=(table,)),)

    def announcement(self) -> str:
        """That a decision is needed, and how the last run ended."""
        return announcement(self._turns[-1].transcript) if self._turns and self._turns[-1].run else ""

    def face(self) -> Face:
        """The shown questions with their answers, as far as a notebook has room for them."""
        if self._is_alone and self._turns:
            face = self._turns[0].face()
            html = framed(noted(self._hints()) + face["text/html"], *self._styles(), css="af-chat")
            return {**face, "text/html": html}
        title, nothing = self._branch.title or "New conversation", "" if self._turns else self._why_empty()
        shown = list(kept(self._turns))[::-1]
        n_before = self._branch.n_earlier + len(self._turns) - len(shown)
        notes = [note for note in (nothing, *left_out(n_before, shown), *self._hints()) if note]
        faces = [turn.face for turn in shown]
        metrics = self._metrics() if self._measured else ()
        head = f'<div class="af-bar"><div class="af-chat-title">{speak(title)}</div></div>'
        told = f'<div class="af-turns">{"".join(face["text/html"] for face in faces)}</div>'
        heading = "\n\n".join([f"**Chat: {portable_line(title)}**", *notes])
        return {
            "text/plain": "\n\n".join([visible(f"Chat: {title}"), *notes, *(face["text/plain"] for face in faces)]),
            "text/markdown": "\n\n---\n\n".join([heading, *(face["text/markdown"] for face in faces)]),
            "text/html": framed(head + noted(notes) + told + static_html(metrics), *self._styles(), css="af-chat"),
        }

    def _styles(self) -> tuple[str, ...]:
        """The style files of the face, beside the shared one."""
        return ("chat.css", *plan_styles(turn.transcript for turn in self._turns))

    def _hints(self) -> list[str]:
        """What is to be known of what had not ended when this was saved."""
        present = {turn.transcript.status for turn in self._turns}
        return [hint for status, hint in (("waiting", HOW_TO_DECIDE), ("running", STILL_RUNNING)) if status in present]

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
                written(act),
                conversation_id=self._branch.conversation_id,
                flow=self._flow,
                budget=self._budget,
                model=self._model,
            )
        except Conflict as error:
            raise Conflict(BUSY) from error
        self._branch.conversation_id = run.conversation_id
        await self._started(run)
        self.screen.effect(act.page, "end", key="turns")

    async def act_regenerate(self, act: Act) -> None:
        """Ask a question once more."""
        message_id = self._branch.turn(act.args.get("message")).message.message_id
        await self._started(
            await self._engine.controller.begin_sibling(message_id, budget=self._budget, model=self._model)
        )

    async def act_resend(self, act: Act) -> None:
        """Ask another question in the place of one."""
        turn = self._branch.turn(act.args.get("message"))
        run = await self._engine.controller.begin_sibling(
            turn.message.message_id, written(act), budget=self._budget, model=self._model
        )
        turn.change(editing=False)
        await self._started(run)

    async def _started(self, run: StoredRun) -> None:
        await self._engine.controller.start(run)
        await self._branch.show(run.message_id)
        await self._keep()

    async def act_edit(self, act: Act) -> None:
        """Begin to edit a question."""
        self._branch.turn(act.args.get("message")).change(editing=True)

    async def act_cancel_edit(self, act: Act) -> None:
        """Leave a question as it is."""
        self._branch.turn(act.args.get("message")).change(editing=False)

    async def act_sibling(self, act: Act) -> None:
        """Go to the version of a question before or after this one."""
        message_id = self._branch.turn(act.args.get("message")).message.message_id
        if await self._branch.go_to_sibling(message_id, 1 if act.args.get("step") == 1 else -1):
            await self._keep()

    async def act_copy(self, act: Act) -> None:
        """Copy an answer."""
        self.screen.effect(act.page, "copy", text=self._branch.turn(act.args.get("message")).answer)

    async def act_stop(self, act: Act) -> None:
        """End a run."""
        turn = self._branch.turn(act.args.get("message"))
        if turn.run is not None:
            await turn.run.cancel()

    async def act_resume(self, act: Act) -> None:
        """Go on with a run whose process is gone."""
        await self._branch.turn(act.args.get("message")).go_on()

    async def act_decide(self, act: Act) -> None:
        """Answer a request of one of the runs."""
        await self._branch.turn_that_asks(str(act.args.get("request"))).decide(act.args)

    async def act_earlier(self, _act: Act) -> None:
        """Show more of the questions before."""
        await self._branch.show_earlier()

    # --- other conversations, and files ----------------------------------------------------------------------------

    async def act_new(self, act: Act) -> None:
        """Begin another conversation with the next question."""
        await self._change_to(act, None)

    async def act_choose(self, act: Act) -> None:
        """Go to another conversation and, if it was searched for, to the question that was found."""
        conversation_id, found = str(act.args.get("conversation")), act.args.get("message")
        await self._engine.conversations.get(conversation_id)  # or it is told that there is none
        if found is None:
            await self._change_to(act, conversation_id)
            return
        message = await self._engine.conversations.message(str(found))
        await self._change_to(act, message.conversation_id, message.message_id)

    async def _change_to(self, act: Act, conversation_id: str | None, message_id: str | None = None) -> None:
        self._opened = ""
        await self._branch.change_to(conversation_id, message_id)
        self.screen.effect(act.page, "end", key="turns")
        self.screen.effect(act.page, "focus", key="composer")
        if message_id is not None:
            self.screen.effect(act.page, "show", key=f"turn-{message_id}")
        await self._keep()

    async def act_list(self, act: Act) -> None:
        """Show the conversations, or hide them."""
        self._opened = "" if self._opened == _LIST else _LIST
        if self._opened:
            await self._picker.search("")
            self.screen.effect(act.page, "focus", key="search")

    async def act_search(self, act: Act) -> None:
        """List the conversations that hold the words; all, if there are none."""
        await self._picker.search(form_text(act, "words"))

    async def act_more(self, _act: Act) -> None:
        """List more of them."""
        await self._picker.more()

    async def act_export(self, _act: Act) -> None:
        """Show in which forms the conversation can be taken along, or hide them."""
        self._opened = "" if self._opened == _EXPORT else _EXPORT

    async def act_download(self, act: Act) -> str:
        """Have the page save the branch as a file; a large document is made beside the loop."""
        form, conversation_id = str(act.args.get("form")), self._branch.conversation_id
        if conversation_id is None:
            raise UsageError("Nothing has been asked yet, so there is nothing to download.")
        document = await conversation_document(self._engine, conversation_id)
        content = await asyncio.to_thread(document_bytes, document, form)
        name, data = document_name(document, form), base64.b64encode(content).decode()
        self.screen.effect(act.page, "download", filename=name, media_type=FORMS[form].media_type, base64=data)
        return f"Downloaded as {name}."

    def close(self) -> None:
        """Follow no more."""
        super().close()
        self._branch.close()
