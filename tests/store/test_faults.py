"""Files of a store that cannot be used: damaged, of another application, read-only, older, newer, or incomplete."""

import hashlib
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from support import frames
from support.forked_python import fast_python

from artifactflow_nb.errors import StoreError
from artifactflow_nb.store.database import Database, connect
from artifactflow_nb.store.ownership import RunLocks, is_owner_gone
from artifactflow_nb.store.schema import SCHEMA_VERSION, create_schema

PAGE = 4096
FAULTY = Path(__file__).parents[1] / "support" / "faults.py"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


async def open_database(path: Path) -> Database:
    database = Database(path)
    await database.open()
    return database


def small_store(path: Path) -> Path:
    """Create a store with a conversation, a turn and its run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        create_schema(db)
        db.execute("INSERT INTO conversations VALUES ('conv-1', 'Old', 'msg-1', 1)")
        db.execute("INSERT INTO messages VALUES ('msg-1', 'conv-1', NULL, 'Old?', 'Yes.', 'completed', 1)")
        db.execute(
            "INSERT INTO runs (run_id, conversation_id, message_id, thread_id, flow, question, status, mode, "
            "settings_json, started_at, completed_at, package_version) VALUES "
            "('run-1', 'conv-1', 'msg-1', 'thd-1', 'research', 'Old?', 'completed', 'live', '{}', 1, 2, '0.0.1')"
        )
    return path


def filled(path: Path) -> Path:
    """Create a store with enough rows to fill many pages, all in the main file."""
    small_store(path)
    with closing(sqlite3.connect(path)) as db, db:
        rows = [(f"msg-{number}", "word " * 200) for number in range(2, 400)]
        db.executemany("INSERT INTO messages VALUES (?, 'conv-1', 'msg-1', ?, NULL, 'completed', 1)", rows)
    return path


async def read_all(path: Path) -> None:
    database = await open_database(path)
    try:
        await database.read(lambda db: db.execute("SELECT sum(length(content)) FROM messages").fetchone())
    finally:
        await database.close()


def no_header(store: bytes) -> bytes:
    return b"x" * 100 + store[100:]


def hole_in_the_middle(store: bytes) -> bytes:
    middle = len(store) // PAGE // 2 * PAGE
    return store[:middle] + b"\xff" * 20 * PAGE + store[middle + 20 * PAGE :]


def first_half(store: bytes) -> bytes:
    return store[: len(store) // PAGE // 2 * PAGE]


def first_bytes(store: bytes) -> bytes:
    return store[:50]


def a_letter(_store: bytes) -> bytes:
    return b"Dear database, " * 100


@pytest.mark.parametrize("damage", [no_header, hole_in_the_middle, first_half, first_bytes, a_letter])
async def test_damaged_store_is_reported_and_unchanged(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """Opening, or the first query that meets the damage, names the file and has advice; no byte changes."""
    path = filled(tmp_path / "store.db")
    path.write_bytes(damage(path.read_bytes()))
    before = digest(path)
    with pytest.raises(StoreError) as error:
        await read_all(path)
    for words in (str(path), "damaged", "was not changed", "move it away", "store.db-wal", "store.db .recover"):
        assert words in str(error.value)
    assert digest(path) == before


def test_frames_of_a_damaged_store_raise_the_same_error(tmp_path: Path) -> None:
    """The frames are read without an engine."""
    path = filled(tmp_path / "store.db")
    path.write_bytes(no_header(path.read_bytes()))
    with pytest.raises(StoreError, match=r"store.db could not be read: it is not an SQLite database.*move it away"):
        frames.load_frame(path, frames.RUNS)


@pytest.mark.parametrize("version", [0, 1, 3, 999])
async def test_database_of_another_application_is_refused(tmp_path: Path, version: int) -> None:
    """The error lists the tables of the database, which is not changed, regardless of its version number."""
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as db:
        db.executescript("CREATE TABLE recipes (name); INSERT INTO recipes VALUES ('soup')")
        db.execute(f"PRAGMA user_version = {version}")
    before = digest(path)
    with pytest.raises(StoreError, match=r"store.db is a database of another application \(its tables: recipes\)"):
        await open_database(path)
    with pytest.raises(StoreError, match="another application"):
        frames.load_frame(path, frames.RUNS)
    assert digest(path) == before


@pytest.mark.parametrize("wal", [True, False])
@pytest.mark.parametrize("version", [SCHEMA_VERSION + 1, 16])
async def test_store_of_another_schema_version_is_refused_and_unchanged(
    tmp_path: Path, version: int, wal: bool
) -> None:
    """The error has both versions and advice, for frames too; even the journal mode does not change."""
    path = filled(tmp_path / "store.db")
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {version}")
        db.execute(f"PRAGMA journal_mode = {'WAL' if wal else 'DELETE'}")
    before = digest(path)
    refusal = (
        rf"{path} has the schema {version}, and this release reads the schema {SCHEMA_VERSION} only.*another data_dir"
    )
    with pytest.raises(StoreError, match=refusal):
        await open_database(path)
    with pytest.raises(StoreError, match=refusal):
        frames.load_frame(path, frames.RUNS)
    assert digest(path) == before


async def test_empty_file_becomes_a_store(tmp_path: Path) -> None:
    """A process that is killed while it creates a store leaves an empty file."""
    path = tmp_path / "store.db"
    path.touch()
    database = await open_database(path)
    await database.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)


@pytest.mark.parametrize("content", ["missing", "empty"])
async def test_write_ahead_log_without_its_store_is_not_deleted(tmp_path: Path, content: str) -> None:
    """If store.db was moved or emptied, opening is refused, so that the file can be put back."""
    path = filled(tmp_path / "here" / "store.db")
    with closing(connect(path)) as db:
        db.execute("UPDATE conversations SET title = 'only in the log'")
        shutil.copytree(path.parent, tmp_path / "there")
    there = tmp_path / "there" / "store.db"
    log = there.with_name("store.db-wal")
    before = digest(log)
    there.rename(tmp_path / "moved.db")
    if content == "empty":
        there.touch()
    with pytest.raises(StoreError, match=rf"store.db is {content}, but store.db-wal in its folder has [\d,]+ bytes"):
        await open_database(there)
    assert digest(log) == before
    (tmp_path / "moved.db").replace(there)
    database = await open_database(there)
    title = await database.read(lambda db: db.execute("SELECT title FROM conversations").fetchone()[0])
    await database.close()
    assert title == "only in the log"


def test_frames_of_a_missing_store_name_its_path(tmp_path: Path) -> None:
    """The error says what creates a store; reading creates no store."""
    with pytest.raises(StoreError, match=r"There is no store .*nowhere.db, or you have no access.*Check data_dir"):
        frames.load_frame(tmp_path / "nowhere.db", frames.RUNS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="The test forks; this system cannot.")
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 1.0])
def test_process_killed_while_it_creates_a_store_leaves_an_empty_file(tmp_path: Path, share: float) -> None:
    """After a kill before any statement the file has no table, and the next process creates the store."""
    path = tmp_path / "store.db"
    statements: list[str] = []
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.set_trace_callback(statements.append)
        create_schema(db)
    fatal = 1 + round(share * (len(statements) - 1))
    pid = os.fork()
    if pid == 0:
        outcomes: list[str] = []

        def count(statement: str) -> None:
            outcomes.append(statement)
            if len(outcomes) == fatal:
                os.kill(os.getpid(), signal.SIGKILL)

        db = connect(path)
        db.set_trace_callback(count)
        with suppress(BaseException):
            create_schema(db)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (0,)
        assert db.execute("SELECT count(*) FROM sqlite_schema").fetchone() == (0,)
    with closing(connect(path)) as db:
        create_schema(db)
        assert db.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION


OPENING = """
import asyncio, sys
from pathlib import Path
from artifactflow_nb.store.database import Database

async def main():
    database = Database(Path(sys.argv[1]))
    sys.stdin.readline()
    await database.open()
    print(await database.read(lambda db: db.execute("SELECT count(*) FROM runs").fetchone()[0]))
    await database.close()

asyncio.run(main())
"""


def test_concurrent_processes_can_create_a_store(tmp_path: Path) -> None:
    """Four processes open a new store at the same time."""
    for attempt in range(3):
        path = tmp_path / str(attempt) / "store.db"
        path.parent.mkdir()
        command = [*fast_python(), "-c", OPENING, str(path)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started = [subprocess.Popen(command, **pipes) for _ in range(4)]
        for process in started:
            process.stdin.write("go\n")
            process.stdin.flush()
        outputs = [process.communicate(timeout=60) for process in started]
        assert outputs == [("0\n", "")] * 4


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """Create a folder that every user can access; pytest's own folder is private."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "data"
        for path in Path(folder).rglob("*"):
            path.chmod(0o755)


def looked_at(folder: Path) -> dict[str, object]:
    """Return the observations of a process that may not write to the store."""
    command = [*fast_python(), str(FAULTY), "look", str(folder)]
    done = subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    observations: dict[str, object] = json.loads(done.stdout)
    return observations


READ_ONLY = (
    r"data(/store.db)? cannot be (opened|used): (it is read-only|you have no permission): "
    r".*writable for you, or choose another data_dir.*frames"
)


@pytest.mark.skipif(not hasattr(os, "setuid"), reason="Rights are those of a POSIX system here.")
@pytest.mark.parametrize("folder_mode", [0o555, 0o777])
def test_read_only_store_can_be_read(shared_folder: Path, folder_mode: int) -> None:
    """Without write permission for the file or its folder, opening is an error with the path; frames still work."""
    path = filled(shared_folder / "store.db")
    (shared_folder / "owners").mkdir()
    path.chmod(0o444)
    (shared_folder / "owners").chmod(folder_mode)
    shared_folder.chmod(folder_mode)
    before = digest(path)
    observations = looked_at(shared_folder)
    assert re.search(READ_ONLY, str(observations["opening"])), observations
    assert (observations["shown"], observations["reading"]) == (["completed"], "")
    assert digest(path) == before


@pytest.mark.skipif(not hasattr(os, "setuid"), reason="Rights are those of a POSIX system here.")
def test_store_in_an_unwritable_folder_is_an_error(shared_folder: Path) -> None:
    """The error names the folder."""
    shared_folder.mkdir(mode=0o555)
    shared_folder.chmod(0o555)
    observations = looked_at(shared_folder)
    assert "data cannot be used: you have no permission: [Errno 13]" in str(observations["opening"])
    assert "There is no store" in str(observations["reading"])


@pytest.mark.skipif(not hasattr(os, "setuid"), reason="Rights are those of a POSIX system here.")
def test_unreadable_write_ahead_log_is_an_error(shared_folder: Path) -> None:
    """In a read-only folder with a log but no index of the log, frames would miss the rows of the log."""
    path = filled(shared_folder / "here" / "store.db")
    with closing(connect(path)) as db:
        db.execute("UPDATE conversations SET title = 'only in the log'")
        shutil.copytree(path.parent, shared_folder / "there")
    there = shared_folder / "there"
    (there / "store.db-shm").unlink()
    for file in there.iterdir():
        file.chmod(0o444)
    there.chmod(0o555)
    assert "could not be read: unable to open" in str(looked_at(there)["reading"])


def test_change_during_an_immutable_read_is_an_error(tmp_path: Path) -> None:
    """Without locks a concurrent writer is noticed only at the end of the read."""
    from artifactflow_nb.store.database import _connect, _ImmutableConnection

    path = filled(tmp_path / "store.db")
    db = _connect(path, "immutable=1", _ImmutableConnection)
    assert db.execute("SELECT count(*) FROM messages").fetchone()[0] == 399
    db.close()
    db = _connect(path, "immutable=1", _ImmutableConnection)
    with closing(connect(path)) as other:
        other.execute("UPDATE conversations SET title = 'changed'")
    with pytest.raises(sqlite3.OperationalError, match="changed while it was read; read it again"):
        db.close()


async def test_both_connections_work_after_a_write_without_disk_space(tmp_path: Path) -> None:
    """The error has the path and the free space; as soon as there is space, writing works again."""
    database = await open_database(filled(tmp_path / "store.db"))

    def fill(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO texts VALUES ('big', ?)", ("x" * 2_000_000,))

    await database.write(lambda db: db.execute("PRAGMA max_page_count = 1"))  # as many as there are
    with pytest.raises(StoreError, match=r"store.db could not be written: the disk is full: .*SQLITE_FULL.*are free"):
        await database.write(fill)
    await database.write(lambda db: db.execute("PRAGMA max_page_count = 1073741823"))
    await database.write(fill)
    assert await database.read(lambda db: db.execute("PRAGMA integrity_check").fetchone()[0]) == "ok"
    await database.close()


def test_released_run_lock_is_visible_at_once(tmp_path: Path) -> None:
    """Releasing one run's lock keeps the other locks; the end of the process, or closing, releases all locks."""
    ours, theirs = RunLocks(tmp_path, "eng-1"), RunLocks(tmp_path, "eng-1")
    ours.open()
    theirs.open()
    first, second, third = ours.acquire(), ours.acquire(), theirs.acquire()
    assert len({first, second, third}) == 3
    ours.release(first)
    assert [is_owner_gone(tmp_path, owner) for owner in (first, second, third)] == [True, False, False]
    for path in (tmp_path / "owners").iterdir():
        os.utime(path, (0, 0))
    assert not is_owner_gone(tmp_path, second)
    ours.close()
    theirs.close()
    assert [is_owner_gone(tmp_path, owner) for owner in (second, third)] == [True, True]
    assert list((tmp_path / "owners").iterdir()) == []
