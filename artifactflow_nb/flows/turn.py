"""One model turn of a loop: build the prompt, stream the reply, store it with the calls that it asks for.

A turn that is stored is never taken again: a node that is entered a second time, after a crash or an interrupt, goes on
from the stored reply.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from artifactflow_nb.agents.base import AgentResponse, BaseAgent
from artifactflow_nb.budget import cost_usd
from artifactflow_nb.errors import ContextOverflow, ModelError, ModelUnavailable
from artifactflow_nb.events import StreamEventType, TextSoFar
from artifactflow_nb.flows.context import COMPRESSION_LEVELS, ContextManager, RoundNotes, stronger_level
from artifactflow_nb.flows.services import RunContext, is_main
from artifactflow_nb.flows.state import AgentState
from artifactflow_nb.messages import Message, ToolCall, Usage
from artifactflow_nb.models.base import ModelDelta, ModelReply, ModelRequest, RetryNotice
from artifactflow_nb.recordings.pieces import Piece, pack
from artifactflow_nb.recordings.tape import Asking
from artifactflow_nb.recordings.values import call_id, tool_call_id
from artifactflow_nb.store.calls import PENDING, LlmCall, Offer, StoredCall, StoredTurn
from artifactflow_nb.store.storable import storable_text, to_json


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that was taken: the reply's model call, its calls in the ledger, and how strongly its prompt was cut."""

    call_id: str
    calls: tuple[StoredCall, ...]
    level: str


def taken(state: AgentState, turns: Sequence[StoredTurn]) -> Turn | None:
    """The loop's next turn if it is stored already."""
    if turns and turns[-1].step > state["agent_memory"]["step"]:
        return Turn(turns[-1].call_id, turns[-1].calls, state["compression_level"])
    return None


async def take_turn(ctx: RunContext, state: AgentState, turns: Sequence[StoredTurn]) -> Turn:
    """Take the loop's next turn, after those given."""
    job_id = state["job_id"]
    agent = ctx.agent(state["current_agent"])
    call = await _Call.begin(ctx, agent, job_id, state["agent_memory"]["step"] + 1)
    used = state["agent_memory"]["tool_round_count"]
    conclude = used >= agent.config.max_tool_rounds
    instruction = ctx.tape.instruction(job_id, state["agent_memory"]["step"] + 1, await _instruction(ctx, job_id))
    note = RoundNotes(agent.config.max_tool_rounds).note(used)

    async def prompt(level: str) -> tuple[Message, ...]:
        return await _prompt(ctx, agent, job_id, instruction, turns, note, level)

    call.announce(instruction)
    level, messages, reply = await _fitting(call, prompt, state["compression_level"], conclude)
    response = agent.read(reply, conclude=conclude, interactions=_interactions(turns))
    return await call.record(messages, reply, response, level)


def _interactions(turns: Sequence[StoredTurn]) -> list[dict[str, Any]]:
    return [
        {
            "tool_name": call.call.name,
            "params": dict(call.call.params),
            "success": call.result.success,
            "result": call.result.data if call.result.success else call.result.error,
        }
        for turn in turns
        for call in turn.calls
        if call.result is not None
    ]


async def _fitting(
    call: "_Call", prompt: Callable[[str], Awaitable[tuple[Message, ...]]], level: str, conclude: bool
) -> tuple[str, tuple[Message, ...], ModelReply]:
    """The reply to the prompt at this level, or, where that was too long, to one that is compressed more strongly."""
    messages = await prompt(level)
    try:
        return level, messages, await call.stream(messages, conclude)
    except ContextOverflow:
        if (stronger := stronger_level(messages, level)) is None:
            raise
    messages = await prompt(stronger)
    call.again("The prompt was too long for the model; it is sent once more, compressed.")
    return stronger, messages, await call.stream(messages, conclude)


async def _instruction(ctx: RunContext, job_id: str) -> str:
    if is_main(job_id):
        return ctx.run.question
    return await ctx.services.calls.instruction(job_id)


async def _prompt(
    ctx: RunContext,
    agent: BaseAgent,
    job_id: str,
    instruction: str,
    turns: Sequence[StoredTurn],
    note: str,
    level: str,
) -> tuple[Message, ...]:
    run = ctx.run
    history: Sequence[Message] = ()
    if is_main(job_id):
        history = await ctx.services.conversations.format_conversation_history(
            run.conversation_id, run.parent_message_id
        )
    context = await ContextManager.prepare_agent_context(ctx, job_id)
    system = agent.build_complete_system_prompt(context)
    return ContextManager.build_agent_messages(
        system, history, instruction, turns, protocol=agent.protocol, level=level, note=note
    )


class _Call:
    """One model call: it measures, says what happens, and stores what came of it."""

    def __init__(self, ctx: RunContext, agent: BaseAgent, job_id: str, step: int, n_before: int) -> None:
        self._ctx = ctx
        self._agent = agent
        self._name = agent.config.name
        self._job_id = job_id
        self._step = step
        self._attempt = 1
        self._n_begun = n_before
        self._new_attempt()

    @classmethod
    async def begin(cls, ctx: RunContext, agent: BaseAgent, job_id: str, step: int) -> "_Call":
        """The call of a step, after the attempts at it that failed before this process took the run up."""
        n_before = 0 if ctx.is_new else await ctx.services.calls.n_attempts(ctx.run.run_id, job_id, step)
        return cls(ctx, agent, job_id, step, n_before)

    def _new_attempt(self) -> None:
        self._id = call_id(self._ctx.run.run_id, self._job_id, self._step, self._n_begun)
        self._n_begun += 1
        self._chosen = self._ctx.tape.model(self._id, self._ctx.run.settings.get("model"))
        self._model = self._agent.model_in_a_run(self._chosen)
        self._pieces: list[Piece] = []
        self._texts = {"answer": TextSoFar(), "reasoning": TextSoFar(), "call": TextSoFar()}

    def _emit(self, kind: StreamEventType, **data: Any) -> None:
        self._ctx.journal.emit(kind, {"job_id": self._job_id, "step": self._step, **data}, agent=self._name)

    def announce(self, instruction: str) -> None:
        """Say that the agent's turn begins."""
        self._emit(StreamEventType.AGENT_START, instruction=instruction, model=self._model)

    async def stream(self, messages: tuple[Message, ...], conclude: bool) -> ModelReply:
        """The model's reply; its pieces are told as they arrive, each failed attempt is stored."""
        attempt = self._attempt
        request = self._agent.request(messages, conclude=conclude, chosen=self._chosen)
        asking = Asking(self._id, self._name, self._job_id, self._step, self._model, request)
        self._offer = _offer(request)
        await self._look_up(asking, attempt)
        self._ctx.under_way()
        try:
            async for event in self._ctx.tape.stream(asking, lambda: self._agent.model.stream(request)):
                if type(event) is ModelDelta:
                    self._tell(event)
                elif isinstance(event, RetryNotice):
                    await self._retry(messages, event)
                    attempt = self._attempt + event.attempt
                    await self._look_up(replace(asking, call_id=self._id), attempt)
                elif isinstance(event, ModelReply):
                    return _storable(event)
            partial = self._texts["answer"].text
            raise ModelUnavailable(f"{self._agent.model.provider} ended its turn without a reply.", partial=partial)
        except ModelError as error:
            await self._record_failure(messages, attempt, type(error).__name__, str(error), error.partial)
            raise
        except asyncio.CancelledError:
            partial = self._texts["answer"].text
            await self._record_failure(messages, attempt, "RunCancelled", "The run was cancelled.", partial)
            raise

    async def _look_up(self, asking: Asking, attempt: int) -> None:
        """Find out what is recorded of an attempt, tell who watches, and begin to measure it."""
        self._recorded = self._ctx.tape.look_up(asking)
        self._told = await self._ctx.watch.model_asked(
            asking, self._provider, attempt, self._ctx.tape.clock.now(self._job_id)
        )
        self._span = self._ctx.tape.clock.start(self._id, self._job_id)

    @property
    def _provider(self) -> str:
        return self._agent.model.provider if self._recorded is None else self._recorded.provider

    def again(self, reason: str) -> None:
        """Say that the call failed and another attempt follows, with another prompt."""
        self._attempt += 1
        data = {"call_id": self._id, "attempt": self._attempt - 1, "delay_s": 0.0, "reason": reason}
        self._emit(StreamEventType.RETRY, **data)
        self._new_attempt()

    def _tell(self, delta: ModelDelta) -> None:
        if not self._agent.config.streaming or not (delta.text or delta.kind == "call"):
            return
        text = self._texts[delta.kind]
        data = {"job_id": self._job_id, "call_id": self._id, "kind": delta.kind, "delta": delta.text}
        at = self._ctx.tape.clock.tick(self._span)
        seq = self._ctx.journal.chunk(self._name, data, text, text.append(delta.text), tool=delta.tool or None)
        self._pieces.append(Piece(delta.kind, delta.tool, delta.text, at, seq))

    async def _retry(self, messages: tuple[Message, ...], notice: RetryNotice) -> None:
        failed = notice.attempt, "ModelUnavailable", notice.reason, ""
        await self._record_failure(messages, *failed, retry_delay_s=notice.delay_s)
        data = {"call_id": self._id, "attempt": notice.attempt, "delay_s": notice.delay_s, "reason": notice.reason}
        self._emit(StreamEventType.RETRY, **data)
        self._new_attempt()

    async def _record_failure(
        self,
        messages: tuple[Message, ...],
        attempt: int,
        error_type: str,
        error_message: str,
        partial: str,
        retry_delay_s: float | None = None,
    ) -> None:
        row = self._row(
            messages,
            attempt=attempt,
            content=storable_text(partial),
            error_type=error_type,
            error_message=storable_text(error_message),
            retry_delay_s=retry_delay_s,
        )
        await self._ctx.services.calls.record_turn(row, (), self._ctx.journal.take())
        await self._ctx.watch.model_failed(self._told, row)

    async def record(
        self, messages: tuple[Message, ...], reply: ModelReply, response: AgentResponse, level: str
    ) -> Turn:
        """Store the reply with its calls, and say that the turn is over."""
        row = self._row(
            messages,
            response_model=reply.model,
            finish_reason=reply.finish_reason,
            ttft_ms=reply.ttft_ms,
            usage=reply.usage,
            attempt=self._attempt - 1 + reply.attempts,
            content=reply.content,
            reasoning=reply.reasoning,
            n_native_calls=len(reply.calls),
        )
        calls = [(tool_call_id(self._id, position), call) for position, call in enumerate(response.tool_calls)]
        usage = usage_json(reply.usage)
        self._emit(
            StreamEventType.LLM_COMPLETE,
            call_id=self._id,
            model=reply.model,
            text=response.content,
            reasoning=reply.reasoning,
            finish_reason=reply.finish_reason,
            duration_ms=row.llm_duration_ms,
            ttft_ms=reply.ttft_ms,
            token_usage=usage,
            cost_usd=row.cost_usd,
            context={"chars": row.context_chars, "limit_chars": COMPRESSION_LEVELS[level]},
        )
        routing = list(response.routing)
        self._emit(StreamEventType.AGENT_COMPLETE, content=response.content, routing=routing, token_usage=usage)
        await self._ctx.services.calls.record_turn(row, calls, self._ctx.journal.take())
        await self._ctx.watch.model_replied(self._told, row, reply, response.tool_calls)
        return Turn(self._id, tuple(StoredCall(key, call, PENDING) for key, call in calls), level)

    def _row(self, messages: tuple[Message, ...], **outcome: Any) -> LlmCall:
        usage, models = outcome.get("usage"), (self._model, outcome.get("response_model"))
        cost = cost_usd(self._ctx.services.prices, models, usage)
        completed_at, duration_ms = self._ctx.tape.clock.stop(self._span)
        texts = {"answer": outcome["content"], "reasoning": outcome.get("reasoning", "")}
        known = self._recorded
        return LlmCall(
            call_id=self._id,
            run_id=self._ctx.run.run_id,
            job_id=self._job_id,
            step=self._step,
            agent_name=self._name,
            provider=self._provider,
            request_model=self._model,
            messages=messages,
            started_at=self._span.at,
            completed_at=completed_at,
            llm_duration_ms=duration_ms,
            temperature=self._agent.config.temperature,
            cost_usd=cost if known is None else known.cost_usd,
            cassette=self._ctx.tape.provenance(self._id),
            offer=self._offer,
            pieces=pack(self._pieces, self._span.at, texts),
            **outcome,
        )


def _storable(reply: ModelReply) -> ModelReply:
    """The reply with texts that every encoding can hold, so that what is read of it can be stored too."""
    content, reasoning = storable_text(reply.content), storable_text(reply.reasoning)
    return replace(reply, content=content, reasoning=reasoning, calls=tuple(map(_storable_call, reply.calls)))


def _storable_call(call: ToolCall) -> ToolCall:
    name, error = storable_text(call.name), call.error and storable_text(call.error)
    return ToolCall(name, orjson.loads(to_json(dict(call.params))), error)


def _offer(request: ModelRequest) -> Offer:
    """How the model was told to call tools, and of which it was told beside the prompt."""
    offered = request.tools if request.tool_protocol == "native" else ()
    tools = [{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in offered]
    return Offer(request.tool_protocol, request.tool_choice, to_json(tools) if tools else "")


def usage_json(usage: Usage) -> dict[str, Any]:
    """Tokens as events carry them."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "estimated": usage.estimated,
    }
