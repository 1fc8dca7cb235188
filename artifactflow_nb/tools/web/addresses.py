"""Classification of addresses and host names as public or not.

The ranges follow IANA's registries of special-purpose addresses and are written out here, because `is_global` of the
standard library differs between Python releases and is wrong for several ranges. In doubt an address is not public:
this includes anycast and measurement ranges, which are routed but serve no documents, and all IPv6 addresses outside
the global unicast block. An IPv4 address embedded in an IPv6 address is checked first.
"""

import ipaddress
import re
from collections.abc import Mapping, Sequence

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
    """Return why an address is not public, for example "a private network"; None for a public address."""
    if isinstance(address, ipaddress.IPv4Address):
        return _special_range(address)
    if address.scope_id is not None:
        return "bound to a network interface (zone)"
    low = ipaddress.IPv4Address(int(address) & _LOW_32)
    embedded: Sequence[ipaddress.IPv4Address] = ()  # the IPv4 addresses that it maps, translates or tunnels to
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
    """Return why a host name (lower case, without final dot) cannot be public; None if it can."""
    labels = name.split(".")
    if labels[-1] in _LOCAL_NAMES:
        return "a name of this machine or of a local network"
    if labels[-1] in _UNROUTED_NAMES:
        return "a name that does not exist on the public internet"
    return "not a full name" if len(labels) == 1 else None


def parse_numeric_host(host: str) -> ipaddress.IPv4Address | None:
    """Parse a numeric host in any of the notations that resolvers accept; None for a name.

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
