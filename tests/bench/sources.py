"""The cost of a folder of 10,000 files: indexing, checking for changes, and searching.

Indexing is compared with handing the same texts to a bare FTS5 table, looking through with asking the system for the
size and time of each file. A search is the whole call: finding, ranking, and the look at the found files.
"""

import gc
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

from bench.figures import Figure
from bench.source_files import Writer

from artifactflow_nb.core.clock_ids import SystemClock
from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.store.database import Database

FILES = 10_000
QUESTIONS = 50
SEARCH_MS = 50.0
INDEX_TARGET = 10.0
PLAIN_SEARCH_TARGET = 2
LOOK_TARGET = 10  # alone 4.5; with all libraries loaded the garbage collector looks through more


async def figures(n_files: int = FILES) -> AsyncIterator[Figure]:
    """CPU time per file for indexing and for looking through again, and the median and the worst of 50 searches."""
    with tempfile.TemporaryDirectory() as place:
        writer = Writer()
        notes = Path(place) / "notes"
        writer.write(notes, n_files)
        database = Database(Path(place) / "store.db")
        await database.open()
        try:
            async for figure in _measured(database, notes, writer, n_files):
                yield figure
        finally:
            await database.close()


async def _measured(database: Database, notes: Path, writer: Writer, n_files: int) -> AsyncIterator[Figure]:
    sources = SourceManager(database, SystemClock())
    await sources.add_python_reference()
    started = time.process_time()
    added = await sources.add_folder(notes)
    took = (time.process_time() - started) * 1000 / n_files
    name = f"index {n_files:,} files / bare FTS5 of their text"
    yield Figure(name, took, _bare_index(notes) * 1000 / n_files, "ms a file", INDEX_TARGET)
    await sources.add_folder(notes)  # files that were just written are read once more
    took = min([await _again(sources, notes, n_files) for _ in range(3)]) * 1e6 / n_files
    yield Figure("look through them again / stat", took, _bare_look(notes) * 1e6 / n_files, "us a file", LOOK_TARGET)
    questions = writer.questions(QUESTIONS)
    durations = [await _search(sources, question, added.scope) for question in questions]
    yield Figure(
        f"search in them, median of {QUESTIONS} / {SEARCH_MS:g} ms", statistics.median(durations), SEARCH_MS, "ms", 1
    )
    yield Figure(f"search in them, worst of {QUESTIONS} / {SEARCH_MS:g} ms", max(durations), SEARCH_MS, "ms", 1)
    plain = await database.read(lambda db: _plain_searches(db, questions))
    yield Figure(
        "search in them / plain FTS5, mean",
        statistics.mean(durations),
        statistics.mean(plain),
        "ms",
        PLAIN_SEARCH_TARGET,
    )


async def _search(sources: SourceManager, question: str, scope: tuple[str, ...]) -> float:
    """Milliseconds of CPU time for one search."""
    started = time.process_time()
    await sources.search(question, 5, scope)
    return (time.process_time() - started) * 1000


def _plain_searches(store: sqlite3.Connection, questions: list[str]) -> list[float]:
    """Milliseconds of CPU time for each question as a query of FTS5 with its own stems, over the same passages."""
    durations = []
    passages = "SELECT substr(text, start + 1, end - start) FROM passages JOIN sections USING (section_id)"
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE VIRTUAL TABLE texts USING fts5 (text, tokenize = 'porter unicode61')")
        db.executemany("INSERT INTO texts VALUES (?)", map(tuple, store.execute(passages)))
        for question in questions:
            words = " OR ".join(f'"{word}"' for word in question.split())
            started = time.process_time()
            db.execute("SELECT text FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT 5", (words,)).fetchall()
            durations.append((time.process_time() - started) * 1000)
    return durations


async def _again(sources: SourceManager, notes: Path, n_files: int) -> float:
    """CPU seconds for looking through the folder when nothing changed."""
    gc.collect()
    started = time.process_time()
    again = await sources.add_folder(notes)
    took = time.process_time() - started
    if again.unchanged != n_files:
        raise AssertionError(f"Nothing changed, and yet: {again!r}")
    return took


def _bare_index(folder: Path) -> float:
    """CPU seconds for reading the files into a table of FTS5 with its own words."""
    started = time.process_time()
    with closing(sqlite3.connect(folder.parent / "bare.db")) as db, db:
        db.execute("CREATE VIRTUAL TABLE texts USING fts5 (text)")
        db.executemany("INSERT INTO texts VALUES (?)", ((path.read_text("utf-8"),) for path in _files(folder)))
    return time.process_time() - started


def _bare_look(folder: Path) -> float:
    """CPU seconds for listing the folder and asking for size and time of each file."""
    started = time.process_time()
    for path in _files(folder):
        path.stat()
    return time.process_time() - started


def _files(folder: Path) -> Iterator[Path]:
    for place, _, names in os.walk(folder):
        yield from (Path(place, name) for name in names)
