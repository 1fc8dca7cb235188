"""Model calls of an adapted graph, as rows and events like those of the package's agents."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from artifactflow_nb.core.clock_ids import CallTimes, call_id, tool_call_id
from artifactflow_nb.core.events import MAIN_JOB, PARALLEL_SEPARATOR, StreamEventType
from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.flows.known_secrets import MaskedPieces
from artifactflow_nb.flows.langgraph.messages import deltas_from_chunk, model_name_of, model_reply, model_request
from artifactflow_nb.flows.model_call import ModelCallRecord, ModelCallStart
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.store.calls import PENDING, OpenCall, StoredCall, ToolCallSettings

GRAPH_TOOL_SETTINGS = ToolCallSettings("native", "auto")
"""How a graph offers tools to its models, as far as can be known from outside."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The node that makes a call, and the job in which it runs."""

    agent: str
    job_id: str


class GraphCalls:
    """The open model calls of a run, by LangChain's run ids.

    A call that starts while another of its job is open gets a job of its own, so that parallel calls differ.
    """

    def __init__(self, ctx: RunContext) -> None:
        self._ctx = ctx
        self._open: dict[str, ModelCallRecord] = {}
        self._steps: dict[str, int] = {}
        self._pieces: dict[str, MaskedPieces] = {}

    @property
    def open_calls(self) -> tuple[str, ...]:
        """Ids of the open calls."""
        return tuple(self._open)

    async def begin(self, key: str, caller: Caller, event: Mapping[str, Any], times: CallTimes | None) -> None:
        """Publish the start of a call; `times` has the time at which it started, None for now."""
        busy = {record.call_start.job_id for record in self._open.values()}
        job_id, n = caller.job_id, 1
        while job_id in busy:
            job_id = PARALLEL_SEPARATOR.join([caller.job_id, caller.agent, *([str(n)] if n > 1 else [])])
            n += 1
        if job_id not in self._steps:
            self._steps[job_id] = await self._ctx.services.calls.last_step(self._ctx.run.run_id, job_id)
        self._steps[job_id] += 1
        metadata = event["metadata"]
        start = ModelCallStart(
            call_id=call_id(self._ctx.run.run_id, job_id, self._steps[job_id], 0),
            job_id=job_id,
            step=self._steps[job_id],
            agent=caller.agent,
            provider=str(metadata.get("ls_provider") or "langchain"),
            model=self._ctx.secrets.text(model_name_of(event)),
            temperature=metadata.get("ls_temperature"),
            messages=self._ctx.secrets.messages(model_request(event["data"]).messages),
            tool_settings=GRAPH_TOOL_SETTINGS,
        )
        record = self._open[key] = ModelCallRecord(self._ctx, start, times)
        instruction = self._ctx.run.question if job_id == MAIN_JOB else ""
        record.emit(StreamEventType.AGENT_START, instruction=instruction, model=start.model)

    def publish_chunk(self, key: str, chunk: Any) -> None:
        """Publish a chunk of a reply, unless its call has failed."""
        if key not in self._open:
            return
        pieces = self._pieces.setdefault(key, MaskedPieces(self._ctx.secrets))
        for delta in deltas_from_chunk(chunk):
            text = pieces.feed(delta.kind, delta.text) if self._ctx.secrets else delta.text
            if text or delta.kind == "call":
                self._open[key].publish_delta(delta.kind, text, self._ctx.secrets.text(delta.tool))

    def _publish_rest(self, key: str, *, is_cut_off: bool) -> None:
        """Publish the text that was held back because it could have been the start of a secret."""
        if (pieces := self._pieces.pop(key, None)) is not None:
            for kind, text in pieces.finish(is_cut_off=is_cut_off):
                self._open[key].publish_delta(kind, text)

    async def finish(self, key: str, output: Any) -> list[OpenCall]:
        """Store and publish a reply; return its tool calls."""
        if (record := self._open.get(key)) is None:
            return []
        self._publish_rest(key, is_cut_off=False)
        start = record.call_start
        request = ModelRequest(start.messages, tool_protocol="native")
        reply = self._ctx.secrets.reply(model_reply(output, request, start.model, record.ttft_ms))
        routing = [{"type": "tool_call", "tool_name": call.name, "params": dict(call.params)} for call in reply.calls]
        row = self._open.pop(key).complete(reply, reply.content, routing)
        calls = [(tool_call_id(row.call_id, position), call) for position, call in enumerate(reply.calls)]
        await self._ctx.services.calls.record_turn(row, calls, self._ctx.event_writer.drain())
        return [OpenCall(StoredCall(key, call, PENDING), start.job_id, start.agent) for key, call in calls]

    async def fail(self, key: str, error_type: str, message: str, *, graph_continues: bool = False) -> None:
        """Store a call without a reply; if the graph continues, it is published as a retry, which voids its text."""
        self._publish_rest(key, is_cut_off=True)
        record = self._open.pop(key)
        reason = storable_text(self._ctx.services.redact(message))
        retry = {"attempt": 1, "delay_s": 0.0, "reason": reason} if graph_continues else None
        row = record.fail(error_type, reason, record.partial, retry_payload=retry)
        await self._ctx.services.calls.record_turn(row, (), self._ctx.event_writer.drain())
