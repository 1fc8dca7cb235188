"""Processes that read PDFs ahead of the indexer, since pdfium uses one thread of a process, and may crash on a file.

::

    index ── FoundFile ──> stdin   a process   stdout ── ReadOutcome ──> index

The processes do not use `multiprocessing`, which would execute a script without a main guard again. A process ends with
the pool, if a file takes too long, and when its standard input is closed, e.g. by the death of this process.
"""

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from artifactflow_nb.sources.formats.pdf import PDF
from artifactflow_nb.sources.reader import IndexedFile, ReadOutcome, RejectedFile, extractor_name, read_file
from artifactflow_nb.sources.scanner import FoundFile

FILE_TIMEOUT_S = 120.0
"""A file that takes longer is rejected. Reading stops by itself between pages only, and a page may take any time."""

_MIN_FILES, _MIN_BYTES = 8, 5_000_000  # less is read before a process has started
_MAX_PROCESSES = 4
_FILES_AHEAD = 4  # of each process, so that outcomes do not fill the memory
_COMMAND = "from artifactflow_nb.sources.reader_pool import serve; serve()"


class ReaderPool:
    """Reads files in processes, in order and ahead of the calls of `outcome`.

    Args:
        files: The files.
        known: The indexed state of files, by URI.
    """

    def __init__(self, files: Sequence[FoundFile], known: Mapping[str, IndexedFile]) -> None:
        self._known = known
        self._outcomes: dict[str, Future[ReadOutcome | None]] = {file.uri: Future() for file in files}
        self._files = iter([(file, self._outcomes[file.uri]) for file in files])
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._is_closed = False
        is_large = len(files) >= _MIN_FILES or sum(file.size for file in files) >= _MIN_BYTES
        count = min(os.cpu_count() or 1, _MAX_PROCESSES, len(files)) if is_large and sys.executable else 0
        self._room = threading.Semaphore(count * _FILES_AHEAD)
        if not count:
            self._outcomes.clear()
        for _ in range(count):
            threading.Thread(target=self._read, daemon=True, name="artifactflow-reader").start()

    def outcome(self, file: FoundFile) -> ReadOutcome | None:
        """Wait for the outcome of a file; return None if this process must read the file."""
        waiting = self._outcomes.pop(file.uri, None)
        if waiting is None:
            return None
        self._room.release()
        return waiting.result()

    def close(self) -> None:
        """End the processes at once; awaited outcomes become None."""
        with self._lock:
            self._is_closed = True
            for process in self._processes:
                process.kill()
        for waiting in list(self._outcomes.values()):
            self._room.release()
            _settle(waiting, None)

    def _read(self) -> None:
        """Read files, in one process after another, until no file is left; runs in a thread."""
        process: subprocess.Popen[bytes] | None = None
        while True:
            self._room.acquire()
            with self._lock:
                file, waiting = (None, None) if self._is_closed else next(self._files, (None, None))
            if file is None or waiting is None:
                break
            process = process or self._start()
            if process is None:
                _settle(waiting, None)
                continue
            too_long = threading.Event()
            timer = threading.Timer(FILE_TIMEOUT_S, _kill, [process, too_long])
            timer.start()
            try:
                _send(process.stdin, (file, self._known.get(file.uri)))
                _settle(waiting, pickle.load(process.stdout))  # type: ignore[arg-type]  # noqa: S301 - our own process
            except Exception:  # noqa: BLE001 - a pickle that is cut off raises almost anything
                self._end(process)
                process = None
                problem = f"takes longer than {FILE_TIMEOUT_S:g} s" if too_long.is_set() else "crashes pdfium"
                name = extractor_name(PDF)
                rejected = RejectedFile(file, name, f"cannot be read: it {problem}", is_permanent=True)
                _settle(waiting, None if self._is_closed else rejected)
            finally:
                timer.cancel()
        if process is not None:
            self._end(process)
        self._room.release()  # the other threads end, too

    def _start(self) -> "subprocess.Popen[bytes] | None":
        """Start a process and return it when it is ready; return None if the start fails."""
        path = os.pathsep.join(entry for entry in sys.path if entry)
        try:
            process = subprocess.Popen(  # noqa: S603 - this interpreter
                [sys.executable, "-P", "-c", _COMMAND],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": path},
            )
        except OSError:
            return None
        with self._lock:
            self._processes.add(process)
            is_closed = self._is_closed
        try:
            if is_closed or pickle.load(process.stdout) != os.getpid():  # type: ignore[arg-type]  # noqa: S301 - the same
                raise EOFError
        except (OSError, EOFError, pickle.UnpicklingError):
            self._end(process)
            return None
        return process

    def _end(self, process: "subprocess.Popen[bytes]") -> None:
        process.kill()
        with contextlib.suppress(OSError), process:  # closes the pipes, and waits; a request may not have been read
            pass
        with self._lock:
            self._processes.discard(process)


def _kill(process: "subprocess.Popen[bytes]", too_long: threading.Event) -> None:
    too_long.set()  # before the process ends, which is what the reading thread notices
    process.kill()


def _settle(waiting: "Future[ReadOutcome | None]", outcome: ReadOutcome | None) -> None:
    with contextlib.suppress(Exception):  # closed meanwhile
        waiting.set_result(outcome)


def _send(stream: Any, value: object) -> None:
    pickle.dump(value, stream, pickle.HIGHEST_PROTOCOL)
    stream.flush()


def serve() -> None:
    """Read the files that standard input lists, as the main function of a process of the pool."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the process of the pool, which ends this one
    requests: queue.SimpleQueue[tuple[FoundFile, IndexedFile | None]] = queue.SimpleQueue()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # output of a library is not an answer

    def work() -> None:
        while True:
            file, indexed = requests.get()
            _send(answers, read_file(file, indexed, PDF))

    threading.Thread(target=work, daemon=True).start()
    _send(answers, os.getppid())
    try:
        while True:
            requests.put(pickle.load(sys.stdin.buffer))  # noqa: S301 - from the process of the pool
    finally:
        os._exit(0)
