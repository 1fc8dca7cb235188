"""Access to a stand-alone server: a token for each user, and only addresses and pages of the server itself."""

import getpass
import ipaddress
import secrets
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

COOKIE, TOKEN_VARIABLE = "artifactflow_token", "AF_SERVER_TOKEN"


def local_user() -> str:
    """Return the name of the account that runs the server."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # the account has no name, as in some containers
        return "local"


def reachable_hosts(host: str) -> list[str]:
    """Return the hosts of the addresses at which clients reach a server that listens at `host`.

    A server at `0.0.0.0` or `::` listens at all addresses of the machine; the result has the address that other
    machines see, and `localhost`.
    """
    if host not in {"0.0.0.0", "::"}:  # noqa: S104 - compares
        return [f"[{host}]" if ":" in host else host]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # sends no data; chooses the network interface towards other machines
        return [probe.getsockname()[0], "localhost"]
    return ["localhost"]


@dataclass(frozen=True, slots=True)
class Access:
    """The users of a server, and the host names of the server.

    Attributes:
        tokens: The secret token of each user by name; empty if everybody who can connect has access.
        host_names: Names of the server in addition to `localhost`, the machine's name and the machine's addresses.
    """

    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    host_names: frozenset[str] = frozenset()

    @classmethod
    def of_users(cls, users: list[str], host: str, host_names: list[str], token: str | None) -> "Access":
        """Create a token for each user, unless the server is reachable only from this machine.

        Args:
            users: The names; empty for the account that runs the server.
            host: The address at which the server listens.
            host_names: Further names of the server.
            token: The token of the only user; None for a new token.
        """
        names = users or [local_user()]
        needs_token = host not in LOOPBACK or bool(users) or token is not None
        tokens = {name: token or secrets.token_urlsafe(24) for name in names} if needs_token else {}
        return cls(tokens, frozenset(host_names))

    def user(self, authorization: str, parameter: str, cookie: str) -> str | None:
        """Return the user of a request, or None for a missing or wrong token.

        Args:
            authorization: The header `Authorization`.
            parameter: The token in the address.
            cookie: The token in the cookie.
        """
        if not self.tokens:
            return local_user()
        scheme, _, bearer = authorization.partition(" ")
        presented = bearer.strip() if scheme.lower() == "bearer" else parameter or cookie
        user = None
        for name, token in self.tokens.items():  # no break: the time must not reveal which token matches
            if secrets.compare_digest(token.encode(), presented.encode("utf-8", "replace")):
                user = name
        return user

    def problem(self, host: str, origin: str | None) -> str | None:
        """Return why the headers `Host` and `Origin` of a request are rejected, or None.

        A page of another site can send requests to this server. If the site's host name resolves to this server
        (DNS rebinding), the page can also read the answers. Browsers send the host name of the site in these headers.
        """
        try:
            name = (urlsplit(f"//{host}").hostname or "").removesuffix(".")
            origin_host = host if origin is None else urlsplit(origin).netloc
        except ValueError:  # such as "[::1" without its second bracket
            return f"The host {host[:100]!r} or the origin {(origin or '')[:100]!r} is not an address."
        try:
            ipaddress.ip_address(name)
        except ValueError:
            if name not in {"localhost", socket.gethostname().lower(), *map(str.lower, self.host_names)}:
                return f"The host {name[:100]!r} is not a name of this server; --host-name adds one."
        if origin_host.lower() != host.lower():
            return f"The origin {(origin or '')[:100]!r} is another site."
        return None
