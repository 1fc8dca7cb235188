"""Search engines of the web over real connections; errors say what to do."""

import json
import sys
import threading
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from support.web_server import Reply, WebRequest, WebServer, redirect

from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.sources.citations import SearchHit, read_hits, write_hits
from artifactflow_nb.tools.web.http import HttpLimits
from artifactflow_nb.tools.web.providers import DdgsSearch, SearxngSearch, TavilySearch
from artifactflow_nb.tools.web.tools import SearchProvider

JSON = "application/json"
KEY = "tvly-secret-0123456789"


def answer(payload: object, status: int = 200) -> Reply:
    return Reply(json.dumps(payload).encode(), status=status, content_type=JSON)


def result(address: object, title: object = "Ferry", text: object = "A ticket costs 4 crowns.") -> dict[str, object]:
    return {"url": address, "title": title, "content": text, "score": 0.5, "engine": "x"}


def searxng(server: WebServer, path: str = "") -> SearxngSearch:
    return SearxngSearch(server.url(path))


def tavily(server: WebServer) -> TavilySearch:
    return TavilySearch(KEY, base_url=server.url(""))


PROVIDERS = pytest.mark.parametrize("make", [searxng, tavily])


# --- both ----------------------------------------------------------------------------------------------------------


@PROVIDERS
async def test_results_become_hits(make: Any):
    """The hits have title, address and snippet of the results, in order, up to the requested number."""
    found = [result(f"https://lake.example.org/{n}", f"Page {n}", f"Text {n}") for n in range(30)]
    with WebServer({"/search": answer({"results": found})}) as server:
        provider: SearchProvider = make(server)
        hits = await provider.search("ferry fares", 3)
    assert hits == [SearchHit(f"Page {n}", f"https://lake.example.org/{n}", f"Text {n}") for n in range(3)]


@PROVIDERS
async def test_results_without_a_web_address_are_dropped(make: Any):
    """Duplicates and invalid results are dropped too; texts are put on one line."""
    found = [
        result("javascript:alert(1)"),
        result("file:///etc/passwd"),
        result("https://e.org/a b"),
        result(None),
        "no result",
        result("https://e.org/1", " Two\n lines ", "word " * 200),
        result("https://e.org/1", "again"),
        result("https://e.org/2", None, None),
    ]
    with WebServer({"/search": answer({"results": found})}) as server:
        first, second = await make(server).search("x", 10)
    assert (first.title, first.address) == ("Two lines", "https://e.org/1")
    assert len(first.snippet) <= 302
    assert first.snippet.endswith(" …")
    assert second == SearchHit("https://e.org/2", "https://e.org/2", "")
    assert read_hits(write_hits([first, second])) == [first, second]


@PROVIDERS
@pytest.mark.parametrize("payload", [{"results": []}, {"results": None}, {}])
async def test_empty_results_are_not_an_error(make: Any, payload: object):
    """An engine without results returns an empty list."""
    with WebServer({"/search": answer(payload)}) as server:
        assert await make(server).search("x", 5) == []


@PROVIDERS
@pytest.mark.parametrize("body", [b"<html>Welcome</html>", b"", b"[1, 2]", b"\xff\xfe"])
async def test_answer_that_is_not_a_json_object_is_an_error(make: Any, body: bytes):
    """The error says that the address may be wrong."""
    with (
        WebServer({"/search": Reply(body, content_type=JSON)}) as server,
        pytest.raises(ToolError, match="did not answer with JSON. Is it the address of"),
    ):
        await make(server).search("x", 5)


@PROVIDERS
async def test_unreachable_search_server_is_an_error(make: Any):
    """A refused connection is an error that names the address."""
    with WebServer({}) as server:
        pass
    with pytest.raises(ToolError, match=rf"connection to http://{server.host}/search.* failed"):
        await make(server).search("x", 5)


# --- SearXNG -------------------------------------------------------------------------------------------------------


async def test_searxng_gets_a_json_query():
    """The encoded query goes to /search below the base URL, which may have a path and a final slash."""
    with WebServer({"/searx/search": answer({"results": [result("https://e.org/")]})}) as server:
        await SearxngSearch(server.url("/searx/")).search("fares & 渡轮?", 5)
    (request,) = server.requests
    query = parse_qs(urlsplit(request.path).query)
    assert (request.method, query) == ("GET", {"q": ["fares & 渡轮?"], "format": ["json"]})


@pytest.mark.parametrize(
    ("status", "advice"),
    [(403, "add json to search.formats"), (404, "check its address"), (429, "too often"), (500, "Try again later")],
)
async def test_searxng_errors_say_what_to_do(status: int, advice: str):
    """Each known status of SearXNG has its advice."""
    with WebServer({"/search": Reply(b"no", status=status)}) as server, pytest.raises(ToolError, match=advice):
        await searxng(server).search("x", 5)


async def test_unresponsive_engines_are_listed():
    """An empty result is an error if the engines behind the server failed."""
    silent = answer({"results": [], "unresponsive_engines": [["brave", "too many requests"], ["qwant", "timeout"]]})
    with (
        WebServer({"/search": silent}) as server,
        pytest.raises(ToolError, match="did not answer: brave too many requests; qwant timeout"),
    ):
        await searxng(server).search("x", 5)


async def test_redirect_of_a_search_server_to_another_host_is_refused():
    """A redirect to another address of this machine is refused."""
    with WebServer({"/": Reply(b"secret")}) as other, WebServer({"/search": redirect(other.url())}) as server:
        with pytest.raises(ToolError, match="Not fetched: 127.0.0.1"):
            await searxng(server).search("x", 5)
        assert other.connections == 0


async def test_slow_search_times_out():
    """A search server that does not answer in time is an error."""
    with WebServer({"/search": Reply(delay_s=30)}) as server, pytest.raises(ToolError, match="within 0.2 s"):
        await SearxngSearch(server.url(), limits=HttpLimits(total_timeout_s=0.2)).search("x", 5)


@pytest.mark.parametrize(
    "url", ["localhost:8888", "", "ftp://e.org", "http://", "http://me:pw@e.org", "http://e.org?q=1"]
)
def test_invalid_base_url_is_a_usage_error(url: str):
    """The error shows the form and no password."""
    with pytest.raises(UsageError, match="must look like http://localhost:8888") as caught:
        SearxngSearch(url)
    assert "pw" not in str(caught.value)


# --- Tavily --------------------------------------------------------------------------------------------------------


async def test_tavily_gets_the_key_in_a_header():
    """The query goes as JSON, the key in the Authorization header."""
    with WebServer({"/search": answer({"results": []})}) as server:
        await tavily(server).search("fares 渡轮", 7)
    (request,) = server.requests
    assert (request.method, json.loads(request.body)) == ("POST", {"query": "fares 渡轮", "max_results": 7})
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == JSON


@pytest.mark.parametrize(
    ("status", "advice"),
    [(400, "other words"), (401, "check the Tavily key"), (429, "too often"), (432, "used up"), (500, "later")],
)
@pytest.mark.parametrize("shape", ["detail", "error", "plain"])
async def test_tavily_errors_say_what_to_do_and_never_the_key(status: int, advice: str, shape: str):
    """Each status has its advice and the engine's message, with the key masked."""

    def refuse(request: WebRequest) -> Reply:
        body = f"The key {request.headers['authorization']} is not good."
        bodies = {"detail": {"detail": {"error": body}}, "error": {"error": body}, "plain": body}
        return answer(bodies[shape], status)

    with WebServer({"/search": refuse}) as server, pytest.raises(ToolError, match=advice) as caught:
        await tavily(server).search("x", 5)
    message = str(caught.value)
    assert "Bearer [secret] is not good" in message
    assert KEY not in message
    assert caught.value.__cause__ is None


async def test_key_is_never_shown():
    """Neither the provider's repr nor the error of a broken connection has the key."""
    with WebServer({}) as server:
        pass
    provider = tavily(server)
    assert KEY not in repr(provider)
    with pytest.raises(ToolError) as caught:
        await provider.search("x", 5)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("key", ["", "two words", "line\nbreak", "schlüssel"])
def test_invalid_key_is_a_usage_error(key: str):
    """A key that an HTTP header cannot contain is rejected without being shown."""
    with pytest.raises(UsageError, match="Copy it again") as caught:
        TavilySearch(key)
    assert not key or key not in str(caught.value)


# --- ddgs ----------------------------------------------------------------------------------------------------------


class Engine:
    """A `TextSearch` with fixed results."""

    def __init__(self, results: Iterable[Mapping[str, Any]] = (), error: Exception | None = None) -> None:
        self.results, self.error = list(results), error
        self.queries: list[tuple[str, int]] = []

    def text(self, query: str, *, max_results: int) -> Iterable[Mapping[str, Any]]:
        self.queries.append((query, max_results))
        if self.error is not None:
            raise self.error
        return iter(self.results)


class RatelimitError(Exception):
    """Has the name of the library's exception."""


RatelimitError.__name__ = "RatelimitException"


async def test_ddgs_results_become_hits():
    """The library's results become hits, up to the requested number."""
    found = [{"title": f"Page {n}", "href": f"https://e.org/{n}", "body": f"Text\n{n}"} for n in range(5)]
    engine = Engine(found)
    hits = await DdgsSearch(engine).search("ferry", 2)
    assert hits == [SearchHit("Page 0", "https://e.org/0", "Text 0"), SearchHit("Page 1", "https://e.org/1", "Text 1")]
    assert engine.queries == [("ferry", 2)]


async def test_ddgs_without_results_is_not_an_error():
    """The library raises if there are no results; the provider returns an empty list."""
    assert await DdgsSearch(Engine(error=ValueError("No results found."))).search("x", 5) == []


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RatelimitError("202"), "RatelimitException: 202. Wait a while"),
        (OSError("no network\nat all"), "OSError: no network at all. Try other words"),
    ],
)
async def test_ddgs_errors_say_what_to_do(error: Exception, message: str):
    """Exceptions of the library become one line with advice."""
    with pytest.raises(ToolError, match=message):
        await DdgsSearch(Engine(error=error)).search("x", 5)


async def test_ddgs_runs_outside_the_event_loop():
    """A search runs in a thread and is abandoned after its time limit."""
    may_end, done = threading.Event(), threading.Event()

    class Slow:
        def text(self, query: str, *, max_results: int) -> Iterable[Mapping[str, Any]]:
            may_end.wait(5)
            done.set()
            return []

    with pytest.raises(ToolError, match="longer than 0.1 s"):
        await DdgsSearch(Slow(), timeout_s=0.1).search("x", 5)
    assert not done.is_set()
    may_end.set()


async def test_missing_ddgs_names_the_install_command(monkeypatch: pytest.MonkeyPatch):
    """Without the extra, a search raises an error with the command."""
    monkeypatch.setitem(sys.modules, "ddgs", None)
    with pytest.raises(ToolError, match=r"not installed: pip install 'artifactflow-nb\[ddgs\]'$"):
        await DdgsSearch().search("x", 5)
