"""Agents: a configuration, a prompt and a set of tools. They have no state between turns."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Self, cast

from artifactflow_nb.agents.prompts import PromptLibrary, is_prompt_text
from artifactflow_nb.agents.protocols import PROTOCOLS, CallProtocol
from artifactflow_nb.core.messages import COMPUTED_PROVIDER, Message, ToolCall, ToolProtocolChoice, Usage
from artifactflow_nb.core.plan import PlanProgress, ReplanChoice
from artifactflow_nb.core.runs import Outcome, split_outcome
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.models.base import (
    Model,
    ModelEvent,
    ModelReply,
    ModelRequest,
    TemperatureModel,
    WritingTask,
    model_name,
)
from artifactflow_nb.tools.base import Tool


@dataclass(frozen=True, slots=True, repr=False)
class AgentConfig:
    """The configuration of an agent.

    Attributes:
        name: Name in prompts, events and metrics; also the name of the prompt file, unless `prompt` is set.
        description: Purpose of the agent, for agents that delegate to it.
        capabilities: Abilities, and what an instruction to the agent must contain; one line each.
        required_tools: Names and categories of the tools that the agent gets from the workbench; `all` for every tool.
            See `select_tools`.
        model: Name of a model at the endpoint, or a model object; None for the configured model.
        temperature: Sampling temperature; None for the endpoint's default.
        temperature_is_optional: Whether the temperature is sent only to models that are known to take a temperature.
        reasoning_effort: How long a model thinks, such as `low` or `high`; None for the endpoint's default.
        extra_body: Further fields of each request, such as `{"top_p": 0.9}`.
        max_tool_rounds: Rounds of tool calls after which the agent must answer.
        streaming: Whether the text is displayed while it arrives.
        llm_max_retries: Retries of a failed model call; four retries take about 15 s with the default delay.
        llm_retry_delay: Seconds before the first retry, doubled for each further retry.
        prompt: Text of the prompt, or the name of its file without `.md`; empty for the agent's name. A name
            has no spaces and no punctuation except `_`, `-`, `.` and `/`.
        tool_protocol: `xml`, `native`, or `auto`: the model's protocol, but `xml` where the endpoint refuses or ignores
            tools. None for the configured protocol if the model supports that protocol.
    """

    name: str
    description: str
    capabilities: tuple[str, ...] = ()
    required_tools: tuple[str, ...] = ()
    model: str | Model | None = None
    temperature: float | None = None
    temperature_is_optional: bool = False
    reasoning_effort: str | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    max_tool_rounds: int = 3
    streaming: bool = True
    llm_max_retries: int = 4
    llm_retry_delay: float = 1.0
    prompt: str = ""
    tool_protocol: ToolProtocolChoice | None = None

    @property
    def prompt_source(self) -> str:
        """The text of the prompt or the name of the prompt file, for `PromptLibrary`."""
        return self.prompt or self.name

    @property
    def prompt_name(self) -> str:
        """The name of the prompt file; the agent's name if `prompt` is a text."""
        return self.name if is_prompt_text(self.prompt) else self.prompt_source

    def __repr__(self) -> str:
        tools, model = list(self.required_tools), model_name(self.model)
        return f"AgentConfig({self.name!r}, {self.description!r}, required_tools={tools!r}, model={model!r})"


@dataclass(frozen=True, slots=True)
class AgentResponse:
    """A parsed reply of an agent.

    Attributes:
        success: Whether there was a reply.
        content: The text of the reply, without tool calls.
        tool_calls: The calls, in the order written.
        tool_interactions: Earlier calls of the job, each {tool_name, params, success, result}.
        reasoning_content: The model's reasoning, if the endpoint returns it.
        metadata: Model, finish reason and similar values.
        routing: The next steps: an entry `{type: tool_call, tool_name, params}` or `{type: subagent, target,
            instruction}` for each call; empty when the agent is done.
        ignored_calls: Names of tools that the agent called although it must answer; these calls are not run.
        outcome: How far the question is answered; None if the reply has no outcome.
    """

    success: bool
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_interactions: tuple[Mapping[str, Any], ...] = ()
    reasoning_content: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    routing: tuple[Mapping[str, Any], ...] = ()
    token_usage: Usage | None = None
    ignored_calls: tuple[str, ...] = ()
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class NextCalls:
    """The next turn of an agent whose turns are computed by code, without a language model.

    Attributes:
        message: The reply of the agent if there are no calls.
    """

    calls: Sequence[tuple[str, Mapping[str, Any]]] = ()
    message: str = ""


_DEPTH_RULES = {
    "quick": (
        "The person wants a quick answer. Search once, use one sub-agent at a time, and stop as soon as the question "
        "is answered. Leave the plan out, and keep the report short."
    ),
    "deep": (
        "The person wants a thorough answer. Use a sub-agent for each part of the question. Read the primary sources "
        "whole. Search again for each gap and each contradiction, until two searches in a row bring nothing new. Only "
        "then write the report."
    ),
}


@dataclass(frozen=True, slots=True)
class PromptContext:
    """The values of a system prompt that change between turns; the values that change most often come last.

    Attributes:
        now: The time; prompts show the day only, so that endpoints can cache them.
        artifacts: The inventory of the branch: (id, title, version).
        task_plan: The plan of this turn, or an empty string.
        feedback: The person's comment on the last turn, or an empty string.
        task: The text that the job writes; the prompt has the task in the job's instruction.
        sections: Further sections of the prompt.
        next_calls: The calls of an agent without a language model; None for other agents.
        plan: The plan that the agent created or executes; prompts have the plan in an instruction or a result.
        choices: The decisions that a replanner can take, which are also in the replanner's instruction.
        search_scope: The scope of `web_search` as a noun phrase; empty if unknown.
        depth: Thoroughness of the run: `quick` or `deep`; empty for the default.
        clarify: Whether the lead asks the person before research: `auto`, `never` or `always`.
    """

    now: datetime
    artifacts: Sequence[tuple[str, str, int]] = ()
    task_plan: str = ""
    feedback: str = ""
    task: WritingTask | None = None
    sections: Sequence[str] = ()
    next_calls: NextCalls | None = None
    plan: PlanProgress | None = None
    choices: tuple[ReplanChoice, ...] = ()
    search_scope: str = ""
    depth: str = ""
    clarify: str = "never"

    @property
    def introduction(self) -> str:
        """The first lines of the part that changes: the date, the depth and the scope of searches."""
        depth = f"\n\n<depth>\n{_DEPTH_RULES[self.depth]}\n</depth>" if self.depth in _DEPTH_RULES else ""
        scope = f"\n\n<search_scope>\nweb_search searches {self.search_scope}.\n</search_scope>"
        return f"<system_time>{self.now:%Y-%m-%d} (UTC)</system_time>{depth}{scope if self.search_scope else ''}"


class BaseAgent:
    """An agent with its prompt, tools and model.

    A subclass changes the prompt (`build_system_prompt`), the model calls (`stream`) or the answers
    (`format_final_response`). A user creates an agent from its configuration alone; registering it makes a copy with
    the tools, the model and the prompt files of the workbench.

    Args:
        config: The configuration.
        tools: The tools.
        model: The model, unless the configuration has a model object; None before the agent is registered.
        prompts: The prompt files; None for the packaged files.

    Errors: `UsageError` if the model does not support the tool protocol of the configuration.
    """

    model: Model
    protocol: CallProtocol
    can_change_protocol = False
    """Whether the agent writes calls as text if the endpoint of its model refuses or ignores tools."""
    tells_outcome = False
    """Whether the agent's answers end with an outcome; see `split_outcome`."""

    def __init__(
        self,
        config: AgentConfig,
        tools: Sequence[Tool] = (),
        model: Model | None = None,
        prompts: PromptLibrary | None = None,
    ) -> None:
        self.config = config
        self._prompts = prompts or PromptLibrary()
        self._requested = config.model if isinstance(config.model, str) else None
        own_model = model if self._requested or config.model is None else cast("Model", config.model)
        if own_model is None:
            return
        self.model = own_model
        protocols = self.model.tool_protocols
        choice = None if config.tool_protocol == "auto" else config.tool_protocol
        self.can_change_protocol = choice is None and "xml" in protocols
        if choice is not None and choice not in protocols:
            raise UsageError(
                f"The agent {config.name!r} has tool_protocol {config.tool_protocol!r}, which its model "
                f"({self.model.provider}) does not support. Use one of: {', '.join(map(repr, protocols))}."
            )
        self.protocol = PROTOCOLS[choice or protocols[0]]
        self.set_tools(tuple(tools))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.config!r})"

    def bind(self, config: AgentConfig, tools: Sequence[Tool], model: Model, prompts: PromptLibrary) -> Self:
        """Copy the agent with another configuration, and with tools, a model and prompt files."""
        agent = copy(self)
        BaseAgent.__init__(agent, config, tools, model, prompts)
        return agent

    @property
    def has_own_prompt(self) -> bool:
        """Whether the agent's class builds the prompt, so that no prompt file is needed."""
        return type(self).build_system_prompt is not BaseAgent.build_system_prompt

    def set_tools(self, tools: tuple[Tool, ...]) -> None:
        """Replace the agent's tools from the next turn on."""
        self.tools = tools
        self._manual = self.protocol.manual(self._prompts, tools) if tools else ""
        self._specs = tuple(entry.spec for entry in tools)

    def assistant(self, config: AgentConfig) -> "BaseAgent":
        """Create an agent without tools that has this agent's model, tool protocol and prompt files."""
        own = replace(config, model=self.config.model, tool_protocol=self.protocol.name)
        return BaseAgent(own, (), self.model, self._prompts)

    def with_text_calls(self) -> Self:
        """Copy the agent with calls of tools in the text."""
        agent = copy(self)
        agent.protocol = PROTOCOLS["xml"]
        agent.set_tools(self.tools)
        return agent

    def with_tools(self, names: Collection[str]) -> Self:
        """Copy the agent with only the tools that `names` lists."""
        agent = copy(self)
        agent.set_tools(tuple(entry for entry in self.tools if entry.name in names))
        return agent

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools that the agent may call."""
        return tuple(entry.name for entry in self.tools)

    @property
    def model_name(self) -> str:
        """The name of the model that the agent requests."""
        return self.model_for_run(None)

    @property
    def model_label(self) -> str:
        """The name of the model for display; `none` if the agent uses no language model."""
        return "none" if self.model.provider == COMPUTED_PROVIDER else self.model_name

    def model_for_run(self, run_model: str | None) -> str:
        """Return the model to request in a run with the model `run_model`; the agent's own model takes precedence."""
        return self._requested_model(run_model) or self.model.default_model

    def _requested_model(self, run_model: str | None) -> str | None:
        return run_model if self.config.model is None else self._requested

    def build_system_prompt(self, context: PromptContext) -> str:
        """Build the prompt without the tool manual: first the role, last the values that change most often."""
        role = self._prompts.render(self.config.prompt_source, **self.placeholders(context))
        return "\n\n".join([role, self.build_current_context(context)])

    def build_complete_system_prompt(self, context: PromptContext) -> str:
        """Build the system message: the prompt, with the tool manual before the part that changes between turns."""
        prompt, current = self.build_system_prompt(context), self.build_current_context(context)
        if not prompt.endswith(current):
            prompt, current = f"{prompt}\n\n", ""
        return "\n\n".join(filter(None, [prompt.removesuffix(current).rstrip("\n"), self._manual, current]))

    def placeholders(self, context: PromptContext) -> dict[str, str]:
        """Return the values of the prompt file's `$names`."""
        del context
        return {"max_tool_rounds": str(self.config.max_tool_rounds)}

    def build_current_context(self, context: PromptContext) -> str:
        """Build the part that changes: the day, the scope of searches, and the plan to which the job belongs."""
        plan = f"\n\n<task_plan>\n{context.task_plan}\n</task_plan>" if context.task_plan else ""
        return f"{context.introduction}{plan}"

    def stream(self, messages: Sequence[Message], *, request: ModelRequest | None = None) -> AsyncIterator[ModelEvent]:
        """Ask the model for a turn.

        Args:
            messages: The prompt.
            request: The request to send with this prompt; None for `request(messages)`.
        """
        whole = self.request(messages) if request is None else replace(request, messages=tuple(messages))
        return self.model.stream(whole)

    def request(
        self, messages: Sequence[Message], *, conclude: bool = False, run_model: str | None = None
    ) -> ModelRequest:
        """Create the request of a turn; in a concluding turn the model cannot call tools.

        Args:
            messages: The prompt.
            conclude: Whether the agent must answer in this turn.
            run_model: The model that was chosen for the run; None for the configured model.
        """
        config = self.config
        effort = {} if config.reasoning_effort is None else {"reasoning_effort": config.reasoning_effort}
        # A model that may refuse temperatures gets a temperature only if somebody has chosen it.
        takes: bool | None = True
        if isinstance(self.model, TemperatureModel):
            takes = self.model.takes_temperature(self.model_for_run(run_model))
        is_sent = takes or (takes is None and not config.temperature_is_optional)
        return ModelRequest(
            messages=tuple(messages),
            tools=self._specs,
            tool_choice="none" if conclude else "auto",
            tool_protocol=self.protocol.name,
            model=self._requested_model(run_model),
            temperature=config.temperature if is_sent else None,
            extra_body={**effort, **config.extra_body},
            max_retries=config.llm_max_retries,
            retry_delay_s=config.llm_retry_delay,
        )

    def read(
        self,
        reply: ModelReply,
        *,
        conclude: bool = False,
        interactions: Sequence[Mapping[str, Any]] = (),
        shown: Sequence[str] = (),
    ) -> AgentResponse:
        """Parse a reply: text, calls and routing; a concluding reply has no calls.

        Args:
            reply: The model's reply.
            conclude: Whether the agent must answer in this turn.
            interactions: The calls of the job so far with their results.
            shown: Other texts of the prompt: the instruction, earlier turns of the conversation, texts of a project.

        A call that occurs word for word in these results or texts is a quotation and stays text.
        """
        results = (str(interaction["result"] or "") for interaction in interactions)
        parsed = self.protocol.read(reply, [*shown, *results], () if conclude else self.tool_names)
        calls = () if conclude else parsed.calls
        text, outcome = split_outcome(parsed.text) if self.tells_outcome else (parsed.text, None)
        routing: list[dict[str, Any]] = []
        for call in calls:
            if call.name == "call_subagent":
                target, instruction = call.params.get("agent_name", ""), call.params.get("instruction", "")
                routing.append({"type": "subagent", "target": target, "instruction": instruction})
            else:
                routing.append({"type": "tool_call", "tool_name": call.name, "params": dict(call.params)})
        return AgentResponse(
            success=True,
            content=self.format_final_response(text),
            tool_calls=calls,
            tool_interactions=tuple(interactions),
            reasoning_content=reply.reasoning,
            metadata={"model": reply.model, "finish_reason": reply.finish_reason},
            routing=tuple(routing),
            token_usage=reply.usage,
            ignored_calls=tuple(call.name or "a tool" for call in parsed.calls) if conclude else (),
            outcome=outcome,
        )

    def format_final_response(self, content: str) -> str:
        """Convert the text of the final reply to the answer of the agent."""
        return content.strip()


AgentLike = AgentConfig | BaseAgent | type[BaseAgent]
"""An agent as a user registers it: a configuration, an agent, or a class whose constructor needs no arguments."""


def as_agent(source: AgentLike) -> BaseAgent:
    """Return the agent that a user registers: a configuration, an agent or its class; `UsageError` for other values."""
    if isinstance(source, AgentConfig):
        return BaseAgent(source)
    if isinstance(source, type) and issubclass(source, BaseAgent):
        name = source.__name__
        try:
            source = source()  # type: ignore[call-arg]
        except TypeError as error:
            raise UsageError(f"{name}() failed ({error}). Pass an object of this class instead.") from None
    if not isinstance(source, BaseAgent):
        raise UsageError(
            f"{brief(source)} is not an agent. Pass an af.AgentConfig, or an object of a class that extends "
            "af.extend.BaseAgent."
        )
    return source
