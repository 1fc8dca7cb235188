"""The steps of a run, ordered by start: model turns, tool calls and decisions of a person."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from artifactflow_nb.core.events import MAIN_JOB, PARALLEL_SEPARATOR
from artifactflow_nb.core.messages import COMPUTED_PROVIDER
from artifactflow_nb.recording.rows import Row, RunRows
from artifactflow_nb.store.approvals import parse_decision

Kind = Literal["model", "tool", "decision"]

_RANKS = {"model": 0, "decision": 1, "tool": 2}


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a run.

    Attributes:
        number: Number in the run, from 1.
        kind: `model`, `tool` or `decision`.
        path: Place of the job: `main`; `main/2.1` for the job of the first call of step 2 of `main`.
        step: The number of the model turn in the job.
        position: Position in the reply, from 0, of a tool call or of the decided call; None for a turn.
        name: The model, or the tool; empty for an agent without a language model.
        at: Start, in microseconds since 1970.
        row: Row in `llm_calls`, `tool_calls` or `approvals`.
    """

    number: int
    kind: Kind
    path: str
    step: int
    position: int | None
    agent: str
    name: str
    at: int
    row: Row = field(repr=False)
    rows: RunRows = field(repr=False)

    @property
    def description(self) -> str:
        """The action in a few words, e.g. `ran web_search`."""
        if self.kind == "model" and not self.name:
            return "listed the next calls"
        return {"model": "asked ", "tool": "ran ", "decision": "waited for a decision on "}[self.kind] + self.name

    @property
    def outcome(self) -> str:
        """The reply, the result or the decision, or an empty text."""
        if self.kind == "decision":
            decision = parse_decision(self.row)
            return "" if decision is None else " ".join(filter(None, [decision.choice, decision.instruction]))
        if self.kind == "tool":
            return str(self.row["result"] or self.row["error_message"] or "") if self.row["completed_at"] else ""
        return str(self.row["content"])

    @property
    def place(self) -> tuple[Kind, str, int, int | None]:
        """The identity of the step when two runs are compared."""
        return self.kind, self.path, self.step, self.position

    @property
    def job(self) -> str:
        """The place of the job that a delegating tool call starts; for a model turn, the place of the turn's job."""
        return self.path if self.position is None else f"{self.path}/{self.step}.{self.position + 1}"


def job_paths(rows: RunRows, run_id: str) -> dict[str, str]:
    """Map job ids to places. The id of a tool call is included, since the call may start a job of the same id."""
    paths = {MAIN_JOB: MAIN_JOB}
    calls = [row for row in rows["tool_calls"] if row["run_id"] == run_id]
    plans: dict[str, list[Row]] = {}
    for job in rows["plan_jobs"]:
        plans.setdefault(job["tool_call_id"], []).append(job)
    while next_calls := [row for row in calls if row["job_id"] in paths]:
        for row in next_calls:
            path = paths[row["tool_call_id"]] = f"{paths[row['job_id']]}/{row['step']}.{row['position'] + 1}"
            paths |= {job["job_id"]: f"{path}/0.{job['n']}" for job in plans.get(row["tool_call_id"], ())}
        calls = [row for row in calls if row["tool_call_id"] not in paths]
    for request in rows["approvals"]:
        if request["tool_call_id"] in paths:  # the job of a model that reviews the call has the id of the request
            paths[request["request_id"]] = f"{paths[request['tool_call_id']]}/review"
    return paths


def steps_of(rows: RunRows) -> list[Step]:
    """Return the steps of a run, ordered by start. A failed attempt belongs to the step of the next attempt."""

    def order(step: Step) -> tuple[object, ...]:
        position = -1 if step.position is None else step.position
        return step.at, step.path.count("/"), step.path, step.step, _RANKS[step.kind], position

    steps = sorted(_steps(rows, job_paths(rows, rows.run_id)), key=order)
    return [replace(step, number=number) for number, step in enumerate(steps, 1)]


def _steps(rows: RunRows, paths: Mapping[str, str]) -> Iterator[Step]:
    turns = {row["call_id"]: row for row in rows["llm_calls"] if not row["error_type"]}
    requests = {row["tool_call_id"]: row for row in rows["approvals"] if row["tool_call_id"] and not row["settled"]}
    for row in _of_run(rows, "llm_calls"):
        if row["call_id"] in turns:
            job_id, *branch = row["job_id"].partition(PARALLEL_SEPARATOR)
            path = "".join([paths.get(job_id, job_id), *branch])
            at, model = row["started_at"], "" if row["provider"] == COMPUTED_PROVIDER else row["request_model"]
            yield Step(0, "model", path, row["step"], None, row["agent_name"], model, at, row, rows)
    for row in _of_run(rows, "tool_calls"):
        if row["call_id"] not in turns:
            continue
        path, agent, tool = paths.get(row["job_id"], row["job_id"]), row["agent_name"], row["tool_name"]
        here = path, row["step"], row["position"], agent, tool
        if (request := requests.get(row["tool_call_id"])) is not None:
            yield Step(0, "decision", *here, request["asked_at"], request, rows)
        yield Step(0, "tool", *here, row["called_at"] or turns[row["call_id"]]["completed_at"], row, rows)


def _of_run(rows: RunRows, table: str) -> Iterable[Row]:
    return (row for row in rows[table] if row["run_id"] == rows.run_id)
