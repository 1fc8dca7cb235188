"""Where a request may go: an address is taken apart once, its host resolved once, and every answer looked at.

::

    "https://host/path" ──> scheme, port, host in order? ──> resolve ──> all answers public? ──> Target

The connection is made to the addresses in the `Target`, so a name whose answer changes afterwards gains nothing.
Hosts that a setting allows are spared the questions of where they are; a person vouches for them.
"""

import ipaddress
import re
import socket
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote, urlsplit

import idna

from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.tools.addresses import Address, not_a_public_name, not_public, number_host, reachable_form
from artifactflow_nb.tools.deadline import within

PORTS = {"http": 80, "https": 443}
"""The schemes and the port of each; a public host is asked at no other port."""

_LONGEST_URL = 4000
_LONGEST_HOST = 253
_LAST_PORT = 65_535
_UNWRITABLE = re.compile(r"[\x00-\x20\x7f-\x9f\\\s]")
_USER = re.compile(r"//[^/?#]*@")
_NETLOC = re.compile(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<name>[^\[\]:]*))(?::(?P<port>[0-9]{0,5}))?")
_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*")
_SAFE_IN_PATH = "%/:=&?~#+!$,;'@()*[]|^`{}\"<>"


class Resolver(Protocol):
    """Anything that knows the addresses of a name."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """The addresses as text, in the order to try them; empty or `OSError` if the name has none."""


@dataclass(frozen=True, slots=True)
class SystemResolver:
    """The system's resolver.

    Attributes:
        timeout_s: Seconds for one question.
    """

    timeout_s: float = 10.0

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """The addresses of both families, each once."""

        def ask() -> list[str]:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
            return list(dict.fromkeys(str(entry[4][0]) for entry in found))

        return await within(self.timeout_s, ask, "resolve")


@dataclass(frozen=True, slots=True)
class Target:
    """A place that may be asked.

    Attributes:
        scheme: `http` or `https`.
        host: The name or address, in lower case and in ASCII: for the Host header and the certificate.
        port: The port.
        path: Path and query.
        addresses: The checked addresses to connect to, in order.
    """

    scheme: str
    host: str
    port: int
    path: str
    addresses: tuple[Address, ...]

    @property
    def authority(self) -> str:
        """Host and port as the Host header has them: the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The whole address."""
        return f"{self.scheme}://{self.authority}{self.path}"


@dataclass(frozen=True, slots=True)
class _Host:
    """A host as written: its name in ASCII, and its address if it is one."""

    name: str
    address: Address | None


class Guard:
    """Says where a request may go.

    Args:
        allowed_hosts: Hosts that may be asked wherever they are, each as `host` (any port) or `host:port`; an IPv6
            address stands in brackets.
        resolver: Knows the addresses of names.

    Errors: `UsageError` for an allowed host that cannot be read.
    """

    def __init__(self, allowed_hosts: Iterable[str] = (), resolver: Resolver | None = None) -> None:
        self._allowed = frozenset(_allowed(entry) for entry in allowed_hosts)
        self._resolver = resolver or SystemResolver()

    async def check(self, url: str) -> Target:
        """The target of an http or https address; `ToolError` says what is wrong with it."""
        scheme, host, port, path = _take_apart(url)
        allowed = (host.name, None) in self._allowed or (host.name, port) in self._allowed
        if not allowed:
            _refuse_by_look(host, port, scheme)
        addresses = (host.address,) if host.address else await self._resolve(host.name, port)
        if not allowed:
            _refuse_by_place(host.name, addresses)
        return Target(scheme, host.name, port, path, tuple(map(reachable_form, addresses)))

    async def _resolve(self, name: str, port: int) -> tuple[Address, ...]:
        try:
            answers = await self._resolver.resolve(name, port)
            addresses = tuple(ipaddress.ip_address(answer) for answer in answers)
        except TimeoutError:
            raise ToolError(f"The name {name} could not be resolved in time. Try again later.") from None
        except (OSError, ValueError):
            addresses = ()
        if not addresses:
            raise ToolError(f"The host {name} was not found. Check how the address is spelled.")
        return addresses


def _allowed(entry: str) -> tuple[str, int | None]:
    match = _NETLOC.fullmatch(entry.strip().lower())
    try:
        if match is None:
            raise ToolError("it has other characters than a host")
        return _host(match).name, int(match["port"]) if match["port"] else None
    except ToolError as error:
        raise UsageError(
            f"allowed_hosts has {entry!r}, which is no host: {error} Write it as 'wiki.example.org', "
            "'wiki.example.org:8080', '10.0.0.7' or '[fd00::7]'."
        ) from None


def _take_apart(url: str) -> tuple[str, _Host, int, str]:
    """Scheme, host, port and path of an address that is written in no more than one way."""
    if len(url) > _LONGEST_URL:
        raise ToolError(f"The address has {len(url)} characters; at most {_LONGEST_URL} are taken.")
    if _UNWRITABLE.search(url):
        raise ToolError(f"The address {_shown(url)} has spaces, backslashes or control characters. Write them encoded.")
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ToolError(f"The address {_shown(url)} cannot be read: {error}.") from None
    if parts.scheme not in PORTS:
        raise ToolError(f"The address {_shown(url)} begins with neither http:// nor https://; nothing else is fetched.")
    if "@" in parts.netloc:
        raise ToolError("The address has a user name or password before its host. Pass it without them.")
    match = _NETLOC.fullmatch(parts.netloc.lower())
    if match is None:
        raise ToolError(f"The host {parts.netloc[:100]!r} cannot be read.")
    port = int(match["port"] or PORTS[parts.scheme])
    if not 0 < port <= _LAST_PORT:
        raise ToolError(f"The address {_shown(url)} has the port {port}; ports go from 1 to {_LAST_PORT}.")
    path = quote(parts.path or "/", safe=_SAFE_IN_PATH)
    query = f"?{quote(parts.query, safe=_SAFE_IN_PATH)}" if parts.query else ""
    return parts.scheme, _host(match), port, path + query


def _shown(url: str) -> str:
    """The address for a message: short, and without a user name and password."""
    return repr(_USER.sub("//", url)[:100])


def _host(match: "re.Match[str]") -> _Host:
    if match["six"] is not None:
        return _ipv6(match["six"])
    name = _ascii(match["name"]).removesuffix(".")
    try:
        address = number_host(name)
    except ValueError as error:
        raise ToolError(f"The host {name} is no address: {error}.") from None
    if address is None:
        return _Host(name, None)
    if str(address) != name:
        raise ToolError(f"The host {name} is another spelling of {address}, and only the plain one is taken.")
    return _Host(name, address)


def _ipv6(written: str) -> _Host:
    if "%" in written:
        raise ToolError(f"The host [{written}] names a network interface (zone); only addresses without one are taken.")
    try:
        address = ipaddress.IPv6Address(written)
    except ValueError:
        raise ToolError(f"The host [{written}] is not an IPv6 address.") from None
    return _Host(str(reachable_form(address)), address)


def _ascii(name: str) -> str:
    """The name as it goes over the wire; wide digits and dots become plain ones before anything is compared."""
    folded = unicodedata.normalize("NFKC", name).lower()
    if not folded.isascii():
        try:
            folded = idna.encode(folded, uts46=True).decode("ascii")
        except idna.IDNAError:
            raise ToolError(f"The host {name!r} is not a name.") from None
    if len(folded) > _LONGEST_HOST or not _NAME.fullmatch(folded.removesuffix(".")):
        raise ToolError(f"The host {name[:100]!r} is not a name.")
    return folded


def _refuse_by_look(host: _Host, port: int, scheme: str) -> None:
    """Refuse what needs no resolver to be refused."""
    if host.address is not None:
        _refuse_by_place(host.name, (host.address,))
    elif what := not_a_public_name(host.name):
        raise _refusal(f"{host.name} is {what}")
    if port not in PORTS.values():
        raise _refusal(f"{host.name} would be asked at port {port}, and {scheme} is fetched at ports 80 and 443 only")


def _refuse_by_place(name: str, addresses: Sequence[Address]) -> None:
    """Refuse a host if any of its addresses is not public: the good ones among them may be bait."""
    for address in addresses:
        if what := not_public(address):
            shown = str(address) if str(address) == name else f"{name} leads to {address}, which"
            raise _refusal(f"{shown} is {what}")


def _refusal(what: str) -> ToolError:
    return ToolError(
        f"Not fetched: {what}. Only public hosts are fetched; "
        "the person can allow others with the setting allowed_hosts."
    )
