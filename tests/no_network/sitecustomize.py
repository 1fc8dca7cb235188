"""A machine without a network and without keys, for every Python process that has this folder on its PYTHONPATH.

Connections to other machines and look-ups of their names are refused; loopback and Unix sockets are allowed. The check
is an audit hook, which no client library can pass or remove. Refusals are also written to the file that `REFUSALS`
names, so that code which catches the error cannot hide them.
"""

import ipaddress
import os
import socket
import sys

REFUSALS = "NO_NETWORK_REFUSALS"
_CONNECTING = {"socket.connect", "socket.sendto", "socket.sendmsg"}
_RESOLVING = {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}
_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_HERE = {"", "localhost", socket.gethostname()}


class NetworkRefusedError(ConnectionRefusedError):
    """A connection to another machine was refused."""


def _address(host: object) -> _Address | None:
    """The address that a host is; None if it is a name."""
    try:
        return ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:
        return None


def _unmapped(address: _Address) -> _Address:
    """The IPv4 address that an IPv6 address may represent."""
    return getattr(address, "ipv4_mapped", None) or address


def _is_here(host: object) -> bool:
    """Whether a host is this machine, by its name or as its loopback."""
    address = _address(host)
    return host is None or host in _HERE or bool(address and _unmapped(address).is_loopback)


def _refused(event: str, args: tuple[object, ...]) -> object:
    """The address that must not be reached; None if the connection is allowed."""
    if event in _RESOLVING:
        host = args[0].decode() if isinstance(args[0], bytes) else args[0]
        return None if _is_here(host) or _address(host) else host
    sock, address = args[0], args[1]
    if address is None or getattr(sock, "family", None) == socket.AF_UNIX:  # None: it was connected before
        return None
    return None if isinstance(address, tuple) and _is_here(address[0]) else address


def _guard(event: str, args: tuple[object, ...]) -> None:
    if event not in _CONNECTING | _RESOLVING or (address := _refused(event, args)) is None:
        return
    message = f"{event} to {address!r} is refused: notebooks are tested without a network."
    if path := os.environ.get(REFUSALS):
        with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123 - pathlib is not loaded in every process
            file.write(f"{message} (process {os.getpid()}, {sys.argv[:1]})\n")
    raise NetworkRefusedError(message)


for _name in list(os.environ):
    if _name.upper().startswith("OPENAI_") or _name.upper().endswith(("_API_KEY", "_TOKEN", "_SECRET", "_PROXY")):
        del os.environ[_name]
os.environ.pop("AF_MODEL", None)
sys.addaudithook(_guard)
