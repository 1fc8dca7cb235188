"""The HTTP interface without a framework: `Api` has a handler for each route, and `answer` calls the right handler.

The adapters (`app.py` for Starlette, `jupyter.py` for Jupyter Server) authenticate, and pass requests and answers on.
"""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib.resources import files
from importlib.util import find_spec
from io import BytesIO
from typing import Any
from urllib.parse import quote

import orjson
from pydantic import BaseModel, ValidationError

from artifactflow_nb import __version__
from artifactflow_nb.core.language import Language, in_language, translate
from artifactflow_nb.core.text.panels import stylesheet
from artifactflow_nb.engine.plugin import RouteCall, ServedRoute
from artifactflow_nb.errors import (
    ArtifactFlowError,
    CassetteMiss,
    Conflict,
    FormError,
    ModelError,
    NotFound,
    RunError,
    StoreError,
    UsageError,
)
from artifactflow_nb.server.bodies import (
    ChatBody,
    ResumeBody,
    RetryBody,
    SourcesBody,
    ViewBody,
)
from artifactflow_nb.server.lifecycle import DecidedAlready, ReadOnly, RunLifecycle, StartedRun
from artifactflow_nb.server.openapi import Route, describe
from artifactflow_nb.server.stream import encode
from artifactflow_nb.server.views import PageViews
from artifactflow_nb.store.encoding import to_json
from artifactflow_nb.store.frames import ALL_COLUMNS
from artifactflow_nb.widgets.page import assets

MAX_BODY_BYTES = 1_000_000
MAX_PAGE = 200

JSON = "application/json"
EVENTS = "text/event-stream"
ARROW = "application/vnd.apache.arrow.stream"

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
"""The page loads nothing from other sites, even if a model's text refers to them."""

_DECISION = "Decide the requests of a waiting run, all or none, and continue it. 409 says who decided before."

_STATUS: tuple[tuple[type[ArtifactFlowError], int], ...] = (
    (ReadOnly, 403),
    (NotFound, 404),
    (CassetteMiss, 404),
    (Conflict, 409),
    (UsageError, 400),
    (ModelError, 502),
    (RunError, 409),
    (StoreError, 503),
)
"""The status of errors; the first class that fits."""

_HTTP_CALLS = {
    "wb.pending()": "GET /pending",
    "wb.runs_df()": "GET /frames/runs",
    "wb.projects.start(": "POST /projects (",
    'wb.projects["name"].ask("...")': "POST /chat with its conversation_id",
    'wb.ask("...")': "POST /chat",
    'run.answer("...")': "the instruction of a decision",
    "run.deny()": "a decision that is not approved",
    "run.resume()": "a restart of the server",
    "Call run.resume().": "A restart of the server continues the run.",
    "run.retry()": "POST /chat/{conversation_id}/retry",
    "wb.sources.add(...)": "wb.sources.add(...) in a notebook on the server",
}
"""The calls that messages name for people in a notebook, and what a program does over HTTP instead."""

_CALL = re.compile("|".join(map(re.escape, sorted(_HTTP_CALLS, key=len, reverse=True))))


def over_http(message: str) -> str:
    """Replace the notebook calls that a message names by requests of this interface."""
    return _CALL.sub(lambda call: _HTTP_CALLS[call[0]], message)


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request of an authenticated user.

    Attributes:
        method: `GET`, `POST` or `DELETE`.
        path: The path below the prefix of the interface, decoded.
        headers: The headers, by their names in lower case.
        params: The values of the placeholders of the route.
    """

    method: str
    path: str
    user: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    params: Mapping[str, str] = field(default_factory=dict)

    def number(self, name: str, default: int, most: int = 2**63 - 1) -> int:
        """Return an integer parameter of the address; `UsageError` for anything else."""
        return _whole_number(name, self.query.get(name, str(default)), most)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: a body, or a stream of bytes.

    Attributes:
        stream: The parts of a streamed body; None for a complete body.
    """

    status: int
    body: bytes = b""
    media_type: str = JSON
    stream: AsyncGenerator[bytes, None] | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers except the media type: proxies must not store an answer, and browsers must not guess the type."""
        return {
            "Cache-Control": "no-store, no-transform",  # no proxy may compress a stream
            "Content-Security-Policy": CONTENT_SECURITY_POLICY,
            "X-Content-Type-Options": "nosniff",
            "X-Accel-Buffering": "no",
        }

    @classmethod
    def of(cls, value: Any, status: int = 200) -> "Answer":
        """Create an answer with a JSON value."""
        try:
            body = orjson.dumps(value, option=orjson.OPT_UTC_Z)
        except TypeError:  # a value that JSON cannot hold, such as an integer of more than 64 bits
            body = to_json(value).encode()
        return cls(status, body)

    @classmethod
    def of_error(cls, error: ArtifactFlowError) -> "Answer":
        """Create the answer for an error: its kind, its message, and details for programs."""
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
        value: dict[str, Any] = {"error": type(error).__name__, "message": over_http(str(error))}
        if isinstance(error, DecidedAlready):
            value["decided"] = error.decided
        if isinstance(error, FormError):
            value["fields"] = dict(error.fields)
        return cls.of(value, status)

    @classmethod
    def refusal(cls, status: int, kind: str, message: str) -> "Answer":
        """Create the answer for a request that no route handles."""
        return cls.of({"error": kind, "message": message}, status)


Handler = Callable[["Api", ApiRequest, Any], Awaitable[Answer]]
_ROUTES: list[tuple[Route, Handler]] = []


def _route(method: str, path: str, summary: str, *details: Any, **more: Any) -> Callable[[Handler], Handler]:
    """Register a method as the handler of a `Route`; the method's last parameter is the request body or None."""

    def add(handler: Handler) -> Handler:
        _ROUTES.append((Route(method, path, summary, *details, **more), handler))
        return handler

    return add


def _route_of_plugin(served: ServedRoute) -> tuple[Route, Handler]:
    """Return a route of a plugin with its handler."""

    async def handle(api: "Api", request: ApiRequest, body: Any) -> Answer:
        call = RouteCall(request.user, request.params, body)
        return Answer.of(await api.lifecycle.call_plugin(served, call))

    return Route(served.method, served.path, served.summary, served.body), handle


class Api:
    """The routes of the interface. `base_path` is the path that clients see, for the addresses in answers."""

    def __init__(self, lifecycle: RunLifecycle, base_path: str) -> None:
        self.lifecycle = lifecycle
        self._base_path = base_path
        self._views = PageViews(lifecycle)
        plugins = lifecycle.thread.engine.plugins.values()
        self._routes = [*_ROUTES, *(_route_of_plugin(served) for plugin in plugins for served in plugin.routes())]

    async def answer(self, request: ApiRequest) -> Answer:
        """Answer a request; errors are answers, too."""
        allowed = []
        for route, handler in self._routes:
            if (params := route.match(request.path)) is None:
                continue
            allowed.append(route.method)
            if route.method != request.method:
                continue
            try:
                body = None if route.body is None else read_body(route.body, request)
                return await handler(self, replace(request, params=params), body)
            except ArtifactFlowError as error:
                return Answer.of_error(error)
        if allowed:
            return Answer.refusal(405, "MethodNotAllowed", f"{request.method} is not possible here, {allowed} is.")
        return Answer.refusal(404, "NotFound", f"There is no {request.path!r}. GET /openapi.json lists the paths.")

    @_route("POST", "/chat", "Ask a question; the run continues without a client.", ChatBody, 202)
    async def _ask(self, _request: ApiRequest, body: ChatBody) -> Answer:
        return self._started(await self.lifecycle.ask(body))

    @_route("GET", "/chat", "List conversations.", query=("search", "limit", "offset"))
    async def _conversations(self, request: ApiRequest, _body: None) -> Answer:
        page = request.number("limit", 50, MAX_PAGE), request.number("offset", 0)
        return Answer.of({"conversations": await self.lifecycle.conversations(request.query.get("search", ""), *page)})

    @_route("GET", "/chat/{conversation_id}", "A conversation with its messages.")
    async def _conversation(self, request: ApiRequest, _body: None) -> Answer:
        return Answer.of(await self.lifecycle.conversation(request.params["conversation_id"]))

    @_route("DELETE", "/chat/{conversation_id}", "Delete a conversation.", status=204)
    async def _delete(self, request: ApiRequest, _body: None) -> Answer:
        await self.lifecycle.delete_conversation(request.params["conversation_id"])
        return Answer(204)

    @_route("POST", "/chat/{conversation_id}/retry", "Ask again, on a branch.", RetryBody, 202)
    async def _retry(self, request: ApiRequest, body: RetryBody) -> Answer:
        return self._started(await self.lifecycle.retry(request.params["conversation_id"], body))

    @_route("POST", "/compose/approve", _DECISION, ResumeBody, 202)
    @_route("POST", "/plan/approve", _DECISION, ResumeBody, 202)
    @_route("POST", "/chat/{conversation_id}/resume", _DECISION, ResumeBody, 202)
    async def _resume(self, request: ApiRequest, body: ResumeBody) -> Answer:
        conversation_id = request.params.get("conversation_id")
        return self._started(await self.lifecycle.resume(conversation_id, body, request.user))

    def _started(self, run: StartedRun) -> Answer:
        return Answer.of({**asdict(run), "stream_url": f"{self._base_path}/stream/{quote(run.thread_id)}"}, 202)

    @_route("GET", "/stream/{thread_id}", "The events of a run.", query=("from", "cumulative"), media_type=EVENTS)
    async def _stream(self, request: ApiRequest, _body: None) -> Answer:
        last = request.headers.get("last-event-id") or request.query.get("from") or "0"
        after = _whole_number("Last-Event-ID or from", last)
        batches = await self.lifecycle.stream(request.params["thread_id"], after)
        if batches is None:  # tells an EventSource not to connect again
            return Answer(204)
        is_cumulative = request.query.get("cumulative") not in {None, "", "0", "false"}

        async def encoded_batches() -> AsyncGenerator[bytes, None]:
            async for batch in batches:
                yield encode(batch, cumulative=is_cumulative)

        return Answer(200, media_type=EVENTS, stream=encoded_batches())

    @_route("GET", "/runs/{thread_id}", "The status, answer and metrics of a run.")
    async def _result(self, request: ApiRequest, _body: None) -> Answer:
        return Answer.of(await self.lifecycle.result(request.params["thread_id"]))

    @_route("POST", "/runs/{thread_id}/cancel", "End a run; its artifacts stay.")
    async def _cancel(self, request: ApiRequest, _body: None) -> Answer:
        return Answer.of(await self.lifecycle.cancel(request.params["thread_id"]))

    @_route("GET", "/pending", "The requests that wait for a decision.")
    async def _pending(self, _request: ApiRequest, _body: None) -> Answer:
        return Answer.of({"requests": await self.lifecycle.pending()})

    @_route("GET", "/artifacts/{conversation_id}", "Artifacts.", query=("message_id",))
    async def _artifacts(self, request: ApiRequest, _body: None) -> Answer:
        message_id = request.query.get("message_id")
        return Answer.of({"artifacts": await self.lifecycle.artifacts(request.params["conversation_id"], message_id)})

    @_route("GET", "/artifacts/{conversation_id}/{artifact_id}", "An artifact.", query=("message_id",))
    async def _artifact(self, request: ApiRequest, _body: None) -> Answer:
        return Answer.of(await self.lifecycle.artifact(**request.params, message_id=request.query.get("message_id")))

    @_route("GET", "/artifacts/{conversation_id}/{artifact_id}/versions", "Its versions, without texts.")
    async def _versions(self, request: ApiRequest, _body: None) -> Answer:
        return Answer.of({"versions": await self.lifecycle.versions(**request.params)})

    @_route("GET", "/artifacts/{conversation_id}/{artifact_id}/versions/{version}", "One version.")
    async def _version(self, request: ApiRequest, _body: None) -> Answer:
        number = _whole_number("version", request.params["version"])
        ids = request.params["conversation_id"], request.params["artifact_id"]
        return Answer.of(await self.lifecycle.version(*ids, number))

    @_route("GET", "/source", "The file of a source, by the path that a citation names.", query=("path",))
    async def _source(self, request: ApiRequest, _body: None) -> Answer:
        content, is_pdf = await self.lifecycle.source_file(request.query.get("path", ""))
        # Any text has the type text/plain, so that no script of a source runs.
        return Answer(200, content, "application/pdf" if is_pdf else "text/plain; charset=utf-8")

    @_route("POST", "/sources", "Add files to the sources, in a Jupyter server of one's own.", SourcesBody)
    async def _add_sources(self, _request: ApiRequest, body: SourcesBody) -> Answer:
        return Answer.of({"message": await self.lifecycle.add_sources(body)})

    @_route("GET", "/frames/{name}", "The rows of a frame.", query=("run", "conversation", "columns"))
    async def _frame(self, request: ApiRequest, _body: None) -> Answer:
        filters: dict[str, Any] = {
            name: request.query[name] for name in ("run", "conversation") if name in request.query
        }
        filters["columns"] = request.query.get("columns", ALL_COLUMNS).split(",")
        is_arrow = ARROW in request.headers.get("accept", "")
        if is_arrow and find_spec("pyarrow") is None:
            return Answer.refusal(406, "NotAcceptable", "Arrow needs pyarrow: pip install pyarrow; or accept JSON.")
        frame = await self.lifecycle.frame(request.params["name"], filters)
        if not is_arrow:
            rows = frame.to_json(orient="records", date_format="iso", date_unit="us", default_handler=str)
            return Answer(200, b'{"rows":' + rows.encode() + b"}")
        import pyarrow as pa

        table, buffer = pa.Table.from_pandas(frame), BytesIO()
        with pa.ipc.new_stream(buffer, table.schema) as writer:
            writer.write_table(table)
        return Answer(200, buffer.getvalue(), ARROW)

    @_route("GET", "/views", "Connect a page.", is_documented=False)
    async def _connect(self, request: ApiRequest, _body: None) -> Answer:
        return Answer(200, media_type=EVENTS, stream=self._views.connect(request.user))

    @_route("POST", "/views/{connection_id}", "A message to a view.", ViewBody, 204, is_documented=False)
    async def _view_message(self, request: ApiRequest, body: ViewBody) -> Answer:
        await self._views.receive(request.params["connection_id"], body.view, body.message, request.user)
        return Answer(204)

    @_route("GET", "/health", "Whether the server answers.")
    async def _health(self, _request: ApiRequest, _body: None) -> Answer:
        return Answer.of({"status": "ok", "version": __version__, "read_only": self.lifecycle.read_only})

    @_route("GET", "/openapi.json", "This description.")
    async def _openapi(self, _request: ApiRequest, _body: None) -> Answer:
        return Answer.of(describe([route for route, _ in self._routes], self._base_path))


def read_body(kind: type[BaseModel], request: ApiRequest) -> BaseModel:
    """Read the JSON object of a request; `UsageError` with the field for anything else."""
    try:
        value = orjson.loads(request.body)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"The body is not JSON: {error}.") from None
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, detail['loc'])) or 'the body'}: {detail['msg']}"
            for detail in error.errors(include_url=False, include_input=False)
        )
        raise UsageError(f"{problems}. Fields: {', '.join(kind.model_fields)}.") from None


def _whole_number(name: str, text: str, most: int = 2**63 - 1) -> int:
    if not re.fullmatch(r"[0-9]{1,19}", text) or int(text) > most:
        raise UsageError(f"{name} is {text[:40]!r}; it must be a whole number from 0 to {most:,}.")
    return int(text)


_STATIC = files("artifactflow_nb.server") / "static"
_PAGE_FILES = frozenset({"", "page.css", "page.js", "panel.js", "token.html", "token.js"})
PUBLIC_FILES = frozenset({"page.css", "token.js"})
"""The files of the page for a browser without a token."""
_page_answers: dict[tuple[str, Language], Answer] = {}  # of known names only, since strangers can send any name


def page_file(name: str, language: Language) -> Answer | None:
    """Return a file of the page by its name (empty: the page itself), or None for an unknown name."""
    if name not in _PAGE_FILES or (name, language) in _page_answers:
        return _page_answers.get((name, language))
    if name in {"", "token.html"}:
        header, body = ((_STATIC / file).read_text(encoding="utf-8") for file in ("head.html", name or "index.html"))
        script = "token.js" if name else "page.js"
        page = header.replace("$script", script).replace("{{language}}", language) + body
        with in_language(language):
            page = re.sub(r"\{\{(.+?)\}\}", lambda text: translate(text[1]), page)
        answer = Answer(200, page.encode(), "text/html; charset=utf-8")
    elif name == "page.css":
        css = assets.all_styles() + stylesheet() + (_STATIC / "page.css").read_text(encoding="utf-8")
        answer = Answer(200, css.encode(), "text/css; charset=utf-8")
    elif name in {"page.js", "token.js"}:
        answer = Answer(200, (_STATIC / name).read_bytes(), "text/javascript; charset=utf-8")
    else:
        page = (_STATIC / "page.js").read_text(encoding="utf-8")
        script = f"{assets.script(language, page)}\nexport {{ translate }};\n"
        answer = Answer(200, script.encode(), "text/javascript; charset=utf-8")
    _page_answers[name, language] = answer
    return answer
