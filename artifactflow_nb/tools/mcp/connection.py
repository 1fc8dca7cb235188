"""A session with an MCP server, in its own task, because the SDK must exit its contexts in the task that entered them.

::

    open ──> a task starts and initialises the server ──> calls, from any task ──> close, or the server ends
                     └──> the start fails: one error with the reason

A started process has no terminal, and its environment has only PATH, HOME and similar variables. The session observes
the server's answers, standard error and log messages, and the end of the connection.
"""

import asyncio
import contextlib
import json
import logging
import math
import os
import threading
import traceback
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Self

from artifactflow_nb.core.redaction.names import MASK
from artifactflow_nb.core.text.cards import escape_invisible
from artifactflow_nb.core.text.format import clip
from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.tools.mcp.config import McpServer
from artifactflow_nb.tools.mcp.offers import ListedTool, ToolListRepair

_TAIL_CHARS = 600
_READ_BYTES = 4096
_LOGGERS = (
    "mcp.client.streamable_http", "mcp.client.stdio", "mcp.shared.jsonrpc_dispatcher", "httpx2",
    "httpx", "mcp.server.lowlevel.server", "root",
)  # fmt: skip
"""Loggers whose messages contain whole addresses or output of servers. The last line is for SDK version 1."""


class ObservedStream:
    """A stream that reports its messages and its end.

    Args:
        stream: The stream.
        on_message: Called with each message before the reader gets it.
        on_end: Called at the end of the stream.
    """

    def __init__(self, stream: Any, on_message: Callable[[Any], object], on_end: Callable[[], object]) -> None:
        self._stream = stream
        self._on_message = on_message
        self._on_end = on_end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            message = await self._stream.__anext__()
        except StopAsyncIteration:
            self._on_end()
            raise
        self._on_message(message)
        return message

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> Any:
        return await self._stream.__aexit__(*exc)


class StderrTail:
    """The end of a process's standard error, read by a thread, so that the process never blocks on a full pipe."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque(maxlen=8)
        self._file: Any = None
        self._reader: threading.Thread | None = None

    def open(self) -> Any:
        """Open the file for the process; `close` it after the process has inherited it."""
        reading, writing = os.pipe()
        self._file = os.fdopen(writing, "w")

        def read() -> None:
            with os.fdopen(reading, "rb", buffering=0) as stream:
                while chunk := stream.read(_READ_BYTES):
                    self._chunks.append(chunk)

        self._reader = threading.Thread(target=read, name="artifactflow-mcp", daemon=True)
        self._reader.start()
        return self._file

    def close(self) -> None:
        """Close this process's copy of the file; no effect before `open`."""
        if self._file is not None:
            self._file.close()

    async def read(self, timeout_s: float) -> None:
        """Wait until the output of an ended process is read, at most `timeout_s` seconds."""
        if self._reader is not None:
            await asyncio.to_thread(self._reader.join, timeout_s)

    def text(self) -> str:
        """Return the end of the output, on one line."""
        text = " ".join(escape_invisible(b"".join(self._chunks).decode("utf-8", "replace")).split())
        return text if len(text) <= _TAIL_CHARS else f"...{text[-_TAIL_CHARS:]}"


@contextmanager
def redact_logs(redact: Callable[[str], str]) -> Iterator[None]:
    """Redact the log messages about servers within a `with` block."""

    def redact_record(record: logging.LogRecord) -> bool:
        record.msg, record.args = redact(record.getMessage()), ()
        if record.exc_info:
            record.exc_text = redact("".join(traceback.format_exception(*record.exc_info)).rstrip())
            record.exc_info = None
        return True

    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(redact_record)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(redact_record)


MAX_TOOLS = 1_000
"""Maximum number of tools per server; no model could choose among more."""

_CLOSE_TIMEOUT_S = 6.0
_LAST_OUTPUT_S = 3.0
"""Time to wait for the last output of an ended server; a child process may hold the output open longer."""

_CONNECT_S = 30.0
_SSE_READ_S = 300.0
_PROBLEM_CHARS = 400
_CLOSED = "Connection closed"
"""The message of the SDK when a server has ended."""
_CONNECTION_CLOSED = -32000
_SESSION_TERMINATED = 32600
_NO_CALL = -32600
"""Error codes: a closed connection, an ended session (version 1 of the SDK), and JSON-RPC's invalid request."""

_INSTALL = "pip install 'artifactflow-nb[mcp]'"

logging.getLogger("mcp").addHandler(logging.NullHandler())
# Without a handler, Python prints warnings to standard error: from the engine's thread, below the next cell.


def check_installed() -> None:
    """Raise `UsageError` with the command to install the SDK if the SDK is missing."""
    try:
        is_there = find_spec("mcp") is not None
    except (ImportError, ValueError):  # the import of the SDK is blocked
        is_there = False
    if not is_there:
        raise UsageError(f"MCP servers need a library that is not installed: {_INSTALL}.")


def _is_version_2() -> bool:
    return find_spec("mcp.client.client") is not None


async def load_sdk() -> None:
    """Import the SDK in a thread, which takes half a second; `UsageError` if a package is missing or too old."""
    try:
        names = ("mcp.client.client", "httpx2") if _is_version_2() else ("mcp.client.session", "httpx")
        for name in (*names, "mcp.client.stdio", "jsonschema"):
            await asyncio.to_thread(import_module, name)
        if not hasattr(import_module("mcp.client.streamable_http"), "streamable_http_client"):
            raise ImportError(f"mcp {version('mcp')} is too old")
    except ImportError as error:
        raise UsageError(f"MCP servers need packages that are missing or too old ({error}): {_INSTALL}.") from None


@asynccontextmanager
async def open_session(streams: AbstractAsyncContextManager[tuple[Any, Any]], **callbacks: Any) -> AsyncIterator[Any]:
    """Open a session with version 1 or 2 of the SDK: other packages may need either version."""
    if _is_version_2():
        from mcp.client.client import Client

        async with Client(streams, cache=None, **callbacks) as client:
            yield client
    else:
        from mcp.client.session import ClientSession

        async with streams as (read, write), ClientSession(read, write, **callbacks) as session:
            await session.initialize()
            yield session


Elicit = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Function that answers a question of a server; both are JSON in the form of the protocol (`elicitation/create`)."""


class SessionLost(ToolError):
    """A restarted server rejected a call of the old session; the call was not executed and can be repeated."""


class McpConnection:
    """A session that starts when the object is created; usable after `wait_ready`.

    Args:
        server: The server, with environment variables substituted.
        secrets: Texts to redact in messages and tool lists.
    """

    def __init__(self, server: McpServer, secrets: tuple[str, ...]) -> None:
        self._server = server
        self._secrets = secrets
        self._ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._questions = asyncio.Lock()
        self._scope: Any = None
        self._tail = StderrTail()
        self._listing = ToolListRepair()
        self._calls: dict[Elicit, asyncio.Future[Mapping[str, Any]] | None] = {}  # the calls, each with its question
        self._has_ended = False
        self._is_retired = False
        self._wrote_invalid_output = False
        self._status = ""
        self._task = asyncio.create_task(self._run(), name=f"mcp {server.name}")

    async def wait_ready(self) -> None:
        """Wait for the first answer; a failure is a `ToolError` with its reason. A cancelled wait ends the session."""
        try:
            await asyncio.shield(self._ready)
        except BaseException:
            await self.close()
            raise

    @property
    def is_usable(self) -> bool:
        """Whether the session accepts further calls."""
        return not (self._has_ended or self._is_retired or self.is_closed)

    @property
    def is_closed(self) -> bool:
        """Whether the session's task has ended."""
        return self._task.done()

    async def _run(self) -> None:
        """Run the session from start to end; errors are raised in `wait_ready` and `call` instead of here."""
        import anyio

        try:
            with redact_logs(self.redact), anyio.fail_after(self._server.start_timeout_s) as self._scope:
                if self._stop.is_set():  # the caller was cancelled
                    return
                callbacks: dict[str, Any] = {
                    "message_handler": self._note_message,
                    "elicitation_callback": self._elicit,
                }
                async with open_session(self._streams(), **callbacks) as client:
                    self._scope.deadline = math.inf
                    self._ready.set_result(client)
                    await self._stop.wait()
                    self._scope.deadline = anyio.current_time() + _CLOSE_TIMEOUT_S
        except BaseException as error:  # noqa: BLE001 - what the SDK raises in a group of tasks can be anything
            self._tail.close()
            await self._tail.read(_LAST_OUTPUT_S)
            action = "could not be reached" if self._server.url else "could not be started"
            self._refuse(f"{self._problem(action, error)} {self._hint}")
        finally:
            self._refuse(f"The MCP server {self._server.name} was closed before it answered.")
            self._has_ended = True
            self._tail.close()

    def _refuse(self, reason: str) -> None:
        if not self._ready.done():
            self._ready.set_exception(ToolError(reason))
            self._ready.exception()  # mark the error as retrieved: nobody may be waiting

    @asynccontextmanager
    async def _streams(self) -> AsyncIterator[Any]:
        """Open the SDK's streams to the server and observe their messages and their end."""
        server = self._server
        async with AsyncExitStack() as stack:
            if server.command is not None:
                from mcp.client.stdio import StdioServerParameters, stdio_client

                env = {name: value.get_secret_value() for name, value in server.env.items()}
                stdio = StdioServerParameters(command=server.command, args=list(server.args), env=env, cwd=server.cwd)
                transport = stdio_client(stdio, errlog=self._tail.open())
            else:
                from mcp.client.streamable_http import streamable_http_client

                http = import_module("httpx2" if _is_version_2() else "httpx")
                headers = {name: value.get_secret_value() for name, value in server.headers.items()}
                timeout = http.Timeout(_CONNECT_S, read=max(_SSE_READ_S, server.timeout_s))
                hooks = {"response": [self._note_status]}
                client = http.AsyncClient(headers=headers, timeout=timeout, event_hooks=hooks)
                await stack.enter_async_context(client)
                transport = streamable_http_client(server.url or "", http_client=client)
            read, write, *_ = await stack.enter_async_context(transport)
            self._tail.close()  # the process has its own copy of the file now
            yield ObservedStream(read, self._listing.repair, self._end), write

    async def _note_status(self, response: Any) -> None:
        """Store the HTTP status of a rejected message, which the SDK's errors do not contain."""
        if response.request.method == "POST":
            self._status = f"{response.status_code} {response.reason_phrase}" if response.is_error else ""

    async def _elicit(self, _context: object, question: Any) -> Any:
        """Return the answer to a question of the server; the latest call counts as the asking call."""
        types = import_module("mcp.types")
        async with self._questions:
            if self._calls:
                latest = next(reversed(self._calls))
                question_task = self._calls[latest] = asyncio.ensure_future(latest(_wire_form(question)))
                await asyncio.wait([question_task])
                if not question_task.cancelled():
                    return types.ElicitResult(**question_task.result())
        # An error keeps the server from asking again: the next question of this call would reach another call.
        return types.ErrorData(code=_NO_CALL, message="The call was cancelled.")

    async def _note_message(self, message: object) -> None:
        """Record an invalid message, for which the SDK passes an exception."""
        self._wrote_invalid_output = self._wrote_invalid_output or isinstance(message, Exception)

    def _end(self) -> None:
        """Record that the server has ended or closed the connection."""
        self._has_ended = True
        self._stop.set()

    async def list_tools(self) -> list[ListedTool]:
        """List the server's tools; `ToolError` after a failure or the time limit."""
        tools: list[ListedTool] = []
        try:
            async with asyncio.timeout(self._server.start_timeout_s):
                client, cursor = await asyncio.shield(self._ready), None
                while len(tools) < MAX_TOOLS:
                    page = _wire_form(await client.list_tools(cursor=cursor))
                    tools += map(self._listed, page["tools"])
                    cursor = page.get("nextCursor")
                    if cursor is None:
                        break
        except Exception as error:  # noqa: BLE001 - the SDK passes on any error of an invalid answer
            raise ToolError(f"{self._problem('does not list its tools', error)} {self._hint}") from None
        return tools[:MAX_TOOLS]

    def _listed(self, tool: Mapping[str, Any]) -> ListedTool:
        """Convert a tool: redact secrets in its texts, and keep its original schema unless the schema has a secret."""
        name = tool["name"]
        schema = self._listing.schemas.get(name, tool["inputSchema"])
        text = json.dumps(schema)
        return ListedTool(
            self.redact(name), self.redact(tool["description"] or ""), schema if self.redact(text) == text else {}
        )

    async def call(self, tool: str, arguments: Mapping[str, Any], elicit: Elicit) -> dict[str, Any]:
        """Call a tool; return the `CallToolResult` of the protocol as JSON.

        Errors: `ToolError` if the server does not answer; if the server has ended, the session is no longer usable.
        """
        import anyio

        self._calls[elicit] = None
        try:
            client = await asyncio.shield(self._ready)
            answer = asyncio.ensure_future(client.call_tool(tool, dict(arguments)))
            try:  # version 1 of the SDK leaves a call without an answer if the session ends meanwhile
                await asyncio.wait((answer, self._task), return_when=asyncio.FIRST_COMPLETED)
            finally:
                answer.cancel()
            if not answer.done():
                raise ConnectionError(_CLOSED)
            return _wire_form(answer.result())
        except Exception as error:  # noqa: BLE001 - as above
            is_connection_error = isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError | OSError)
            code = getattr(getattr(error, "error", error), "code", None)  # version 1 has the code in `error.error`
            if code == _SESSION_TERMINATED:
                self._is_retired = True
                raise SessionLost(self._problem("no longer knows the session", error)) from None
            if self._has_ended or is_connection_error or code == _CONNECTION_CLOSED:
                self._is_retired = True
                await asyncio.wait([self._task], timeout=_LAST_OUTPUT_S)
                await self._tail.read(_LAST_OUTPUT_S)
                problem = self._problem(
                    "ended while it was called, and it is unknown whether the call took effect", error
                )
            else:
                problem = self._problem("refused the call", error)
            raise ToolError(problem) from None
        finally:
            if (question_task := self._calls.pop(elicit)) is not None:
                question_task.cancel()
            self._stop_if_done()

    def retire(self) -> None:
        """Accept no further calls; the session ends after the current calls."""
        self._is_retired = True
        self._stop_if_done()

    def _stop_if_done(self) -> None:
        if self._is_retired and not self._calls:
            self._stop.set()

    async def close(self) -> None:
        """End the session, and a server that the session started; completes even if the caller is cancelled."""
        self._stop.set()
        if not self._ready.done() and self._scope is not None:
            self._scope.cancel()
        while not self._task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([self._task])

    # --- messages ----------------------------------------------------------------------------------------------------

    def redact(self, text: str) -> str:
        """Replace the secrets of the server in a text."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text

    @property
    def _hint(self) -> str:
        return f'Check mcp.{self._server.name}, or leave it out with "disabled": true.'

    def _problem(self, action: str, error: BaseException) -> str:
        server = self._server
        sentences = [f"The MCP server {server.name} ({server.transport_label}) {action}: {self._reason(error)}."]
        if self._wrote_invalid_output:
            sentences.append("It writes text to its standard output that is not a message of the protocol.")
        if tail := self._tail.text():
            sentences.append(f'Its last output: "{tail}".')
        return self.redact(" ".join(sentences))

    def _reason(self, error: BaseException) -> str:
        """Describe the innermost error for a person."""
        import anyio

        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, FileNotFoundError) and self._server.command is not None:
            return "there is no such program or folder; install it, or give its full path"
        if isinstance(error, TimeoutError):
            return f"it did not answer within {self._server.start_timeout_s:g} s"
        if isinstance(error, anyio.ClosedResourceError | anyio.BrokenResourceError):
            return _CLOSED  # version 1 of the SDK has no text for this error
        reason = (
            clip(" ".join(escape_invisible(str(error)).split()), _PROBLEM_CHARS).rstrip(".") or type(error).__name__
        )
        return f"{reason}, with the status {self._status}" if self._status else reason


def _wire_form(result: Any) -> dict[str, Any]:
    """Convert a result to JSON with the names of the protocol, which are the same for both versions of the SDK."""
    form: dict[str, Any] = result.model_dump(mode="json", by_alias=True)
    return form
