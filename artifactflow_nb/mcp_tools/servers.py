"""The servers of one engine: started when the first run needs them, called, started anew when they ended, closed.

A server that does not last is started three times at most; then its calls fail at once, until the next run begins.
"""

import asyncio
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.mcp_servers import McpServer
from artifactflow_nb.mcp_tools.connection import Connection, load_sdk
from artifactflow_nb.mcp_tools.offers import Listed, Offer, Offers, offers_of
from artifactflow_nb.mcp_tools.results import result_of
from artifactflow_nb.messages import ToolResult

MOST_STARTS = 3
"""How often a server is started without a call that it answers."""

_RUNNING = "running"


class ServerSet:
    """Servers, each with at most one session that is used.

    Args:
        servers: Those that are configured; such as are disabled are left out.
    """

    def __init__(self, servers: Mapping[str, McpServer]) -> None:
        self._held = {name: _Held(server) for name, server in servers.items() if not server.disabled}

    def __bool__(self) -> bool:
        return bool(self._held)

    def state_of(self, name: str) -> str:
        """Whether a server is `running` now, `not started`, or `ended`."""
        held = self._held.get(name)
        return "disabled" if held is None else held.state

    @property
    def knows_all(self) -> bool:
        """Whether every server has said what tools it has."""
        return all(held.known is not None for held in self._held.values())

    async def offers(self, taken: Collection[str], lead: str, needed: Collection[str]) -> Offers:
        """What the servers offer that are needed; of the others those that are known. As `offers_of`.

        Those that are needed and not there are started first, all at once.

        Errors: `UsageError` for servers that cannot be started, each with why and what to do.
        """
        used = [one for name, one in self._held.items() if name in needed or one.known is not None]
        asked = (held.listed(anew=held.server.name in needed) for held in used)
        found = await asyncio.gather(*asked, return_exceptions=True)
        problems = [str(one) for one in found if isinstance(one, ToolError | UsageError)]
        if problems:
            raise UsageError("\n".join(problems))
        listed: list[tuple[McpServer, Sequence[Listed]]] = []
        for held, one in zip(used, found, strict=True):
            if isinstance(one, BaseException):
                raise one
            listed.append((held.server, one))
        return offers_of(listed, taken, lead)

    async def call(self, offer: Offer, arguments: Mapping[str, Any]) -> ToolResult:
        """Call a tool; `ToolError` if its server cannot be had, or does not answer."""
        return await self._held[offer.server].call(offer.tool, arguments)

    async def aclose(self) -> None:
        """End all sessions, and with them the servers that were started."""
        await asyncio.gather(*(held.close() for held in self._held.values()))


class _Held:
    """One server and its sessions: one that is used, and such as end by themselves.

    Attributes:
        server: The server.
        known: Its tools as it listed them when it was last started; None before it has.
    """

    def __init__(self, server: McpServer) -> None:
        self.server = server
        self._lock = asyncio.Lock()
        self._opened: list[Connection] = []
        self.known: list[Listed] | None = None
        self._n_starts = 0
        self._is_closed = False

    @property
    def state(self) -> str:
        if not self._opened:
            return "not started"
        return _RUNNING if self._opened[-1].is_usable else "ended"

    async def listed(self, *, anew: bool) -> list[Listed]:
        """Its tools, as it lists them when it is started; a new run may start it however often it ended.

        If it need not be asked `anew`, what is known of it will do, whether it is there or not.
        """
        if not anew and self.known is not None:
            return self.known
        if self.state != _RUNNING:
            self._n_starts = 0
        connection = await self._connection()
        async with self._lock:
            if self.known is None:
                self.known = await connection.list_tools()
            return self.known

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Call a tool; one that hangs may hang all of its server, so the next call has another."""
        connection = await self._connection()
        limit = asyncio.timeout(self.server.timeout_s)
        try:
            async with limit:
                answer = await connection.call(tool, arguments)
        except TimeoutError:
            if not limit.expired():
                raise
            connection.retire()
            seconds = f"{self.server.timeout_s:g} s"
            raise ToolError(
                f"The MCP server {self.server.name} did not answer within {seconds}, and nobody knows whether the call "
                "took effect."
            ) from None
        self._n_starts = 0
        result = result_of(answer, self.server.name)
        error = result.error and connection.hidden(result.error)
        return ToolResult(result.success, connection.hidden(result.data), error, result.metadata)

    async def _connection(self) -> Connection:
        """The session that is used, which is begun if there is none."""
        async with self._lock:
            if self._opened and self._opened[-1].is_usable:
                return self._opened[-1]
            if self._is_closed:
                raise ToolError(f"The MCP server {self.server.name} is closed with its workbench.")
            if self._n_starts >= MOST_STARTS:
                raise ToolError(
                    f"The MCP server {self.server.name} was started {MOST_STARTS} times and ended each time. It is not "
                    "started again in this run; go on without it."
                )
            self._n_starts += 1
            self.known = None
            server = self.server.filled(os.environ)
            await load_sdk()
            opened = Connection(server, self.server.secrets(os.environ))
            self._opened = [*(one for one in self._opened if not one.is_over), opened]
            await opened.ready()
            return opened

    async def close(self) -> None:
        """End its sessions, one that is just begun too."""
        self._is_closed = True
        await asyncio.gather(*(one.close() for one in self._opened))
