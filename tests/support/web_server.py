"""A web server on 127.0.0.1 whose replies may be slow, endless or broken.

::

    with WebServer({"/page": Reply(b"<p>Hello", content_type="text/html")}) as server:     a thread of this process
        page = await Fetcher([server.host]).fetch(server.url("/page"))

It stops when its block ends, whatever is still open.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from support.loopback_server import ThreadedServer


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP answer.

    Attributes:
        body: The bytes of the body.
        status: The status code.
        content_type: None leaves the header out.
        headers: Further headers.
        delay_s: Seconds before the head.
        piece_bytes, pause_s: Send the body in pieces with pauses between them; 0 bytes for one write.
        claimed_bytes: The Content-Length to state instead of the true one.
        endless: Send the body again and again, chunked, until the client leaves.
    """

    body: bytes = b""
    status: int = 200
    content_type: str | None = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()
    delay_s: float = 0.0
    piece_bytes: int = 0
    pause_s: float = 0.0
    claimed_bytes: int | None = None
    endless: bool = False


@dataclass(frozen=True, slots=True)
class WebRequest:
    """A received request; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


Route = Reply | Callable[[WebRequest], Reply]


def redirect(location: str, status: int = 302) -> Reply:
    """A redirection to another address."""
    return Reply(status=status, headers=(("Location", location),))


class WebServer(ThreadedServer):
    """The server, in a thread of this process; a context manager.

    Args:
        routes: Answers by path without the query; others get status 404.
        tls: Serve https with this context.

    Attributes:
        requests: Every request, in the order received.
        most_at_once: The largest number of requests that were being answered at the same time.
        sent_bytes: Bytes of bodies that the connections took.
    """

    def __init__(self, routes: Mapping[str, Route], *, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self.requests: list[WebRequest] = []
        self.most_at_once = 0
        self.sent_bytes = 0
        self.routes = dict(routes)
        self._at_once = 0

    @property
    def host(self) -> str:
        """Host and port, as the setting `allowed_hosts` takes them."""
        return f"127.0.0.1:{self.port}"

    def url(self, path: str = "/", *, host: str = "127.0.0.1") -> str:
        """The address of a path, under any name that the test resolves to this machine."""
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}{path}"

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        if request := await _read(reader):
            self.requests.append(request)
            await self._answer(request, writer)

    async def _answer(self, request: WebRequest, writer: asyncio.StreamWriter) -> None:
        route = self.routes.get(request.path.partition("?")[0], Reply(b"nothing here", status=404))
        reply = route(request) if callable(route) else route
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            await asyncio.sleep(reply.delay_s)
            writer.write(_head(reply))
            await self._send_body(reply, writer)
        finally:
            self._at_once -= 1

    async def _send_body(self, reply: Reply, writer: asyncio.StreamWriter) -> None:
        if reply.endless:
            while True:
                await self._send(b"%x\r\n%b\r\n" % (len(reply.body), reply.body), writer)
        size = reply.piece_bytes or max(len(reply.body), 1)
        for start in range(0, len(reply.body), size):
            await self._send(reply.body[start : start + size], writer)
            await asyncio.sleep(reply.pause_s)

    async def _send(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        self.sent_bytes += len(data)


async def _read(reader: asyncio.StreamReader) -> WebRequest | None:
    """The request of the connection; None if the client closed it."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")[:-2]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    except asyncio.IncompleteReadError:
        return None
    method, path, _version = first.split(" ")
    return WebRequest(method, path, headers, body)


def _head(reply: Reply) -> bytes:
    length = len(reply.body) if reply.claimed_bytes is None else reply.claimed_bytes
    headers = [*reply.headers, ("Connection", "close")]
    headers.append(("Transfer-Encoding", "chunked") if reply.endless else ("Content-Length", str(length)))
    if reply.content_type is not None:
        headers.append(("Content-Type", reply.content_type))
    lines = [f"HTTP/1.1 {reply.status} Scripted", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode()
