"""`QueryProcess`: runs requests in a process that a time limit or a Stop ends, and that the next request replaces."""

import asyncio
import contextlib
import os
import pickle
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from artifactflow_nb.errors import ToolError
from artifactflow_nb.plugins.data.snapshot import SharedFrame
from artifactflow_nb.tools.threads import run_in_thread

_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "LD_LIBRARY_PATH")


class QueryProcess:
    """A process that runs one request at a time; a request that is cancelled or takes too long ends the process."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._loaded: set[SharedFrame] = set()
        self._end: Callable[[], object] = lambda: None

    async def request(self, frames: Sequence[SharedFrame], method: str, *arguments: Any, timeout_s: float) -> Any:
        """Call a method of `QueryServer` on frames; `ToolError` if it is refused, takes too long or fails."""
        async with self._turn:
            if {shared.name for shared in self._loaded} - {shared.name for shared in frames}:
                self.close()  # it has a frame that was withdrawn
            process = self._process or self._start(frames)
            new_frames, self._loaded = [shared for shared in frames if shared not in self._loaded], set(frames)
            try:
                async with asyncio.timeout(timeout_s):
                    exchange = partial(_exchange, process, new_frames, (method, *arguments))
                    problem, value = await run_in_thread(exchange, "data")
            except BaseException as error:
                self.close()
                if isinstance(error, TimeoutError):
                    message = f"The query took longer than {timeout_s:g} s and was stopped."
                elif isinstance(error, OSError | EOFError | pickle.PickleError):
                    message = "The process of the query ended: it may have needed too much memory."
                else:
                    raise
                raise ToolError(f"{message} Read fewer rows, or aggregate.") from None
        if problem:
            raise ToolError(problem)
        return value

    def _start(self, frames: Sequence[SharedFrame]) -> "subprocess.Popen[bytes]":
        path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)  # noqa: PTH100 - of a text
        n_bytes = sum(int(shared.frame.memory_usage().sum()) for shared in frames)
        call = f"from artifactflow_nb.plugins.data.child import serve; serve({n_bytes})"
        self._loaded = set()
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-P", "-c", call],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # without keys and tokens
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
    with contextlib.suppress(OSError), process:  # closes the pipes, and waits; a request may not have been read
        pass


def _exchange(process: "subprocess.Popen[bytes]", frames: Sequence[SharedFrame], request: Any) -> tuple[str, Any]:
    """Hand over new frames, send a request, and return an error text and the value."""
    assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - both are pipes
    reply: tuple[str, Any] = "", None
    for message in (*(("add", shared.name, shared.see, shared.frame) for shared in frames), request):
        pickle.dump(message, process.stdin, pickle.HIGHEST_PROTOCOL)
        process.stdin.flush()
        reply = pickle.load(process.stdout)  # noqa: S301 - our own process
    return reply
