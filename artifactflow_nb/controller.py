"""The controller, the ways in: questions and decisions. Runs begin in `beginning`, go on in `driven`, end in `drive`.

Every way in is the same: a question is stored as a message with its run (`begin`), and `start` lets any run go on that
can: a new one, one whose requests are decided, one whose process is gone.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from artifactflow_nb.approvals import BUDGET, ApprovalRequest, Decision
from artifactflow_nb.budget import Budget
from artifactflow_nb.errors import Conflict, NotFound, StoreError, ToolError, UsageError
from artifactflow_nb.events import ExecutionMetrics, StreamEvent
from artifactflow_nb.recordings.clock import whole_ms
from artifactflow_nb.recordings.graph_steps import GRAPH
from artifactflow_nb.recordings.values import request_id
from artifactflow_nb.store.conversations import Parent, ParentId
from artifactflow_nb.store.metrics import load_metrics
from artifactflow_nb.store.ownership import observed_status
from artifactflow_nb.store.plans import PlanStore
from artifactflow_nb.store.requests import load_open_requests
from artifactflow_nb.store.runs import COMPLETED, INTERRUPTED, StoredRun, load_run
from artifactflow_nb.subruns import SubRuns
from artifactflow_nb.text.cards import Card, Code, Fold, Prose, Rows, Shown
from artifactflow_nb.text.figures import duration
from artifactflow_nb.tools.base import ToolContext
from artifactflow_nb.tools.plan import PlanDuty, refusal

if TYPE_CHECKING:
    from sqlite3 import Connection


@dataclass(frozen=True, slots=True)
class RunResult(Shown):
    """What came of a run so far.

    Attributes:
        status: `completed`, `failed`, `cancelled`, `waiting` or `interrupted`: it can be resumed.
        response: The answer; None if there is none.
        error_type: What kind of error ended or interrupted it; None if there was none.
        error_message: What went wrong, and what to do.
        pending: The requests that wait for a person.
        metrics: What it cost so far.
    """

    run_id: str
    conversation_id: str
    message_id: str
    thread_id: str
    status: str
    response: str | None
    error_type: str | None
    error_message: str | None
    pending: tuple[ApprovalRequest, ...]
    metrics: ExecutionMetrics

    def _card(self) -> Card:
        rows: Rows = [
            ("error", self.error_message),
            ("waits for", ", ".join(request.title for request in self.pending)),
            ("time", duration(self.metrics.total_duration_ms)),
            ("tokens", self.metrics.total_tokens),
            ("run", Code(self.run_id)),
            ("conversation", Code(self.conversation_id)),
        ]
        folds = [Fold("The answer", Prose(self.response), is_open=True)] if self.response else []
        return Card("Run result", self.status, rows, folds)


class ExecutionController(SubRuns):
    """Runs questions through flows.

    Args:
        rooms: What drivers work with.
        folder: The store's folder, where owners' locks lie.
        manifest_for_run: What a new run is made with, by what is asked.
    """

    async def stream_execute(
        self,
        content: str | None = None,
        *,
        conversation_id: str | None = None,
        parent_message_id: ParentId = Parent.ACTIVE,
        message_id: str | None = None,
        thread_id: str | None = None,
        resume_data: Mapping[str, bool | Decision] | None = None,
        flow: str = "research",
        budget: Budget | Mapping[str, Any] | None = None,
        model: str | None = None,
    ) -> AsyncIterator[StreamEvent]:
        """Run a question, or go on with a waiting run, and yield its events until it ends or waits.

        Args:
            content: The question; None to resume.
            conversation_id: The conversation; None for a new one.
            parent_message_id: The message to continue from; None for a new root, left out for the active branch.
            message_id: The id for the new message, or the message of the run to resume.
            thread_id: The id for the run's thread, or the thread to resume.
            resume_data: Decisions by request id, to resume.
            flow: Which flow.
            budget: What the run may spend; None for what is configured.
            model: The model's name at the endpoint; None for what is configured.
        """
        if content is not None:
            run = await self.begin(
                content,
                conversation_id=conversation_id,
                parent_message_id=parent_message_id,
                message_id=message_id,
                thread_id=thread_id,
                flow=flow,
                budget=budget,
                model=model,
            )
        else:
            run = await self._decide_all(thread_id, message_id, resume_data or {})
        queue: asyncio.Queue[StreamEvent | None] = asyncio.Queue()
        seen = 0 if content is not None else (await self._feeds.get(run.run_id)).last_seq
        stop = await self.subscribe(run.run_id, lambda event: queue.put_nowait(event) if event.seq > seen else None)
        task = await self.start(run)
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            stop()

    async def execute(self, content: str, **where: Any) -> RunResult:
        """Run a question until it ends or waits; the arguments are those of `begin`."""
        run = await self.begin(content, **where)
        await asyncio.shield(await self.start(run))
        return await self.result(run.run_id)

    async def resume(
        self,
        thread_id: str,
        message_id: str | None = None,
        decisions: Mapping[str, bool | Decision] | None = None,
        *,
        approved: bool | None = None,
    ) -> RunResult:
        """Decide and go on with a waiting run until it ends or waits again.

        Args:
            thread_id: The run's thread.
            message_id: The run's message, as a check; None for none.
            decisions: Decisions by request id.
            approved: The decision on the one request that is open, instead of `decisions`.
        """
        if approved is not None:
            run = await self._services.runs.by_thread(thread_id)
            decisions = {(await self.single_request(run.run_id)).id: approved}
        run = await self._decide_all(thread_id, message_id, decisions or {})
        await asyncio.shield(await self.start(run))
        return await self.result(run.run_id)

    async def decide(self, request_id: str, decision: Decision) -> None:
        """Store a decision the moment it is taken, and go on with the run as soon as it can.

        While the run is driven here, because other jobs of it still work, the decision waits for them. One that holds
        for the run or the conversation decides what else is open of the same tool there too.

        Errors: `NotFound`, `Conflict` as for the store; `UsageError` if the tool that waits is not registered here, or
            the run's model or budget cannot be kept to here; `StoreError` if nothing was decided, or if that is stored
            and the run could not go on, as the text says.
        """
        request = await self._check_decidable(request_id, decision)
        await self._until_due(request)
        requests, now = self._services.requests, self._moment(request, decision)
        if not self._is_taken(request):
            await requests.decide({request_id: decision}, now)
        covered = await requests.open_beside(request, decision.scope)
        same = Decision(
            decision.approved, decided_by=decision.decided_by, scope=decision.scope, by_code=decision.by_code
        )
        for other in covered:
            with suppress(Conflict):  # somebody decided it at this moment
                await requests.decide({other.id: same}, self._moment(other, same))
        for run_id in dict.fromkeys([request.run_id, *(other.run_id for other in covered)]):
            await self._decided(run_id, request_id)
            run = await self._services.runs.get(run_id)
            if run.origin is not None:  # which waits at the same request, unless it was deleted
                with suppress(NotFound):
                    await self._decided((await self._services.runs.get(run.origin.run_id)).run_id, request_id)

    async def _until_due(self, request: ApprovalRequest) -> None:
        """Wait as long as the run is driven and has not come to where the recording has the decision.

        The same holds for the run that began it, and for what clicks decided before on others that this began.
        """
        if (player := self._rooms.deck.player(request.run_id)) is None:
            return
        await self._while_driven([request.run_id], player.until_due(request.subject))
        asked, beside = player.ask(request.subject), player.beside
        family = [one.recording.run_id for one in beside]
        if (caller := player.caller) is not None:
            family.append(caller.recording.run_id)
            await self._while_driven(family, caller.until_waited(request.id))
        if asked is not None and asked.decided_at is not None:
            for one in beside:
                await self._while_driven(family, one.until_decided(asked.decided_at, by_code=False))

    async def _while_driven(self, run_ids: Sequence[str], event: Awaitable[Any]) -> None:
        """Wait for an event as long as one of these runs is driven."""
        awaited = asyncio.ensure_future(event)
        while not awaited.done() and (tasks := [self._tasks[key] for key in run_ids if key in self._tasks]):
            await asyncio.wait([awaited, *tasks], return_when=asyncio.FIRST_COMPLETED)
        awaited.cancel()

    def _moment(self, request: ApprovalRequest, decision: Decision) -> datetime:
        """When a decision is taken: as it is recorded if it is, else now, in the time of its run."""
        player = self._rooms.deck.player(request.run_id)
        if player is None:
            return whole_ms(self._services.clock.now())
        return player.decided(request.subject, decision) or player.clock.present

    def _is_taken(self, request: ApprovalRequest) -> bool:
        """Whether the decision is there already, because the recording has it."""
        player = self._rooms.deck.player(request.run_id)
        return player is not None and player.is_taken(request.subject)

    async def _decided(self, run_id: str, request_id: str) -> None:
        """Go on with a run on which something was decided; what keeps it from that is told with the decision."""
        try:
            await self._carry_on(run_id)
        except (StoreError, UsageError) as error:
            raise StoreError(
                f"The decision on {request_id} is stored, but its run cannot go on now. {error} "
                "Once that is put right, run.resume() goes on with it."
            ) from error

    async def _check_decidable(self, request_id: str, decision: Decision) -> ApprovalRequest:
        request = await self._services.requests.get(request_id)
        run = await self._services.runs.get(request.run_id)
        await self._rooms.check_resumed(run)
        if request.kind == BUDGET:
            budget = Budget.of({**request.params, **(decision.params or {})})
            if decision.approved and GRAPH not in run.settings:  # what its models cost, only the graph's calls tell
                self._rooms.check_budget(budget, run.settings.get("model"))
            return request
        if not request.tool_call_id:  # a graph of the user's asks: what it can do with an answer only it knows
            return request
        if decision.approved and request.tool not in {entry.name for entry in self._services.tools}:
            raise UsageError(f"The tool {request.tool!r} is not registered here: register it first, then approve.")
        if decision.params is not None and (problem := await self._misfit(run, request, decision.params)):
            raise UsageError(f"The edited parameters do not fit, and nothing was decided: {problem}")
        return request

    async def _misfit(self, run: StoredRun, request: ApprovalRequest, params: Mapping[str, Any]) -> str:
        """Why a call cannot be carried out with these parameters, as far as that is known before; empty if it can."""
        try:
            args = self._services.tools.select([request.tool])[0].bind(params)
        except ToolError as error:
            return error.problem
        if request.kind != "plan":
            return ""
        duty = self._rooms.services_for_run(run).plan_duty(self._rooms.policy)
        services = {PlanDuty: duty, PlanStore: self._services.plans}
        ids = run.run_id, run.conversation_id, run.message_id, request.agent, request.tool_call_id
        return await refusal(ToolContext(*ids, services), args)

    async def _decide_all(
        self, thread_id: str | None, message_id: str | None, decisions: Mapping[str, bool | Decision]
    ) -> StoredRun:
        """Take decisions on a run that is named by its thread, all or none; the run, ready to be started."""
        if thread_id is None:
            raise UsageError("Nothing to do: pass a question as content, or thread_id to resume a run.")
        run = await self._services.runs.by_thread(thread_id)
        if message_id is not None and message_id != run.message_id:
            raise NotFound(f"The thread {thread_id!r} answers {run.message_id!r}, not {message_id!r}.")
        given = {key: one if isinstance(one, Decision) else Decision(one) for key, one in decisions.items()}
        for key, decision in given.items():
            await self._check_decidable(key, decision)
        asked = await self._services.requests.decide(given, whole_ms(self._services.clock.now()), run_id=run.run_id)
        for request in asked:
            if request.run_id != run.run_id:  # of a run that it began
                await self._decided(request.run_id, request.id)
        return await self._services.runs.get(run.run_id)

    async def result(self, run_id: str) -> RunResult:
        """What came of a run so far."""
        now = self._services.clock.now()

        def work(db: "Connection") -> tuple[StoredRun, list[ApprovalRequest], ExecutionMetrics]:
            run = load_run(db, run_id)
            return run, load_open_requests(db, run_id), load_metrics(db, run_id, run.completed_at or now)

        run, pending, metrics = await self._rooms.database.read(work)
        status = observed_status(self._folder, run.status, run.owner)
        why = self.why_unstored(run_id) if status == INTERRUPTED else None
        return RunResult(
            run.run_id,
            run.conversation_id,
            run.message_id,
            run.thread_id,
            status,
            run.response if status == COMPLETED else None,
            run.error_type if why is None else StoreError.__name__,
            run.error_message if why is None else why,
            tuple(pending),
            metrics,
        )

    async def single_request(self, run_id: str) -> ApprovalRequest:
        """The one open request of a run; `UsageError` that lists them if there are several, `NotFound` if none.

        It is what code is about to decide: in a replay one that is decided already, if code had decided it.
        """
        if (taken := self._taken_for_code(run_id)) is not None:
            return await self._services.requests.get(taken)
        pending = await self._services.requests.open_requests(run_id)
        if not pending:
            raise NotFound(f"The run {run_id!r} waits for no decision.")
        if len(pending) > 1:
            listed = "; ".join(f"{request.id}: {request.title}" for request in pending)
            raise UsageError(f"{len(pending)} requests are open; name the one that you mean. {listed}")
        return pending[0]

    def _taken_for_code(self, run_id: str) -> str | None:
        """The id of the request that was decided first of those that code has not come to; None if there is none."""
        if (player := self._rooms.deck.player(run_id)) is None:
            return None
        late = [one for each in (player, *player.begun) for one in each.taken_for_code]
        taken = [(ask.decided_at, subject) for subject, ask in late if ask.decided_at is not None]
        return request_id(min(taken)[1]) if taken else None
