"""What is heard of a server beside its answers: that it hung up, its standard error, what is logged of it."""

import logging
import os
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from artifactflow_nb.text.cards import visible

_TAIL_CHARS = 600
_READ_BYTES = 4096
_LOGGERS = ("mcp.client.streamable_http", "mcp.client.stdio", "mcp.shared.jsonrpc_dispatcher", "httpx2")
"""Who logs addresses with all that stands in them, or what a server wrote."""


class HeardStream:
    """A stream that says when it has ended.

    Args:
        stream: The stream.
        ended: Told once nothing more comes.
    """

    def __init__(self, stream: Any, ended: Callable[[], object]) -> None:
        self._stream = stream
        self._ended = ended

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self._stream.__anext__()
        except StopAsyncIteration:
            self._ended()
            raise

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> Any:
        return await self._stream.__aexit__(*exc)


class Tail:
    """What a process wrote last to its standard error: read by a thread, so that it never has to wait."""

    def __init__(self) -> None:
        self._kept: deque[bytes] = deque(maxlen=8)
        self._file: Any = None

    def open(self) -> Any:
        """The file that the process writes to; `close` it once the process has it."""
        reading, writing = os.pipe()
        self._file = os.fdopen(writing, "w")
        threading.Thread(target=self._read, args=(reading,), name="artifactflow-mcp", daemon=True).start()
        return self._file

    def _read(self, reading: int) -> None:
        with os.fdopen(reading, "rb", buffering=0) as stream:
            while said := stream.read(_READ_BYTES):
                self._kept.append(said)

    def close(self) -> None:
        """Let go of this side's end; nothing if there is none."""
        if self._file is not None:
            self._file.close()

    def text(self) -> str:
        """The end of what was written, on one line."""
        said = " ".join(visible(b"".join(self._kept).decode("utf-8", "replace")).split())
        return said if len(said) <= _TAIL_CHARS else f"...{said[-_TAIL_CHARS:]}"


@contextmanager
def hidden_in_logs(hidden: Callable[[str], str]) -> Iterator[None]:
    """Until the end of the block, what is logged of servers is logged as this makes it."""

    def hide(record: logging.LogRecord) -> bool:
        record.msg, record.args = hidden(record.getMessage()), ()
        if record.exc_info:
            record.exc_text = hidden("".join(traceback.format_exception(*record.exc_info)).rstrip())
            record.exc_info = None
        return True

    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(hide)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(hide)
