"""What a run cost, added up from its rows."""

import sqlite3
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from artifactflow_nb.budget import Spent
from artifactflow_nb.delegating import DELEGATING
from artifactflow_nb.events import MAIN_JOB, AgentExecution, ExecutionMetrics, TokenUsage, ToolExecution
from artifactflow_nb.store.schema import from_us

OWN_TIME = f"tool_name NOT IN ({', '.join(map(repr, DELEGATING))})"
"""The condition that the time of a tool call is its own, and not that of what other agents did for it."""

WAITED = """
SELECT run_id, coalesce(sum(max(next_ts - ts, 0)), 0) / 1000.0 AS wait_ms
FROM (
    SELECT run_id, ts, event_type, data_json, lead(ts) OVER (PARTITION BY run_id ORDER BY seq) AS next_ts
    FROM events WHERE run_id IN (SELECT run_id FROM approvals)
)
WHERE event_type = 'complete' AND json_extract(data_json, '$.interrupted')
GROUP BY run_id
"""
"""The milliseconds in which a run stood still for a person: from each pause to the event after it.

A run that waits has none of its present pause: what it shows does not depend on when somebody looks.
"""


_OF_THESE = "run_id IN (SELECT :run UNION ALL SELECT run_id FROM runs WHERE :begun AND parent_run_id = :run)"
"""The condition that something is of a run or, if that is wanted, of one that it began."""

_AT_WORK = f"""
SELECT started_at AS began, llm_duration_ms AS ms FROM llm_calls WHERE {_OF_THESE} AND began <= :until
UNION ALL SELECT called_at AS began, duration_ms FROM tool_calls
WHERE {_OF_THESE} AND status = 'finished' AND {OWN_TIME} AND began <= :until
ORDER BY began
"""  # noqa: S608 - constants only

LAST_TURN = "SELECT max(started_at) FROM llm_calls WHERE run_id = :run AND job_id = :main AND error_type IS NULL"
"""When the last turn of a run's main job began: all that it had begun before rested then."""

_ALL_TIME = 2**63 - 1


def load_metrics(db: sqlite3.Connection, run_id: str, until: datetime) -> ExecutionMetrics:
    """The metrics of a run up to a time, which for a finished run is its end; up to its last event if it waits."""
    run = db.execute("SELECT started_at, status FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    started = from_us(run["started_at"])
    last = from_us(db.execute("SELECT coalesce(max(ts), 0) FROM events WHERE run_id = ?", (run_id,)).fetchone()[0])
    stands_still = run["status"] == "waiting"
    until = max(last if stands_still else until, started, last)  # the time of day may have been set back
    total_ms = (until - started).total_seconds() * 1000
    waited = db.execute(f"SELECT wait_ms FROM ({WAITED}) WHERE run_id = ?", (run_id,)).fetchone()  # noqa: S608
    waited_ms = waited["wait_ms"] if waited else 0.0
    return ExecutionMetrics(
        started_at=started.isoformat(),
        completed_at=until.isoformat(),
        total_duration_ms=total_ms,
        active_ms=max(total_ms - waited_ms, 0.0),
        wait_ms=waited_ms,
        agent_executions=tuple(_agent_executions(db, run_id)),
        tool_calls=tuple(_tool_executions(db, run_id)),
    )


def load_spent(db: sqlite3.Connection, run_id: str, *, with_begun: bool = False) -> Spent:
    """What a run has spent, or it and those that it began: of calls that have ended, as far as their usage is known."""
    return _spent(db, {"run": run_id, "begun": with_begun, "until": _ALL_TIME})


def load_spent_by_turn(db: sqlite3.Connection, run_id: str) -> Spent:
    """What a run and those that it began had spent with the last turn of its main job."""
    until = db.execute(LAST_TURN, {"run": run_id, "main": MAIN_JOB}).fetchone()[0]
    return _spent(db, {"run": run_id, "begun": True, "until": until})


def _spent(db: sqlite3.Connection, these: Mapping[str, Any]) -> Spent:
    row = db.execute(
        "SELECT coalesce(sum(input_tokens + output_tokens), 0), coalesce(sum(cost_usd), 0.0) FROM llm_calls "  # noqa: S608 - constants
        f"WHERE {_OF_THESE} AND started_at <= :until",
        these,
    ).fetchone()
    return Spent(tokens=row[0], usd=row[1], seconds=_at_work_us(db, these) / 1e6)


def _at_work_us(db: sqlite3.Connection, these: Mapping[str, Any]) -> float:
    """The microseconds in which a model or a tool was at work; those in which several were count once."""
    spans = db.execute(_AT_WORK, these)
    total, until = 0.0, 0.0
    for began, ms in spans:
        ended = began + ms * 1000
        total += max(ended - max(began, until), 0.0)
        until = max(until, ended)
    return total


def _agent_executions(db: sqlite3.Connection, run_id: str) -> Iterable[AgentExecution]:
    rows = db.execute(
        "SELECT * FROM llm_calls WHERE run_id = ? AND error_type IS NULL ORDER BY started_at, job_id, step", (run_id,)
    )
    for row in rows:
        tokens = row["input_tokens"], row["output_tokens"]
        yield AgentExecution(
            agent_name=row["agent_name"],
            model=row["response_model"] or row["request_model"],
            token_usage=TokenUsage(*tokens, total_tokens=sum(tokens)),
            llm_duration_ms=row["llm_duration_ms"],
            started_at=from_us(row["started_at"]).isoformat(),
            completed_at=from_us(row["completed_at"]).isoformat(),
        )


def _tool_executions(db: sqlite3.Connection, run_id: str) -> Iterable[ToolExecution]:
    rows = db.execute(
        "SELECT * FROM tool_calls WHERE run_id = ? AND status = 'finished' ORDER BY called_at, job_id, step, position",
        (run_id,),
    )
    for row in rows:
        yield ToolExecution(
            tool_name=row["tool_name"],
            success=bool(row["success"]),
            duration_ms=row["duration_ms"],
            called_at=from_us(row["called_at"]).isoformat(),
            completed_at=from_us(row["completed_at"]).isoformat(),
            agent=row["agent_name"],
        )
