"""The model calls of an adapted graph, as rows and events like those of our agents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from artifactflow_nb.events import BESIDE, MAIN_JOB, StreamEventType
from artifactflow_nb.flows.adapted_values import deltas_of, reply_of, request_of
from artifactflow_nb.flows.call_record import CallRecord, Opening
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.messages import ToolCall
from artifactflow_nb.models.base import ModelDelta, ModelReply, ModelRequest
from artifactflow_nb.recordings.pieces import Piece
from artifactflow_nb.recordings.values import RecordedTurn, call_id, tool_call_id
from artifactflow_nb.store.calls import PENDING, Offer, OpenCall, StoredCall
from artifactflow_nb.store.storable import storable_text

GRAPH_OFFER = Offer("native", "auto")
"""How a graph's models are told of tools, so far as anybody outside of the graph knows."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a call: the node by its name, and the job in which it does, if that is not at work already."""

    agent: str
    job_id: str


class GraphCalls:
    """Follows the model calls of one run by the ids that LangChain gives them.

    A call that begins while another of its job goes on has a job of its own, so that what happens at the same time is
    told apart.

    Args:
        ctx: The run.
    """

    def __init__(self, ctx: RunContext) -> None:
        self._ctx = ctx
        self._open: dict[str, CallRecord] = {}
        self._steps: dict[str, int] = {}

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
            model=model_of(event),
            temperature=told.get("ls_temperature"),
            messages=request_of(event["data"]).messages,
            offer=GRAPH_OFFER,
        )
        self.enter(key, opening)

    def enter(self, key: str, opening: Opening, known: RecordedTurn | None = None) -> None:
        """Say that this call begins, of which something may be recorded."""
        record = self._open[key] = CallRecord(self._ctx, opening, known)
        record.start()
        instruction = self._ctx.run.question if opening.job_id == MAIN_JOB else ""
        record.emit(StreamEventType.AGENT_START, instruction=instruction, model=opening.model)

    def _job(self, caller: Caller) -> str:
        busy = {record.opening.job_id for record in self._open.values()}
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

    def piece(self, key: str, chunk: Any) -> None:
        """Tell a piece of a reply, unless its call has failed meanwhile."""
        for delta in deltas_of(chunk) if key in self._open else ():
            self.tell(key, delta)

    def tell(self, key: str, delta: ModelDelta) -> None:
        """Tell what a piece of a reply brings."""
        self._open[key].tell(delta)

    def keep(self, key: str, pieces: Sequence[Piece]) -> None:
        """Take in pieces of a reply that are told no more."""
        self._open[key].keep(pieces)

    async def finish(self, key: str, output: Any) -> list[OpenCall]:
        """Store and tell a reply; the tool calls that it asks for."""
        if (record := self._open.get(key)) is None:
            return []
        opening = record.opening
        request = ModelRequest(opening.messages, tool_protocol="native")
        reply = reply_of(output, request, opening.model, record.ttft_ms)
        calls = await self.complete(key, reply)
        return [OpenCall(StoredCall(made, call, PENDING), opening.job_id, opening.agent) for made, call in calls]

    async def complete(self, key: str, reply: ModelReply) -> list[tuple[str, ToolCall]]:
        """Store and tell this reply; the tool calls that it asks for by their ids."""
        routing = [{"type": "tool_call", "tool_name": call.name, "params": dict(call.params)} for call in reply.calls]
        row = self._open.pop(key).replied(reply, reply.content, routing)
        calls = [(tool_call_id(row.call_id, position), call) for position, call in enumerate(reply.calls)]
        await self._ctx.services.calls.record_turn(row, calls, self._ctx.journal.take())
        return calls

    async def fail(self, key: str, error_type: str, message: str, *, goes_on: bool = False) -> None:
        """Store that a call gave no reply; if the graph goes on all the same, what it had said is void."""
        record = self._open.pop(key)
        reason = storable_text(self._ctx.services.mask(message))
        told = {"attempt": 1, "delay_s": 0.0, "reason": reason} if goes_on else None
        row = record.failed(error_type, reason, record.partial, told=told)
        await self._ctx.services.calls.record_turn(row, (), self._ctx.journal.take())


def model_of(event: Mapping[str, Any]) -> str:
    """The name of the model that is asked, of the event that says so."""
    return str(event["metadata"].get("ls_model_name") or event["name"])
