"""The workbench: the interface of notebooks to the engine.

::

    wb = af.Workbench()
    run = wb.ask("...")      # returns at once
    await run
    run.response
"""

import os
import shutil
import sqlite3
import sys
import tempfile
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, overload

from artifactflow_nb.agents.base import AgentLike
from artifactflow_nb.agents.reviewer import Reviewer
from artifactflow_nb.agents.settings import GraphConfig
from artifactflow_nb.analysis.frames.api import Frames
from artifactflow_nb.core.approvals import ApprovalRule
from artifactflow_nb.core.budget import Budget
from artifactflow_nb.core.local_files import absolute_path, shown_path
from artifactflow_nb.core.middleware import Middleware
from artifactflow_nb.core.runs import Clarify, Depth
from artifactflow_nb.core.suggestions import SuggestsNames, suggests_arguments
from artifactflow_nb.core.text.cards import Card, CardMixin
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.flow_registry import DEFAULT_FLOW
from artifactflow_nb.engine.plugin import Plugin
from artifactflow_nb.engine.run_client import RunClient
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.engine.thread import DeferredInterrupts
from artifactflow_nb.engine.warm_up import import_in_background, modules_of_first_run
from artifactflow_nb.errors import NotFound, UsageError, brief, check_text, wrap_words
from artifactflow_nb.flows.base import FlowSpec, OwnFlow
from artifactflow_nb.models.base import Model, check_model, model_name
from artifactflow_nb.notebook import references
from artifactflow_nb.notebook.artifact import Artifacts, Branch
from artifactflow_nb.notebook.completion import add_completion
from artifactflow_nb.notebook.conversation import ConversationHandle
from artifactflow_nb.notebook.display import CellDisplay, workbench_card
from artifactflow_nb.notebook.lists import RequestList, RunList
from artifactflow_nb.notebook.references import ConversationLike, ConversationReference
from artifactflow_nb.notebook.renamed import RENAMED
from artifactflow_nb.notebook.run import Run, start_run
from artifactflow_nb.notebook.sources import BudgetLike, Sources
from artifactflow_nb.notebook.store import WorkbenchStore
from artifactflow_nb.plugins.built_in import WorkbenchAccessors, load_plugins
from artifactflow_nb.recording.engine import RecordingThread, make_engine
from artifactflow_nb.recording.report import ReproducibilityReport, load_report
from artifactflow_nb.store.approvals import load_open_requests
from artifactflow_nb.store.conversations import ParentId, ParentSelector
from artifactflow_nb.store.database import read_store
from artifactflow_nb.store.frames import Frame, RunFilter
from artifactflow_nb.store.locks import check_not_forked, network_file_system
from artifactflow_nb.store.metrics import load_forecast
from artifactflow_nb.store.runs import ABANDONED, RUNNING, WAITING, StoredRun, load_full_id, load_unfinished
from artifactflow_nb.store.storage import load_newest
from artifactflow_nb.tools.base import Tool, tool
from artifactflow_nb.tools.web.tools import SearchProvider

if TYPE_CHECKING:
    from artifactflow_nb.widgets.conversations.picker import ConversationList
    from artifactflow_nb.widgets.page.panel import Panel
    from artifactflow_nb.widgets.page.view import View


def _note_retry(run: object, method: str) -> None:
    """Print that the question of a run was asked again, with the call for the newer run."""
    if isinstance(run, Run) and (retry := run.retried_as) is not None:
        note = f"This is {run.run_id}, which was retried: {method}(run.retried_as) is about {retry.run_id}."
        print(wrap_words(note), file=sys.stderr)  # noqa: T201 - a line for the person


class Workbench(SuggestsNames, WorkbenchAccessors, Frames, CardMixin):
    """Asks questions, and shows and stores the results.

    Args:
        model: The name of a model at the endpoint, or a model object; None for `AF_MODEL`, and for the offline model if
            no endpoint is configured.
        base_url: The address of an OpenAI-compatible endpoint; None for `OPENAI_BASE_URL`.
        api_key: The key of the endpoint; None for `OPENAI_API_KEY`.
        approvals: The policy that answers approval requests before a person is asked: `ask`, `approve`, `deny`, a
            verdict per tool, a function that returns the verdict on a request, an object with such a method `decide`,
            or `af.Reviewer(model=...)`, a model that decides.
        interactive: Whether a person can decide: True, False, or None to ask the page.
        data_dir: The folder of the store; None for `AF_DATA_DIR`, by default `.artifactflow` in the working directory.
            A replay without data_dir uses a temporary folder.
        prompts: A folder with your own prompt files.
        agent_models: Models of single agents, by agent name: a name at the endpoint, or a model object such as
            `af.OpenAIModel` for another endpoint.
        record: A cassette into which every run is recorded; see `mode`.
        replay: A cassette from which every run is played, without a network or a key; see `mode`.
        mode: `auto` to play the runs of the cassette and to record all other runs, or another mode of `af.Settings`.
        middleware: Objects that are called for every model call and tool call, such as `af.DebugMiddleware()`; see
            `af.extend.Middleware`.
        plugins: Your own plugins, as `Plugin` values, or the names of plugins in installed packages.
        flows: Your own flows, as `FlowSpec` values; compiled LangGraph graphs are passed to `register_flow`.
        search: The search engine of `web_search`, or several engines, queried in parallel: a name of `af.Settings`, or
            an object with a coroutine `search(query, limit)` that returns `SearchHit`s; None for `AF_SEARCH`.
        settings: Further settings, by the names of `af.Settings`: `temperature`, `budget`, `prices`, `graph_config`,
            `mcp` for the tools of MCP servers, and others.

    Attributes:
        settings: The effective settings.
        sources: The documents that runs search: add, search, embed and refresh; choose the ranking.
        store: The file: back up, prune, import runs, and withdraw standing decisions.
        created_at: The time of creation, in UTC.

    Errors: `UsageError` for an invalid setting; `StoreError` for a store that cannot be opened; `CassetteError` for a
        cassette that cannot be used.
    """

    _meanings: ClassVar[Mapping[str, str]] = {
        "compare": "af.compare(run, other)",
        "history": "wb.chat(run), or wb.messages_df()",
        "plot": "the functions of af.plots",
        "cost": 'wb.runs_df()["cost_usd"]',
        "reset": "wb.store.prune() or wb.conversation(run).delete()",
        **dict.fromkeys(("question", "query_model", "invoke", "send"), 'wb.ask("...")'),
        **dict.fromkeys(("add_source", "add_documents", "add_files", "index"), 'wb.sources.add("folder")'),
    }

    def __init__(
        self,
        *,
        model: str | Model | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        approvals: ApprovalRule | Reviewer = "ask",
        interactive: bool | None = None,
        data_dir: str | Path | None = None,
        prompts: str | Path | None = None,
        agent_models: Mapping[str, str | Model] | None = None,
        record: str | Path | None = None,
        replay: str | Path | None = None,
        mode: str | None = None,
        middleware: Sequence[Middleware] = (),
        flows: Sequence[FlowSpec] = (),
        plugins: Sequence[Plugin | str] = (),
        search: str | SearchProvider | Sequence[str | SearchProvider] | None = None,
        **settings: Any,
    ) -> None:
        if agent_models is not None and not isinstance(agent_models, Mapping):
            raise UsageError(f"agent_models is {brief(agent_models)}; it must map names of agents to models.")
        for label, passed in (("model", model), *(agent_models or {}).items()):
            if not isinstance(passed, str | None):
                check_model(label if isinstance(label, str) else brief(label), passed)
        settings |= {"record": record, "replay": replay, "mode": mode}
        engines = [] if search is None else list(search) if isinstance(search, list | tuple) else [search]
        settings["search"] = ",".join(name for name in engines if isinstance(name, str)) or None
        providers = [engine for engine in engines if not isinstance(engine, str)]
        if invalid := [engine for engine in providers if not hasattr(engine, "search")]:
            raise UsageError(
                f"search is {brief(invalid[0])}; pass a name or an object with `async search(query, limit)`."
            )
        name, model_object = (model, None) if isinstance(model, str) else (None, model)
        configured = Settings.load(model=name, base_url=base_url, api_key=api_key, data_dir=data_dir, **settings)
        self._remove_folder: Callable[[], object] = lambda: None
        if data_dir is None and configured.cassette_mode in {"replay", "auto", "verify"}:
            folder = Path(tempfile.mkdtemp(prefix="artifactflow-"))
            self._remove_folder = weakref.finalize(self, _remove, folder, os.getpid())
            configured = configured.model_copy(update={"data_dir": folder})
        self.settings = configured
        self._language = configured.language
        self.created_at = datetime.now(UTC)
        check_not_forked(configured.data_dir)
        with ExitStack() as on_error:
            with DeferredInterrupts():  # an interrupt is raised when all objects exist that must be closed
                self._thread = RecordingThread(
                    lambda: make_engine(
                        configured,
                        model=model_object,
                        approvals=approvals,
                        prompts=None if prompts is None else absolute_path(prompts),
                        agent_models=agent_models,
                        middleware=middleware,
                        flows=flows,
                        plugins=load_plugins(plugins),
                        search=providers,
                    )
                )
                on_error.callback(self.close)
                import_in_background(
                    modules_of_first_run([agent.model for agent in self._thread.engine.agents.values()])
                )
                self._display = CellDisplay(self._thread, interactive)
                self.sources = Sources(self._thread, self._display, self.run)
                self.store = WorkbenchStore(self._thread, self.run)
                super().__init__(self.store.path)
                for plugin in self._thread.engine.own_plugins:
                    if plugin.accessor is not None:
                        if hasattr(type(self), plugin.name):
                            raise UsageError(f"wb.{plugin.name} exists: give the plugin {plugin.name!r} another name.")
                        setattr(self, plugin.name, plugin.accessor(self))
                add_completion()
            if file_system := network_file_system(self.data_dir):
                text = (
                    f"data_dir is {str(self.data_dir)!r}, on a network file system ({file_system}): each step of a run "
                    "waits for the server, and only one host at a time can use the store. A local disk is faster and "
                    "safe from lost locks: pass Workbench(data_dir=...) or set AF_DATA_DIR."
                )
                warnings.warn(
                    f"\n{wrap_words(text)}",  # Python writes words of its own before the message
                    stacklevel=1,  # one location, so that Python shows the warning once
                )
            on_error.pop_all()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name not in RENAMED:
                return super().__getattr__(name)  # the raised error suggests a name
            new_name, member = RENAMED[name]
            warnings.warn(f"wb.{name} is called {new_name} now.", DeprecationWarning, stacklevel=2)
            return member(self)

    @property
    def is_open(self) -> bool:
        """Whether `close` was not called yet."""
        return self._thread.is_open

    @property
    def data_dir(self) -> Path:
        """The folder of the store."""
        return self._thread.engine.folder

    @property
    def graph_config(self) -> GraphConfig:
        """The configuration of agents and flows, with its source."""
        return self._thread.engine.graph_config

    @property
    def flows(self) -> tuple[str, ...]:
        """The names of the flows, for `ask`."""
        return tuple(self._thread.engine.flows)

    def close(self) -> None:
        """Close the store and stop the runs; another workbench can resume unfinished runs."""
        self._thread.close()
        self._remove_folder()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        """Refuse copies and pickles."""
        raise UsageError(
            "A Workbench cannot be copied or pickled. Keep the data_dir, and make a Workbench where you need it: "
            f"af.Workbench(data_dir={str(self.settings.data_dir)!r})."
        )

    def __repr__(self) -> str:
        model = self._thread.engine.model
        return f"{type(self).__name__}(model={model_name(model)!r}, data_dir={shown_path(self.data_dir)!r})"

    def _card(self) -> Card:
        return workbench_card(self._thread.engine)

    def _ipython_display_(self) -> None:
        if not (self._thread.is_open and self._display.is_live):
            raise NotImplementedError  # IPython then displays the card
        self.home()._ipython_display_()

    def _display_(self) -> object:
        return self.home()  # marimo displays the returned value

    # --- questions and runs ------------------------------------------------------------------------------------------

    @suggests_arguments
    def ask(
        self,
        question: str,
        *,
        conversation_id: ConversationReference | None = None,
        parent_message_id: ParentId = ParentSelector.ACTIVE,
        flow: str | OwnFlow | None = None,
        budget: BudgetLike = None,
        model: str | None = None,
        depth: Depth = "standard",
        clarify: Clarify | None = None,
        seed: int | None = None,
        graph_config: Mapping[str, Any] | None = None,
        prompts: Mapping[str, str] | None = None,
    ) -> Run:
        """Ask a question; the run continues while other cells compute.

        Args:
            question: The question.
            conversation_id: The conversation to continue, a run in it, or an id; None for a new conversation.
            parent_message_id: The message to continue from, by default the branch's last; None for a new root.
            flow: The name of a flow, or your own graph as `af.adapt(graph)`, which is registered as by
                `register_flow`; None for `research`.
            budget: The limits of the run, such as `af.Budget(tokens=50_000)`; None for the configured budget.
            model: The name of the model for this run, for agents without a model of their own.
            depth: `quick`, `standard` or `deep`; `forecast` estimates time and cost.
            clarify: Whether the lead asks you first: `auto`, `never` or `always`; None for the setting `clarify`.
            seed: The seed of the requests of this run, for endpoints that take one.
            graph_config: Changes to `wb.graph_config` for this run, by node.
            prompts: Prompts for this run by agent: a text, or the name of a prompt file.

        Errors: `UsageError` for an empty question or an unknown flow, `NotFound` for an unknown conversation or
            message, `Conflict` while the branch waits for an earlier answer.
        """
        check_text("question", question)
        conversation = None if conversation_id is None else references.conversation_id(conversation_id)
        flow_name = self._flow_name(flow)
        changes = {"seed": seed, "graph_config": graph_config, "prompts": prompts}
        return start_run(
            self._thread,
            self._display,
            lambda: self._thread.engine.controller.begin(
                question,
                conversation_id=conversation,
                parent_message_id=parent_message_id,
                flow=flow_name,
                budget=budget,
                model=model,
                depth=depth,
                clarify=clarify,
                variation={name: value for name, value in changes.items() if value is not None},
            ),
            flow_name,
        )

    def forecast(self, *, depth: Depth = "deep", flow: str = DEFAULT_FLOW) -> dict[str, float]:
        """Return medians of the completed runs of a depth and flow: `runs` (their number), `seconds`, `tokens`, `usd`.

        Without earlier runs there is only `runs`; `usd` is missing if a price is unknown.
        """
        return read_store(self._store, lambda db: load_forecast(db, flow, depth))

    def run(self, run_id: str) -> Run:
        """Return the handle of a stored run, even of an earlier kernel; the beginning of the run's id is enough.

        Errors: `NotFound` for an unknown id, or for the beginning of several ids.
        """
        full_id = read_store(self._store, lambda db: load_full_id(db, run_id)) if isinstance(run_id, str) else run_id
        return self._handle(self._thread.call(self._thread.engine.runs.get(full_id)))

    def _load(self, frame: Frame, run: RunFilter = None, **filters: Any) -> Any:
        _note_retry(run, f"wb.{frame.name}_df")
        return super()._load(frame, run, **filters)

    def _handle(self, stored: StoredRun) -> Run:
        return Run(self._thread, stored, self._display)

    def runs(self, limit: int = 20, *, unfinished: bool = False) -> RunList:
        """List the newest runs, including runs of earlier kernels, the newest run first.

        Args:
            limit: Maximum number of runs.
            unfinished: List all runs that are running, waiting or abandoned instead, the oldest run first; subruns
                continue with the parent run and are not listed.
        """
        stored = read_store(self._store, load_unfinished if unfinished else lambda db: load_newest(db, limit))
        nothing = "No run is running or waiting." if unfinished else 'No runs yet. Ask with wb.ask("...").'
        return RunList(map(self._handle, stored), nothing)

    def repro(self, *, all: bool = False) -> ReproducibilityReport:  # noqa: A002 - the word for it at the prompt
        """Report which runs are recorded, replayed, live or changed, and how to make the notebook reproducible.

        Args:
            all: Report on all runs of the store, including runs that this workbench did not start.
        """
        engine = self._thread.engine
        controller = engine.controller

        def load(db: sqlite3.Connection) -> ReproducibilityReport:
            run_ids = None if all else controller.started
            return load_report(db, engine.session, engine.folder, run_ids, controller.changes)

        return read_store(self._store, load)

    # --- approvals ---------------------------------------------------------------------------------------------------

    def pending(self) -> RequestList:
        """List the open requests, even of earlier kernels, the oldest request first; a page shows buttons."""
        from artifactflow_nb.widgets.pending import PendingView

        return RequestList(read_store(self._store, load_open_requests), self.panel(PendingView))

    # --- conversations and branches ----------------------------------------------------------------------------------

    def conversations(self, search: str | None = None, *, limit: int = 50, offset: int = 0) -> "ConversationList":
        """List the conversations, the conversation with the latest question first; each can be exported.

        Args:
            search: Words that must all be in the title or in a message; None for all conversations.
            limit: Maximum number of conversations.
            offset: Number of conversations to skip.
        """
        from artifactflow_nb.widgets.conversations.picker import ConversationList

        check_text("search", search or "")
        manager = self._thread.engine.conversations
        stored = self._thread.call(
            manager.search(search, limit, offset) if search else manager.list_conversations(limit, offset)
        )
        handles = (
            ConversationHandle.from_conversation(self._thread, self._display, conversation) for conversation in stored
        )
        return ConversationList(handles, self._thread.language, search)

    def conversation(self, of: ConversationLike | None = None) -> ConversationHandle:
        """Return a conversation, to export a branch: `wb.conversation(run).to_html("talk.html")`.

        Args:
            of: As for `artifacts`; a run or a message selects the branch that ends with the run or message.

        Errors: `NotFound` for an unknown id, or if there is no conversation yet.
        """
        found_id, message_id = self._existing_branch(of)
        conversation = self._thread.call(self._thread.engine.conversations.get(found_id))
        return ConversationHandle.from_conversation(self._thread, self._display, conversation, message_id)

    def artifacts(self, of: ConversationLike | None = None) -> Artifacts:
        """Return the artifacts of a branch by id, to read, edit, compare and export.

        Args:
            of: A run, a conversation, or the id of a run, a message or a conversation. A conversation selects its
                active branch; None selects the conversation with the latest question.

        Errors: `NotFound` for an unknown id, or if there is no conversation yet.
        """
        found_id, message_id = self._existing_branch(of)
        if message_id is None:
            message_id = self._thread.call(self._thread.engine.conversations.get(found_id)).active_message_id
        return Artifacts(Branch(self._thread, found_id, message_id, self._display.is_attended))

    def _existing_branch(self, of: ConversationLike | None) -> tuple[str, str | None]:
        found_id, message_id = self._thread.call(references.branch_ids(self._thread.engine, of))
        if found_id is None:
            raise NotFound("There is no conversation yet. Ask something first: wb.ask(...).")
        return found_id, message_id

    # --- panels ------------------------------------------------------------------------------------------------------

    def home(self) -> "Panel":
        """Show waiting requests, running runs, conversations and the usage of today, as a cell with `wb` does."""
        return self._display.home()

    def chat(
        self,
        conversation: ConversationLike | None = None,
        *,
        flow: str | OwnFlow | None = None,
        budget: BudgetLike = None,
        model: str | None = None,
    ) -> "Panel":
        """Show a conversation to read and to continue: questions, steps, approvals, answers, branches.

        Args:
            conversation: The conversation, a run or message of the conversation, or an id; None for a new conversation.
            flow: The flow of questions that are asked in the panel, as for `ask`.
            budget: The limits of each run; None for the configured budget.
            model: The name of the model; None for the configured model.

        Errors: `NotFound` for an unknown conversation; `UsageError` for an unknown flow or an invalid budget.
        """
        from artifactflow_nb.widgets.chat.view import ChatView

        shown_id = None if conversation is None else self._existing_branch(conversation)[0]
        flow_name = self._flow_name(flow)
        self._thread.engine.flows.require(flow_name)
        limits = None if budget is None else Budget.from_limits(budget)
        return self._display.panel(
            lambda is_live: ChatView(
                self._thread, shown_id, flow=flow_name, budget=limits, model=model, with_metrics=is_live
            )
        )

    def tree(self, conversation: ConversationLike | None = None) -> "Panel":
        """Show the list of conversations and the tree of a conversation, to read, compare and continue branches.

        Args:
            conversation: The conversation to show first, as for `chat`; None for the latest question's conversation.

        Errors: `NotFound` for an unknown conversation.
        """
        from artifactflow_nb.widgets.conversations.view import TreeView

        shown_id = None if conversation is None else self._existing_branch(conversation)[0]
        return self._display.panel(lambda is_live: TreeView(self._thread, shown_id, with_metrics=is_live))

    def artifact_panel(self, of: ConversationLike | None = None) -> "Panel":
        """Show the artifacts of a branch with their versions, to read, edit, compare and download.

        Args:
            of: As for `artifacts`; for a conversation, the panel follows the active branch.

        Errors: `NotFound` for an unknown id.
        """
        from artifactflow_nb.widgets.artifacts.view import ArtifactPanel

        _note_retry(of, "wb.artifact_panel")
        branch = self._thread.call(references.branch_ids(self._thread.engine, of))
        return self._display.panel(lambda is_live: ArtifactPanel(self._thread, *branch, with_dates=is_live))

    def timeline(self, run: Run | str | None = None) -> "Panel":
        """Show the durations of a run's steps, one lane per agent; the timeline grows while the run is unfinished.

        Args:
            run: The run or its id; None for the newest run.

        Errors: `NotFound` for an unknown run, or if there is no run yet.
        """
        from artifactflow_nb.widgets.timeline import TimelineView

        _note_retry(run, "wb.timeline")
        runs = self._thread.engine.runs
        run_id = run.run_id if isinstance(run, Run) else run or self._thread.call(runs.newest_run_id())
        if run_id is None:
            raise NotFound("There is no run yet. Ask something first: wb.ask(...).")
        client = RunClient(self._thread, self._thread.call(runs.get(run_id)))
        return self._display.panel(
            lambda is_live: TimelineView(client, with_metrics=is_live),
            lambda: client.status() in {RUNNING, WAITING, ABANDONED},
        )

    def metrics(self, of: references.MetricsSubject = None) -> "Panel":
        """Show tokens, cached share, times, cost and failures of model calls, by agent, model, flow, day and more.

        A button adds a cell with the call of `metrics_df` that returns the displayed table.

        Args:
            of: A run, an object of a conversation such as a project, or a list of runs or run ids; None for all runs.

        Errors: `NotFound` for an unknown id.
        """
        from IPython.core.getipython import get_ipython

        from artifactflow_nb.widgets.metrics import MetricsView

        _note_retry(of, "wb.metrics")
        filters = references.metrics_filters(of)
        self.metrics_df(**filters)
        variables = getattr(get_ipython(), "user_ns", {})
        name = next((name for name, value in variables.items() if value is self and name[0] != "_"), "wb")
        return self._display.panel(
            lambda _is_live: MetricsView(self._thread, self.metrics_df, f"{name}.metrics_df", filters)
        )

    def panel(self, create_view: "Callable[[Engine], View]") -> "Panel":
        """Show a view of your own, such as a `PolledView`; CONTRIBUTING.md has an example.

        Args:
            create_view: The class of the view, or a function that creates it; called with the engine for each display.
        """
        return self._display.panel(lambda _is_live: create_view(self._thread.engine))

    # --- tools, agents, flows and models -----------------------------------------------------------------------------

    def models(self, *, ask_endpoint: bool = True) -> list[str]:
        """List the models that the endpoint offers, for `model=`, `AF_MODEL` and `agent_models`.

        Args:
            ask_endpoint: False to list instead the models that are configured, have a price or were used before.
        """
        engine = self._thread.engine
        return self._thread.call(engine.list_models()) if ask_endpoint else read_store(self._store, engine.known_models)

    @overload
    def tool(self, handler: Callable[..., Any] | Tool, /, *, agent: str | None = None, **options: Any) -> Tool: ...

    @overload
    def tool(
        self, handler: None = None, /, *, agent: str | None = None, **options: Any
    ) -> Callable[[Callable[..., Any]], Tool]: ...

    def tool(
        self, handler: Callable[..., Any] | Tool | None = None, /, *, agent: str | None = None, **options: Any
    ) -> Tool | Callable[[Callable[..., Any]], Tool]:
        """Give a tool to an agent: `@wb.tool`, or `@wb.tool(permission="confirm")`, above a typed function.

        Args:
            handler: The function, see `af.tool` for the requirements, or a tool that `af.tool` has made.
            agent: The agent that may call the tool; None for the lead.
            options: As for `af.tool`: `name`, `permission`, `category`, `idempotent`, `timeout_s` and others.

        Errors: `UsageError` as for `af.tool`, for the name of a different built-in tool, and for an unknown agent.
        """

        def register(handler: Any) -> Tool:
            entry = handler if isinstance(handler, Tool) and not options else tool(**options)(handler)
            self._thread.engine.register_tool(entry, agent=agent)
            return entry

        return register if handler is None else register(handler)

    def register_agent(self, agent: AgentLike) -> None:
        """Add an agent for delegations: a configuration, or an object or a class that extends `af.extend.BaseAgent`.

        The prompt of a configuration is the field `prompt`, or the file `<name>.md` in the folder passed as `prompts`.
        """
        self._thread.engine.register_agent(agent)

    def register_flow(self, name: str, flow: OwnFlow) -> str:
        """Register your own graph, adapted with `af.adapt`, as a flow for `ask`; return the name of the flow.

        A graph that was registered under the name before is replaced for new runs and for questions that are asked
        again. An unfinished run continues with the graph with which it started; in a new kernel, with the graph that is
        registered under the name.

        Errors: `UsageError` for something other than an adapted graph, or for the name of a `FlowSpec`.
        """
        self._thread.engine.flows.register(name, flow)
        return name

    def _flow_name(self, flow: str | OwnFlow | None) -> str:
        """Return the name of a flow, by default the flow of questions; a graph is registered first."""
        if flow is None:
            return DEFAULT_FLOW
        return flow if isinstance(flow, str) else self._thread.engine.flows.add(flow)


def _remove(folder: Path, pid: int) -> None:
    """Remove a temporary folder in the process that created it; a forked child runs the same cleanup."""
    if pid == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)
