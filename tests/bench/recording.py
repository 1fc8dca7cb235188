"""Cost of recording and replaying a run, and of opening a cassette.

A run of 40 model turns and 5,000 chunks, with a tool call in each turn but the last. A replay is compared with the same
run live, a recording with itself without the time that it spends on the cassette. Run alone by
`python tests/bench/recording.py`; the exit status is 1 if a target is missed.
"""

import asyncio
import gc
import hashlib
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # a script's own folder is on the path, the tests' is not

import orjson
import pytest
from bench.figures import Figure, print_all

from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.core.toolcalls.xml import format_call
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recording.cassette import Cassette
from artifactflow_nb.recording.engine import make_engine
from artifactflow_nb.recording.modes import CassetteSession
from artifactflow_nb.store.database import Database
from artifactflow_nb.tools.base import ToolContext, tool

TURNS, CHUNKS, CHUNK_CHARS, RUNS = 40, 5000, 16, 12
REPLAY_TARGET = 1.0
RECORD_TARGET = 1.15
OPEN_TARGET = 3.0
QUESTION = "How many words has each round?"

_ROUNDS = 7
_SENTENCE = "I look this up before I go on, because the next step rests on it. "


def script() -> list[str]:
    """A tool call in each turn, then an answer; 5,000 chunks in all."""
    size = CHUNKS * CHUNK_CHARS // TURNS
    calls = [format_call("count_words", {"text": f"round {n} of the task"}) for n in range(TURNS - 1)]
    return [(_SENTENCE * size)[: size - len(call)] + call for call in calls] + [(_SENTENCE * size)[:size]]


@tool(name="count_words", idempotent=True)
async def count_words(ctx: ToolContext, text: Annotated[str, "The text."]) -> str:
    """Count the words of a text."""
    del ctx
    return f"{len(text.split())} words"


async def figures() -> AsyncIterator[Figure]:
    """All figures of this module."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recorded = folder / "recorded.jsonl"
        await run_once(folder, record=recorded)
        pairs = [(await run_once(folder, replay=recorded), await run_once(folder)) for _ in range(_ROUNDS + 1)][1:]
        yield Figure(f"replay of {TURNS} turns, {CHUNKS:,} chunks: CPU / live", *_median(pairs), "ms", REPLAY_TARGET)
        records = [await _recorded(folder, folder / f"{n}.jsonl") for n in range(_ROUNDS)]
        yield Figure("recording of it: CPU / without the cassette", *_median(records), "ms", RECORD_TARGET)
        large = folder / "large.jsonl"
        for number in range(RUNS):
            await run_once(folder, question=f"{QUESTION} ({number})", record=large)
        floor = await _ms(lambda: asyncio.to_thread(_read_plainly, large))
        opened = await _ms(lambda: asyncio.to_thread(Cassette.open, large))
        size = large.stat().st_size / 1e6
        yield Figure(f"a cassette of {size:.1f} MB opens / read, hash, JSON", opened, floor, "ms", OPEN_TARGET)


async def run_once(folder: Path, question: str = QUESTION, **settings: Any) -> float:
    """Ask once in a new store with a listener; the CPU seconds from the question to its end."""
    n_chunks = 0

    def count(event: StreamEvent) -> None:
        nonlocal n_chunks
        n_chunks += event.type is StreamEventType.LLM_CHUNK

    rounds = {"lead_agent": {"max_tool_rounds": TURNS}}
    loaded = Settings.load(data_dir=Path(tempfile.mkdtemp(dir=folder)), graph_config=rounds, **settings)
    async with make_engine(loaded, model=ScriptedModel(script(), chunk_chars=CHUNK_CHARS)) as engine:
        engine.register_tool(count_words)
        await engine.add_sources(__file__)  # else the language reference would be indexed
        gc.collect()
        started = time.process_time()
        run = await engine.controller.begin(question)
        await engine.controller.subscribe(run.run_id, count)
        await (await engine.controller.start(run))
        seconds = time.process_time() - started
        result = await engine.controller.result(run.run_id)
    if result.status != "completed" or not CHUNKS <= n_chunks <= CHUNKS * 1.05:
        raise AssertionError(f"{result.status} after {n_chunks} chunks: {result.error_message}")
    return seconds


async def _recorded(folder: Path, cassette: Path) -> tuple[float, float]:
    """CPU seconds of a recorded run, and of the run without the time that it spends on the cassette."""
    spent = 0.0
    save = CassetteSession.save

    async def timed(session: CassetteSession, database: Database, run_id: str) -> None:
        nonlocal spent
        started = time.process_time()
        await save(session, database, run_id)
        spent += time.process_time() - started

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CassetteSession, "save", timed)
        seconds = await run_once(folder, record=cassette)
    return seconds, seconds - spent


def _read_plainly(cassette: Path) -> None:
    """Hash a cassette and parse its lines, without a look at what they contain."""
    data = cassette.read_bytes()
    hashlib.sha256(data)
    for line in data.splitlines():
        orjson.loads(line)


def _median(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    """A cost and its floor, in milliseconds, of the round whose ratio is the median."""
    pairs = sorted(pairs, key=lambda pair: pair[0] / pair[1])
    value, floor = pairs[statistics.median_low(range(len(pairs)))]
    return value * 1000, floor * 1000


async def _ms(work: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds of some work, the median of several times."""
    times = []
    for _ in range(_ROUNDS):
        gc.collect()
        started = time.perf_counter()
        await work()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(not asyncio.run(print_all(figures())))
