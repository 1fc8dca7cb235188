"""A proxy on 127.0.0.1 that alone knows where public names lead: CONNECT for https, whole addresses for http."""

import asyncio
import base64
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from support.loopback_server import ThreadedServer


class ProxyServer(ThreadedServer):
    """The proxy; a context manager.

    Args:
        ports: The port on 127.0.0.1 of each name; requests for other names get status 502.
        login: `user:password` that requests must have; empty for none.

    Attributes:
        heads: The first line of each request, in the order received.
    """

    def __init__(self, ports: Mapping[str, int], *, login: str = "") -> None:
        super().__init__()
        self.heads: list[str] = []
        self._ports = ports
        self._login = base64.b64encode(login.encode()).decode() if login else ""

    @property
    def url(self) -> str:
        """The address of the proxy."""
        return f"http://127.0.0.1:{self.port}"

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one request."""
        head = await reader.readuntil(b"\r\n\r\n")
        line, _, rest = head.partition(b"\r\n")
        method, target, _ = line.decode().split(" ")
        self.heads.append(f"{method} {target}")
        if self._login and f"proxy-authorization: basic {self._login}".lower() not in head.decode().lower():
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        host = target.rpartition(":")[0] if method == "CONNECT" else urlsplit(target).hostname
        if host not in self._ports:
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._ports[host])
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            path = urlsplit(target)._replace(scheme="", netloc="").geturl()
            far_writer.write(f"{method} {path} HTTP/1.1\r\n".encode() + rest)
        try:
            await asyncio.gather(_relay(reader, far_writer), _relay(far_reader, writer))
        finally:
            far_writer.close()
            await far_writer.wait_closed()


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.write_eof() if writer.can_write_eof() else writer.close()
