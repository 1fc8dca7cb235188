"""Forks: the rows of a run before a step, under new ids and with a change; the ordinary resume continues from there.

Copied rows cost nothing and take no time. Parallel jobs keep the steps that started before the changed one.
"""

import hashlib
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.clock_ids import call_id, request_id, tool_call_id
from artifactflow_nb.core.events import MAIN_JOB, StreamEventType
from artifactflow_nb.core.plan import plan_id, plan_job_id
from artifactflow_nb.errors import UsageError
from artifactflow_nb.recording.rows import NO_PROCESS, Row, RunRows
from artifactflow_nb.recording.schema import fork_decision
from artifactflow_nb.recording.steps import Step, job_paths, steps_of
from artifactflow_nb.store.encoding import insert, to_json
from artifactflow_nb.store.runs import RUNNING

_MOST_LISTED = 50
FORKED = to_json({"replaced_by_fork": True})
"""The metadata of a tool call whose result a fork replaced: the tool was not executed."""

_ID = re.compile(r"\b(?:call|tool|req|job|plan|run|msg|thd)-[0-9a-z]+\b")
_OPEN_CALL = {"status": "pending", "called_at": None, "completed_at": None, "duration_ms": None, "success": None}
_OPEN_CALL |= dict.fromkeys(("result", "metadata_json", "error_type", "error_message", "approval", "shown_chars"))
_OF_TURNS = {StreamEventType.AGENT_START, StreamEventType.AGENT_COMPLETE, StreamEventType.LLM_COMPLETE}
_OF_REQUESTS = {StreamEventType.PERMISSION_REQUEST, StreamEventType.PERMISSION_RESULT}
_OF_CALLS = {
    StreamEventType.TOOL_START,
    StreamEventType.TOOL_COMPLETE,
    StreamEventType.ARTIFACT_CHANGED,
    StreamEventType.SUBRUN_START,
}
_NEXT_VERSION = """
SELECT 1 + max(coalesce(max(version), 0), coalesce((SELECT last_version FROM deleted_versions d
    WHERE d.conversation_id = ?1 AND d.artifact_id = ?2), 0))
FROM artifact_versions WHERE conversation_id = ?1 AND artifact_id = ?2
"""


@dataclass(frozen=True, slots=True)
class Change:
    """The change that a fork makes, stored in its settings.

    Attributes:
        of: The forked run.
        number: Number of the first step that is executed again.
        path: Place of the job of that step.
        step: The number of its model turn in the job.
        prompt: The new instruction of that job.
        model: The model from there on.
        tool_result: The new result of the tool call.
        decision: The new decision, with the fields of `Decision`.
    """

    of: str
    number: int
    path: str
    step: int
    prompt: str | None = None
    model: str | None = None
    tool_result: str | None = None
    decision: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return plain JSON, without the fields that are None."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class NewRunIds:
    """The ids of a fork and the time at which it starts, in microseconds."""

    run_id: str
    message_id: str
    thread_id: str
    now: int


def change_of(
    rows: RunRows,
    number: int,
    *,
    prompt: str | None = None,
    model: str | None = None,
    tool_result: str | None = None,
    decision: Decision | bool | None = None,
) -> Change:
    """A change, checked against the run: the arguments are those of `Run.fork`.

    Errors: `UsageError` for a step that the run does not have, with those that it has, and for a change that does not
        fit the step.
    """
    steps = steps_of(rows)
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= len(steps):
        raise UsageError(f"step is {number!r}; the run {rows.run_id} has these:\n{_listed(steps)}")
    step = steps[number - 1]
    for name, value, kind in (("prompt", prompt, "model"), ("tool_result", tool_result, "tool"),
                              ("decision", decision, "decision")):  # fmt: skip
        if value is not None and kind != step.kind:
            fitting = _listed([other for other in steps if other.kind == kind]) or "none"
            raise UsageError(
                f"{name} changes a {kind} step, and step {number} is none: {step.agent} {step.description}. "
                f"Steps of that kind are:\n{fitting}"
            )
    chosen = Decision(decision) if isinstance(decision, bool) else decision
    names = ("approved", "instruction", "params", "scope")
    as_json = None
    if chosen is not None:  # `instead` is the name in stored and recorded runs
        as_json = {**{name: getattr(chosen, name) for name in names}, "instead": chosen.replaces_call}
    return Change(rows.run_id, number, step.path, step.step, prompt, model, tool_result, as_json)


def _listed(steps: Sequence[Step]) -> str:
    lines = [f"{step.number}: {step.agent} {step.description}" for step in steps[:_MOST_LISTED]]
    more = [f"and {len(steps) - _MOST_LISTED} more"] if len(steps) > _MOST_LISTED else []
    return "\n".join([*lines, *more])


class _Copy:
    """The rows of a run before a step.

    Args:
        rows: The run.
        change: The step, and what is changed.
    """

    def __init__(self, rows: RunRows, change: Change) -> None:
        self.rows = rows
        self.change = change
        self.steps = steps_of(rows)
        if not 1 <= change.number <= len(self.steps):
            raise UsageError(f"The run {rows.run_id} has {len(self.steps)} steps, and no step {change.number}.")
        self.target = self.steps[change.number - 1]
        before = self.steps[: change.number - 1]
        self.turns = {step.row["call_id"] for step in before if step.kind == "model"}
        self.calls = {step.row["tool_call_id"] for step in before if step.kind == "tool" and self._is_whole(step)}
        self.requests = {step.row["request_id"] for step in before if step.kind == "decision"}
        self.requests |= {
            row["request_id"]
            for row in rows["approvals"]
            if row["settled"] and (row["tool_call_id"] is None or row["tool_call_id"] in self.calls)
        }
        if change.tool_result is not None:
            key = self.target.row["tool_call_id"]
            self.calls.add(key)
            self.requests -= {row["request_id"] for row in rows["approvals"] if row["tool_call_id"] == key}
        self.jobs = {step.row["job_id"] for step in before if step.kind == "model"}
        self.jobs.add(self.target.row["job_id"])  # it started before its first turn
        self._version_events: dict[tuple[str, int], int] = {}
        self._start = self._first_event()

    def _first_event(self) -> int:
        """The number of the event with which the step began."""
        row, kind = self.target.row, self.target.kind
        events = [event for event in self.rows["events"] if event["run_id"] == self.rows.run_id]
        start = events[-1]["seq"] + 1 if events else 0
        for event in reversed(events):
            data = orjson.loads(event["data_json"])
            if event["event_type"] == StreamEventType.ARTIFACT_CHANGED:
                self._version_events[data["artifact_id"], data["version"]] = event["seq"]
            if kind == "model":
                here = (data.get("job_id"), data.get("step")) == (row["job_id"], row["step"])
                is_first = here and event["event_type"] == StreamEventType.AGENT_START
            elif kind == "tool":
                is_own = data.get("tool_call_id") == row["tool_call_id"]
                is_first = is_own and event["event_type"] in {StreamEventType.TOOL_START, StreamEventType.TOOL_COMPLETE}
            else:
                is_first = event["event_type"] == StreamEventType.PERMISSION_REQUEST and data["id"] == row["request_id"]
            start = event["seq"] if is_first else start
        return int(start)

    def _is_whole(self, step: Step) -> bool:
        """True if a call had finished, and all steps of the job that it started are copied."""
        inside = [other for other in self.steps if other.path == step.job or other.path.startswith(f"{step.job}/")]
        return step.row["status"] == "finished" and all(other.number < self.change.number for other in inside)

    def llm_calls(self) -> list[Row]:
        """The copied model turns, at no cost."""
        free = {"cost_usd": 0.0, "cassette": "hit", "llm_duration_ms": 0.0, "ttft_ms": None, "pieces_json": None}
        turns = (row for row in self.rows["llm_calls"] if row["call_id"] in self.turns)
        prompts = self.rows.prompts  # whole: the call with which a prompt shares its parts may not be copied
        return [
            {**row, **free, "request_base": None, "request_json": to_json(prompts[row["call_id"]])} for row in turns
        ]

    def tool_calls(self) -> list[Row]:
        """The calls of the copied turns; those that had not finished are open."""
        return [self._call(row) for row in self.rows["tool_calls"] if row["call_id"] in self.turns]

    def _call(self, row: Row) -> Row:
        if row["tool_call_id"] not in self.calls:
            return {**row, **_OPEN_CALL, "cassette": "off"}
        finished = {**row, "cassette": "hit", "duration_ms": 0.0}
        if self.change.tool_result is None or row["tool_call_id"] != self.target.row.get("tool_call_id"):
            return finished
        result: Row = {"success": 1, "result": self.change.tool_result, "metadata_json": FORKED, "status": "finished"}
        empty = dict.fromkeys(("error_type", "error_message", "shown_chars"))
        return {**finished, **result, **empty, "approval": "not_needed", "called_at": 0, "completed_at": 0}

    def approvals(self) -> list[Row]:
        """The requests that were decided before the step, and the one with the new decision."""
        requests: list[Row] = [
            {**row, "by_code": 0} for row in self.rows["approvals"] if row["request_id"] in self.requests
        ]
        if self.change.decision is not None:
            open_request = dict.fromkeys(
                ("decided_at", "decision", "scope", "decided_by", "instruction", "edited_json")
            )
            requests.append({**self.target.row, **open_request, "decision_number": None, "announced": 0})
        return requests

    def events(self) -> Iterator[Row]:
        """The events of the copied rows, in their order."""
        for row in self.rows["events"]:
            if row["run_id"] == self.rows.run_id and self._is_copied(row, orjson.loads(row["data_json"])):
                yield self._event(row)

    def _is_copied(self, row: Row, data: Mapping[str, Any]) -> bool:
        kind = StreamEventType(row["event_type"])
        if kind in _OF_TURNS:
            return any(
                call["call_id"] == data.get("call_id")
                or (call["job_id"], call["step"]) == (data["job_id"], data["step"])
                for call in self.rows["llm_calls"]
                if call["call_id"] in self.turns
            )
        if kind in _OF_REQUESTS:
            is_target = self.change.decision is not None and data["id"] == self.target.row["request_id"]
            return data["id"] in self.requests or (is_target and kind is StreamEventType.PERMISSION_REQUEST)
        if kind in _OF_CALLS and row["tool_name"] is not None:
            return data["tool_call_id"] in self.calls
        if kind is StreamEventType.STEP_COMPLETE:
            return data["job_id"] in self.finished_jobs()
        of_plan = {"plan_created", "plan_updated", "plan_revised", "step_start", "artifact_changed"}
        return bool(kind is StreamEventType.METADATA or (kind in of_plan and row["seq"] < self._start))

    def _event(self, row: Row) -> Row:
        data = orjson.loads(row["data_json"])
        if self.change.tool_result is None or data.get("tool_call_id") != self.target.row.get("tool_call_id"):
            return row
        changed: dict[str, Any] = {"success": True, "error": None, "duration_ms": 0.0, "metadata": orjson.loads(FORKED)}
        return {**row, "data_json": to_json({**data, **{name: changed[name] for name in changed if name in data}})}

    def finished_jobs(self) -> set[str]:
        """The jobs of which all steps are copied."""
        left = {step.row["job_id"] for step in self.steps[self.change.number - 1 :] if step.kind == "model"}
        return self.jobs - left

    def plan_jobs(self) -> list[Row]:
        """The jobs of plans that had started."""
        open_job = {"outcome": "", "text": "", "completed_at": None}
        done = self.finished_jobs()
        jobs = [row for row in self.rows["plan_jobs"] if row["job_id"] in self.jobs]
        return [row if row["job_id"] in done else {**row, **open_job} for row in jobs]

    def _was_written(self, version: Row) -> bool:
        """True if a version of a plan was written before the step: by its event, because times may be equal."""
        name = version["artifact_id"], version["version"]
        seq = self._version_events.get(name)
        return bool(version["created_at"] < self.target.at if seq is None else seq < self._start)

    def versions(self) -> list[Row]:
        """The artifact versions of copied tool calls, and of a plan before the step."""
        executed = self.calls if self.change.tool_result is None else self.calls - {self.target.row["tool_call_id"]}
        return [
            row
            for row in self.rows["artifact_versions"]
            if row["run_id"] == self.rows.run_id
            and (row["tool_call_id"] in executed if row["tool_call_id"] else self._was_written(row))
        ]


def write_fork(
    db: sqlite3.Connection, rows: RunRows, change: Change, ids: NewRunIds, columns: Mapping[str, str]
) -> None:
    """Write a fork into the store, in the caller's transaction: a run that can be resumed.

    Args:
        db: A connection in a transaction.
        rows: The run that is forked.
        change: The step, and what is changed.
        ids: The ids of the fork.
        columns: The columns of its row that are not those of the forked run: settings, manifest, mode, release.
    """
    copy = _Copy(rows, change)
    names = _new_ids(rows, copy, ids)
    renumbered: dict[tuple[str, int], int] = {}

    def put(table: str, found: Sequence[Row]) -> None:
        for row in found:
            insert(db, table, _at(_renamed(row, names), ids.now))

    message = {**rows.message, "status": RUNNING, "response": None}
    put("messages", [message])
    db.execute(
        "UPDATE conversations SET active_message_id = ? WHERE conversation_id = ?",
        (ids.message_id, rows.run["conversation_id"]),
    )
    ended = dict.fromkeys(("completed_at", "error_type", "error_message", "parent_run_id"))
    run = _renamed({**rows.run, **ended, "status": RUNNING, "owner": NO_PROCESS}, names)
    insert(db, "runs", _at({**run, **columns}, ids.now))
    put("llm_calls", copy.llm_calls())
    put("tool_calls", copy.tool_calls())
    put("plan_jobs", copy.plan_jobs())
    put("block_jobs", [row for row in rows["block_jobs"] if row["job_id"] in copy.jobs])
    last = db.execute("SELECT coalesce(max(decision_number), 0) FROM approvals").fetchone()[0]
    decided = [row for row in copy.approvals() if row["decision_number"]]
    numbers = {row["request_id"]: last + n for n, row in enumerate(decided, 1)}
    put("approvals", [{**row, "decision_number": numbers.get(row["request_id"])} for row in copy.approvals()])
    for row in copy.versions():
        place = row["conversation_id"], row["artifact_id"]
        number = renumbered[row["artifact_id"], row["version"]] = db.execute(_NEXT_VERSION, place).fetchone()[0]
        renamed = _renamed({**row, "version": number}, names)
        content = str(renamed["content"])
        insert(
            db, "artifact_versions", _at({**renamed, "sha256": hashlib.sha256(content.encode()).hexdigest()}, ids.now)
        )
    put("events", [_numbered(row, n, renumbered) for n, row in enumerate(copy.events(), 1)])
    _apply(db, copy, names, ids, last + len(decided) + 1)


def _apply(db: sqlite3.Connection, copy: _Copy, names: Mapping[str, str], ids: NewRunIds, number: int) -> None:
    """Apply the changes that the copied rows do not have yet: prompt and decision."""
    change, target = copy.change, copy.target
    if change.prompt is not None and target.row["job_id"] == MAIN_JOB:
        db.execute("UPDATE runs SET question = ? WHERE run_id = ?", (change.prompt, ids.run_id))
    elif change.prompt is not None:
        job = names.get(target.row["job_id"], target.row["job_id"])
        db.execute(
            "UPDATE tool_calls SET args_json = json_set(args_json, '$.instruction', ?) WHERE tool_call_id = ?",
            (change.prompt, job),
        )
        for table in ("plan_jobs", "block_jobs"):
            db.execute(f"UPDATE {table} SET instruction = ? WHERE job_id = ?", (change.prompt, job))  # noqa: S608 - the names above
    if change.decision is not None:
        request = names[target.row["request_id"]]
        decision = fork_decision(change.decision)
        edited = None if decision.params is None else to_json(decision.params)
        db.execute(
            "UPDATE approvals SET decision = ?, decided_at = ?, decided_by = ?, instruction = ?, scope = ?, "
            "edited_json = ?, by_code = 0, decision_number = ? WHERE request_id = ?",
            (
                *(decision.outcome, ids.now, decision.decided_by, decision.instruction or None, decision.scope, edited),
                *(number, request),
            ),
        )


def _numbered(row: Row, number: int, versions: Mapping[tuple[str, int], int]) -> Row:
    data = orjson.loads(row["data_json"])
    if (known := versions.get((data.get("artifact_id"), data.get("version")))) is not None:
        row = {**row, "data_json": to_json({**data, "version": known})}
    return {**row, "seq": number}


def _at(row: Row, now: int) -> Row:
    """The row with all its times replaced: copied work takes no time."""
    times = ("ts", "created_at", "started_at", "completed_at", "called_at", "asked_at", "decided_at")
    return {name: now if name in times and value is not None else value for name, value in row.items()}


def _renamed(row: Row, names: Mapping[str, str]) -> Row:
    return {
        name: _ID.sub(lambda found: names.get(found[0], found[0]), value) if isinstance(value, str) else value
        for name, value in row.items()
    }


def _new_ids(rows: RunRows, copy: _Copy, ids: NewRunIds) -> dict[str, str]:
    """The new ids by the old ones. They are derived from run and place, as the ids of every run."""
    run = rows.run
    names = {run["run_id"]: ids.run_id, run["message_id"]: ids.message_id, run["thread_id"]: ids.thread_id}
    paths = job_paths(rows, rows.run_id)
    turns = [row for row in rows["llm_calls"] if row["call_id"] in copy.turns]
    for turn in sorted(turns, key=lambda row: (paths.get(row["job_id"], "").count("/"), row["step"])):
        job = names.get(turn["job_id"], str(turn["job_id"]))
        new = names[turn["call_id"]] = call_id(ids.run_id, job, turn["step"], 0)
        for call in rows["tool_calls"]:
            if call["call_id"] != turn["call_id"]:
                continue
            key = names[call["tool_call_id"]] = tool_call_id(new, call["position"])
            names[plan_id(call["tool_call_id"])] = plan_id(key)
            for plan in rows["plan_jobs"]:
                if plan["tool_call_id"] == call["tool_call_id"]:
                    names[plan["job_id"]] = plan_job_id(key, plan["n"])
    for row in rows["approvals"]:
        subject = _ID.sub(lambda found: names.get(found[0], found[0]), row["subject"])
        names[row["request_id"]] = request_id(subject)
    return names
