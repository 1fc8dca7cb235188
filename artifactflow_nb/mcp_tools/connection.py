"""A session with a server, held by a task of its own: what the SDK enters in a task it has to leave in that task.

::

    open ──> a task starts the server, says hello ──> calls, from any task ──> close, or the server ends
                     └──> it cannot be started: one error that says why

The process of a server that is started gets no terminal and nothing of the environment but PATH, HOME and the like.
"""

import asyncio
import contextlib
import json
import logging
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.mcp_servers import HIDDEN, McpServer
from artifactflow_nb.mcp_tools.heard import HeardStream, Tail, hidden_in_logs
from artifactflow_nb.mcp_tools.offers import Listed
from artifactflow_nb.text.cards import visible
from artifactflow_nb.text.width import clip

MOST_TOOLS = 1_000
"""How many tools of a server are listed; no model could choose among more."""

_CLOSES_WITHIN_S = 6.0
_CONNECT_S = 30.0
_SSE_READ_S = 300.0
_PROBLEM_CHARS = 400

logging.getLogger("mcp").addHandler(logging.NullHandler())
# Without a handler, Python prints warnings to standard error: from the engine's thread, below whatever cell comes next.


def check_installed() -> None:
    """Raise `UsageError`, which says what to install, where the SDK is missing."""
    try:
        is_there = find_spec("mcp") is not None
    except (ImportError, ValueError):  # it is kept from being imported
        is_there = False
    if not is_there:
        raise UsageError("MCP servers need a library that is not installed: pip install 'artifactflow-nb[mcp]'.")


async def load_sdk() -> None:
    """Import the SDK, which takes half a second, while the loop goes on."""
    for name in ("mcp.client.client", "jsonschema", "httpx2"):
        await asyncio.to_thread(import_module, name)


class Connection:
    """A session, from its beginning on; it can be used once it is `ready`.

    Args:
        server: The server, with the variables of the environment put in.
        secrets: What must not be told of it.
    """

    def __init__(self, server: McpServer, secrets: tuple[str, ...]) -> None:
        self._server = server
        self._secrets = secrets
        self._ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._leave = asyncio.Event()
        self._scope: Any = None
        self._tail = Tail()
        self._n_calls = 0
        self._has_ended = False
        self._is_retired = False
        self._wrote_garbage = False
        self._status = ""
        self._task = asyncio.create_task(self._hold(), name=f"mcp {server.name}")

    async def ready(self) -> None:
        """Wait until the server has answered; `ToolError` says why it did not. Who is cancelled here ends it."""
        try:
            await asyncio.shield(self._ready)
        except BaseException:
            await self.close()
            raise

    @property
    def is_usable(self) -> bool:
        """Whether further calls can go to it."""
        return not (self._has_ended or self._is_retired or self.is_over)

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is left."""
        return self._task.done()

    async def _hold(self) -> None:
        """Hold the session from its beginning to its end; nothing is raised, but told to those who wait."""
        import anyio

        try:
            with hidden_in_logs(self.hidden), anyio.fail_after(self._server.start_timeout_s) as self._scope:
                if self._leave.is_set():  # whoever wanted it is gone
                    return
                async with self._client() as client:
                    self._scope.deadline = math.inf
                    self._ready.set_result(client)
                    await self._leave.wait()
                    self._scope.deadline = anyio.current_time() + _CLOSES_WITHIN_S
        except BaseException as error:  # noqa: BLE001 - what the SDK raises in a group of tasks can be anything
            self._refuse(self._not_started(error))
        finally:
            self._refuse(f"The MCP server {self._server.name} was closed before it answered.")
            self._has_ended = True
            self._tail.close()

    def _refuse(self, why: str) -> None:
        if not self._ready.done():
            self._ready.set_exception(ToolError(why))
            self._ready.exception()  # nobody may be there any more who takes it

    def _client(self) -> AbstractAsyncContextManager[Any]:
        from mcp.client.client import Client

        client: AbstractAsyncContextManager[Any] = Client(self._streams(), message_handler=self._hear, cache=None)
        return client

    @asynccontextmanager
    async def _streams(self) -> AsyncIterator[Any]:
        """The SDK's streams to the server, with an ear on their end."""
        async with self._transport() as (read, write):
            self._tail.close()  # the process has its own end of it now
            yield HeardStream(read, self._end), write

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        server = self._server
        if server.command is not None:
            from mcp.client.stdio import StdioServerParameters, stdio_client

            env = {name: value.get_secret_value() for name, value in server.env.items()}
            started = StdioServerParameters(command=server.command, args=list(server.args), env=env, cwd=server.cwd)
            async with stdio_client(started, errlog=self._tail.open()) as streams:
                yield streams
            return
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        headers = {name: value.get_secret_value() for name, value in server.headers.items()}
        waits = httpx2.Timeout(_CONNECT_S, read=max(_SSE_READ_S, server.timeout_s))
        async with (
            httpx2.AsyncClient(headers=headers, timeout=waits, event_hooks={"response": [self._note_status]}) as http,
            streamable_http_client(server.url or "", http_client=http) as streams,
        ):
            yield streams

    async def _note_status(self, response: Any) -> None:
        """Keep the status that a message was refused with: the SDK's errors do not tell it."""
        if response.request.method == "POST":
            self._status = f"{response.status_code} {response.reason_phrase}" if response.is_error else ""

    async def _hear(self, message: object) -> None:
        """Take what the server says without being asked; of what is no message, the SDK gives the error."""
        self._wrote_garbage = self._wrote_garbage or isinstance(message, Exception)

    def _end(self) -> None:
        """Note that the server has ended, or hung up."""
        self._has_ended = True
        self._leave.set()

    async def list_tools(self) -> list[Listed]:
        """The tools that it lists; `ToolError` if it does not, or not in time."""
        found: list[Listed] = []
        try:
            async with asyncio.timeout(self._server.start_timeout_s):
                client, cursor = await asyncio.shield(self._ready), None
                while len(found) < MOST_TOOLS:
                    page = await client.list_tools(cursor=cursor)
                    found += [Listed(one.name, one.description or "", one.input_schema) for one in page.tools]
                    if (cursor := page.next_cursor) is None:
                        break
        except Exception as error:  # noqa: BLE001 - whatever the SDK makes of what the server says
            raise ToolError(self._problem("does not list its tools", error)) from None
        return [self._unsecret(one) for one in found[:MOST_TOOLS]]

    def _unsecret(self, one: Listed) -> Listed:
        """A tool without the secrets in what is said of it; of a schema with one, nothing is left."""
        schema = json.dumps(one.schema)
        kept = self.hidden(schema)
        return Listed(self.hidden(one.name), self.hidden(one.description), one.schema if kept == schema else {})

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """What the server answers to a call, the SDK's `CallToolResult`.

        Errors: `ToolError` if it does not answer; where it has ended, this is not usable any more.
        """
        self._n_calls += 1
        try:
            client = await asyncio.shield(self._ready)
            return await client.call_tool(tool, dict(arguments))
        except Exception as error:  # noqa: BLE001 - the same
            if self._is_lost(error):
                self._is_retired = True
                await asyncio.wait([self._task], timeout=0.2)  # what it wrote last may still be on its way
                why = self._problem("ended while it was called, and nobody knows whether the call took effect", error)
            else:
                why = self._problem("refused the call", error)
            raise ToolError(why) from None
        finally:
            self._n_calls -= 1
            self._leave_if_done()

    def retire(self) -> None:
        """Let no further call go to it; it ends when those that are under way are over."""
        self._is_retired = True
        self._leave_if_done()

    def _leave_if_done(self) -> None:
        if self._is_retired and not self._n_calls:
            self._leave.set()

    def _is_lost(self, error: Exception) -> bool:
        import anyio
        from mcp_types import CONNECTION_CLOSED

        if self._has_ended or getattr(error, "code", None) == CONNECTION_CLOSED:
            return True
        return isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError | OSError)

    async def close(self) -> None:
        """End the session, and with it the server if it was started here, whoever asks meanwhile to stop waiting."""
        self._leave.set()
        if not self._ready.done() and self._scope is not None:
            self._scope.cancel()
        while not self._task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([self._task])

    # --- what is told of it ------------------------------------------------------------------------------------------

    def hidden(self, text: str) -> str:
        """A text without the secrets of the server."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text

    def _not_started(self, error: BaseException) -> str:
        what = "could not be reached" if self._server.url else "could not be started"
        why = self._problem(what, error)
        return f'{why} Check mcp.{self._server.name}, or leave it out with "disabled": true.'

    def _problem(self, what: str, error: BaseException) -> str:
        server = self._server
        told = [f"The MCP server {server.name} ({server.way}) {what}: {self._reason(error)}."]
        if self._wrote_garbage:
            told.append("It writes to its standard output what is no message of the protocol.")
        if tail := self._tail.text():
            told.append(f'Its last words: "{tail}".')
        return self.hidden(" ".join(told))

    def _reason(self, error: BaseException) -> str:
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, FileNotFoundError) and self._server.command is not None:
            return "there is no such program or folder; install it, or give its full path"
        if isinstance(error, TimeoutError):
            return f"it did not answer within {self._server.start_timeout_s:g} s"
        said = clip(" ".join(visible(str(error)).split()), _PROBLEM_CHARS).rstrip(".") or type(error).__name__
        return f"{said}, with the status {self._status}" if self._status else said
