"""HTTP requests to checked addresses, with limits of time and size.

The library is httpcore (`httpcore2` in later releases of `openai`), which every `openai` release installs. Its public
network backend lets us connect to the checked addresses. The library neither follows redirects, nor decompresses
bodies, nor reads proxy settings. Only requests to public hosts go through a proxy, each after its check.

Bodies are decompressed piece by piece up to the size limit, since a few kilobytes may expand to gigabytes.
"""

import asyncio
import importlib
import re
import ssl
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import unquote, urljoin, urlsplit

from artifactflow_nb.errors import ToolError
from artifactflow_nb.models.openai.errors import public_url
from artifactflow_nb.tools.threads import run_with_timeout
from artifactflow_nb.tools.web.guard import Address, RequestGuard, RequestTarget

_GZIP = zlib.MAX_WBITS | 16
_GZIP_MAGIC = b"\x1f\x8b"


class Decoder(Protocol):
    """Incremental decoder of one body."""

    def feed(self, data: bytes, room: int) -> bytes:
        """Decode the next bytes; return at most about `room` bytes, at least 1, and drop the rest."""

    @property
    def complete(self) -> bool:
        """Whether the reader is past the end of the encoded body."""


class _Identity:
    complete = True

    def feed(self, data: bytes, room: int) -> bytes:
        return data[:room]


class _Gzip:
    """Decoder of one or several gzip members; bytes after the last member are ignored."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)
        self._lookahead = b""  # bytes after a member, too few to recognise another member

    @property
    def complete(self) -> bool:
        return self._member.eof

    def feed(self, data: bytes, room: int) -> bytes:
        plain = b""
        data = self._lookahead + data
        self._lookahead = b""
        while data and len(plain) < room:
            if self._member.eof:
                if not data.startswith(_GZIP_MAGIC):
                    self._lookahead = data[: len(_GZIP_MAGIC)]
                    break
                self._member = zlib.decompressobj(_GZIP)
            plain += self._member.decompress(data, room - len(plain))
            data = self._member.unused_data
        return plain


def make_decoder(coding: str) -> Decoder:
    """Return the decoder for a Content-Encoding; `ToolError` for all but gzip, which requests ask for."""
    name = coding.strip().lower()
    if name in {"", "identity"}:
        return _Identity()
    if name in {"gzip", "x-gzip"}:
        return _Gzip()
    raise ToolError(f"The answer is encoded as {coding[:40]!r}, which cannot be read here. Try another source.")


USER_AGENT = "artifactflow-nb (research workbench; a person asked for this page)"
"""User agent of all requests."""

_PROXY_ERRORS = frozenset({407, 502, 503, 504})
_PROXY = "The person can check the setting proxy."
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_ADDRESSES = 4  # addresses to try for each host
_ERROR_BYTES = 65_536  # limit of the body of an error response
_SLICE_BYTES = 4096  # decompressed at once: blocks the event loop for about 15 ms at worst
_SSL_S = 10.0


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits of one request.

    Attributes:
        connect_timeout_s: Seconds for a connection, over all addresses of the host.
        total_timeout_s: Seconds for the whole request: name resolution, redirects and body.
        max_wire_bytes: Maximum bytes of the body as sent.
        max_decoded_bytes: Maximum bytes of the decompressed body.
    """

    connect_timeout_s: float = 8.0
    total_timeout_s: float = 25.0
    max_wire_bytes: int = 10_000_000
    max_decoded_bytes: int = 10_000_000
    max_redirects: int = 5


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A response with any status.

    Attributes:
        media_type: Media type in lower case, without parameters, or an empty string.
        charset: Charset as the server named it, or an empty string.
        truncated: Whether the body is incomplete.
        headers: The headers of the server, names in lower case.
    """

    url: str
    status: int
    media_type: str
    charset: str
    body: bytes
    truncated: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        """Status code and phrase, for example `404 (Not Found)`."""
        try:
            return f"{self.status} ({HTTPStatus(self.status).phrase})"
        except ValueError:
            return str(self.status)


MediaTypePredicate = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request.

    Attributes:
        url: Address; the guard checks it.
        method: HTTP method. Redirects are followed for GET only.
        headers: Headers in addition to the default headers.
        accepts: Predicate of media types; the body of a response with another type is not read.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    accepts: MediaTypePredicate = lambda _media_type: True


class HttpClient:
    """HTTP client that connects only to targets that the guard allows.

    Args:
        guard: Check of all addresses, including the targets of redirects.
        limits: Limits of one request.
        ssl_context: TLS settings; None for the certificates that the system trusts.
    """

    def __init__(
        self, guard: RequestGuard, limits: HttpLimits | None = None, ssl_context: ssl.SSLContext | None = None
    ) -> None:
        self.limits = limits or HttpLimits()
        self._guard = guard
        self._ssl = ssl_context

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Return the response; `ToolError` if the request fails, or the guard or `accepts` refuses."""
        try:
            async with asyncio.timeout(self.limits.total_timeout_s):
                return await self._follow(request)
        except TimeoutError:
            raise ToolError(
                f"{request.url} sent no complete answer within {self.limits.total_timeout_s:g} s. Try another source."
            ) from None

    async def _follow(self, request: HttpRequest) -> HttpResponse:
        """Send a request and follow its redirects, each of which the guard checks."""
        core, url, previous = _core(), request.url, None
        for _ in range(self.limits.max_redirects + 1):
            target = await self._guard.check(url)
            if previous is not None and previous.scheme == "https" != target.scheme:
                raise ToolError(f"{previous.url} redirects from https to http ({target.url}), which is not followed.")
            try:
                response = await self._exchange(core, target, request)
            except (core.NetworkError, core.ProtocolError, core.ProxyError, core.TimeoutException, OSError) as error:
                reason = str(error) or type(error).__name__
                if proxy := self._proxy_for(target):
                    problem = f"{target.url} was not reached through the proxy {public_url(proxy)}: {reason}. {_PROXY}"
                elif "CERTIFICATE" in reason.upper():
                    problem = f"{target.url} has a certificate that is not trusted: {reason}. Try another source."
                elif "Timeout" in type(error).__name__:
                    problem = f"{target.url} did not answer in time. Try another source."
                else:
                    advice = "Check the address or try another source."
                    problem = f"The connection to {target.url} failed: {reason}. {advice}"
                raise ToolError(problem) from None
            except zlib.error:
                raise ToolError(f"The answer of {target.url} is encoded in a way that cannot be read.") from None
            if isinstance(response, HttpResponse):
                if target.scheme == "http" and response.status in _PROXY_ERRORS and (proxy := self._proxy_for(target)):
                    raise ToolError(
                        f"The proxy {public_url(proxy)} answered {response.reason} for {target.url}. {_PROXY}"
                    )
                return response
            if request.method != "GET":
                raise ToolError(f"{target.url} redirects {request.method} requests to {response}; check the address.")
            url, previous = urljoin(target.url, response), target
        raise ToolError(f"{request.url} has more than {self.limits.max_redirects} redirects. Try another source.")

    async def _exchange(self, core: Any, target: RequestTarget, request: HttpRequest) -> HttpResponse | str:
        """Return the response of a target, or the location to which it redirects.

        The connection goes to a checked address or to the proxy, and the certificate must match the host name.
        """
        if target.scheme == "https" and self._ssl is None:
            # The settings are made in a thread, because loading the system's certificates blocks.
            self._ssl = await run_with_timeout(_SSL_S, core.default_ssl_context, "certificates")
        url = core.URL(scheme=target.scheme, host=target.host, port=target.port, target=target.path)
        backend = _CheckedAddresses(core.AnyIOBackend(), target.addresses, self.limits.connect_timeout_s)
        headers = {
            "Host": target.authority,
            "User-Agent": USER_AGENT,
            "Accept-Encoding": "gzip",
            "Connection": "close",
            **request.headers,
        }
        if request.body:
            headers["Content-Length"] = str(len(request.body))
        total_s = self.limits.total_timeout_s
        timeouts = {"connect": self.limits.connect_timeout_s, "read": total_s, "write": total_s}
        sent = core.Request(
            request.method, url, headers=list(headers.items()), content=request.body, extensions={"timeout": timeouts}
        )
        context = self._ssl if target.scheme == "https" else None
        if proxy := self._proxy_for(target):
            address = urlsplit(proxy)
            login = (unquote(address.username or "").encode(), unquote(address.password or "").encode())
            route = core.AsyncHTTPProxy(
                public_url(proxy), proxy_auth=login if any(login) else None, ssl_context=context
            )
        else:
            route = core.AsyncHTTPConnection(origin=url.origin, ssl_context=context, network_backend=backend)
        async with route as connection:
            response = await connection.handle_async_request(sent)
            if response.status in _REDIRECTS and (location := _header(response, "location")):
                return location.strip().replace(" ", "%20")
            content_type = Message()
            content_type["Content-Type"] = re.sub(r"[\r\n]", "", _header(response, "content-type"))
            media_type = str(content_type["Content-Type"]).partition(";")[0].strip().lower()
            is_error = response.status >= HTTPStatus.BAD_REQUEST
            if not is_error and not request.accepts(media_type):
                label = media_type or "unknown"
                raise ToolError(f"{target.url} is of the type {label!r}, which cannot be read as text.")
            max_bytes = self.limits.max_decoded_bytes
            body, truncated = await self._body(response, min(_ERROR_BYTES, max_bytes) if is_error else max_bytes)
            charset = str(content_type.get_param("charset") or "")
            headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in response.headers}
            return HttpResponse(target.url, response.status, media_type, charset, body, truncated, headers)

    def _proxy_for(self, target: RequestTarget) -> str | None:
        """Return the proxy for a target, or None for an allowed host of a local network, to which no proxy leads."""
        return self._guard.proxy if target.is_public else None

    async def _body(self, response: Any, max_bytes: int) -> tuple[bytes, bool]:
        """Return the decompressed body up to the limits, and whether the body is incomplete."""
        coding = _header(response, "content-encoding")
        decoder = make_decoder(coding)
        step = _SLICE_BYTES if coding else self.limits.max_wire_bytes
        plain, received = bytearray(), 0
        async with aclosing(response.aiter_stream()) as chunks:
            async for chunk in chunks:
                for start in range(0, min(len(chunk), self.limits.max_wire_bytes - received), step):
                    end = min(start + step, self.limits.max_wire_bytes - received)
                    plain += decoder.feed(chunk[start:end], max_bytes - len(plain) + 1)
                    if len(plain) > max_bytes:  # one byte more than allowed shows that the body is longer
                        return bytes(plain[:max_bytes]), True
                    await asyncio.sleep(0)  # other tasks and the time limit get their turn
                received += len(chunk)
                if received > self.limits.max_wire_bytes:
                    return bytes(plain), True
        return bytes(plain), bool(received) and not decoder.complete


@dataclass(frozen=True, slots=True)
class _CheckedAddresses:
    """Network backend that connects to the checked addresses and ignores the host name."""

    backend: Any
    addresses: Sequence[Address]
    timeout_s: float

    async def connect_tcp(self, host: str, port: int, **options: Any) -> Any:
        del host
        options.pop("timeout", None)
        clock = asyncio.get_running_loop().time
        end, addresses = clock() + self.timeout_s, self.addresses[:_MAX_ADDRESSES]
        for n_remaining, address in zip(range(len(addresses), 0, -1), addresses, strict=True):
            # Each address gets an equal share of the remaining time, so that a silent address leaves time for the next.
            share = max(end - clock(), 0.01) / n_remaining
            try:
                return await self.backend.connect_tcp(str(address), port, timeout=share, **options)
            except (_core().NetworkError, _core().TimeoutException):
                if n_remaining == 1:
                    raise
        raise ConnectionError("there is no address to connect to")


def _header(response: Any, name: str) -> str:
    """Return the first response header of a name, or an empty string."""
    value = next((value for key, value in response.headers if key.decode("latin-1").lower() == name), b"")
    try:
        return str(value.decode("utf-8"))
    except UnicodeDecodeError:
        return str(value.decode("latin-1"))


def _core() -> Any:
    """Return the HTTP library, whose name depends on the release of `openai`."""
    try:
        return importlib.import_module("httpcore2")
    except ModuleNotFoundError:
        return importlib.import_module("httpcore")
