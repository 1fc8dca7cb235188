"""The model calls of an adapted graph, as rows and events like those of our agents."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from artifactflow_nb.budget import Budget, cost_usd
from artifactflow_nb.errors import UsageError
from artifactflow_nb.events import BESIDE, MAIN_JOB, StreamEventType, TextSoFar
from artifactflow_nb.flows.adapted_values import deltas_of, reply_of, request_of
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.flows.turn import usage_json
from artifactflow_nb.models.base import ModelReply, ModelRequest
from artifactflow_nb.recordings.clock import Span
from artifactflow_nb.recordings.pieces import Piece, pack
from artifactflow_nb.recordings.values import call_id, tool_call_id
from artifactflow_nb.store.calls import PENDING, LlmCall, Offer, OpenCall, StoredCall
from artifactflow_nb.store.storable import storable_text

_OFFER = Offer("native", "auto")


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a call: the node by its name, and the job in which it does, if that is not at work already."""

    agent: str
    job_id: str


@dataclass(slots=True)
class _Turn:
    """A model call that goes on."""

    call_id: str
    job_id: str
    step: int
    agent: str
    model: str
    told: Mapping[str, Any]
    request: ModelRequest
    span: Span
    ttft_ms: float | None = None
    pieces: list[Piece] = field(default_factory=list)
    texts: dict[str, TextSoFar] = field(default_factory=dict)

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
        told, ctx = event["metadata"], self._ctx
        job_id = self._job(caller)
        step = await self._next_step(job_id)
        made = call_id(ctx.run.run_id, job_id, step, 0)
        model = str(told.get("ls_model_name") or event["name"])
        span = ctx.tape.clock.start(made, job_id)
        self._open[key] = _Turn(made, job_id, step, caller.agent, model, told, request_of(event["data"]), span)
        instruction = ctx.run.question if job_id == MAIN_JOB else ""
        self._emit(self._open[key], StreamEventType.AGENT_START, instruction=instruction, model=model)

    def _job(self, caller: Caller) -> str:
        busy = {turn.job_id for turn in self._open.values()}
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
        told = {"job_id": turn.job_id, "step": turn.step, **data}
        self._ctx.journal.emit(kind, told, agent=turn.agent)

    def piece(self, key: str, chunk: Any) -> None:
        """Tell a piece of a reply."""
        if (turn := self._open.get(key)) is None:  # it has failed meanwhile
            return
        for delta in deltas_of(chunk):
            text = turn.text(delta.kind)
            at = self._ctx.tape.clock.tick(turn.span)
            if turn.ttft_ms is None:
                turn.ttft_ms = (at - turn.span.at).total_seconds() * 1000
            data = {"job_id": turn.job_id, "call_id": turn.call_id, "kind": delta.kind, "delta": delta.text}
            n_parts = text.append(delta.text)
            seq = self._ctx.journal.chunk(turn.agent, data, text, n_parts, tool=delta.tool or None)
            turn.pieces.append(Piece(delta.kind, delta.tool, delta.text, at, seq))

    async def finish(self, key: str, output: Any) -> list[OpenCall]:
        """Store and tell a reply; the tool calls that it asks for.

        Errors: `UsageError` if the run's cost is limited and the call has no price: the limit would never be reached.
        """
        if (turn := self._open.pop(key, None)) is None:
            return []
        reply = reply_of(output, turn.request, turn.model, turn.ttft_ms)
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
        calls = [(tool_call_id(turn.call_id, position), call) for position, call in enumerate(reply.calls)]
        self._tell(turn, reply, row)
        await self._ctx.services.calls.record_turn(row, calls, self._ctx.journal.take())
        if self._limits_cost and row.cost_usd is None:
            raise UsageError(
                f"The budget limits the cost, and there is no price for the model {reply.model!r} of {turn.agent}. "
                f"Pass prices={{{reply.model!r}: {{'input': ..., 'output': ...}}}}, in US dollars for a million tokens."
            )
        return [OpenCall(StoredCall(made, call, PENDING), turn.job_id, turn.agent) for made, call in calls]

    def _tell(self, turn: _Turn, reply: ModelReply, row: LlmCall) -> None:
        usage = usage_json(reply.usage)
        self._emit(
            turn,
            StreamEventType.LLM_COMPLETE,
            call_id=turn.call_id,
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
        self._ctx.tape.clock.tick(turn.span)
        if goes_on:
            data = {"call_id": turn.call_id, "attempt": 1, "delay_s": 0.0, "reason": storable_text(message)}
            self._emit(turn, StreamEventType.RETRY, **data)
        said = turn.text("answer").text
        row = self._row(turn, content=said, error_type=error_type, error_message=storable_text(message))
        await self._ctx.services.calls.record_turn(row, (), self._ctx.journal.take())

    def _row(self, turn: _Turn, **outcome: Any) -> LlmCall:
        usage, models = outcome.get("usage"), (turn.model, outcome.get("response_model"))
        completed_at, duration_ms = self._ctx.tape.clock.stop(turn.span)
        texts = {"answer": outcome["content"], "reasoning": outcome.get("reasoning", "")}
        return LlmCall(
            call_id=turn.call_id,
            run_id=self._ctx.run.run_id,
            job_id=turn.job_id,
            step=turn.step,
            agent_name=turn.agent,
            provider=str(turn.told.get("ls_provider") or "langchain"),
            request_model=turn.model,
            messages=turn.request.messages,
            started_at=turn.span.at,
            completed_at=completed_at,
            llm_duration_ms=duration_ms,
            temperature=turn.told.get("ls_temperature"),
            cost_usd=cost_usd(self._ctx.services.prices, models, usage),
            offer=_OFFER,
            pieces=pack(turn.pieces, turn.span.at, texts),
            **outcome,
        )
