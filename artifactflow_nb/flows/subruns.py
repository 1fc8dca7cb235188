"""Subruns: runs that carry out a tool call of another run, each with its own id, approvals and metrics.

::

    call ──> started (or found again) ──> running ──> ended: its result
                                           ^  └─────> waits: the parent run pauses at the same gates
                                           └── decided ──┘
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from artifactflow_nb.core.budget import Budget
from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.core.runs import ParentCall
from artifactflow_nb.store.runs import StoredRun

if TYPE_CHECKING:
    from artifactflow_nb.flows.services import RunContext

from langgraph.types import interrupt


@dataclass(frozen=True, slots=True)
class SubrunPause:
    """A subrun that waits or has ended.

    Attributes:
        run: Its row.
        gates: The gates at which it waits, see `FlowOutcome`; empty if it has ended.
    """

    run: StoredRun
    gates: Sequence[Sequence[str]]


class SubrunRunner(Protocol):
    """Starts and drives subruns; the engine implements it."""

    async def begin_subrun(self, parent_call: ParentCall, question: str, flow: str, **chosen: Any) -> StoredRun:
        """Start a run for a call, in a conversation of its own; `chosen` are its budget and model."""

    async def wait_until_idle(self, run_id: str) -> SubrunPause:
        """Drive a run, if it can continue and nobody drives it, and return when it has ended or waits.

        Errors: `StoreError` if the store failed, and the run was left interrupted.
        """

    async def cancel_subruns(self, run_ids: Sequence[str], *, by_code: bool) -> None:
        """Cancel the subruns of a run that has ended."""


async def begin_subrun(ctx: "RunContext", key: str, question: str, flow: str, budget: Budget | None) -> StoredRun:
    """Start a run that carries out a call, with the model of the calling run."""
    caller = await ctx.services.subruns.parent_call(key)
    return await ctx.subruns.begin_subrun(caller, question, flow, budget=budget, model=ctx.run.settings.get("model"))


async def publish_subrun_start(ctx: "RunContext", key: str, subrun: StoredRun) -> None:
    """Publish once which run carries out a call; an earlier process may have started it without publishing that."""
    await ctx.event_writer.flush()
    if await ctx.services.subruns.is_start_published(key):
        return
    data = {
        "job_id": key,
        "tool_call_id": key,
        "run_id": subrun.run_id,
        "flow": subrun.flow,
        "question": subrun.question,
    }
    ctx.event_writer.emit(StreamEventType.SUBRUN_START, data)


async def wait_for_subrun(ctx: "RunContext", run: StoredRun) -> StoredRun:
    """Wait for a subrun until it has ended; where it waits for a person, so does the run that started it."""
    pause = await ctx.jobs.cancellation.wait_for(ctx.subruns.wait_until_idle(run.run_id))
    if pause.gates:
        interrupt({"gates": [list(gate) for gate in pause.gates]})  # raises: the resumed run waits here again
    await ctx.jobs.cancellation.wait_if_cancelled()
    return pause.run
