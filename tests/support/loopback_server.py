"""A test server on 127.0.0.1 in a thread of this process; a context manager that stops it."""

import asyncio
import ssl
import threading
from types import TracebackType
from typing import Self


class ThreadedServer:
    """The base of the test servers: a thread, a port, and connections that end when it stops.

    A subclass handles a connection in `talk`.

    Args:
        tls: Serve https with this context; None for http.

    Attributes:
        connections: How many connections were opened.
        client_left: Set when a client closed its connection before its answer was complete.
        port: Where it listens; 0 until it does.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.connections = 0
        self.client_left = threading.Event()
        self.port = 0
        self._tls = tls
        self._open: set[asyncio.Task[None]] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="test-server", daemon=True)

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._loop.set_exception_handler(lambda _loop, _context: None)  # clients that refuse a certificate are not news
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._tls)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:  # pragma: no cover - start_server always makes one
            return
        self._open.add(task)
        self.connections += 1
        try:
            await self.talk(reader, writer)
        except ConnectionError:
            self.client_left.set()
        except asyncio.CancelledError:
            pass  # the server stops; there is nobody left who would want to know
        finally:
            self._open.discard(task)
            writer.close()
