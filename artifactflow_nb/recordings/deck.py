"""What an engine plays from and records into: a cassette, and the mode that says which of it.

::

    record   every run is made, and put into the cassette when it rests
    replay   every run comes from the cassette; what is not in it is an error, and nothing is asked outside
    auto     what the cassette has comes from it; what is new is made, and put into it
"""

import asyncio
import sqlite3
from dataclasses import dataclass, field
from datetime import datetime
from difflib import SequenceMatcher
from pathlib import Path
from typing import Literal, Self

from artifactflow_nb.ambient import Clock
from artifactflow_nb.errors import CassetteMiss
from artifactflow_nb.events import MAIN_JOB
from artifactflow_nb.messages import ToolProtocol
from artifactflow_nb.recordings.cassette import Cassette, RunHead
from artifactflow_nb.recordings.cassette_file import CassetteFile
from artifactflow_nb.recordings.change import Change
from artifactflow_nb.recordings.clock import RunClock
from artifactflow_nb.recordings.fork import ForkTape
from artifactflow_nb.recordings.identity import Ask, places
from artifactflow_nb.recordings.misses import RE_RECORD, told_of_place
from artifactflow_nb.recordings.player import Player
from artifactflow_nb.recordings.reading import load_recording
from artifactflow_nb.recordings.secrets import Masker
from artifactflow_nb.recordings.tape import LiveTape, Tape
from artifactflow_nb.recordings.values import RecordedRun

Mode = Literal["live", "record", "replay", "auto"]


@dataclass(frozen=True, slots=True)
class Configured:
    """How an agent asked its model when it was recorded; `is_own` if the model was its own, not that of the run."""

    provider: str
    model: str
    temperature: float | None
    tool_protocol: ToolProtocol
    is_own: bool = False


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
        head = self.cassette.find(places([*self._asked, self.masker.ask(asked)], self._keys())[-1].key)
        if head is not None:
            return self.cassette.run(head.run_id)
        if self.is_strict:
            raise CassetteMiss(_no_such_question(asked, self.cassette))
        return None

    def _keys(self) -> dict[str, str]:
        """The keys of recorded runs by their messages: a notebook may go on with one of an earlier sitting."""
        heads = () if self.cassette is None else self.cassette.runs
        return {head.message_id: head.run_key for head in heads}

    def begun(self, asked: Ask, recording: RecordedRun | None, clock: Clock) -> None:
        """Note that a run was begun, from a recording if there is one."""
        self._asked.append(self.masker.ask(asked))
        if self.file is not None:
            self.file.skip(self._asked[-1])
        if recording is not None:
            player = Player(recording, clock, is_strict=self.is_strict, audits=self.audits, mask=self.masker.prompt)
            self._players[recording.run_id] = player

    def player(self, run_id: str) -> Player | None:
        """What plays a run; None if it is made."""
        return self._players.get(run_id)

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
        found: dict[str, Configured] = {}
        seen: dict[str, set[str]] = {}
        for head in self.cassette.runs if self.cassette is not None and self.is_strict else ():
            if len(seen.get(head.flow, ())) > _AGENTS_SEEN:
                continue
            run = self.cassette.run(head.run_id) if self.cassette else None
            for turn in run.turns if run else ():
                asked = turn.prompt
                protocol: ToolProtocol = "native" if asked.tool_protocol == "native" else "xml"
                is_own = asked.model not in _models_of_run(run) if run else False
                known = Configured(turn.provider, asked.model, asked.temperature, protocol, is_own)
                found.setdefault(turn.agent, known)
                seen.setdefault(head.flow, set()).add(turn.agent)
        return found

    def close(self) -> None:
        """Let another process record."""
        if self.file is not None:
            self.file.close()


_COMPARED_CHARS = 4_000

_AGENTS_SEEN = 2
"""After so many agents of a flow no further runs of it are looked at for how others were configured."""


def _models_of_run(run: RecordedRun) -> set[str]:
    """The models of a run's agents that have none of their own: what was chosen for it, else what its lead asked."""
    change, chosen = Change.of_settings(run.settings), run.settings.get("model")
    lead = next((turn.prompt.model for turn in run.turns if turn.path == MAIN_JOB), None)
    return {name for name in (chosen or lead, change and change.model) if name}


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
