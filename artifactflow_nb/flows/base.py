"""A flow: the order of the steps from a question to its answer, with its agents, tools and checks."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel

from artifactflow_nb.agents.base import AgentConfig, BaseAgent, PromptContext
from artifactflow_nb.agents.settings import AgentNode, ConfigNode, GraphConfig
from artifactflow_nb.core.approvals import ApprovalPolicy
from artifactflow_nb.core.events import StreamEvent
from artifactflow_nb.core.runs import Depth
from artifactflow_nb.store.database import DatabaseWork
from artifactflow_nb.store.runs import StoredRun
from artifactflow_nb.tools.base import Tool, ToolContext

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from artifactflow_nb.flows.loop import LoopGraph
    from artifactflow_nb.flows.services import RunContext, Services


@dataclass(frozen=True, slots=True)
class FlowOutcome:
    """The state in which a flow stopped.

    Attributes:
        gates: The gates at which the flow waits, each with the ids of the requests that must all be decided; empty if
            the flow is done.
        response: The answer; empty while the flow waits.
        notices: Sentences about the answer for the person, such as "This answer names no source."
        answer_outcome: Outcome of the answer; None if the flow reports none.
    """

    gates: Sequence[Sequence[str]] = ()
    response: str = ""
    notices: Sequence[str] = ()
    answer_outcome: str | None = None


class Flow(Protocol):
    """A flow; one object serves all runs of an engine."""

    async def advance(self, ctx: "RunContext", *, has_checkpoint: bool) -> FlowOutcome:
        """Continue a run until it is done or waits for decisions, which are read from the store.

        Args:
            ctx: The run.
            has_checkpoint: Whether the engine's checkpoints hold the run's position. Without a checkpoint the flow
                starts, and repeats no step that is in the store.

        Any error ends the run.
        """


class OwnFlow(ABC):
    """A flow that a caller passes with a question: a graph with models of its own, as returned by `af.adapt`.

    Attributes:
        name: The flow's name.
        has_explicit_name: Whether the caller chose the name; otherwise another flow may have the same name.
    """

    name: str
    has_explicit_name: bool

    @property
    @abstractmethod
    def fingerprint(self) -> Mapping[str, Sequence[str]]:
        """The names of the graph's nodes, edges, tools and models, which identify the graph."""

    @abstractmethod
    def flow(self, saver: "Callable[[], BaseCheckpointSaver[str]]") -> Flow:
        """Return the flow for an engine; `saver` returns the checkpointer of the engine."""


@dataclass(frozen=True, slots=True)
class FlowAgent:
    """An agent of a flow.

    Attributes:
        config: The configuration. Tools, rounds, model and temperature are the packaged values of the agent's node in
            `GraphConfig`. A model object belongs to the flow: it cannot be configured, uses no endpoint, costs nothing.
        tools: Tools that only this agent has, whatever the configuration. `config.required_tools` names further tools
            of the flow and the engine, which a graph configuration can replace.
        is_subagent: Whether agents that delegate can call the agent.
        for_config: Returns the agent for a configuration; None if the agent does not depend on the configuration.
    """

    config: AgentConfig
    agent_class: type[BaseAgent] = BaseAgent
    tools: tuple[Tool, ...] = ()
    is_subagent: bool = False
    for_config: "Callable[[GraphConfig], FlowAgent] | None" = None


@dataclass(frozen=True, slots=True)
class FlowQuestion:
    """A question before its run is created.

    Attributes:
        conversation_id: The conversation; None for a new conversation.
        parent_message_id: The message that the question continues; None for a first message.
        work: The task of a run without a conversation; None for a chat.
        folder: The data folder of the engine.
        recorded: The settings of the recorded run that a verification executes again; None for a new run.
    """

    text: str
    conversation_id: str | None
    parent_message_id: str | None
    work: Mapping[str, Any] | None
    folder: Path
    recorded: Mapping[str, Any] | None = None


AbortWrites = DatabaseWork[list[StreamEvent]]
"""Writes the end of a run's unfinished work in the transaction that ends the run, and returns the events."""


@dataclass(frozen=True, slots=True)
class FlowSpec:
    """A flow, described by its additions to the agent loop. Pass a flow of your own as `Workbench(flows=[...])`.

    Attributes:
        name: The name to pass as `wb.ask(flow=...)`.
        graph: Returns the compiled graph, the same object each time; see `build_loop`.
        agents: The agents. The first agent answers, unless `main_agent` names another agent.
        tools: Tools for agents of this flow alone: an agent has the tools that its `config.required_tools` names. The
            tools of a single agent are in `FlowAgent.tools`.
        config: Further nodes of `GraphConfig`, with their packaged values. A node with the name of an agent replaces
            the node that is made from the agent.
        main_agent: Returns the name of the agent that answers a run; None for the first agent.
        prompt_context: Returns the context of a prompt for an agent's name and a job's id. If the function
            or its result is None, the context has the artifacts and the plan of the conversation.
        tool_services: Returns the services that the flow's tools get from their context, by class.
        describe_tool: Adapts a tool of an agent to the tools of the other agents, which are passed by agent name.
        check_question: Checks a question before the run is stored, and returns settings to store with the run; raises
            `UsageError` to refuse the question.
        check_edit: Returns the reason why a call with edited parameters cannot be executed, or an empty text.
        abort: Called when a run fails or is cancelled, with the reason.
        depths: The changes to the configuration of a run, by depth, in the form of `GraphConfig`; the configuration of
            the person takes precedence. Empty for a flow without depths.
        cites_sources: Whether answers or artifacts should name sources; a notice reports an answer without sources.
    """

    name: str
    graph: "Callable[[], LoopGraph]"
    agents: tuple[FlowAgent, ...]
    tools: tuple[Tool, ...] = ()
    config: Mapping[str, ConfigNode] = field(default_factory=dict)
    main_agent: Callable[[StoredRun], str] | None = None
    prompt_context: "Callable[[RunContext, str, str], Awaitable[PromptContext | None]] | None" = None
    tool_services: "Callable[[Services, ApprovalPolicy, StoredRun], Mapping[type, Any]] | None" = None
    describe_tool: Callable[[Tool, Callable[[str], Sequence[Tool]]], Tool] | None = None
    check_question: "Callable[[Services, FlowQuestion], Awaitable[Mapping[str, Any]]] | None" = None
    check_edit: Callable[[ToolContext, BaseModel], Awaitable[str]] | None = None
    abort: "Callable[[RunContext, str], Awaitable[AbortWrites]] | None" = None
    depths: Mapping[Depth, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    cites_sources: bool = False

    @property
    def all_tools(self) -> tuple[Tool, ...]:
        """The tools that come with the flow and with its agents."""
        return (*self.tools, *(tool for agent in self.agents for tool in agent.tools))

    @property
    def names_in_use(self) -> tuple[str, ...]:
        """The names that no other flow can use: the names of the flow, of its agents and of its nodes."""
        return (self.name, *(agent.config.name for agent in self.agents), *self.config)

    @property
    def nodes(self) -> dict[str, ConfigNode]:
        """The nodes of the flow in `GraphConfig`, with their packaged values."""
        nodes: dict[str, ConfigNode] = {
            config.name: AgentNode(
                max_tool_rounds=config.max_tool_rounds,
                tools=config.required_tools,
                model=config.model,
                temperature=config.temperature,
                reasoning_effort=config.reasoning_effort,
                extra_body=dict(config.extra_body),
            )
            for config in (agent.config for agent in self.agents)
            if config.name not in self.config and (config.model is None or isinstance(config.model, str))
        }
        return nodes | dict(self.config)
