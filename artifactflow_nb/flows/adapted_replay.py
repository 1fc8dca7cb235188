"""The recorded run of an adapted graph as a flow: what the graph did is done again, and the graph itself is not asked.

::

    steps ──> the next one ──> model call, tool call, report ──> rows and events as they were
                    ^   └────> question ──> all decided? ─ no ──> the run waits
                    └───────────────────────── yes
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from artifactflow_nb.approvals import ApprovalRequest, Kind
from artifactflow_nb.errors import CassetteMiss, UsageError
from artifactflow_nb.events import StreamEventType
from artifactflow_nb.flows.adapted import History
from artifactflow_nb.flows.adapted_calls import GRAPH_OFFER, GraphCalls
from artifactflow_nb.flows.adapted_tools import GraphTools
from artifactflow_nb.flows.call_record import Opening
from artifactflow_nb.flows.flow import Standing
from artifactflow_nb.flows.permission import ask
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.messages import ToolCall
from artifactflow_nb.models.base import ModelDelta
from artifactflow_nb.recordings.graph_player import AS_A_WHOLE, GraphPlayer
from artifactflow_nb.recordings.graph_steps import FAIL, LEFT, GraphStep
from artifactflow_nb.recordings.values import Failure, request_id
from artifactflow_nb.store.calls import PENDING, STARTED, OpenCall, StoredCall
from artifactflow_nb.store.runs import CANCELLED, COMPLETED, FAILED
from artifactflow_nb.tools.base import ToolPermission

_PIECES_AT_ONCE = 64
"""How many pieces are told before others on the loop have their turn."""


class PlayedFlow:
    """A graph that is not here: its recorded runs can be played.

    Args:
        described: How it was described when they were recorded.
    """

    def __init__(self, described: Mapping[str, Any]) -> None:
        self.described = dict(described)

    def asked(self, _question: str, _history: History) -> Any:
        """What the graph got."""
        return self.described.get("input")

    async def go_on(self, ctx: RunContext, *, is_begun: bool) -> Standing:
        """Play the run; `UsageError` if it is not recorded."""
        del is_begun  # the tape says how far it has come
        if not isinstance(ctx.tape, GraphPlayer):
            raise UsageError(
                f"The run {ctx.run.run_id} is not recorded, and the graph of {ctx.run.flow!r} is not here."
            )
        with ctx.beside.halting.stands():
            return await GraphReplay(ctx, ctx.tape).go_on()


class GraphReplay:
    """Plays one run, from where its tape stands until it ends or waits.

    Args:
        ctx: The run.
        player: Its tape.
    """

    def __init__(self, ctx: RunContext, player: GraphPlayer) -> None:
        self._ctx = ctx
        self._player = player
        self._calls = GraphCalls(ctx)
        self._tools = GraphTools(ctx, ())
        self._asked: list[str] = []
        self._does: Mapping[str, Callable[[GraphStep], Awaitable[None]]] = {
            StreamEventType.AGENT_START: self._begin,
            StreamEventType.LLM_COMPLETE: self._finish,
            StreamEventType.RETRY: self._fail,
            FAIL: self._fail,
            LEFT: self._leave,
            StreamEventType.TOOL_START: self._start_tool,
            StreamEventType.TOOL_COMPLETE: self._finish_tool,
            StreamEventType.PERMISSION_REQUEST: self._ask,
            StreamEventType.PERMISSION_RESULT: self._pass,
        }

    async def go_on(self) -> Standing:
        """Take step after step."""
        self._ctx.under_way()
        open_now = await self._ctx.services.requests.open_requests(self._ctx.run.run_id)
        self._asked = [request.subject for request in open_now]
        while (step := self._player.step) is not None:
            if step.kind != StreamEventType.PERMISSION_REQUEST and (gate := await self._undecided()):
                return Standing([gate])
            await self._say(step)
            await (self._does[step.kind] if step.about else self._tell)(step)
            self._player.advance()
        if gate := await self._undecided():
            return Standing([gate])
        return self._end()

    def _end(self) -> Standing:
        recording = self._player.recording
        if recording.status == COMPLETED:
            return Standing(response=recording.response or "")
        if recording.status == FAILED:
            return Standing(failure=Failure(recording.error_type or "", recording.error_message or ""))
        if recording.status == CANCELLED:
            raise asyncio.CancelledError
        raise CassetteMiss(f"The recording of {recording.question!r:.200} ends where it waits. {AS_A_WHOLE}")

    async def _undecided(self) -> list[str]:
        """The requests that are open, by their ids; they are looked up until none is."""
        if not self._asked:
            return []
        known = await self._ctx.services.requests.decisions(self._asked)
        self._asked = [subject for subject in self._asked if known[subject].decision is None]
        return [known[subject].request_id for subject in self._asked]

    # --- models ------------------------------------------------------------------------------------------------------

    async def _say(self, step: GraphStep) -> None:
        """Tell what had arrived of replies before a step."""
        for n, (played, piece) in enumerate(self._player.arrived(step), 1):
            self._calls.tell(played.call_id, ModelDelta(piece.text, piece.kind, piece.tool))
            if n % _PIECES_AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _begin(self, step: GraphStep) -> None:
        made, job_id, turn = self._player.turn(step)
        asked = turn.prompt
        opening = Opening(
            made,
            job_id,
            turn.step,
            turn.agent,
            turn.provider,
            asked.model,
            asked.temperature,
            asked.messages,
            GRAPH_OFFER,
        )
        self._calls.enter(made, opening, turn)

    async def _finish(self, step: GraphStep) -> None:
        played = self._player.turn(step)
        if (reply := played.turn.reply) is not None:
            await self._calls.complete(played.call_id, reply)

    async def _fail(self, step: GraphStep) -> None:
        played = self._player.turn(step)
        failure = played.turn.failure or Failure("", "")
        goes_on = step.kind == StreamEventType.RETRY
        await self._calls.fail(played.call_id, failure.error_type, failure.message, goes_on=goes_on)

    async def _leave(self, step: GraphStep) -> None:
        played = self._player.turn(step)
        self._calls.keep(played.call_id, played.turn.pieces)
        await self._fail(step)

    # --- tools -------------------------------------------------------------------------------------------------------

    async def _start_tool(self, step: GraphStep) -> None:
        await self._enter_tool(step, PENDING)

    async def _enter_tool(self, step: GraphStep, status: str) -> None:
        made, job_id, agent, call = self._player.call(step)
        stored = StoredCall(made, ToolCall(call.tool, call.args), status)
        await self._tools.enter(made, OpenCall(stored, job_id, agent), is_asked=True)

    async def _finish_tool(self, step: GraphStep) -> None:
        made, _, _, call = self._player.call(step)
        if self._tools.job_of(made) is None:  # it began before the run waited
            await self._enter_tool(step, STARTED)
        if call.result is not None:
            await self._tools.conclude(made, call.result)

    # --- questions and reports ---------------------------------------------------------------------------------------

    async def _ask(self, step: GraphStep) -> None:
        run_id, clock = self._ctx.run.run_id, self._player.clock
        subject, job_id = step.subject(run_id), self._player.job_of(step.data["job"])
        if (recorded := self._player.ask(subject)) is None:
            return
        request = ApprovalRequest(
            id=request_id(subject),
            run_id=run_id,
            kind=cast("Kind", recorded.kind),
            agent=step.agent or "",
            tool=step.tool or "",
            params=recorded.params,
            title=step.data["title"],
            preview=recorded.preview,
            message=step.data["message"],
            about=subject,
        )
        clock.move(job_id, step.at)
        await ask(self._ctx, job_id, request, ToolPermission.CONFIRM)
        self._asked.append(subject)

    async def _pass(self, step: GraphStep) -> None:
        """What a person decided is told by who drives the run."""

    async def _tell(self, step: GraphStep) -> None:
        """Tell again what was told, in words of its own."""
        self._player.clock.move(step.lane, step.at)
        about = {"agent": step.agent, "tool": step.tool, "lane": step.lane}
        self._ctx.journal.emit(StreamEventType(step.kind), dict(step.data), **about)
