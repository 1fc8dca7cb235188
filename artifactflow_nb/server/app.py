"""The Starlette application of a stand-alone server: authentication, limits, and `Api` behind them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from socket import socket

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from artifactflow_nb.core.language import Language
from artifactflow_nb.server.access import COOKIE, Access
from artifactflow_nb.server.api import JSON, MAX_BODY_BYTES, PUBLIC_FILES, Answer, Api, ApiRequest, page_file
from artifactflow_nb.server.lifecycle import RunLifecycle

PREFIX = "/artifactflow"
API_PREFIX = f"{PREFIX}/api/v1"

_GRACE_S = 2
_BODY_TIMEOUT_S = 20.0


def make_app(lifecycle: RunLifecycle, access: Access | None = None) -> Starlette:
    """Create the application; its shutdown closes the lifecycle.

    Args:
        lifecycle: The runs.
        access: The users; None to accept everybody who can connect.
    """
    server = _Server(lifecycle, access or Access())
    return Starlette(
        routes=[Route(path, server.handle, methods=["GET", "POST", "DELETE"]) for path in ("/", "/{path:path}")],
        lifespan=server.lifespan,
    )


class EndingServer(uvicorn.Server):
    """A uvicorn server that ends the streams before it stops, because uvicorn waits for the clients.

    `announce` is called with the port when the server listens.
    """

    def __init__(
        self,
        app: Starlette,
        lifecycle: RunLifecycle,
        host: str,
        port: int,
        announce: Callable[[int], None] = lambda _port: None,
    ) -> None:
        # Requests are not logged, because an address may contain a token.
        super().__init__(
            uvicorn.Config(
                app,
                host=host,
                port=port,
                lifespan="on",
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=_GRACE_S,
            )
        )
        self._lifecycle = lifecycle
        self._announce = announce

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Listen; a port that is in use ends the process with a message."""
        await super().startup(sockets)
        self._announce(self.servers[0].sockets[0].getsockname()[1])

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        """Stop listening, and return when the clients have disconnected."""
        self._lifecycle.end_streams()
        await super().shutdown(sockets)


class _Server:
    def __init__(self, lifecycle: RunLifecycle, access: Access) -> None:
        self._lifecycle = lifecycle
        self._access = access
        self._api = Api(lifecycle, API_PREFIX)

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        await self._lifecycle.continue_abandoned()
        yield
        self._lifecycle.close()

    async def handle(self, request: Request) -> Response:
        """Answer a request."""
        answer = await self._answer(request)
        if isinstance(answer, Response):
            return answer
        if answer.stream is not None:
            return StreamingResponse(answer.stream, answer.status, answer.headers, answer.media_type)
        return Response(answer.body, answer.status, answer.headers, answer.media_type)

    async def _answer(self, request: Request) -> Answer | Response:
        headers, path, parameter = request.headers, request.scope["path"], request.query_params.get("token", "")
        if "content-length" in headers and "transfer-encoding" in headers:
            return refuse(400, "BadRequest", "Content-Length and Transfer-Encoding name two ends of one body.")
        if problem := self._access.problem(headers.get("host", ""), headers.get("origin")):
            return Answer.refusal(403, "Forbidden", problem)
        user = self._access.user(headers.get("authorization", ""), parameter, request.cookies.get(COOKIE, ""))
        if user is None and path != f"{API_PREFIX}/health":
            return self._for_stranger(request, path)
        if request.method == "GET" and parameter and user:  # keeps the token out of histories and bookmarks
            redirect = RedirectResponse(request.url.remove_query_params("token"), 303)
            if self._access.tokens:
                redirect.set_cookie(COOKIE, parameter, httponly=True, samesite="strict", path=PREFIX)
            return redirect
        body = await read_body(request)
        if isinstance(body, Response):
            return body
        if path in {"/", PREFIX}:
            return RedirectResponse(f"{PREFIX}/", 303)
        if not path.startswith(f"{API_PREFIX}/"):
            file = page_file(path.removeprefix(f"{PREFIX}/"), self._language) if request.method == "GET" else None
            return file or Answer.refusal(404, "NotFound", f"There is no {path!r}.")
        target = request.method, path.removeprefix(API_PREFIX), user or ""
        return await self._api.answer(ApiRequest(*target, dict(request.query_params), dict(headers), body))

    def _for_stranger(self, request: Request, path: str) -> Answer:
        """Ask a browser for the link with the token, and a program for the token."""
        if request.method == "GET" and path.removeprefix(f"{PREFIX}/") in PUBLIC_FILES:
            return page_file(path.removeprefix(f"{PREFIX}/"), self._language) or Answer(404)
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            page = page_file("token.html", self._language) or Answer(404)
            return replace(page, status=401)
        return Answer.refusal(401, "Unauthorized", "Send the token: Authorization: Bearer <token>.")

    @property
    def _language(self) -> Language:
        return self._lifecycle.thread.engine.settings.language


async def read_body(request: Request) -> bytes | Response:
    """Return the body of a request, or the response to a body that is too large, too slow or not JSON."""
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_TIMEOUT_S):
            async for part in request.stream():
                body += part
                if len(body) > MAX_BODY_BYTES:
                    return refuse(413, "TooLarge", f"The body is larger than {MAX_BODY_BYTES:,} bytes.")
    except ClientDisconnect:
        return refuse(400, "BadRequest", "The body ended too early.")
    except TimeoutError:
        return refuse(408, "RequestTimeout", f"The body was not complete after {_BODY_TIMEOUT_S:.0f} s.")
    # A form of another site could send bodies of other types.
    if body and request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        return refuse(415, "UnsupportedMediaType", f"Send {JSON}.")
    return bytes(body)


def refuse(status: int, kind: str, message: str) -> Response:
    """Refuse a request, and close the connection: the unread rest of a body must not be taken for a request."""
    answer = Answer.refusal(status, kind, message)
    return Response(answer.body, status, {**answer.headers, "Connection": "close"}, answer.media_type)
