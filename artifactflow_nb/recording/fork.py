"""Forks: the rows of a run before a step, under new ids and with a change; an ordinary resume continues the fork.

Copied rows have no cost and no duration. Of parallel jobs, the steps that started before the changed step are copied.
"""

import hashlib
import math
import re
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.clock_ids import call_id, request_id, tool_call_id
from artifactflow_nb.core.events import MAIN_JOB, PARALLEL_SEPARATOR, StreamEventType
from artifactflow_nb.core.plan import plan_id, plan_job_id
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.recording.rows import NO_PROCESS, OPEN_CALL, OPEN_PLAN_JOB, Row, RunRows
from artifactflow_nb.recording.schema import fork_decision
from artifactflow_nb.recording.steps import Step, job_paths, steps_of
from artifactflow_nb.store.artifacts import NEXT_VERSION
from artifactflow_nb.store.calls import FINISHED, PENDING
from artifactflow_nb.store.encoding import insert, to_json
from artifactflow_nb.store.runs import RUNNING
from artifactflow_nb.store.schema import PLUGIN_TABLES, stored_plugin_tables

_MOST_LISTED = 50
FORKED = to_json({"replaced_by_fork": True})
"""The metadata of a tool call whose result a fork replaced: the tool was not executed."""

_ID = re.compile(r"\b(?:call|tool|req|job|plan|run|msg|thd|conv)-[0-9a-z]+\b")
_TIMES = {"ts", "created_at", "started_at", "completed_at", "called_at", "asked_at", "decided_at"}
_OF_TURNS = {StreamEventType.AGENT_START, StreamEventType.AGENT_COMPLETE, StreamEventType.LLM_COMPLETE}
_OF_REQUESTS = {StreamEventType.PERMISSION_REQUEST, StreamEventType.PERMISSION_RESULT}
_OF_CALLS = {
    StreamEventType.TOOL_START,
    StreamEventType.TOOL_COMPLETE,
    StreamEventType.ARTIFACT_CHANGED,
    StreamEventType.SUBRUN_START,
}
_OF_PLANS = {
    StreamEventType.PLAN_CREATED,
    StreamEventType.PLAN_UPDATED,
    StreamEventType.PLAN_REVISED,
    StreamEventType.STEP_START,
    StreamEventType.ARTIFACT_CHANGED,
}


@dataclass(frozen=True, slots=True)
class Change:
    """The change that a fork makes, stored in the settings of the fork.

    Attributes:
        number: The number of the first step that is executed again.
        step: The number of the model turn of that step in the job.
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
    """The ids and the start time of a fork, in microseconds; `moved` are new ids of its conversation and its parent."""

    run_id: str
    message_id: str
    thread_id: str
    now: int
    moved: Mapping[str, str] = field(default_factory=dict)


def change_of(
    rows: RunRows,
    number: int,
    *,
    prompt: str | None = None,
    model: str | None = None,
    tool_result: str | None = None,
    decision: Decision | bool | None = None,
) -> Change:
    """Create the change from the arguments of `Run.fork`, checked against the run.

    Errors: `UsageError` that lists the steps for an unknown number, and for a change that does not fit the step.
    """
    steps = steps_of(rows)
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= len(steps):
        raise UsageError(f"step is {brief(number)}; the run {rows.run_id} has these steps:\n{_listed(steps)}")
    step = steps[number - 1]
    for name, value, kind in (("prompt", prompt, "model"), ("tool_result", tool_result, "tool"),
                              ("decision", decision, "decision")):  # fmt: skip
        if value is not None and kind != step.kind:
            fitting = _listed([other for other in steps if other.kind == kind]) or "none"
            raise UsageError(
                f"{name} changes a {kind} step, and step {number} is a {step.kind} step: {step.agent} "
                f"{step.description}. The {kind} steps are:\n{fitting}"
            )
    chosen = Decision(decision) if isinstance(decision, bool) else decision
    names = ("approved", "instruction", "params", "scope")
    as_json = None
    if chosen is not None:
        allowed = str(step.row.get("allowed") or "").split()
        if allowed and chosen.choice not in allowed:
            raise UsageError(f"Step {number} cannot be {chosen.choice}. It can be: {', '.join(allowed)}.")
        # `instead` is the name of this field in stored and recorded runs.
        as_json = {**{name: getattr(chosen, name) for name in names}, "instead": chosen.replaces_call}
    return Change(rows.run_id, number, step.path, step.step, prompt, model, tool_result, as_json)


def _listed(steps: Sequence[Step]) -> str:
    lines = [f"{step.number}: {step.agent} {step.description}" for step in steps[:_MOST_LISTED]]
    more = [f"and {len(steps) - _MOST_LISTED} more"] if len(steps) > _MOST_LISTED else []
    return "\n".join([*lines, *more])


class _Copy:
    """Selection of the rows of a run before a step.

    Attributes:
        calls: The ids of the copied tool calls that keep their result.
        requests: The ids of the copied requests, which are all decided.
        finished_jobs: The ids of the jobs whose steps are all copied.
    """

    def __init__(self, rows: RunRows, change: Change) -> None:
        steps = steps_of(rows)
        before, after = steps[: change.number - 1], steps[change.number - 1 :]
        self.rows = rows
        self.change = change
        self.target = after[0]
        self.turns = {step.row["call_id"] for step in before if step.kind == "model"}
        self.calls = {
            step.row["tool_call_id"]
            for step in before
            if step.kind == "tool"
            and step.row["status"] == FINISHED
            and not any(
                other.path == step.job or other.path.startswith((f"{step.job}/", f"{step.job}{PARALLEL_SEPARATOR}"))
                for other in after
            )
        }
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
        self.jobs.add(self.target.row["job_id"])  # the job started before its first turn
        self.finished_jobs = self.jobs - {step.row["job_id"] for step in after if step.kind == "model"}

        row = self.target.row
        if self.target.kind == "model":
            first_types, ids = {StreamEventType.AGENT_START}, {"job_id": row["job_id"], "step": row["step"]}
        elif self.target.kind == "tool":
            first_types = {StreamEventType.TOOL_START, StreamEventType.TOOL_COMPLETE}
            ids = {"tool_call_id": row["tool_call_id"]}
        else:
            first_types, ids = {StreamEventType.PERMISSION_REQUEST}, {"id": row["request_id"]}
        self._start = math.inf  # the number of the step's first event, if the step has started
        self._version_events: dict[tuple[str, int], int] = {}
        for event in rows.of_run(rows.run_id)["events"]:
            data = orjson.loads(event["data_json"])
            if event["event_type"] == StreamEventType.ARTIFACT_CHANGED:
                self._version_events[data["artifact_id"], data["version"]] = event["seq"]
            if event["event_type"] in first_types and ids.items() <= data.items():
                self._start = min(self._start, event["seq"])

    def llm_calls(self) -> Iterator[Row]:
        """Return the copied model turns, at no cost."""
        free = {"cost_usd": 0.0, "cassette": "hit", "llm_duration_ms": 0.0, "ttft_ms": None, "pieces_json": None}
        for row in self.rows["llm_calls"]:
            if row["call_id"] in self.turns:  # the prompt is stored whole: the call that shares parts may be left out
                prompt = to_json(self.rows.prompts[row["call_id"]])
                yield {**row, **free, "request_base": None, "request_json": prompt}

    def tool_calls(self) -> Iterator[Row]:
        """Return the calls of the copied turns; unfinished calls are open."""
        result: Row = {**OPEN_CALL, "success": 1, "result": self.change.tool_result, "metadata_json": FORKED}
        result = {**result, "status": FINISHED, "approval": "not_needed", "called_at": 0, "completed_at": 0}
        for row in self.rows["tool_calls"]:
            if row["call_id"] not in self.turns:
                continue
            if row["tool_call_id"] not in self.calls:
                yield {**row, **OPEN_CALL, "status": PENDING, "called_at": None, "cassette": "off"}
            else:
                replaced = result if self._has_new_result(row["tool_call_id"]) else {}
                yield {**row, **replaced, "cassette": "hit", "duration_ms": 0.0}

    def _has_new_result(self, tool_call_id: str | None) -> bool:
        return self.change.tool_result is not None and tool_call_id == self.target.row["tool_call_id"]

    def plan_jobs(self) -> Iterator[Row]:
        """Return the jobs of plans that had started."""
        for row in self.rows["plan_jobs"]:
            if row["job_id"] in self.jobs:
                yield row if row["job_id"] in self.finished_jobs else {**row, **OPEN_PLAN_JOB}

    def plugin_rows(self, table: str) -> Iterator[Row]:
        """Return the rows of a plugin's table that belong to copied calls and jobs."""
        for row in self.rows[table]:
            if row.get("tool_call_id") in self.calls or row.get("job_id") in self.jobs:
                yield row

    def versions(self) -> Iterator[Row]:
        """Return the artifact versions of copied tool calls, and of a plan before the step."""
        for row in self.rows.of_run(self.rows.run_id)["artifact_versions"]:
            seq = self._version_events.get((row["artifact_id"], row["version"]))
            if row["tool_call_id"]:
                is_copied = row["tool_call_id"] in self.calls and not self._has_new_result(row["tool_call_id"])
            elif seq is None:
                is_copied = row["created_at"] < self.target.at
            else:  # times may be equal
                is_copied = seq < self._start
            if is_copied:
                yield row

    def events(self) -> Iterator[Row]:
        """Return the events of the copied rows, in order."""
        turns = {(row["job_id"], row["step"]) for row in self.rows["llm_calls"] if row["call_id"] in self.turns}
        new_result = {"success": True, "error": None, "duration_ms": 0.0, "metadata": orjson.loads(FORKED)}
        for row in self.rows.of_run(self.rows.run_id)["events"]:
            kind, data = StreamEventType(row["event_type"]), orjson.loads(row["data_json"])
            if kind in _OF_TURNS:
                is_copied = data.get("call_id") in self.turns or (data["job_id"], data["step"]) in turns
            elif kind in _OF_REQUESTS:
                is_target = self.change.decision is not None and data["id"] == self.target.row["request_id"]
                is_copied = data["id"] in self.requests or (is_target and kind is StreamEventType.PERMISSION_REQUEST)
            elif kind in _OF_CALLS and row["tool_name"] is not None:
                is_copied = data["tool_call_id"] in self.calls
            elif kind is StreamEventType.STEP_COMPLETE:
                is_copied = data["job_id"] in self.finished_jobs
            else:
                is_copied = kind is StreamEventType.METADATA or (kind in _OF_PLANS and row["seq"] < self._start)
            if is_copied and self._has_new_result(data.get("tool_call_id")):
                data |= {name: value for name, value in new_result.items() if name in data}
                yield {**row, "data_json": to_json(data)}
            elif is_copied:
                yield row


def write_fork(
    db: sqlite3.Connection, rows: RunRows, change: Change, ids: NewRunIds, columns: Mapping[str, str]
) -> None:
    """Write a fork, which is a run that can be resumed, into the store, in the caller's transaction.

    `columns` has the columns of the fork's row that differ from the forked run: settings, manifest, mode, release.
    """
    copy = _Copy(rows, change)
    target = copy.target.row
    names = _new_ids(rows, copy.turns, ids)

    def put(table: str, row: Row, **changes: Any) -> None:
        """Insert a row with the ids of the fork, and the start of the fork as time: copied work takes no time."""
        copied = {
            name: _ID.sub(lambda found: names.get(found[0], found[0]), value) if isinstance(value, str)
            else ids.now if name in _TIMES and value is not None else value
            for name, value in row.items()
        }  # fmt: skip
        if "sha256" in row:
            copied["sha256"] = hashlib.sha256(str(copied["content"]).encode()).hexdigest()
        insert(db, table, {**copied, **changes})

    put("messages", rows.message, status=RUNNING, response=None)
    db.execute(
        "UPDATE conversations SET active_message_id = ? WHERE conversation_id = ?",
        (ids.message_id, names.get(rows.run["conversation_id"], rows.run["conversation_id"])),
    )
    ended = dict.fromkeys(("completed_at", "error_type", "error_message", "outcome", "parent_run_id"))
    put("runs", rows.run, **ended, status=RUNNING, owner=NO_PROCESS, **columns)
    tables = {"llm_calls": copy.llm_calls(), "tool_calls": copy.tool_calls(), "plan_jobs": copy.plan_jobs()}
    of_plugins = {table.name: copy.plugin_rows(table.name) for table in PLUGIN_TABLES.values()}
    for table, copied in {**tables, **of_plugins}.items():
        for row in copied:
            put(table, row)
    if change.prompt is not None and target["job_id"] == MAIN_JOB:
        db.execute("UPDATE runs SET question = ? WHERE run_id = ?", (change.prompt, ids.run_id))
    elif change.prompt is not None:
        job = names.get(target["job_id"], target["job_id"])
        instructed = "json_set(stored_text(args_json), '$.instruction', ?)"
        sql = f"UPDATE tool_calls SET args_json = {instructed} WHERE tool_call_id = ?"  # noqa: S608 - a constant
        db.execute(sql, (change.prompt, job))
        for table in ("plan_jobs", *(table.name for table in stored_plugin_tables(db) if table.holds_jobs)):
            db.execute(f"UPDATE {table} SET instruction = ? WHERE job_id = ?", (change.prompt, job))  # noqa: S608 - the names above
    number = db.execute("SELECT coalesce(max(decision_number), 0) FROM approvals").fetchone()[0]
    for row in rows["approvals"]:
        if row["request_id"] in copy.requests:
            number += bool(row["decision_number"])
            put("approvals", row, by_code=0, decision_number=number if row["decision_number"] else None)
    if change.decision is not None:
        decision = fork_decision(change.decision)
        put(
            "approvals",
            target,
            published=0,
            decision=decision.choice,
            decided_at=ids.now,
            decided_by=decision.decided_by,
            instruction=decision.instruction or None,
            scope=decision.scope,
            edited_json=None if decision.params is None else to_json(decision.params),
            by_code=0,
            decision_number=number + 1,
        )
    renumbered: dict[tuple[str, int], int] = {}
    for row in copy.versions():
        artifact = names.get(row["conversation_id"], row["conversation_id"]), row["artifact_id"]
        version = renumbered[row["artifact_id"], row["version"]] = db.execute(NEXT_VERSION, artifact).fetchone()[0]
        put("artifact_versions", row, version=version)
    for seq, row in enumerate(copy.events(), 1):
        data = orjson.loads(row["data_json"])
        if (key := (data.get("artifact_id"), data.get("version"))) in renumbered:
            row = {**row, "data_json": to_json({**data, "version": renumbered[key]})}  # noqa: PLW2901
        put("events", row, seq=seq)


def _new_ids(rows: RunRows, copied_turns: Collection[str], ids: NewRunIds) -> dict[str, str]:
    """Map old ids to new ids, which are derived from the fork's id and the position, like the ids of every run."""
    run = rows.run
    names = {run["run_id"]: ids.run_id, run["message_id"]: ids.message_id, run["thread_id"]: ids.thread_id, **ids.moved}
    paths = job_paths(rows, rows.run_id)
    turns = [row for row in rows["llm_calls"] if row["call_id"] in copied_turns]
    for turn in sorted(turns, key=lambda row: (paths.get(row["job_id"], "").count("/"), row["step"])):
        job = names.get(turn["job_id"], str(turn["job_id"]))
        new = names[turn["call_id"]] = call_id(ids.run_id, job, turn["step"], 0)
        for call in rows.calls_of_replies.get(turn["call_id"], ()):
            key = names[call["tool_call_id"]] = tool_call_id(new, call["position"])
            names[plan_id(call["tool_call_id"])] = plan_id(key)
            for plan in rows["plan_jobs"]:
                if plan["tool_call_id"] == call["tool_call_id"]:
                    names[plan["job_id"]] = plan_job_id(key, plan["n"])
    for row in rows["approvals"]:
        subject = _ID.sub(lambda match: names.get(match[0], match[0]), row["subject"])
        names[row["request_id"]] = request_id(subject)
    return names
