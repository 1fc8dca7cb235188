"""Folders as sources: changes are noticed, unreadable files are skipped, and indexing blocks nobody."""

import asyncio
import os
import statistics
import time
from pathlib import Path

import pytest
from bench.source_files import Writer
from conftest import OpenEngine
from support.cpu_time import within

from artifactflow_nb.core.clock_ids import SystemClock
from artifactflow_nb.engine.engine import MAX_RESCANNED_FILES
from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.models.offline.model import OfflineModel
from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.sources.values import IndexingResult
from artifactflow_nb.store.database import Database
from artifactflow_nb.testing import FakeClock

HOUR_NS = 3_600 * 10**9


def write(path: Path, text: str, *, hours_ago: int = 2) -> Path:
    """Write a file that was last changed some hours ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    then = time.time_ns() - hours_ago * HOUR_NS
    os.utime(path, ns=(then, then))
    return path


def counts(added: IndexingResult) -> tuple[int, int, int, int]:
    return added.added, added.changed, added.unchanged, added.removed


def reasons(added: IndexingResult) -> dict[str, str]:
    return {skipped.path: skipped.reason for skipped in added.skipped}


@pytest.fixture
def birds(tmp_path: Path) -> Path:
    root = tmp_path / "birds"
    write(root / "heron.md", "# Heron\n\nHerons stand in water.")
    write(root / "deep" / "otter.txt", "Otters swim at night.")
    return root


# --- what changed --------------------------------------------------------------------------------------------------


async def test_adding_a_folder_again_reads_changed_files_only(sources: SourceManager, birds: Path):
    """New, changed, unchanged and removed files are counted."""
    assert counts(await sources.add_folder(birds)) == (2, 0, 0, 0)
    write(birds / "heron.md", "# Heron\n\nHerons nest in trees.", hours_ago=1)
    write(birds / "stork.md", "# Stork\n\nStorks clatter.")
    (birds / "deep" / "otter.txt").unlink()
    again = await sources.add_folder(birds)
    assert counts(again) == (1, 1, 0, 1)
    assert again.source_ids == ("birds/heron.md", "birds/stork.md")
    assert repr(again) == f"2 files of {birds}: 1 added, 1 changed, 0 unchanged, 1 removed"
    assert counts(await sources.add_folder(birds)) == (0, 0, 2, 0)
    assert await sources.search("otter") == []


async def test_file_with_unchanged_size_and_time_is_not_opened(sources: SourceManager, birds: Path):
    """A file with a new time and the old text is read, and its source stays."""
    await sources.add_folder(birds)
    first = await sources.sources()
    write(birds / "heron.md", "# Heron\n\nHerons stand in fires.", hours_ago=2)
    heron = birds / "heron.md"
    os.utime(heron, ns=(0, (await known_time(sources, "birds/heron.md"))))
    assert counts(await sources.add_folder(birds)) == (0, 0, 2, 0)
    write(birds / "deep" / "otter.txt", "Otters swim at night.", hours_ago=1)
    assert counts(await sources.add_folder(birds)) == (0, 0, 2, 0)
    assert await sources.sources() == first


async def known_time(sources: SourceManager, source_id: str) -> int:
    query = "SELECT mtime_ns FROM sources WHERE source_id = ?"
    return await sources._database.read(lambda db: db.execute(query, (source_id,)).fetchone()[0])


async def test_change_within_the_same_clock_tick_is_noticed(sources: SourceManager, birds: Path):
    """A recently written file is read again, although size and time are unchanged."""
    heron = birds / "heron.md"
    heron.write_text("# Heron\n\nHerons stand in water.", encoding="utf-8")
    now = heron.stat().st_mtime_ns
    await sources.add_folder(birds)
    heron.write_text("# Heron\n\nHerons stand in marsh.", encoding="utf-8")
    os.utime(heron, ns=(now, now))
    assert counts(await sources.add_folder(birds)) == (0, 1, 1, 0)


async def test_addresses_keep_the_case_of_names(sources: SourceManager, tmp_path: Path):
    """Two files with names that differ only in case keep addresses without added numbers."""
    write(tmp_path / "Lake Notes" / "README.md", "# Read me\n\nHerons stand in water.")
    write(tmp_path / "Lake Notes" / "readme.md", "# Read me\n\nOtters swim.")
    added = await sources.add_folder(tmp_path / "Lake Notes")
    assert added.source_ids == ("Lake-Notes/README.md", "Lake-Notes/readme.md")
    assert (await sources.search("herons"))[0].address == "local:Lake-Notes/README.md#read-me"


async def test_emptied_folder_has_no_sources(sources: SourceManager, birds: Path):
    """An empty folder is not an error."""
    await sources.add_folder(birds)
    (birds / "heron.md").unlink()
    (birds / "deep" / "otter.txt").unlink()
    assert counts(await sources.add_folder(birds)) == (0, 0, 0, 2)
    assert await sources.sources() == []


async def test_reading_returns_the_current_text_of_the_file(sources: SourceManager, birds: Path):
    """Reading a removed file or section is an error that names the removal."""
    await sources.add_folder(birds)
    write(birds / "heron.md", "# Heron\n\nHerons nest in trees.", hours_ago=1)
    assert (await sources.read("local:birds/heron.md#heron")).text == "# Heron\n\nHerons nest in trees."
    write(birds / "heron.md", "# Grey heron\n\nIt nests in trees.", hours_ago=0)
    with pytest.raises(NotFound, match=r"changed or removed since.*local:birds/heron\.md#grey-heron"):
        await sources.read("local:birds/heron.md#heron")
    (birds / "heron.md").unlink()
    with pytest.raises(NotFound, match=r"changed or removed since"):
        await sources.read("local:birds/heron.md#grey-heron")
    assert [source.source_id for source in await sources.sources()] == ["birds/deep/otter.txt"]


async def test_search_returns_the_current_text_of_the_files(sources: SourceManager, birds: Path):
    added = await sources.add_folder(birds)
    write(birds / "heron.md", "# Heron\n\nHerons nest in tall trees.", hours_ago=1)
    (birds / "deep" / "otter.txt").unlink()
    assert await sources.search("otters swim", scope=added.scope) == []
    assert [hit.snippet for hit in await sources.search("heron", scope=added.scope)] == [
        "# Heron\n\nHerons nest in tall trees."
    ]


async def test_run_searches_new_files_of_a_small_folder(open_engine: OpenEngine, birds: Path):
    engine = await open_engine(model=OfflineModel(), approvals="approve")
    await engine.add_sources(birds)
    write(birds / "stork.md", "# Stork\n\nStorks clatter with their beaks at dusk.")
    result = await engine.controller.execute("When do storks clatter?")
    assert "Storks clatter with their beaks at dusk." in (result.response or "")
    assert len(await engine.sources.sources()) <= MAX_RESCANNED_FILES


async def test_run_with_a_missing_folder_says_so_and_loses_nothing(open_engine: OpenEngine, birds: Path):
    """The folder may be on a detached drive; the files are found again as soon as the folder is restored."""
    engine = await open_engine(model=OfflineModel(), approvals="approve")
    await engine.add_sources(birds)
    moved = birds.rename(birds.with_name("moved"))  # noqa: ASYNC240 - a test may wait for its disk
    result = await engine.controller.execute("Where do herons stand?")
    assert result.status == "completed"
    assert "The folder 'birds' is missing" in (result.response or "")
    with pytest.raises(UsageError, match="'birds' is missing.*add another folder"):
        await engine.search_sources("herons", 5)
    with pytest.raises(UsageError, match="'birds' is missing"):
        await engine.sources.read("local:birds/heron.md#grey-heron")
    moved.rename(birds)
    assert "Herons stand in water." in ((await engine.controller.execute("Where do herons stand?")).response or "")


async def test_missing_folder_leaves_the_others(open_engine: OpenEngine, birds: Path):
    """Runs search the folders that exist."""
    engine = await open_engine(model=OfflineModel(), approvals="approve")
    write(birds.with_name("notes") / "keys.md", "# Keys\n\nThe key is with the steward.")
    await engine.add_sources(birds)
    await engine.add_sources(birds.with_name("notes"))
    birds.rename(birds.with_name("moved"))  # noqa: ASYNC240 - a test may wait for its disk
    assert list(engine.searched_folders) == [str(birds.with_name("notes"))]
    assert list(engine.other_folders) == [str(birds)]
    result = await engine.controller.execute("Where is the key?")
    assert "The key is with the steward." in (result.response or "")


async def test_run_stores_the_name_of_its_folder_not_all_ids(open_engine: OpenEngine, birds: Path):
    """A file with another prefix is named by its id."""
    engine = await open_engine(model=OfflineModel(), approvals="approve")
    await engine.add_sources(birds / "heron.md")
    added = await engine.add_sources(birds)
    assert added.scope == ("birds/", "heron.md")
    result = await engine.controller.execute("Where do herons stand?")
    assert (await engine.runs.get(result.run_id)).settings["sources"] == ["heron.md", "birds/"]
    assert "Herons stand in water." in (result.response or "")


# --- what is passed over -------------------------------------------------------------------------------------------


async def test_files_of_other_kinds_are_counted(sources: SourceManager, birds: Path):
    """The most frequent kind comes first; hidden files and ignored folders do not count."""
    for name in ("rings.csv", "deep/COUNTS.CSV", "nest.jpg", "LICENSE", ".hidden.csv", "node_modules/x.js"):
        write(birds / name, "a,b")
    added = await sources.add_folder(birds)
    assert added.unsupported == {".csv": 2, ".jpg": 1, "": 1}
    assert repr(added).endswith("0 removed, 4 files of kinds that are not read (2 .csv, 1 without suffix, 1 .jpg)")
    assert "4 files of kinds that are not read (2 .csv" in added._repr_html_()
    assert "save its text as .md, .txt, .html, .docx or .pdf" in added._repr_html_()


async def test_folder_with_other_kinds_only_is_an_error_that_counts_them(sources: SourceManager, tmp_path: Path):
    write(tmp_path / "figures" / "a.csv", "1,2")
    message = r"no readable file\. It has 1 file of kinds that are not read \(1 \.csv\)\. Readable kinds: \.md"
    with pytest.raises(UsageError, match=message):
        await sources.add_folder(tmp_path / "figures")


async def test_unreadable_files_are_skipped(sources: SourceManager, birds: Path):
    """Empty, binary, broken and too large files are listed with the reason."""
    write(birds / "empty.md", "")
    write(birds / "blank.txt", " \n\t\n")
    (birds / "picture.txt").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    (birds / "noise.txt").write_bytes(bytes(range(128, 256)) * 4)
    (birds / "broken.pdf").write_bytes(b"%PDF-1.4 nonsense")
    with (birds / "huge.txt").open("wb") as file:
        file.truncate(10_000_001)
    added = await sources.add_folder(birds)
    assert counts(added) == (2, 0, 0, 0)
    found = reasons(added)
    assert found.pop("broken.pdf").startswith("cannot be read: ")
    assert found == {
        "blank.txt": "is empty",
        "empty.md": "is empty",
        "huge.txt": "is too large: 10.0 MB, and at most 10 MB are read of its kind",
        "noise.txt": "is binary, not text",
        "picture.txt": "is binary, not text",
    }
    assert "6 skipped (blank.txt is empty; broken.pdf cannot be read" in repr(added)
    assert repr(added).endswith("; ...)")
    assert reasons(await sources.add_folder(birds)) == reasons(added)


async def test_source_of_an_unreadable_file_is_removed(sources: SourceManager, birds: Path):
    """The source comes back when the file contains text again."""
    await sources.add_folder(birds)
    (birds / "heron.md").write_bytes(b"\0\1\2")
    again = await sources.add_folder(birds)
    assert counts(again) == (0, 0, 1, 1)
    assert reasons(again) == {"heron.md": "is binary, not text"}
    write(birds / "heron.md", "# Heron\n\nHerons stand in water.")
    assert counts(await sources.add_folder(birds)) == (1, 0, 1, 0)


async def test_tool_folders_are_ignored(sources: SourceManager, birds: Path):
    """Hidden folders, packages of other languages, caches and virtual environments are not sources."""
    for folder in (".git", ".ipynb_checkpoints", "node_modules", "__pycache__", "deep/venv", "lib/site-packages"):
        write(birds / folder / "a.md", "# A\n\nText.")
    write(birds / "my_env" / "pyvenv.cfg", "home = /usr")
    write(birds / "my_env" / "lib" / "a.py", "a = 1")
    assert (await sources.add_folder(birds)).source_ids == ("birds/deep/otter.txt", "birds/heron.md")


@pytest.mark.skipif(os.name == "nt", reason="Making links needs a privilege there.")
async def test_links_out_of_the_folder_are_not_followed(sources: SourceManager, birds: Path, tmp_path: Path):
    """Loops do no harm, and a link to a file inside the folder is another name of the file."""
    secret = write(tmp_path / "elsewhere" / "secret.md", "# Secret\n\nThe key is under the mat.")
    (birds / "loop").symlink_to(birds)
    (birds / "outside").symlink_to(secret.parent)
    (birds / "key.md").symlink_to(secret)
    (birds / "self.md").symlink_to(birds / "self.md")
    (birds / "lost.md").symlink_to(birds / "nowhere.md")
    (birds / "bird.md").symlink_to(birds / "heron.md")
    added = await sources.add_folder(birds)
    assert added.source_ids == ("birds/bird.md", "birds/deep/otter.txt", "birds/heron.md")
    found = reasons(added)
    assert found["loop"] == found["outside"] == "is a link to a folder, which is not followed"
    assert found["key.md"] == "is a link that leads out of the folder"
    assert set(found) == {"loop", "outside", "key.md", "self.md", "lost.md"}
    assert await sources.search("key under the mat") == []


@pytest.mark.skipif(os.name == "nt", reason="Names are text there.")
async def test_undecodable_file_names_are_indexed(sources: SourceManager, birds: Path):
    """One name is not UTF-8, another has a hash and a space."""
    odd = Path(os.fsdecode(bytes(birds) + b"/caf\xe9 #1.md"))
    write(odd, "# Menu\n\nCoffee is served at noon.")
    await sources.add_folder(birds)
    (hit,) = await sources.search("coffee at noon")
    write(odd, "# Menu\n\nCoffee is served at night.", hours_ago=1)
    assert "at night" in (await sources.read(hit.address)).text
    odd.unlink()  # noqa: ASYNC240 - a test may wait for its disk
    assert counts(await sources.add_folder(birds)) == (0, 0, 2, 1)


# --- many files ----------------------------------------------------------------------------------------------------

MANY = 500


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("many") / "notes"
    Writer(seed=7, vocabulary=8000).write(root, MANY)
    return root


async def test_indexing_reports_progress_and_lets_other_writes_through(database: Database, many: Path):
    """Each batch is reported with its last path. The measure is CPU time of this process."""
    sources = SourceManager(database, SystemClock())
    steps: list[tuple[int, int, str]] = []
    indexing = asyncio.create_task(sources.add_folder(many, lambda *step: steps.append(step)))
    waited: list[float] = []
    while not indexing.done():
        started = time.process_time()
        await database.write(lambda db: db.execute("SELECT 1").fetchone())
        waited.append(time.process_time() - started)
        await asyncio.sleep(0.005)
    assert (await indexing).added == MANY
    done = [step[0] for step in steps]
    assert done == sorted(done)
    assert steps[-1] == (MANY, MANY, "d004/f00499.txt")
    assert len(steps) >= MANY // 32
    assert len(waited) >= 10
    assert statistics.median(waited) < 0.1


async def test_cancelled_indexing_continues_with_the_next_call(database: Database, many: Path):
    """Finished batches can be searched."""
    sources = SourceManager(database, FakeClock())
    started = asyncio.Event()
    indexing = asyncio.create_task(sources.add_folder(many, lambda *_: started.set()))
    await started.wait()
    indexing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await indexing
    found = await sources.sources()
    assert 0 < len(found) < MANY
    assert await database.read(lambda db: db.execute("PRAGMA integrity_check").fetchone()[0]) == "ok"
    assert (await sources.read(f"local:{found[0].source_id}#{await first_anchor(database, found[0].source_id)}")).text
    added = await sources.add_folder(many)
    assert len(added.sources) == MANY
    assert added.added + added.unchanged == MANY
    assert added.unchanged >= len(found)
    assert counts(await sources.add_folder(many)) == (0, 0, MANY, 0)


async def first_anchor(database: Database, source_id: str) -> str:
    query = "SELECT anchor FROM sections WHERE source_id = ? LIMIT 1"
    return await database.read(lambda db: str(db.execute(query, (source_id,)).fetchone()[0]))


@pytest.mark.timed
async def test_many_files_are_searched_fast(database: Database, many: Path):
    """A search in 500 files takes less than 50 ms of CPU time, with common and rare words."""
    sources = SourceManager(database, SystemClock())
    await sources.add_python_reference()
    added = await sources.add_folder(many)
    writer = Writer(seed=7, vocabulary=8000)
    for question in writer.questions(10):
        for attempt in within(0.05):
            with attempt:
                hits = await sources.search(question, 5, added.scope)
        assert all(hit.address.startswith("local:notes/") for hit in hits)


async def test_scope_of_several_passage_ranges_is_searched_alone(sources: SourceManager, tmp_path: Path):
    """The sources of the scope were indexed alternately with other sources."""
    for n in range(6):
        for name in ("a", "b"):
            write(tmp_path / name / f"{n}.md", f"# {name}{n}\n\nThe mill turns {n} times.", hours_ago=9 - n)
            await sources.add_folder(tmp_path / name)
    write(tmp_path / "a" / "2.md", "# a2\n\nThe mill stands still.", hours_ago=1)
    a = await sources.add_folder(tmp_path / "a")
    assert a.scope == ("a/",)
    for scope in (a.scope, a.source_ids):
        found = await sources.search("mill", 20, scope)
        assert sorted(hit.address.partition("#")[0] for hit in found) == [f"local:a/{n}.md" for n in range(6)]
        word_counts = await sources.word_counts("mill turns", scope)
        assert (word_counts.n_passages, word_counts.counts["mill"], word_counts.counts["turn"]) == (6, 6, 5)


async def test_file_replaced_by_a_link_or_a_pipe_is_not_read(open_engine: OpenEngine, tmp_path: Path) -> None:
    """Such a file is no longer a source, and opening the pipe does not block."""
    outside = write(tmp_path / "outside.md", "# Key\n\nThe word is heliotrope.\n")
    linked = write(tmp_path / "docs" / "a.md", "# Notes\n\nBackups run nightly.\n")
    piped = write(tmp_path / "docs" / "b.md", "# Other\n\nRestoring takes hours.\n")
    sources = (await open_engine()).sources
    added = await sources.add_folder(tmp_path / "docs")
    linked.unlink()
    linked.symlink_to(outside)
    piped.unlink()
    os.mkfifo(piped)
    async with asyncio.timeout(5):
        for query in ("backups nightly", "restoring hours", "heliotrope"):
            assert await sources.search(query, scope=added.scope) == []
    assert await sources.sources() == []


async def test_folders_of_one_name_added_at_once_are_separate(open_engine: OpenEngine, tmp_path: Path) -> None:
    """Each engine searches its own folder."""
    for place in ("one", "two"):
        for number in range(40):
            write(tmp_path / place / "docs" / f"{number}.md", f"# {place}\n\nAbout {place}, part {number}.\n")
    engines = [await open_engine() for _ in range(2)]
    both = zip(engines, ("one", "two"), strict=True)
    added = await asyncio.gather(*(engine.sources.add_folder(tmp_path / place / "docs") for engine, place in both))
    assert sorted(name for entry in added for name in entry.scope) == ["docs-2/", "docs/"]
    assert await engines[0].sources.search("two", scope=added[0].scope) == []
