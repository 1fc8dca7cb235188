"""What is known of a run that has run, as far as it came from outside: pure values.

::

    RecordedRun ── RecordedTurn ── RecordedCall ── RecordedAsk
                   a model call    a tool call     what a person or a policy said

Ids of calls are not among them: they follow from the run's id and the place (`derived_id`). A job is named by its path:
`main`, and `main/2.1` for what the first call of step 2 of `main` delegated. If that call made a plan, `main/2.1/0.3`
is the third job that worked for it.
"""

import re
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from artifactflow_nb.ambient import derived_id
from artifactflow_nb.approvals import Decision
from artifactflow_nb.delegating import DELEGATING
from artifactflow_nb.errors import RunCancelled
from artifactflow_nb.events import MAIN_JOB
from artifactflow_nb.messages import Message, ToolResult
from artifactflow_nb.models.base import ModelReply
from artifactflow_nb.plans import plan_job_id
from artifactflow_nb.projects import RUN_RESEARCH
from artifactflow_nb.recordings.graph_steps import GraphStep, job_of_path
from artifactflow_nb.recordings.pieces import Piece


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a model was asked for.

    Attributes:
        messages: The messages, the system message first.
        model: The model's name.
        temperature: Sampling temperature; None for the endpoint's default.
        tool_protocol: `xml` or `native`.
        tool_choice: `auto` or `none`.
        tools: The tools that it was offered natively, each {name, description, parameters}; empty in the text protocol,
            in which the system message says them.
    """

    messages: tuple[Message, ...]
    model: str
    temperature: float | None = None
    tool_protocol: str = "xml"
    tool_choice: str = "auto"
    tools: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Failure:
    """That an attempt gave no reply.

    Attributes:
        error_type: The name of the error.
        message: What it said.
        partial: The answer text that had arrived.
        retry_delay_s: Seconds until the model was asked again by itself; None if it was not.
    """

    error_type: str
    message: str
    partial: str = ""
    retry_delay_s: float | None = None


@dataclass(frozen=True, slots=True)
class RecordedAsk:
    """A request to the person and what was decided.

    Attributes:
        kind: `tool`, `plan`, `edit` or `budget`.
        preview: What was shown of what would be done.
        asked_at: When it was asked.
        decided_at: When it was decided; None if it was not.
        decision: What was decided; None if nothing.
        settled: Whether nobody had to be asked, because a policy or an earlier decision said it.
        by_code: Whether code decided, as `run.approve()` in a cell does, and not a click.
        told_at: When the run's events told the decision, if that was later than the question.
        params: The parameters that were asked about, as the tool reads them.
    """

    kind: str
    preview: str
    asked_at: datetime
    decided_at: datetime | None = None
    decision: Decision | None = None
    settled: bool = False
    by_code: bool = True
    told_at: datetime | None = None
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecordedNotice:
    """What a tool told while it worked: the type of the event and its payload."""

    type: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A tool call of a reply.

    Attributes:
        tool: The tool's name.
        args: The parameters as the model wrote them.
        unreadable: What of the call could not be read; None if it is sound.
        result: What came of it; None if it did not finish.
        called_at: When it began; None if it did not.
        completed_at: When it was over; None if it did not finish.
        duration_ms: How long it took.
        ask: What was asked about it; None if nothing had to be.
        notices: What the tool told while it worked, in order.
    """

    tool: str
    args: Mapping[str, Any]
    unreadable: str | None = None
    result: ToolResult | None = None
    called_at: datetime | None = None
    completed_at: datetime | None = None
    duration_ms: float = 0.0
    ask: RecordedAsk | None = None
    notices: tuple[RecordedNotice, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether it did not finish; one that delegates to a job of the run is as far as that is."""
        return self.result is None and (self.tool not in DELEGATING or self.tool == RUN_RESEARCH)


@dataclass(frozen=True, slots=True)
class RecordedTurn:
    """One attempt of a model turn.

    Attributes:
        path: The job.
        step: The number of the turn in the job, from 1.
        attempt: The number of the attempt of this turn, from 0.
        agent: Who asked.
        provider: Who answered.
        prompt: What was asked.
        started_at: When.
        completed_at: When the reply was complete, or the attempt had failed.
        duration_ms: How long it took.
        reply: What came back; None if it failed.
        failure: Why not; None if it did not fail.
        pieces: How the text arrived; empty if it was not shown while it arrived.
        cost_usd: What it cost; None if that is not known.
        calls: The tool calls of the reply, in order.
    """

    path: str
    step: int
    attempt: int
    agent: str
    provider: str
    prompt: Prompt
    started_at: datetime
    completed_at: datetime
    duration_ms: float
    reply: ModelReply | None = None
    failure: Failure | None = None
    pieces: Sequence[Piece] = ()
    cost_usd: float | None = None
    calls: tuple[RecordedCall, ...] = ()

    @property
    def place(self) -> tuple[str, int, int]:
        """Path, step and attempt: where in the run it stands, once."""
        return self.path, self.step, self.attempt

    @property
    def was_cut(self) -> bool:
        """Whether it was under way when the run was cancelled, or its process closed."""
        return self.failure is not None and self.failure.error_type == RunCancelled.__name__


@dataclass(frozen=True, slots=True)
class HandWritten:
    """A version of an artifact that a person wrote, once a run had answered or before there was one.

    Attributes:
        artifact_id: Of which artifact.
        update_type: What was done, as `Artifact` says it.
        sha256: The hash of its text.
        at: When.
    """

    artifact_id: str
    update_type: str
    sha256: str
    at: datetime


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run.

    Attributes:
        parent_message_id: The message that it continued; None for a new root.
        is_new_conversation: Whether its conversation began with it.
        settings: What it was begun with: budget, model, sources.
        budget_asks: The requests to spend more, in order.
        order: The lane of each event by its number, from 1: how what happened at the same time was interleaved. A lane
            is a job's path, `run`, or `ask ` and the path of what was asked about; empty where that is not known.
        ends: The times of the run's pauses, and last of its end.
        was_stopped: Whether a click ended it.
        by_hand: What a person wrote on its message, in order.
        beforehand: What a person had written in its conversation, on no message, if this began with it; in order.
        graph_steps: What an adapted graph did, in order; empty for every other run.
        graph_asks: The requests of an adapted graph's interrupts, in order.
        subrun_waits: For each pause the requests of runs that it had begun, for which it waited; empty if it never did.
        subruns_worked: Whether runs that it had begun were at work after its last pause.
    """

    run_id: str
    conversation_id: str
    message_id: str
    thread_id: str
    parent_message_id: str | None
    is_new_conversation: bool
    question: str
    flow: str
    settings: Mapping[str, Any]
    status: str
    started_at: datetime
    ends: tuple[datetime, ...]
    turns: tuple[RecordedTurn, ...]
    budget_asks: tuple[RecordedAsk, ...] = ()
    order: tuple[str, ...] = ()
    response: str | None = None
    error_type: str | None = None
    error_message: str | None = None
    package_version: str = ""
    was_stopped: bool = False
    by_hand: tuple[HandWritten, ...] = ()
    beforehand: tuple[HandWritten, ...] = ()
    manifest: Mapping[str, Any] = field(default_factory=dict)
    graph_steps: tuple[GraphStep, ...] = ()
    graph_asks: tuple[RecordedAsk, ...] = ()
    subrun_waits: tuple[tuple[str, ...], ...] = ()
    subruns_worked: bool = False

    @property
    def interrupts(self) -> dict[str, RecordedAsk]:
        """The requests of an adapted graph's interrupts by their subjects."""
        asked = (step.subject(self.run_id) for step in self.graph_steps if step.is_interrupt)
        return dict(zip(asked, self.graph_asks, strict=True))


def given_up(turns: Sequence[RecordedTurn]) -> set[tuple[str, int, int]]:
    """The places of attempts that were left when their process was closed, and made again by another."""
    last: dict[tuple[str, int], int] = {}
    for turn in turns:
        last[turn.path, turn.step] = max(turn.attempt, last.get((turn.path, turn.step), 0))
    return {turn.place for turn in turns if turn.was_cut and turn.attempt < last[turn.path, turn.step]}


def call_id(run_id: str, job_id: str, step: int, attempt: int) -> str:
    """The id of a model call."""
    return derived_id("call", run_id, job_id, step, attempt)


def tool_call_id(call_id: str, position: int) -> str:
    """The id of a tool call of a reply, by its position from 0."""
    return derived_id("tool", call_id, position)


def request_id(subject: str) -> str:
    """The id of the request about a subject."""
    return derived_id("req", subject)


def lane_of_call(tool: str, tool_call_id: str, job_id: str) -> str:
    """The lane in which a tool call runs: its job's, or that of the job which it delegates."""
    return tool_call_id if tool in DELEGATING else job_id


def plan_of_job(path: str) -> str | None:
    """The path of the call that made the plan for which a job works; None for any other job."""
    found = _PLAN_JOB.fullmatch(path)
    return found and found[1]


_OF_A_PLAN = frozenset({"plan_created", "plan_updated", "plan_revised", "step_complete", "artifact_changed"})


def is_of_a_plan(event: Mapping[str, Any] | sqlite3.Row) -> bool:
    """Whether a stored event is told in the lane of the call that made a plan; a tool may tell the same by itself."""
    return event["event_type"] in _OF_A_PLAN and event["tool_name"] is None


def lane_of_answer(subject: str) -> str:
    """The lane of a person's answer, which comes when it comes."""
    return f"ask {subject}"


def job_path(parent: str, step: int, position: int) -> str:
    """The path of the job that a call of a step delegates, by the call's position from 0."""
    return f"{parent}/{step}.{position + 1}"


def plan_job_path(plan: str, n: int) -> str:
    """The path of a job, by its number from 1, that works for the plan of the call with a path."""
    return f"{plan}/0.{n}"


_PLAN_JOB = re.compile(r"(.+)/0\.([0-9]+)")


def planned_job(path: str, jobs: Mapping[str, str]) -> str:
    """The id of a job of a plan by its path, and by the ids of other jobs; empty for any other path."""
    found = _PLAN_JOB.fullmatch(path)
    return plan_job_id(jobs[found[1]], int(found[2])) if found and found[1] in jobs else ""


def job_ids(run_id: str, turns: tuple[RecordedTurn, ...]) -> dict[str, str]:
    """The ids of a run's jobs by their paths, those that nothing was delegated to included."""
    ids = {MAIN_JOB: MAIN_JOB}
    for turn in sorted(turns, key=lambda turn: (turn.path.count("/"), turn.step, turn.attempt)):
        if turn.path not in ids:
            ids[turn.path] = planned_job(turn.path, ids) or job_of_path(turn.path, ids)
        key = call_id(run_id, ids[turn.path], turn.step, turn.attempt)
        for position in range(len(turn.calls)):
            ids[job_path(turn.path, turn.step, position)] = tool_call_id(key, position)
    return ids
