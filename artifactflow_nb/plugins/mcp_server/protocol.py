"""The tools over stdio or streamable HTTP, with version 1 or 2 of the SDK.

A run belongs to the engine and not to a call, so it goes on when a client is gone. Only `notifications/cancelled` of
the client cancels the run of a call; the end of a connection does not.
"""

import json
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from io import TextIOWrapper
from itertools import product
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from artifactflow_nb import __version__
from artifactflow_nb.errors import UsageError
from artifactflow_nb.plugins.mcp_server.tools import Client, Tools, definitions
from artifactflow_nb.server.access import TOKEN_VARIABLE, Access, reachable_hosts
from artifactflow_nb.server.app import EndingServer, read_body, refuse
from artifactflow_nb.tools.mcp.connection import ObservedStream

types: Any = import_module("mcp.types")
IS_VERSION_2 = not hasattr(Server, "call_tool")

_PATH, _SESSION = "/mcp", "mcp-session-id"
_MOST_CANCELLED, _MOST_PORT, _METHOD_NOT_FOUND = 1_000, 65_535, -32601


class ProtocolServer:
    """Some tools, and the server `sdk` of the SDK for them; results have the same form in both versions."""

    def __init__(self, tools: Tools) -> None:
        self.tools = tools
        self._cancelled: deque[tuple[str, str]] = deque(maxlen=_MOST_CANCELLED)  # sessions and ids of requests
        known = definitions()
        about = {"version": __version__, "instructions": known["instructions"]}
        listed = types.ListToolsResult.model_validate({"tools": [known["tools"][name] for name in tools.names]})

        async def list_tools(*_request: object) -> Any:
            return listed if IS_VERSION_2 else types.ServerResult(listed)

        async def call_tool_1(request: Any) -> Any:
            return types.ServerResult(await self._call_tool(self.sdk.request_context, request.params))

        if IS_VERSION_2:
            about |= {"on_list_tools": list_tools, "on_call_tool": self._call_tool}
        sdk: Any = Server("artifactflow-nb", **about)
        if not IS_VERSION_2:
            sdk.request_handlers |= {types.ListToolsRequest: list_tools, types.CallToolRequest: call_tool_1}
        self.sdk = sdk

    async def _call_tool(self, context: Any, params: Any) -> Any:
        text, value = await self.tools.call(params.name, params.arguments or {}, self._client(context))
        result = {"content": [{"type": "text", "text": text}], "structuredContent": value, "isError": value is None}
        return types.CallToolResult.model_validate(result)

    def _client(self, context: Any) -> Client:
        session, params = context.session, context.session.client_params
        name = params.model_dump(by_alias=True)["clientInfo"]["name"] if params is not None else ""
        key = getattr(context.request, "headers", {}).get(_SESSION, ""), str(context.request_id)

        async def report(step: int, message: str) -> None:
            with suppress(Exception):  # the client is gone, and the SDK may raise anything
                if IS_VERSION_2:
                    await session.report_progress(step, None, message)
                elif (token := context.meta and context.meta.progressToken) is not None:
                    await session.send_progress_notification(token, step, None, message, str(context.request_id))

        return Client(name, report, lambda: key in self._cancelled)

    def observe(self, message: Any, session: str = "") -> None:
        """Remember the request that a message cancels, before the SDK interrupts the call."""
        match message:
            case {"method": "notifications/cancelled", "params": {"requestId": request_id}}:
                self._cancelled.append((session, str(request_id)))


async def serve_stdio(server: ProtocolServer) -> None:
    """Serve one client on standard input and output; return when its last run has ended or waits."""

    def observe(received: Any) -> None:
        message = getattr(received, "message", None)  # an exception for a line that is no message
        message = getattr(message, "root", message)  # of version 1
        server.observe({name: getattr(message, name, None) for name in ("method", "params")})

    lifecycle = server.tools.lifecycle
    await lifecycle.continue_abandoned()
    wire = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what others print must not reach the client
    lines = anyio.wrap_file(TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace"))
    try:
        async with stdio_server(lines, anyio.wrap_file(wire)) as (read, write):
            stream = ObservedStream(read, observe, lambda: None)
            await server.sdk.run(stream, write, server.sdk.create_initialization_options())
    except* (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # the client is gone
    controller = lifecycle.thread.engine.controller
    for run_id in controller.started:
        await lifecycle.call(controller.join(run_id))


@dataclass(frozen=True, slots=True)
class GuardedPath:
    """The path of the server: checks a request as the HTTP interface does, and passes it to the SDK."""

    manager: StreamableHTTPSessionManager
    access: Access
    observe: Any

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        request = Request(scope, receive)
        headers = request.headers
        if problem := self.access.problem(headers.get("host", ""), headers.get("origin")):
            body: Any = refuse(403, "Forbidden", problem)
        elif self.access.user(headers.get("authorization", ""), "", "") is None:
            body = refuse(401, "Unauthorized", "Send the token: Authorization: Bearer <token>.")
        else:
            body = await read_body(request)
        if not isinstance(body, bytes):
            await body(scope, receive, send)
            return
        with suppress(ValueError, RecursionError):  # the SDK refuses the body
            self.observe(json.loads(body), headers.get(_SESSION, ""))
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Any:
            return messages.pop() if messages else await receive()

        await self.manager.handle_request(scope, replay, send)


def serve_http(server: ProtocolServer, address: str, host_names: Sequence[str]) -> None:
    """Serve until the process is stopped; print the address, and the token if there is one."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdecimal() or int(port) > _MOST_PORT:
        raise UsageError(f"--http is {address[:100]!r}; pass [HOST:]PORT, such as 8766 or 0.0.0.0:8766.")
    access = Access.of_users([], host, list(host_names), os.environ.get(TOKEN_VARIABLE) or None)
    if IS_VERSION_2:
        server.sdk.add_request_handler("server/discover", types.RequestParams, _refuse_discovery)
    manager = StreamableHTTPSessionManager(server.sdk)

    @asynccontextmanager
    async def lifespan(_app: object) -> AsyncIterator[None]:
        await server.tools.lifecycle.continue_abandoned()
        async with manager.run():
            yield

    def announce(port: int) -> None:
        for secret, reachable in product(access.tokens.values() or [""], reachable_hosts(host)):
            token = f"  Authorization: Bearer {secret}" if secret else ""
            print(f"http://{reachable}:{port}{_PATH}{token}", flush=True)  # noqa: T201 - the answer of a command

    app = Starlette(routes=[Route(_PATH, GuardedPath(manager, access, server.observe))], lifespan=lifespan)
    EndingServer(app, server.tools.lifecycle, host, int(port), announce).run()


async def _refuse_discovery(_context: object, _params: object) -> None:
    """Make clients open a session: without a session, the end of a client looks like a cancellation."""
    from mcp.shared.exceptions import MCPError

    raise MCPError(code=_METHOD_NOT_FOUND, message="This server needs a session. Send initialize.")
