"""One SQLite file with one writer thread and one reader thread.

A write is a function that gets a connection inside a transaction and runs entirely on the writer thread: one thread
switch, one commit, and a cancelled caller leaves no transaction open. This costs 29 us of CPU for two inserts, against
67 us through an async cursor. Reads use a separate thread and connection, so that a slow search never blocks a write.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from artifactflow_nb.core.local_files import check_regular
from artifactflow_nb.errors import StoreError, UsageError
from artifactflow_nb.store.encoding import add_functions
from artifactflow_nb.store.faults import DAMAGE_ERRORS, TOO_LARGE, sqlite_error_code, store_error
from artifactflow_nb.store.locks import check_not_forked, network_file_system
from artifactflow_nb.store.schema import create_schema, has_schema
from artifactflow_nb.store.writer_thread import BatchingThread, QueuedWork

T = TypeVar("T")
DatabaseWork = Callable[[sqlite3.Connection], T]
QueryParameters = Sequence[Any] | Mapping[str, Any]

_RETRY_INTERVAL_S = 0.01
BUSY_TIMEOUT_S = 10.0

_NO_SIDE_FILES = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
"""SQLite's error codes if the -wal and -shm files cannot be created."""


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open a connection with the common settings; rows are `sqlite3.Row`.

    A read-only connection also works on a read-only folder or a full disk if no process is writing to the store:
    see `_ImmutableConnection`.
    """
    check_not_forked(path.parent)
    if not read_only:
        # SQLite gives its -wal and -shm files the mode of the store. O_EXCL: an existing file must not even be opened,
        # because closing any descriptor of a file releases the POSIX locks of SQLite on the file in this process.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        return _connect(path, "mode=rwc")
    connection = _connect(path, "mode=ro")
    try:
        has_schema(connection)
    except sqlite3.OperationalError as error:
        connection.close()
        is_complete = _exists(path) and not _wal_bytes(path)  # an open connection that wrote has a log
        if sqlite_error_code(error) not in _NO_SIDE_FILES or not is_complete:
            raise
        connection = _connect(path, "immutable=1", _ImmutableConnection)
    except BaseException:
        connection.close()
        raise
    return connection


def make_private(folder: Path) -> None:
    """Create a folder with mode 0700; an existing folder keeps its mode."""
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)


def _connect(path: Path, query: str, factory: type[sqlite3.Connection] = sqlite3.Connection) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?{query}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,  # transactions are begun and ended explicitly
        check_same_thread=False,  # one thread opens and closes the connection, another one uses it
        factory=factory,
    )
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    add_functions(connection)
    return connection


def set_journal_mode(connection: sqlite3.Connection, path: Path) -> None:
    """Switch a file to WAL mode, in which readers and the writer do not block each other.

    On a network file system, which lacks the shared memory that WAL needs, use a rollback journal instead, with which
    each commit waits for the server's disk.
    """
    mode, synchronous = ("DELETE", "FULL") if network_file_system(path.parent) else ("WAL", "NORMAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    # SQLite's busy timeout does not apply to this switch while another process creates the same file.
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute(f"PRAGMA journal_mode = {mode}")
        except sqlite3.OperationalError as error:
            if sqlite_error_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_INTERVAL_S)
        else:
            return


def _wal_bytes(path: Path) -> int:
    """Return the size of the store's write-ahead log in bytes, or 0."""
    wal = path.with_name(f"{path.name}-wal")
    return wal.stat().st_size if _exists(wal) else 0


def _exists(path: Path) -> bool:
    """Return whether the file exists; False in a folder without search permission, where `Path.exists` raises."""
    return os.path.exists(path)  # noqa: PTH110 - see above


class _ImmutableConnection(sqlite3.Connection):
    """Read-only connection to a store on a read-only file system or a full disk (no WAL, no locks).

    A process with write permission may still change the file, and without locks this connection would not notice. So
    `close` compares the file with its state at the start and raises `sqlite3.OperationalError` on a difference: the
    rows read may be inconsistent.
    """

    def __init__(self, database: str, *args: Any, **options: Any) -> None:
        super().__init__(database, *args, **options)
        self._path = Path(self.execute("PRAGMA database_list").fetchone()[2])
        self._initial_state = self._file_state()

    def _file_state(self) -> tuple[int, int, int, int]:
        stat = self._path.stat()
        return stat.st_ino, stat.st_size, stat.st_mtime_ns, _wal_bytes(self._path)

    def close(self) -> None:
        """Close the connection; raise if the file was changed since the opening."""
        super().close()
        if self._file_state() != self._initial_state:
            raise sqlite3.OperationalError("the file was changed while it was read; read it again")


@contextmanager
def store_errors(path: Path) -> Iterator[None]:
    """Convert errors of reading a store to `StoreError` with its path, and an overflowing number to `UsageError`."""
    try:
        yield
    except OverflowError as error:
        raise UsageError(TOO_LARGE.format(error)) from error
    except (sqlite3.Error, *DAMAGE_ERRORS) as error:
        if not _exists(path):
            raise StoreError(
                f"There is no store {path}, or you have no access to it. Check data_dir; af.Workbench() creates it."
            ) from error
        raise store_error(path, f"The store {path} could not be read", error) from error


def read_store(path: Path, work: DatabaseWork[T]) -> T:
    """Call a function with a read-only connection to a store, in the caller's thread, while engines may write."""
    with store_errors(path), closing(connect(path, read_only=True)) as db:
        return work(db)


_PAGES_AT_ONCE = 200  # 0.8 MB, about 2 ms in which other writes wait


def _free_pages(db: sqlite3.Connection) -> int:
    """Return the number of unused pages."""
    return int(db.execute("PRAGMA freelist_count").fetchone()[0])


def _release_pages(db: sqlite3.Connection) -> bool:
    """Release some unused pages; return whether there are more."""
    before = _free_pages(db)
    for _ in range(min(before, _PAGES_AT_ONCE)):
        db.execute("PRAGMA incremental_vacuum(1)")  # Python executes one step, which releases one page
    return 0 < _free_pages(db) < before


class Database:
    """An open store.

    Errors: `StoreError` with the path if the file cannot be opened, read or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer = BatchingThread("artifactflow-write", self._write_all)
        self._reader = BatchingThread("artifactflow-read", self._read_all)
        self._write_connection: sqlite3.Connection | None = None
        self._read_connection: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Create a missing file, and open both connections."""
        try:
            self._write_connection = await asyncio.to_thread(self._open_writer)
            self._read_connection = await asyncio.to_thread(connect, self.path)
        except (OSError, sqlite3.Error, *DAMAGE_ERRORS) as error:
            await self.close()
            raise store_error(self.path, f"The store {self.path} cannot be opened", error) from error
        except BaseException:
            await self.close()
            raise

    def _open_writer(self) -> sqlite3.Connection:
        path = self.path
        make_private(path.parent)
        wal_bytes = _wal_bytes(path)  # read before the store: a process that creates a new store makes the log last
        if path.exists():
            check_regular(path, path.stat())
        if path.exists() and path.stat().st_size:
            connect(path, read_only=True).close()  # refuses a foreign database before anything is written
        elif wal_bytes:  # SQLite would create a new store and delete the log
            raise StoreError(
                f"The store {path} is {'empty' if path.exists() else 'missing'}, but {path.name}-wal in its folder has "
                f"{wal_bytes:,} bytes that belong to it. Put the store back, or move {path.name}-wal and "
                f"{path.name}-shm away."
            )
        connection = connect(path)
        try:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # has an effect on a new store only
            set_journal_mode(connection, path)
            create_schema(connection)
            connection.execute("DELETE FROM runs WHERE FALSE")  # deletes no row; fails if the file is read-only
        except BaseException:
            connection.close()
            raise
        return connection

    async def write(self, work: DatabaseWork[T]) -> T:
        """Run a function in an immediate transaction, which an exception rolls back; return the result.

        Functions that are queued at the same time share a transaction, and their callers continue after its commit. If
        the shared transaction fails, each function runs again in a transaction of its own, so a function must have
        no effect except through its connection. A function runs even if its caller is cancelled, because its events
        may already be published.
        """
        return await self._submit(self._writer, work)

    async def read(self, work: DatabaseWork[T]) -> T:
        """Run a function on the reading connection, in one transaction: all its queries see the same snapshot."""
        return await self._submit(self._reader, work)

    async def shrink(self) -> None:
        """Return the unused pages of the file to the file system, between other writes; ignore errors."""
        with suppress(StoreError, sqlite3.Error):
            if await self.write(_free_pages):
                while await self.write(_release_pages):
                    pass
                await asyncio.to_thread(self._checkpoint)

    def _checkpoint(self) -> None:
        with closing(connect(self.path)) as db:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    async def fetch_one(self, sql: str, parameters: QueryParameters = ()) -> sqlite3.Row | None:
        """Return the first row of a query, or None."""
        row: sqlite3.Row | None = await self.read(lambda db: db.execute(sql, parameters).fetchone())
        return row

    async def fetch_all(self, sql: str, parameters: QueryParameters = ()) -> list[sqlite3.Row]:
        """Return the rows of a query."""
        return await self.read(lambda db: db.execute(sql, parameters).fetchall())

    async def _submit(self, thread: BatchingThread, work: DatabaseWork[T]) -> T:
        try:
            future = thread.submit(work)
        except RuntimeError as error:  # the thread pool is shut down: this store or the whole process is closing
            raise StoreError(f"The store {self.path} is closed.") from error
        try:
            return await (asyncio.shield(future) if thread is self._writer else future)
        except asyncio.CancelledError:
            # The callback keeps asyncio from logging the failure of the write; the end of the run reports the failure.
            future.add_done_callback(lambda future: future.cancelled() or future.exception())
            raise
        except OverflowError as error:
            raise UsageError(TOO_LARGE.format(error)) from error

    def _write_all(self, jobs: Sequence[QueuedWork]) -> None:
        """Run jobs in one transaction; after a failure, run each job in a separate transaction."""
        connection = self._require_open(self._write_connection)
        if len(jobs) > 1:
            with suppress(sqlite3.Error):
                connection.execute("BEGIN IMMEDIATE")
                for job in jobs:
                    job.run(lambda work: work(connection))
                    if job.error is not None:
                        break
                else:
                    connection.execute("COMMIT")
                    return
            if connection.in_transaction:  # SQLite ends the transaction itself on some disk errors
                connection.execute("ROLLBACK")
        for job in jobs:
            job.run(lambda work: self._write_one(connection, work))

    def _write_one(self, connection: sqlite3.Connection, work: DatabaseWork[T]) -> T:
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except (sqlite3.Error, *DAMAGE_ERRORS) as error:
            raise store_error(self.path, f"The store {self.path} could not be written", error) from error
        return result

    def _read_all(self, jobs: Sequence[QueuedWork]) -> None:
        """Run jobs in one transaction whose snapshot is newer than every queued job."""
        connection = self._require_open(self._read_connection)

        def read(work: DatabaseWork[Any]) -> Any:
            with store_errors(self.path):
                if not connection.in_transaction:  # SQLite ends the transaction itself on some disk errors
                    connection.execute("BEGIN")
                return work(connection)

        for job in jobs:
            job.run(read)
        if connection.in_transaction:
            with store_errors(self.path):
                connection.execute("COMMIT")

    def _require_open(self, connection: sqlite3.Connection | None) -> sqlite3.Connection:
        if connection is None:
            raise StoreError(f"The store {self.path} is not open. Call open first.")
        return connection

    async def close(self) -> None:
        """Finish all queued work and close both connections."""
        # Waiting blocks the event loop: at interpreter shutdown no thread can be started to wait for these two threads.
        for thread, connection in ((self._writer, self._write_connection), (self._reader, self._read_connection)):
            thread.close()
            if connection is not None:
                connection.close()
        self._write_connection = self._read_connection = None
