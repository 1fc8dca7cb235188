"""What goes when messages go: their runs, the versions that these wrote, the prompts that nobody else was sent."""

import json
import sqlite3
from collections.abc import Iterable

from artifactflow_nb.errors import Conflict

_PROMPT_KEYS = "SELECT json_extract(sent.value, '$[1]') FROM llm_calls l, json_each(l.request_json) AS sent"
_THESE = "(SELECT value FROM json_each(?))"
_RUNS = f"(SELECT run_id FROM runs WHERE message_id IN {_THESE})"  # noqa: S608 - the parts are constants
_TORN = (
    "SELECT begun.run_id, begun.parent_run_id FROM runs begun JOIN runs caller ON caller.run_id = begun.parent_run_id "  # noqa: S608 - constants
    f"WHERE (begun.run_id IN {_RUNS.replace('?', '?1')}) <> (caller.run_id IN {_RUNS.replace('?', '?1')}) "
    "AND begun.status IN ('running', 'waiting') AND caller.status IN ('running', 'waiting')"
)
"""Runs that one works for another, of which only one would go."""


def remove_messages(db: sqlite3.Connection, message_ids: Iterable[str]) -> None:
    """Delete messages and all that belongs to them; `Conflict` while one of their runs runs.

    With a message its replies must be given. The numbers of versions that go are not given out again. A run that waits
    goes too, unless it began another that waits, or was begun by one: each would be left without the other.
    """
    ids = (json.dumps(list(message_ids)),)
    sql = f"SELECT run_id FROM runs WHERE status = 'running' AND run_id IN {_RUNS}"  # noqa: S608 - constants
    if running := db.execute(sql, ids).fetchone():
        raise Conflict(f"The run {running['run_id']!r} of this conversation is running; cancel it first.")
    if torn := db.execute(_TORN, ids).fetchone():
        raise Conflict(
            f"The run {torn['run_id']!r} works for the run {torn['parent_run_id']!r}, which is not over; "
            "cancel that first."
        )
    prompts = {row[0] for row in db.execute(f"{_PROMPT_KEYS} WHERE l.run_id IN {_RUNS}", ids)}
    db.execute(
        "INSERT INTO deleted_versions SELECT conversation_id, artifact_id, max(version) FROM artifact_versions "  # noqa: S608
        f"WHERE message_id IN {_THESE} GROUP BY conversation_id, artifact_id "
        "ON CONFLICT DO UPDATE SET last_version = max(last_version, excluded.last_version)",
        ids,
    )
    db.execute(f"DELETE FROM messages WHERE message_id IN {_THESE}", ids)  # noqa: S608 - constants
    _forget_prompts(db, prompts)


def _forget_prompts(db: sqlite3.Connection, keys: set[str]) -> None:
    """Delete those of the texts that are part of no model call any more."""
    still_used = {row[0] for row in db.execute(_PROMPT_KEYS)} if keys else set()
    db.executemany("DELETE FROM texts WHERE sha256 = ?", [(key,) for key in keys - still_used])
