"""The cost of a late round in a long run against an early one: CPU time of the process, and bytes of the store.

The model is scripted and the tool returns four bytes, so that everything that is measured is the engine's own work. The
last rounds take turns with the first ones of a second run, so that a busy machine slows both alike.
"""

import asyncio
import gc
import sqlite3
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figures import Figure

from artifactflow_nb.core.toolcalls.xml import format_call
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.folder_file import STORE_FILE
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.tools.base import ToolContext, tool

ROUNDS = 1000
TARGET = 2.0
SAMPLE = 50
LONG, SHORT = "Look on and on.", "Look."


@tool(name="look", idempotent=True)
async def look(ctx: ToolContext) -> str:
    """Look."""
    del ctx
    return "none"


@dataclass(frozen=True, slots=True)
class LongRun:
    """The costs of the rounds of a long run.

    Attributes:
        late: CPU seconds of one of its last rounds.
        early: CPU seconds of one of the first rounds of a run at the same time.
        stored: Bytes of the store, without its write-ahead log, before every `SAMPLE`th round.
    """

    late: float
    early: float
    stored: dict[int, int]

    def bytes_per_round(self, start: int, end: int) -> float:
        """Bytes by which the store grew in each of these rounds."""
        return (self.stored[end] - self.stored[start]) / (end - start)


class TakingTurns(ScriptedModel):
    """Calls the tool in each round; in the last rounds of the long run, a short run has every other round.

    Args:
        rounds: How many rounds the long run has.
        store: The store whose size is noted.
    """

    def __init__(self, rounds: int, store: Path) -> None:
        super().__init__(self._say)
        self.costs: dict[str, list[float]] = {LONG: [], SHORT: []}
        self.stored: dict[int, int] = {}
        self._rounds = rounds
        self._store = store
        self._n = dict.fromkeys(self.costs, 0)
        self._released = dict.fromkeys(self.costs, 0.0)
        self._turns = {name: asyncio.Event() for name in self.costs}
        self.begin_short = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The next reply, once the other run has done a round."""
        name = LONG if any(message.content.endswith(LONG) for message in request.messages[:2]) else SHORT
        self.costs[name].append(time.process_time() - self._released[name])
        n = self._n[name] = self._n[name] + 1
        if name == LONG and n % SAMPLE == 0 and n <= self._rounds - SAMPLE:
            self.stored[n] = stored_bytes(self._store)
        if name == SHORT or n >= self._rounds - SAMPLE:
            await self._take_turns(name)
        self._released[name] = time.process_time()
        async for event in super().stream(request):
            yield event

    async def _take_turns(self, name: str) -> None:
        other = SHORT if name == LONG else LONG
        self.begin_short.set()
        self._turns[other].set()
        if self._n[LONG] <= self._rounds:
            self._turns[name].clear()
            await self._turns[name].wait()

    def _say(self, request: ModelRequest) -> str:
        self.requests.clear()  # a scripted model keeps every prompt
        is_last = self._n[LONG] > self._rounds
        del request
        return f"Round {self._n}." + ("" if is_last else format_call("look", {}))


async def long_run(folder: Path, rounds: int = ROUNDS) -> LongRun:
    """Run an agent that calls the tool in each of these rounds."""
    config: Any = {"lead_agent": {"max_tool_rounds": rounds}}
    model = TakingTurns(rounds, folder / STORE_FILE)
    engine = Engine(Settings.load(data_dir=folder, graph_config=config), model=model)
    engine.register_tool(look)
    gc.collect()
    async with engine:
        long = asyncio.create_task(engine.controller.execute(LONG))
        await model.begin_short.wait()
        short = await engine.controller.execute(SHORT)
        results = [await long, short]
    if [result.status for result in results] != ["completed"] * 2 or len(results[0].metrics.tool_calls) != rounds:
        raise AssertionError(f"The runs are {results}")
    late, early = (statistics.median(model.costs[name][-SAMPLE + 5 : -2]) for name in (LONG, SHORT))
    return LongRun(late, early, model.stored)


def stored_bytes(path: Path) -> int:
    """Bytes of a store after its write-ahead log was written back."""
    with closing(sqlite3.connect(path)) as db:
        pages, size = (int(db.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_count", "page_size"))
    return pages * size


async def figures() -> AsyncIterator[Figure]:
    """A late round of 1,000 against an early one."""
    with tempfile.TemporaryDirectory() as folder:
        run = await long_run(Path(folder))
    yield Figure("long run, round 1000 / round 1", run.late * 1000, run.early * 1000, "ms", TARGET)
    late, early = run.bytes_per_round(ROUNDS - 3 * SAMPLE, ROUNDS - SAMPLE), run.bytes_per_round(SAMPLE, 3 * SAMPLE)
    yield Figure("long run, bytes of round 1000 / of round 100", late, early, "bytes", TARGET)
