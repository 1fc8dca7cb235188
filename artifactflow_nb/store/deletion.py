"""Deletion of messages with their runs, artifact versions, and the texts that no other run uses."""

import json
import sqlite3
from collections.abc import Iterable

from artifactflow_nb.errors import Conflict

_THESE = "(SELECT value FROM json_each(?))"
_RUNS = f"(SELECT run_id FROM runs WHERE message_id IN {_THESE})"  # noqa: S608 - the parts are constants
_SPLIT_PAIRS = (
    "SELECT subrun.run_id, subrun.parent_run_id "  # noqa: S608 - constants
    "FROM runs subrun JOIN runs caller ON caller.run_id = subrun.parent_run_id "
    f"WHERE (subrun.run_id IN {_RUNS.replace('?', '?1')}) <> (caller.run_id IN {_RUNS.replace('?', '?1')}) "
    "AND subrun.status IN ('running', 'waiting') AND caller.status IN ('running', 'waiting')"
)
"""Pairs of an unfinished subrun and its unfinished parent of which only one would be deleted."""

_UNUSED_TEXTS = (
    f"DELETE FROM texts WHERE sha256 IN {_THESE} "  # noqa: S608 - constants
    "AND NOT EXISTS (SELECT 1 FROM text_uses u WHERE u.sha256 = texts.sha256) "
    "AND NOT EXISTS (SELECT 1 FROM text_parts p WHERE p.part = texts.sha256)"
)


def remove_messages(db: sqlite3.Connection, message_ids: Iterable[str]) -> None:
    """Delete messages with their runs and artifact versions, including waiting runs.

    The caller must pass the replies of a message along with it. The numbers of deleted versions are not used again.

    Errors: `Conflict` while one of the runs is running, and if a waiting run or its subrun would be deleted without the
    other.
    """
    ids = (json.dumps(list(message_ids)),)
    sql = f"SELECT run_id FROM runs WHERE status = 'running' AND run_id IN {_RUNS}"  # noqa: S608 - constants
    if running := db.execute(sql, ids).fetchone():
        raise Conflict(f"The run {running['run_id']!r} of this conversation is running; cancel it first.")
    if split := db.execute(_SPLIT_PAIRS, ids).fetchone():
        raise Conflict(
            f"The run {split['run_id']!r} is a subrun of {split['parent_run_id']!r}, which has not ended. "
            f"Cancel {split['parent_run_id']!r} first."
        )
    texts = [row[0] for row in db.execute(f"SELECT DISTINCT sha256 FROM text_uses WHERE run_id IN {_RUNS}", ids)]  # noqa: S608
    db.execute(
        "INSERT INTO deleted_versions SELECT conversation_id, artifact_id, max(version) FROM artifact_versions "  # noqa: S608
        f"WHERE message_id IN {_THESE} GROUP BY conversation_id, artifact_id "
        "ON CONFLICT DO UPDATE SET last_version = max(last_version, excluded.last_version)",
        ids,
    )
    db.execute(f"DELETE FROM messages WHERE message_id IN {_THESE}", ids)  # noqa: S608 - constants
    while texts:  # other runs may use the same texts, for example the system prompt
        parts = db.execute(f"SELECT DISTINCT part FROM text_parts WHERE sha256 IN {_THESE}", (json.dumps(texts),))  # noqa: S608
        candidates = [row[0] for row in parts]
        db.execute(_UNUSED_TEXTS, (json.dumps(texts),))
        texts = candidates
