"""What a cassette of 10 MB costs: opened, held, read and recorded into, beside reading and hashing the same bytes.

Recordings of 50 runs of six turns, each with a search that found 25 KB, answers that came in 400 pieces, and the
prompt so far. Run alone by `python tests/bench/cassette.py`; the exit status is 1 if a target is missed.
"""

import gc
import hashlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from pydoc_data.topics import topics

sys.path.insert(0, str(Path(__file__).parents[1]))  # a script's own folder is on the path, the tests' is not

from bench.figures import Figure

from artifactflow_nb.messages import Message, ToolResult, Usage
from artifactflow_nb.models.base import ModelReply
from artifactflow_nb.recordings.cassette import Cassette
from artifactflow_nb.recordings.cassette_file import CassetteFile, cassette_bytes
from artifactflow_nb.recordings.pieces import Piece
from artifactflow_nb.recordings.secrets import Masker
from artifactflow_nb.recordings.values import Prompt, RecordedCall, RecordedRun, RecordedTurn

RUNS, TURNS, PIECES, PIECE_CHARS = 50, 6, 400, 16
FOUND_CHARS = 25_000
OPENS_WITHIN_MS = 300.0
MOST_MEMORY = 3.0
OPEN_TARGET = 12.0

_START = datetime(2026, 1, 1, tzinfo=UTC)
_REPEATS = 7
_RESIDENT = """
import resource, sys
from pathlib import Path
from artifactflow_nb.recordings.cassette import Cassette

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

first = Cassette.open(sys.argv[1])
before = resident()
cassettes = [Cassette.open(sys.argv[2]) for _ in range(10)]
heads = [cassette.runs for cassette in cassettes]
print((resident() - before) // len(cassettes))
"""


def figures() -> Iterator[Figure]:
    """All figures of a cassette."""
    with tempfile.TemporaryDirectory() as folder:
        small, path = Path(folder) / "small.jsonl", Path(folder) / "large.jsonl"
        recorded = [_run(number, _Writer(number)) for number in range(RUNS)]
        small.write_bytes(cassette_bytes(recorded[:1]))
        path.write_bytes(cassette_bytes(recorded))
        size = path.stat().st_size
        floor = _ms(lambda: hashlib.sha256(path.read_bytes()).digest())
        opened = _ms(lambda: Cassette.open(path).runs)
        name = f"a cassette of {size / 1e6:.1f} MB"
        yield Figure(f"{name} opens / read, hash", opened, floor, "ms", OPEN_TARGET)
        yield Figure(f"{name} opens / {OPENS_WITHIN_MS:g} ms", opened, OPENS_WITHIN_MS, "ms", 1)
        held, peak = _traced(path)
        yield Figure("held once it is open / its size", held / 1e6, size / 1e6, "MB", MOST_MEMORY)
        yield Figure("most held while it opens / its size", peak / 1e6, size / 1e6, "MB", MOST_MEMORY)
        yield Figure("more resident for it / its size", _resident(small, path) / 1e6, size / 1e6, "MB", MOST_MEMORY)
        yield from _runs(path, recorded[-1], floor)


def _runs(path: Path, run: RecordedRun, floor: float) -> Iterator[Figure]:
    cassette, masker = Cassette.open(path), Masker(["sk-of-nobody-0123456789"])
    lines = len(cassette_bytes([run]))
    read = _ms(lambda: cassette.run(run.run_id))
    yield Figure(f"one run of it is read ({lines / 1e3:.0f} kB)", read, floor, "ms", 1, 20)
    yield Figure("its secrets are masked", _ms(lambda: Masker().run(run)), floor, "ms", 1, 60)
    with CassetteFile(path, masker) as file:
        yield Figure("it is recorded anew, the disk included", _ms(lambda: file.add(run)), floor, "ms", 5, 200)


class _Writer:
    """Writes prose that nobody wrote, of the words of Python's reference; the same seed gives the same."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - the same each time is what is wanted
        self._words = " ".join(topics.values()).split()

    def prose(self, size: int) -> str:
        """So many characters."""
        return " ".join(self._random.choices(self._words, k=size // 2))[:size]


def _ms(work: Callable[[], object]) -> float:
    """Milliseconds, the median of some times."""
    taken = []
    for _ in range(_REPEATS):
        gc.collect()
        started = time.perf_counter()
        work()
        taken.append((time.perf_counter() - started) * 1000)
    return statistics.median(taken)


def _traced(path: Path) -> tuple[int, int]:
    """Bytes of Python's objects for an open cassette, and the most while it was opened."""
    gc.collect()
    tracemalloc.start()
    cassette = Cassette.open(path)
    heads = cassette.runs
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held if len(heads) == RUNS else 0, peak


def _resident(small: Path, path: Path) -> int:
    """Bytes by which a process grows for each of ten cassettes that it opens after a small one; Linux tells it."""
    command = [sys.executable, "-c", _RESIDENT, str(small), str(path)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)


def _run(number: int, writer: _Writer) -> RecordedRun:
    messages = [Message("system", writer.prose(4000)), Message("user", writer.prose(100))]
    turns = []
    for step in range(1, TURNS + 1):
        said, found = writer.prose(PIECES * PIECE_CHARS), writer.prose(FOUND_CHARS)
        turns.append(_turn(step, tuple(messages), said, found))
        messages += [Message("assistant", said), Message("tool", found)]
    ids = (f"{name}-{number:04}" for name in ("run", "conv", "msg", "thd"))
    asked = (*ids, None, True, messages[1].content, "research", {}, "completed")
    order = ("run", *["main"] * (TURNS * PIECES))
    return RecordedRun(*asked, _START, (_START,), tuple(turns), order=order, response=messages[-2].content)


def _turn(step: int, messages: tuple[Message, ...], said: str, found: str) -> RecordedTurn:
    at = _START + timedelta(seconds=30 * step)
    times = (at + timedelta(milliseconds=400 + n * 9 + n % 7) for n in range(PIECES))
    parts = (said[PIECE_CHARS * n : PIECE_CHARS * (n + 1)] for n in range(PIECES))
    pieces = (
        Piece("answer", "", part, when, step * PIECES + n)
        for n, (part, when) in enumerate(zip(parts, times, strict=True))
    )
    call = RecordedCall("web_search", {"query": found[:60]}, None, ToolResult(success=True, data=found), at, at, 5.5)
    reply = ModelReply(said, Usage(1000, 200), "stop", "m", ttft_ms=400.0)
    place = ("main", step, 0, "lead_agent", "bench", Prompt(messages, "m", 0.7), at, at, 9000.5)
    return RecordedTurn(*place, reply, pieces=tuple(pieces), cost_usd=0.01, calls=(call,))


def main() -> bool:
    """Print every figure; return whether all targets were met."""
    met = True
    for figure in figures():
        print(figure, flush=True)
        met = met and figure.met
    print(f"most memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    return met


if __name__ == "__main__":
    sys.exit(not main())
