"""The engine opens, wires and closes the rooms: store, model, tools, agents, flows, controller. Headless and async.

All methods of an engine run on the event loop that opened the engine.
"""

import asyncio
import os
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from artifactflow_nb.agents.base import AgentLike, BaseAgent
from artifactflow_nb.agents.lead import LeadAgent
from artifactflow_nb.agents.prompts import PromptLibrary
from artifactflow_nb.agents.reviewer import Reviewer
from artifactflow_nb.agents.settings import flatten_nodes
from artifactflow_nb.core.approvals import ApprovalPolicy, ApprovalRule
from artifactflow_nb.core.budget import Price
from artifactflow_nb.core.clock_ids import Clock, Ids, RandomIds, SystemClock, whole_ms
from artifactflow_nb.core.messages import COMPUTED_PROVIDER
from artifactflow_nb.core.middleware import Middleware
from artifactflow_nb.core.runs import SEARCH_SCOPE_SETTING
from artifactflow_nb.core.text.format import count
from artifactflow_nb.engine.agent_registry import AgentRegistry
from artifactflow_nb.engine.checkpoints import Checkpoints
from artifactflow_nb.engine.cited_sources import SourceReview, review_sources
from artifactflow_nb.engine.controller import ExecutionController
from artifactflow_nb.engine.factories import api_keys_of, known_values, make_embedder, make_model, make_search
from artifactflow_nb.engine.flow_registry import FlowRegistry, load_graph_config
from artifactflow_nb.engine.folder_file import STORE_FILE, check_links, has_store, remember_store, store_problem
from artifactflow_nb.engine.manifest import Manifest, ManifestBuilder, source_label
from artifactflow_nb.engine.mcp_toolset import McpToolset
from artifactflow_nb.engine.plugin import BUILT_IN_PLUGINS, Plugin, add_plugin
from artifactflow_nb.engine.run_config import RunConfigBuilder
from artifactflow_nb.engine.settings import LOCAL, Settings
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.flows.base import FlowSpec
from artifactflow_nb.flows.known_secrets import SecretLookup
from artifactflow_nb.flows.middleware import MiddlewareStack
from artifactflow_nb.flows.services import Services
from artifactflow_nb.models.base import Model, model_name
from artifactflow_nb.models.offline.model import OfflineModel
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.models.prices import PriceTable
from artifactflow_nb.sources.changes import SourceOfRun
from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.sources.values import IndexingResult, ProgressCallback, SectionHit
from artifactflow_nb.sources.vector_search import RankingCheck, VectorSearch
from artifactflow_nb.store.approvals import ApprovalStore
from artifactflow_nb.store.artifacts import ArtifactManager
from artifactflow_nb.store.calls import CallStore
from artifactflow_nb.store.conversations import ConversationManager
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.faults import store_error
from artifactflow_nb.store.ownership import RunLocks
from artifactflow_nb.store.plans import PlanStore
from artifactflow_nb.store.runs import RunStore, StoredRun
from artifactflow_nb.store.storage import load_models
from artifactflow_nb.tools.artifacts import ARTIFACT_TOOLS
from artifactflow_nb.tools.base import Tool
from artifactflow_nb.tools.lead import ask_person, call_subagent
from artifactflow_nb.tools.registry import ToolRegistry
from artifactflow_nb.tools.web.fetch import Fetcher
from artifactflow_nb.tools.web.scoring import LocalSearch
from artifactflow_nb.tools.web.services import SERVICES
from artifactflow_nb.tools.web.tools import CombinedSearch, SearchProvider, SearchScope, web_fetch, web_search

T = TypeVar("T")

CHECKPOINT_FILE = "checkpoints.db"
MODELS_TIMEOUT_S = 1.0
"""Longest time in seconds that a page waits for the list of models of an endpoint."""
MAX_RUNNING_RUNS = 256
"""The most new runs, and the most continuing runs, that are driven at once, however many files a process may open."""

_FILES_PER_RUN = 4
"""The open files of a usual run: connections of a model call and of two parallel jobs, and one in reserve."""
MAX_RESCANNED_FILES = 1000
"""Largest number of files of a folder that is scanned at the start of a run: about 20 ms."""


def max_running_runs() -> int:
    """Return the most new runs, and the most continuing runs, that together use half of the file descriptors."""
    if sys.platform == "win32":  # Windows has no limit of open files
        return MAX_RUNNING_RUNS
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return MAX_RUNNING_RUNS
    return max(1, min(MAX_RUNNING_RUNS, limit // 2 // _FILES_PER_RUN // 2))


class Engine:
    """A workbench without a user interface.

    Args:
        settings: The data folder, the endpoint, the approvals and other settings.
        model: The model of the agents; None for the configured model.
        approvals: The policy that decides before a person is asked; see `ApprovalPolicy`. A `Reviewer` is asked before
            the default policy.
        reviewer: The model that is asked before a policy, or None.
        prompts: A folder with prompt files that override the packaged prompts, or None.
        agent_models: Models for single agents, by the agent's name: a name at the endpoint, or a model object.
        clock: The source of time.
        ids: The source of ids.
        middleware: User code that is called before and after every call, in this order.
        flows: Flow specs in addition to the built-in flows.
        plugins: Plugins in addition to the built-in plugins.
        search: Search engines of `web_search`, as objects. They are added to the search engines that the settings name,
            or replace the local sources if the settings name none.

    Attributes:
        graph_config: The configuration of agents and flows for new runs; each run keeps its configuration.
        controller: Runs questions; set by `open`.
        flows: The flows by name, with the adapted graphs of the user.
        sources: The local sources.
        mcp: The MCP servers and the tools that they offer.
        prices: The prices of tokens by model.
        search_name: The names of the search engines.
        secrets: The secrets that are known by their values and masked in texts that enter a run.
        reviewer: The model that decides on calls before a person is asked, or None.
        plugins: The plugins by name, the built-in plugins first.
        own_plugins: The argument `plugins`.
    """

    controller: ExecutionController
    mode = "live"
    """The mode that the rows of new runs name."""
    recorded_settings: Mapping[str, Any] | None = None
    """The settings of the recorded run that a verification executes again; None outside of a verification."""

    def __init__(
        self,
        settings: Settings,
        *,
        model: Model | None = None,
        approvals: ApprovalRule | Reviewer = "ask",
        reviewer: Reviewer | None = None,
        prompts: Path | None = None,
        agent_models: Mapping[str, str | Model] | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        middleware: Sequence[Middleware] = (),
        flows: Sequence[FlowSpec] = (),
        plugins: Sequence[Plugin] = (),
        search: Sequence[SearchProvider] = (),
    ) -> None:
        self.own_plugins = tuple(map(add_plugin, plugins))
        self.plugins = {**BUILT_IN_PLUGINS, **{plugin.name: plugin for plugin in self.own_plugins}}
        self.settings = settings
        self.folder = settings.data_dir
        if isinstance(approvals, Reviewer):
            reviewer, approvals = approvals, "ask"
        self.reviewer = reviewer
        keys = api_keys_of([model, *(agent_models or {}).values(), reviewer and reviewer.model])
        self.secrets = SecretLookup(partial(known_values, settings, os.environ, keys))
        self.checkpoints = Checkpoints(self.folder / CHECKPOINT_FILE, self.secrets)
        of_plugins = [flow for plugin in self.plugins.values() for flow in plugin.flows()]
        self.flows = FlowRegistry(self.checkpoints, flows, of_plugins)
        self.graph_config = load_graph_config(settings.graph_config, self.flows.specs)
        self.model = model or make_model(settings)
        self.policy = ApprovalPolicy(approvals, settings.approvals)
        self.clock = clock or SystemClock()
        self._opened_at = whole_ms(self.clock.now())
        self.ids = ids or RandomIds()
        self.database = Database(self.folder / STORE_FILE)
        self.sources = SourceManager(self.database, self.clock, self.secrets.mask, make_embedder(settings))
        names = settings.search if "search" in settings.model_fields_set or not search else ()
        self._search = {name: None if name == LOCAL else make_search(name, settings) for name in names}
        self._search |= {type(engine).__name__: engine for engine in search}
        self.search_name = ", ".join(self._search)
        self._fetcher = Fetcher(settings.allowed_hosts, proxy=settings.proxy)
        self.artifacts = ArtifactManager(self.database, self.clock, mask=self.secrets.mask)
        self.plans = PlanStore(self.database, self.artifacts)
        self._of_plugins: dict[type, Any] = {}
        self.conversations = ConversationManager(self.database, self.clock, self.ids, self.secrets.mask)
        self.runs = RunStore(self.database)
        self.approvals = ApprovalStore(self.database)
        flow_tools = [tool for flow in self.flows.specs.values() for tool in flow.all_tools]
        self.tools = ToolRegistry((*ARTIFACT_TOOLS, call_subagent, ask_person, web_search, web_fetch, *flow_tools))
        self._prompts = PromptLibrary(prompts)
        self._manifests = ManifestBuilder(self._prompts, self.database)
        self.agent_models = dict(agent_models or {})
        self.middleware = MiddlewareStack(middleware)
        self.run_locks = RunLocks(self.folder, self.ids.new("eng"))
        self.places_of_new_runs = asyncio.Semaphore(max_running_runs())
        self.places_of_continuing_runs = asyncio.Semaphore(max_running_runs())
        self.run_config = RunConfigBuilder(self)
        self._chosen: dict[str, IndexingResult] = {}  # by folder, in the order in which they were added
        self._stored: dict[str, IndexingResult] = {}  # all folders of the store, searched if none was chosen
        self._stored_token: object = None
        self._reference: str | None = None
        self._indexing = asyncio.Lock()
        self._offered: asyncio.Task[list[str]] | None = None
        self.agent_registry = AgentRegistry(
            self.flows.specs,
            self.graph_config,
            settings=settings,
            model=self.model,
            agent_models=self.agent_models,
            prompts=self._prompts,
            tools=self.tools,
            reviewer=reviewer,
        )
        free = [OfflineModel.default_model, *(model.default_model for model in self.agent_registry.flow_models)]
        own = {**dict.fromkeys(free, Price(input=0, output=0)), **settings.prices}
        self.prices = PriceTable(own, self.model.endpoint if isinstance(self.model, OpenAIModel) else None)
        for plugin in self.plugins.values():
            self._of_plugins |= plugin.services(self)
            self.sources.readers |= plugin.readers
            self.artifacts.on_written += filter(None, [plugin.on_artifact_written])
            for entry in plugin.tools:
                self.register_tool(entry)
        self.mcp = McpToolset(settings.mcp, self.tools, self.agent_registry, mask=self.secrets.mask)

    def __repr__(self) -> str:
        return f"Engine(model={model_name(self.model)!r}, folder={str(self.folder)!r})"

    async def open(self) -> Self:
        """Open the store, the checkpoints and the controller; `StoreError` with the path after a failure.

        Errors: `UsageError` for a data folder that is, or contains, a link out of the folder around the data folder.
        """
        try:
            check_links(self.folder)
            is_new = not has_store(self.folder)
            self.run_locks.open()
        except UsageError:
            raise
        except (OSError, ValueError) as error:  # a ValueError for characters that no path can have
            self.run_locks.close()
            raise store_error(self.folder, f"The data folder {self.folder} cannot be used", error) from error
        try:
            await self.database.open()
            if is_new:
                remember_store(self.folder)
            self.approvals.counts_since = self.grants_count_since
            await self.checkpoints.open([run.thread_id for run in await self.runs.unfinished()])
            await self.load_sources()
            self.services = Services(
                clock=self.clock,
                ids=self.ids,
                conversations=self.conversations,
                artifacts=self.artifacts,
                runs=self.runs,
                calls=CallStore(self.database),
                approvals=self.approvals,
                tools=self.tools,
                plans=self.plans,
                of_plugins=self._of_plugins,
                agents=self.agent_registry.agents,
                subagents=self.agent_registry.subagents,
                graph_config=self.graph_config,
                tool_services=self._tool_services,
                prices=self.prices,
                middleware=self.middleware,
                secrets=self.secrets,
                reviewer=self.reviewer,
            )
            self.controller = self._new_controller()
        except BaseException:
            await self.aclose()
            raise
        return self

    def grants_count_since(self) -> datetime | None:
        """Return the time from which standing decisions count; None, so that all count, in a store of this account."""
        return self._opened_at if store_problem(self.folder) else None

    def _new_controller(self) -> ExecutionController:
        return ExecutionController(self)

    def service(self, kind: type[T]) -> T:
        """Return the object of this class that a plugin provides."""
        return self.services.service(kind)

    def _tool_services(self, run: StoredRun) -> Mapping[type, Any]:
        scope = run.settings.get("sources")  # the sources that the run started with
        local, withheld = LocalSearch(self.sources, scope), [name[1:] for name in scope or () if name.startswith("-")]
        engines = {name: engine or local for name, engine in self._search.items()}
        return {
            ArtifactManager: self.artifacts,
            PlanStore: self.plans,
            **self._of_plugins,
            ApprovalStore: self.approvals,
            SourceManager: self.sources,
            SearchProvider: CombinedSearch(engines) if len(engines) > 1 else next(iter(engines.values())),
            SearchScope: SearchScope(
                run.settings.get(SEARCH_SCOPE_SETTING, "the sources"), self._search_action(), frozenset(withheld)
            ),
            Fetcher: self._fetcher,
        }

    def _search_action(self) -> str:
        """Return the action of a search for approval requests, or an empty string for a search engine of the person."""
        places = ["your sources"] * (LOCAL in self._search) + ["the web"] * any(
            name in SERVICES for name in self._search
        )
        is_known = {LOCAL, *SERVICES}.issuperset(self._search)
        return f"search {' and '.join(places)}" if is_known else ""

    def search_scope(self) -> str:
        """Return the scope of searches of a run that starts now, as a noun phrase for prompts."""
        sizes = {source_label(added).rstrip("/"): len(added.sources) for added in self._searched.values()}
        own = [f"{label} ({count(size, 'file')})" for label, size in sizes.items()]
        names = [name if name not in SERVICES else SERVICES[name].label for name in self._search if name != LOCAL]
        if LOCAL in self._search:
            reference = "the Python language reference only (the person has added no sources of their own)"
            names.insert(0, f"the person's own sources: {', '.join(own)}" if own else reference)
        return "; ".join(names)

    def register_tool(self, entry: Tool, *, agent: str | None = None) -> None:
        """Add a tool and give it to an agent, by default the lead.

        Register the tool again to give the tool to another agent. Agents with a configuration that includes the tool by
        name, category or `all` get the tool too. The tool replaces an earlier tool of the same name.

        Errors: `UsageError` for a value that is not a tool, the name of a different built-in tool, or an unknown agent.
        """
        if not isinstance(entry, Tool):
            raise UsageError(f"{brief(entry)} is not a tool. Decorate a typed function with @af.tool.")
        self.agent_registry.register_tool(entry, self.agent_registry.agent(agent or self.lead.config.name).config.name)

    def register_agent(self, agent: AgentLike) -> BaseAgent:
        """Add and return an agent to which the lead can delegate; the agent cannot delegate.

        `Workbench.register_agent` describes the arguments and errors.
        """
        return self.agent_registry.register_agent(agent)

    @property
    def searched_folders(self) -> Mapping[str, int]:
        """The folders that runs search, each with its number of files; empty if runs search the language reference."""
        return {folder: len(result.sources) for folder, result in self._searched.items()}

    @property
    def other_folders(self) -> Mapping[str, int]:
        """The folders that runs do not search because other folders were selected, each with its number of files."""
        return {folder: len(result.sources) for folder, result in self._stored.items() if folder not in self._searched}

    @property
    def _searched(self) -> dict[str, IndexingResult]:
        """The searched folders that exist; all searched folders if none exists, so that searches report the problem."""
        folders = self._chosen or self._stored
        present = filter(os.path.exists, folders)
        return {folder: folders[folder] for folder in present} or folders

    async def load_sources(self) -> None:
        """Load the folders of the store if another notebook has changed them."""
        if (token := await self.sources.token()) != self._stored_token:
            self._stored = {result.folder: result for result in await self.sources.folders()}
            self._stored_token = token

    @property
    def agents(self) -> Mapping[str, BaseAgent]:
        """All agents by name, the lead first."""
        return self.agent_registry.agents

    @property
    def lead(self) -> LeadAgent:
        """The agent that gets tools and sub-agents by default."""
        return self.agent_registry.lead

    async def list_models(self) -> list[str]:
        """List the names of the models at all endpoints of the agents, without duplicates."""
        models = [self.model, *(agent.model for agent in self.agents.values())]
        endpoints = dict.fromkeys(model for model in models if model not in self.agent_registry.flow_models)
        return list(dict.fromkeys([name for endpoint in endpoints for name in await endpoint.list_models()]))

    def known_models(self, db: sqlite3.Connection) -> list[str]:
        """Return the models that are configured, have a price or were used; `list_models` asks the endpoint.

        A used model is listed only if an agent has the same provider: an endpoint does not know the offline model.
        """
        agents = [agent for agent in self.agents.values() if agent.model.provider != COMPUTED_PROVIDER]
        used = load_models(db, {agent.model.provider for agent in agents})
        return list(dict.fromkeys([*(agent.model_name for agent in agents), *self.settings.prices, *used]))

    async def offered_models(self) -> list[str]:
        """Return the models of `list_models`, without the models of an endpoint that does not answer in time.

        The result is cached unless an endpoint failed.
        """
        listing = self._offered = self._offered or asyncio.create_task(self._list_offered())
        done, _ = await asyncio.wait([listing], timeout=MODELS_TIMEOUT_S)
        return listing.result() if done else []

    async def _list_offered(self) -> list[str]:
        try:
            return await self.list_models()
        except Exception:  # noqa: BLE001 - of an endpoint that has no list or cannot be reached
            self._offered = None
            return []

    async def add_sources(self, path: str | Path, progress: ProgressCallback | None = None) -> IndexingResult:
        """Index and select a folder or a file: from now on, runs search only selected folders and files.

        `progress` is called on this loop after each batch of files, with the number of indexed files, the number of all
        files, and the path of the last file.
        """
        self.secrets.refresh()
        added = await self.sources.add_folder(path, progress)
        self._chosen[added.folder] = added
        await self.load_sources()
        return added

    async def attach_source(self, path: Path) -> None:
        """Index a file, and add the file to the sources that runs search."""
        self.secrets.refresh()
        attached = await self.sources.add_folder(path)
        if self._chosen:
            self._chosen[attached.folder] = attached
        await self.load_sources()

    async def search_sources(self, query: str, limit: int) -> list[SectionHit]:
        """Search the sources that a run would search now."""
        return await self.sources.search(query, limit, await self.sources_of_a_run())

    async def review_sources(self, used: Sequence[SourceOfRun], *, with_pages: bool) -> SourceReview:
        """Compare the sources of a run with the current texts; web pages are compared only with `with_pages`."""
        return await review_sources(used, self.sources, self._fetcher if with_pages else None)

    async def check_retrieval(self, n_queries: int) -> list[RankingCheck]:
        """Measure whether vectors improve searches in the sources that a run would search now."""
        return await self.vectors.check(n_queries, await self.sources_of_a_run())

    @property
    def vectors(self) -> VectorSearch:
        """The vectors of the sources; `UsageError` without an embedding model."""
        if self.sources.vectors is None:
            raise UsageError(
                "There is no embedding model. Pass embedding_model= with the name of a model at the endpoint, or set "
                "AF_EMBEDDING_MODEL."
            )
        return self.sources.vectors

    async def sources_of_a_run(self) -> list[str]:
        """Return the ids of the sources for a new run. Small folders are scanned for new, changed and deleted files.

        In a large folder, only files that a search finds or a tool reads are checked, until the folder is added again.
        """
        await self.load_sources()
        folders = self._chosen or self._stored
        for folder, before in list(self._searched.items()):
            if len(before.sources) <= MAX_RESCANNED_FILES:
                with suppress(UsageError):  # the folder is missing, which reading from the folder reports
                    folders[folder] = await self.sources.add_folder(folder)
        if folders:
            await self.load_sources()
        if not self._searched:
            async with self._indexing:  # many runs may start at once in a new store
                if self._reference is None:
                    self._reference = (await self.sources.add_python_reference()).source_id
            return [self._reference]
        return self.source_scope

    @property
    def source_scope(self) -> list[str]:
        """The ids and prefixes of the sources that runs search; empty if runs search the language reference."""
        return list(dict.fromkeys(name for added in self._searched.values() for name in added.scope))

    async def manifest(self, flow: str, model: str | None) -> Manifest:
        """Build the manifest of a run that starts now, from the run's flow and the chosen model."""
        sources = await self._manifests.sources(self._searched.values(), self._reference)
        common = {"flow": flow, "mode": self.mode, "search": self.search_name, "sources": sources}
        if changed := dict(flatten_nodes(self.graph_config.changed)):
            common["graph_config"] = changed
        if own := self.flows.graph_settings(flow):
            return self._manifests.build({}, None, **common, **own)
        return self._manifests.build(self.agent_registry.agents_of_flow(flow), model, **common, **self.mcp.manifest())

    async def aclose(self) -> None:
        """Close the engine, even if a step of the closing fails; unfinished runs can be resumed later."""
        async with AsyncExitStack() as stack:
            stack.callback(self.run_locks.close)
            stack.push_async_callback(self.database.close)
            stack.push_async_callback(self.checkpoints.close)
            stack.push_async_callback(self.mcp.aclose)
            for service in self._of_plugins.values():
                if hasattr(service, "aclose"):
                    stack.push_async_callback(service.aclose)
            if self.sources.vectors is not None:
                stack.push_async_callback(self.sources.vectors.aclose)
            if self._offered is not None:
                stack.callback(self._offered.cancel)
            for model in dict.fromkeys([self.model, *(agent.model for agent in self.agents.values())]):
                stack.push_async_callback(model.aclose)
            if hasattr(self, "controller"):
                stack.push_async_callback(self.controller.aclose)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()
