"""The engine opens, wires and closes the rooms: store, model, tools, agents, flows, controller. Headless and async.

Everything in it lives on the event loop that opened it.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Self

from artifactflow_nb.agents.base import AgentConfig, BaseAgent
from artifactflow_nb.agents.lead import LEAD
from artifactflow_nb.agents.prompts import PromptLibrary
from artifactflow_nb.ambient import Clock, Ids, RandomIds, SystemClock
from artifactflow_nb.approvals import ApprovalPolicy, Policy
from artifactflow_nb.budget import Price
from artifactflow_nb.checkpoints import Checkpoints
from artifactflow_nb.controller import ExecutionController
from artifactflow_nb.crew import Crew
from artifactflow_nb.drive import Rooms
from artifactflow_nb.errors import UsageError
from artifactflow_nb.flow_registry import FlowRegistry
from artifactflow_nb.flows.services import Services
from artifactflow_nb.flows.watch import Watchers
from artifactflow_nb.graph_config import GraphConfig, flat
from artifactflow_nb.makers import keys_of, make_deck, make_model, make_search
from artifactflow_nb.manifest import Manifest, Manifests
from artifactflow_nb.mcp_bench import McpBench
from artifactflow_nb.middleware import Middleware
from artifactflow_nb.models.base import Model, model_name
from artifactflow_nb.models.in_order import InOrderModel
from artifactflow_nb.models.offline import OfflineModel
from artifactflow_nb.models.recorded import RecordedModel
from artifactflow_nb.recordings.by_hand import RecordedHand
from artifactflow_nb.recordings.configured import Configured
from artifactflow_nb.recordings.deck import Deck
from artifactflow_nb.recordings.identity import Ask
from artifactflow_nb.recordings.secrets import Masker
from artifactflow_nb.run_choices import RunChoices
from artifactflow_nb.settings import Settings
from artifactflow_nb.store.artifacts import ArtifactManager
from artifactflow_nb.store.belongings import BelongingStore
from artifactflow_nb.store.block_jobs import BlockJobStore
from artifactflow_nb.store.blocks import BlockStore
from artifactflow_nb.store.calls import CallStore
from artifactflow_nb.store.conversations import ConversationManager
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.faults import fault
from artifactflow_nb.store.ownership import Ownership
from artifactflow_nb.store.plans import PlanStore
from artifactflow_nb.store.requests import RequestStore
from artifactflow_nb.store.runs import RunStore, StoredRun
from artifactflow_nb.store.source_values import Added, Progress
from artifactflow_nb.store.sources import SourceManager
from artifactflow_nb.store.subruns import SubrunStore
from artifactflow_nb.text.cards import Card, Code, Fold, Shown, Table
from artifactflow_nb.tools.artifacts import ARTIFACT_TOOLS
from artifactflow_nb.tools.base import Tool
from artifactflow_nb.tools.composing import COMPOSE_TOOLS
from artifactflow_nb.tools.delegate import call_subagent
from artifactflow_nb.tools.fetch import Fetcher
from artifactflow_nb.tools.plan import PLAN_TOOLS
from artifactflow_nb.tools.registry import ToolRegistry
from artifactflow_nb.tools.web import LocalSearch, SearchProvider, web_fetch, web_search

FREE = dict.fromkeys((OfflineModel.default_model, InOrderModel.default_model), Price(input=0, output=0))
STORE_FILE = "store.db"
CHECKPOINT_FILE = "checkpoints.db"
LOOKED_THROUGH = 1000
"""Files of a folder that a run looks through when it begins: about 20 ms."""


class Engine(Shown):
    """A workbench without a face.

    Args:
        settings: Where data lives, which endpoint, who stands in for the person.
        model: Who takes the agents' turns; None for what the settings name.
        approvals: Who answers before a person is asked; see `ApprovalPolicy`.
        prompts: A folder with prompt files of one's own, or None.
        agent_models: Models for single agents, by the agent's name: a name at the endpoint, or a model object.
        clock: Where time comes from.
        ids: Where ids come from.
        deck: What runs are played from and recorded into; None for what the settings name.
        middleware: Who is told of every call, in this order.

    Attributes:
        graph_config: What is configured for agents and flows; runs keep what they were begun with.
        controller: Runs questions; there once the engine is open.
        flows: The flows by name; graphs of a user's own are registered there.
        sources: The local sources.
        watchers: The middleware.
        mcp: The MCP servers, with what they offer.
    """

    controller: ExecutionController

    def __init__(
        self,
        settings: Settings,
        *,
        model: Model | None = None,
        approvals: Policy = "ask",
        prompts: Path | None = None,
        agent_models: Mapping[str, str | Model] | None = None,
        clock: Clock | None = None,
        ids: Ids | None = None,
        deck: Deck | None = None,
        middleware: Sequence[Middleware] = (),
    ) -> None:
        self.settings = settings
        self.folder = settings.data_dir
        self.model_keys = keys_of([model, *(agent_models or {}).values()])
        self.deck = deck or make_deck(settings, self.model_keys)
        self.graph_config = GraphConfig.load(settings.graph_config)
        self._recorded = self.deck.configured()
        self.model = self._recorded_model() if self.deck.is_strict else model or make_model(settings)
        self.policy = ApprovalPolicy(approvals, settings.approvals)
        self.clock = clock or SystemClock()
        self.ids = ids or RandomIds()
        self.database = Database(self.folder / STORE_FILE)
        self.sources = SourceManager(self.database, self.clock)
        self._search = make_search(settings)
        self._fetcher = Fetcher(settings.allowed_hosts)
        self.artifacts = ArtifactManager(self.database, self.clock, RecordedHand(self.deck, self.database))
        self.plans = PlanStore(self.database, self.artifacts)
        self.blocks = BlockStore(self.database, self.artifacts, self._mask)
        self.block_jobs = BlockJobStore(self.database)
        self.belongings = BelongingStore(self.database, self.artifacts, self._mask)
        self.conversations = ConversationManager(self.database, self.clock, self.ids)
        self.runs = RunStore(self.database)
        self.requests = RequestStore(self.database)
        self.tools = ToolRegistry((*ARTIFACT_TOOLS, call_subagent, web_search, web_fetch, *PLAN_TOOLS, *COMPOSE_TOOLS))
        self._prices = {**FREE, **settings.prices}
        self._prompts = PromptLibrary(prompts)
        self._manifests = Manifests(self._prompts, self.database)
        self._agent_models = dict(agent_models or {})
        self.watchers = Watchers(middleware)
        self._ownership = Ownership(self.folder, self.ids.new("eng"))
        self._added: dict[str, Added] = {}  # by folder, in the order in which they were added
        self._reference: str | None = None
        self._indexing = asyncio.Lock()
        self._checkpoints = Checkpoints(self.folder / CHECKPOINT_FILE)
        self.flows = FlowRegistry(self._checkpoints)
        self._crew = Crew(
            self.graph_config,
            settings=settings,
            model=self.model,
            agent_models=self._agent_models,
            recorded=self._recorded,
            prompts=self._prompts,
            tools=self.tools,
        )
        self.research = self._crew.research
        self.mcp = McpBench(settings.mcp, self.tools, self._crew, is_played=self.deck.is_strict)

    def __repr__(self) -> str:
        return f"Engine(model={model_name(self.model)!r}, folder={str(self.folder)!r})"

    def _card(self) -> Card:
        agents = [(name, Code(", ".join(agent.tool_names)), agent.model_name) for name, agent in self.agents.items()]
        folds = [Fold("Agents", Table(("name", "tools", "model"), agents), is_open=True)]
        return Card("Engine", model_name(self.model), [("data", Code(str(self.folder)))], folds)

    def _recorded_model(self) -> Model:
        """The model that is never asked, by the name that the settings give or that was recorded."""
        known = [*self._recorded.values(), Configured("recorded", "recorded", None, "xml")]
        first = self._recorded.get(LEAD.name, known[0])
        return RecordedModel(self.settings.model or first.model, first.provider, [one.model for one in known[:-1]])

    async def open(self) -> Self:
        """Open the store and get ready to run; `StoreError` with the path if that fails."""
        try:
            self._ownership.open()
        except OSError as error:
            raise fault(self.folder, f"The data folder {self.folder} cannot be used", error) from error
        try:
            await self.database.open()
            await self._checkpoints.open()
            await self._checkpoints.sweep([run.thread_id for run in await self.runs.unfinished()])
            self.controller = ExecutionController(self._rooms(), self.folder, self._manifest_of_a_run)
        except BaseException:
            await self.aclose()
            raise
        return self

    def _mask(self, text: str) -> str:
        """A text without the secrets that are known now, and what has the form of one."""
        return Masker.of(self.settings, os.environ, self.model_keys).text(text)

    def _rooms(self) -> Rooms:
        services = Services(
            clock=self.clock,
            ids=self.ids,
            conversations=self.conversations,
            artifacts=self.artifacts,
            runs=self.runs,
            calls=CallStore(self.database),
            requests=self.requests,
            tools=self.tools,
            lead=self.research.lead,
            plans=self.plans,
            blocks=self.blocks,
            block_jobs=self.block_jobs,
            belongings=self.belongings,
            subruns=SubrunStore(self.database),
            parts=self.agents,
            agents=self.research.agents,
            graph_config=self.graph_config,
            tool_services=self._tool_services,
            prices=self._prices,
            watchers=self.watchers,
            mask=self._mask,
        )
        self.flows.open(self.research)
        choices = RunChoices(
            self.settings,
            self.graph_config,
            self.flows,
            self._crew,
            self.tools,
            self.mcp,
            self.policy,
            self.model,
            self._agent_models,
            self._prices,
            self.deck,
        )
        return Rooms(
            services,
            self.flows,
            self._checkpoints,
            self.database,
            self.policy,
            self._ownership,
            choices.of_run,
            self._sources_of_a_run,
            choices.check_budget,
            choices.check_resumed,
            self.deck,
            partial(self._crew.services_for, services),
            lambda: self.controller,
            self.mcp.as_recorded,
        )

    def _tool_services(self, run: StoredRun) -> Mapping[type, Any]:
        return {
            ArtifactManager: self.artifacts,
            PlanStore: self.plans,
            BlockStore: self.blocks,
            BlockJobStore: self.block_jobs,
            BelongingStore: self.belongings,
            RequestStore: self.requests,
            SourceManager: self.sources,
            SearchProvider: self._search or LocalSearch(self.sources, run.settings.get("sources")),
            Fetcher: self._fetcher,
        }

    def register_tool(self, entry: Tool, *, agent: str | None = None) -> None:
        """Add a tool and offer it to an agent, the lead unless another is named; again for a further agent.

        It is also offered to the agents that are configured to have it, by its name, its category or `all`.
        A tool that was added before may be defined anew, as a cell that is run again does: it takes the other's place.

        Errors: `UsageError` for something that is no tool, the name of a built-in one, or an unknown agent.
        """
        if not isinstance(entry, Tool):
            raise UsageError(f"{entry!r} is no tool. Make one of a typed function with @af.tool.")
        self._crew.register_tool(entry, self._crew.agent(agent or self.research.lead.config.name).config.name)

    def register_agent(self, config: AgentConfig) -> None:
        """Add an agent that the lead can delegate to; only the lead delegates."""
        self._crew.register_agent(config)

    @property
    def searched(self) -> tuple[str, ...]:
        """The folders whose files runs search; empty for the language reference."""
        return tuple(self._added)

    @property
    def prices(self) -> Mapping[str, Price]:
        """What tokens cost, by model."""
        return self._prices

    @property
    def agents(self) -> Mapping[str, BaseAgent]:
        """All agents by name, the lead first."""
        return self._crew.agents

    async def list_models(self) -> list[str]:
        """The names of the models that can be asked for, at every endpoint that an agent uses; each once."""
        asked = [self.model, *(agent.model for agent in self.agents.values())]
        endpoints = dict.fromkeys(model for model in asked if not isinstance(model, InOrderModel))
        return list(dict.fromkeys([name for endpoint in endpoints for name in await endpoint.list_models()]))

    async def add_sources(self, path: str | Path, progress: Progress | None = None) -> Added:
        """Index a folder or a file; from now on runs search what was added, and no longer the language reference.

        `progress` is told on this loop, after each batch of files: how many are done, of how many, the last one's path.
        """
        added = await self.sources.add_folder(path, progress)
        self._added[added.folder] = added
        return added

    async def _sources_of_a_run(self) -> list[str]:
        """The scope of a run. Small folders are looked through for files that are new, changed or gone.

        In a large one only the files that a search finds or that are read are looked at, until it is added again.
        """
        if not self._added:
            async with self._indexing:  # many runs may begin at once in a new store
                if self._reference is None:
                    self._reference = (await self.sources.add_python_reference()).source_id
            return [self._reference]
        for folder, before in list(self._added.items()):
            if len(before.sources) <= LOOKED_THROUGH:
                with suppress(UsageError):  # it is gone for now: what is read of it will say so
                    self._added[folder] = await self.sources.add_folder(folder)
        return list(dict.fromkeys(name for added in self._added.values() for name in added.scope))

    async def _manifest_of_a_run(self, asked: Ask) -> Manifest:
        return await self.manifest(asked.flow, asked.settings.get("model"))

    async def manifest(self, flow: str, model: str | None) -> Manifest:
        """What a run of this flow, with this model instead of the configured one, would be made with now."""
        sources = await self._manifests.sources(self._added.values(), self._reference)
        told = {"flow": flow, "mode": self.deck.mode, "search": self.settings.search, "sources": sources}
        if changed := dict(flat(self.graph_config.changed)):
            told["graph_config"] = changed
        if own := self.flows.own_choices(flow):
            return self._manifests.of({}, None, **told, **own)
        return self._manifests.of(self._crew.of_flow(flow), model, **told, **self.mcp.manifest())

    async def aclose(self) -> None:
        """Close everything, whatever of it fails; runs that were going on can be resumed later."""
        async with AsyncExitStack() as stack:
            stack.callback(self._ownership.close)
            stack.callback(self.deck.close)
            stack.push_async_callback(self.database.close)
            stack.push_async_callback(self._checkpoints.close)
            stack.push_async_callback(self.mcp.aclose)
            for model in dict.fromkeys([self.model, *(agent.model for agent in self.agents.values())]):
                stack.push_async_callback(model.aclose)
            if hasattr(self, "controller"):
                stack.push_async_callback(self.controller.aclose)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_exc: object) -> None:
        await self.aclose()
