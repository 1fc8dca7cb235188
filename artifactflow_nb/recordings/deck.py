"""What an engine plays from and records into: a cassette, and the mode that says which of it.

::

    record   every run is made, and put into the cassette when it rests
    replay   every run comes from the cassette; what is not in it is an error, and nothing is asked outside
    auto     what the cassette has comes from it; what is new is made, and put into it
"""

import asyncio
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from difflib import SequenceMatcher
from itertools import chain
from pathlib import Path
from typing import Literal, Self

from artifactflow_nb.ambient import Clock
from artifactflow_nb.errors import CassetteMiss
from artifactflow_nb.origin import Origin
from artifactflow_nb.recordings.cassette import Cassette
from artifactflow_nb.recordings.cassette_file import CassetteFile
from artifactflow_nb.recordings.cassette_scan import RunHead
from artifactflow_nb.recordings.change import Change
from artifactflow_nb.recordings.clock import RunClock
from artifactflow_nb.recordings.configured import Configured, configured
from artifactflow_nb.recordings.fork import ForkTape
from artifactflow_nb.recordings.graph_player import GraphPlayer
from artifactflow_nb.recordings.graph_steps import GRAPH
from artifactflow_nb.recordings.identity import Ask, Asked, places
from artifactflow_nb.recordings.misses import RE_RECORD, told_of_graph, told_of_place
from artifactflow_nb.recordings.player import Player
from artifactflow_nb.recordings.reading import load_recording
from artifactflow_nb.recordings.rows import ENDED
from artifactflow_nb.recordings.secrets import Masker
from artifactflow_nb.recordings.tape import LiveTape, Tape
from artifactflow_nb.recordings.values import RecordedRun

Mode = Literal["live", "record", "replay", "auto"]


@dataclass
class Deck:
    """The cassette of an engine.

    Attributes:
        mode: What comes from it, and what goes into it.
        masker: Takes secrets out of what is compared and recorded.
        cassette: What is played from; None to record only.
        file: What is recorded into; None to play only.
        audits: Whether what differs is noted instead of being an error; see `Player`.
    """

    mode: Mode = "live"
    masker: Masker = field(default_factory=Masker)
    cassette: Cassette | None = None
    file: CassetteFile | None = None
    audits: bool = False
    _asked: list[Ask] = field(default_factory=list)
    _players: dict[str, Player] = field(default_factory=dict)

    @classmethod
    def open(cls, mode: Mode, path: Path, masker: Masker) -> Self:
        """Open a cassette; `CassetteError` if it cannot be used in this mode."""
        file = None if mode == "replay" else CassetteFile(path, masker)
        try:
            is_played = mode == "replay" or (mode == "auto" and path.exists())
            return cls(mode, masker, Cassette.open(path) if is_played else None, file)
        except BaseException:
            if file is not None:
                file.close()
            raise

    @property
    def is_strict(self) -> bool:
        """Whether nothing may be asked outside."""
        return self.mode == "replay"

    def find(self, asked: Ask) -> RecordedRun | None:
        """The recording of what is asked; None if it is to be made.

        Errors: `CassetteMiss` if there is none and nothing may be made.
        """
        if self.cassette is None:
            return None
        masked = self.masker.ask(asked)
        for ask in chain([masked], self._worded(asked, self.cassette)):
            head = self.cassette.find(places([*self._asked, ask], self._keys())[-1].key)
            if head is not None:
                return self._checked(masked, self.cassette.run(head.run_id))
        if self.is_strict:
            raise CassetteMiss(self.masker.text(_no_such_question(masked, self.cassette)))
        return None

    def _checked(self, asked: Ask, recording: RecordedRun) -> RecordedRun | None:
        """A recording; None if it is one of a graph that has changed, or that waits, and may be made anew.

        Errors: `CassetteMiss` if it must not.
        """
        graph = self.masker.compared(recording.settings.get(GRAPH), asked.settings.get(GRAPH))
        if found := told_of_graph(*graph):
            if not self.is_strict:
                return None
            told = (
                f"{asked.question!r:.200} was asked of a graph that is not as it was recorded, the flow {asked.flow!r}."
            )
            raise CassetteMiss("\n".join([told, *found, RE_RECORD]))
        may_go_on = GRAPH not in recording.settings or recording.status in ENDED
        return recording if may_go_on or self.is_strict else None

    def _worded(self, asked: Asked, cassette: Cassette) -> Iterator[Ask]:
        """What is asked in the words of recorded runs, where it differs from these in nothing but secrets."""
        for head in cassette.runs:
            if self.masker.worded(head.question, asked.question) == head.question:
                yield self._as(cassette.run(head.run_id), asked)

    def _as(self, recording: RecordedRun, asked: Asked) -> Ask:
        settings = self.masker.worded(recording.settings, asked.settings)
        return Ask(recording.question, asked.flow, settings, asked.message_id, asked.parent_message_id)

    def _keys(self) -> dict[str, str]:
        """The keys of recorded runs by their messages: a notebook may go on with one of an earlier sitting."""
        heads = () if self.cassette is None else self.cassette.runs
        return {head.message_id: head.run_key for head in heads}

    def begun(self, asked: Ask, recording: RecordedRun | None, clock: Clock) -> None:
        """Note that a run was begun, from a recording if there is one."""
        self._asked.append(self.masker.ask(asked) if recording is None else self._as(recording, asked))
        if self.file is not None:
            self.file.skip(self._asked[-1])
        if recording is not None:
            player = self._players[recording.run_id] = self._player_for(recording, clock)
            origin = Origin.of_settings(recording.settings)
            if origin is not None and (caller := self._players.get(origin.run_id)) is not None:
                player.caller = caller
                caller.begun.append(player)

    def _player_for(self, recording: RecordedRun, clock: Clock) -> Player:
        if GRAPH in recording.settings:
            return GraphPlayer(recording, clock, audits=self.audits, masker=self.masker)
        return Player(recording, clock, is_strict=self.is_strict, audits=self.audits, masker=self.masker)

    def player(self, run_id: str) -> Player | None:
        """What plays a run; None if it is made."""
        return self._players.get(run_id)

    def player_of(self, message_id: str) -> Player | None:
        """What plays the run that answers a message; None if it is made."""
        players = reversed(list(self._players.values()))
        return next((player for player in players if player.recording.message_id == message_id), None)

    def tape_of(self, run_id: str, clock: Clock, not_before: datetime) -> Tape:
        """What comes from outside for a run."""
        if (player := self._players.get(run_id)) is not None:
            return player
        return LiveTape(RunClock(clock, not_before), is_recorded=self.file is not None)

    def fork_tape(self, run_id: str, forked: RecordedRun, change: Change, clock: RunClock) -> Tape:
        """What comes from outside for a run that is forked from another."""
        return ForkTape(forked, change, run_id, clock, is_recorded=self.file is not None)

    def loaded(self, db: sqlite3.Connection, run_id: str) -> RecordedRun | None:
        """The recording of a run that rests, if it has to go into the cassette."""
        player = self._players.get(run_id)
        if self.file is None or (player is not None and player.parted_at is None):
            return None
        return load_recording(db, run_id)

    async def keep(self, recording: RecordedRun | None) -> None:
        """Put a run that rests into the cassette, if it has to go there; `CassetteError` if that cannot be written."""
        if self.file is not None and recording is not None:
            await asyncio.to_thread(self.file.add, recording)

    def configured(self) -> dict[str, Configured]:
        """How agents asked when they were recorded, by their names; empty if that does not matter."""
        return configured(self.cassette) if self.cassette is not None and self.is_strict else {}

    def close(self) -> None:
        """Let another process record."""
        if self.file is not None:
            self.file.close()


_COMPARED_CHARS = 4_000


def _no_such_question(asked: Ask, cassette: Cassette) -> str:
    near = max(cassette.runs, key=lambda head: _likeness(asked, head), default=None)
    told = f"{asked.question!r:.200} was asked, and {cassette.path} has no such run."
    if near is None:
        found = ["It is empty."]
    elif near.question != asked.question:
        found = [f"Nearest is {near.question!r:.200}."]
    else:
        found = list(told_of_place(asked, cassette.run(near.run_id)))
    return "\n".join([told, *found, RE_RECORD])


def _likeness(asked: Ask, head: RunHead) -> tuple[float, bool]:
    """How much alike the questions are; of two that are so equally, the one of the same flow."""
    parts = asked.question[:_COMPARED_CHARS], head.question[:_COMPARED_CHARS]
    alike = SequenceMatcher(None, *parts).quick_ratio()  # whose time grows with the length, not with its square
    return alike, head.flow == asked.flow
