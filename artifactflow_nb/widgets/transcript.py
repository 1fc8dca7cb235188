"""The state of a view: events folded into jobs, turns, tool calls, plans and questions.

The same events give the same state, whether they come one by one or are read from the store; chunks only fill what
`llm_complete` says again in full. A run that works for a call has a transcript of its own, within that call, which
takes in the events of that run. Nothing here knows of pages.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from artifactflow_nb.events import BESIDE, MAIN_JOB, StreamEvent, StreamEventType
from artifactflow_nb.plans import PLAN_CREATE
from artifactflow_nb.store.runs import INTERRUPTED, RUNNING, WAITING
from artifactflow_nb.text.markdown_blocks import TextBlocks
from artifactflow_nb.widgets.live_text import LiveText
from artifactflow_nb.widgets.parts import Job, Question, Subrun, ToolUse, Totals, Turn, Written
from artifactflow_nb.widgets.plan_work import PlanWork

_WENT_ON = "and the run went on without it"


class Transcript:
    """What happened in a run.

    Args:
        question: What was asked.
        within: The tool whose call it works for; empty for a run that works for none.

    Attributes:
        question: What was asked.
        within: The tool whose call it works for.
        lead: The job that answers.
        questions: Every permission that it asked for itself, by id, in order.
        subruns: The runs that it began, by id, in order.
        artifacts: What was written, by id.
        started_at: The time of the first event; None before it.
        ended_at: The time of the terminal event; None before it.
        response: The answer, as the run's end gave it.
        problem: Why it failed; empty if it did not.
        metrics: The execution metrics that came with the end; empty before it.
        context: How full the lead's last prompt was, `chars` of `limit_chars`; empty before its first reply.
    """

    def __init__(self, question: str = "", within: str = "") -> None:
        self.question = question
        self.within = within
        self.lead = Job(MAIN_JOB, "")
        self.questions: dict[str, Question] = {}
        self.subruns: dict[str, Subrun] = {}
        self.artifacts: dict[str, Written] = {}
        self.started_at: datetime | None = None
        self.ended_at: datetime | None = None
        self.response = ""
        self.problem = ""
        self.metrics: Mapping[str, Any] = {}
        self.context: Mapping[str, int] = {}
        self._jobs = {MAIN_JOB: self.lead}
        self._turns: dict[tuple[str, str], Turn] = {}
        self._latest: dict[str, Turn] = {}
        self._begun: dict[str, int] = {}
        self._uses: dict[str, ToolUse] = {}
        self._plans: dict[str, PlanWork] = {}
        self._seq = 0
        self._is_paused = False
        self._status = RUNNING

    @property
    def status(self) -> str:
        """`running`, `waiting`, `completed`, `failed`, `cancelled`, or `interrupted`: its process is gone.

        A run that has nothing to wait for any more goes on, whether it has said so or not.
        """
        return RUNNING if self._status == WAITING and not self.waits_for else self._status

    @property
    def ended(self) -> bool:
        """Whether the terminal event has come."""
        return self.ended_at is not None

    @property
    def open_questions(self) -> list[Question]:
        """Its own questions that nobody has answered; none once the run has ended."""
        return [] if self.ended else [q for q in self.questions.values() if q.approved is None]

    @property
    def waits_for(self) -> list[Question]:
        """The questions that nobody has answered, those of the runs that it began too; none once it has ended."""
        return [] if self.ended else [question for run in self.with_subruns() for question in run.open_questions]

    def with_subruns(self) -> "Iterator[Transcript]":
        """This run, and those that work for it, at first and at second hand."""
        yield self
        for subrun in self.subruns.values():
            yield from subrun.transcript.with_subruns()

    def asked(self, request_id: str) -> Question | None:
        """What the person was asked under this id, by the run or one that it began; None if nothing."""
        return next((run.questions[request_id] for run in self.with_subruns() if request_id in run.questions), None)

    @property
    def totals(self) -> Totals:
        """Tokens and calls."""
        calls = [use for use in self._uses.values() if use.is_call]
        turns = [turn for job in self.jobs for turn in job.turns if turn.usage]
        costs = [turn.cost_usd for turn in turns if turn.cost_usd is not None]
        tokens = sum(int(turn.usage.get("total_tokens") or 0) for turn in turns)
        return Totals(tokens, len(turns), len(calls), sum(costs) if costs else None)

    @property
    def jobs(self) -> list[Job]:
        """The lead's job, and those that were delegated or work on a plan, in the order in which they began."""
        return list(self._jobs.values())

    @property
    def plans(self) -> list[PlanWork]:
        """Every plan that was begun, in order."""
        return list(self._plans.values())

    @property
    def tool_uses(self) -> list[ToolUse]:
        """Every tool call of every job."""
        return list(self._uses.values())

    def apply(self, event: StreamEvent) -> bool:
        """Take in the next event; whether it is new: one that was taken in already changes nothing."""
        if event.seq <= self._seq:
            return False
        self._seq = event.seq
        self.started_at = self.started_at or event.timestamp
        if (
            self._status == WAITING and event.type is not StreamEventType.PERMISSION_RESULT
        ):  # all that is said meanwhile
            self._status = RUNNING
        if self._is_paused:
            self._is_paused = False
            for plan in self.plans:
                plan.go_on(event.timestamp)
        handle: Callable[[StreamEvent], None] | None = getattr(self, f"_on_{event.type}", None)
        if handle:
            handle(event)
        return True

    def observe(self, *, is_gone: bool) -> bool:
        """Take in whether the process of the run is gone, which no event says; whether that was not known before."""
        before, after = (RUNNING, INTERRUPTED) if is_gone else (INTERRUPTED, RUNNING)
        if self.status != before:
            return False
        self._status = after
        for use in self._uses.values():
            use.status = after if use.status == before else use.status
        for plan in self.plans:
            plan.settle(before, after)
        return True

    def _job(self, event: StreamEvent) -> Job:
        """The event's job; a new one hangs under the call that delegated it, or the plan that goes on."""
        job_id = _lane(event).partition(BESIDE)[0]
        job = self._jobs.get(job_id)
        if job is None:
            job = self._jobs[job_id] = Job(job_id, event.agent or "")
            plan = None if job_id in self._uses else self._open_plan()
            if plan is None:
                self._use(job_id, "call_subagent", {}, self.lead, event).job = job
            else:
                plan.add(job)
        job.agent = job.agent or event.agent or ""
        return job

    def _open_plan(self) -> PlanWork | None:
        """The plan that goes on: they are made one after the other."""
        use_id = next(reversed(self._plans), "")
        return self._plans[use_id] if use_id and self._uses[use_id].status not in {"ok", "failed"} else None

    def _plan(self, event: StreamEvent) -> PlanWork:
        """The plan of the event, which hangs under the call that made it."""
        use_id = str(event.data["tool_call_id"])
        if use_id not in self._plans:
            self._plans[use_id] = PlanWork()
            self._use(use_id, PLAN_CREATE, {}, self.lead, event).plan = self._plans[use_id]
        return self._plans[use_id]

    def _turn(self, event: StreamEvent) -> Turn:
        """The turn of the event's model call."""
        job = self._job(event)
        key = lane, _ = _lane(event), str(event.data.get("call_id", ""))
        if key not in self._turns:
            last = self._latest.get(lane)
            if last and not last.done:  # the attempt that it stood for was given up: its process is gone
                job.turns.remove(last)
            begun = self._begun.pop(lane, event.seq)
            self._turns[key] = self._latest[lane] = Turn(key[1], event.agent or job.agent, begun)
            job.turns.append(self._turns[key])
            job.turns.sort(key=lambda turn: turn.begun)  # stored, those that overlap come in the order of their ends
        return self._turns[key]

    def _use(self, use_id: str, tool: str, params: Mapping[str, Any], job: Job, event: StreamEvent) -> ToolUse:
        """The tool call of this id; a new one is entered into the turn that asked for it, or the last of the job."""
        if use_id not in self._uses:
            if not job.turns:
                job.turns.append(Turn(f"{job.id}-start", ended=0, done=True))
            self._uses[use_id] = ToolUse(use_id, tool, params)
            self._asking(event, job).tools.append(self._uses[use_id])
        use = self._uses[use_id]
        use.tool, use.params = tool, params or use.params
        return use

    def _asking(self, event: StreamEvent, job: Job) -> Turn:
        """The turn that the event's call belongs to: its agent's latest of those that go on at the same time."""
        lane = _lane(event)
        turn = self._latest.get(lane) if lane.partition(BESIDE)[0] == job.id else None
        return turn if turn is not None and turn.agent == event.agent else job.turns[-1]

    def _on_metadata(self, event: StreamEvent) -> None:
        self.question = self.question or str(event.data.get("question", ""))

    def _on_agent_start(self, event: StreamEvent) -> None:
        job = self._job(event)
        self._begun[_lane(event)] = event.seq
        job.instruction = job.instruction or str(event.data.get("instruction") or "")
        job.model = str(event.data.get("model") or job.model)

    def _on_llm_chunk(self, event: StreamEvent) -> None:
        turn = self._turn(event)
        kind = str(event.data.get("kind"))
        delta = str(event.data["delta"])
        text = delta if kind in turn.kinds else event.content or delta
        turn.kinds.add(kind)
        if kind == "call":
            turn.reply.append_call(event.tool or "", text)
        else:
            (turn.reasoning if kind == "reasoning" else turn.reply).append(text)

    def _on_retry(self, event: StreamEvent) -> None:
        turn = self._turn(event)
        turn.reply, turn.reasoning = LiveText(), TextBlocks()
        turn.retries.append(str(event.data.get("reason", "")))

    def _on_middleware_error(self, event: StreamEvent) -> None:
        job, data = self._job(event), event.data
        turn = self._turn(event) if "call_id" in data else job.turns[-1] if job.turns else None
        if turn is not None:
            why = f"{data.get('error_type')}: {data.get('message')}"
            turn.mishaps.append(f"{data.get('middleware')} failed in {data.get('hook')}, {_WENT_ON}: {why}")

    def _on_llm_complete(self, event: StreamEvent) -> None:
        turn = self._turn(event)
        turn.reply.settle(str(event.data.get("text") or ""))
        reasoning = str(event.data.get("reasoning") or "")
        if turn.reasoning.text != reasoning:
            turn.reasoning = TextBlocks(reasoning)
        turn.done, turn.ended = True, event.seq
        turn.usage = event.data.get("token_usage") or {"total_tokens": 0}
        turn.cost_usd = event.data.get("cost_usd")
        turn.duration_ms = float(event.data.get("duration_ms") or 0)
        if self._job(event) is self.lead:
            self.context = event.data.get("context") or self.context

    def _on_tool_start(self, event: StreamEvent) -> None:
        params = event.data.get("params") or {}
        use = self._use(str(event.data["tool_call_id"]), event.tool or "", params, self._job(event), event)
        use.status = "running"

    def _on_tool_complete(self, event: StreamEvent) -> None:
        use = self._use(str(event.data["tool_call_id"]), event.tool or "", {}, self._job(event), event)
        use.status = "ok" if event.data.get("success") else "failed"
        use.duration_ms = event.data.get("duration_ms")
        use.error = str(event.data.get("error") or "")
        use.metadata = event.data.get("metadata") or {}

    def _on_permission_request(self, event: StreamEvent) -> None:
        data = event.data
        if data["id"] in self.questions:  # each resume asks the open ones again
            return
        params = data.get("params") or {}
        question = Question(
            id=str(data["id"]),
            kind=str(data.get("kind") or "tool"),
            agent=event.agent or "",
            tool=event.tool or "",
            tool_call_id=str(data.get("tool_call_id") or data["id"]),
            title=str(data.get("title") or ""),
            preview=str(data.get("preview") or ""),
            message=str(data.get("message") or ""),
            params=params,
            within=self.within,
        )
        self.questions[question.id] = question
        use = self._use(question.tool_call_id, question.tool, params, self._job(event), event)
        use.status, use.question = "waiting", question

    def _on_permission_result(self, event: StreamEvent) -> None:
        question = self.questions.get(str(event.data["id"]))
        if question is None:
            return
        question.approved = bool(event.data.get("approved"))
        question.decision = str(event.data.get("decision") or ("approved" if question.approved else "denied"))
        question.scope = str(event.data.get("scope") or "once")
        question.decided_by = str(event.data.get("decided_by") or "")
        question.instruction = str(event.data.get("instruction") or "")
        use = self._uses[question.tool_call_id]
        carried_out = "running" if question.is_of_call else "ok"
        use.status = carried_out if question.is_settled else "failed"
        use.params = event.data.get("params") or use.params
        if self._status == INTERRUPTED:
            self._status = RUNNING

    def _on_subrun_start(self, event: StreamEvent) -> None:
        use = self._uses.get(str(event.data["tool_call_id"]))
        if use is not None and use.subrun is None:
            began = type(self)(str(event.data.get("question") or ""), use.tool)
            use.subrun = Subrun(str(event.data["run_id"]), began)
            self.subruns[use.subrun.run_id] = use.subrun

    def _on_artifact_changed(self, event: StreamEvent) -> None:
        data = event.data
        written = Written(
            str(data["artifact_id"]),
            int(data["version"]),
            str(data.get("title") or data["artifact_id"]),
            str(data.get("content_type") or "text/markdown"),
        )
        self.artifacts[written.artifact_id] = written

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
        job = Job(str(event.data["job_id"]), event.agent or "")
        self._plan(event).start(event.data, self._jobs.setdefault(job.id, job), event.timestamp)

    def _on_step_complete(self, event: StreamEvent) -> None:
        self._plan(event).complete(event.data, event.timestamp)

    def _on_complete(self, event: StreamEvent) -> None:
        if not event.is_terminal:
            self._status, self._is_paused = WAITING, True
            for plan in self.plans:
                plan.pause(event.timestamp)
            return
        self.response = str(event.data.get("response") or "")
        self.metrics = event.data.get("execution_metrics") or {}
        self._end(event, "completed" if event.data.get("success", True) else "failed")

    def _on_error(self, event: StreamEvent) -> None:
        self.problem = ": ".join(str(event.data[name]) for name in ("error_type", "message") if event.data.get(name))
        self._end(event, "failed")

    def _on_cancelled(self, event: StreamEvent) -> None:
        self.response = str(event.data.get("partial") or "")
        self._end(event, "cancelled")

    def cut_short(self, event: StreamEvent) -> None:
        """Take in that the run which this one works for has ended; its own end, which comes behind, says more."""
        self._end(event, "cancelled")

    def _end(self, event: StreamEvent, status: str) -> None:
        self._status, self.ended_at = status, event.timestamp
        for use in self._uses.values():
            if use.status not in {RUNNING, INTERRUPTED, WAITING}:
                continue
            use.status = "failed"
            if use.subrun is not None and not use.subrun.transcript.ended:  # it ends with the run that it works for
                use.subrun.transcript.cut_short(event)
        for plan in self.plans:
            for left in (RUNNING, INTERRUPTED):
                plan.settle(left, "cancelled" if status == "cancelled" else "failed", event.timestamp)


def _lane(event: StreamEvent) -> str:
    return str(event.data.get("job_id") or MAIN_JOB)
