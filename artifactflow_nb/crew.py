"""The agents of an engine: each is made of what it is, what is configured for it, and the tools that it is offered.

::

    what it is    agents/lead.py, planning.py, ...        what it may do    graph_config.yaml
    an agent of one's own: both in its `AgentConfig`

What is said for one agent goes before what is said for all: `agent_models`, then the node's or the agent's own model,
then the configured one; a temperature that is configured for a node, then that of the settings, then what the agent has
by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from artifactflow_nb.agents.base import AgentConfig, BaseAgent
from artifactflow_nb.agents.composing import (
    COMPOSER,
    EDITOR,
    EVALUATOR,
    GENERATOR,
    GRADER,
    OUTLINER,
    WRITER,
    ComposerAgent,
    GeneratorAgent,
)
from artifactflow_nb.agents.crawl import CRAWL
from artifactflow_nb.agents.lead import LEAD, LeadAgent
from artifactflow_nb.agents.planning import AGENT, AGENT_WITHOUT_PLANS, EXECUTOR, REPLANNER, SUMMARIZER
from artifactflow_nb.agents.prompts import PromptLibrary
from artifactflow_nb.agents.search import SEARCH
from artifactflow_nb.errors import UsageError
from artifactflow_nb.flows.research import ExtendableGraph
from artifactflow_nb.flows.services import Services
from artifactflow_nb.flows.state import COMPOSE, PLAN, RESEARCH
from artifactflow_nb.graph_config import AgentNode, AskedNode, GraphConfig
from artifactflow_nb.models.base import Model
from artifactflow_nb.models.recorded import RecordedModel
from artifactflow_nb.plans import PLAN_CREATE
from artifactflow_nb.projects import GRADE_FIELD, REVIEW
from artifactflow_nb.recordings.configured import Configured
from artifactflow_nb.settings import Settings
from artifactflow_nb.store.runs import StoredRun
from artifactflow_nb.tools.base import Tool
from artifactflow_nb.tools.block_texts import PROPOSE
from artifactflow_nb.tools.composing import COMPOSE_TOOLS
from artifactflow_nb.tools.delegate import call_subagent
from artifactflow_nb.tools.evaluation import GRADE
from artifactflow_nb.tools.outline import PROPOSE_OUTLINE
from artifactflow_nb.tools.plan import PLAN_DECIDE, REPORT_FAILURE, naming
from artifactflow_nb.tools.registry import ToolRegistry, select_tools

_OWN: Mapping[str, str] = {
    PLAN_CREATE: AGENT.name,
    PLAN_DECIDE: REPLANNER.name,
    REPORT_FAILURE: EXECUTOR.name,
    PROPOSE: EDITOR.name,
    PROPOSE_OUTLINE: OUTLINER.name,
    GRADE_FIELD: EVALUATOR.name,
    GRADE: GRADER.name,
    REVIEW: GENERATOR.name,
}
"""Tools that are a part's own: it alone is offered them, whatever is configured."""

_DELEGATE = (LEAD.name, AGENT.name)

_COMPOSING = (COMPOSER.name, WRITER.name, EDITOR.name, OUTLINER.name, GRADER.name, EVALUATOR.name, GENERATOR.name)
_CONFIGURED = tuple(
    one.name for one in (LEAD, SEARCH, CRAWL, AGENT, EXECUTOR, COMPOSER, WRITER, EDITOR, OUTLINER, GRADER)
)
"""The agents whose tools stand in the configuration."""

_OF_BLOCKS = frozenset(entry.name for entry in COMPOSE_TOOLS)
"""Tools that work with the blocks of a project."""


class Crew:
    """Makes agents, and keeps what was registered: agents of a user's own, and which tools were offered to whom.

    Args:
        config: What is configured for the agents of new runs.
        settings: What is configured for all agents.
        model: Who takes their turns.
        agent_models: Models for single agents, by the agent's name.
        recorded: How agents asked when they were recorded, where runs are only played.
        prompts: Where prompt files are read.
        tools: The tools that are known.

    Attributes:
        research: The agents of the research flow, as new runs have them.
        planning: Those of the plan flow, by name.
        composing: Those of the compose flow, by name.

    Errors: `UsageError` for an agent that is configured to have a tool which it cannot have.
    """

    def __init__(
        self,
        config: GraphConfig,
        *,
        settings: Settings,
        model: Model,
        agent_models: Mapping[str, str | Model],
        recorded: Mapping[str, Configured],
        prompts: PromptLibrary,
        tools: ToolRegistry,
    ) -> None:
        self._config = config
        self._settings = settings
        self._model = model
        self._agent_models = agent_models
        self._recorded = recorded
        self._prompts = prompts
        self._tools = tools
        self._own: list[AgentConfig] = []
        self._offered: dict[str, list[str]] = {}
        self._lent: Mapping[str, Sequence[str]] = {}
        self._passed: tuple[Any, ...] = ()
        self.research = self.research_of(config)
        self.planning = self.planning_of(config, self.research)
        self.composing = self.composing_of(config)

    def research_of(self, config: GraphConfig) -> ExtendableGraph:
        """The agents of the research flow as a run with this configuration has them."""
        lead = self._configured(with_node(LEAD, config.lead_agent), config)
        graph = ExtendableGraph(LeadAgent(lead, self._tools_of(lead, config), self._model, self._prompts))
        built_in = with_node(SEARCH, config.search_agent), with_node(CRAWL, config.crawl_agent)
        for other in (*built_in, *self._own):
            graph.register_agent(self._made(other, config))
        return graph

    def planning_of(self, config: GraphConfig, research: ExtendableGraph) -> dict[str, BaseAgent]:
        """The agents of the plan flow as a run with this configuration has them; the first one delegates."""
        answering = AGENT if config.planner.enabled else AGENT_WITHOUT_PLANS
        agent = self._configured(with_node(answering, config.agent), config)
        answers = LeadAgent(agent, self._tools_of(agent, config), self._model, self._prompts)
        for other in research.agents.values():
            answers.register_subagent(other.config)
        asked = ((REPLANNER, config.replanner), (SUMMARIZER, config.summarizer))
        others = (with_node(EXECUTOR, config.executor), *(with_model(one, node) for one, node in asked))
        return {one.config.name: one for one in (answers, *(self._made(other, config) for other in others))}

    def composing_of(self, config: GraphConfig) -> dict[str, BaseAgent]:
        """The agents of the compose flow as a run with this configuration has them; the first one answers."""
        composer = self._configured(with_node(COMPOSER, config.composer), config)
        answers = ComposerAgent(composer, self._tools_of(composer, config), self._model, self._prompts)
        known = [self._configured(one, config) for one in (EVALUATOR, GENERATOR)]
        orders = [GeneratorAgent(one, self._tools_of(one, config), self._model, self._prompts) for one in known]
        nodes = ((WRITER, config.writer), (EDITOR, config.editor), (OUTLINER, config.outliner), (GRADER, config.grader))
        others = [with_node(other, node) for other, node in nodes]
        return {one.config.name: one for one in (answers, *(self._made(other, config) for other in others), *orders)}

    def services_for(self, services: Services, run: StoredRun) -> Services:
        """With the agents as the run has them: what was configured when it was begun holds until it ends."""
        if run.settings.get("graph_config", {}) == services.graph_config.changed:  # as for most runs
            return services
        config = config_of(run)
        research = self.research_of(config)
        parts = {
            research.lead.config.name: research.lead,
            **self.planning_of(config, research),
            **self.composing_of(config),
        }
        return replace(services, lead=research.lead, parts=parts, agents=research.agents, graph_config=config)

    def _made(self, config: AgentConfig, graph: GraphConfig) -> BaseAgent:
        """An agent that does not delegate."""
        config = self._configured(config, graph)
        return BaseAgent(config, self._tools_of(config, graph), self._model, self._prompts)

    def of_flow(self, flow: str, config: GraphConfig | None = None) -> Mapping[str, BaseAgent]:
        """The agents that take part in a flow, by name; the first is the one that answers.

        They are as a run has them that was begun with this configuration; with None, as new runs have them.
        """
        is_other = config is not None and config.changed != self._config.changed
        if flow == COMPOSE:
            return self.composing_of(config) if config is not None and is_other else self.composing
        research, planning = self.research, self.planning
        if config is not None and is_other:
            research = self.research_of(config)
            planning = self.planning_of(config, research)
        return {**(planning if flow == PLAN else {research.lead.config.name: research.lead}), **research.agents}

    def register_agent(self, config: AgentConfig) -> None:
        """Add an agent that the lead can delegate to; `UsageError` if it cannot be, or its name is taken."""
        for flow, agents in ((PLAN, self.planning), (COMPOSE, self.composing)):
            if config.name in agents:
                raise UsageError(
                    f"An agent cannot be called {config.name!r}: the {flow} flow has one of this name. "
                    "Choose another name."
                )
        made = self._made(config, self._config)
        self._prompts.check(config.prompt or config.name)
        self._check_tools(config.name, config.required_tools)
        self.research.register_agent(made)
        for other in self.planning.values():
            if isinstance(other, LeadAgent):
                other.register_subagent(made.config)
        self._own.append(config)

    def register_tool(self, entry: Tool, agent: str) -> None:
        """Add a tool and offer it to the agent of this name, and to those that are configured to have it."""
        self._tools.register(entry)
        offered = self._offered.setdefault(agent, [])
        if entry.name not in offered:
            offered.append(entry.name)
        self._offer()

    def exchange_tools(
        self, before: Sequence[Tool], tools: Sequence[Tool], offered: Mapping[str, Sequence[str]]
    ) -> None:
        """Put tools in the place of those that came so before; what was registered is offered as it was.

        Args:
            before: Those that go.
            tools: Those that come.
            offered: To which agents they are offered, beside those that are configured to have them.
        """
        self._tools.exchange(before, tools)
        self._lent = offered
        self._offer()

    @property
    def agents(self) -> Mapping[str, BaseAgent]:
        """All agents by name, the one that leads research first."""
        return {**self.of_flow(RESEARCH), **self.of_flow(PLAN), **self.of_flow(COMPOSE)}

    def agent(self, name: str) -> BaseAgent:
        """The agent of this name; `UsageError` with those that are known if there is none."""
        if name not in self.agents:
            raise UsageError(f"There is no agent {name!r}; known are: {', '.join(self.agents)}.")
        return self.agents[name]

    def _offer(self) -> None:
        """Offer each agent what it is to have by now."""
        for other in self.agents.values():
            if (tools := self._tools_of(other.config, self._config)) != other.tools:
                other.offer(tools)

    def check(self, config: GraphConfig, flow: str | None) -> None:
        """Refuse a configuration that names tools which are not known by now; `UsageError` with those that are.

        If a flow is named, only its agents are looked at: tools of others may be of servers that are not started.
        """
        asked = (config, flow, *self._tools)
        if asked == self._passed:  # as for most runs
            return
        for name in _CONFIGURED:
            if flow is None or name in self.of_flow(flow):
                self._check_tools(name, getattr(config, name).tools)
        self._passed = asked

    def _check_tools(self, agent: str, specs: Sequence[str]) -> None:
        try:
            select_tools(specs, [entry for entry in self._tools if not _refused(entry.name, agent)])
        except UsageError as error:
            raise UsageError(f"The tools of {agent} cannot be: {error}") from None

    def _tools_of(self, config: AgentConfig, graph: GraphConfig) -> tuple[Tool, ...]:
        """What an agent is offered: what it is configured to have, so far as it is known by now, then what was added.

        What is a part's own is offered to it and to nobody else, whatever is meant by `all`.
        """
        own = [name for name, part in _OWN.items() if part == config.name]
        if not graph.planner.enabled:
            own = [name for name in own if name != PLAN_CREATE]
        known = [entry for entry in self._tools if entry.name in own or not _refused(entry.name, config.name)]
        configured = select_tools((*config.required_tools, *own), known, skip_unknown=True)
        added = self._tools.select([*self._offered.get(config.name, ()), *self._lent.get(config.name, ())])
        offered = {entry.name: entry for entry in (*configured, *added)}
        for name in {PLAN_CREATE, PLAN_DECIDE} & offered.keys():
            steps = self._tools_of(with_node(EXECUTOR, graph.executor), graph)
            offered[name] = naming(offered[name], tuple(entry.name for entry in steps))
        return tuple(offered.values())

    def _configured(self, config: AgentConfig, graph: GraphConfig) -> AgentConfig:
        """The agent as the settings have it, or, where they do not say and runs are only played, as it was recorded.

        Errors: `UsageError` for a tool that it cannot have.
        """
        for name in config.required_tools:
            if problem := _refused(name, config.name):
                raise UsageError(f"{config.name!r} asks for {name}: {problem}. Leave it out.")
        model = self._agent_models.get(config.name, config.model)
        wanted = self._settings.tool_protocol
        if (recorded := self._recorded.get(config.name)) is not None:
            if not isinstance(model, str):
                is_own = model is not None or recorded.is_own
                model = RecordedModel(recorded.model, recorded.provider) if is_own else None
            if "tool_protocol" not in self._settings.model_fields_set:
                wanted = recorded.tool_protocol
        known = (self._model if model is None or isinstance(model, str) else model).tool_protocols
        protocol = config.tool_protocol or (wanted if wanted in known else None)
        return replace(config, temperature=self._temperature(config, graph), model=model, tool_protocol=protocol)

    def _temperature(self, config: AgentConfig, graph: GraphConfig) -> float | None:
        if "temperature" in graph.changed.get(config.name, {}):
            return config.temperature
        if self._settings.temperature is not None:
            return self._settings.temperature
        recorded = self._recorded.get(config.name)
        return config.temperature if recorded is None else recorded.temperature


def _refused(tool: str, agent: str) -> str:
    """Why an agent cannot be configured to have a tool; empty if it can."""
    if tool in _OWN:
        flow = "compose" if tool in _OF_BLOCKS else "plan"
        return f"the {flow} flow itself offers it, to {_OWN[tool]} alone"
    if tool in _OF_BLOCKS and agent not in _COMPOSING:
        return "it is for the agents of the compose flow alone"
    return "only the lead can delegate" if tool == call_subagent.name and agent not in _DELEGATE else ""


def with_model(config: AgentConfig, node: AskedNode) -> AgentConfig:
    """An agent with the model that is configured for its node."""
    return replace(config, model=node.model, temperature=node.temperature)


def config_of(run: StoredRun) -> GraphConfig:
    """What was configured when a run was begun."""
    return GraphConfig.load(run.settings.get("graph_config"))


def with_node(config: AgentConfig, node: AgentNode) -> AgentConfig:
    """An agent with what is configured for its node."""
    return replace(
        config,
        required_tools=node.tools,
        max_tool_rounds=node.max_iterations,
        model=node.model,
        temperature=node.temperature,
    )
