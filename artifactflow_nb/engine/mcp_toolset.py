"""The tools that MCP servers offer to the agents of an engine."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any

from artifactflow_nb.agents.base import BaseAgent
from artifactflow_nb.agents.settings import GraphConfig
from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.engine.agent_registry import AgentRegistry
from artifactflow_nb.engine.manifest import Manifest
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.tools.base import AskPerson, Tool
from artifactflow_nb.tools.mcp.config import McpServer
from artifactflow_nb.tools.mcp.connection import check_installed
from artifactflow_nb.tools.mcp.offers import (
    McpToolOffer,
    McpToolOffers,
    offers_from_json,
    offers_to_json,
    tool_from_offer,
)
from artifactflow_nb.tools.mcp.servers import McpServerPool
from artifactflow_nb.tools.registry import MCP, ToolRegistry


class McpToolset:
    """Starts the MCP servers that runs need, and offers their tools to agents.

    `mask` masks known secrets in tool descriptions.

    Attributes:
        servers: The configured servers by name.
        offers: The tools that the servers currently offer to agents.

    Errors: `UsageError` if servers are configured and the library for MCP is not installed.
    """

    def __init__(
        self,
        servers: Mapping[str, McpServer],
        registry: ToolRegistry,
        agent_registry: AgentRegistry,
        *,
        mask: Callable[[str], str] = str,
    ) -> None:
        self.servers = servers
        self.offers: McpToolOffers = ()
        self._mask = mask
        self._set = McpServerPool(servers)
        self._registry = registry
        self._agent_registry = agent_registry
        self._tools: tuple[Tool, ...] = ()
        self._opening = asyncio.Lock()
        if self._set:
            check_installed()

    def server_state(self, name: str) -> str:
        """Return the state of a server, such as `running`."""
        return self._set.server_state(name)

    @property
    def is_fully_listed(self) -> bool:
        """Whether the tools of all servers are known."""
        return self._set.is_fully_listed

    async def open(self, flow: str, config: GraphConfig | None = None) -> None:
        """Start the servers that a run needs and that are not running, and offer their tools.

        A run needs a server if the server names an agent of the run's flow, or if an agent of the flow is configured to
        have tools of the server, if only by `all`. An adapted graph needs no server. `config` is the configuration of
        the run; None for the current configuration.

        Errors: `UsageError` for servers that cannot be started, or that name unknown agents.
        """
        if not self._set or flow not in self._agent_registry.flows:
            return
        async with self._opening:
            agents = self._agent_registry.agents
            for server in self.servers.values():
                if not server.disabled and (unknown := [name for name in server.agents if name not in agents]):
                    names = ", ".join(agents)
                    raise UsageError(f"mcp.{server.name}.agents names {brief(unknown[0])}; the agents are: {names}.")
            own = set(map(id, self._tools))
            reserved = [entry.name for entry in self._registry if id(entry) not in own]
            lead = next(iter(agents))
            of_flow = self._agent_registry.agents_of_flow(flow, config)
            needed = [name for name, server in self.servers.items() if self._is_needed(server, lead, of_flow, reserved)]
            offers = await self._set.offers(reserved, lead, needed)
            text = offers_to_json(offers)
            if (masked := self._mask(text)) != text:  # a description may contain the arguments of the server
                text, offers = masked, offers_from_json(masked)
            if offers != self.offers:
                stored = offers_from_json(text)
                tools = await asyncio.to_thread(lambda: [tool_from_offer(offer, self._call) for offer in stored])
                before, self.offers, self._tools = self._tools, offers, tuple(tools)
                to_agents: dict[str, list[str]] = {}
                for offer, tool in zip(offers, tools, strict=True):
                    for agent in offer.agents:
                        to_agents.setdefault(agent, []).append(tool.name)
                self._agent_registry.replace_tools(before, tools, to_agents)

    def _is_needed(self, server: McpServer, lead: str, agents: Mapping[str, BaseAgent], known: Collection[str]) -> bool:
        """Return whether an agent may get tools of the server; the names of the tools may not be known yet."""
        if any(name in agents for name in server.agents or (lead,)):
            return True
        others = {offer.name for offer in self.offers if offer.server != server.name}
        categories = {entry.category for entry in self._registry} - {MCP}
        specs = {spec for agent in agents.values() for spec in agent.config.required_tools}
        return bool(specs - set(known) - others - categories)

    async def _call(self, offer: McpToolOffer, arguments: Mapping[str, Any], ask: AskPerson) -> ToolResult:
        return await self._set.call(offer, arguments, ask)

    def manifest(self) -> Manifest:
        """Return the servers' entry for a run's manifest; the entry is empty if there are no servers."""
        return {"mcp": offers_to_json(self.offers)} if self.offers else {}

    async def aclose(self) -> None:
        """Stop the servers."""
        await self._set.aclose()
