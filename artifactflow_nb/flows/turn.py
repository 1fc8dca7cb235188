"""One model turn of a loop: build the prompt, stream the reply, store it with the calls that it asks for.

A turn that is stored is never taken again: a node that is entered a second time, after a crash or an interrupt, goes on
from the stored reply.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import orjson

from artifactflow_nb.agents.base import AgentResponse, BaseAgent
from artifactflow_nb.errors import ContextOverflow, ModelError, ModelUnavailable, RunCancelled
from artifactflow_nb.events import StreamEventType
from artifactflow_nb.flows.call_record import CallRecord, Opening
from artifactflow_nb.flows.context import COMPRESSION_LEVELS, ContextManager, stronger_level
from artifactflow_nb.flows.rounds import RoundNotes, alone, at_the_end, within
from artifactflow_nb.flows.services import RunContext, agent_of, is_main
from artifactflow_nb.flows.state import AgentState
from artifactflow_nb.messages import Message, ToolCall
from artifactflow_nb.models.base import ModelDelta, ModelReply, ModelRequest, RetryNotice
from artifactflow_nb.recordings.tape import Asking, GivenUp
from artifactflow_nb.recordings.values import call_id, tool_call_id
from artifactflow_nb.store.calls import PENDING, Begun, Offer, StoredCall, StoredTurn
from artifactflow_nb.store.storable import storable_text, to_json

_TOO_LONG = "The prompt was too long for the model; it is sent once more, compressed."
_GIVEN_UP = RunCancelled.__name__, "The run was cancelled."
"""The error of an attempt that was under way when the run was cancelled, or its process closed."""


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
    used = state["agent_memory"]["tool_round_count"]
    agent, last_words = at_the_end(agent_of(ctx, state), used)
    call = await _Call.begin(ctx, agent, job_id, state["agent_memory"]["step"] + 1)
    conclude = used >= agent.config.max_tool_rounds and not last_words
    instruction = ctx.tape.instruction(job_id, state["agent_memory"]["step"] + 1, await _instruction(ctx, job_id))
    note = RoundNotes(agent.config.max_tool_rounds, last_words).note(used)

    async def prompt(level: str) -> tuple[Message, ...]:
        return await _prompt(ctx, agent, job_id, instruction, turns, note, level)

    call.announce(instruction)
    level, reply = await _fitting(call, prompt, state["compression_level"], conclude)
    response = agent.read(reply, conclude=conclude, interactions=_interactions(turns))
    if last_words:
        response = within(last_words, response)
    return await call.record(reply, alone(agent, response), level)


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
) -> tuple[str, ModelReply]:
    """The reply to the prompt at this level, or, where that was too long, to one that is compressed more strongly."""
    messages = await prompt(level)
    stronger = stronger_level(messages, level)
    if stronger is None:
        return level, await call.stream(messages, conclude)
    if not call.was_too_long:
        try:
            return level, await call.stream(messages, conclude, may_shorten=True)
        except ContextOverflow:
            call.shorten()
    messages = await prompt(stronger)
    return stronger, await call.stream(messages, conclude)


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
    context = await ContextManager.prepare_agent_context(ctx, agent.config.name, job_id)
    system = agent.build_complete_system_prompt(context)
    return ContextManager.build_agent_messages(
        system, history, instruction, turns, protocol=agent.protocol, level=level, note=note
    )


class _Call:
    """One model call: it measures, says what happens, and stores what came of it."""

    def __init__(self, ctx: RunContext, agent: BaseAgent, job_id: str, step: int, begun: Begun) -> None:
        self._ctx = ctx
        self._agent = agent
        self._name = agent.config.name
        self._job_id = job_id
        self._step = step
        self._is_announced = begun.is_announced
        self._n_begun = len(begun.failed)
        n_too_long = begun.failed.count(ContextOverflow.__name__)
        self._attempt = 1 + n_too_long
        self._n_failed = next(
            (n for n, kind in enumerate(reversed(begun.failed)) if kind == ContextOverflow.__name__), self._n_begun
        )
        self._new_attempt()

    @classmethod
    async def begin(cls, ctx: RunContext, agent: BaseAgent, job_id: str, step: int) -> "_Call":
        """The call of a step; it goes on where another process left the run in it."""
        begun = Begun() if ctx.is_new else await ctx.services.calls.begun(ctx.run.run_id, job_id, step)
        return cls(ctx, agent, job_id, step, begun)

    @property
    def was_too_long(self) -> bool:
        """Whether the model refused an attempt because the prompt was too long."""
        return self._attempt > 1

    def _new_attempt(self) -> None:
        self._id = call_id(self._ctx.run.run_id, self._job_id, self._step, self._n_begun)
        self._n_begun += 1
        self._chosen = self._ctx.tape.model(self._id, self._ctx.run.settings.get("model"))
        self._model = self._agent.model_in_a_run(self._chosen)

    def announce(self, instruction: str) -> None:
        """Say that the agent's turn begins, unless that was said before the run was taken up again."""
        if not self._is_announced:
            told = {"job_id": self._job_id, "step": self._step, "instruction": instruction, "model": self._model}
            self._ctx.journal.emit(StreamEventType.AGENT_START, told, agent=self._name)

    async def stream(self, messages: tuple[Message, ...], conclude: bool, *, may_shorten: bool = False) -> ModelReply:
        """The model's reply; its pieces are told as they arrive, each failed attempt is stored.

        With `may_shorten`, an attempt whose prompt is too long is told as one that another follows.
        """
        attempt = self._attempt + self._n_failed
        request = self._agent.request(messages, conclude=conclude, chosen=self._chosen)
        asking = Asking(self._id, self._name, self._job_id, self._step, self._model, request)
        await self._ctx.stand_within(self._id)
        await self._look_up(asking, attempt)
        self._ctx.under_way()
        try:
            stream = self._ctx.tape.stream(asking, lambda: self._agent.model.stream(request))
            async with aclosing(stream) if isinstance(stream, AsyncGenerator) else nullcontext(stream) as events:
                arriving = aiter(events)
                while (event := await self._ctx.beside.halting.next(arriving)) is not None:
                    if type(event) is ModelDelta:
                        self._tell(event)
                    elif isinstance(event, RetryNotice):
                        await self._retry(event)
                        attempt = self._attempt + self._n_failed + event.attempt
                        await self._look_up(replace(asking, call_id=self._id), attempt)
                    elif isinstance(event, GivenUp):
                        await self._give_up(attempt, event)
                        attempt += 1
                        await self._look_up(replace(asking, call_id=self._id), attempt)
                    elif isinstance(event, ModelReply):
                        return _storable(event)
            ended = f"{self._agent.model.provider} ended its turn without a reply."
            raise ModelUnavailable(ended, partial=self._record.partial)
        except ModelError as error:
            is_shortened = may_shorten and isinstance(error, ContextOverflow)
            told = {"attempt": self._attempt, "delay_s": 0.0, "reason": _TOO_LONG} if is_shortened else None
            why = type(error).__name__, self._ctx.services.mask(str(error)), error.partial
            await self._record_failure(attempt, *why, told=told)
            raise
        except asyncio.CancelledError:
            await self._record_failure(attempt, *_GIVEN_UP, self._record.partial)
            raise

    async def _look_up(self, asking: Asking, attempt: int) -> None:
        """Find out what is recorded of an attempt, tell who watches, and begin to measure it."""
        self._recorded = self._ctx.tape.look_up(asking)
        provider = self._agent.model.provider if self._recorded is None else self._recorded.provider
        opening = Opening(
            call_id=self._id,
            job_id=self._job_id,
            step=self._step,
            agent=self._name,
            provider=provider,
            model=self._model,
            temperature=self._agent.config.temperature,
            messages=asking.request.messages,
            offer=_offer(asking.request),
        )
        self._record = CallRecord(self._ctx, opening, self._recorded)
        now = self._ctx.tape.clock.now(self._job_id)
        self._told = await self._ctx.watch.model_asked(asking, provider, attempt, now)
        self._record.start()

    def shorten(self) -> None:
        """Begin another attempt, with a shorter prompt."""
        self._attempt += 1
        self._n_failed = 0
        self._new_attempt()

    def _tell(self, delta: ModelDelta) -> None:
        is_empty = not delta.text and delta.kind != "call" and self._recorded is None  # a mask may empty recorded ones
        if not self._agent.config.streaming or is_empty:
            return
        self._record.tell(delta)

    async def _retry(self, notice: RetryNotice) -> None:
        attempt = self._n_failed + notice.attempt
        reason = self._ctx.services.mask(notice.reason)
        told = {"attempt": attempt, "delay_s": notice.delay_s, "reason": reason}
        failed = attempt, "ModelUnavailable", reason, ""
        await self._record_failure(*failed, retry_delay_s=notice.delay_s, told=told)
        self._new_attempt()

    async def _give_up(self, attempt: int, given_up: GivenUp) -> None:
        """Store an attempt as it was left; nobody is told what had arrived of it, since that comes again."""
        self._record.keep(given_up.pieces)
        await self._record_failure(attempt, *_GIVEN_UP, given_up.partial)
        self._new_attempt()

    async def _record_failure(
        self,
        attempt: int,
        error_type: str,
        error_message: str,
        partial: str,
        retry_delay_s: float | None = None,
        told: Mapping[str, Any] | None = None,
    ) -> None:
        """Store an attempt that failed; where another follows, what is told of that goes with it."""
        row = self._record.failed(
            error_type, error_message, partial, attempt=attempt, retry_delay_s=retry_delay_s, told=told
        )
        await self._ctx.services.calls.record_turn(row, (), self._ctx.journal.take())
        await self._ctx.watch.model_failed(self._told, row)

    async def record(self, reply: ModelReply, response: AgentResponse, level: str) -> Turn:
        """Store the reply with its calls, and say that the turn is over."""
        attempt = self._attempt - 1 + self._n_failed + reply.attempts
        row = self._record.replied(
            reply, response.content, response.routing, attempt=attempt, limit_chars=COMPRESSION_LEVELS[level]
        )
        calls = [(tool_call_id(self._id, position), call) for position, call in enumerate(response.tool_calls)]
        await self._ctx.services.calls.record_turn(row, calls, self._ctx.journal.take())
        await self._ctx.watch.model_replied(self._told, row, reply, response.tool_calls)
        return Turn(self._id, tuple(StoredCall(key, call, PENDING) for key, call in calls), level)


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
