"""Pool of an engine's MCP servers: started on demand, restarted if they end, closed with the engine.

A server that ends repeatedly is started at most three times; its calls then fail at once until the next run starts.
"""

import asyncio
import json
import os
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from artifactflow_nb.core.local_files import absolute_path
from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.core.text.cards import escape_invisible
from artifactflow_nb.core.text.format import base64_size, clip, count, media_placeholder
from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.tools.base import AskPerson, unlimited
from artifactflow_nb.tools.mcp.config import McpServer
from artifactflow_nb.tools.mcp.connection import McpConnection, SessionLost, load_sdk
from artifactflow_nb.tools.mcp.offers import ListedTool, McpToolOffer, McpToolOffers, build_offers
from artifactflow_nb.tools.mcp.schema import normalize_schema, params_model, server_arguments

MAX_STARTS = 3
"""Maximum number of starts without a successful call in between."""

MAX_RESULT_CHARS = 1_000_000
"""Maximum length of a stored result; the prompt has the usual lower limit of tools."""

_RUNNING = "running"
_PROBLEM_CHARS, _TITLE_CHARS = 400, 60


class McpServerPool:
    """Servers, each with at most one active session.

    Args:
        servers: The configured servers by name; disabled servers are ignored.
    """

    def __init__(self, servers: Mapping[str, McpServer]) -> None:
        # The folder in which a program starts is made absolute now, so that `os.chdir` does not change it.
        self._servers = {
            name: _ManagedServer(
                server
                if server.command is None
                else server.model_copy(update={"cwd": absolute_path(server.cwd or ".")})
            )
            for name, server in servers.items()
            if not server.disabled
        }

    def __bool__(self) -> bool:
        return bool(self._servers)

    def server_state(self, name: str) -> str:
        """Return the state of a server: `running`, `not started`, `ended` or `disabled`."""
        managed = self._servers.get(name)
        return "disabled" if managed is None else managed.state

    @property
    def is_fully_listed(self) -> bool:
        """Whether every server has listed its tools."""
        return all(managed.listed_tools is not None for managed in self._servers.values())

    async def offers(self, used_names: Collection[str], lead_agent: str, needed: Collection[str]) -> McpToolOffers:
        """Return the offers of the needed servers, which are started together, and of servers that listed their tools.

        The arguments `used_names` and `lead_agent` are explained in `build_offers`.

        Errors: `UsageError` for servers that cannot be started, each with the reason and a remedy.
        """
        servers = [
            managed for name, managed in self._servers.items() if name in needed or managed.listed_tools is not None
        ]
        lists = (managed.list_tools(may_restart=managed.server.name in needed) for managed in servers)
        results = await asyncio.gather(*lists, return_exceptions=True)
        # All problems are in one error, so that the person can correct them together.
        problems = [str(result) for result in results if isinstance(result, ToolError | UsageError)]
        if problems:
            raise UsageError("\n".join(problems))
        tools_by_server: list[tuple[McpServer, Sequence[ListedTool]]] = []
        for managed, result in zip(servers, results, strict=True):
            if isinstance(result, BaseException):
                raise result
            tools_by_server.append((managed.server, result))
        return build_offers(tools_by_server, used_names, lead_agent)

    async def call(self, offer: McpToolOffer, arguments: Mapping[str, Any], ask: AskPerson) -> ToolResult:
        """Call a tool; `ToolError` if the server cannot be started or does not answer."""
        return await self._servers[offer.server].call(offer.tool, arguments, ask)

    async def aclose(self) -> None:
        """End all sessions and the server processes of this pool."""
        await asyncio.gather(*(managed.close() for managed in self._servers.values()))


class _ManagedServer:
    """One server with its active session and with retired sessions that finish their calls.

    Attributes:
        listed_tools: The tools that the server listed after its latest start, or None before the first start.
    """

    def __init__(self, server: McpServer) -> None:
        self.server = server
        self._lock = asyncio.Lock()
        self._connections: list[McpConnection] = []
        self.listed_tools: list[ListedTool] | None = None
        self._n_starts = 0
        self._is_closed = False

    @property
    def state(self) -> str:
        if not self._connections:
            return "not started"
        return _RUNNING if self._connections[-1].is_usable else "ended"

    async def list_tools(self, *, may_restart: bool) -> list[ListedTool]:
        """Return the tools of the server, which is started if necessary, and reset the count of starts.

        If `may_restart` is false, tools listed earlier are returned even if the server has ended.
        """
        if not may_restart and self.listed_tools is not None:
            return self.listed_tools
        if self.state != _RUNNING:
            self._n_starts = 0
        connection = await self._connection()
        async with self._lock:
            if self.listed_tools is None:
                self.listed_tools = await connection.list_tools()
            return self.listed_tools

    async def call(self, tool: str, arguments: Mapping[str, Any], ask: AskPerson) -> ToolResult:
        """Call a tool; `ToolError` if the server does not answer in time."""
        connection = await self._connection()
        limit = asyncio.timeout(self.server.timeout_s)
        elicit = partial(answer_question, self.server.name, unlimited(limit, ask))
        try:
            async with limit:
                try:
                    answer = await connection.call(tool, arguments, elicit)
                except SessionLost:
                    connection = await self._connection()
                    answer = await connection.call(tool, arguments, elicit)
        except TimeoutError:
            if not limit.expired():
                raise
            connection.retire()  # a call that hangs may block the whole server; the next call starts another server
            seconds = f"{self.server.timeout_s:g} s"
            raise ToolError(
                f"The MCP server {self.server.name} did not answer within {seconds}, and it is unknown whether the "
                "call took effect."
            ) from None
        self._n_starts = 0
        content, structured = answer.get("content", []), answer.get("structuredContent")
        if content or structured is None:
            text = "\n\n".join(filter(None, map(_part_text, content)))
        else:
            text = json.dumps(structured, ensure_ascii=False)
        if (n_more := len(text) - MAX_RESULT_CHARS) > 0:
            text = f"{text[:MAX_RESULT_CHARS]}\n[{count(n_more, 'more character')} left out]"
        text = connection.redact(text)
        metadata = {"server": self.server.name}
        if answer.get("isError"):
            error = text or "The tool failed without saying why."
            return ToolResult(success=False, error=error, metadata={**metadata, "error_type": "McpError"})
        return ToolResult(success=True, data=text, metadata=metadata)

    async def _connection(self) -> McpConnection:
        """Return the active session, or start a session."""
        async with self._lock:
            if self._connections and self._connections[-1].is_usable:
                return self._connections[-1]
            if self._is_closed:
                raise ToolError(f"The MCP server {self.server.name} is closed with its workbench.")
            if self._n_starts >= MAX_STARTS:
                raise ToolError(
                    f"The MCP server {self.server.name} was started {MAX_STARTS} times and ended each time. It is not "
                    "started again in this run; continue without it."
                )
            self._n_starts += 1
            self.listed_tools = None
            server = self.server.with_environment(os.environ)
            await load_sdk()
            connection = McpConnection(server, self.server.secrets(os.environ))
            self._connections = [*(open_ for open_ in self._connections if not open_.is_closed), connection]
            await connection.wait_ready()
            return connection

    async def close(self) -> None:
        """End all sessions, including a session that is just starting."""
        self._is_closed = True
        await asyncio.gather(*(connection.close() for connection in self._connections))


# --- questions and results -------------------------------------------------------------------------------------------


async def answer_question(server: str, ask: AskPerson, question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the person's answer to a question of a server; question and answer have the form of the protocol.

    The fields of the question are the parameters of the request. A person who gave an invalid answer is asked again.
    """
    words = " ".join(escape_invisible(str(question["message"])).split())
    about = {"tool": f"MCP server {server}", "title": f"The MCP server {server} asks: {words}"}
    preview = f"{words}\n\n" if len(words) > _TITLE_CHARS else ""
    if (url := question.get("url")) is not None:
        preview += f"Open this address and come back: <{url}>"
        decision = await ask(**about, preview=preview, allowed=("approved", "denied"))
        return {"action": "accept" if decision.approved else "decline"}
    source = question["requestedSchema"]
    schema, renamed = normalize_schema(source)
    model, required = params_model("answer", schema), schema["required"]
    empty: Mapping[Any, Any] = {"boolean": False, "array": []}
    values = {name: prop.get("default", empty.get(prop.get("type"), "")) for name, prop in schema["properties"].items()}
    for name, field in schema["properties"].items():
        choices = field.get("enum") or [each.get("const") for each in field.get("oneOf", ())]
        about_field = [field.get("description"), f"one of {', '.join(map(str, choices))}" if choices else ""]
        kind = f"{field.get('format') or field.get('type', 'text')}{'' if name in required else ', optional'}"
        preview += f"- **{name}** ({kind}): {'; '.join(filter(None, about_field)) or name}\n"
    problem = ""
    while True:
        decision = await ask(
            **about, params=values, preview=preview, message=problem, allowed=("approved", "edited", "denied")
        )
        if not decision.approved:
            return {"action": "decline"}
        values = dict(values if decision.params is None else decision.params)
        filled = {name: value for name, value in values.items() if value not in (None, "")}
        try:
            bound = model.model_validate(filled)
            content = server_arguments(
                schema, renamed, {name: getattr(bound, name) for name in type(bound).model_fields}
            )
            import_module("jsonschema").validate(content, source)
        except ValidationError as error:
            problem = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        except Exception as error:  # noqa: BLE001 - the schema of a server can be anything
            problem = str(getattr(error, "message", error))
        else:
            return {"action": "accept", "content": content}
        problem = f"The answer did not fit. {clip(problem, _PROBLEM_CHARS)}"


def _part_text(part: Mapping[str, Any]) -> str:
    """Return a text part unchanged, another part as a placeholder with its type and size."""
    match part:
        case {"type": "text", "text": text}:
            return str(text)
        case {"type": "image" | "audio" as kind, "mimeType": mime_type, "data": data}:
            return media_placeholder(kind, mime_type, data)
        case {"type": "resource", "resource": {"uri": uri, "text": text}}:
            return f"[{uri}]\n{text}"
        case {"type": "resource", "resource": {"uri": uri, "blob": blob} as resource}:
            kind, size = resource.get("mimeType") or "of no type", base64_size(blob)
            return f"[file {uri}, {kind}, {size}; it cannot be shown here]"
        case {"type": "resource_link", "uri": uri, "name": name}:
            about = ", ".join(filter(None, (part.get("title") or name, part.get("mimeType"), part.get("description"))))
            return f"[file {uri}: {about}]"
    return f"[{part['type']}; it cannot be shown here]"
