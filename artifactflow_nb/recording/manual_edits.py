"""Edits by hand between runs: code makes them again in a replay, and they get the times of the recording.

A recording has the edits on its run's message, and that of a conversation's first run those made before it.
"""

from collections.abc import Sequence
from datetime import datetime

from artifactflow_nb.core.redaction.redactor import is_same_text
from artifactflow_nb.errors import CassetteMiss
from artifactflow_nb.recording.misses import miss_of_edit
from artifactflow_nb.recording.modes import CassetteSession
from artifactflow_nb.recording.rows import ENDED, Row
from artifactflow_nb.store.artifacts import Authorship
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.migrations import from_microseconds

_NEWEST_RUN = "SELECT run_id, status FROM runs WHERE message_id = ? AND status <> 'running' ORDER BY rowid DESC LIMIT 1"


class RecordedEdits:
    """The `ManualEdits` of a store with a cassette.

    Args:
        session: The cassette.
        database: The store.
    """

    def __init__(self, session: CassetteSession, database: Database) -> None:
        self._session = session
        self._database = database
        self._unused: dict[tuple[str, str | None], list[Row]] = {}
        self._changed: set[str | None] = set()

    def recorded_time(
        self, by: Authorship, artifact_id: str, update_type: str, contents: Sequence[str]
    ) -> datetime | None:
        """The recorded time of an edit, each used once; None for an edit that is new.

        Errors: `CassetteMiss` in a replay whose recording has another edit of the artifact here. In the mode auto,
            what follows is live instead.
        """
        place = by.conversation_id, by.message_id
        if place not in self._unused:
            self._unused[place] = self._session.edits(*place)
        unused = [row for row in self._unused[place] if row["artifact_id"] == artifact_id]
        texts = {*contents, *map(self._session.redacted_text, contents)}
        for row in unused:
            recorded = row["content"]  # a secret may be known on one of the two machines only
            if row["update_type"] == update_type and any(
                is_same_text(recorded, text) or is_same_text(text, recorded) for text in texts
            ):
                self._unused[place].remove(row)
                return from_microseconds(row["created_at"])
        if unused and self._session.is_strict:
            text = self._session.redacted_text(contents[0])
            raise CassetteMiss(miss_of_edit(unused[0], update_type, text))
        if self._session.mode == "auto":
            self._changed.add(by.message_id)
            self._session.continue_live_after(by.message_id or by.conversation_id)
        return None

    async def record(self, by: Authorship) -> None:
        """Record a run again after an edit on its message; `CassetteError` if that fails, and the edit stays."""
        if self._session.writer is None or by.message_id is None:
            return
        row = await self._database.read(lambda db: db.execute(_NEWEST_RUN, (by.message_id,)).fetchone())
        if row is None:
            return
        is_changed = by.message_id in self._changed and row["status"] in ENDED  # else its playback continues
        if is_changed or self._session.is_recorded_here(row["run_id"]):
            await self._session.save(self._database, row["run_id"])
