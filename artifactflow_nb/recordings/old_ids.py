"""Ids of calls as they follow from their places: those of earlier releases were drawn, and a replay has others."""

import sqlite3
from collections import Counter

from artifactflow_nb.recordings.values import call_id, request_id, tool_call_id

_OLD_RUNS = "SELECT run_id FROM llm_calls GROUP BY run_id HAVING count(offer_json) = 0"
"""Runs of a release that did not note what a model was offered; since then ids follow from places."""


def ids_by_place(db: sqlite3.Connection) -> dict[str, str]:
    """The ids that calls and requests of earlier releases would have now, by those that they have."""
    names: dict[str, str] = {}
    attempts = Counter[tuple[str, str, int]]()
    for turn in db.execute(f"SELECT * FROM llm_calls WHERE run_id IN ({_OLD_RUNS}) ORDER BY rowid"):  # noqa: S608 - above
        place = turn["run_id"], turn["job_id"], turn["step"]
        job = names.get(turn["job_id"], turn["job_id"])  # what delegated it was stored before it
        key = names[turn["call_id"]] = call_id(turn["run_id"], job, turn["step"], attempts[place])
        attempts[place] += 1
        for call in db.execute("SELECT * FROM tool_calls WHERE call_id = ?", (turn["call_id"],)):
            names[call["tool_call_id"]] = tool_call_id(key, call["position"])
    for ask in db.execute(f"SELECT * FROM approvals WHERE run_id IN ({_OLD_RUNS})"):  # noqa: S608 - above
        names[ask["request_id"]] = request_id(names.get(ask["subject"], ask["subject"]))
    return names
