"""A client of the MCP server, as a program: `python clients.py CLIENT SERVER`, which prints what it got as JSON.

CLIENT is `mcp1` or `mcp2` (the official SDK), `fastmcp` or `langchain` (langchain-mcp-adapters). SERVER is the address
of a server, or a command as a JSON list.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

Call = Callable[..., Awaitable[tuple[str, bool]]]
PROGRESS: list[str] = []


async def note_progress(_progress: float, _total: float | None, message: str | None) -> None:
    PROGRESS.append(message or "")


def stdio(server: str) -> Any:
    from mcp.client.stdio import StdioServerParameters, stdio_client

    command, *args = json.loads(server)
    return stdio_client(StdioServerParameters(command=command, args=args, env=dict(os.environ)))


@asynccontextmanager
async def mcp2(server: str) -> AsyncIterator[tuple[list[str], Call]]:
    from mcp.client.client import Client

    async with Client(server if server.startswith("http") else stdio(server)) as client:

        async def call(name: str, **arguments: Any) -> tuple[str, bool]:
            result = await client.call_tool(name, arguments, progress_callback=note_progress)
            return result.content[0].text, result.is_error

        yield [tool.name for tool in (await client.list_tools()).tools], call


@asynccontextmanager
async def mcp1(server: str) -> AsyncIterator[tuple[list[str], Call]]:
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    transport = streamable_http_client(server) if server.startswith("http") else stdio(server)
    async with transport as (read, write, *_), ClientSession(read, write) as client:
        await client.initialize()

        async def call(name: str, **arguments: Any) -> tuple[str, bool]:
            result = await client.call_tool(name, arguments, progress_callback=note_progress)
            return result.content[0].text, result.isError

        yield [tool.name for tool in (await client.list_tools()).tools], call


@asynccontextmanager
async def fastmcp(server: str) -> AsyncIterator[tuple[list[str], Call]]:
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    if not server.startswith("http"):
        command, *args = json.loads(server)
        server = StdioTransport(command, args, env=dict(os.environ))
    async with Client(server, progress_handler=note_progress) as client:

        async def call(name: str, **arguments: Any) -> tuple[str, bool]:
            result = await client.call_tool(name, arguments, raise_on_error=False)
            return result.content[0].text, result.is_error

        yield [tool.name for tool in await client.list_tools()], call


@asynccontextmanager
async def langchain(server: str) -> AsyncIterator[tuple[list[str], Call]]:
    from langchain_mcp_adapters.client import MultiServerMCPClient
    from langchain_mcp_adapters.tools import load_mcp_tools

    if server.startswith("http"):
        connection: Any = {"transport": "streamable_http", "url": server}
    else:
        command, *args = json.loads(server)
        connection = {"transport": "stdio", "command": command, "args": args, "env": dict(os.environ)}
    async with MultiServerMCPClient({"server": connection}).session("server") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}

        async def call(name: str, **arguments: Any) -> tuple[str, bool]:
            content = await tools[name].ainvoke(arguments)  # an error is a text
            return content if isinstance(content, str) else content[0]["text"], False

        yield list(tools), call


async def main(client: str, server: str) -> None:
    async with globals()[client](server) as (tools, call):
        waiting, _ = await call("research", question="Write a note about herons.")
        pending, _ = await call("pending")
        request = json.loads(pending)["requests"][0]
        report, _ = await call("decide", request_id=request["id"], decision="approved")
        repeated, _ = await call("decide", request_id=request["id"], decision="denied")
        note, _ = await call("read_artifact", run_id=request["run_id"], artifact_id="note")
        found = {
            "tools": tools,
            "waiting": waiting,
            "request": request,
            "report": report,
            "repeated": repeated,
            "note": json.loads(note)["content"],
            "progress": PROGRESS,
        }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
