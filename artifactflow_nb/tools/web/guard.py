"""Guard against requests to local networks: parses an address once, resolves its host once, checks all results.

::

    "https://host/path" ──> check scheme, port, host ──> resolve ──> check all addresses ──> RequestTarget

A tool that needs an approval requests it between the first and the second step. The connection uses the checked
addresses of the `RequestTarget` and does not resolve again, so DNS rebinding has no effect. Hosts that the setting
`allowed_hosts` names are not checked. With a proxy the checks are the same, but a name that this machine cannot resolve
is left to the proxy, because in a closed network only the proxy knows public names. The proxy resolves the name again.

The ranges of public addresses follow IANA's registries of special-purpose addresses and are written out here, because
`is_global` of the standard library differs between Python releases and is wrong for several ranges. Doubtful addresses
count as not public: this includes anycast and measurement ranges, which are routed but serve no documents, and all IPv6
addresses outside the global unicast block. An IPv4 address embedded in an IPv6 address is checked first.
"""

import ipaddress
import re
import socket
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote, urlsplit

import idna

from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.tools.threads import run_with_timeout

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_IPV4: Mapping[str, str] = {
    "0.0.0.0/8": "this network",
    "10.0.0.0/8": "a private network",
    "100.64.0.0/10": "a provider's shared network (cloud metadata is there)",
    "127.0.0.0/8": "this machine (loopback)",
    "168.63.129.16/32": "a cloud platform's own service",
    "169.254.0.0/16": "link-local (cloud metadata is there)",
    "172.16.0.0/12": "a private network",
    "192.0.0.0/24": "protocol assignments",
    "192.0.2.0/24": "for documentation",
    "192.31.196.0/24": "an AS112 sink",
    "192.52.193.0/24": "a multicast tunnel",
    "192.88.99.0/24": "a 6to4 relay",
    "192.168.0.0/16": "a private network",
    "192.175.48.0/24": "an AS112 sink",
    "198.18.0.0/15": "for benchmarks",
    "198.51.100.0/24": "for documentation",
    "203.0.113.0/24": "for documentation",
    "224.0.0.0/4": "multicast",
    "255.255.255.255/32": "broadcast",
    "240.0.0.0/4": "reserved",
}
_IPV6: Mapping[str, str] = {
    "::/128": "unspecified",
    "::1/128": "this machine (loopback)",
    "::/96": "an IPv4-compatible address",
    "::ffff:0:0:0/96": "an IPv4-translated address",
    "64:ff9b:1::/48": "a translation to IPv4 of a local network",
    "100::/64": "a discard address",
    "100:0:0:1::/64": "a dummy address",
    "2001::/32": "a Teredo tunnel",
    "2001:2::/48": "for benchmarks",
    "2001::/23": "protocol assignments",
    "2001:db8::/32": "for documentation",
    "2002::/16": "a 6to4 tunnel",
    "2620:4f:8000::/48": "an AS112 sink",
    "3ffe::/16": "the experimental network that was given up",
    "3fff::/20": "for documentation",
    "5f00::/16": "a segment of a routing domain",
    "fc00::/7": "a private network (unique-local)",
    "fe80::/10": "link-local",
    "fec0::/10": "a private network (site-local)",
    "ff00::/8": "multicast",
}
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_LOW_32 = 0xFFFFFFFF
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})  # the upper half of the interface id that marks an embedded IPv4 address

_LOCAL_NAMES = frozenset({"localhost", "localdomain", "local", "internal", "intranet", "private", "lan", "home"})
_UNROUTED_NAMES = frozenset({"corp", "alt", "invalid", "onion", "test", "example", "arpa"})
_NUMBER = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)")
_OCTAL = re.compile(r"0[0-7]*")
_PARTS = 4
_BYTE = 256


_RANGES = tuple((ipaddress.ip_network(network), description) for network, description in {**_IPV4, **_IPV6}.items())


def address_problem(address: Address) -> str | None:
    """Return why an address is not public, for example "a private network", or None for a public address."""
    if isinstance(address, ipaddress.IPv4Address):
        return _special_range(address)
    if address.scope_id is not None:
        return "bound to a network interface (zone)"
    low = ipaddress.IPv4Address(int(address) & _LOW_32)
    embedded: Sequence[ipaddress.IPv4Address] = ()  # the IPv4 addresses that `address` maps, translates or tunnels to
    if address.ipv4_mapped is not None or address in _NAT64:
        embedded = [low]
    elif address.sixtofour is not None:
        embedded = [address.sixtofour]
    elif address.teredo is not None:
        embedded = address.teredo
    elif (int(address) >> 32) & _LOW_32 in _ISATAP or 1 < int(address) <= _LOW_32:
        embedded = [low]  # the second case is an IPv4-compatible address; `::` and `::1` have ranges of their own
    for ipv4 in embedded:
        if problem := _special_range(ipv4):
            return f"the IPv4 address {ipv4} in another form, which is {problem}"
    if address.ipv4_mapped is not None or address in _NAT64:
        return None
    return _special_range(address) or (None if address in _GLOBAL_UNICAST else "reserved")


def connect_address(address: Address) -> Address:
    """Return the address to connect to, which for an IPv4-mapped address is the IPv4 address."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _special_range(address: Address) -> str | None:
    return next((description for network, description in _RANGES if address in network), None)


def host_name_problem(name: str) -> str | None:
    """Return why a host name (lower case, without final dot) cannot be public, or None."""
    labels = name.split(".")
    if labels[-1] in _LOCAL_NAMES:
        return "a name of this machine or of a local network"
    if labels[-1] in _UNROUTED_NAMES:
        return "a name that does not exist on the public internet"
    return "not a full name" if len(labels) == 1 else None


def parse_numeric_host(host: str) -> ipaddress.IPv4Address | None:
    """Parse a numeric host in any of the notations that resolvers accept, or return None for a name.

    A numeric host has one to four numbers, each decimal, octal (`0...`) or hexadecimal (`0x...`); the last number fills
    the remaining bytes. A host whose last part is not a number is a name.

    Errors: `ValueError` for numbers that form no address.
    """
    parts = host.split(".")
    if not _NUMBER.fullmatch(parts[-1]):
        return None
    if len(parts) > _PARTS:
        raise ValueError(f"{host} has more than four numbers")
    numbers: list[int] = []
    for part in parts:
        is_octal = part.startswith("0") and not part.startswith("0x")
        if not (_OCTAL if is_octal else _NUMBER).fullmatch(part):
            raise ValueError(f"{part!r} is not {'an octal' if is_octal else 'a'} number")
        digits, base = (part[2:] or "0", 16) if part.startswith("0x") else (part, 8 if is_octal else 10)
        numbers.append(int(digits, base))
    *leading, last = numbers
    if any(number >= _BYTE for number in leading) or last >= _BYTE ** (_PARTS - len(leading)):
        raise ValueError(f"{host} has a number that is too large")
    return ipaddress.IPv4Address(sum(number << 8 * (3 - n) for n, number in enumerate(leading)) + last)


PORTS = {"http": 80, "https": 443}
"""The schemes and their ports; requests to public hosts use no other port."""

_WAIT_S = 10.0
_SHORT_WAIT_S = 3.0  # behind a proxy, where a resolver that knows no public names may be silent
_MAX_URL_CHARS = 4000
_MAX_HOST_CHARS = 253
_LAST_PORT = 65_535
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f-\x9f\\\s]")
_USER = re.compile(r"//[^/?#]*@")
_NETLOC = re.compile(r"(?:\[(?P<six>[^\[\]]*)\]|(?P<name>[^\[\]:]*))(?::(?P<port>[0-9]{0,5}))?")
_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*")
_SAFE_IN_PATH = "%/:=&?~#+!$,;'@()*[]|^`{}\"<>"


class Resolver(Protocol):
    """Resolver of host names."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses as text, in the order to try them; an unknown host gives no address or `OSError`."""


@dataclass(frozen=True, slots=True)
class SystemResolver:
    """The system's resolver."""

    timeout_s: float = _WAIT_S

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return the IPv4 and IPv6 addresses without duplicates."""

        def look_up() -> list[str]:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
            return list(dict.fromkeys(str(entry[4][0]) for entry in entries))

        return await run_with_timeout(self.timeout_s, look_up, "resolve")


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """A checked target of a request.

    Attributes:
        scheme: `http` or `https`.
        host: Name or address in lower case ASCII, for the Host header and the certificate.
        addresses: The checked addresses to connect to, in order; empty for a name that only a proxy can resolve.
    """

    scheme: str
    host: str
    port: int
    path: str
    addresses: tuple[Address, ...]

    @property
    def authority(self) -> str:
        """Host and port for the Host header; the scheme's default port is omitted."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def is_public(self) -> bool:
        """Whether no address belongs to a local network or to this machine."""
        return not any(map(address_problem, self.addresses))

    @property
    def url(self) -> str:
        """The whole address."""
        return f"{self.scheme}://{self.authority}{self.path}"


@dataclass(frozen=True, slots=True)
class _Host:
    """A parsed host: its name in ASCII, and its address if it is numeric."""

    name: str
    address: Address | None


class RequestGuard:
    """Check of request targets.

    Args:
        allowed_hosts: Hosts that need not be public, as `host` (any port) or `host:port`, IPv6 addresses in brackets.
        resolver: Resolver of host names; None for the system's resolver.
        proxy: The address of the proxy for requests to public hosts; None for no proxy.

    Errors: `UsageError` for an invalid entry in `allowed_hosts`.
    """

    def __init__(
        self, allowed_hosts: Iterable[str] = (), resolver: Resolver | None = None, proxy: str | None = None
    ) -> None:
        self.proxy = proxy
        self._allowed: set[tuple[str, int | None]] = set()
        for entry in allowed_hosts:
            match = _NETLOC.fullmatch(entry.strip().lower())
            try:
                if match is None:
                    raise ToolError("It has characters that a host name cannot contain.")
                self._allowed.add((_host(match).name, int(match["port"]) if match["port"] else None))
            except ToolError as error:
                raise UsageError(
                    f"allowed_hosts has {entry!r}, which is not a host. {error} Write it as 'wiki.example.org', "
                    "'wiki.example.org:8080', '10.0.0.7' or '[fd00::7]'."
                ) from None
        self._resolver = resolver or SystemResolver(_SHORT_WAIT_S if proxy else _WAIT_S)

    def check_text(self, url: str) -> None:
        """Check scheme, host and port of an address without resolving the host.

        A DNS look-up already contacts a name server of the host's owner, so hosts are not resolved before an approval.

        Errors: `ToolError` if the address is invalid, or its host or port is not allowed.
        """
        _, host, port, _ = _parse(url)
        if self._is_allowed(host.name, port):
            return
        _check_addresses(host.name, (host.address,) if host.address else ())
        if not host.address and (problem := host_name_problem(host.name)):
            raise _refusal(f"{host.name} is {problem}")
        if port not in PORTS.values():
            raise _refusal(
                f"{host.name} is addressed at port {port}; public hosts are fetched at ports 80 and 443 only"
            )

    async def check(self, url: str) -> RequestTarget:
        """Return the target of an http or https address; `ToolError` if the address is invalid or not public."""
        self.check_text(url)  # checked first: a refused name must not reach a resolver
        scheme, host, port, path = _parse(url)
        name = host.name
        addresses: tuple[Address, ...] = (host.address,) if host.address else ()
        if not addresses:
            try:
                answers = await self._resolver.resolve(name, port)
                addresses = tuple(ipaddress.ip_address(answer) for answer in answers)
            except TimeoutError:
                if self.proxy is None:
                    raise ToolError(f"The name {name} could not be resolved in time. Try again later.") from None
            except (OSError, ValueError):
                addresses = ()
            if not addresses and self.proxy is None:
                raise ToolError(f"The host {name} was not found. Check how the address is spelled.")
        if not self._is_allowed(name, port):
            _check_addresses(name, addresses)
        return RequestTarget(scheme, name, port, path, tuple(map(connect_address, addresses)))

    def _is_allowed(self, name: str, port: int) -> bool:
        return (name, None) in self._allowed or (name, port) in self._allowed


def authority(url: str) -> str:
    """Return host and port of an address, without the default port; `ToolError` for an unusable address."""
    scheme, host, port, path = _parse(url)
    return RequestTarget(scheme, host.name, port, path, ()).authority


def _parse(url: str) -> tuple[str, _Host, int, str]:
    """Return scheme, host, port and path; `ToolError` for an address that is invalid or ambiguous between parsers."""
    if len(url) > _MAX_URL_CHARS:
        raise ToolError(f"The address has {len(url)} characters; the limit is {_MAX_URL_CHARS}. Shorten the address.")
    if _FORBIDDEN.search(url):
        raise ToolError(
            f"The address {_display(url)} has spaces, backslashes or control characters. Percent-encode them."
        )
    try:
        address = urlsplit(url)
    except ValueError as error:
        raise ToolError(f"The address {_display(url)} cannot be read: {error}.") from None
    if address.scheme not in PORTS:
        raise ToolError(f"The address {_display(url)} does not begin with http:// or https://. Only these are fetched.")
    if "@" in address.netloc:
        raise ToolError("The address has a user name or password before its host. Pass the address without them.")
    match = _NETLOC.fullmatch(address.netloc.lower())
    if match is None:
        raise ToolError(
            f"The host {address.netloc[:100]!r} is not a valid host name or IP address. Check how it is spelled."
        )
    port = int(match["port"] or PORTS[address.scheme])
    if not 0 < port <= _LAST_PORT:
        raise ToolError(f"The address {_display(url)} has the port {port}; ports go from 1 to {_LAST_PORT}.")
    path = quote(address.path or "/", safe=_SAFE_IN_PATH)
    query = f"?{quote(address.query, safe=_SAFE_IN_PATH)}" if address.query else ""
    return address.scheme, _host(match), port, path + query


def _display(url: str) -> str:
    """Return the address for a message, shortened and without user name and password."""
    return repr(_USER.sub("//", url)[:100])


def _host(match: "re.Match[str]") -> _Host:
    """Parse the host; `ToolError` for text that is neither a host name nor an IP address in its usual notation."""
    if (text := match["six"]) is not None:
        if "%" in text:
            raise ToolError(f"The host [{text}] names a network interface (zone); use an address without a zone.")
        try:
            ipv6 = ipaddress.IPv6Address(text)
        except ValueError:
            raise ToolError(f"The host [{text}] is not an IPv6 address. Check how it is spelled.") from None
        return _Host(str(connect_address(ipv6)), ipv6)
    # Full-width digits and dots are normalized before any check.
    name = unicodedata.normalize("NFKC", match["name"]).lower()
    if not name.isascii():
        with suppress(idna.IDNAError):
            name = idna.encode(name, uts46=True).decode("ascii")
    name = name.removesuffix(".")
    if len(name) > _MAX_HOST_CHARS or not _NAME.fullmatch(name):
        raise ToolError(f"The host {match['name'][:100]!r} is not a valid host name. Check how it is spelled.")
    try:
        address = parse_numeric_host(name)
    except ValueError as error:
        raise ToolError(f"The host {name} is not a valid IP address: {error}.") from None
    if address is None:
        return _Host(name, None)
    if str(address) != name:
        raise ToolError(f"The host {name} is another spelling of {address}. Write {address} instead.")
    return _Host(name, address)


def _check_addresses(name: str, addresses: Sequence[Address]) -> None:
    """Raise `ToolError` if any address is not public, because an attacker may add a public address."""
    for address in addresses:
        if problem := address_problem(address):
            subject = str(address) if str(address) == name else f"{name} leads to {address}, which"
            raise _refusal(f"{subject} is {problem}")


def _refusal(reason: str) -> ToolError:
    return ToolError(
        f"Not fetched: {reason}. Only public hosts are fetched; "
        "the person can allow others with the setting allowed_hosts."
    )
