"""`RunTranscript`: state of a run, computed from its events: jobs, turns, tool calls, plans and requests.

Live and stored events give the same state: chunks are not stored, but `llm_complete` repeats their text in full. A
subrun, which carries out a tool call, has its own transcript, built from its own events. This module does not depend on
pages.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from artifactflow_nb import errors
from artifactflow_nb.core.events import MAIN_JOB, PARALLEL_SEPARATOR, StreamEvent, StreamEventType
from artifactflow_nb.core.messages import OFFLINE_MODEL
from artifactflow_nb.core.plan import PLAN_CREATE_TOOL
from artifactflow_nb.core.text.shortened import GrowingText
from artifactflow_nb.store.runs import ABANDONED, CANCELLED, DELETED, RUNNING, WAITING
from artifactflow_nb.widgets.run.parts import (
    StreamingText,
    TranscriptArtifact,
    TranscriptCall,
    TranscriptJob,
    TranscriptPlan,
    TranscriptRequest,
    TranscriptTokens,
    TranscriptTotals,
    TranscriptTurn,
)

_CONTINUED = "and the run continued without it"


class RunTranscript:
    """State of a run.

    Args:
        parent_tool: In a subrun, the tool whose call the run carries out.

    Attributes:
        parent_tool: In a subrun, the tool whose call the run carries out, or an empty string.
        lead_job: The job of the lead, which answers.
        requests: The run's own permission requests, by id, in order.
        subruns: Transcripts of the runs that carry out calls of this run, by run id, in order.
        artifacts: The written artifacts, by id.
        started_at: Time of the first event, or None.
        ended_at: Time of the terminal event, or None.
        response: The answer, from the terminal event.
        error: The error of a failed run, or an empty string.
        notices: Sentences about the answer, from the terminal event.
        outcome: Outcome of the answer, such as `partly`; empty if unknown.
        metrics: Execution metrics, from the terminal event; empty before the event.
        stopped_usage: Estimated usage of each call that was stopped, see `load_stopped_usage`.
        usual_ms: Time that earlier runs of this kind took; None without earlier runs.
        waited_ms: Time that the run has waited for a person, without the current pause.
        paused_at: Start of the current pause, in which the run waits for a person; None without a pause.
        context: Size of the lead's last prompt, `chars` of `limit_chars`; empty before its first reply.
    """

    def __init__(self, question: str = "", parent_tool: str = "") -> None:
        self.question = question
        self.parent_tool = parent_tool
        self.lead_job = TranscriptJob(MAIN_JOB, "")
        self.requests: dict[str, TranscriptRequest] = {}
        self.subruns: dict[str, RunTranscript] = {}
        self.artifacts: dict[str, TranscriptArtifact] = {}
        self.started_at: datetime | None = None
        self.ended_at: datetime | None = None
        self.response = ""
        self.error = ""
        self.notices: tuple[str, ...] = ()
        self.outcome = ""
        self.metrics: Mapping[str, Any] = {}
        self.stopped_usage: Sequence[Mapping[str, Any]] = ()
        self.usual_ms: float | None = None
        self.waited_ms = 0.0
        self.context: Mapping[str, int] = {}
        self._jobs = {MAIN_JOB: self.lead_job}
        self._turns: dict[tuple[str, str], TranscriptTurn] = {}
        self._latest_turns: dict[str, TranscriptTurn] = {}
        self._start_indexes: dict[str, int] = {}
        self._computed_lanes: set[str] = set()  # lanes of agents that use no language model
        self._calls: dict[str, TranscriptCall] = {}
        self._plans: dict[str, TranscriptPlan] = {}
        self._seq = 0
        self.paused_at: datetime | None = None
        self._is_decided = False
        self._status = RUNNING

    @property
    def status(self) -> str:
        """Status as in the store, or `deleted`; `abandoned` if the process of the run has died."""
        # A run without pending requests continues, even if no event says so yet.
        return RUNNING if self._status == WAITING and not self.pending_requests else self._status

    @property
    def is_ended(self) -> bool:
        """Whether the terminal event was applied, or the run was deleted and will publish no terminal event."""
        return self.ended_at is not None or self._status == DELETED

    @property
    def is_known(self) -> bool:
        """Whether any event was applied; the events of a subrun may be missing from this store."""
        return self.started_at is not None

    @property
    def open_requests(self) -> list[TranscriptRequest]:
        """The run's own undecided requests, in the order of their calls in the view; empty after the end of the run."""
        is_over = self.is_ended or self._is_decided
        undecided = [] if is_over else [q for q in self.requests.values() if q.approved is None]
        # Parallel agents ask in any order.
        ranks = {call.id: rank for rank, call in enumerate(self.lead_job.all_calls())} if undecided[1:] else {}
        return sorted(undecided, key=lambda request: ranks.get(request.tool_call_id, len(ranks)))

    @property
    def pending_requests(self) -> list[TranscriptRequest]:
        """The undecided requests of the run and its subruns; empty after the end of the run."""
        return [] if self.is_ended else [request for run in self.with_subruns() for request in run.open_requests]

    def with_subruns(self) -> "Iterator[RunTranscript]":
        """Yield this run and, recursively, its subruns."""
        yield self
        for subrun in self.subruns.values():
            yield from subrun.with_subruns()

    def find_request(self, request_id: str) -> TranscriptRequest | None:
        """Find a request of the run or a subrun by its id."""
        return next((run.requests[request_id] for run in self.with_subruns() if request_id in run.requests), None)

    @property
    def totals(self) -> TranscriptTotals:
        """Tokens, calls and cost of the run, without subruns."""
        calls = [call for call in self._calls.values() if call.is_call]
        turns = [turn for job in self.jobs for turn in job.turns if turn.usage]
        all_costs = (*(call.get("cost_usd") for call in self.stopped_usage), *(turn.cost_usd for turn in turns))
        costs = [cost for cost in all_costs if cost is not None]
        tokens = sum((job.tokens for job in self.jobs), TranscriptTokens())
        if self.stopped_usage:  # instead of estimates from the texts so far
            n_stopped = sum(call["input_tokens"] + call["output_tokens"] for call in self.stopped_usage)
            tokens = sum((turn.tokens for turn in turns), TranscriptTokens(n_stopped, is_estimated=True))
        cost_usd = sum(costs) if costs else None
        n_failed = sum(call.has_failed for call in calls)
        n_retried = sum(len(turn.retries) for job in self.jobs for turn in job.turns)
        is_stopped, n_open = self.status == CANCELLED, self._n_open
        n_unanswered = n_retried + (0 if is_stopped else n_open)
        n_stopped = n_open if is_stopped else 0
        return TranscriptTotals(tokens, len(turns), len(calls), cost_usd, n_unanswered, n_failed, n_stopped)

    @property
    def _n_open(self) -> int:
        """The number of attempts at model calls that were running when the run ended; 0 before the end."""
        if self.ended_at is None:
            return 0
        turns = [turn for job in self.jobs for turn in job.turns]
        # A turn with retries already counts for the attempt of its job.
        return sum(not turn.is_done for turn in turns) + sum(
            job.awaiting_since is not None and not (job.turns and job.turns[-1].retries) for job in self.jobs
        )

    @property
    def totals_with_subruns(self) -> TranscriptTotals:
        """Tokens, calls and cost of the run and its subruns."""
        return sum((run.totals for run in self.with_subruns()), TranscriptTotals())

    @property
    def jobs(self) -> list[TranscriptJob]:
        """All jobs, the lead's first, in the order in which they started."""
        return list(self._jobs.values())

    @property
    def plans(self) -> list[TranscriptPlan]:
        """All plans, in order."""
        return list(self._plans.values())

    @property
    def tool_uses(self) -> list[TranscriptCall]:
        """Tool calls and questions of all jobs."""
        return list(self._calls.values())

    def apply(self, event: StreamEvent) -> bool:
        """Apply the next event; return False for an event that was applied before."""
        if event.seq <= self._seq:
            return False
        self._seq, self._is_decided = event.seq, False
        self.started_at = self.started_at or event.timestamp
        # A decision is published even if the run waits for further decisions; other events show that the run continues.
        if self._status == WAITING and event.type is not StreamEventType.PERMISSION_RESULT:
            self._status = RUNNING
        if self.paused_at is not None:
            self.waited_ms += max((event.timestamp - self.paused_at).total_seconds() * 1000, 0.0)
            self.paused_at = None
            for plan in self.plans:
                plan.resume(event.timestamp)
        handle: Callable[[StreamEvent], None] | None = getattr(self, f"_on_{event.type}", None)
        if handle:
            handle(event)
        return True

    def set_gone(self, *, is_gone: bool) -> bool:
        """Set whether the process of the run has died, which no event reports; return whether the state changed."""
        # A waiting run needs no process. If the store calls a waiting run abandoned, the run was decided, and its
        # process died before publishing an event.
        before, after = (RUNNING, ABANDONED) if is_gone else (ABANDONED, RUNNING)
        if is_gone and self.status == WAITING:
            before, self._is_decided = WAITING, True
        elif self.status != before:
            return False
        self._status = after
        for call in self._calls.values():
            call.status = after if call.status == before else call.status
        for plan in self.plans:
            plan.settle(before, after)
        return True

    def delete(self) -> None:
        """Mark the run as deleted, which no event reports."""
        self._status = DELETED

    def _job(self, event: StreamEvent) -> TranscriptJob:
        """Return the job of the event; a new job is attached to the call that delegated the job or to the open plan."""
        job_id = _lane(event).partition(PARALLEL_SEPARATOR)[0]
        job = self._jobs.get(job_id)
        if job is None:
            job = self._jobs[job_id] = TranscriptJob(job_id, event.agent or "")
            # Plans never run in parallel: only the last plan can be unfinished.
            last_plan_call = self._calls.get(next(reversed(self._plans), ""))
            if job_id in self._calls or last_plan_call is None or last_plan_call.status in {"ok", "failed"}:
                self._call(job_id, "call_subagent", {}, self.lead_job, event).job = job
            else:
                self._plans[last_plan_call.id].add(job)
        job.agent = job.agent or event.agent or ""
        return job

    def _plan(self, event: StreamEvent) -> TranscriptPlan:
        """Return the plan of the event, attached to the call that created the plan."""
        tool_call_id = str(event.data["tool_call_id"])
        if tool_call_id not in self._plans:
            self._plans[tool_call_id] = TranscriptPlan()
            self._call(tool_call_id, PLAN_CREATE_TOOL, {}, self.lead_job, event).plan = self._plans[tool_call_id]
        return self._plans[tool_call_id]

    def _turn(self, event: StreamEvent) -> TranscriptTurn:
        """Return the turn of the event's model call."""
        job = self._job(event)
        key = lane, _ = _lane(event), str(event.data.get("call_id", ""))
        job.awaiting_since = None
        if key not in self._turns:
            turn = TranscriptTurn(key[1], event.agent or job.agent, self._start_indexes.pop(lane, event.seq))
            turn.is_computed = lane in self._computed_lanes
            last = self._latest_turns.get(lane)
            if last and not last.is_done:  # an attempt that failed, or whose process has died
                job.turns.remove(last)
                turn.retries = last.retries
            self._turns[key] = self._latest_turns[lane] = turn
            job.turns.append(turn)
            # Stored events of parallel turns arrive in the order of their ends.
            job.turns.sort(key=lambda turn: turn.start_index)
        return self._turns[key]

    def _call(
        self, tool_call_id: str, tool: str, params: Mapping[str, Any], job: TranscriptJob, event: StreamEvent
    ) -> TranscriptCall:
        """Return the tool call with this id; a new call is added to the latest turn of its lane or job."""
        if tool_call_id not in self._calls:
            if not job.turns:
                job.turns.append(TranscriptTurn(f"{job.id}-start", end_index=0, is_done=True))
            self._calls[tool_call_id] = TranscriptCall(tool_call_id, tool, params)
            lane = _lane(event)
            turn = self._latest_turns.get(lane) if lane.partition(PARALLEL_SEPARATOR)[0] == job.id else None
            requesting_turn = turn if turn is not None and turn.agent == event.agent else job.turns[-1]
            requesting_turn.tools.append(self._calls[tool_call_id])
        call = self._calls[tool_call_id]
        call.tool, call.params = tool, params or call.params
        return call

    def _on_metadata(self, event: StreamEvent) -> None:
        self.question = self.question or str(event.data.get("question", ""))

    def _on_agent_start(self, event: StreamEvent) -> None:
        job = self._job(event)
        self._start_indexes[_lane(event)] = event.seq
        if event.data.get("model") in {"", OFFLINE_MODEL}:
            self._computed_lanes.add(_lane(event))
        job.awaiting_since = event.timestamp
        job.instruction = job.instruction or str(event.data.get("instruction") or "")
        job.model = str(event.data.get("model") or job.model)

    def _on_llm_chunk(self, event: StreamEvent) -> None:
        turn = self._turn(event)
        kind = str(event.data.get("kind"))
        delta = str(event.data["delta"])
        # `content` is all text of this kind so far: a view that subscribes late has missed the earlier chunks.
        text = delta if kind in turn.kinds else event.content or delta
        turn.kinds.add(kind)
        turn.latest_piece_at = event.timestamp
        if kind == "reasoning":
            turn.reasoning_started_at = turn.reasoning_started_at or event.timestamp
        elif turn.reasoning_started_at is not None and turn.reasoning_ms is None:
            turn.reasoning_ms = (event.timestamp - turn.reasoning_started_at).total_seconds() * 1000
        if kind == "call":
            turn.reply.append_call(event.tool or "", text)
        elif kind == "reasoning":
            turn.reasoning.append(text)
        else:
            turn.reply.prose.append(text)

    def _on_retry(self, event: StreamEvent) -> None:
        turn = self._turn(event)
        turn.reply, turn.reasoning = StreamingText(), GrowingText()
        turn.reasoning_started_at = turn.reasoning_ms = None
        delay_ms = 1000 * float(event.data.get("delay_s") or 0)
        turn.retries.append((str(event.data.get("reason", "")), delay_ms))
        if delay_ms:  # a graph may go on without another attempt
            self._job(event).awaiting_since = event.timestamp + timedelta(milliseconds=delay_ms)

    def _on_middleware_error(self, event: StreamEvent) -> None:
        job, data = self._job(event), event.data
        turn = self._turn(event) if "call_id" in data else job.turns[-1] if job.turns else None
        if turn is not None:
            error = f"{data.get('error_type')}: {data.get('message')}"
            turn.middleware_errors.append(
                f"{data.get('middleware')} failed in {data.get('hook')}, {_CONTINUED}: {error}"
            )

    def _on_llm_complete(self, event: StreamEvent) -> None:
        turn = self._turn(event)
        turn.reply.settle(str(event.data.get("text") or ""))
        reasoning = str(event.data.get("reasoning") or "")
        if turn.reasoning.text != reasoning:
            turn.reasoning = GrowingText(reasoning)
        turn.is_done, turn.end_index = True, event.seq
        turn.usage = event.data.get("token_usage") or {"total_tokens": 0}
        turn.cost_usd = event.data.get("cost_usd")
        turn.duration_ms = float(event.data.get("duration_ms") or 0)
        turn.reasoning_ms = event.data.get("reasoning_ms")
        if self._job(event) is self.lead_job:
            self.context = event.data.get("context") or self.context

    def _on_tool_start(self, event: StreamEvent) -> None:
        params = event.data.get("params") or {}
        call = self._call(str(event.data["tool_call_id"]), event.tool or "", params, self._job(event), event)
        if call.started_at is None:
            call.waited_before_ms = self.waited_ms
        call.status, call.started_at = "running", call.started_at or event.timestamp

    def _on_tool_complete(self, event: StreamEvent) -> None:
        call = self._call(str(event.data["tool_call_id"]), event.tool or "", {}, self._job(event), event)
        call.metadata = event.data.get("metadata") or {}
        is_cancelled = call.metadata.get("error_type") == errors.RunCancelled.__name__
        call.status = "ok" if event.data.get("success") else "cancelled" if is_cancelled else "failed"
        call.duration_ms, call.wait_ms = event.data.get("duration_ms"), self.waited_ms - call.waited_before_ms
        call.error = str(event.data.get("error") or "")

    def _on_permission_request(self, event: StreamEvent) -> None:
        data = event.data
        if data["id"] in self.requests:  # a resume publishes the open requests again
            return
        params = data.get("params") or {}
        request = TranscriptRequest(
            id=str(data["id"]),
            kind=str(data.get("kind") or "tool"),
            agent=event.agent or "",
            tool=event.tool or "",
            tool_call_id=str(data.get("tool_call_id") or data["id"]),
            title=str(data.get("title") or ""),
            preview=str(data.get("preview") or ""),
            message=str(data.get("message") or ""),
            params=params,
            parent_tool=self.parent_tool,
            allowed=tuple(map(str, data.get("allowed") or ())),
            hosts=tuple(map(str, data.get("hosts") or ())),
            asked_at=event.timestamp,
        )
        self.requests[request.id] = request
        call = self._call(request.tool_call_id, request.tool, params, self._job(event), event)
        call.status, call.request = "waiting", request

    def _on_permission_result(self, event: StreamEvent) -> None:
        request = self.requests.get(str(event.data["id"]))
        if request is None:
            return
        request.approved = bool(event.data.get("approved"))
        request.decision = str(event.data.get("decision") or ("approved" if request.approved else "denied"))
        request.scope = str(event.data.get("scope") or "once")
        request.decided_by = str(event.data.get("decided_by") or "")
        request.instruction = str(event.data.get("instruction") or "")
        call = self._calls[request.tool_call_id]
        settled_status = "running" if request.is_for_call else "ok"
        call.status = settled_status if request.is_settled else "failed"
        call.params = event.data.get("params") or call.params
        if self._status == ABANDONED:
            self._status = RUNNING

    def _on_subrun_start(self, event: StreamEvent) -> None:
        call = self._calls.get(str(event.data["tool_call_id"]))
        if call is not None and not call.subrun_id:
            call.subrun_id = str(event.data["run_id"])
            self.subruns[call.subrun_id] = type(self)(str(event.data.get("question") or ""), call.tool)

    def _on_artifact_changed(self, event: StreamEvent) -> None:
        data = event.data
        artifact = TranscriptArtifact(
            str(data["artifact_id"]),
            int(data["version"]),
            str(data.get("title") or data["artifact_id"]),
            str(data.get("content_type") or "text/markdown"),
        )
        self.artifacts[artifact.artifact_id] = artifact

    def _on_plan_created(self, event: StreamEvent) -> None:
        plan = self._plan(event)
        plan.title = str(event.data.get("title") or "")
        plan.revise(event.data.get("steps") or ())

    def _on_plan_updated(self, event: StreamEvent) -> None:
        reason = str(event.data.get("reason") or "")
        self._plan(event).update(event.data.get("steps") or (), reason, event.timestamp)

    def _on_plan_revised(self, event: StreamEvent) -> None:
        plan = self._plan(event)
        plan.revise(event.data.get("steps") or ())
        plan.notes.append(str(event.data.get("reason") or ""))

    def _on_step_start(self, event: StreamEvent) -> None:
        job = TranscriptJob(str(event.data["job_id"]), event.agent or "")
        self._plan(event).start(event.data, self._jobs.setdefault(job.id, job), event.timestamp)

    def _on_step_complete(self, event: StreamEvent) -> None:
        self._plan(event).complete(event.data, event.timestamp)

    def _on_complete(self, event: StreamEvent) -> None:
        if not event.is_terminal:
            self._status, self.paused_at = WAITING, event.timestamp
            for plan in self.plans:
                plan.pause(event.timestamp)
            return
        self.response = str(event.data.get("response") or "")
        self.metrics = event.data.get("execution_metrics") or {}
        self.notices = tuple(map(str, event.data.get("notices") or ()))
        self.outcome = str(event.data.get("outcome") or "")
        self._end(event, "completed" if event.data.get("success", True) else "failed")

    def _on_error(self, event: StreamEvent) -> None:
        kind, message = (str(event.data.get(name) or "") for name in ("error_type", "message"))
        self.error = message if message and hasattr(errors, kind) else ": ".join(filter(None, (kind, message)))
        self._end(event, "failed")

    def _on_cancelled(self, event: StreamEvent) -> None:
        self.response = str(event.data.get("partial") or "")
        self.stopped_usage = event.data.get("stopped_usage") or ()
        self._end(event, "cancelled")

    def end_with_parent(self, event: StreamEvent) -> None:
        """Mark this subrun as ended with its parent; its own terminal event may add details later."""
        self._end(event, "cancelled")

    def _end(self, event: StreamEvent, status: str) -> None:
        self._status, self.ended_at = status, event.timestamp
        for call in self._calls.values():
            if call.status not in {RUNNING, ABANDONED, WAITING}:
                continue
            call.status = "cancelled" if status == "cancelled" else "failed"
            subrun = self.subruns.get(call.subrun_id)
            if subrun is not None and not subrun.is_ended:
                subrun.end_with_parent(event)
        for plan in self.plans:
            for unfinished in (RUNNING, ABANDONED):
                plan.settle(unfinished, "cancelled" if status == "cancelled" else "failed", event.timestamp)


def _lane(event: StreamEvent) -> str:
    """Return the job id with the suffix of a parallel branch, which has its own turns."""
    return str(event.data.get("job_id") or MAIN_JOB)
