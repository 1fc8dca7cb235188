"""`ChatView`: the active branch of a conversation, turn by turn, with a form for the next question.

::

    bar        title, context gauge, buttons for other conversations and for exports
    turns      the newest turns, older ones on request; then the questions that wait for the running answer
    compose    form for the next question, and the button that stops the running answer
    metrics    usage per agent
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from artifactflow_nb.core.budget import Budget
from artifactflow_nb.core.language import EnglishText, translate
from artifactflow_nb.core.text.format import clip, translate_count
from artifactflow_nb.core.text.markdown import escape_with_language
from artifactflow_nb.engine.flow_registry import DEFAULT_FLOW
from artifactflow_nb.engine.run_client import MakeClient, RunClient
from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.errors import ArtifactFlowError, Conflict, UsageError
from artifactflow_nb.export.conversation import conversation_document
from artifactflow_nb.store.runs import RUNNING, WAITING, StoredRun
from artifactflow_nb.widgets.chat.branch import MAX_TURNS, ChatBranch
from artifactflow_nb.widgets.chat.composer import (
    COMMANDS,
    Composer,
    QueuedQuestion,
    attach_files,
    completions,
    queue_nodes,
)
from artifactflow_nb.widgets.chat.metrics import context_gauge, metrics_table, usage_by_agent
from artifactflow_nb.widgets.chat.saved import omission_notes, saved_turns
from artifactflow_nb.widgets.chat.turn import ChatTurn
from artifactflow_nb.widgets.conversations.picker import ConversationPicker
from artifactflow_nb.widgets.page.elements import button, format_buttons
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.view import PageAction, PanelState
from artifactflow_nb.widgets.run.polled_view import PolledView
from artifactflow_nb.widgets.run.saved import hint_for_status
from artifactflow_nb.widgets.run.view import announcement, panel_state

TITLE_COLUMNS = 60
# These actions do not change the conversation and need not wait for a slow action such as sending a question.
_PARALLEL_ACTIONS = frozenset(
    {"attach", "cited_page", "complete", "copy", "decide", "download", "example", "recall", "resume", "stop"}
)
_LIST, _EXPORT = "list", "export"
"""Menus below the bar."""


def _note_nodes(notes: Sequence[str]) -> Iterator[Node]:
    """Yield notes before the turns; notes contain only texts of this package and are not escaped."""
    for number, note in enumerate(notes):
        yield Node(f"note-{number}", f"<p>{note}</p>", css="af-empty af-quiet", text=note)


def toolbar(title: str, context: Mapping[str, int], *, has_conversation: bool, open_menu: str, model: str = "") -> Node:
    """Build the bar with the title, the context gauge and, after the first question, buttons for the conversation.

    `open_menu` is `list`, `export` or empty; `model` names the model if a person cannot choose a model.
    """
    buttons = [button(translate("Conversations"), "list", css="af-small", pressed=open_menu == "list")]
    if has_conversation:
        name = translate("Export: download this conversation")
        buttons.append(button(translate("Export"), "export", css="af-small", name=name, pressed=open_menu == "export"))
        buttons.append(button(translate("New"), "new", css="af-small", name=translate("New: begin a new conversation")))
    children = (
        Node(
            "title",
            escape_with_language(clip(title, TITLE_COLUMNS)),
            css="af-chat-title",
            text=translate("Chat: {title}", title=title),
        ),
        *([Node("model", escape_with_language(model), css="af-quiet")] if model else []),
        Node("gauge", context_gauge(context), css="af-gauge-line af-quiet"),
        Node("bar-controls", " ".join(buttons), "controls", "af-controls"),
    )
    return Node("bar", kind="box", css="af-bar", children=children)


def downloads() -> Node:
    """Build a download button for each export format."""
    html = (
        f'<span class="af-quiet">{translate("Download this branch as")}</span> {" ".join(format_buttons("download"))}'
    )
    return Node("downloads", html, "controls", "af-controls af-list")


def form_text(act: PageAction, name: str) -> str:
    """Return the text of a field in a sent form; empty if the field is missing or has no text."""
    values: Any = act.args.get("values")
    text = values.get(name) if isinstance(values, Mapping) else None
    return text if isinstance(text, str) else ""


def submitted_question(act: PageAction) -> str:
    """Return the question in a sent form.

    Errors: `UsageError` for an empty question.
    """
    text = form_text(act, "text")
    if not text.strip():
        raise UsageError("The question is empty. Write what you want to know.")
    return text


class ChatView(PolledView):
    """Live view of a conversation.

    Args:
        conversation_id: The conversation; None to create a conversation with the first question.
        single_message_id: Show only this message, without a form for the next question; None for the whole branch.
        flow: The flow that answers.
        budget: Budget per run; None for the configured budget.
        model: Name of the model; None for the configured model.
        with_metrics: Show times and tokens; without them the saved output is reproducible.
        is_served: Whether a server shows the chat; users of a server cannot choose a model or attach files.
        keeps_list: Whether the list of conversations stays open, for a wide window.
        make_client: Creates the clients of the runs.
    """

    label: EnglishText = "Chat"
    css = "af-chat"

    def __init__(
        self,
        thread: EngineThread,
        conversation_id: str | None = None,
        *,
        single_message_id: str | None = None,
        flow: str = DEFAULT_FLOW,
        budget: Budget | Mapping[str, Any] | None = None,
        model: str | None = None,
        with_metrics: bool = True,
        is_served: bool = False,
        keeps_list: bool = False,
        make_client: MakeClient = RunClient,
    ) -> None:
        super().__init__(thread.engine)
        self._with_metrics = with_metrics
        self._flow = flow
        self._budget = budget
        self._model = model
        self._branch = ChatBranch(
            thread,
            conversation_id,
            single_message_id=single_message_id,
            on_change=self._on_change,
            with_metrics=with_metrics,
            make_client=make_client,
        )
        # The table is cached, because each piece of an answer renders the view again.
        self._metrics_html = lru_cache(2)(lambda usage: metrics_table(dict(usage)))
        self._picker = ConversationPicker(self._engine.conversations)
        self._keeps_list = keeps_list
        self._open_menu = ""
        self._is_served = is_served
        self._composer: Composer | None = None
        self._queue: list[QueuedQuestion] = []
        self._sending: asyncio.Task[None] | None = None
        self._action_lock = asyncio.Lock()

    async def _change_token(self) -> object:
        return await self._branch.change_token(), self._keeps_list and await super()._change_token()

    async def load(self) -> None:
        """Load the messages of the conversation and its runs."""
        async with self._action_lock:
            if self._composer is None:
                self._composer = await Composer.load(self._engine, self._flow, self._model, is_served=self._is_served)
            if self._keeps_list:
                await self._picker.load()
            await self._branch.load()
            await self._branch.save_turns()

    async def _follow(self) -> None:
        await self.load()
        self._send_queued_soon()
        self.screen.refresh()
        self.screen.save_soon()

    async def _save(self) -> None:
        await self._branch.save_turns()
        self.screen.save_soon()

    def _on_change(self, is_worth_saving: bool) -> None:
        self.screen.refresh()
        if is_worth_saving:
            self._send_queued_soon()
            self.screen.save_soon()

    @property
    def conversation_id(self) -> str | None:
        """The displayed conversation; None for a new conversation."""
        return self._branch.conversation_id

    @property
    def _turns(self) -> list[ChatTurn]:
        return self._branch.turns

    @property
    def _is_single(self) -> bool:
        return self._branch.single_message_id is not None

    # --- content ----------------------------------------------------------------------------------------------------

    def nodes(self) -> tuple[Node, ...]:
        """Return the current state of the chat."""
        children: list[Node] = []
        if n_earlier := self._branch.n_earlier:
            questions = translate_count(min(n_earlier, MAX_TURNS), "earlier question")
            text = translate("Show {questions} of {total}", questions=questions, total=f"{n_earlier:,}")
            children.append(Node("earlier", button(text, "earlier"), "controls", "af-controls af-earlier"))
        children += [turn.node for turn in self._turns]
        if not self._turns:
            children.append(Node("empty", f"<p>{self._empty_note()}</p>", css="af-empty af-quiet"))
            children += self._composer.empty_state() if self._composer and not self._is_single else ()
        children += queue_nodes(self._queue)
        children += () if self._is_single else self._metrics()
        css = "af-turns" if self._is_single else "af-turns af-follow"
        turns = Node("turns", kind="box", css=css, children=tuple(children))
        if self._is_single:
            return (turns,)
        menus = [downloads()] if self._open_menu == _EXPORT else []
        if self._open_menu == _LIST or self._keeps_list:
            conversations = self._picker.nodes(self._branch.conversation_id)
            menus.append(Node("lists", kind="box", css="af-list af-tree-lists", children=conversations))
        composer = self._composer
        return (self._bar(composer.fixed_model if composer else ""), *menus, turns, self._compose())

    def _compose(self) -> Node:
        """Build the form, and the button that stops the running answer."""
        stop = ""
        if (last := self._running_turn) is not None:
            stop = button(
                translate("Stop"),
                "stop",
                css="af-stop",
                name=translate("Stop this run"),
                message=last.message.message_id,
            )
        children = (
            *([self._composer.node] if self._composer else []),
            Node("compose-stop", stop, "controls", "af-compose-stop"),
        )
        return Node("compose", kind="box", css="af-compose", children=children)

    @property
    def _running_turn(self) -> ChatTurn | None:
        """The last turn while its run is neither ended nor abandoned."""
        last = self._turns[-1] if self._turns else None
        return last if last and last.run and last.transcript.status in {RUNNING, WAITING} else None

    def _empty_note(self) -> str:
        if self._is_single:
            return translate("This question was deleted.")
        hint: EnglishText = (
            "To search in your own files, call {code} in a notebook, or drop them on the side panel of JupyterLab."
        )
        return f"{translate('Nothing has been asked yet.')} {translate(hint, code='wb.sources.add(folder)')}"

    def _bar(self, model: str = "") -> Node:
        contexts = [turn.transcript.context for turn in self._turns if turn.transcript.context and self._with_metrics]
        return toolbar(
            self._branch.title or translate("New conversation"),
            contexts[-1] if contexts else {},
            has_conversation=self._branch.conversation_id is not None,
            open_menu=self._open_menu,
            model=model,
        )

    def _metrics(self) -> tuple[Node, ...]:
        usage = usage_by_agent(run for turn in self._turns for run in turn.transcript.with_subruns())
        if not usage:
            return ()
        table = Node("metrics-table", self._metrics_html(tuple(usage.items())))
        title = translate("Tokens, time and cost")
        if self._branch.n_earlier:
            title = translate("Tokens, time and cost of the questions shown")
        return (Node("metrics", title, "fold", "af-metrics", children=(table,)),)

    def state(self) -> PanelState:
        """Return the state of the last run."""
        run = self._turns[-1].run if self._turns else None
        return panel_state(run.run_id, self._turns[-1].transcript) if run else PanelState()

    def announcement(self) -> str:
        """Return the announcement of the last run, see `widgets.run.view.announcement`."""
        return announcement(self._turns[-1].transcript) if self._turns and self._turns[-1].run else ""

    def saved_nodes(self) -> tuple[Node, ...]:
        """Return notes and the displayed turns, within the size limit of `widgets.chat.saved`."""
        turns = list(saved_turns(self._turns))[::-1]
        children = (*(turn.node for turn in turns), *queue_nodes(self._queue))
        box = Node("turns", kind="box", css="af-turns", children=children)
        if self._is_single and self._turns:
            return (*_note_nodes(self._hints()), box)
        empty_note = "" if self._turns else self._empty_note()
        n_before = self._branch.n_earlier + len(self._turns) - len(turns)
        notes = [note for note in (empty_note, *omission_notes(n_before, turns), *self._hints()) if note]
        metrics = self._metrics() if self._with_metrics else ()
        return (self._bar(), *_note_nodes(notes), box, *metrics)

    def _hints(self) -> list[str]:
        """Return notes about runs that had not ended when the output was saved."""
        statuses = {turn.transcript.status for turn in self._turns}
        return [hint_for_status(status) for status in (WAITING, RUNNING) if status in statuses]

    # --- actions ----------------------------------------------------------------------------------------------------

    async def act(self, act: PageAction) -> str:
        """Handle an action; actions that change the conversation run one at a time."""
        # Without the lock, a double click on a new chat would create two conversations.
        if act.name in _PARALLEL_ACTIONS:
            return await super().act(act)
        async with self._action_lock:
            return await super().act(act)

    async def act_send(self, act: PageAction) -> None:
        """Ask the next question once the running answer has ended, or execute a command."""
        text = submitted_question(act)
        if (command := text.strip()).startswith("/") and " " not in command:
            await self._carry_out(command[1:].casefold(), act)
            return
        values: Any = act.args.get("values")
        model, depth = self._composer.choices(values) if self._composer else (None, "standard")
        question = QueuedQuestion(text, model or self._model, depth)
        self.screen.effect(act.page, "end", key="turns")
        if self._queue or self._running_turn is not None or not await self._try_to_ask(question):
            self._queue.append(question)
            self._send_queued_soon()

    async def _carry_out(self, command: str, act: PageAction) -> None:
        """Execute a command of the composer; `UsageError` for a command that is unknown or not applicable now."""
        last = self._turns[-1] if self._turns else None
        act = replace(act, args={"message": last.message.message_id} if last else {})
        match command:
            case "new":
                await self.act_new(act)
            case "conversations":
                await self.act_list(act)
            case "export" if self._branch.conversation_id is not None:
                await self.act_export(act)
            case "retry" if last is not None and last.is_complete:
                await self.act_regenerate(act)
            case "stop" if last is not None and not last.is_complete:
                await self.act_stop(act)
            case name if name in COMMANDS:
                raise UsageError(f"The command /{name} has nothing to do now.")
            case name:
                raise UsageError(f"There is no command /{name}. Known: {', '.join(f'/{name}' for name in COMMANDS)}.")

    async def _try_to_ask(self, question: QueuedQuestion) -> bool:
        """Start the run of a question; False while the branch has no answer yet."""
        try:
            run = await self._engine.controller.begin(
                question.text,
                conversation_id=self._branch.conversation_id,
                flow=self._flow,
                budget=self._budget,
                model=question.model,
                depth=question.depth,
            )
        except Conflict:
            return False
        self._branch.conversation_id = run.conversation_id
        await self._started(run)
        return True

    def _send_queued_soon(self) -> None:
        """Send the first queued question if no answer is running; called after every change."""
        is_busy = self._running_turn is not None or (self._sending is not None and not self._sending.done())
        if self._queue and not self._queue[0].error and not is_busy:
            self._sending = asyncio.get_running_loop().create_task(self._send_queued())

    async def _send_queued(self) -> None:
        async with self._action_lock:
            if not self._queue or self._running_turn is not None:
                return
            try:
                if await self._try_to_ask(self._queue[0]):
                    del self._queue[0]
            except ArtifactFlowError as error:
                self._queue[0] = replace(self._queue[0], error=str(error))
        self.screen.refresh()

    async def act_unqueue(self, act: PageAction) -> None:
        """Remove a queued question."""
        index = act.args.get("index")
        if isinstance(index, int) and 0 <= index < len(self._queue):
            del self._queue[index]
            self._send_queued_soon()

    async def act_example(self, act: PageAction) -> None:
        """Write an example question into the form."""
        self.screen.effect(act.page, "fill", key="composer", text=str(act.args.get("text", "")))

    async def act_complete(self, act: PageAction) -> None:
        """Send the completions of the word before the cursor to the form."""
        mark, words = str(act.args.get("mark")), str(act.args.get("words", ""))
        options = await completions(self._engine, mark, words, self._branch.conversation_id)
        self.screen.effect(act.page, "complete", key="composer", word=f"{mark}{words}", options=options)

    async def act_attach(self, act: PageAction) -> str:
        """Add files of the page to the sources."""
        if self._composer is None or not self._composer.can_attach:
            raise UsageError("Files cannot be attached here. The person who runs the server adds sources.")
        message = await attach_files(self._engine, act.args.get("files"))
        async with self._action_lock:
            self._composer = replace(self._composer, examples=await Composer.load_examples(self._engine))
        return message

    async def act_regenerate(self, act: PageAction) -> None:
        """Ask a question again, as a sibling."""
        message_id = self._branch.turn(act.args.get("message")).message.message_id
        await self._started(
            await self._engine.controller.begin_sibling(message_id, budget=self._budget, model=self._model)
        )

    async def act_resend(self, act: PageAction) -> None:
        """Ask an edited question, as a sibling of the original."""
        turn = self._branch.turn(act.args.get("message"))
        run = await self._engine.controller.begin_sibling(
            turn.message.message_id, submitted_question(act), budget=self._budget, model=self._model
        )
        turn.change(editing=False)
        await self._started(run)

    async def _started(self, run: StoredRun) -> None:
        await self._engine.controller.start(run)
        await self._branch.show(run.message_id)
        await self._save()

    async def act_edit(self, act: PageAction) -> None:
        """Start editing a question."""
        self._branch.turn(act.args.get("message")).change(editing=True)

    async def act_cancel_edit(self, act: PageAction) -> None:
        """Cancel editing a question."""
        self._branch.turn(act.args.get("message")).change(editing=False)

    async def act_sibling(self, act: PageAction) -> None:
        """Show the previous or next version of a question."""
        message_id = self._branch.turn(act.args.get("message")).message.message_id
        if await self._branch.go_to_sibling(message_id, 1 if act.args.get("step") == 1 else -1):
            await self._save()

    async def act_recall(self, act: PageAction) -> None:
        """Write the last question into the form."""
        if self._turns:
            self.screen.effect(act.page, "fill", key="composer", text=self._turns[-1].message.content)

    async def act_copy(self, act: PageAction) -> None:
        """Copy an answer or a report to the clipboard."""
        turn = self._branch.turn(act.args.get("message"))
        text = turn.answer
        if (report := act.args.get("report")) is not None and self.conversation_id is not None:
            at = turn.message.message_id
            text = (await self._engine.artifacts.read(self.conversation_id, str(report), message_id=at)).content
        self.screen.effect(act.page, "copy", text=text)

    async def act_stop(self, act: PageAction) -> None:
        """Cancel a run."""
        turn = self._branch.turn(act.args.get("message"))
        if turn.run is not None:
            await turn.run.cancel()

    async def act_resume(self, act: PageAction) -> None:
        """Resume an abandoned run."""
        await self._branch.turn(act.args.get("message")).resume()

    async def act_decide(self, act: PageAction) -> None:
        """Decide a permission request of one of the runs."""
        await self._branch.turn_of_request(str(act.args.get("request"))).decide(act.args)

    async def act_earlier(self, _act: PageAction) -> None:
        """Show more of the earlier turns."""
        await self._branch.show_earlier()

    # --- other conversations and exports ----------------------------------------------------------------------------

    async def act_new(self, act: PageAction) -> None:
        """Start a new conversation with the next question."""
        await self._change_to(act, None)

    async def act_choose(self, act: PageAction) -> None:
        """Show another conversation and, for a search result, the matching question."""
        conversation_id, match_id = str(act.args.get("conversation")), act.args.get("message")
        await self._engine.conversations.get(conversation_id)  # raises `NotFound` before anything changes
        if match_id is None:
            await self._change_to(act, conversation_id)
            return
        message = await self._engine.conversations.message(str(match_id))
        await self._change_to(act, message.conversation_id, message.message_id)

    async def _change_to(self, act: PageAction, conversation_id: str | None, message_id: str | None = None) -> None:
        self._open_menu = ""
        await self._branch.change_to(conversation_id, message_id)
        self.screen.effect(act.page, "end", key="turns")
        self.screen.effect(act.page, "focus", key="composer")
        if message_id is not None:
            self.screen.effect(act.page, "show", key=f"turn-{message_id}")
        await self._save()

    async def act_list(self, act: PageAction) -> None:
        """Open or close the list of conversations."""
        self._open_menu = "" if self._open_menu == _LIST else _LIST
        if self._open_menu:
            await self._picker.search("")
            self.screen.effect(act.page, "focus", key="search")

    async def act_search(self, act: PageAction) -> None:
        """List the conversations that contain the words; without words, list all conversations."""
        await self._picker.search(form_text(act, "words"))

    async def act_more(self, _act: PageAction) -> None:
        """List more conversations."""
        await self._picker.load_more()

    async def act_export(self, _act: PageAction) -> None:
        """Open or close the download buttons."""
        self._open_menu = "" if self._open_menu == _EXPORT else _EXPORT

    async def act_download(self, act: PageAction) -> str:
        """Download the branch as a file."""
        if self._branch.conversation_id is None:
            raise UsageError("Nothing has been asked yet, so there is nothing to download.")
        return await self.download(act, await conversation_document(self._engine, self._branch.conversation_id))

    def close(self) -> None:
        """Stop following the conversation."""
        super().close()
        self._branch.close()
        if self._sending is not None:
            self._sending.cancel()
