"""Provenance of runs: manifest, model and the origin (live or recorded) of their calls."""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from artifactflow_nb.errors import NotFound, brief
from artifactflow_nb.store.encoding import from_row, to_json
from artifactflow_nb.store.runs import START_LOCK


@dataclass(frozen=True, slots=True)
class RunProvenance:
    """The provenance of a run.

    Attributes:
        model: The model in the settings of the run, or None.
        mode: `live`, `record`, `replay` or `auto`.
        owner: The owner of the run's lock, or None if no engine drives the run.
        start_lock: See `START_LOCK`.
        manifest: Versions, agents and hashes of inputs, or an empty dictionary.
        llm_calls: Number of model calls by origin (`off`, `recorded`, `hit`), without cassette misses.
        tool_calls: Number of finished tool calls by origin.
    """

    run_id: str
    question: str
    flow: str
    model: str | None
    mode: str
    status: str
    owner: str | None
    start_lock: str | None
    error_type: str | None
    manifest: Mapping[str, Any]
    llm_calls: Mapping[str, int]
    tool_calls: Mapping[str, int]
    agents: frozenset[str]


_RUNS = f"""
SELECT r.*, {START_LOCK} AS start_lock FROM runs r
WHERE ?1 IS NULL OR r.run_id IN (SELECT value FROM json_each(?1)) ORDER BY r.rowid
"""  # noqa: S608 - a constant
_LLM_CALLS = """
SELECT run_id, agent_name, cassette, count(*) FILTER (WHERE error_type IS NOT 'CassetteMiss') AS n FROM llm_calls
WHERE ?1 IS NULL OR run_id IN (SELECT value FROM json_each(?1)) GROUP BY 1, 2, 3 ORDER BY 3
"""
_TOOL_CALLS = """
SELECT run_id, agent_name, cassette, count(*) AS n FROM tool_calls
WHERE status = 'finished' AND (?1 IS NULL OR run_id IN (SELECT value FROM json_each(?1))) GROUP BY 1, 2, 3 ORDER BY 3
"""


def load_provenance(db: sqlite3.Connection, run_ids: Iterable[str] | None = None) -> list[RunProvenance]:
    """Load the provenance of some runs (unknown runs are omitted) or of all runs, ordered by start."""
    parameters = (None if run_ids is None else to_json(list(run_ids)),)
    llm_rows = db.execute(_LLM_CALLS, parameters).fetchall()
    llm_calls, tool_calls = _counts_by_run(llm_rows), _counts_by_run(db.execute(_TOOL_CALLS, parameters))
    agents: dict[str, set[str]] = defaultdict(set)
    for row in llm_rows:
        agents[row["run_id"]].add(row["agent_name"])
    return [
        from_row(
            RunProvenance,
            row,
            model=orjson.loads(row["settings_json"]).get("model"),
            manifest=orjson.loads(row["manifest_json"]),
            llm_calls=llm_calls[row["run_id"]],
            tool_calls=tool_calls[row["run_id"]],
            agents=frozenset(agents[row["run_id"]]),
        )
        for row in db.execute(_RUNS, parameters)
    ]


def _counts_by_run(rows: Iterable[sqlite3.Row]) -> Mapping[str, Mapping[str, int]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row["n"]:  # 0: all calls of this agent were cassette misses
            counts[row["run_id"]][row["cassette"]] += row["n"]
    return counts


def load_manifest(db: sqlite3.Connection, run_id: str) -> dict[str, Any]:
    """Return the manifest of a run; `NotFound` for an unknown run."""
    row = db.execute("SELECT manifest_json FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        raise NotFound(f"There is no run {brief(run_id)} in this store. wb.runs_df() lists its runs.")
    manifest: dict[str, Any] = orjson.loads(row["manifest_json"])
    return manifest


def load_source_hashes(db: sqlite3.Connection, source_ids: Iterable[str]) -> list[tuple[str, str]]:
    """Return pairs of source id and hash of the file, sorted by id."""
    sql = "SELECT source_id, sha256 FROM sources WHERE source_id IN (SELECT value FROM json_each(?)) ORDER BY source_id"
    return [(row["source_id"], row["sha256"]) for row in db.execute(sql, (to_json(list(source_ids)),))]
