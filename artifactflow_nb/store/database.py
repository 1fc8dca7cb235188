"""One SQLite file, written by one thread.

A write is a function that is handed a connection inside a transaction and runs whole on the writer's thread: one hop,
one commit, and a cancelled caller leaves nothing open. That is 29 us of CPU for two inserts, against 67 us through an
async cursor. Reads have a thread and a connection of their own, so that a slow search never holds up a write.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from artifactflow_nb.errors import StoreError, UsageError
from artifactflow_nb.store.faults import TOO_LARGE, cause, fault
from artifactflow_nb.store.lane import Job, Lane
from artifactflow_nb.store.schema import known_version, migrate

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

_TRY_AGAIN_S = 0.01
BUSY_TIMEOUT_S = 10.0

_NO_PLACE_BESIDE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
"""What SQLite says where it cannot make the files beside a store that it shares with other processes."""


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open a connection with the settings that every connection has; rows are `sqlite3.Row`.

    A store in a folder that can only be read, or on a disk without any space, is read where that is safe: see `_Still`.
    """
    if not read_only:
        return _connect(path, "mode=rwc")
    connection = _connect(path, "mode=ro")
    try:
        known_version(connection)
    except sqlite3.OperationalError as error:
        connection.close()
        if cause(error) not in _NO_PLACE_BESIDE or not _rests(path):
            raise
        connection = _connect(path, "immutable=1", _Still)
    except BaseException:
        connection.close()
        raise
    return connection


def _connect(path: Path, how: str, kind: type[sqlite3.Connection] = sqlite3.Connection) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?{how}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
        factory=kind,
    )
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def log_ahead(connection: sqlite3.Connection) -> None:
    """Have a file written through a log beside it, so that its readers and its writer do not wait for each other.

    SQLite does not wait where another process begins the same file at this moment, so the waiting is done here.
    """
    until = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if cause(error) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(_TRY_AGAIN_S)
        else:
            return


def _log_bytes(path: Path) -> int:
    """The size of the log beside a store: what is in there is not in the store's own file yet."""
    log = path.with_name(f"{path.name}-wal")
    return log.stat().st_size if _is_there(log) else 0


def _is_there(path: Path) -> bool:
    """Whether the file is there and can be reached; `Path.exists` raises where a folder is closed to us."""
    return os.path.exists(path)  # noqa: PTH110 - see above


def _rests(path: Path) -> bool:
    """Whether a store is whole in its one file: whoever has it open keeps a log beside it."""
    return _is_there(path) and not _log_bytes(path)


class _Still(sqlite3.Connection):
    """Reads a file that rests, without the locks and the log beside it, which there is no place for.

    Somebody with more rights may begin to write all the same, unseen by this connection. So it looks at the end whether
    the file is as it was, and `close` raises `sqlite3.OperationalError` if it is not: what was read may be torn.
    """

    def __init__(self, address: str, *args: Any, **options: Any) -> None:
        super().__init__(address, *args, **options)
        self._path = Path(self.execute("PRAGMA database_list").fetchone()[2])
        self._before = self._state()

    def _state(self) -> tuple[int, int, int, int]:
        found = self._path.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns, _log_bytes(self._path)

    def close(self) -> None:
        """Close, and raise if the file was changed meanwhile."""
        super().close()
        if self._state() != self._before:
            raise sqlite3.OperationalError("it was changed while it was read; read it again")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Make what goes wrong in reading a store a `StoreError` with its path, and a number too large a `UsageError`."""
    try:
        yield
    except OverflowError as error:
        raise UsageError(TOO_LARGE.format(error)) from error
    except (sqlite3.Error, UnicodeEncodeError) as error:
        if not _is_there(path):
            raise StoreError(
                f"There is no store {path}, or none that you may reach. Check data_dir; a Workbench begins a new store."
            ) from error
        told = fault(path, f"The store {path} could not be read", error)
        if str(error).startswith("no such"):
            told = StoreError(f"{told} If an older release wrote it, a Workbench that opens it brings it up to date.")
        raise told from error


def insert(db: sqlite3.Connection, table: str, row: Mapping[str, Any], *, or_ignore: bool = False) -> bool:
    """Insert a row given by its columns; whether it was inserted. Table and columns are names of this package."""
    verb = "INSERT OR IGNORE" if or_ignore else "INSERT"
    columns = ", ".join(row)
    marks = ", ".join("?" * len(row))
    cursor = db.execute(f"{verb} INTO {table} ({columns}) VALUES ({marks})", tuple(row.values()))
    return cursor.rowcount == 1


def _check_log(path: Path) -> None:
    """Refuse a log whose store is gone: SQLite would take the place for a new store, and throw the log away."""
    size = _log_bytes(path)  # looked at first: a process that begins a new store makes the log last
    if size and not (path.exists() and path.stat().st_size):
        raise StoreError(
            f"The store {path} is {'empty' if path.exists() else 'missing'}, but {path.name}-wal beside it holds "
            f"{size:,} bytes that belong to it. Put the store back, or move {path.name}-wal and {path.name}-shm away."
        )


def _retrieve(answer: "asyncio.Future[Any]") -> None:
    """What nobody waits for any more is no news if it went wrong: whoever ends the run meets a store that fails."""
    if not answer.cancelled():
        answer.exception()


class Database:
    """The open store.

    Errors: `StoreError` when the file cannot be opened, read or written, with the path.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer = Lane("artifactflow-write", self._write_all)
        self._reader = Lane("artifactflow-read", self._read_all)
        self._write_connection: sqlite3.Connection | None = None
        self._read_connection: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Create the file where it is missing, bring its schema up to date, open both connections."""
        try:
            self._write_connection = await asyncio.to_thread(self._open_writer)
            self._read_connection = await asyncio.to_thread(connect, self.path)
        except (OSError, sqlite3.Error) as error:
            await self.close()
            raise fault(self.path, f"The store {self.path} cannot be opened", error) from error
        except BaseException:
            await self.close()
            raise

    def _open_writer(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        _check_log(self.path)
        if self.path.exists() and self.path.stat().st_size:
            connect(self.path, read_only=True).close()  # a file that is not ours is told apart before it is touched
        connection = connect(self.path)
        try:
            log_ahead(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            migrate(connection)
            connection.execute("DELETE FROM runs WHERE FALSE")  # changes nothing; says if the file is read-only
        except BaseException:
            connection.close()
            raise
        return connection

    async def write(self, work: Work[T]) -> T:
        """Run the work in a transaction that takes the write lock at its start; what it wrote is undone if it raises.

        Works that wait at the same time share the transaction, and are told once it is committed. If it fails as a
        whole, each runs again in one of its own: a work does nothing but with its connection. A work that was asked for
        is done, also if who waits for it is cancelled: events that people were told of already may be in it.
        """
        return await self._ask(self._writer, work)

    async def read(self, work: Work[T]) -> T:
        """Run the work on the reading connection; all its queries see the store at one moment."""
        return await self._ask(self._reader, work)

    async def _ask(self, lane: Lane, work: Work[T]) -> T:
        try:
            answer = lane.ask(work)
        except RuntimeError as error:  # the lane takes no more work: this store or the whole process is ending
            raise StoreError(f"The store {self.path} is closed.") from error
        try:
            return await (asyncio.shield(answer) if lane is self._writer else answer)
        except asyncio.CancelledError:
            answer.add_done_callback(_retrieve)
            raise
        except OverflowError as error:
            raise UsageError(TOO_LARGE.format(error)) from error

    def _write_all(self, jobs: Sequence[Job]) -> None:
        together = len(jobs) > 1 and self._write_connection is not None
        for job in self._write_together(jobs) if together else jobs:
            job.run(self._transact)

    def _write_together(self, jobs: Sequence[Job]) -> Sequence[Job]:
        """Run the works in one transaction, each undone by itself if it raises; those that have to run alone.

        What the database refuses is tried again alone, so that every work meets its own errors and no other's.
        """
        connection = self._opened(self._write_connection)
        alone: list[Job] = []
        try:
            connection.execute("BEGIN IMMEDIATE")
            for job in jobs:
                connection.execute("SAVEPOINT work")
                job.run(lambda work: work(connection))
                if job.error is not None:
                    connection.execute("ROLLBACK TO work")  # fails where an error of the disk has ended it all
                if isinstance(job.error, sqlite3.Error | UnicodeEncodeError):
                    alone.append(job)
                connection.execute("RELEASE work")
            connection.execute("COMMIT")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            return jobs
        return alone

    def _read_all(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            job.run(self._look)

    def _transact(self, work: Work[T]) -> T:
        connection = self._opened(self._write_connection)
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except (sqlite3.Error, UnicodeEncodeError) as error:
            raise fault(self.path, f"The store {self.path} could not be written", error) from error
        return result

    def _look(self, work: Work[T]) -> T:
        connection = self._opened(self._read_connection)
        with reading(self.path):
            connection.execute("BEGIN")
            try:
                return work(connection)
            finally:
                if connection.in_transaction:  # some errors of the disk end it
                    connection.execute("COMMIT")

    def _opened(self, connection: sqlite3.Connection | None) -> sqlite3.Connection:
        if connection is None:
            raise StoreError(f"The store {self.path} is not open.")
        return connection

    async def close(self) -> None:
        """Close both connections, after the work that was begun; what was written is in the file.

        It waits for its threads itself: at the end of the process no other thread can be asked to.
        """
        for lane, connection in ((self._writer, self._write_connection), (self._reader, self._read_connection)):
            lane.close()
            if connection is not None:
                connection.close()
        self._write_connection = self._read_connection = None
