"""How runs were made: with what, and where what they took from outside came from."""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from artifactflow_nb.errors import NotFound
from artifactflow_nb.store.storable import to_json


@dataclass(frozen=True, slots=True)
class MadeRun:
    """How a run was made.

    Attributes:
        model: The model that was chosen for it; None for none.
        mode: `live`, `record`, `replay` or `auto`.
        owner: Who drives it; None if nobody does.
        manifest: What it was made with; empty if that is not known.
        llm_calls: How many model calls it has of each origin, `off`, `recorded`, `hit`, but for such as a replay was
            asked for in vain.
        tool_calls: How many tool calls that are over it has of each origin.
        agents: The agents that asked a model.
    """

    run_id: str
    question: str
    flow: str
    model: str | None
    mode: str
    status: str
    owner: str | None
    error_type: str | None
    manifest: Mapping[str, Any]
    llm_calls: Mapping[str, int]
    tool_calls: Mapping[str, int]
    agents: frozenset[str]


_RUNS = "SELECT * FROM runs WHERE ?1 IS NULL OR run_id IN (SELECT value FROM json_each(?1)) ORDER BY rowid"
_LLM_CALLS = """
SELECT run_id, agent_name, cassette, count(*) FILTER (WHERE error_type IS NOT 'CassetteMiss') AS n FROM llm_calls
WHERE ?1 IS NULL OR run_id IN (SELECT value FROM json_each(?1)) GROUP BY 1, 2, 3 ORDER BY 3
"""
_TOOL_CALLS = """
SELECT run_id, agent_name, cassette, count(*) AS n FROM tool_calls
WHERE status = 'finished' AND (?1 IS NULL OR run_id IN (SELECT value FROM json_each(?1))) GROUP BY 1, 2, 3 ORDER BY 3
"""


def load_made(db: sqlite3.Connection, run_ids: Iterable[str] | None = None) -> list[MadeRun]:
    """How these runs were made, as far as they are there, or all runs; in the order in which they began."""
    wanted = (None if run_ids is None else to_json(list(run_ids)),)
    asked = db.execute(_LLM_CALLS, wanted).fetchall()
    llm_calls, tool_calls = _by_run(asked), _by_run(db.execute(_TOOL_CALLS, wanted))
    agents: dict[str, set[str]] = defaultdict(set)
    for row in asked:
        agents[row["run_id"]].add(row["agent_name"])
    return [
        MadeRun(
            run_id=row["run_id"],
            question=row["question"],
            flow=row["flow"],
            model=orjson.loads(row["settings_json"]).get("model"),
            mode=row["mode"],
            status=row["status"],
            owner=row["owner"],
            error_type=row["error_type"],
            manifest=orjson.loads(row["manifest_json"]),
            llm_calls=llm_calls[row["run_id"]],
            tool_calls=tool_calls[row["run_id"]],
            agents=frozenset(agents[row["run_id"]]),
        )
        for row in db.execute(_RUNS, wanted)
    ]


def _by_run(rows: Iterable[sqlite3.Row]) -> Mapping[str, Mapping[str, int]]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        if row["n"]:
            found[row["run_id"]][row["cassette"]] += row["n"]
    return found


def load_manifest(db: sqlite3.Connection, run_id: str) -> dict[str, Any]:
    """What a run was made with; empty if that is not known, as of a run of an earlier release.

    Errors: `NotFound` for an unknown run.
    """
    row = db.execute("SELECT manifest_json FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        raise NotFound(f"There is no run {run_id!r} in this store.")
    manifest: dict[str, Any] = orjson.loads(row["manifest_json"])
    return manifest


def load_source_hashes(db: sqlite3.Connection, source_ids: Iterable[str]) -> list[tuple[str, str]]:
    """The ids of these sources with the hashes of their files, by id."""
    sql = "SELECT source_id, sha256 FROM sources WHERE source_id IN (SELECT value FROM json_each(?)) ORDER BY source_id"
    return [(row["source_id"], row["sha256"]) for row in db.execute(sql, (to_json(list(source_ids)),))]
