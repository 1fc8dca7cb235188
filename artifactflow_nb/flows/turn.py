"""One model turn of a loop: build the prompt, stream the reply, store it with its tool calls.

The prompt::

    system | history (lead only) | instruction | reply, results | reply, results | ...

A stored turn is never repeated: a node that is entered again after a crash or an interrupt continues from the stored
reply.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from artifactflow_nb.agents.base import AgentResponse, BaseAgent, NextCalls, PromptContext
from artifactflow_nb.agents.protocols import PROTOCOLS, CallProtocol
from artifactflow_nb.core.clock_ids import call_id, tool_call_id
from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.core.messages import COMPUTED_PROVIDER, Message, ToolCall, Usage
from artifactflow_nb.core.plan import parse_plan
from artifactflow_nb.core.runs import CLARIFY_SETTING, DEPTH_SETTING, SEARCH_SCOPE_SETTING
from artifactflow_nb.core.text.format import storable_text, without_context
from artifactflow_nb.errors import ContextOverflow, ModelError, ModelUnavailable, RunCancelled, ToolsRefused
from artifactflow_nb.flows.compression import (
    COMPRESSION_LEVELS,
    TurnMessages,
    compress_messages,
    level_chars,
    should_compress,
    stronger_level,
    window_scale,
)
from artifactflow_nb.flows.known_secrets import MaskedPieces
from artifactflow_nb.flows.limits import (
    RoundNotes,
    enforce_exclusive_call,
    reject_other_calls,
    require_question,
    restrict_at_limit,
)
from artifactflow_nb.flows.model_call import ModelCallRecord, ModelCallStart
from artifactflow_nb.flows.services import RunContext, is_main
from artifactflow_nb.flows.state import AgentState
from artifactflow_nb.models.base import (
    AttemptStart,
    ModelContext,
    ModelDelta,
    ModelReply,
    ModelRequest,
    RetryNotice,
    WindowedModel,
    estimate_usage,
)
from artifactflow_nb.store.artifact_versions import TASK_PLAN_ID
from artifactflow_nb.store.calls import PENDING, StoredCall, StoredReply, StoredTurn, ToolCallSettings, TurnProgress
from artifactflow_nb.store.encoding import MAX_DEPTH, is_too_deep, storable_json, to_json
from artifactflow_nb.tools.lead import ask_person

_TOO_LONG = "The prompt was too long for the model; it is sent once more, compressed."
_NOW_IN_TEXT = "From now on this model calls tools in its text."
_CANCELLED = RunCancelled.__name__, "The run was cancelled."
"""The error of an attempt that was running when the run was cancelled, or its process closed."""


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """A completed turn: the id of its model call, its tool calls in the ledger, and the compression of its prompt."""

    call_id: str
    calls: tuple[StoredCall, ...]
    level: str


class ContextManager:
    """Builds and compresses prompts from the store; has no state.

    Attributes:
        COMPRESSION_LEVELS: The largest number of characters of a whole prompt, by level.
    """

    COMPRESSION_LEVELS: Mapping[str, int] = COMPRESSION_LEVELS
    should_compress = staticmethod(should_compress)
    compress_messages = staticmethod(compress_messages)

    def __repr__(self) -> str:
        return "ContextManager()"

    @staticmethod
    async def prepare_agent_context(ctx: RunContext, agent: str, job_id: str) -> PromptContext:
        """Return the changing part of the system prompt, from the flow or from the default context."""
        if ctx.flow is not None and ctx.flow.prompt_context is not None:
            context = await ctx.flow.prompt_context(ctx, agent, job_id)
            if context is not None:
                return context
        return await ContextManager.default_context(ctx, agent, job_id)

    @staticmethod
    async def default_context(ctx: RunContext, agent: str, job_id: str) -> PromptContext:
        """Return the default context: artifacts and plan for the main agent, the plan for sub-agents, and the day."""
        services, run = ctx.services, ctx.run
        if not is_main(job_id) and agent not in services.subagents:
            return PromptContext(now=run.started_at)
        artifacts = await ctx.artifacts()
        plan = ""
        if (artifact := next((entry for entry in artifacts if entry.artifact_id == TASK_PLAN_ID), None)) is not None:
            progress = parse_plan(artifact.content, artifact.content_type)
            # Results of steps are long, and the instruction of an agent has the results that the agent needs.
            plan = artifact.content if progress is None else progress.checklist
        scope = {name: run.settings.get(name, "") for name in (SEARCH_SCOPE_SETTING, DEPTH_SETTING)}
        if not is_main(job_id):
            return PromptContext(now=run.started_at, task_plan=plan, **scope)
        inventory = [(artifact.artifact_id, artifact.title, artifact.version) for artifact in artifacts]
        clarify = run.settings.get(CLARIFY_SETTING, "never")
        return PromptContext(run.started_at, inventory, plan, clarify=clarify, **scope)

    @staticmethod
    def model_context(
        ctx: RunContext, job_id: str, context: PromptContext, instruction: str, history: Sequence[Message]
    ) -> ModelContext:
        """Return the values behind a prompt, for a model that computes its reply."""
        questions = [message.content for message in history if message.role == "user"]
        following = context.next_calls or NextCalls()
        return ModelContext(
            question=without_context(ctx.run.question),
            instruction=without_context(instruction),
            earlier_question=without_context(questions[-1]) if questions else "",
            calls=tuple(ctx.transcript(job_id).finished_calls),
            artifact_ids=frozenset(artifact_id for artifact_id, _, _ in context.artifacts),
            plan=context.plan,
            choices=context.choices,
            task=context.task,
            next_calls=tuple(ToolCall(name, dict(params)) for name, params in following.calls),
            next_message=following.message,
        )

    @staticmethod
    def build_agent_messages(
        system: str,
        history: Sequence[Message],
        instruction: str,
        turns: Sequence[StoredTurn] | TurnMessages,
        *,
        protocol: CallProtocol = PROTOCOLS["xml"],
        level: str = "normal",
        note: str = "",
        scale: float = 1.0,
    ) -> tuple[Message, ...]:
        """Build the prompt of a turn, compressed to its level.

        Args:
            system: The whole system message.
            history: Earlier turns of the conversation.
            instruction: The instruction of the job.
            turns: The job's replies so far, with the results of their calls.
            protocol: Formats calls and results, unless `turns` are formatted already.
            level: A key of `COMPRESSION_LEVELS`.
            note: A text to add to the last message, such as a note that the rounds are used up.
            scale: The factor of the level's length; see `window_scale`.
        """
        written = turns if isinstance(turns, TurnMessages) else TurnMessages(protocol, turns)
        head = [Message("system", system), *history, Message("user", instruction)]
        return tuple(written.prompt(head, level, note, scale))


@dataclass(frozen=True, slots=True)
class _Prompt:
    """The prompt of a turn.

    Attributes:
        level: The compression of the prompt, a key of `COMPRESSION_LEVELS`.
        context: The values that a model which computes its reply reads instead of the messages.
        shown: The texts of the prompt without the agent's own turns; a call that repeats such a text is a quotation.
        stable_chars: Length of the beginning of the system message that is the same in every turn.
        scale: The factor of the level's length; see `window_scale`.
    """

    level: str
    messages: tuple[Message, ...]
    context: ModelContext
    shown: Sequence[str]
    stable_chars: int = 0
    scale: float = 1.0


async def take_turn(ctx: RunContext, state: AgentState, turns: Sequence[StoredTurn]) -> ModelTurn:
    """Take the next turn of the loop, after the stored turns."""
    job_id = state["job_id"]
    used = state["agent_memory"]["tool_round_count"]
    agent, final_tools = restrict_at_limit(ctx.agent(state["current_agent"], state.get("tools", ())), used)
    transcript = ctx.transcript(job_id)
    call = await _TurnCall.begin(ctx, agent, job_id, state["agent_memory"]["step"] + 1)
    conclude = used >= agent.config.max_tool_rounds and not final_tools
    instruction = ctx.run.question if is_main(job_id) else await ctx.services.calls.instruction(job_id)
    note = RoundNotes(agent.config.max_tool_rounds, final_tools).note(used)

    async def build(level: str) -> _Prompt:
        history: Sequence[Message] = ()
        if is_main(job_id):
            branch = ctx.run.conversation_id, ctx.run.parent_message_id
            history = await ctx.services.conversations.format_conversation_history(*branch)
        context = await ContextManager.prepare_agent_context(ctx, agent.config.name, job_id)
        current = agent.build_current_context(context)
        system, changing = map(ctx.secrets.text, (agent.build_complete_system_prompt(context), current))
        written = transcript.written(agent.protocol, turns)
        head = [Message("system", system), *history, Message("user", instruction)]
        scale = 1.0
        if isinstance(agent.model, WindowedModel) and written.n_chars(head) > COMPRESSION_LEVELS["minimal"]:
            window = await agent.model.context_tokens(call.model)  # may ask the endpoint
            scale = 1.0 if window is None else window_scale(window, [*head, *written.messages])
        return _Prompt(
            level,
            tuple(written.prompt(head, level, note, scale)),
            ContextManager.model_context(ctx, job_id, context, instruction, history),
            shown=(instruction, current, *(message.content for message in history)),
            stable_chars=len(system) - len(changing) if system.endswith(changing) else 0,
            scale=scale,
        )

    call.publish_start(instruction)
    try:
        prompt, reply = await _stream_fitting(call, build, state["compression_level"], conclude)
    except ToolsRefused:
        if not agent.can_change_protocol:
            raise
        agent = ctx.use_text_calls(agent)
        call.change_agent(agent)
        prompt, reply = await _stream_fitting(call, build, state["compression_level"], conclude)
    reader = agent
    if agent.can_change_protocol and not reply.calls and not any(turn.n_native_calls for turn in turns):
        reader = agent.with_text_calls()  # the endpoint may have ignored the tools
    reply = agent.protocol.transcribe(reply)
    response = reader.read(reply, conclude=conclude, interactions=transcript.interactions, shown=prompt.shown)
    if reader is not agent and response.tool_calls:
        agent = ctx.use_text_calls(agent)
        call.notice = f"The endpoint ignored the tools of the request. {_NOW_IN_TEXT}"
    if final_tools:
        response = reject_other_calls(final_tools, response)
    if not turns and is_main(job_id) and ctx.run.settings.get(CLARIFY_SETTING) == "always":
        response = require_question(ask_person.name, response)
    response = enforce_exclusive_call(agent, response)
    turn = await call.record(reply, response, prompt)
    text, ignored = response.content, tuple(response.ignored_calls)
    transcript.last_reply = StoredReply(text, reply.reasoning, reply.finish_reason, ignored, response.outcome)
    transcript.has_taken_turn = True
    return turn


async def take_single_turn(ctx: RunContext, agent: BaseAgent, job_id: str, instruction: str) -> str:
    """Take the only turn of a job whose agent has no tools and return its text; a stored turn is not repeated."""
    if turns := await ctx.services.calls.transcript(ctx.run.run_id, job_id):
        return (await ctx.services.calls.reply(turns[-1].call_id)).text  # without calls, as in the first process
    call = await _TurnCall.begin(ctx, agent, job_id, 1)
    system = ctx.secrets.text(agent.build_system_prompt(PromptContext(now=ctx.run.started_at)))
    context = ModelContext(without_context(ctx.run.question), instruction)
    prompt = _Prompt("normal", (Message("system", system), Message("user", instruction)), context, (instruction,))
    call.publish_start(instruction)
    reply = agent.protocol.transcribe(await call.stream(prompt, conclude=True))
    response = agent.read(reply, conclude=True, shown=prompt.shown)
    await call.record(reply, response, prompt)
    return response.content


async def _stream_fitting(
    call: "_TurnCall", build: Callable[[str], Awaitable[_Prompt]], level: str, conclude: bool
) -> tuple[_Prompt, ModelReply]:
    """Stream the reply to the prompt at this level; if the prompt is too long, compress more strongly and repeat."""
    prompt = await build(level)
    stronger = stronger_level(prompt.messages, level, prompt.scale)
    if stronger is None:
        return prompt, await call.stream(prompt, conclude)
    if not call.was_too_long:
        try:
            return prompt, await call.stream(prompt, conclude, may_shorten=True)
        except ContextOverflow:
            call.shorten()
    prompt = await build(stronger)
    return prompt, await call.stream(prompt, conclude)


class _TurnCall:
    """The model call of a turn: streams, publishes, measures and stores all attempts."""

    def __init__(self, ctx: RunContext, agent: BaseAgent, job_id: str, step: int, progress: TurnProgress) -> None:
        self._ctx = ctx
        self._agent = agent
        self.notice = ""
        self._name = agent.config.name
        self._job_id = job_id
        self._step = step
        self._is_published = progress.is_published
        self._n_attempts = len(progress.failures)
        self._masked: MaskedPieces | None = None
        n_too_long = progress.failures.count(ContextOverflow.__name__)
        self._attempt = 1 + n_too_long
        self._n_failed = next(
            (n for n, kind in enumerate(reversed(progress.failures)) if kind == ContextOverflow.__name__),
            self._n_attempts,
        )
        self._new_attempt()

    @classmethod
    async def begin(cls, ctx: RunContext, agent: BaseAgent, job_id: str, step: int) -> "_TurnCall":
        """Create the call of a step, with the number of attempts that another process stored."""
        is_first = not ctx.is_new and not ctx.transcript(job_id).has_taken_turn
        progress = await ctx.services.calls.turn_progress(ctx.run.run_id, job_id, step) if is_first else TurnProgress()
        return cls(ctx, agent, job_id, step, progress)

    @property
    def was_too_long(self) -> bool:
        """Whether the model rejected an attempt because the prompt was too long."""
        return self._attempt > 1

    def _new_attempt(self) -> None:
        self._id = call_id(self._ctx.run.run_id, self._job_id, self._step, self._n_attempts)
        self._n_attempts += 1
        self._run_model = self._ctx.run.settings.get("model")
        self.model = self._agent.model_for_run(self._run_model)

    def publish_start(self, instruction: str) -> None:
        """Publish the start of the agent's turn, unless it was published before the run was resumed."""
        if not self._is_published:
            model = "" if self._agent.model.provider == COMPUTED_PROVIDER else self.model
            data = {"job_id": self._job_id, "step": self._step, "instruction": instruction, "model": model}
            self._ctx.event_writer.emit(StreamEventType.AGENT_START, data, agent=self._name)

    async def stream(self, prompt: _Prompt, conclude: bool, *, may_shorten: bool = False) -> ModelReply:
        """Stream the model's reply: publish its pieces as they arrive, store each failed attempt.

        With `may_shorten`, an attempt whose prompt is too long is published as a retry.
        """
        attempt = self._attempt + self._n_failed
        sent = tuple(
            m if m.content.isascii() else replace(m, content=storable_text(m.content)) for m in prompt.messages
        )
        request = self._agent.request(sent, conclude=conclude, run_model=self._run_model)
        request = replace(request, context=prompt.context, stable_chars=prompt.stable_chars)
        await self._ctx.jobs.cancellation.wait_if_cancelled()
        await self._begin_attempt(request, attempt)
        self._masked = MaskedPieces(self._ctx.secrets) if self._ctx.secrets else None
        is_waiting = False  # for a retry
        try:
            stream = self._agent.stream(sent, request=request)
            async with aclosing(stream) if isinstance(stream, AsyncGenerator) else nullcontext(stream) as events:
                arriving, cancellation = aiter(events), self._ctx.jobs.cancellation
                is_streaming = self._agent.config.streaming
                while (event := await cancellation.wait_for(anext(arriving, None))) is not None:
                    if type(event) is ModelDelta:
                        kind, text, tool = event.kind, event.text, event.tool
                        if is_streaming and (text or kind == "call"):
                            if self._masked is not None:
                                text, tool = self._masked.feed(kind, text), tool and self._ctx.secrets.text(tool)
                            if text or kind == "call":
                                self._record.publish_delta(kind, text, tool)
                    elif isinstance(event, RetryNotice):
                        self._masked = self._masked and MaskedPieces(self._ctx.secrets)
                        n_failed, reason = (
                            self._n_failed + event.attempt,
                            self._ctx.services.secrets.redact(event.reason),
                        )
                        retry = {"attempt": n_failed, "delay_s": event.delay_s, "reason": reason}
                        await self._record_failure(n_failed, "ModelUnavailable", reason, "", event.delay_s, retry)
                        self._new_attempt()
                        attempt = self._attempt + n_failed
                        await self._begin_attempt(request, attempt)
                        is_waiting = True
                    elif isinstance(event, AttemptStart):
                        is_waiting = False
                        self._record.restart()
                    elif isinstance(event, ModelReply):
                        self._publish_withheld()
                        return _storable(self._ctx.secrets.reply(event))
            message = f"{self._agent.model.provider} ended its turn without a reply."
            raise ModelUnavailable(message, partial=self._record.partial)
        except ModelError as error:
            error.partial = self._ctx.secrets.cut_off(error.partial)
            self._publish_withheld(is_cut_off=True)
            message = self._ctx.services.secrets.redact(str(error))
            reason = _TOO_LONG if may_shorten and isinstance(error, ContextOverflow) else ""
            if isinstance(error, ToolsRefused) and self._agent.can_change_protocol:
                reason = f"{message} {_NOW_IN_TEXT}"
            next_attempt = {"attempt": self._attempt, "delay_s": 0.0, "reason": reason} if reason else None
            await self._record_failure(attempt, type(error).__name__, message, error.partial, retry=next_attempt)
            raise
        except asyncio.CancelledError:
            if is_waiting:
                self._record.restart()
            arrived = self._record.text
            usage = estimate_usage(request, arrived) if arrived else None
            await self._record_failure(attempt, *_CANCELLED, self._record.partial, usage=usage)
            raise

    def _publish_withheld(self, *, is_cut_off: bool = False) -> None:
        """Publish the text that was withheld because it could be the beginning of a secret or of a call."""
        for kind, text in () if self._masked is None else self._masked.finish(is_cut_off=is_cut_off):
            self._record.publish_delta(kind, text)
        self._record.finish()

    async def _begin_attempt(self, request: ModelRequest, attempt: int) -> None:
        """Call the middleware and start to measure an attempt."""
        origin: dict[str, Any] = {"call_id": self._id, "job_id": self._job_id, "step": self._step}
        origin |= {"agent": self._name, "provider": self._agent.model.provider, "model": self.model}
        now = self._ctx.clock.now()
        self._observed = await self._ctx.middleware.before_model(request, now, attempt=attempt, **origin)
        native_tools = request.tools if request.tool_protocol == "native" else ()  # sent outside the prompt
        offered = [
            {"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in native_tools
        ]
        start = ModelCallStart(
            **origin,
            temperature=request.temperature,
            messages=request.messages,
            tool_settings=ToolCallSettings(
                request.tool_protocol, request.tool_choice, self._ctx.secrets.text(to_json(offered)) if offered else ""
            ),
        )
        self._record = ModelCallRecord(self._ctx, start, tells_outcome=self._agent.tells_outcome)

    def change_agent(self, agent: BaseAgent) -> None:
        """Prepare another attempt, with the prompt of another agent."""
        self._agent = agent
        self._n_failed += 1
        self._new_attempt()

    def shorten(self) -> None:
        """Prepare another attempt, with a shorter prompt."""
        self._attempt += 1
        self._n_failed = 0
        self._new_attempt()

    async def _record_failure(
        self,
        attempt: int,
        error_type: str,
        error_message: str,
        partial: str,
        retry_delay_s: float | None = None,
        retry: Mapping[str, Any] | None = None,
        usage: Usage | None = None,
    ) -> None:
        """Store a failed attempt; if another attempt follows, `retry` is the payload of the event about the retry."""
        delay: dict[str, Any] = {"retry_delay_s": retry_delay_s, "retry_payload": retry}
        row = self._record.fail(error_type, error_message, partial, attempt=attempt, usage=usage, **delay)
        await self._ctx.services.calls.record_model_call(row, (), self._ctx.event_writer.drain())
        await self._ctx.middleware.on_model_error(self._observed, row)

    async def record(self, reply: ModelReply, response: AgentResponse, prompt: _Prompt) -> ModelTurn:
        """Store the reply with its calls, and publish the end of the turn."""
        attempt = self._attempt - 1 + self._n_failed + reply.attempts
        row = self._record.complete(
            reply,
            response.content,
            response.routing,
            ignored_calls=response.ignored_calls,
            attempt=attempt,
            limit_chars=level_chars(prompt.level, prompt.scale),
            outcome=response.outcome,
            notice=self.notice or reply.notice,
        )
        calls = [(tool_call_id(self._id, position), call) for position, call in enumerate(response.tool_calls)]
        await self._ctx.services.calls.record_model_call(row, calls, self._ctx.event_writer.drain())
        await self._ctx.middleware.after_model(self._observed, row, reply, response.tool_calls)
        return ModelTurn(self._id, tuple(StoredCall(key, call, PENDING) for key, call in calls), prompt.level)


def _storable(reply: ModelReply) -> ModelReply:
    """Replace text that cannot be stored as UTF-8 or JSON in the texts and calls of a reply."""
    calls: list[ToolCall] = []
    fields = reply.provider_fields
    for call in reply.calls:
        name, error = storable_text(call.name), call.error and storable_text(call.error)
        if is_too_deep(call.params):
            error = error or f"Its arguments are nested deeper than {MAX_DEPTH} levels; it was not run."
            calls.append(ToolCall(name, {}, error))
        else:
            calls.append(ToolCall(name, storable_json(dict(call.params)), error))
    return replace(
        reply,
        content=storable_text(reply.content),
        reasoning=storable_text(reply.reasoning),
        finish_reason=storable_text(reply.finish_reason),
        model=storable_text(reply.model),
        calls=tuple(calls),
        provider_fields=None if fields is None or is_too_deep(fields) else storable_json(dict(fields)),
    )
