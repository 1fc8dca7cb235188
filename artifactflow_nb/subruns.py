"""Runs that work for a call of another run, as `flows.subruns` says: begun, waited for, and ended with it."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from operator import itemgetter
from typing import Any

from artifactflow_nb.beginning import BegunRuns
from artifactflow_nb.drive import RunDriver
from artifactflow_nb.errors import CassetteMiss, Conflict, NotFound, StoreError, UsageError
from artifactflow_nb.events import StreamEvent, StreamEventType
from artifactflow_nb.flows.permission import take_answers
from artifactflow_nb.flows.subruns import Rest
from artifactflow_nb.origin import Origin
from artifactflow_nb.recordings.player import Player
from artifactflow_nb.recordings.values import request_id
from artifactflow_nb.store.runs import RUNNING, WAITING, StoredRun

_RESTS = {StreamEventType.COMPLETE, StreamEventType.CANCELLED, StreamEventType.ERROR}

LOOK_INTERVAL_S = 2.0
"""How often it is looked whether the process is still there that drives a run which another waits for."""

logger = logging.getLogger(__name__)


class SubRuns(BegunRuns):
    """Begins runs for other runs."""

    async def begin_for(self, origin: Origin, question: str, flow: str, **chosen: Any) -> StoredRun:
        """Begin a run for a call, in a conversation of its own."""
        run = await self.begin(question, flow=flow, origin=origin, **chosen)
        await self.start(run)
        return run

    async def until_rest(self, run_id: str, after: int | None = None) -> Rest:
        """Let a run go on and return when it has ended or waits; see `flows.subruns.Subruns`."""
        told: asyncio.Queue[StreamEvent] = asyncio.Queue()
        stop = await self.subscribe(run_id, lambda event: told.put_nowait(event) if event.type in _RESTS else None)
        try:
            if after is None:
                rest, after = await self._rest_now(run_id, told)
                if rest is not None:
                    return rest
            while (event := await self._next(run_id, told)).seq <= after:
                pass
            return await self._rest_of(run_id, event)
        finally:
            stop()

    async def _next(self, run_id: str, told: "asyncio.Queue[StreamEvent]") -> StreamEvent:
        """The next event that tells of a rest; a process that drove the run and is gone tells none."""
        while True:
            try:
                return await asyncio.wait_for(told.get(), LOOK_INTERVAL_S)
            except TimeoutError:
                await self.go_on(await self._services.runs.get(run_id))

    async def _rest_now(self, run_id: str, told: "asyncio.Queue[StreamEvent]") -> tuple[Rest | None, int]:
        """How a run rests now; if it does not, it goes on: the number of the last event that told of a rest."""
        last = 0
        while not told.empty():
            last = told.get_nowait().seq
        run = await self._services.runs.get(run_id)
        if run.status not in {RUNNING, WAITING}:
            return Rest(run, ()), last
        if run.status == WAITING and last and not await self._services.requests.ready(run_id):
            return Rest(run, await self._services.requests.gates(run_id), last), last
        await self.go_on(run)
        return None, last

    async def _rest_of(self, run_id: str, event: StreamEvent) -> Rest:
        run = await self._services.runs.get(run_id)
        if event.type is StreamEventType.COMPLETE and event.data.get("interrupted"):
            return Rest(run, event.data["gates"], event.seq)
        if run.status in {RUNNING, WAITING}:  # an end that is told and not stored is none
            raise StoreError(str(event.data.get("message") or f"The run {run_id} was interrupted."))
        return Rest(run, (), event.seq)

    async def answer(self, run_id: str, requests: Sequence[str]) -> bool:
        """Decide on these requests of a run as is recorded; see `flows.subruns.Subruns`."""
        if not requests or (player := self._rooms.deck.player(run_id)) is None:
            return False
        for subject, asked in player.answers(by_code=True):
            if (key := request_id(subject)) in requests:
                await player.until_next(asked)
                await take_answers(self._services.requests, player, by_code=True, only=[key])
        if player.is_at_end:
            await self.cancel(run_id, by_code=not player.was_stopped)
            player.ends_by_itself = True
            return True
        goes_on = await self._services.requests.ready(run_id)
        await self._carry_on(run_id)
        return goes_on

    async def answer_at_pause(self, run: StoredRun, gates: Sequence[Sequence[str]]) -> bool:
        """Decide what clicks decided while a run waited at these gates; see `flows.subruns.Subruns`."""
        ours = self._rooms.deck.player(run.run_id)
        if ours is None or (ours.caller is not None and not ours.caller.parted_at):
            return False
        for _, player, subject in await self._clicked(ours, [key for gate in gates for key in gate]):
            run_id = player.recording.run_id
            if player.stops and player is not ours:
                await self.cancel(run_id, by_code=False)
            elif subject and subject not in dict(player.answers(by_code=False)):  # code is there to do so again
                break
            elif subject:
                await take_answers(self._services.requests, player, by_code=True, only=[request_id(subject)])
                if player is not ours:
                    await self._carry_on(run_id)
            if await self._services.requests.any_decided(gates):  # each job waits for what clicks decided meanwhile
                await take_answers(self._services.requests, ours, by_code=False)
                break
        return ours.stops

    async def _clicked(self, ours: Player, requests: Sequence[str]) -> list[tuple[datetime, Player, str]]:
        """What is recorded until a run pauses next, in order: when, of which run, what was decided; empty for its end.

        It is the run's own and what is about these requests, of runs that it began.
        """
        begun = {}
        for key in requests:
            player = self._rooms.deck.player((await self._services.requests.get(key)).run_id)
            if player is not None and player is not ours and not ours.waits_for(key):
                begun[player.recording.run_id] = player
        ends = [(max(one.recording.ends), one, "") for one in begun.values() if one.was_stopped]
        asked = [(one, *answer) for one in (ours, *begun.values()) for answer in one.answers(by_code=True)]
        taken = [(ask.decided_at, one, key) for one, key, ask in asked if ask.decided_at is not None]
        return sorted(taken + ends, key=itemgetter(0))

    async def _carry_on(self, run_id: str) -> None:
        """Go on with a run as soon as it can, now that something was decided; who looks on sees the decision."""
        if (player := self._rooms.deck.player(run_id)) is not None:
            player.wake()
            await take_answers(self._services.requests, player, by_code=False)
        driver = self._drivers.get(run_id)
        if driver is not None:
            async with driver.lock:
                if driver.driving:
                    with suppress(StoreError):  # the driver meets it too, and says the decision when the run is resumed
                        await driver.announce()
                    return
        if not await self.go_on(await self._services.runs.get(run_id)):
            with suppress(StoreError):  # then whoever goes on with the run says it
                await self.announce_waiting(run_id)
                await self._end_as_recorded(run_id)

    async def _end_as_recorded(self, run_id: str) -> None:
        """End a run that waits if a click ended it there when it was recorded."""
        player = self._rooms.deck.player(run_id)
        if player is not None and player.stops:
            await self.cancel(run_id, by_code=False)

    async def end(self, run_ids: Sequence[str], *, by_code: bool) -> None:
        """Cancel runs, since the one that began them is over."""
        await asyncio.gather(*(self._end(run_id, by_code=by_code) for run_id in run_ids))

    async def _end(self, run_id: str, *, by_code: bool) -> None:
        with suppress(Conflict, NotFound, StoreError):  # it ended at this moment, or tells by itself why it cannot
            await self.cancel(run_id, by_code=by_code)

    def _forget(self, run_id: str, driver: RunDriver) -> None:
        """A run is driven no longer: the one that began it may go on now, if that waits."""
        super()._forget(run_id, driver)
        if driver.run.origin is not None and not driver.detached:
            self._beside(self._wake(driver.run.origin.run_id))

    async def _wake(self, run_id: str) -> None:
        try:
            await self.go_on(await self._services.runs.get(run_id))
        except NotFound:  # it was deleted, or only this one of them was brought here
            return
        except (StoreError, UsageError, CassetteMiss):
            logger.debug("The run %s is not gone on with", run_id, exc_info=True)
