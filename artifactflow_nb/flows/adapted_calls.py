"""The model calls of an adapted graph, as rows and events like those of our agents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from artifactflow_nb.budget import Budget, cost_usd
from artifactflow_nb.errors import UsageError
from artifactflow_nb.events import BESIDE, MAIN_JOB, StreamEventType, TextSoFar
from artifactflow_nb.flows.adapted_values import deltas_of, reply_of, request_of
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.flows.turn import usage_json
from artifactflow_nb.flows.unbroken import unbroken
from artifactflow_nb.messages import Message, ToolCall
from artifactflow_nb.models.base import ModelDelta, ModelReply, ModelRequest
from artifactflow_nb.recordings.clock import Span
from artifactflow_nb.recordings.pieces import Noted, Piece, pack
from artifactflow_nb.recordings.values import RecordedTurn, call_id, tool_call_id
from artifactflow_nb.store.calls import PENDING, LlmCall, Offer, OpenCall, StoredCall
from artifactflow_nb.store.storable import storable_text

_OFFER = Offer("native", "auto")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a call: the node by its name, and the job in which it does, if that is not at work already."""

    agent: str
    job_id: str


@dataclass(frozen=True, slots=True)
class Opening:
    """A model call that begins: its id, its place, and what is asked of which model."""

    call_id: str
    job_id: str
    step: int
    agent: str
    provider: str
    model: str
    temperature: float | None
    messages: tuple[Message, ...]


@dataclass(slots=True)
class _Turn:
    """A model call that goes on; `known` is what is recorded of it."""

    opening: Opening
    span: Span
    known: RecordedTurn | None = None
    ttft_ms: float | None = None
    pieces: list[Noted] = field(default_factory=list)
    texts: dict[str, TextSoFar] = field(default_factory=dict)

    @property
    def request(self) -> ModelRequest:
        """What the model is asked."""
        return ModelRequest(self.opening.messages, tool_protocol="native")

    def text(self, kind: str) -> TextSoFar:
        """The text of a kind so far."""
        return self.texts.setdefault(kind, TextSoFar())


class GraphCalls:
    """Follows the model calls of one run by the ids that LangChain gives them.

    A call that begins while another of its job goes on has a job of its own, so that what happens at the same time is
    told apart.

    Args:
        ctx: The run.
    """

    def __init__(self, ctx: RunContext) -> None:
        self._ctx = ctx
        self._open: dict[str, _Turn] = {}
        self._steps: dict[str, int] = {}
        budget = ctx.run.settings.get("budget")
        self._limits_cost = budget is not None and Budget.of(budget).usd is not None

    @property
    def open(self) -> tuple[str, ...]:
        """The calls that go on."""
        return tuple(self._open)

    async def begin(self, key: str, caller: Caller, event: Mapping[str, Any]) -> None:
        """Say that a call begins."""
        told = event["metadata"]
        job_id = self._job(caller)
        step = await self._next_step(job_id)
        opening = Opening(
            call_id=call_id(self._ctx.run.run_id, job_id, step, 0),
            job_id=job_id,
            step=step,
            agent=caller.agent,
            provider=str(told.get("ls_provider") or "langchain"),
            model=str(told.get("ls_model_name") or event["name"]),
            temperature=told.get("ls_temperature"),
            messages=request_of(event["data"]).messages,
        )
        self.enter(key, opening)

    def enter(self, key: str, opening: Opening, known: RecordedTurn | None = None) -> None:
        """Say that this call begins, of which something may be recorded."""
        span = self._ctx.tape.clock.start(opening.call_id, opening.job_id)
        turn = self._open[key] = _Turn(opening, span, known)
        instruction = self._ctx.run.question if opening.job_id == MAIN_JOB else ""
        self._emit(turn, StreamEventType.AGENT_START, instruction=instruction, model=opening.model)

    def _job(self, caller: Caller) -> str:
        busy = {turn.opening.job_id for turn in self._open.values()}
        job_id, n = caller.job_id, 1
        while job_id in busy:
            job_id = BESIDE.join([caller.job_id, caller.agent, *([str(n)] if n > 1 else [])])
            n += 1
        return job_id

    async def _next_step(self, job_id: str) -> int:
        if job_id not in self._steps:
            self._steps[job_id] = await self._ctx.services.calls.last_step(self._ctx.run.run_id, job_id)
        self._steps[job_id] += 1
        return self._steps[job_id]

    def _emit(self, turn: _Turn, kind: StreamEventType, **data: Any) -> None:
        opening = turn.opening
        told = {"job_id": opening.job_id, "step": opening.step, **data}
        self._ctx.journal.emit(kind, told, agent=opening.agent)

    def piece(self, key: str, chunk: Any) -> None:
        """Tell a piece of a reply, unless its call has failed meanwhile."""
        for delta in deltas_of(chunk) if key in self._open else ():
            self.tell(key, delta)

    def tell(self, key: str, delta: ModelDelta) -> None:
        """Tell what a piece of a reply brings."""
        turn = self._open[key]
        opening, text = turn.opening, turn.text(delta.kind)
        at = self._ctx.tape.clock.tick(turn.span)
        if turn.ttft_ms is None:
            turn.ttft_ms = (at - turn.span.at).total_seconds() * 1000
        data = {"job_id": opening.job_id, "call_id": opening.call_id, "kind": delta.kind, "delta": delta.text}
        n_parts = text.append(delta.text)
        seq = self._ctx.journal.chunk(opening.agent, data, text, n_parts, tool=delta.tool or None)
        turn.pieces.append((delta.kind, delta.tool, delta.text, at, seq))

    def keep(self, key: str, pieces: Sequence[Piece]) -> None:
        """Take in pieces of a reply that are told no more."""
        turn = self._open[key]
        turn.pieces.extend(pieces)
        for piece in pieces:
            turn.text(piece.kind).append(piece.text)

    async def finish(self, key: str, output: Any) -> list[OpenCall]:
        """Store and tell a reply; the tool calls that it asks for.

        Errors: `UsageError` if the run's cost is limited and the call has no price: the limit would never be reached.
        """
        if (turn := self._open.get(key)) is None:
            return []
        opening = turn.opening
        reply = reply_of(output, turn.request, opening.model, turn.ttft_ms)
        row, calls = await self.complete(key, reply)
        if self._limits_cost and row.cost_usd is None:
            raise UsageError(
                f"The budget limits the cost, and there is no price for the model {reply.model!r} of {opening.agent}. "
                f"Pass prices={{{reply.model!r}: {{'input': ..., 'output': ...}}}}, in US dollars for a million tokens."
            )
        return [OpenCall(StoredCall(made, call, PENDING), opening.job_id, opening.agent) for made, call in calls]

    async def complete(self, key: str, reply: ModelReply) -> tuple[LlmCall, list[tuple[str, ToolCall]]]:
        """Store and tell this reply; its row, and the tool calls that it asks for by their ids."""
        turn = self._open.pop(key)
        row = self._row(
            turn,
            response_model=reply.model,
            finish_reason=reply.finish_reason,
            ttft_ms=reply.ttft_ms,
            usage=reply.usage,
            content=reply.content,
            reasoning=reply.reasoning,
            n_native_calls=len(reply.calls),
        )
        calls = [(tool_call_id(row.call_id, position), call) for position, call in enumerate(reply.calls)]
        self._tell(turn, reply, row)
        await unbroken(self._ctx.services.calls.record_turn(row, calls, self._ctx.journal.take()))
        return row, calls

    def _tell(self, turn: _Turn, reply: ModelReply, row: LlmCall) -> None:
        usage = usage_json(reply.usage)
        self._emit(
            turn,
            StreamEventType.LLM_COMPLETE,
            call_id=row.call_id,
            model=reply.model,
            text=reply.content,
            reasoning=reply.reasoning,
            finish_reason=reply.finish_reason,
            duration_ms=row.llm_duration_ms,
            ttft_ms=reply.ttft_ms,
            token_usage=usage,
            cost_usd=row.cost_usd,
        )
        routing = [{"type": "tool_call", "tool_name": call.name, "params": dict(call.params)} for call in reply.calls]
        self._emit(turn, StreamEventType.AGENT_COMPLETE, content=reply.content, routing=routing, token_usage=usage)

    async def fail(self, key: str, error_type: str, message: str, *, goes_on: bool = False) -> None:
        """Store that a call gave no reply; if the graph goes on all the same, what it had said is void."""
        turn = self._open.pop(key)
        said, reason = turn.text("answer").text, storable_text(self._ctx.services.mask(message))
        row = self._row(turn, content=said, error_type=error_type, error_message=reason)
        if goes_on:
            self._emit(turn, StreamEventType.RETRY, call_id=row.call_id, attempt=1, delay_s=0.0, reason=reason)
        await unbroken(self._ctx.services.calls.record_turn(row, (), self._ctx.journal.take()))

    def _row(self, turn: _Turn, **outcome: Any) -> LlmCall:
        opening, usage = turn.opening, outcome.get("usage")
        completed_at, duration_ms = self._ctx.tape.clock.stop(turn.span)
        texts = {"answer": outcome["content"], "reasoning": outcome.get("reasoning", "")}
        cost = cost_usd(self._ctx.services.prices, (opening.model, outcome.get("response_model")), usage)
        return LlmCall(
            call_id=opening.call_id,
            run_id=self._ctx.run.run_id,
            job_id=opening.job_id,
            step=opening.step,
            agent_name=opening.agent,
            provider=opening.provider,
            request_model=opening.model,
            messages=opening.messages,
            started_at=turn.span.at,
            completed_at=completed_at,
            llm_duration_ms=duration_ms,
            temperature=opening.temperature,
            cost_usd=cost if turn.known is None else turn.known.cost_usd,
            cassette=self._ctx.tape.provenance(opening.call_id),
            offer=_OFFER,
            pieces=pack(turn.pieces, turn.span.at, texts),
            **outcome,
        )
