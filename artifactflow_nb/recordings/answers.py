"""What was decided on a recorded run, in its order, and how far its replay has come in that.

Clicks are decided again by the replay; what code decided, the code is there to decide again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from itertools import takewhile

from artifactflow_nb.recordings.values import RecordedAsk, RecordedRun

PATIENCE_S = 10.0
"""How long a replay waits for code that had decided, and does not come."""

_LOOK_S = 1.0
"""How often it looks whether another process has decided, or the run is over."""


class Answers:
    """The decisions of a recorded run.

    Args:
        recording: The run.
        audits: Whether decisions that code took are taken by the replay, too, since no code is there.

    Attributes:
        recording: The run.
        caller: What plays the run that began this one; None if there is none.
        begun: What plays the runs that this one began.
        progress: Set as soon as the replay has come further, or something is decided; then another stands in its place.
        parted_at: The place of the first model call or tool call that was not as recorded; None if all were.
    """

    def __init__(self, recording: RecordedRun, *, audits: bool) -> None:
        self.recording = recording
        self.parted_at: str | None = None
        self.caller: Answers | None = None
        self.begun: list[Answers] = []
        self._audits = audits
        self._asks: dict[str, RecordedAsk] = {}
        self._told: Mapping[str, tuple[int, int]] = {}
        self._taken: set[str] = set()
        self._claimed: set[str] = set()
        self._answered: set[str] = set()
        self._n_pauses = 0
        self._n_left_to_code = 0
        self.progress = asyncio.Event()

    @property
    def beside(self) -> "Sequence[Answers]":
        """What plays the other runs that the same run began."""
        return [] if self.caller is None else [one for one in self.caller.begun if one is not self]

    def ask(self, subject: str) -> RecordedAsk | None:
        """What was asked about it."""
        return self._asks.get(subject)

    def answers(self, *, by_code: bool) -> Sequence[tuple[str, RecordedAsk]]:
        """What was decided before the next pause; by clicks only, unless code is asked for or is not here."""
        due = [subject for subject in self._left() if self._told[subject][0] <= self._n_pauses]
        found = [(subject, self._asks[subject]) for subject in due]
        return found if by_code else list(takewhile(lambda one: not self.is_left_to_code(one[1]), found))

    def is_left_to_code(self, asked: RecordedAsk) -> bool:
        """Whether code decided it that is there to do so again."""
        return asked.by_code and not self._audits

    def paused(self) -> None:
        """Count the pauses: what code decides after one waits for it."""
        self._n_pauses += 1
        self.wake()

    def wake(self) -> None:
        """Let those look again who wait for the run to come to where something was decided."""
        self.progress.set()
        self.progress = asyncio.Event()

    async def until_due(self, subject: str) -> None:
        """Return when the run has come to where this was decided: as often paused, and all decided before it."""
        while subject in self._left() and self._left()[0] != subject:
            await self.progress.wait()
        while subject in self._left() and self._told[subject][0] > self._n_pauses:
            await self.progress.wait()

    async def until_taken(self, subjects: Sequence[str]) -> None:
        """Return when the clicks on these are taken, which come in their order; code decides by itself."""
        while not {subject for subject, _ in self.answers(by_code=False)}.isdisjoint(subjects):
            await self.progress.wait()

    async def until_code(self, asked: RecordedAsk, is_decided: Callable[[], Awaitable[bool]]) -> None:
        """Give code the time to decide this, if it had; if it does not come, it is not there.

        Code that waits for the run waits no longer, if a pause had ended that before. The run that began this one may
        be the one that it waits for.
        """
        if not self.is_left_to_code(asked):
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self.until_next(asked), PATIENCE_S)
        end = asyncio.get_running_loop().time() + PATIENCE_S
        with self.leaving_to_code(), nullcontext() if self.caller is None else self.caller.leaving_to_code():
            while True:
                progress = self.progress  # what comes while it is looked up is not missed
                left_s = end - asyncio.get_running_loop().time()
                parted = self.parted_at or (self.caller is not None and self.caller.parted_at)
                if parted or left_s <= 0 or await is_decided():
                    return
                with suppress(TimeoutError):
                    await asyncio.wait_for(progress.wait(), min(left_s, _LOOK_S))

    async def until_next(self, asked: RecordedAsk) -> None:
        """Return when all is decided that was before this, on runs that were begun beside this one."""
        for one in self.beside:
            if asked.decided_at is not None:
                await one.until_decided(asked.decided_at)

    @contextmanager
    def leaving_to_code(self) -> Iterator[None]:
        """Note that code has to decide meanwhile."""
        self._n_left_to_code += 1
        self.wake()
        try:
            yield
        finally:
            self._n_left_to_code -= 1

    async def until_left_to_code(self) -> None:
        """Return when code has to decide while the run goes on, after a pause: that ended its waiting when recorded."""
        while not self._n_left_to_code or not self._n_pauses:
            await self.progress.wait()

    async def until_waited(self, request_id: str) -> None:
        """Return when the run has paused as often as it did before this was decided, on a run that it began."""
        while self.waits_for(request_id) and not self.parted_at:
            await self.progress.wait()

    async def until_decided(self, before: datetime, *, by_code: bool = True) -> None:
        """Return when all is decided that was before this moment, or all clicks, unless the run goes another way."""

        def is_left(ask: RecordedAsk) -> bool:
            return ask.decided_at is not None and ask.decided_at < before and (by_code or not ask.by_code)

        while not self.parted_at and any(is_left(self._asks[subject]) for subject in self._left()):
            await self.progress.wait()

    def waits_for(self, request_id: str) -> bool:
        """Whether a pause is recorded, from here on, in which this was open."""
        waits = self.recording.subrun_waits[self._n_pauses :]
        return bool(self.parted_at) or any(request_id in open_then for open_then in waits)

    def _left(self) -> list[str]:
        """What is decided from here on, in order."""
        return sorted(self._told.keys() & self._asks.keys() - self._answered, key=self._told.__getitem__)

    def took(self, subject: str) -> None:
        """Note that a decision was taken from the recording."""
        self._taken.add(subject)
        self._answered.add(subject)
        self.wake()

    def is_taken(self, subject: str) -> bool:
        """Whether the recording decided this itself."""
        return subject in self._taken

    @property
    def taken_for_code(self) -> Sequence[tuple[str, RecordedAsk]]:
        """What the replay decided because code was late that had, and that has not come to it since."""
        taken = [(subject, self._asks[subject]) for subject in self._taken - self._claimed if subject in self._asks]
        return [(subject, ask) for subject, ask in taken if self.is_left_to_code(ask)]
