"""What it costs to play a run and to record one, against the same run with the scripted model and no cassette.

A run of 40 model turns and 5,000 chunks, a tool call in each turn but the last. Each side begins with a new store,
whose opening is not counted; that of the cassette is. The sides take turns, and the figure is the rounds' median ratio.
Run alone by `python tests/bench/replay.py`; the exit status is 1 if a target is missed.
"""

import asyncio
import gc
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # a script's own folder is on the path, the tests' is not

import pytest
from bench.figures import Figure, print_all
from loopback import Answer, ChatProcess

from artifactflow_nb.engine import Engine
from artifactflow_nb.events import StreamEvent, StreamEventType
from artifactflow_nb.flows import call_record
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recordings.deck import Deck
from artifactflow_nb.recordings.pieces import Noted, pack
from artifactflow_nb.recordings.secrets import Masker
from artifactflow_nb.recordings.values import RecordedRun
from artifactflow_nb.settings import Settings
from artifactflow_nb.tools.base import ToolContext, tool
from artifactflow_nb.xml_calls import format_call

TURNS, CHUNKS, CHUNK_CHARS = 40, 5000, 16
REPLAY_TARGET = 1.5
RECORD_TARGET = 1.05
QUESTION = "How many words has each round?"

_ROUNDS = 9
_SENTENCE = "I look this up before I go on, because the next step rests on it. "


def script() -> list[str]:
    """A call in each turn, then an answer; so many chunks in all."""
    size = CHUNKS * CHUNK_CHARS // TURNS
    calls = [format_call("count_words", {"text": f"round {n} of the task"}) for n in range(TURNS - 1)]
    return [(_SENTENCE * size)[: size - len(call)] + call for call in calls] + [(_SENTENCE * size)[:size]]


@tool(name="count_words", idempotent=True)
async def count_words(ctx: ToolContext, text: Annotated[str, "The text."]) -> str:
    """Count the words of a text."""
    del ctx
    return f"{len(text.split())} words"


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of this process and of the clock on the wall."""

    cpu: float
    wall: float


@contextmanager
def _measured(costs: list[Cost]) -> Iterator[None]:
    """Add what happens inside to the costs."""
    cpu, wall = time.process_time(), time.perf_counter()
    yield
    costs.append(Cost(time.process_time() - cpu, time.perf_counter() - wall))


async def figures() -> AsyncIterator[Figure]:
    """Replaying and recording."""
    answers = {"rounds": [Answer(text) for text in script()]}
    with tempfile.TemporaryDirectory() as name, ChatProcess(answers) as base_url:
        folder = Path(name)
        played = folder / "played.jsonl"
        endpoint = {"base_url": base_url, "api_key": "k", "model": "rounds"}
        await run_once(folder, _recording(played), {})
        replayed = await _in_turns(
            live=lambda: run_once(folder, Deck, {}),
            replay=lambda: run_once(folder, lambda: Deck.open("replay", played, Masker()), {}),
        )
        recorded = [await _recorded(folder, endpoint) for _ in range(_ROUNDS + 1)][1:]
    about = f"{TURNS} turns, {CHUNKS:,} chunks"
    live, replay = replayed["live"], replayed["replay"]
    yield _figure(f"replay of {about}: CPU", replay, live, "cpu", REPLAY_TARGET)
    yield _figure(f"replay of {about}: wall", replay, live, "wall", REPLAY_TARGET)
    yield Figure(f"recording of {about}: CPU", *_median(recorded), "ms", RECORD_TARGET)


def _recording(cassette: Path) -> Callable[[], Deck]:
    return lambda: Deck.open("record", cassette, Masker())


async def _in_turns(**sides: Callable[[], Awaitable[Cost]]) -> dict[str, list[Cost]]:
    costs: dict[str, list[Cost]] = {side: [] for side in sides}
    for number in range(_ROUNDS + 1):
        for side, run in sides.items():
            cost = await run()
            if number:
                costs[side].append(cost)
    return costs


def _figure(name: str, costs: list[Cost], floors: list[Cost], what: str, target: float) -> Figure:
    pairs = [(getattr(cost, what), getattr(floor, what)) for cost, floor in zip(costs, floors, strict=True)]
    return Figure(name, *_median(pairs), "ms", target)


def _median(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    """A cost and its floor, in milliseconds, of the round whose ratio is the median."""
    pairs = sorted(pairs, key=lambda pair: pair[0] / pair[1])
    value, floor = pairs[statistics.median_low(range(len(pairs)))]
    return value * 1000, floor * 1000


def _new(folder: Path) -> Path:
    return Path(tempfile.mkdtemp(dir=folder))


async def run_once(folder: Path, deck: Callable[[], Deck], endpoint: Mapping[str, str]) -> Cost:
    """Ask once in a new store, with somebody who listens; what it cost, with the opening of the deck.

    Args:
        folder: Where the store is made.
        deck: Opens what is played from or recorded into.
        endpoint: The settings of an endpoint; empty for the scripted model.
    """
    costs: list[Cost] = []
    heard = 0
    gc.collect()

    def count(event: StreamEvent) -> None:
        nonlocal heard
        heard += event.type is StreamEventType.LLM_CHUNK

    with _measured(costs):
        opened = deck()
    model = None if endpoint else ScriptedModel(script(), chunk_chars=CHUNK_CHARS)
    rounds = {"lead_agent": {"max_iterations": TURNS}}
    settings = Settings.load(data_dir=_new(folder), graph_config=rounds, **endpoint)
    async with Engine(settings, model=model, deck=opened) as engine:
        engine.register_tool(count_words)
        await engine.add_sources(__file__)  # or the reference would be indexed
        with _measured(costs):
            run = await engine.controller.begin(QUESTION)
            await engine.controller.subscribe(run.run_id, count)
            await (await engine.controller.start(run))
        result = await engine.controller.result(run.run_id)
    if result.status != "completed" or not CHUNKS <= heard <= CHUNKS * 1.05:
        raise AssertionError(f"{result.status} after {heard} chunks: {result.error_message}")
    return Cost(sum(cost.cpu for cost in costs), sum(cost.wall for cost in costs))


async def _recorded(folder: Path, endpoint: Mapping[str, str]) -> tuple[float, float]:
    """The CPU seconds of a recorded run, and of what of it would be done without recording.

    What recording adds is measured where it is done, in the same run: the pieces that are noted and packed, and the
    run that is read from the store and put into a new cassette. Between two runs this machine's speed differs by more.
    """
    added: list[Cost] = []
    again: list[Cost] = []

    class Watched(Deck):
        def loaded(self, db: sqlite3.Connection, run_id: str) -> RecordedRun | None:
            with _measured(added):
                return super().loaded(db, run_id)

        async def keep(self, recording: RecordedRun | None) -> None:
            with _measured(added):
                await super().keep(recording)

    def packed(pieces: list[Noted], started_at: datetime, texts: Mapping[str, str]) -> dict[str, Any] | None:
        with _measured(again):
            noted: list[Noted] = [(kind, tool, text, at, seq) for kind, tool, text, at, seq in pieces]
        with _measured(added):
            return pack(noted, started_at, texts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(call_record, "pack", packed)
        total = await run_once(folder, lambda: Watched.open("record", _new(folder) / "c.jsonl", Masker()), endpoint)
    noting = sum(cost.cpu for cost in again)
    recording = total.cpu - noting
    return recording, recording - noting - sum(cost.cpu for cost in added)


if __name__ == "__main__":
    sys.exit(not asyncio.run(print_all(figures())))
