"""One attempt at a model call: its events, its streamed pieces and its row.

The calls of agents and of adapted graphs are recorded here and nowhere else; the caller stores the row.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from artifactflow_nb.core.budget import cost_usd
from artifactflow_nb.core.clock_ids import CallTimes
from artifactflow_nb.core.events import StreamedText, StreamEventType
from artifactflow_nb.core.messages import COMPUTED_PROVIDER, DeltaKind, Message, Usage
from artifactflow_nb.core.pieces import PieceTuple, pack
from artifactflow_nb.core.runs import OutcomeFilter
from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.core.toolcalls.streamed import MARKS, ReplySplitter
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.models.base import ModelReply
from artifactflow_nb.store.calls import LlmCall, ToolCallSettings


@dataclass(frozen=True, slots=True)
class ModelCallStart:
    """A model call at its start: its ids, its model and its prompt."""

    call_id: str
    job_id: str
    step: int
    agent: str
    provider: str
    model: str
    temperature: float | None
    messages: tuple[Message, ...]
    tool_settings: ToolCallSettings


class ModelCallRecord:
    """One attempt at a model call.

    Args:
        ctx: The run.
        call_start: The call.
        times: The times of a call that is reported later than it happened; None for a call that starts now.
        tells_outcome: Whether the reply may end with an outcome, which is removed from the published text.
    """

    def __init__(
        self,
        ctx: RunContext,
        call_start: ModelCallStart,
        times: CallTimes | None = None,
        *,
        tells_outcome: bool = False,
    ) -> None:
        self.call_start = call_start
        self._ctx = ctx
        self._times = times
        self._span = ctx.clock.start(times)
        self._pieces: list[PieceTuple] = []
        self._splitter: ReplySplitter | None = ReplySplitter()
        self._outcome = OutcomeFilter() if tells_outcome else None
        self._texts: dict[DeltaKind, StreamedText] = {
            "answer": StreamedText(),
            "reasoning": StreamedText(),
            "call": StreamedText(),
        }

    @property
    def text(self) -> str:
        """Everything that has arrived: answer, reasoning and calls."""
        return "".join(streamed.text for streamed in self._texts.values())

    @property
    def partial(self) -> str:
        """The reply so far, including calls in its text."""
        is_xml = self.call_start.tool_settings.tool_protocol == "xml"
        return self._texts["answer"].text + (self._texts["call"].text if is_xml else "")

    @property
    def ttft_ms(self) -> float | None:
        """Time until the first piece arrived, in milliseconds; None before the first piece."""
        if self._times is not None and self._times.first_piece is not None:
            return (self._times.first_piece - self._times.started) * 1000
        return (self._pieces[0][3] - self._span.at).total_seconds() * 1000 if self._pieces else None

    @property
    def _reasoning_ms(self) -> float | None:
        """Time of the reasoning in milliseconds, until the reply starts; None without reasoning."""
        starts = [at for kind, _, _, at, _ in self._pieces if kind == "reasoning"]
        if not starts:
            return None
        end = next((at for kind, _, _, at, _ in self._pieces if kind != "reasoning"), starts[-1])
        return round((end - starts[0]).total_seconds() * 1000, 3)

    def restart(self) -> None:
        """Restart the measurement, because the wait before a retry does not count as time of the model."""
        self._span = self._ctx.clock.start()

    def publish_delta(self, kind: DeltaKind, piece: str, tool: str = "") -> None:
        """Publish a piece of the reply; `tool` names the tool of a native call.

        Pieces of calls in the text get the kind `call`. Characters that may be the beginning of a call are
        withheld until the next piece or `finish`.
        """
        start, splitter = self.call_start, self._splitter
        outcome = self._outcome
        if kind == "answer" and outcome is not None and (outcome.is_open or "<" in piece):
            piece = outcome.feed(piece)
            if not piece:
                return
        parts: Iterable[tuple[DeltaKind, str, str]] = ((kind, piece, tool),)
        if kind == "answer" and splitter is not None:
            if splitter.is_open or not MARKS.isdisjoint(piece):
                parts = splitter.feed(piece)
            else:  # no function is called for a piece without marks, to save time
                splitter.last = piece[-1:] or splitter.last
        for part_kind, part, called_tool in parts:
            text = self._texts[part_kind]
            if not part.isascii():
                part = storable_text(part)  # noqa: PLW2901
            if not called_tool.isascii():
                called_tool = storable_text(called_tool)  # noqa: PLW2901
            data = {"job_id": start.job_id, "call_id": start.call_id, "kind": part_kind, "delta": part}
            data["tool_protocol"] = start.tool_settings.tool_protocol
            at, seq = self._ctx.event_writer.publish_chunk(
                start.agent, data, text, text.append(part), tool=called_tool or None
            )
            self._pieces.append((part_kind, called_tool, part, at, seq))

    def finish(self) -> None:
        """Publish the withheld text after the last piece."""
        outcome, self._outcome = self._outcome, None
        if outcome is not None and (text := outcome.finish()):
            self.publish_delta("answer", text)
        splitter, self._splitter = self._splitter, None
        for part in splitter.finish() if splitter is not None else ():
            self.publish_delta(*part)

    def emit(self, kind: StreamEventType, **data: Any) -> None:
        """Publish an event of the turn."""
        payload = {"job_id": self.call_start.job_id, "step": self.call_start.step, **data}
        self._ctx.event_writer.emit(kind, payload, agent=self.call_start.agent)

    def complete(
        self,
        reply: ModelReply,
        text: str,
        routing: Sequence[Mapping[str, Any]],
        *,
        ignored_calls: Sequence[str] = (),
        attempt: int = 1,
        limit_chars: int | None = None,
        outcome: str | None = None,
        notice: str = "",
    ) -> LlmCall:
        """Publish the end of the turn; return the row of the call.

        `text` is the reply without tool calls.
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
            provider_fields=reply.provider_fields,
        )
        usage = usage_json(reply.usage)
        more: dict[str, Any] = {"ignored_calls": list(ignored_calls)} if ignored_calls else {}
        if outcome is not None:
            more["outcome"] = outcome
        if notice:
            more["notice"] = notice
        if (reasoning_ms := self._reasoning_ms) is not None:
            more["reasoning_ms"] = reasoning_ms
        if limit_chars is not None:
            more["context"] = {"chars": row.context_chars, "limit_chars": limit_chars}
        self.emit(
            StreamEventType.LLM_COMPLETE,
            call_id=row.call_id,
            model="" if self.call_start.provider == COMPUTED_PROVIDER else reply.model,
            text=text,
            reasoning=reply.reasoning,
            finish_reason=reply.finish_reason,
            duration_ms=row.llm_duration_ms,
            ttft_ms=reply.ttft_ms,
            token_usage=usage,
            cost_usd=row.cost_usd,
            **more,
        )
        self.emit(StreamEventType.AGENT_COMPLETE, content=text, routing=list(routing), token_usage=usage)
        return row

    def fail(
        self,
        error_type: str,
        message: str,
        partial: str,
        *,
        attempt: int = 1,
        retry_delay_s: float | None = None,
        retry_payload: Mapping[str, Any] | None = None,
        usage: Usage | None = None,
    ) -> LlmCall:
        """Return the row of a failed call, with the usage if known; publish the retry if a retry follows."""
        row = self._row(
            attempt=attempt,
            content=storable_text(partial),
            error_type=error_type,
            error_message=storable_text(message),
            retry_delay_s=retry_delay_s,
            usage=usage,
        )
        if retry_payload is not None:
            self.emit(StreamEventType.RETRY, call_id=row.call_id, **retry_payload)
        return row

    def _row(self, **outcome: Any) -> LlmCall:
        start, span, usage = self.call_start, self._span, outcome.get("usage")
        completed_at, duration_ms = self._ctx.clock.stop(span, self._times)
        texts = {"answer": outcome["content"], "reasoning": outcome.get("reasoning", "")}
        cost = cost_usd(self._ctx.services.prices, (start.model, outcome.get("response_model")), usage)
        return LlmCall(
            call_id=start.call_id,
            run_id=self._ctx.run.run_id,
            job_id=start.job_id,
            step=start.step,
            agent_name=start.agent,
            provider=start.provider,
            request_model=start.model,
            messages=start.messages,
            started_at=span.at,
            completed_at=completed_at,
            llm_duration_ms=duration_ms,
            temperature=start.temperature,
            cost_usd=cost,
            tool_settings=start.tool_settings,
            pieces=pack(self._pieces, span.at, texts),
            **outcome,
        )


def usage_json(usage: Usage) -> dict[str, Any]:
    """Convert token counts to the form of events."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "estimated": usage.estimated,
    }
