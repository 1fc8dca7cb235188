"""What goes when messages go: their runs, the versions that these wrote, the prompts that nobody else was sent."""

import json
import sqlite3
from collections.abc import Iterable

from artifactflow_nb.errors import Conflict

_PROMPT_KEYS = "SELECT json_extract(sent.value, '$[1]') FROM llm_calls l, json_each(l.request_json) AS sent"
_THESE = "(SELECT value FROM json_each(?))"
_RUNS = f"(SELECT run_id FROM runs WHERE message_id IN {_THESE})"  # noqa: S608 - the parts are constants


def remove_messages(db: sqlite3.Connection, message_ids: Iterable[str]) -> None:
    """Delete messages and all that belongs to them; `Conflict` while one of their runs runs.

    With a message its replies must be given. The numbers of versions that go are not given out again.
    """
    ids = (json.dumps(list(message_ids)),)
    sql = f"SELECT run_id FROM runs WHERE status = 'running' AND run_id IN {_RUNS}"  # noqa: S608 - constants
    if running := db.execute(sql, ids).fetchone():
        raise Conflict(f"The run {running['run_id']!r} of this conversation is running; cancel it first.")
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
