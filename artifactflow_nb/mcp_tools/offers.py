"""What servers offer: values that a run keeps, so that its replay has the same tools without any server."""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from artifactflow_nb.errors import CassetteError, UsageError
from artifactflow_nb.mcp_servers import McpServer, Permission
from artifactflow_nb.mcp_tools.schema import LONGEST_NAME, Schema, arguments_of, identifier, params_of, told, unused
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.store.storable import to_json
from artifactflow_nb.text.cards import visible
from artifactflow_nb.tools.base import Tool, ToolContext, ToolPermission

CATEGORY = "mcp"
"""The category of all tools of servers."""

_LATER_S = 1.0  # a call that takes too long is stopped where its server is known, before the tool's time is over
_LONGEST_DESCRIPTION = 4_000


@dataclass(frozen=True, slots=True)
class Listed:
    """A tool as a server lists it.

    Attributes:
        name: What the server calls it.
        description: What it says of it.
        schema: What it says of its parameters, which need not be a schema.
    """

    name: str
    description: str
    schema: Any


class Offer(BaseModel):
    """A tool of a server as agents are offered it.

    Attributes:
        name: What agents call it.
        server: The server's name.
        tool: What the server calls it.
        description: What the server says of it.
        parameters: Its parameters, as `schema.told` makes them.
        renamed: The server's names of the parameters that are called otherwise.
        permission: Whether a person is asked before each call.
        agents: Who is offered it.
        timeout_s: Seconds that a call may take, with those in which the server is started anew.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=rf"^[A-Za-z][A-Za-z0-9_]{{0,{LONGEST_NAME - 1}}}$")
    server: str
    tool: str
    description: str
    parameters: dict[str, Any]
    renamed: dict[str, str] = Field(default_factory=dict)
    permission: Permission
    agents: tuple[str, ...]
    timeout_s: float = Field(gt=0)


Offers = tuple[Offer, ...]
Call = Callable[[Offer, Mapping[str, Any]], Awaitable[ToolResult]]
"""Carries out a call: what is called, and the arguments by the names that the server gave them."""

_READER: TypeAdapter[Offers] = TypeAdapter(Offers)


def offers_of(listed: Sequence[tuple[McpServer, Sequence[Listed]]], taken: Collection[str], lead: str) -> Offers:
    """What agents are offered of what servers list, in this order.

    A tool keeps its name, with `_` for what no name may have. If another tool has that name, of another server or of
    the workbench, it is called `server_tool`; if that is no help either, it gets a number.

    Args:
        listed: The servers, each with its tools.
        taken: The names of tools that are no server's.
        lead: The agent that is offered what no agent is named for.

    Errors: `UsageError` for a configuration that names tools which its server does not have.
    """
    used = [(server, one) for server, found in listed for one in _used(server, found)]
    wanted = Counter(identifier(one.name, "tool") for _, one in used)
    names = set(taken)
    offers = []
    for server, one in used:
        name = identifier(one.name, "tool")
        if wanted[name] > 1 or name in taken:
            name = identifier(f"{server.name}_{one.name}", "tool")
        name = unused(name, names)
        names.add(name)
        offers.append(_offer(name, server, one, server.agents or (lead,)))
    return tuple(offers)


def _used(server: McpServer, listed: Sequence[Listed]) -> Iterable[Listed]:
    """The tools that are used, each name once; `UsageError` for a name that is configured and not listed."""
    known = {one.name: one for one in listed}
    named = {"tools": server.tools or (), "permission": () if isinstance(server.permission, str) else server.permission}
    for where, names in named.items():
        if missing := [name for name in names if name not in known]:
            offered = ", ".join(sorted(visible(name)[:LONGEST_NAME] for name in known)) or "none"
            raise UsageError(f"mcp.{server.name}.{where} names {missing[0]!r}; the server's tools are: {offered}.")
    return known.values() if server.tools is None else [known[name] for name in server.tools]


def _offer(name: str, server: McpServer, one: Listed, agents: tuple[str, ...]) -> Offer:
    parameters, renamed = told(one.schema)
    described = visible(one.description.strip())[:_LONGEST_DESCRIPTION]
    return Offer(
        name=name,
        server=server.name,
        tool=one.name,
        description=described or f"A tool of the MCP server {server.name}, which does not say what it does.",
        parameters=parameters,
        renamed=renamed,
        permission=server.permission_of(one.name),
        agents=agents,
        timeout_s=server.start_timeout_s + server.timeout_s + _LATER_S,
    )


def tool_of(offer: Offer, call: Call) -> Tool:
    """The tool that an offer is for an agent."""

    async def handler(_ctx: ToolContext, /, **values: Any) -> ToolResult:
        return await call(offer, arguments_of(offer.parameters, offer.renamed, values))

    return Tool(
        offer.name,
        offer.description,
        params_of(offer.name, offer.parameters),
        handler,
        ToolPermission(offer.permission),
        CATEGORY,
        timeout_s=offer.timeout_s,
        preview=lambda _ctx, _args: f"The call goes to the MCP server {offer.server}.",
    )


# --- as a run keeps them ---------------------------------------------------------------------------------------------


def to_text(offers: Offers) -> str:
    """Offers as JSON; the order of parameters is kept, which is that of the manual that models read."""
    return to_json([offer.model_dump() for offer in offers])


def from_text(text: object) -> Offers:
    """What `to_text` was given; `CassetteError` for a text that it cannot have made."""
    try:
        return tuple(_sound(offer) for offer in _READER.validate_json(text if isinstance(text, str) else ""))
    except (ValidationError, ValueError) as error:
        raise CassetteError(
            f"What MCP servers offered to the recorded run cannot be read: {str(error).splitlines()[0]:.200}. Record "
            "it again."
        ) from None


def _sound(offer: Offer) -> Offer:
    """The offer with parameters that are in the form that a tool is made from, whoever wrote them."""
    parameters: Schema = told(offer.parameters)[0]
    return offer.model_copy(update={"parameters": parameters})
