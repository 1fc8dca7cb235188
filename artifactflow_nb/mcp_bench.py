"""Where the tools of MCP servers come to an engine's agents: from the servers, or from the recording that is played."""

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

from artifactflow_nb.agents.base import BaseAgent
from artifactflow_nb.crew import Crew
from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.flows.state import COMPOSE, PLAN, RESEARCH
from artifactflow_nb.graph_config import GraphConfig
from artifactflow_nb.manifest import Manifest
from artifactflow_nb.mcp_servers import McpServer
from artifactflow_nb.mcp_tools.connection import check_installed
from artifactflow_nb.mcp_tools.offers import Offer, Offers, from_text, to_text, tool_of
from artifactflow_nb.mcp_tools.servers import ServerSet
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.tools.base import Tool
from artifactflow_nb.tools.registry import MCP, ToolRegistry


class McpBench:
    """The tools of servers among those of an engine.

    Where every run is played, no server is started. Where anything new may be made, the servers are at hand, also with
    `mode="auto"` for a run that turns out to be recorded.

    Args:
        servers: The servers that are configured, by their names.
        registry: The engine's tools.
        crew: Its agents.
        is_played: Whether every run is played.

    Attributes:
        servers: The same.
        offers: What agents are offered of them now.
        is_played: The same.

    Errors: `UsageError` where servers are to be started and the library for it is missing.
    """

    def __init__(
        self,
        servers: Mapping[str, McpServer],
        registry: ToolRegistry,
        crew: Crew,
        *,
        is_played: bool,
    ) -> None:
        self.servers = servers
        self.offers: Offers = ()
        self.is_played = is_played
        self._set = ServerSet({} if is_played else servers)
        self._registry = registry
        self._crew = crew
        self._tools: tuple[Tool, ...] = ()
        self._opening = asyncio.Lock()
        if self._set:
            check_installed()

    def state_of(self, name: str) -> str:
        """Whether a server is running."""
        return "played" if self.is_played else self._set.state_of(name)

    @property
    def knows_all(self) -> bool:
        """Whether every tool is known that a server may have."""
        return self._set.knows_all

    async def open(self, flow: str, config: GraphConfig | None = None) -> None:
        """Start the servers that a run needs and that are not running, and offer their tools.

        A run needs a server if an agent of its flow may be offered its tools: it is named for them, or configured to
        have them, if only by `all`. A graph of a user's own needs none, and where runs are played nobody does.

        Args:
            flow: The run's flow.
            config: What the run was begun with; None for what is configured now.

        Errors: `UsageError` for servers that cannot be started, or are configured with names that are not known.
        """
        if not self._set or flow not in {RESEARCH, PLAN, COMPOSE}:
            return
        async with self._opening:
            agents = self._crew.agents
            self._check_agents(agents)
            own = set(map(id, self._tools))
            taken = [entry.name for entry in self._registry if id(entry) not in own]
            lead = next(iter(agents))
            at_work = self._crew.of_flow(flow, config)
            needed = [name for name, server in self.servers.items() if self._is_needed(server, lead, at_work, taken)]
            offers = await self._set.offers(taken, lead, needed)
            if offers != self.offers:  # with what is read back, a replay has the same tools to the letter
                kept = from_text(to_text(offers))
                self._offer(offers, await asyncio.to_thread(lambda: [tool_of(offer, self._call) for offer in kept]))

    def _is_needed(self, server: McpServer, lead: str, agents: Mapping[str, BaseAgent], known: Collection[str]) -> bool:
        """Whether one of the agents may be offered the server's tools, of which the names may not be known yet."""
        if any(name in agents for name in server.agents or (lead,)):
            return True
        others = {offer.name for offer in self.offers if offer.server != server.name}
        categories = {entry.category for entry in self._registry} - {MCP}
        specs = {spec for agent in agents.values() for spec in agent.config.required_tools}
        return bool(specs - set(known) - others - categories)

    def _check_agents(self, agents: Mapping[str, BaseAgent]) -> None:
        for server in self.servers.values():
            if not server.disabled and (unknown := [name for name in server.agents if name not in agents]):
                known = ", ".join(agents)
                raise UsageError(f"mcp.{server.name}.agents names {unknown[0]!r}; the agents are: {known}.")

    async def _call(self, offer: Offer, arguments: Mapping[str, Any]) -> ToolResult:
        if self.is_played:
            raise ToolError(f"This run is played, and no call goes to the MCP server {offer.server}.")
        return await self._set.call(offer, arguments)

    def as_recorded(self, manifest: Manifest) -> None:
        """Offer what was offered to a recorded run, where runs are played: those at the same time have the same.

        Errors: `CassetteError` if it cannot be read.
        """
        if not self.is_played:
            return
        offers = from_text(manifest["mcp"]) if manifest.get("mcp") else ()
        if offers != self.offers:
            self._offer(offers, [tool_of(offer, self._call) for offer in offers])

    def _offer(self, offers: Offers, tools: list[Tool]) -> None:
        """Put these tools in the place of those before."""
        before, self.offers, self._tools = self._tools, offers, tuple(tools)
        to_agents: dict[str, list[str]] = {}
        for offer, tool in zip(offers, tools, strict=True):
            for agent in offer.agents:
                to_agents.setdefault(agent, []).append(tool.name)
        self._crew.exchange_tools(before, tools, to_agents)

    def manifest(self) -> Manifest:
        """What a run's manifest says of servers; nothing if there are none."""
        return {"mcp": to_text(self.offers)} if self.offers else {}

    async def aclose(self) -> None:
        """End what was started."""
        await self._set.aclose()
