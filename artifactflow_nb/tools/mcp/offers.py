"""Offers of MCP tools to agents, and repair of invalid tool lists.

A run stores its offers, so that a replay has the same tools without a server. The SDK rejects a whole list for one
invalid tool; `ToolListRepair` repairs the list before the SDK parses it.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.core.text.cards import escape_invisible
from artifactflow_nb.errors import CassetteError, UsageError
from artifactflow_nb.store.encoding import to_json
from artifactflow_nb.tools.base import AskPerson, Tool, ToolContext, ToolPermission
from artifactflow_nb.tools.mcp.config import McpServer, Permission
from artifactflow_nb.tools.mcp.schema import (
    MAX_NAME_CHARS,
    identifier,
    normalize_schema,
    params_model,
    server_arguments,
    unused_name,
)
from artifactflow_nb.tools.registry import GROUP_NAMES, MCP

_POOL_FIRST_S = 1.0  # the pool stops a slow call first, because it can name the server
_MAX_DESCRIPTION_CHARS = 4_000


@dataclass(frozen=True, slots=True)
class ListedTool:
    """A tool in the list of a server.

    Attributes:
        schema: The server's schema of the parameters, which may be invalid.
    """

    name: str
    description: str
    schema: Any


class McpToolOffer(BaseModel):
    """A tool of a server in the form for agents.

    Attributes:
        parameters: The parameters, as `normalize_schema` returns them.
        renamed: The server's names of renamed parameters.
        permission: Whether a person must approve each call.
        timeout_s: Time limit of a call in seconds, including a restart of the server.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=rf"^[A-Za-z][A-Za-z0-9_]{{0,{MAX_NAME_CHARS - 1}}}$")
    server: str
    tool: str
    description: str
    parameters: dict[str, Any]
    renamed: dict[str, str] = Field(default_factory=dict)
    permission: Permission
    agents: tuple[str, ...]
    timeout_s: float = Field(gt=0)


McpToolOffers = tuple[McpToolOffer, ...]
CallTool = Callable[[McpToolOffer, Mapping[str, Any], AskPerson], Awaitable[ToolResult]]
"""Executes a call: the offer, the arguments by the server's names, and the function that asks the person."""

_READER: TypeAdapter[McpToolOffers] = TypeAdapter(McpToolOffers)


def build_offers(
    listed: Sequence[tuple[McpServer, Sequence[ListedTool]]], used_names: Collection[str], lead_agent: str
) -> McpToolOffers:
    """Build the offers of the listed tools, in this order.

    A tool keeps its name, with `_` in place of invalid characters. If the name is used by another tool or reserved
    (`all`, `core`, `mcp`), the tool is called `server_tool`, with a number if necessary.

    Args:
        listed: The servers, each with its tools.
        used_names: Names of tools that do not belong to MCP servers.
        lead_agent: The agent that gets the tools of servers without configured agents.

    Errors: `UsageError` for a configuration that names tools that the server does not have.
    """
    used: list[tuple[McpServer, ListedTool]] = []
    for server, tools in listed:
        by_name = {tool.name: tool for tool in tools}
        permissions = () if isinstance(server.permission, str) else server.permission
        for setting, configured in (("tools", server.tools or ()), ("permission", permissions)):
            if missing := [name for name in configured if name not in by_name]:
                offered = ", ".join(sorted(escape_invisible(name)[:MAX_NAME_CHARS] for name in by_name)) or "none"
                raise UsageError(
                    f"mcp.{server.name}.{setting} names {missing[0]!r}; the server's tools are: {offered}."
                )
        used += [(server, by_name[name]) for name in (by_name if server.tools is None else server.tools)]
    frequencies = Counter(identifier(tool.name, "tool") for _, tool in used)
    names = {*used_names, *GROUP_NAMES}
    offers = []
    for server, tool in used:
        name = identifier(tool.name, "tool")
        if frequencies[name] > 1 or name in used_names or name in GROUP_NAMES:
            name = identifier(f"{server.name}_{tool.name}", "tool")
        name = unused_name(name, names)
        names.add(name)
        parameters, renamed = normalize_schema(tool.schema)
        description = escape_invisible(tool.description.strip())[:_MAX_DESCRIPTION_CHARS]
        offers.append(
            McpToolOffer(
                name=name,
                server=server.name,
                tool=tool.name,
                description=description or f"A tool of the MCP server {server.name}, which does not say what it does.",
                parameters=parameters,
                renamed=renamed,
                permission=server.permission_for(tool.name),
                agents=server.agents or (lead_agent,),
                timeout_s=server.start_timeout_s + server.timeout_s + _POOL_FIRST_S,
            )
        )
    return tuple(offers)


def tool_from_offer(offer: McpToolOffer, call: CallTool) -> Tool:
    """Create the tool of an offer; `call` sends its calls."""

    async def handler(ctx: ToolContext, /, **values: Any) -> ToolResult:
        return await call(offer, server_arguments(offer.parameters, offer.renamed, values), ctx.ask)

    return Tool(
        offer.name,
        offer.description,
        params_model(offer.name, offer.parameters),
        handler,
        ToolPermission(offer.permission),
        MCP,
        timeout_s=offer.timeout_s,
        preview=lambda _ctx, _args: f"The call goes to the MCP server {offer.server}.",
    )


# --- serialization ---------------------------------------------------------------------------------------------


def offers_to_json(offers: McpToolOffers) -> str:
    """Serialize offers; the order of parameters is preserved, since the manual has the same order."""
    return to_json([offer.model_dump() for offer in offers])


def offers_from_json(text: object) -> McpToolOffers:
    """Read the text of `offers_to_json`; `CassetteError` for an invalid text."""
    try:
        offers = _READER.validate_json(text if isinstance(text, str) else "")
        # The parameters are normalized again, since a recording may have been edited.
        return tuple(offer.model_copy(update={"parameters": normalize_schema(offer.parameters)[0]}) for offer in offers)
    except (ValidationError, ValueError) as error:
        raise CassetteError(
            f"The recorded tools of MCP servers cannot be read: {str(error).splitlines()[0]:.200}. Record them again."
        ) from None


class _SdkSchema(BaseModel):
    """The schemas that the SDK accepts."""

    type: Literal["object"]
    properties: dict[str, Any] = Field(default_factory=dict)
    required: list[str] = Field(default_factory=list)


class ToolListRepair:
    """Repairs tool lists of a server and stores the original schemas.

    A tool with an invalid schema gets an empty schema; a tool without a name is removed.

    Attributes:
        schemas: Original schemas of the repaired tools, by name.
    """

    def __init__(self) -> None:
        self.schemas: dict[str, Any] = {}

    def repair(self, message: Any) -> None:
        """Repair the tool list in a message; other messages are left unchanged."""
        inner = getattr(message, "message", None)
        result = getattr(getattr(inner, "root", inner), "result", None)  # version 1 of the SDK wraps lists in `root`
        if not isinstance(result, dict) or not isinstance(result.get("tools"), list):
            return
        repaired = []
        for entry in result["tools"]:
            if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str):
                continue
            tool = dict(entry)
            self.schemas.pop(tool["name"], None)
            if not isinstance(tool.get("description", ""), str):
                del tool["description"]
            schema = tool.get("inputSchema")
            try:
                _SdkSchema.model_validate(schema, strict=True)
            except ValidationError:
                self.schemas[tool["name"]], tool["inputSchema"] = schema, {"type": "object"}
            repaired.append(tool)
        result["tools"] = repaired
