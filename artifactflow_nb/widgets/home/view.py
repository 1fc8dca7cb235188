"""`HomeView`: an overview of a workbench, with its unfinished runs, their requests, and its conversations.

::

    head            model, buttons for a new chat and for "Connect a model"
    connect         the form of a model connection, while it is open
    waits           runs with their open requests
    running         runs with their buttons; present without runs too, because a new section would move the cells
    conversations   open as a chat in the place of all this, with a button that leads back
    runs, today     folds: the newest runs, and the usage since midnight per model
    sources         what runs search

The saved output may be sent to others, so it has only the questions of this kernel's runs, and the number of others.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from artifactflow_nb.core.language import texts_in
from artifactflow_nb.core.text.format import clip
from artifactflow_nb.core.text.markdown import escape
from artifactflow_nb.engine.run_client import RunClient
from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.errors import NotFound
from artifactflow_nb.models.base import model_name
from artifactflow_nb.store.conversations import Conversation
from artifactflow_nb.store.ownership import effective_status
from artifactflow_nb.store.runs import StoredRun
from artifactflow_nb.store.storage import ModelUsage, RunEntry, load_conversation_costs, load_home
from artifactflow_nb.widgets.chat.view import ChatView
from artifactflow_nb.widgets.home import nodes as home_nodes
from artifactflow_nb.widgets.home.connection import ModelConnection
from artifactflow_nb.widgets.page.elements import button
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.saved import SavedOutput, saved_output
from artifactflow_nb.widgets.page.view import PageAction
from artifactflow_nb.widgets.run import labels
from artifactflow_nb.widgets.run.approval_card import approval_box, approval_card
from artifactflow_nb.widgets.run.follower import RunFollower
from artifactflow_nb.widgets.run.polled_view import PolledView
from artifactflow_nb.widgets.run.render import RunRenderer
from artifactflow_nb.widgets.run.transcript import RunTranscript

_CSS = "af-home"
_N_LISTED = 5
_N_RUNS = 8


@dataclass(slots=True)
class _UnfinishedRun:
    """A run that the view follows.

    Attributes:
        run: The run's row.
        client: Client of the run.
        transcript: State of the run.
        follower: Keeps the state up to date.
    """

    run: StoredRun
    client: RunClient
    transcript: RunTranscript
    follower: RunFollower
    renderer: RunRenderer = field(init=False)

    def __post_init__(self) -> None:
        self.renderer = RunRenderer(self.client, open_keys=False)


class HomeView(PolledView):
    """Live view of a workbench, with the HTML of its configuration."""

    def __init__(self, thread: EngineThread, configuration: str = "") -> None:
        super().__init__(thread.engine)
        self.css = _CSS
        self._thread = thread
        self._configuration = configuration
        self.texts = texts_in(thread.engine.settings.language)
        self.label = self.texts("workbench")
        self._unfinished: dict[str, _UnfinishedRun] = {}
        self._conversations: Sequence[Conversation] = ()
        self._n_listed = _N_LISTED
        self._costs: Mapping[str, float | None] = {}
        self._runs: Sequence[RunEntry] = ()
        self._today: Sequence[ModelUsage] = ()
        self._connection: ModelConnection | None = None
        self._chat: ChatView | None = None
        self._load_lock = asyncio.Lock()
        self._is_closed = False

    async def _change_token(self) -> object:
        return await super()._change_token(), _now().date()

    async def load(self) -> None:
        """Load what waits and runs, the conversations and the costs of today."""
        midnight = _now().replace(hour=0, minute=0, second=0, microsecond=0)
        async with self._load_lock:
            home = await self._engine.database.read(lambda db: load_home(db, _N_RUNS, midnight))
            self._runs, self._today = home.runs, home.today
            await self._engine.load_sources()
            self._conversations = await self._engine.conversations.list_conversations(self._n_listed + 1)
            ids = [entry.conversation_id for entry in self._conversations]
            self._costs = await self._engine.database.read(lambda db: load_conversation_costs(db, ids))
            unfinished = {run.run_id: run for run in home.unfinished}
            for run_id in self._unfinished.keys() - unfinished.keys():
                self._unfinished.pop(run_id).follower.close()
            for run in home.unfinished:
                if run.run_id not in self._unfinished:
                    await self._follow_run(run)

    async def _follow_run(self, stored: StoredRun) -> None:
        client, transcript = RunClient(self._thread, stored), RunTranscript(stored.question)
        follower = RunFollower(client, transcript, self.screen.refresh, self.screen.save_soon)
        self._unfinished[stored.run_id] = _UnfinishedRun(stored, client, transcript, follower)
        await follower.start()
        if self._is_closed:  # while the events were read
            follower.close()

    # --- content ----------------------------------------------------------------------------------------------------

    def nodes(self) -> tuple[Node, ...]:
        """Return the home or, if a chat is open, the chat below a button that closes it."""
        if self._chat is None:
            return self._home()
        back = Node(
            "back", button(f"‹ {self.texts('workbench')}", "home", css="af-small"), "controls", "af-controls af-back"
        )
        return (back, *self._chat.nodes())

    def saved_output(self) -> SavedOutput:
        """Return the home, even while a chat is open."""
        return saved_output(self._home(is_saved=True), self.texts, css=_CSS)

    def announcement(self) -> str:
        """Return the number of open requests, or the announcement of the open chat."""
        if self._chat is not None:
            return self._chat.announcement()
        n = sum(len(unfinished.transcript.pending_requests) for unfinished in self._unfinished.values())
        return self.texts("requests_wait", requests=self.texts.count(n, "n_requests")) if n else ""

    def _home(self, *, is_saved: bool = False) -> tuple[Node, ...]:
        model, texts = model_name(self._engine.model), self.texts
        is_tested = self._connection is not None and self._connection.is_tested and not is_saved
        in_use = texts("in_use_until") if is_tested else ""
        title = f'<strong>{texts("workbench")}</strong> <span class="af-quiet">{escape(model + in_use)}</span>'
        buttons = [
            button(texts("new_chat"), "open", css="af-primary"),
            button(texts("connect_model"), "connect", pressed=self._connection is not None),
        ]
        live = [entry for entry in self._unfinished.values() if not entry.transcript.is_ended]
        waiting = sorted((entry for entry in live if entry.transcript.pending_requests), key=_first_request_time)
        running = [entry for entry in live if not entry.transcript.pending_requests]
        head = (
            Node("title", title, css="af-question", text=texts("workbench_of", model=model)),
            Node("head-controls", " ".join(buttons), "controls", "af-controls"),
        )
        sections = [
            Node("head", kind="box", css="af-home-head", children=head),
            *(self._saved_work(waiting, running) if is_saved else self._live_work(waiting, running)),
            *self._folds(is_saved=is_saved),
            home_nodes.section(
                "sources",
                texts("sources"),
                [home_nodes.sources_line(self._engine.searched_folders, self._engine.other_folders, texts)],
            ),
        ]
        if self._configuration:
            content = Node("configuration-table", self._configuration, css="af-home-configuration", text="")
            sections.append(Node("configuration", texts("configuration"), "fold", "af-home-fold", children=(content,)))
        return tuple(section for section in sections if section.children or section.html)

    def _live_work(self, waiting: Sequence[_UnfinishedRun], running: Sequence[_UnfinishedRun]) -> Iterator[Node]:
        """Yield the unfinished runs and the conversations of the store."""
        link, texts = home_nodes.open_link, self.texts
        if self._connection:
            yield from self._connection.nodes()
        yield home_nodes.section("waits", texts("waits_for_you"), [self._run(entry, link) for entry in waiting])
        nothing = Node("running-none", f"<p>{texts('nothing_runs')}</p>", css="af-quiet af-home-run")
        yield home_nodes.section(
            "running", texts.status("running"), [self._run(entry, link) for entry in running] or [nothing]
        )
        newest, nothing_yet = self._conversations[: self._n_listed], texts("no_conversations")
        listed = [home_nodes.conversation_list(newest, self._costs, link, texts, nothing_yet)]
        if len(self._conversations) > self._n_listed:
            more = button(texts("more"), "more", css="af-small", name=texts("more_conversations"))
            listed.append(Node("more", more, "controls", "af-controls"))
        yield home_nodes.section("conversations", texts("page_conversations"), listed)

    def _saved_work(self, waiting: Sequence[_UnfinishedRun], running: Sequence[_UnfinishedRun]) -> Iterator[Node]:
        """Yield the unfinished runs and the conversations of this kernel, and the numbers of others."""
        link, own, texts = home_nodes.link_text, self._own_conversations, self.texts
        titles = texts("waits_for_you"), texts.status("running")
        for key, title, entries in zip(("waits", "running"), titles, (waiting, running), strict=True):
            ours = [entry for entry in entries if self._is_own(entry.run)]
            hint, nodes = texts("decision_hint"), [self._run(entry, link) for entry in ours]
            if n_others := len(entries) - len(ours):
                text = texts("of_others", runs=texts.count(n_others, "n_runs"))
                nodes.append(
                    Node(
                        f"{key}-others", f"<p>{text}</p>", css="af-quiet", text=texts("titled", title=title, text=text)
                    )
                )
            if key == "waits" and entries:
                nodes.insert(0, Node("hint", f"<p>{hint}</p>", css="af-quiet", text=hint))
            yield home_nodes.section(key, title, nodes)
        listed = [entry for entry in self._conversations if entry.conversation_id in own]
        shown = home_nodes.conversation_list(listed, self._costs, link, texts, texts("listed_here"))
        yield home_nodes.section("conversations", texts("page_conversations"), [shown])

    def _folds(self, *, is_saved: bool) -> Iterator[Node]:
        """Yield the collapsible sections of the newest runs and of the usage; a page has them even without runs."""
        runs = [(entry, self._status(entry.run)) for entry in self._runs if not is_saved or self._is_own(entry.run)]
        make_link, texts = home_nodes.link_text if is_saved else home_nodes.open_link, self.texts
        for key, title, table in (
            ("runs", texts("newest_runs"), home_nodes.run_table(runs, make_link, texts) if runs else None),
            ("today", texts("today"), home_nodes.usage_table(self._today, texts) if self._today else None),
        ):
            if table or not is_saved:
                content = table or Node(f"{key}-none", f"<p>{texts('no_runs')}</p>", css="af-quiet")
                yield Node(key, title, "fold", "af-home-fold", children=(content,))

    def _is_own(self, run: StoredRun) -> bool:
        """Return whether the run started in this kernel."""
        return run.run_id in self._engine.controller.started

    @property
    def _own_conversations(self) -> set[str]:
        unfinished = (entry.run for entry in self._unfinished.values())
        newest = (entry.run for entry in self._runs)
        return {run.conversation_id for run in (*unfinished, *newest) if self._is_own(run)}

    def _run(self, entry: _UnfinishedRun, make_link: home_nodes.MakeLink) -> Node:
        """Build an unfinished run with its activity, its buttons and its open requests."""
        run, transcript = entry.run, entry.transcript
        question = clip(run.question, home_nodes.TITLE_COLUMNS)
        link = make_link(question, conversation=run.conversation_id, message=run.message_id)
        activity = labels.activity(transcript.lead_job, self.texts) if not transcript.pending_requests else ""
        stall = entry.renderer.stall(transcript.lead_job) if activity else ""
        html = f'{link} <span class="af-arg">{escape(activity)}</span>{stall}'
        render = partial(entry.renderer.cited_html, transcript)
        # A box for each run, so that its buttons decide only the requests of this run.
        cards = approval_box(
            approval_card(request, entry.client.tool(request.tool), render, self.texts)
            for request in transcript.pending_requests
        )
        children = (
            Node(
                f"{run.run_id}-line",
                html,
                css="af-home-line",
                text=self.texts("titled", title=self.texts.status(transcript.status), text=question),
            ),
            home_nodes.state_of_run(run.run_id, entry.renderer.status_line(transcript, run=run.run_id)),
            *([replace(cards, key=f"{run.run_id}-approvals")] if cards.children else []),
        )
        return Node(run.run_id, kind="box", css="af-home-run", children=children)

    def _status(self, run: StoredRun) -> str:
        return effective_status(self._engine.folder, run.status, run.owner, run.start_lock)

    # --- actions ----------------------------------------------------------------------------------------------------

    async def act(self, act: PageAction) -> str:
        """Handle an action; an open chat handles its own actions."""
        if self._chat is not None and act.name != "home":
            return await self._chat.act(act)
        return await super().act(act)

    async def act_open(self, act: PageAction) -> None:
        """Open a conversation as a chat, at a message if one is named; without a conversation, a new chat."""
        conversation_id, message_id = act.args.get("conversation"), act.args.get("message")
        if conversation_id is not None:
            await self._engine.conversations.get(str(conversation_id))  # raises `NotFound` before anything changes
        chat = ChatView(self._thread, None if conversation_id is None else str(conversation_id))
        await chat.open(self.screen)
        if conversation_id is not None and message_id is not None:
            await chat.act(PageAction("choose", {"conversation": conversation_id, "message": message_id}, act.page))
        self._chat, self.css = chat, f"{ChatView.css} af-home-chat"
        self.screen.effect(act.page, "focus", key="composer")

    async def act_more(self, _act: PageAction) -> None:
        """List more conversations."""
        self._n_listed += _N_RUNS
        await self.load()

    async def act_home(self, act: PageAction) -> None:
        """Close the open chat."""
        if self._chat is not None:
            self._chat.close()
        self._chat, self.css = None, _CSS
        await self.load()
        self.screen.effect(act.page, "focus", key="head-controls")

    async def act_decide(self, act: PageAction) -> None:
        """Decide a request of one of the runs."""
        request_id = str(act.args.get("request"))
        for entry in self._unfinished.values():
            if entry.transcript.find_request(request_id) is not None:
                await entry.follower.decide(act.args)
                return
        raise NotFound(
            f"The request {request_id} was decided elsewhere, or its run has ended. The list has the open ones."
        )

    async def act_stop(self, act: PageAction) -> None:
        """Cancel a run."""
        await self._entry(act).client.cancel()

    async def act_resume(self, act: PageAction) -> None:
        """Resume an interrupted run."""
        await self._entry(act).follower.resume()

    def _entry(self, act: PageAction) -> _UnfinishedRun:
        run_id = str(act.args.get("run"))
        entry = self._unfinished.get(run_id)
        if entry is None:
            raise NotFound(f"The run {run_id} has ended. Open its conversation to read the answer.")
        return entry

    async def act_connect(self, act: PageAction) -> None:
        """Open or close the form of a model connection."""
        self._connection = None if self._connection else ModelConnection(self._engine.settings, self.texts)
        if self._connection:
            self.screen.effect(act.page, "focus", key="connect-form")

    async def act_list_models(self, act: PageAction) -> str:
        """List the models of the endpoint."""
        return await self._require_connection().list_models(_values(act))

    async def act_test_model(self, act: PageAction) -> str:
        """Make a test call to the chosen model."""
        return await self._require_connection().test_model(_values(act))

    async def act_add_connection(self, act: PageAction) -> None:
        """Add a cell with the code of the connection."""
        code = self._require_connection().code
        self.screen.effect(act.page, "cell", source=code, cell_type="code", key="connect-add")

    def _require_connection(self) -> ModelConnection:
        if self._connection is None:
            raise NotFound("Press Connect a model first.")
        return self._connection

    def close(self) -> None:
        """Stop following the store and the runs."""
        super().close()
        self._is_closed = True
        for entry in self._unfinished.values():
            entry.follower.close()
        if self._chat is not None:
            self._chat.close()


def _first_request_time(entry: _UnfinishedRun) -> datetime:
    """Return the time of the oldest open request, by which all views sort the requests."""
    times = [request.asked_at for request in entry.transcript.pending_requests if request.asked_at is not None]
    return min(times)


def _values(act: PageAction) -> Mapping[str, Any]:
    values = act.args.get("values")
    return values if isinstance(values, Mapping) else {}


def _now() -> datetime:
    """Return the time in the zone of this computer."""
    return datetime.now().astimezone()
