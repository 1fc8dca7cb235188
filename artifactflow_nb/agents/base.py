"""An agent is a configuration, a prompt and the reading of its model's replies; it keeps nothing between turns."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self, cast

from artifactflow_nb.agents.prompts import PromptLibrary
from artifactflow_nb.agents.protocols import PROTOCOLS, CallProtocol
from artifactflow_nb.block_order import Order
from artifactflow_nb.blocks import Block, BlockTree
from artifactflow_nb.errors import UsageError
from artifactflow_nb.messages import Message, ToolCall, ToolProtocol, Usage
from artifactflow_nb.models.base import Model, ModelEvent, ModelReply, ModelRequest, model_name
from artifactflow_nb.personas import Persona
from artifactflow_nb.projects import ProjectHead
from artifactflow_nb.skills import Skill
from artifactflow_nb.text.cards import Card, Code, Rows, Shown
from artifactflow_nb.tools.base import Tool


@dataclass(frozen=True, slots=True, repr=False)
class AgentConfig(Shown):
    """What makes an agent.

    Attributes:
        name: Its name, in prompts, events and metrics; its prompt is the file of this name unless `prompt` says else.
        description: What it is for, told to the agent that delegates.
        capabilities: What it can do and what an instruction for it must hold, a line each.
        required_tools: Its tools, by names and categories; `all` for every one. See `select_tools`.
        model: The model's name at the endpoint, or a model object of its own; None for the configured one.
        temperature: Sampling temperature.
        max_tool_rounds: How often it may call tools before it must conclude.
        streaming: Whether its text is shown while it arrives.
        llm_max_retries: How often a failed model call is tried again.
        llm_retry_delay: Seconds before the first retry, doubled for each further one.
        prompt: The name of its prompt file, without `.md`; empty for the agent's name.
        tool_protocol: How it calls tools, `xml` or `native`; None for the configured way, if its model knows it.
    """

    name: str
    description: str
    capabilities: tuple[str, ...] = ()
    required_tools: tuple[str, ...] = ()
    model: str | Model | None = None
    temperature: float | None = 0.5
    max_tool_rounds: int = 3
    streaming: bool = True
    llm_max_retries: int = 2
    llm_retry_delay: float = 1.0
    prompt: str = ""
    tool_protocol: ToolProtocol | None = None

    def __repr__(self) -> str:
        tools, model = list(self.required_tools), model_name(self.model)
        return f"AgentConfig({self.name!r}, {self.description!r}, required_tools={tools!r}, model={model!r})"

    def _card(self) -> Card:
        rows: Rows = [
            ("does", self.description),
            ("can", " ".join(self.capabilities)),
            ("tools", Code(", ".join(self.required_tools))),
            ("calls tools by", self.tool_protocol),
            ("model", model_name(self.model)),
            ("temperature", self.temperature),
            ("tool rounds", self.max_tool_rounds),
            ("retries", self.llm_max_retries),
            ("prompt", Code(f"{self.prompt or self.name}.md")),
        ]
        return Card("Agent", self.name, rows)


@dataclass(frozen=True, slots=True)
class AgentResponse:
    """One reply of an agent, read.

    Attributes:
        success: Whether there was a reply.
        content: Its prose, tool calls taken out.
        tool_calls: The calls, in the order written.
        tool_interactions: Earlier calls of the job, each {tool_name, params, success, result}.
        reasoning_content: The model's reasoning, where the endpoint gives it.
        metadata: Model, finish reason and the like.
        routing: What follows: an entry `{type: tool_call, tool_name, params}` or `{type: subagent, target,
            instruction}` for each call; empty when the agent is done.
        token_usage: Tokens of this turn.
    """

    success: bool
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_interactions: tuple[Mapping[str, Any], ...] = ()
    reasoning_content: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    routing: tuple[Mapping[str, Any], ...] = ()
    token_usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class ProjectContext:
    """What a prompt tells of a project.

    Attributes:
        head: The project.
        tree: Its blocks.
        references: The blocks that the person's message names with `@`.
        personas: Those for whom it is written.
        skills: The instructions that can be used.
        used: Those of them that the person's message names.
    """

    head: ProjectHead
    tree: BlockTree
    references: Sequence[Block] = ()
    personas: Sequence[Persona] = ()
    skills: Sequence[Skill] = ()
    used: Sequence[Skill] = ()


@dataclass(frozen=True, slots=True)
class Due:
    """What an agent that needs no language model is to do now.

    Attributes:
        calls: The calls that it makes: names of tools, with their parameters.
        words: What it says, if there are none.
    """

    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    words: str = ""


@dataclass(frozen=True, slots=True)
class PromptContext:
    """What a system prompt is built from besides the agent itself; what changes most comes last in the prompt.

    Attributes:
        now: The time; prompts show the day only, so that they can be cached.
        subagents: The agents that can be delegated to.
        artifacts: The inventory of the branch: (id, title, version).
        task_plan: The plan of this turn; empty if there is none yet.
        feedback: What a person said of the last turn; empty if nothing.
        project: The project that is written; None where none is.
        order: Which of its blocks are to be written or reviewed now; None for an agent that does not see to that.
        due: What else is to be done now by an agent that needs no language model; None for others.
    """

    now: datetime
    subagents: Sequence[AgentConfig] = ()
    artifacts: Sequence[tuple[str, str, int]] = ()
    task_plan: str = ""
    feedback: str = ""
    project: ProjectContext | None = None
    order: Order | None = None
    due: Due | None = None


class BaseAgent:
    """An agent with its prompt, tools and model.

    Args:
        config: What makes it.
        tools: Its tools.
        model: Who takes its turns, unless its configuration names a model object.
        prompts: Where prompt files are read.

    Errors: `UsageError` if its model does not know the tool protocol that its configuration asks for.
    """

    def __init__(self, config: AgentConfig, tools: Sequence[Tool], model: Model, prompts: PromptLibrary) -> None:
        self.config = config
        self._requested = config.model if isinstance(config.model, str) else None
        self.model = model if self._requested or config.model is None else cast("Model", config.model)
        self.protocol = _protocol(config, self.model)
        self._prompts = prompts
        self.offer(tuple(tools))

    def offer(self, tools: tuple[Tool, ...]) -> None:
        """Offer it these tools, and no others, from its next turn on."""
        self.tools = tools
        self._manual = self.protocol.manual(self._prompts, tools) if tools else ""
        self._specs = tuple(entry.spec for entry in tools)

    def restricted(self, names: Collection[str]) -> Self:
        """The same agent with those of its tools that have these names."""
        agent = copy(self)
        agent.offer(tuple(entry for entry in self.tools if entry.name in names))
        return agent

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools that it is offered."""
        return tuple(entry.name for entry in self.tools)

    @property
    def model_name(self) -> str:
        """The model that it asks for."""
        return self.model_in_a_run(None)

    def model_in_a_run(self, chosen: str | None) -> str:
        """The model that it asks for in a run for which this one was chosen; one of its own goes first."""
        return self._asked(chosen) or self.model.default_model

    def _asked(self, chosen: str | None) -> str | None:
        return chosen if self.config.model is None else self._requested

    def build_system_prompt(self, context: PromptContext) -> str:
        """The agent's prompt without the tool manual: its role first, what changes last."""
        return "\n\n".join([self._role(context), self.build_current_context(context)])

    def build_complete_system_prompt(self, context: PromptContext) -> str:
        """The whole system message: role, tool manual, and last what changes from turn to turn."""
        parts = [self._role(context), self._manual, self.build_current_context(context)]
        return "\n\n".join(filter(None, parts))

    def _role(self, context: PromptContext) -> str:
        return self._prompts.render(self.config.prompt or self.config.name, **self.placeholders(context))

    def placeholders(self, context: PromptContext) -> dict[str, str]:
        """What the prompt file's `$names` stand for."""
        del context
        return {"max_tool_rounds": str(self.config.max_tool_rounds)}

    def build_current_context(self, context: PromptContext) -> str:
        """The part that changes: the day, and the plan that a sub-agent's job belongs to."""
        plan = f"\n\n<task_plan>\n{context.task_plan}\n</task_plan>" if context.task_plan else ""
        return f"<system_time>{context.now:%Y-%m-%d} (UTC)</system_time>{plan}"

    def stream(
        self, messages: Sequence[Message], *, conclude: bool = False, chosen: str | None = None
    ) -> AsyncIterator[ModelEvent]:
        """Ask the model for a turn; the arguments are those of `request`."""
        return self.model.stream(self.request(messages, conclude=conclude, chosen=chosen))

    def request(
        self, messages: Sequence[Message], *, conclude: bool = False, chosen: str | None = None
    ) -> ModelRequest:
        """What the model is asked for in a turn; in a concluding one it cannot call tools.

        Args:
            messages: The prompt.
            conclude: Whether it is to conclude.
            chosen: The model that was chosen for the run; None for the configured one.
        """
        config = self.config
        return ModelRequest(
            messages=tuple(messages),
            tools=self._specs,
            tool_choice="none" if conclude else "auto",
            tool_protocol=self.protocol.name,
            model=self._asked(chosen),
            temperature=config.temperature,
            max_retries=config.llm_max_retries,
            retry_delay_s=config.llm_retry_delay,
        )

    def read(
        self, reply: ModelReply, *, conclude: bool = False, interactions: Sequence[Mapping[str, Any]] = ()
    ) -> AgentResponse:
        """Read a reply: prose, calls, and what follows from them; a concluding reply has no calls.

        Args:
            reply: What the model said.
            conclude: Whether it was to conclude.
            interactions: The calls of the job so far with their results.
        """
        parsed = self.protocol.read(reply)
        calls = () if conclude else parsed.calls
        return AgentResponse(
            success=True,
            content=self.format_final_response(parsed.text),
            tool_calls=calls,
            tool_interactions=tuple(interactions),
            reasoning_content=reply.reasoning,
            metadata={"model": reply.model, "finish_reason": reply.finish_reason},
            routing=tuple(_route(call) for call in calls),
            token_usage=reply.usage,
        )

    def format_final_response(self, content: str) -> str:
        """The text that leaves the agent, from its prose."""
        return content.strip()


def _route(call: ToolCall) -> dict[str, Any]:
    if call.name == "call_subagent":
        params = call.params
        return {
            "type": "subagent",
            "target": params.get("agent_name", ""),
            "instruction": params.get("instruction", ""),
        }
    return {"type": "tool_call", "tool_name": call.name, "params": dict(call.params)}


def _protocol(config: AgentConfig, model: Model) -> CallProtocol:
    known = model.tool_protocols
    if config.tool_protocol is not None and config.tool_protocol not in known:
        raise UsageError(
            f"{config.name!r} asks for tool_protocol {config.tool_protocol!r}; its model ({model.provider}) knows "
            f"{', '.join(map(repr, known))}."
        )
    return PROTOCOLS[config.tool_protocol or known[0]]
