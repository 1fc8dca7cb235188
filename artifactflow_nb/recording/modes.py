"""The cassette of a workbench and its mode.

::

    record   every run is live, and written into the cassette when it ends or waits
    replay   every run is played; a question without a recording is an error
    auto     a recorded run is played; a new run is live, and written into the cassette
    verify   as replay; each run is then executed again with recorded model, tools and decisions, and compared
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Literal

import orjson

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.runs import GRAPH_SETTING, graph_differences
from artifactflow_nb.errors import CassetteMiss
from artifactflow_nb.flows.known_secrets import SecretLookup
from artifactflow_nb.recording.cassette import Cassette, CassetteWriter, Head
from artifactflow_nb.recording.identity import RE_RECORD, Ask, miss_of_question, miss_of_stale_recording, question_keys
from artifactflow_nb.recording.rows import ENDED, Row, RunRows, load_run_rows, redacted
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.encoding import to_json

Mode = Literal["live", "record", "replay", "auto", "verify"]
PLAYED: frozenset[Mode] = frozenset({"replay", "verify"})
"""The modes in which no run is live."""


class CassetteSession:
    """Finds and writes recordings.

    Args:
        mode: The mode.
        path: The cassette, or None.
        secrets: The secrets in compared and recorded texts; looked up for each recording, because keys may be added to
            the environment at any time.

    Attributes:
        cassette: The recordings to play; None if nothing is played.

    Errors: `CassetteError` if the cassette cannot be used in this mode.
    """

    def __init__(self, mode: Mode, path: Path | None, secrets: SecretLookup) -> None:
        self.mode = mode
        self.path = path
        self._secrets = secrets
        self._redactor = secrets.current.redactor
        self.writer = None if path is None or mode in {*PLAYED, "live"} else CassetteWriter(path)
        try:
            is_played = path is not None and (mode in PLAYED or (mode == "auto" and path.exists()))
            self.cassette = Cassette.open(path) if path is not None and is_played else None
        except BaseException:
            self.close()
            raise
        self._asks: list[Ask] = []
        self._keys: dict[str, str] = {}
        self._played: set[str] = set()
        self._live_ids: set[str] = set()

    @property
    def is_strict(self) -> bool:
        """Whether a run without a recording is an error."""
        return self.mode in PLAYED

    def models(self) -> list[tuple[str, str]]:
        """Return the provider and name of each model that is called in the cassette, in the order of the calls."""
        return [] if self.cassette is None else self.cassette.models()

    # --- finding -----------------------------------------------------------------------------------------------------

    def find(self, ask: Ask, conversation_id: str | None = None) -> tuple[Ask, RunRows] | None:
        """Return a question in the wording of its recording, with the recording; None if the run must be live.

        Errors: `CassetteMiss` for a question without a recording in a replay.
        """
        if self.cassette is None:
            return None
        masked = self._masked(ask)
        for worded in chain([masked], self._worded(masked)):
            head = self.cassette.find(self._key(worded))
            if head is None:
                continue
            rows = self.cassette.rows(head)
            settings = orjson.loads(rows.run["settings_json"])
            differences = graph_differences(settings.get(GRAPH_SETTING), masked.settings.get(GRAPH_SETTING))
            if differences and self.is_strict:
                question = f"{masked.question!r:.200} was asked of the flow {ask.flow!r}"
                lines = [f"{question}, and the graph has changed since the recording.", *differences, RE_RECORD]
                raise CassetteMiss("\n".join(lines))
            # In the mode auto, a changed or waiting graph is executed again.
            is_usable = self.is_strict or GRAPH_SETTING not in settings or rows.run["status"] in ENDED
            # A question that continues or forks a live run is live, too: the history in its prompt is new.
            before = {ask.parent_message_id, (ask.settings.get("fork") or {}).get("of"), conversation_id}
            follows = ask.parent_message_id == rows.message["parent_id"] and self._live_ids.isdisjoint(before)
            if is_usable and follows and not differences:
                return worded, rows
            if not self.is_strict:
                return None
            raise CassetteMiss(self._redactor.text(miss_of_stale_recording(masked, rows.run["run_id"])))
        if self.is_strict:
            raise CassetteMiss(self._redactor.text(miss_of_question(masked, self.cassette)))
        return None

    def _masked(self, ask: Ask) -> Ask:
        return replace(
            ask, question=self._redactor.text(ask.question), settings=self._redactor.redact_value(dict(ask.settings))
        )

    def _worded(self, ask: Ask) -> Iterator[Ask]:
        """Yield the question in the wording of each recording that differs from the question only in secrets."""
        for head in self.cassette.heads if self.cassette is not None else ():
            if (
                head.question != ask.question
                and self._redactor.with_recorded_texts(head.question, ask.question) == head.question
            ):
                yield replace(ask, question=head.question)

    def _key(self, ask: Ask) -> str:
        earlier = {} if self.cassette is None else {head.message_id: head.key for head in self.cassette.heads}
        return question_keys([*self._asks, ask], earlier)[-1]

    def add_question(self, ask: Ask, run_id: str) -> None:
        """Add a question to the session; the question of a played run has the redacted text of the recording."""
        if self.mode == "live":
            return
        is_played = run_id in self._played
        if not is_played:
            self._live_ids |= {ask.message_id, run_id}
        masked = ask if is_played else self._masked(ask)
        self._keys[run_id] = self._key(masked)
        self._asks.append(masked)

    def redacted_text(self, text: str) -> str:
        """Replace the secrets in a text."""
        return self._redactor.text(text)

    def edits(self, conversation_id: str, message_id: str | None) -> list[Row]:
        """Return the recorded manual edits on a message if the run of the message is played.

        Without a message, return the edits before the first run of the conversation.
        """
        if self.cassette is None:
            return []
        for head in self.cassette.heads:
            if message_id is None or (head.message_id == message_id and head.run_id in self._played):
                ids = None, conversation_id, message_id
                versions = self.cassette.rows(head)["artifact_versions"]
                edits = [row for row in versions if (row["run_id"], row["conversation_id"], row["message_id"]) == ids]
                if edits or message_id is not None:
                    return edits
        return []

    def is_recorded_here(self, run_id: str) -> bool:
        """Return whether a run is live and recorded."""
        return run_id not in self._played

    def add_playback(self, run_id: str) -> None:
        """Record that a run is played."""
        self._played.add(run_id)

    def continue_live_after(self, place: str) -> None:
        """Record that an edit of a message or conversation differs from the recording; later runs are live."""
        self._live_ids.add(place)

    def continue_live(self, run: Row) -> None:
        """Record that a played run continues live."""
        self._played.discard(run["run_id"])
        self._live_ids |= {run["message_id"], run["run_id"]}

    def match_wording(self, recorded: Decision, decision: Decision) -> Decision:
        """Return a decision in the wording of the recorded decision if the two differ only in secrets."""
        return self._redactor.with_recorded_texts(recorded, decision)

    # --- writing -----------------------------------------------------------------------------------------------------

    async def save(self, database: Database, run_id: str) -> None:
        """Write a run that has ended or waits into the cassette; `CassetteError` after a failure.

        A run is written at each pause, so that a replay shows the waiting run even if the request was never decided or
        the process was killed.
        """
        if self.writer is None:
            return
        rows = await database.read(lambda db: load_run_rows(db, run_id))
        await asyncio.to_thread(self._put, self.writer, rows)
        calls = to_json([row["run_id"] for row in rows["runs"]])
        sql = (
            "UPDATE {} SET cassette = 'recorded' WHERE cassette = 'off' AND run_id IN (SELECT value FROM json_each(?))"
        )
        for table in ("llm_calls", "tool_calls"):
            await database.write(lambda db, table=table: db.execute(sql.format(table), (calls,)))  # type: ignore[misc]

    def _put(self, writer: CassetteWriter, rows: RunRows) -> None:
        self._redactor = self._secrets.refresh().redactor
        masked = redacted(rows, self._redactor)
        run, parent = masked.run, masked.message["parent_id"]
        if rows.run_id not in self._keys:  # the recording of a run of an earlier process has the key
            recorded = Cassette.open(writer.path).heads if writer.path.exists() else ()
            self._keys |= {head.run_id: head.key for head in recorded if head.run_id == rows.run_id}
        if rows.run_id not in self._keys:
            settings = orjson.loads(run["settings_json"])
            self.add_question(Ask(run["question"], run["flow"], settings, run["message_id"], parent), rows.run_id)
        writer.put(Head.of(self._keys[rows.run_id], masked), masked)

    def close(self) -> None:
        """Release the cassette, so that another process can record."""
        if self.writer is not None:
            self.writer.close()
