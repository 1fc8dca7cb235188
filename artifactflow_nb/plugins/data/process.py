"""`QueryProcess`: runs requests in a process that a time limit or a Stop ends, and that the next request replaces."""

import asyncio
import contextlib
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from artifactflow_nb.errors import ToolError
from artifactflow_nb.plugins.data.snapshot import SharedFrame
from artifactflow_nb.tools.threads import run_in_thread

_COMMAND = "from artifactflow_nb.plugins.data.child import serve; serve()"
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "LD_LIBRARY_PATH")
"""The variables that the process gets; keys and tokens are in others."""

_ALIGNMENT = 64
_MEMORY_FILES = Path("/dev/shm")  # noqa: S108 - the files have random names, belong to this user and are removed at once


class QueryProcess:
    """A process that runs one request at a time; a request that is cancelled or takes too long ends the process."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._loaded: dict[str, SharedFrame] = {}
        self._end: Callable[[], object] = lambda: None

    async def request(self, frames: Sequence[SharedFrame], method: str, *arguments: Any, timeout_s: float) -> Any:
        """Call a method of `QueryServer` on frames and return its value.

        Errors: `ToolError` for a request that is refused or takes too long, and for a process that ends by itself.
        """
        async with self._turn:
            process, loaded = self._process or self._start(), self._loaded
            try:
                async with asyncio.timeout(timeout_s):
                    exchange = partial(_exchange, process, loaded, frames, (method, *arguments))
                    problem, value = await run_in_thread(exchange, "data")
            except TimeoutError:
                self.close()
                message = f"The query took longer than {timeout_s:g} s and was stopped. Read fewer rows, or aggregate."
                raise ToolError(message) from None
            except (OSError, EOFError, pickle.PickleError):
                self.close()
                raise ToolError("The process of the query ended: it may have needed too much memory.") from None
            except BaseException:
                self.close()
                raise
        if problem:
            raise ToolError(problem)
        return value

    def _start(self) -> "subprocess.Popen[bytes]":
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)  # noqa: PTH100 - of a text
        self._loaded = {}
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-P", "-c", _COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | {"PYTHONPATH": path},
            cwd=tempfile.gettempdir(),
        )
        self._end = weakref.finalize(self, _reap, self._process)
        return self._process

    def close(self) -> None:
        """End the process at once; a waiting request fails."""
        self._process = None
        self._end()


def _reap(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
    for pipe in filter(None, (process.stdin, process.stdout)):
        with contextlib.suppress(OSError):  # a request was not read
            pipe.close()


def _exchange(
    process: "subprocess.Popen[bytes]", loaded: dict[str, SharedFrame], frames: Sequence[SharedFrame], request: Any
) -> tuple[str, Any]:
    """Hand over the frames that the process lacks, send a request, and return an error text and the value."""
    current = {frame.name: frame for frame in frames}
    for name in [name for name, frame in loaded.items() if current.get(name) is not frame]:
        _send(process, ("drop", name))
        del loaded[name]
    problems = {name: hand_over(process, frame) for name, frame in current.items() if name not in loaded}
    loaded.update({name: current[name] for name, problem in problems.items() if not problem})
    problem, value = _send(process, request)
    missing = [f" The table {name} is missing: {text}" for name, text in problems.items() if text]
    return problem and problem + "".join(missing), value


def _send(process: "subprocess.Popen[bytes]", request: Any) -> tuple[str, Any]:
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - both are pipes
    pickle.dump(request, process.stdin, pickle.HIGHEST_PROTOCOL)
    process.stdin.flush()
    reply: tuple[str, Any] = pickle.load(process.stdout)  # noqa: S301 - our own process
    return reply


def hand_over(process: "subprocess.Popen[bytes]", shared: SharedFrame) -> str:
    """Give a frame to the process: its buffers are in a file that the process maps. Return the error text, or ""."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        pickled = pickle.dumps(shared.frame, protocol=5, buffer_callback=buffers.append)
    except Exception as error:  # noqa: BLE001 - of an object of the person
        return f"it cannot be handed to the process of the query ({type(error).__name__})."
    n_bytes = sum(buffer.raw().nbytes + _ALIGNMENT for buffer in buffers)
    has_room = _MEMORY_FILES.is_dir() and shutil.disk_usage(_MEMORY_FILES).free > 2 * n_bytes
    descriptor, path = tempfile.mkstemp(prefix="artifactflow-", dir=_MEMORY_FILES if has_room else None)
    try:
        spans = []
        with open(descriptor, "wb") as file:  # noqa: PTH123 - an open file
            for buffer in buffers:
                start = file.seek(-(-file.tell() // _ALIGNMENT) * _ALIGNMENT)
                spans.append((start, start + file.write(buffer.raw())))
        return _send(process, ("add", shared.name, shared.see, path, pickled, spans))[0]
    finally:
        with contextlib.suppress(OSError):  # Windows removes no open file
            os.unlink(path)  # noqa: PTH108 - a text
