"""Runs that a run begins for one of its calls: each with its own id, approvals and metrics.

::

    call ──> begun (or found again) ──> at work ──> ended: what came of it
                                          ^  └────> waits: the run that began it pauses at the same gates
                                          └── decided ──┘
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from artifactflow_nb.budget import Budget
from artifactflow_nb.events import StreamEventType
from artifactflow_nb.origin import Origin
from artifactflow_nb.store.runs import StoredRun

if TYPE_CHECKING:
    from artifactflow_nb.flows.services import RunContext

os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")  # read when LangGraph is imported

from langgraph.types import interrupt


@dataclass(frozen=True, slots=True)
class Rest:
    """That a run rests.

    Attributes:
        run: Its row.
        gates: Where it waits, as `Standing` says; empty if it has ended.
        seq: The number of the event that told it; 0 if the run had ended before somebody looked.
    """

    run: StoredRun
    gates: Sequence[Sequence[str]]
    seq: int = 0


class Subruns(Protocol):
    """What runs are begun by, for calls of others."""

    async def begin_for(self, origin: Origin, question: str, flow: str, **chosen: Any) -> StoredRun:
        """Begin a run for a call, in a conversation of its own; `chosen` are its budget and model."""

    async def until_rest(self, run_id: str, after: int | None = None) -> Rest:
        """Let a run go on, if it can and nobody drives it, and return when it has ended or waits.

        Args:
            run_id: The run.
            after: The number of an event: what was told until then is known. None to look at the run as it stands.

        Errors: `StoreError` if the store failed, and the run was left interrupted.
        """

    async def answer(self, run_id: str, requests: Sequence[str]) -> bool:
        """Decide on these requests of a run, whose caller went on beside them, as is recorded, whoever decided.

        Returns:
            Whether the run can go on now, or is over.
        """

    async def answer_at_pause(self, run: StoredRun, gates: Sequence[Sequence[str]]) -> bool:
        """Decide what clicks decided while a run waited at these gates, in their order, until it can go on.

        What code decided ends it: the code is there to do so again. A run that another began, and that is played with
        it, is left to that one: there the order is known.

        Returns:
            Whether a click ended the run next.
        """

    async def end(self, run_ids: Sequence[str], *, by_code: bool) -> None:
        """Cancel runs, since the one that began them is over."""


async def begin_subrun(ctx: "RunContext", key: str, question: str, flow: str, budget: Budget | None) -> StoredRun:
    """Begin a run that carries out a call, by its id, with the caller's model."""
    origin = await ctx.services.subruns.origin(key)
    return await ctx.subruns.begin_for(origin, question, flow, budget=budget, model=ctx.run.settings.get("model"))


async def tell_begun(ctx: "RunContext", key: str, begun: StoredRun) -> None:
    """Say which run carries out a call, once: a process may have died between its beginning and that."""
    await ctx.journal.flush()
    if await ctx.services.subruns.is_told(key):
        return
    said = {"job_id": key, "tool_call_id": key, "run_id": begun.run_id, "flow": begun.flow, "question": begun.question}
    ctx.journal.emit(StreamEventType.SUBRUN_START, said, lane=key)


async def until_over(ctx: "RunContext", run: StoredRun, key: str) -> StoredRun:
    """Wait for the run of a call, by its id, until it is over; where it waits, so does the run that began it."""
    rest = await ctx.beside.halting.wait_for(ctx.subruns.until_rest(run.run_id))
    while rest.gates:
        asked = [request for gate in rest.gates for request in gate]
        beside = [request for request in asked if not ctx.tape.waits_for(request)]
        if len(beside) == len(asked):
            await ctx.stand_within(key)
        if not await ctx.subruns.answer(run.run_id, beside):
            interrupt({"gates": [list(gate) for gate in rest.gates]})
        rest = await ctx.beside.halting.wait_for(ctx.subruns.until_rest(run.run_id, rest.seq))
    await ctx.stand_within(key)
    return rest.run
