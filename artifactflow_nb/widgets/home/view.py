"""`HomeView`: an overview of a workbench, with its unfinished runs, their requests, and its conversations.

::

    head            model, buttons for a new chat and for "Connect a model"
    connect         the form of a model connection, while it is open
    waits           runs with their open requests
    running         runs with their buttons; present without runs too, because a new section would move the cells
    conversations   a chosen conversation replaces the home by a chat, with a button that leads back
    runs, today     folds: the newest runs, and the usage since midnight per model
    sources         the folders that runs search

The saved output may be sent to others, so it has only the questions of this kernel's runs; other runs are counted.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from artifactflow_nb.core.language import EnglishText, status_label, translate
from artifactflow_nb.core.text.format import capitalized, clip, translate_count
from artifactflow_nb.core.text.markdown import escape
from artifactflow_nb.engine.run_client import MakeClient, RunClient
from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.errors import NotFound
from artifactflow_nb.models.base import model_name
from artifactflow_nb.store.ownership import effective_status
from artifactflow_nb.store.runs import WAITING, StoredRun
from artifactflow_nb.store.storage import ModelUsage, RunEntry, load_home
from artifactflow_nb.widgets.chat.host import ChatHost
from artifactflow_nb.widgets.conversations.picker import ConversationPicker, saved_list
from artifactflow_nb.widgets.home import nodes as home_nodes
from artifactflow_nb.widgets.home.connection import ModelConnection
from artifactflow_nb.widgets.page.elements import button
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.view import PageAction
from artifactflow_nb.widgets.run import labels
from artifactflow_nb.widgets.run.approval_card import approval_box, approval_card
from artifactflow_nb.widgets.run.follower import RunFollower
from artifactflow_nb.widgets.run.render import RunRenderer
from artifactflow_nb.widgets.run.saved import hint_for_status
from artifactflow_nb.widgets.run.transcript import RunTranscript

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


class HomeView(ChatHost):
    """Live view of a workbench.

    Args:
        configuration: The HTML of the workbench's configuration; may be empty.
        is_served: Whether a server shows the home; its users see the data folder but cannot connect a model.
        takes_files: Whether files that are dropped on the page of the server become sources.
        make_client: Creates the clients of the runs.
    """

    label: EnglishText = "Workbench"
    css = "af-home"

    def __init__(
        self,
        thread: EngineThread,
        configuration: str = "",
        *,
        is_served: bool = False,
        takes_files: bool = False,
        make_client: MakeClient = RunClient,
    ) -> None:
        super().__init__(thread, is_served=is_served, make_client=make_client)
        self._takes_files = takes_files
        self._configuration = configuration
        self._unfinished: dict[str, _UnfinishedRun] = {}
        self._picker = ConversationPicker(self._engine.conversations, _N_LISTED)
        self._runs: Sequence[RunEntry] = ()
        self._today: Sequence[ModelUsage] = ()
        self._connection: ModelConnection | None = None
        self._load_lock = asyncio.Lock()
        self._is_closed = False

    async def _change_token(self) -> object:
        return await super()._change_token(), _now().date()

    async def load(self) -> None:
        """Load the unfinished runs and their requests, the conversations and the usage of today."""
        midnight = _now().replace(hour=0, minute=0, second=0, microsecond=0)
        async with self._load_lock:
            home = await self._engine.database.read(lambda db: load_home(db, _N_RUNS, midnight))
            self._runs, self._today = home.runs, home.today
            await self._engine.load_sources()
            await self._picker.load()
            unfinished = {run.run_id: run for run in home.unfinished}
            for run_id in self._unfinished.keys() - unfinished.keys():
                self._unfinished.pop(run_id).follower.close()
            for run in home.unfinished:
                if run.run_id in self._unfinished:
                    continue
                client, transcript = self._make_client(self._thread, run), RunTranscript(run.question)
                follower = RunFollower(client, transcript, self.screen.refresh, self.screen.save_soon)
                self._unfinished[run.run_id] = _UnfinishedRun(run, client, transcript, follower)
                await follower.start()
                if self._is_closed:  # while the events were read
                    follower.close()

    # --- content ----------------------------------------------------------------------------------------------------

    def announcement(self) -> str:
        """Return the number of open requests, or the announcement of the open chat."""
        if self._chat is not None:
            return super().announcement()
        n = sum(len(unfinished.transcript.pending_requests) for unfinished in self._unfinished.values())
        return translate("{requests} waiting for your decision.", requests=translate_count(n, "request")) if n else ""

    def own_nodes(self, *, is_saved: bool = False) -> tuple[Node, ...]:
        """Return the sections; the sections of the saved output have no buttons."""
        model = model_name(self._engine.model)
        is_tested = self._connection is not None and self._connection.is_tested and not is_saved
        in_use = translate(" · in use until the code below has run") if is_tested else ""
        title = f'<strong>{translate("Workbench")}</strong> <span class="af-quiet">{escape(model + in_use)}</span>'
        buttons = [button(translate("New chat"), "open", css="af-primary")]
        if not self._is_served:
            buttons.append(button(translate("Connect a model"), "connect", pressed=self._connection is not None))
        live = [entry for entry in self._unfinished.values() if not entry.transcript.is_ended]
        waiting = sorted((entry for entry in live if entry.transcript.pending_requests), key=_first_request_time)
        running = [entry for entry in live if not entry.transcript.pending_requests]
        heading = (
            Node("title", title, css="af-question", text=translate("Workbench: {model}", model=model)),
            Node("head-controls", " ".join(buttons), "controls", "af-controls"),
        )
        hint = translate(" wb.sources.add(folder) adds your own files.")
        if self._is_served:
            hint = translate(" Drop files here to add your own.") if self._takes_files else ""
        sources = home_nodes.sources_line(self._engine.searched_folders, self._engine.other_folders, hint)
        sections = [
            Node("head", kind="box", css="af-home-head", children=heading),
            *(self._saved_work(waiting, running) if is_saved else self._live_work(waiting, running)),
            *self._folds(is_saved=is_saved),
            home_nodes.section("sources", translate("Sources"), [sources]),
        ]
        if self._is_served:
            path = str(self._engine.folder.absolute())
            text = translate(
                "Runs of notebooks with another data folder are not shown here. In such a notebook use {call}.",
                call=f"af.Workbench(data_dir={path!r})",
            )
            folder = f'<p><code>{escape(path)}</code></p><p class="af-quiet">{escape(text)}</p>'
            sections.append(home_nodes.section("folder", translate("Data folder"), [Node("folder-path", folder)]))
        if self._configuration:
            content = Node("configuration-table", self._configuration, css="af-home-configuration", text="")
            sections.append(
                Node("configuration", translate("Configuration"), "fold", "af-home-fold", children=(content,))
            )
        return tuple(section for section in sections if section.children or section.html)

    def _live_work(self, waiting: Sequence[_UnfinishedRun], running: Sequence[_UnfinishedRun]) -> Iterator[Node]:
        """Yield the unfinished runs and the conversations of the store."""
        link = home_nodes.open_link
        if self._connection:
            yield from self._connection.nodes()
        yield home_nodes.section("waits", translate("Waits for you"), [self._run(entry, link) for entry in waiting])
        nothing = Node("running-none", f"<p>{translate('Nothing is running.')}</p>", css="af-quiet af-home-run")
        yield home_nodes.section(
            "running", capitalized(status_label("running")), [self._run(entry, link) for entry in running] or [nothing]
        )
        lists = Node("lists", kind="box", css="af-home-conversations", children=self._picker.nodes(None))
        yield home_nodes.section("conversations", translate("Conversations"), [lists])

    def _saved_work(self, waiting: Sequence[_UnfinishedRun], running: Sequence[_UnfinishedRun]) -> Iterator[Node]:
        """Yield the unfinished runs and the conversations of this kernel, and the number of other runs."""
        link, own = home_nodes.link_text, self._own_conversations
        titles = translate("Waits for you"), capitalized(status_label("running"))
        for key, title, entries in zip(("waits", "running"), titles, (waiting, running), strict=True):
            ours = [entry for entry in entries if self._is_own(entry.run)]
            hint, nodes = hint_for_status(WAITING), [self._run(entry, link) for entry in ours]
            if n_others := len(entries) - len(ours):
                text = translate("{runs} of other notebooks or kernels.", runs=translate_count(n_others, "run"))
                plain = translate("{title}: {text}", title=title, text=text)
                nodes.append(Node(f"{key}-others", f"<p>{text}</p>", css="af-quiet", text=plain))
            if key == "waits" and entries:
                nodes.insert(0, Node("hint", f"<p>{hint}</p>", css="af-quiet", text=hint))
            yield home_nodes.section(key, title, nodes)
        conversations = [entry for entry in self._picker.conversations if entry.conversation_id in own]
        yield home_nodes.section("conversations", translate("Conversations"), [saved_list(conversations)])

    def _folds(self, *, is_saved: bool) -> Iterator[Node]:
        """Yield collapsible sections with the newest runs and the usage; a page has both sections even without runs."""
        runs = [(entry, self._status(entry.run)) for entry in self._runs if not is_saved or self._is_own(entry.run)]
        make_link = home_nodes.link_text if is_saved else home_nodes.open_link
        for key, title, table in (
            ("runs", translate("Newest runs"), home_nodes.run_table(runs, make_link) if runs else None),
            ("today", translate("Today"), home_nodes.usage_table(self._today) if self._today else None),
        ):
            if table or not is_saved:
                content = table or Node(f"{key}-none", f"<p>{translate('No runs yet.')}</p>", css="af-quiet")
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
        activity = labels.activity(transcript.lead_job) if not transcript.pending_requests else ""
        stall = entry.renderer.stall(transcript.lead_job) if activity else ""
        html = f'{link} <span class="af-arg">{escape(activity)}</span>{stall}'
        render = partial(entry.renderer.cited_html, transcript)
        # Each run has a box, so that the buttons of a box decide only the requests of its run.
        cards = approval_box(
            approval_card(request, entry.client.tool(request.tool), render) for request in transcript.pending_requests
        )
        children = (
            Node(
                f"{run.run_id}-line",
                html,
                css="af-home-line",
                text=translate("{title}: {text}", title=capitalized(status_label(transcript.status)), text=question),
            ),
            home_nodes.state_of_run(run.run_id, entry.renderer.status_line(transcript, run=run.run_id)),
            *([replace(cards, key=f"{run.run_id}-approvals")] if cards.children else []),
        )
        return Node(run.run_id, kind="box", css="af-home-run", children=children)

    def _status(self, run: StoredRun) -> str:
        return effective_status(self._engine.folder, run.status, run.owner, run.start_lock)

    # --- actions ----------------------------------------------------------------------------------------------------

    async def act_choose(self, act: PageAction) -> None:
        """Open a conversation of the list."""
        await self.act_open(act)

    async def act_search(self, act: PageAction) -> None:
        """List the conversations that contain the words; without words, list all conversations."""
        await self._picker.search(str(_values(act).get("words", "")))

    async def act_more(self, _act: PageAction) -> None:
        """List more conversations."""
        await self._picker.load_more()

    async def act_decide(self, act: PageAction) -> None:
        """Decide a request of one of the runs."""
        request_id = str(act.args.get("request"))
        for entry in self._unfinished.values():
            if entry.transcript.find_request(request_id) is not None:
                await entry.follower.decide(act.args)
                return
        raise NotFound(
            f"The request {request_id} was decided elsewhere, or its run has ended. The list has the open requests."
        )

    async def act_stop(self, act: PageAction) -> None:
        """Cancel a run."""
        await self._entry(act).client.cancel()

    async def act_resume(self, act: PageAction) -> None:
        """Resume an abandoned run."""
        await self._entry(act).follower.resume()

    def _entry(self, act: PageAction) -> _UnfinishedRun:
        run_id = str(act.args.get("run"))
        entry = self._unfinished.get(run_id)
        if entry is None:
            raise NotFound(f"The run {run_id} has ended. Open its conversation to read the answer.")
        return entry

    async def act_connect(self, act: PageAction) -> None:
        """Open or close the form of a model connection."""
        self._connection = None if self._connection else ModelConnection(self._engine.settings)
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
