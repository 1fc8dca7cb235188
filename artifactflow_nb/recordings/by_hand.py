"""What a person writes by hand between the runs of a notebook: a decision like others, recorded with the run before it.

The recording of a run has what was written on its message, and that of a conversation's first run what was written
before there was a message. When the notebook is executed again, its cells write again; what says the same as before was
written when it was.
"""

from datetime import datetime

from artifactflow_nb.recordings.deck import Deck
from artifactflow_nb.recordings.values import HandWritten
from artifactflow_nb.store.artifacts import Authorship
from artifactflow_nb.store.database import Database

_NEWEST_RUN = "SELECT run_id FROM runs WHERE message_id = ? AND status <> 'running' ORDER BY rowid DESC LIMIT 1"


class RecordedHand:
    """The hand of a person whose writing is recorded into a deck, or was.

    Args:
        deck: What is played from and recorded into.
        database: Where it is written.
    """

    def __init__(self, deck: Deck, database: Database) -> None:
        self._deck = deck
        self._database = database
        self._left: dict[str, list[HandWritten]] = {}

    def at(self, by: Authorship, artifact_id: str, update_type: str, sha256: str) -> datetime | None:
        """When a recording says that this was written, each time once; None if it does not."""
        left = self._beforehand(by.conversation_id) if by.message_id is None else self._by_hand(by.message_id)
        written = artifact_id, update_type, sha256
        found = next((one for one in left if (one.artifact_id, one.update_type, one.sha256) == written), None)
        if found is None:
            return None
        left.remove(found)
        return found.at

    def _by_hand(self, message_id: str) -> list[HandWritten]:
        """What is left of what was written on a message whose run is played, as it was so far."""
        player = self._deck.player_of(message_id)
        if player is None or player.parted_at is not None:
            return []
        return self._left.setdefault(player.recording.run_id, list(player.recording.by_hand))

    def _beforehand(self, conversation_id: str) -> list[HandWritten]:
        """What is left of what was written in a conversation before its first run."""
        if self._deck.cassette is None:
            return []
        if conversation_id not in self._left:
            first = self._deck.cassette.first_of(conversation_id)
            self._left[conversation_id] = [] if first is None else list(first.beforehand)
        return self._left[conversation_id]

    async def wrote(self, by: Authorship) -> None:
        """Put the run on whose message something was written into the cassette again.

        Errors: `CassetteError` if that cannot be written; what was written by hand is stored all the same.
        """
        if self._deck.file is None or by.message_id is None:
            return
        row = await self._database.read(lambda db: db.execute(_NEWEST_RUN, (by.message_id,)).fetchone())
        if row is not None:
            await self._deck.keep(await self._database.read(lambda db: self._deck.loaded(db, row["run_id"])))
