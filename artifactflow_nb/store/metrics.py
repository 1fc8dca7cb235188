"""Tokens, money and time of a run, summed from its rows."""

import sqlite3
from collections.abc import Mapping
from datetime import datetime
from statistics import median, quantiles
from typing import Any

from artifactflow_nb.core.budget import BudgetUsage
from artifactflow_nb.core.events import MAIN_JOB, AgentExecution, ExecutionMetrics, TokenUsage, ToolExecution
from artifactflow_nb.core.messages import COMPUTED_PROVIDER
from artifactflow_nb.errors import RunCancelled
from artifactflow_nb.store.schema import from_microseconds

OWN_TIME_SQL = "NOT is_delegating(tool_name)"
"""Condition to exclude delegating tools, because the calls of the other agents already count the time."""

WAIT_TIME_SQL = """
SELECT run_id, coalesce(sum(max(next_ts - ts, 0)), 0) / 1000.0 AS wait_ms
FROM (
    SELECT run_id, ts, event_type, data_json, lead(ts) OVER (PARTITION BY run_id ORDER BY seq) AS next_ts
    FROM events WHERE run_id IN (SELECT run_id FROM approvals)
)
WHERE event_type = 'complete' AND json_extract(stored_text(data_json), '$.interrupted')
GROUP BY run_id
"""
"""Waiting time of runs in milliseconds: from each pause to the next event.

The current pause of a waiting run is not counted, so that its metrics do not depend on the time of reading.
"""


_TIMES = f"""
SELECT status, started_at, (SELECT coalesce(max(ts), 0) FROM events WHERE run_id = :run),
    coalesce((SELECT wait_ms FROM ({WAIT_TIME_SQL}) WHERE run_id = :run), 0.0)
FROM runs WHERE run_id = :run
"""  # noqa: S608 - constants only

_RUN_CONDITION = (
    "run_id IN (SELECT :run UNION ALL SELECT run_id FROM runs WHERE :with_subruns AND parent_run_id = :run)"
)
"""Condition for rows of a run and, if `:with_subruns` is true, of its subruns."""

_WORK_SPANS = f"""
SELECT started_at AS began, llm_duration_ms AS ms FROM llm_calls WHERE {_RUN_CONDITION} AND began <= :until
UNION ALL SELECT called_at AS began, duration_ms FROM tool_calls
WHERE {_RUN_CONDITION} AND status = 'finished' AND {OWN_TIME_SQL} AND began <= :until
ORDER BY began
"""  # noqa: S608 - constants only

LAST_TURN_SQL = "SELECT max(started_at) FROM llm_calls WHERE run_id = :run AND job_id = :main AND error_type IS NULL"
"""Start of the last turn of a run's main job. No job that the main job had started was running then."""

_IS_STOPPED = f"error_type = '{RunCancelled.__name__}' AND input_tokens IS NOT NULL"
"""Condition for model calls that were stopped during the reply; the usage of such a call is an estimate."""

_ALL_TIME = 2**63 - 1
_N_COMPARED_RUNS = 100
_MIN_COMPARED_RUNS = 5
_MAX_SPREAD = 0.5


def load_metrics(db: sqlite3.Connection, run_id: str, until: datetime) -> ExecutionMetrics:
    """Compute the metrics of a run up to a time, usually now or the end; of a waiting run, up to its last event."""
    status, *times, wait_ms = db.execute(_TIMES, {"run": run_id}).fetchone()
    started, last_event = map(from_microseconds, times)
    until = max(last_event if status == "waiting" else until, started, last_event)  # the clock may have been set back
    total_ms = (until - started).total_seconds() * 1000
    counted = f"run_id = ? AND (error_type IS NULL OR {_IS_STOPPED})"
    llm_calls = f"SELECT * FROM llm_calls WHERE {counted} ORDER BY started_at, job_id, step"  # noqa: S608 - constants
    agent_executions = [
        AgentExecution(
            agent_name=row["agent_name"],
            model="" if row["provider"] == COMPUTED_PROVIDER else row["response_model"] or row["request_model"],
            token_usage=TokenUsage(
                row["input_tokens"],
                row["output_tokens"],
                total_tokens=row["input_tokens"] + row["output_tokens"],
                estimated=bool(row["tokens_estimated"]),
            ),
            llm_duration_ms=row["llm_duration_ms"],
            started_at=from_microseconds(row["started_at"]).isoformat(),
            completed_at=from_microseconds(row["completed_at"]).isoformat(),
        )
        for row in db.execute(llm_calls, (run_id,))
    ]
    finished = "SELECT * FROM tool_calls WHERE run_id = ? AND status = 'finished'"
    tool_calls = [
        ToolExecution(
            tool_name=row["tool_name"],
            success=bool(row["success"]),
            duration_ms=row["duration_ms"],
            called_at=from_microseconds(row["called_at"]).isoformat(),
            completed_at=from_microseconds(row["completed_at"]).isoformat(),
            agent=row["agent_name"],
        )
        for row in db.execute(f"{finished} ORDER BY called_at, job_id, step, position", (run_id,))
    ]
    return ExecutionMetrics(
        started_at=started.isoformat(),
        completed_at=until.isoformat(),
        total_duration_ms=total_ms,
        active_ms=max(total_ms - wait_ms, 0.0),
        wait_ms=wait_ms,
        agent_executions=tuple(agent_executions),
        tool_calls=tuple(tool_calls),
    )


def load_stopped_usage(db: sqlite3.Connection, run_id: str) -> list[dict[str, Any]]:
    """Return the estimated usage of each model call that was stopped during the reply."""
    columns = "job_id, agent_name, input_tokens, output_tokens, cost_usd"
    sql = f"SELECT {columns} FROM llm_calls WHERE run_id = ? AND {_IS_STOPPED}"  # noqa: S608 - constants only
    return [dict(row) for row in db.execute(sql, (run_id,))]


def load_budget_usage(db: sqlite3.Connection, run_id: str, *, with_subruns: bool = False) -> BudgetUsage:
    """Sum the usage of a run, optionally with its subruns, over the ended calls with known usage."""
    return _budget_usage(db, {"run": run_id, "with_subruns": with_subruns, "until": _ALL_TIME})


def load_budget_usage_at_last_turn(db: sqlite3.Connection, run_id: str) -> BudgetUsage:
    """Sum the usage of a run and its subruns up to and including the last turn of its main job."""
    until = db.execute(LAST_TURN_SQL, {"run": run_id, "main": MAIN_JOB}).fetchone()[0]
    return _budget_usage(db, {"run": run_id, "with_subruns": True, "until": until})


def _budget_usage(db: sqlite3.Connection, parameters: Mapping[str, Any]) -> BudgetUsage:
    row = db.execute(
        "SELECT coalesce(sum(input_tokens + output_tokens), 0), coalesce(sum(cost_usd), 0.0) FROM llm_calls "  # noqa: S608 - constants
        f"WHERE {_RUN_CONDITION} AND started_at <= :until",
        parameters,
    ).fetchone()
    # `active_us` is the time in which at least one call was running; one pass is enough, as spans are sorted by start.
    active_us, covered_until = 0.0, 0.0
    for start, ms in db.execute(_WORK_SPANS, parameters):
        end = start + ms * 1000
        active_us += max(end - max(start, covered_until), 0.0)
        covered_until = max(covered_until, end)
    return BudgetUsage(tokens=row[0], usd=row[1], seconds=active_us / 1e6)


def load_usual_ms(db: sqlite3.Connection, run_id: str) -> float | None:
    """Return the median time, without pauses, of the newest completed runs with the run's flow, depth and model.

    The result is None (no forecast) unless at least `_MIN_COMPARED_RUNS` of the newest `_N_COMPARED_RUNS` runs
    match, and the times of the middle half differ by at most half of the median.
    """
    kind = (
        "flow, coalesce(json_extract(settings_json, '$.depth'), 'standard'),"
        " json_extract(stored_text(manifest_json), '$.agents.lead_agent.model')"
    )
    sql = f"""
        SELECT (completed_at - started_at) / 1e3 - coalesce(wait_ms, 0)
        FROM (SELECT * FROM runs ORDER BY rowid DESC LIMIT {_N_COMPARED_RUNS})
        LEFT JOIN ({WAIT_TIME_SQL}) USING (run_id)
        WHERE status = 'completed' AND run_id <> :run AND ({kind}) IS (SELECT {kind} FROM runs WHERE run_id = :run)
    """  # noqa: S608 - constants only
    times = [row[0] for row in db.execute(sql, {"run": run_id})]
    if len(times) < _MIN_COMPARED_RUNS:
        return None
    lower, middle, upper = quantiles(times, n=4)
    return middle if upper - lower <= _MAX_SPREAD * middle else None


def load_forecast(db: sqlite3.Connection, flow: str, depth: str) -> dict[str, Any]:
    """Return the medians of the earlier completed runs of a flow and depth: `runs`, `seconds`, `tokens`, `usd`.

    `runs` is the number of runs; if it is 0, the other entries are missing. `usd` is missing if a cost is unknown.
    """
    sql = f"""
        SELECT (runs.completed_at - runs.started_at) / 1e6 - coalesce(wait_ms, 0) / 1e3 AS seconds,
            sum(input_tokens + output_tokens) AS tokens, iif(count(*) = count(cost_usd), sum(cost_usd), NULL) AS usd
        FROM runs LEFT JOIN ({WAIT_TIME_SQL}) USING (run_id) JOIN llm_calls USING (run_id)
        WHERE flow = ? AND runs.status = 'completed'
            AND coalesce(json_extract(settings_json, '$.depth'), 'standard') = ?
        GROUP BY run_id
    """  # noqa: S608 - constants only
    rows = db.execute(sql, (flow, depth)).fetchall()
    medians = {}
    for name in ("seconds", "tokens", "usd"):
        values = [row[name] for row in rows if row[name] is not None]
        if rows and len(values) == len(rows):
            medians[name] = round(median(values), 4)
    return {"runs": len(rows), **medians}
