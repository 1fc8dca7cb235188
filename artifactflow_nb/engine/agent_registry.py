"""The agents of an engine, each with its tools: the agents of the flows, and the agents that users register.

An agent's model is the first of: the entry in `agent_models`, the model of the node or of the agent, the configured
model. An agent's temperature is the first of: the value configured for the node, the setting for all agents, the
packaged value. The packaged value is sent only to models that are known to take a temperature.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from artifactflow_nb.agents.base import AgentConfig, AgentLike, BaseAgent, as_agent
from artifactflow_nb.agents.lead import LeadAgent
from artifactflow_nb.agents.prompts import PromptLibrary
from artifactflow_nb.agents.reviewer import REVIEWER, Reviewer
from artifactflow_nb.agents.settings import AgentNode, ConfigNode, GraphConfig
from artifactflow_nb.engine.flow_registry import load_graph_config
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.flows.base import FlowSpec
from artifactflow_nb.flows.services import Services
from artifactflow_nb.models.base import Model
from artifactflow_nb.tools.base import Tool
from artifactflow_nb.tools.lead import ask_person, call_subagent
from artifactflow_nb.tools.registry import ToolRegistry, select_tools


class AgentRegistry:
    """Builds agents and assigns their tools.

    `agent_models` has models by the names of agents; all other agents have `model`. `config` applies to new runs.

    Attributes:
        agents: All agents of new runs, by name; the lead agent is the first.
        subagents: The agents to which other agents can delegate.

    Errors: `UsageError` if the configuration gives an agent a tool of other agents.
    """

    def __init__(
        self,
        flows: Mapping[str, FlowSpec],
        config: GraphConfig,
        *,
        settings: Settings,
        model: Model,
        agent_models: Mapping[str, str | Model],
        prompts: PromptLibrary,
        tools: ToolRegistry,
        reviewer: Reviewer | None = None,
    ) -> None:
        self._reviewer = reviewer
        self.flows = flows
        self._config = config
        self._settings = settings
        self._model = model
        self._agent_models = agent_models
        self._prompts = prompts
        self._tools = tools
        self._own: list[BaseAgent] = []
        self._offered: dict[str, list[str]] = {}
        self._mcp_tools: Mapping[str, Sequence[str]] = {}
        self._checked: tuple[Any, ...] = ()
        self._flow_agents = {agent.config.name: agent for flow in flows.values() for agent in flow.agents}
        self._owners = {tool.name: agent.config.name for agent in self._flow_agents.values() for tool in agent.tools}
        self._flow_of_tool = {tool.name: flow for flow in flows.values() for tool in flow.all_tools}
        self.agents = self._build(config)
        self.subagents = {name: self.agents[name] for name, agent in self._flow_agents.items() if agent.is_subagent}

    @property
    def lead(self) -> LeadAgent:
        """The agent that gets new tools and sub-agents by default."""
        lead = next(iter(self.agents.values()))
        assert isinstance(lead, LeadAgent)  # noqa: S101 - the flows say so
        return lead

    @property
    def flow_models(self) -> set[Model]:
        """The models of built-in agents that belong to a flow, use no endpoint and cost nothing."""
        models = (agent.config.model for agent in self._flow_agents.values())
        return {model for model in models if model is not None and not isinstance(model, str)}

    def _build(self, config: GraphConfig) -> dict[str, BaseAgent]:
        """Build all agents for a configuration."""
        agents: dict[str, BaseAgent] = {}
        for agent in self._flow_agents.values():
            resolved = agent.for_config(config) if agent.for_config else agent
            name = resolved.config.name
            agent_config = self._configured(with_node(resolved.config, config.nodes.get(name)), config)
            tools = self._tools_of(agent_config, config)
            agents[name] = agent.agent_class(agent_config, tools, self._model, self._prompts)
        for own in self._own:
            agents[own.config.name] = self._bind(own, config)
        if self._reviewer is not None:
            reviewer = self._configured(self._reviewer.agent_config, config)
            agents[REVIEWER] = BaseAgent(reviewer, (), self._model, self._prompts)
        subagents = [name for name, agent in self._flow_agents.items() if agent.is_subagent]
        for name in (*subagents, *(own.config.name for own in self._own)):
            for other in agents.values():
                if isinstance(other, LeadAgent):
                    other.register_subagent(agents[name].config)
        return agents

    def services_for(self, services: Services, settings: Mapping[str, Any]) -> Services:
        """Return the services with agents as configured in the settings with which a run started."""
        if settings.get("graph_config", {}) == services.graph_config.changed:  # the usual case
            return services
        config = load_graph_config(settings.get("graph_config"), flows=self.flows)
        agents = self._build(config)
        subagents = {name: agents[name] for name in self.subagents}
        return replace(services, agents=agents, subagents=subagents, graph_config=config)

    def agents_of_flow(self, name: str, config: GraphConfig | None = None) -> Mapping[str, BaseAgent]:
        """Return the agents that take part in a flow, by name; the first agent answers.

        `config` is the configuration of a run; None for the configuration of new runs.
        """
        is_other = config is not None and config.changed != self._config.changed
        agents = self._build(config) if config is not None and is_other else self.agents
        names = [agent.config.name for agent in self.flows[name].agents]
        if any(isinstance(agents[name], LeadAgent) for name in names):
            names += [name for name in self.subagents if name not in names]
        names += [REVIEWER] if self._reviewer is not None else []
        return {name: agents[name] for name in names}

    def _bind(self, agent: BaseAgent, graph: GraphConfig) -> BaseAgent:
        """Return a copy of a user's agent with its settings from the configuration, and with its tools."""
        config = self._configured(agent.config, graph)
        return agent.bind(config, self._tools_of(config, graph), self._model, self._prompts)

    def register_agent(self, source: AgentLike) -> BaseAgent:
        """Add and return an agent for delegations; `UsageError` for an invalid agent or a name that is in use."""
        own = as_agent(source)
        name = own.config.name
        if name in self.agents:
            raise UsageError(f"There is an agent {brief(name)} already. Choose another name.")
        agent = self._bind(own, self._config)
        if not own.has_own_prompt:
            self._prompts.check(own.config.prompt_source)
        self._check_tools(name, own.config.required_tools)
        for other in self.agents.values():
            if isinstance(other, LeadAgent):
                other.register_subagent(agent.config)
        self.agents[name] = self.subagents[name] = agent
        self._own.append(own)
        return own

    def register_tool(self, entry: Tool, agent: str) -> None:
        """Add a tool for the agent of this name, and for agents with a configuration that includes the tool."""
        self._tools.register(entry)
        offered = self._offered.setdefault(agent, [])
        if entry.name not in offered:
            offered.append(entry.name)
        self._offer()

    def replace_tools(
        self, before: Sequence[Tool], tools: Sequence[Tool], offered: Mapping[str, Sequence[str]]
    ) -> None:
        """Replace the tools of MCP servers.

        `offered` maps the name of an agent to the names of tools that the agent gets in addition to configured tools.
        """
        self._tools.replace_tools(before, tools)
        self._mcp_tools = offered
        self._offer()

    def agent(self, name: str) -> BaseAgent:
        """Return the agent of this name; `UsageError` with the known names for an unknown name."""
        if name not in self.agents:
            raise UsageError(f"There is no agent {brief(name)}. Known: {', '.join(self.agents)}.")
        return self.agents[name]

    def _offer(self) -> None:
        """Give each agent the tools that are registered now."""
        for agent in self.agents.values():
            if (tools := self._tools_of(agent.config, self._config)) != agent.tools:
                agent.set_tools(tools)

    def check(self, config: GraphConfig, flow: str | None) -> None:
        """Raise `UsageError` for tools in a configuration that are not registered.

        With `flow`, only agents of the flow are checked: other agents may use tools of servers that are not started.
        """
        checked = (config, flow, *self._tools)
        if checked == self._checked:  # the usual case
            return
        for name, node in config.nodes.items():
            if name in (self.agents if flow is None else self.agents_of_flow(flow)):
                self._check_tools(name, getattr(node, "tools", ()))
        self._checked = checked

    def _check_tools(self, agent: str, specs: Sequence[str]) -> None:
        try:
            select_tools(specs, [entry for entry in self._tools if not self._refusal(entry.name, agent)])
        except UsageError as error:
            raise UsageError(f"The tools of the agent {agent!r} are invalid: {error}") from None

    def _tools_of(self, config: AgentConfig, graph: GraphConfig) -> tuple[Tool, ...]:
        """Return the configured tools of an agent, then the agent's own tools, then tools that were added later."""
        flow_agent = self._flow_agents.get(config.name)
        if flow_agent is not None and flow_agent.for_config is not None:
            flow_agent = flow_agent.for_config(graph)
        own = [entry.name for entry in flow_agent.tools] if flow_agent else []
        allowed = [entry for entry in self._tools if entry.name in own or not self._refusal(entry.name, config.name)]
        configured = select_tools((*config.required_tools, *own), allowed, skip_unknown=True)
        added = self._tools.select([*self._offered.get(config.name, ()), *self._mcp_tools.get(config.name, ())])

        def tools_of(agent: str) -> tuple[Tool, ...]:
            return self._tools_of(with_node(self._flow_agents[agent].config, graph.nodes.get(agent)), graph)

        tools = {entry.name: entry for entry in (*configured, *added)}
        for name in tools.keys() & self._flow_of_tool.keys():
            if describe := self._flow_of_tool[name].describe_tool:
                tools[name] = describe(tools[name], tools_of)
        return tuple(tools.values())

    def _configured(self, config: AgentConfig, graph: GraphConfig) -> AgentConfig:
        """Return the agent with the values of the settings; `UsageError` for a tool of other agents."""
        for name in config.required_tools:
            if problem := self._refusal(name, config.name):
                raise UsageError(f"{config.name!r} is configured with {name}: {problem}. Remove it.")
        model = self._agent_models.get(config.name, config.model)
        configured = self._settings.tool_protocol
        supported = (self._model if model is None or isinstance(model, str) else model).tool_protocols
        protocol = config.tool_protocol or (configured if configured in supported else "auto")
        settings, changed = self._settings, graph.changed.get(config.name, {})
        temperature, is_optional = config.temperature, config.temperature_is_optional and "temperature" not in changed
        if settings.temperature is not None and "temperature" not in changed:
            temperature, is_optional = settings.temperature, False
        return replace(
            config,
            temperature=temperature,
            temperature_is_optional=is_optional,
            reasoning_effort=config.reasoning_effort or settings.reasoning_effort,
            extra_body={**settings.extra_body, **config.extra_body},
            model=model,
            tool_protocol=protocol,
        )

    def _refusal(self, tool: str, agent: str) -> str:
        """Return the reason why the configuration cannot give an agent this tool, or an empty text."""
        flow = self._flow_of_tool.get(tool)
        if flow is not None and tool in self._owners:
            return f"the {flow.name} flow gives this tool to {self._owners[tool]} alone"
        if flow is not None and all(agent != other.config.name for other in flow.agents):
            return f"the {flow.name} flow gives this tool to agents of the flow alone"
        flow_agent = self._flow_agents.get(agent)
        can_delegate = flow_agent is not None and issubclass(flow_agent.agent_class, LeadAgent)
        reasons = {call_subagent.name: "only the lead can delegate", ask_person.name: "only the lead asks the person"}
        return "" if can_delegate else reasons.get(tool, "")


def with_node(config: AgentConfig, node: ConfigNode | None) -> AgentConfig:
    """Return the agent with the values of the agent's configuration node, if there is a node."""
    names = AgentNode.model_fields
    values = {name: value for name, value in node or () if name in names and (name != "prompt" or value)}
    if "tools" in values:
        values["required_tools"] = values.pop("tools")
    return replace(config, **values)
