"""One HTTP exchange with a checked place, within limits.

The library is httpcore (`httpcore2` where `openai` brings that): it comes with every `openai` release, lets us connect
to the checked addresses through its public network backend, and neither redirects, unpacks nor reads proxy settings.
"""

import asyncio
import importlib
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from typing import Any
from urllib.parse import urljoin

from artifactflow_nb.errors import ToolError
from artifactflow_nb.tools.addresses import Address
from artifactflow_nb.tools.deadline import within
from artifactflow_nb.tools.decoding import accepted, broken_coding, decoder
from artifactflow_nb.tools.guard import Guard, Target

AGENT = "artifactflow-nb (research workbench; a person asked for this page)"
"""How requests name themselves."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_ADDRESSES = 4  # of one host are tried
_ERROR_BYTES = 65_536  # of an answer with an error status
_SLICE = 4096  # of a packed body at once: about 15 ms of unpacking at worst
_SSL_S = 10.0


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What one request may cost.

    Attributes:
        connect_s: Seconds for a connection, over all addresses of the host.
        total_s: Seconds for everything: names, redirects and the whole body.
        wire_bytes: Bytes of the body as it is sent.
        decoded_bytes: Bytes of the body as it is unpacked.
        redirects: How many are followed.
    """

    connect_s: float = 8.0
    total_s: float = 25.0
    wire_bytes: int = 10_000_000
    decoded_bytes: int = 10_000_000
    redirects: int = 5


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer, whatever its status.

    Attributes:
        url: Where it came from in the end.
        status: The status code.
        media_type: In lower case, without parameters; empty if the server named none.
        charset: As the server named it; empty if it did not.
        body: The unpacked body.
        truncated: Whether the body goes on after what is here.
    """

    url: str
    status: int
    media_type: str
    charset: str
    body: bytes
    truncated: bool

    @property
    def reason(self) -> str:
        """The status in numbers and words."""
        try:
            return f"{self.status} ({HTTPStatus(self.status).phrase})"
        except ValueError:
            return str(self.status)


Accepts = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What to ask.

    Attributes:
        url: Where; checked by the guard.
        method: Redirects are followed for GET alone.
        headers: Beside those that every request has.
        body: What to send.
        accepts: Says of a media type whether to read on; an answer of another type is refused by its name.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    accepts: Accepts = lambda _media_type: True


class HttpClient:
    """Asks places that the guard lets through.

    Args:
        guard: Says where a request may go.
        limits: What one request may cost.
        ssl_context: For https; None for the certificates that the system trusts.
    """

    def __init__(
        self, guard: Guard, limits: HttpLimits | None = None, ssl_context: ssl.SSLContext | None = None
    ) -> None:
        self.limits = limits or HttpLimits()
        self._guard = guard
        self._ssl = ssl_context

    async def send(self, request: HttpRequest) -> HttpAnswer:
        """The answer; `ToolError` if there is none, the guard refuses, or its type is not accepted."""
        try:
            async with asyncio.timeout(self.limits.total_s):
                return await self._follow(request)
        except TimeoutError:
            raise ToolError(f"No complete answer within {self.limits.total_s:g} s. Try another source.") from None

    async def _follow(self, request: HttpRequest) -> HttpAnswer:
        url, before = request.url, None
        for _ in range(self.limits.redirects + 1):
            target = await self._guard.check(url)
            if before is not None and before.scheme == "https" != target.scheme:
                raise ToolError(f"{before.url} leads from https to http ({target.url}); that is not followed.")
            answer, location = await self._exchange(target, request)
            if answer is not None:
                return answer
            if request.method != "GET":
                raise ToolError(
                    f"{target.url} sends its {request.method} requests on to {location}; check the address."
                )
            url, before = urljoin(target.url, location), target
        raise ToolError(f"{request.url} leads through more than {self.limits.redirects} redirects.")

    async def _exchange(self, target: Target, request: HttpRequest) -> tuple[HttpAnswer | None, str]:
        """The answer of this very place, or None and where it sends the request on to."""
        core = _core()
        try:
            async with AsyncExitStack() as stack:
                response = await self._open(core, stack, target, request)
                headers = _Headers(response.headers)
                if response.status in _REDIRECTS and (location := headers.get("location")):
                    return None, location.strip().replace(" ", "%20")
                return await self._read(target, request, response, headers), ""
        except (core.NetworkError, core.ProtocolError, core.TimeoutException, OSError) as error:
            raise ToolError(_what_broke(target, error)) from None
        except broken_coding():
            raise ToolError(f"The answer of {target.url} is packed in a way that cannot be read.") from None

    async def _open(self, core: Any, stack: AsyncExitStack, target: Target, request: HttpRequest) -> Any:
        """Connect to a checked address and send the request; the certificate is checked against the host's name."""
        context = await self._ssl_context() if target.scheme == "https" else None
        url = core.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
        pinned = _CheckedAddresses(core.AnyIOBackend(), target.addresses, self.limits.connect_s)
        connection = core.AsyncHTTPConnection(origin=url.origin, ssl_context=context, network_backend=pinned)
        await stack.enter_async_context(connection)
        headers = {
            "Host": target.authority,
            "User-Agent": AGENT,
            "Accept-Encoding": accepted(),
            "Connection": "close",
            **request.headers,
        }
        if request.body:
            headers["Content-Length"] = str(len(request.body))
        limits = {"connect": self.limits.connect_s, "read": self.limits.total_s, "write": self.limits.total_s}
        return await connection.handle_async_request(
            core.Request(
                request.method,
                url,
                headers=list(headers.items()),
                content=request.body,
                extensions={"timeout": limits},
            )
        )

    async def _read(self, target: Target, request: HttpRequest, response: Any, headers: "_Headers") -> HttpAnswer:
        failed = response.status >= HTTPStatus.BAD_REQUEST
        media_type, charset = headers.content_type()
        if not failed and not request.accepts(media_type):
            raise ToolError(f"{target.url} is of the type {media_type or 'unknown'!r}, which cannot be read as text.")
        most = min(_ERROR_BYTES, self.limits.decoded_bytes) if failed else self.limits.decoded_bytes
        body, truncated = await self._body(response, headers.get("content-encoding"), most)
        return HttpAnswer(target.url, response.status, media_type, charset, body, truncated)

    async def _body(self, response: Any, coding: str, most: int) -> tuple[bytes, bool]:
        """The unpacked body and whether it was cut, reading no further than the limits."""
        unpack = decoder(coding)
        step = _SLICE if coding else self.limits.wire_bytes
        plain, received = bytearray(), 0
        async with aclosing(response.aiter_stream()) as chunks:
            async for chunk in chunks:
                for start in range(0, min(len(chunk), self.limits.wire_bytes - received), step):
                    end = min(start + step, self.limits.wire_bytes - received)
                    plain += unpack.feed(chunk[start:end], most - len(plain) + 1)
                    if len(plain) > most:
                        return bytes(plain[:most]), True
                    await asyncio.sleep(0)
                received += len(chunk)
                if received > self.limits.wire_bytes:
                    return bytes(plain), True
        return bytes(plain), bool(received) and not unpack.complete

    async def _ssl_context(self) -> ssl.SSLContext:
        if self._ssl is not None:
            return self._ssl
        made: ssl.SSLContext = await within(_SSL_S, _core().default_ssl_context, "certificates")
        self._ssl = made
        return made


@dataclass(frozen=True, slots=True)
class _CheckedAddresses:
    """A network backend that connects to these addresses, whatever the name may mean by now."""

    backend: Any
    addresses: Sequence[Address]
    within_s: float

    async def connect_tcp(self, host: str, port: int, **options: Any) -> Any:
        del host
        options.pop("timeout", None)
        clock = asyncio.get_running_loop().time
        end, wanted = clock() + self.within_s, self.addresses[:_MOST_ADDRESSES]
        for left, address in zip(range(len(wanted), 0, -1), wanted, strict=True):
            share = max(end - clock(), 0.01) / left
            try:
                return await self.backend.connect_tcp(str(address), port, timeout=share, **options)
            except (_core().NetworkError, _core().TimeoutException):
                if left == 1:
                    raise
        raise ConnectionError("there is no address to connect to")


class _Headers:
    """Response headers by name, in lower case; of a repeated one the first."""

    def __init__(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        self._values = {name.decode("latin-1").lower(): value for name, value in reversed(pairs)}

    def get(self, name: str) -> str:
        value = self._values.get(name, b"")
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return value.decode("latin-1")

    def content_type(self) -> tuple[str, str]:
        """The media type and the charset, each empty if not given."""
        written = self.get("content-type")
        if not written:
            return "", ""
        message = Message()
        message["Content-Type"] = written.replace("\r", "").replace("\n", "")
        return written.partition(";")[0].strip().lower(), str(message.get_param("charset") or "")


def _what_broke(target: Target, error: BaseException) -> str:
    """What to tell of a connection that failed."""
    said = str(error) or type(error).__name__
    if "CERTIFICATE" in said.upper():
        return f"{target.url} has a certificate that is not trusted: {said}. Try another source."
    if "Timeout" in type(error).__name__:
        return f"{target.url} did not answer in time. Try another source."
    return f"The connection to {target.url} failed: {said}. Check the address or try another source."


def _core() -> Any:
    """The HTTP library, under the name that it has here."""
    try:
        return importlib.import_module("httpcore2")
    except ModuleNotFoundError:
        return importlib.import_module("httpcore")
