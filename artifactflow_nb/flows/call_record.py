"""A model call as it is told and stored: one attempt, with its pieces, its row, and the events of how it ended.

The calls of our agents, of adapted graphs and of recordings that are played are written here and nowhere else; who
makes a call stores what is made of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from artifactflow_nb.budget import cost_usd
from artifactflow_nb.events import StreamEventType, TextSoFar
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.messages import Message, Usage
from artifactflow_nb.models.base import ModelDelta, ModelReply
from artifactflow_nb.recordings.clock import Span
from artifactflow_nb.recordings.pieces import Noted, Piece, pack
from artifactflow_nb.recordings.values import RecordedTurn
from artifactflow_nb.store.calls import LlmCall, Offer
from artifactflow_nb.store.storable import storable_text


@dataclass(frozen=True, slots=True)
class Opening:
    """A model call that begins: its id, its place, and what is asked of which model, with which tools."""

    call_id: str
    job_id: str
    step: int
    agent: str
    provider: str
    model: str
    temperature: float | None
    messages: tuple[Message, ...]
    offer: Offer


class CallRecord:
    """One attempt at a model call.

    Args:
        ctx: The run.
        opening: The call.
        known: What is recorded of it.

    Attributes:
        opening: The call.
    """

    def __init__(self, ctx: RunContext, opening: Opening, known: RecordedTurn | None = None) -> None:
        self.opening = opening
        self._ctx = ctx
        self._known = known
        self._begun: Span | None = None
        self._pieces: list[Noted] = []
        self._texts = {"answer": TextSoFar(), "reasoning": TextSoFar(), "call": TextSoFar()}

    def start(self) -> Span:
        """Begin to measure it."""
        self._begun = self._ctx.tape.clock.start(self.opening.call_id, self.opening.job_id)
        return self._begun

    @property
    def _span(self) -> Span:
        return self._begun or self.start()

    @property
    def partial(self) -> str:
        """The answer text that has arrived."""
        return self._texts["answer"].text

    @property
    def ttft_ms(self) -> float | None:
        """How long the first piece took to arrive, in milliseconds; None while there is none."""
        return (self._pieces[0][3] - self._span.at).total_seconds() * 1000 if self._pieces else None

    def tell(self, delta: ModelDelta) -> None:
        """Tell what a piece of the reply brings."""
        opening, text = self.opening, self._texts[delta.kind]
        data = {"job_id": opening.job_id, "call_id": opening.call_id, "kind": delta.kind, "delta": delta.text}
        at = self._ctx.tape.clock.tick(self._span)
        seq = self._ctx.journal.chunk(opening.agent, data, text, text.append(delta.text), tool=delta.tool or None)
        self._pieces.append((delta.kind, delta.tool, delta.text, at, seq))

    def keep(self, pieces: Sequence[Piece]) -> None:
        """Take in pieces that are told no more."""
        self._pieces.extend(pieces)
        for piece in pieces:
            self._texts[piece.kind].append(piece.text)

    def emit(self, kind: StreamEventType, **data: Any) -> None:
        """Tell something of the turn that the call is."""
        told = {"job_id": self.opening.job_id, "step": self.opening.step, **data}
        self._ctx.journal.emit(kind, told, agent=self.opening.agent)

    def replied(
        self,
        reply: ModelReply,
        text: str,
        routing: Sequence[Mapping[str, Any]],
        *,
        attempt: int = 1,
        limit_chars: int | None = None,
    ) -> LlmCall:
        """Tell that the turn is over; the call's row.

        Args:
            reply: What the model gave.
            text: What of it is the agent's text.
            routing: What the agent does next.
            attempt: Which attempt this is.
            limit_chars: How long the prompt could be; None if nobody cuts it.
        """
        row = self._row(
            response_model=reply.model,
            finish_reason=reply.finish_reason,
            ttft_ms=reply.ttft_ms,
            usage=reply.usage,
            attempt=attempt,
            content=reply.content,
            reasoning=reply.reasoning,
            n_native_calls=len(reply.calls),
        )
        usage = usage_json(reply.usage)
        told = {} if limit_chars is None else {"context": {"chars": row.context_chars, "limit_chars": limit_chars}}
        self.emit(
            StreamEventType.LLM_COMPLETE,
            call_id=row.call_id,
            model=reply.model,
            text=text,
            reasoning=reply.reasoning,
            finish_reason=reply.finish_reason,
            duration_ms=row.llm_duration_ms,
            ttft_ms=reply.ttft_ms,
            token_usage=usage,
            cost_usd=row.cost_usd,
            **told,
        )
        self.emit(StreamEventType.AGENT_COMPLETE, content=text, routing=list(routing), token_usage=usage)
        return row

    def failed(
        self,
        error_type: str,
        message: str,
        partial: str,
        *,
        attempt: int = 1,
        retry_delay_s: float | None = None,
        told: Mapping[str, Any] | None = None,
    ) -> LlmCall:
        """The row of a call that gave no reply; where another follows, what is told of that is told."""
        row = self._row(
            attempt=attempt,
            content=storable_text(partial),
            error_type=error_type,
            error_message=storable_text(message),
            retry_delay_s=retry_delay_s,
        )
        if told is not None:
            self.emit(StreamEventType.RETRY, call_id=row.call_id, **told)
        return row

    def _row(self, **outcome: Any) -> LlmCall:
        opening, span, usage = self.opening, self._span, outcome.get("usage")
        completed_at, duration_ms = self._ctx.tape.clock.stop(span)
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
            started_at=span.at,
            completed_at=completed_at,
            llm_duration_ms=duration_ms,
            temperature=opening.temperature,
            cost_usd=cost if self._known is None else self._known.cost_usd,
            cassette=self._ctx.tape.provenance(opening.call_id),
            offer=opening.offer,
            pieces=pack(self._pieces, span.at, texts),
            **outcome,
        )


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
