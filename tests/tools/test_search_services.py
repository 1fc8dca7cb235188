"""Search services over real connections, in the forms that their documentation describes."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from support.proxy_server import ProxyServer
from support.web_server import Reply, WebRequest, WebServer

import artifactflow_nb as af
from artifactflow_nb.engine.factories import known_values, make_search
from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.sources.citations import SearchHit
from artifactflow_nb.tools.web.http import HttpLimits
from artifactflow_nb.tools.web.services import SERVICES, ServiceAccess, ServiceSearch
from artifactflow_nb.tools.web.tools import CombinedSearch

KEY = "key-0123456789-opaque"

BRAVE = {
    "web": {
        "results": [
            {
                "title": "Ferry <strong>fares</strong>",
                "url": "https://lake.example/fares",
                "description": "A ticket &amp; a bicycle cost <strong>4 crowns</strong>.",
                "page_age": "2026-03-01T10:00:00",
            }
        ]
    }
}
OPENALEX = {
    "meta": {"count": 1},
    "results": [
        {
            "id": "https://openalex.org/W1",
            "doi": "https://doi.org/10.1/w1",
            "display_name": "Oxygen in the deep lake",
            "publication_year": 2024,
            "is_retracted": True,
            "authorships": [{"author": {"display_name": f"Author {n}"}} for n in range(5)],
            "primary_location": {"source": {"display_name": "Limnology"}},
            "open_access": {"is_oa": True, "oa_url": "https://repository.example/w1.pdf"},
            "abstract_inverted_index": {"Oxygen": [0], "falls": [1, 3], "and": [2]},
        },
        {"id": "https://openalex.org/W2", "doi": None, "display_name": None, "abstract_inverted_index": None},
    ],
}
CROSSREF = {
    "status": "ok",
    "message": {
        "items": [
            {
                "DOI": "10.1/a(1)",
                "title": ["A study of ferries"],
                "author": [{"given": "Ada", "family": "Ek"}, {"name": "The Ferry Group"}],
                "container-title": ["Boats"],
                "issued": {"date-parts": [[2020, 5]]},
                "abstract": "<jats:p>Ferries are <jats:italic>slow</jats:italic>.</jats:p>",
                "updated-by": [{"type": "retraction", "DOI": "10.1/r"}],
            },
            {
                "DOI": "10.1/b",
                "issued": {"date-parts": [[None]]},
                "update-to": [{"type": "retraction", "DOI": "10.1/a(1)"}],  # a notice is not retracted itself
            },
        ]
    },
}
ARXIV = """<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><entry>
<id>http://arxiv.org/abs/2401.00001v2</id><published>2024-01-01T00:00:00Z</published>
<title>Maths of
  ferries</title><summary>We prove it.</summary><author><name>A. Ek</name></author></entry></feed>"""
PUBMED_IDS = {"esearchresult": {"count": "2", "idlist": ["11", "12"]}}
PUBMED = {
    "result": {
        "uids": ["11", "12"],
        "11": {
            "title": "Sea sickness.",
            "source": "J Travel Med",
            "pubdate": "2023 Mar 4",
            "authors": [{"name": "Ek A"}],
            "pubtype": ["Journal Article", "Retracted Publication"],
        },
        "12": {"title": "Sleep.", "source": "Sleep", "pubdate": "", "authors": []},
    }
}
ANSWERS: dict[str, dict[str, str]] = {
    "brave": {"/res/v1/web/search": json.dumps(BRAVE)},
    "openalex": {"/works": json.dumps(OPENALEX)},
    "crossref": {"/works": json.dumps(CROSSREF)},
    "arxiv": {"/api/query": ARXIV},
    "pubmed": {
        "/entrez/eutils/esearch.fcgi": json.dumps(PUBMED_IDS),
        "/entrez/eutils/esummary.fcgi": json.dumps(PUBMED),
    },
}
HITS = {
    "brave": [
        SearchHit("Ferry fares", "https://lake.example/fares", "2026-03-01. A ticket & a bicycle cost 4 crowns .")
    ],
    "openalex": [
        SearchHit(
            "RETRACTED: Oxygen in the deep lake",
            "https://repository.example/w1.pdf",
            "Author 0, Author 1, Author 2 et al.; 2024; Limnology. Oxygen falls and falls",
        ),
        SearchHit("https://openalex.org/W2", "https://openalex.org/W2", ""),
    ],
    "crossref": [
        SearchHit(
            "RETRACTED: A study of ferries",
            "https://doi.org/10.1/a%281%29",
            "Ada Ek, The Ferry Group; 2020; Boats. Ferries are slow .",
        ),
        SearchHit("https://doi.org/10.1/b", "https://doi.org/10.1/b", ""),
    ],
    "arxiv": [SearchHit("Maths of ferries", "https://arxiv.org/abs/2401.00001v2", "A. Ek; 2024; arXiv. We prove it.")],
    "pubmed": [
        SearchHit("RETRACTED: Sea sickness.", "https://pubmed.ncbi.nlm.nih.gov/11/", "Ek A; 2023; J Travel Med"),
        SearchHit("Sleep.", "https://pubmed.ncbi.nlm.nih.gov/12/", "Sleep"),
    ],
}
EVERY = pytest.mark.parametrize("name", SERVICES)


def serve(name: str, reply: Callable[[str], Reply] = lambda text: Reply(text.encode())) -> WebServer:
    """A server that answers a search in the documented form, or with `reply` applied to it."""
    return WebServer({path: reply(text) for path, text in ANSWERS[name].items()})


def engine(name: str, server: WebServer, **limits: float) -> ServiceSearch:
    access = ServiceAccess(KEY, "ada@example.org")
    return ServiceSearch(SERVICES[name], access, base_url=server.url(""), limits=HttpLimits(**limits))


def query_of(request: WebRequest) -> dict[str, list[str]]:
    return parse_qs(urlsplit(request.path).query)


@EVERY
async def test_documented_answer_becomes_hits(name: str):
    """A hit has title, address, authors, year, venue and abstract; a retracted work is marked."""
    with serve(name) as server:
        assert await engine(name, server).search("ferries", 5) == HITS[name]


async def test_requests_have_the_documented_form():
    """Keys, contact addresses and limits are where each service expects them."""
    requests = {}
    for name in SERVICES:
        with serve(name) as server:
            await engine(name, server).search("slow ferries", 3)
            requests[name] = server.requests
    (brave,) = requests["brave"]
    assert (query_of(brave), brave.headers["x-subscription-token"]) == ({"q": ["slow ferries"], "count": ["3"]}, KEY)
    openalex = {"search": ["slow ferries"], "per-page": ["3"], "api_key": [KEY], "mailto": ["ada@example.org"]}
    assert query_of(requests["openalex"][0]) == openalex
    assert query_of(requests["crossref"][0]) == {
        "query": ["slow ferries"],
        "rows": ["3"],
        "mailto": ["ada@example.org"],
    }
    assert query_of(requests["arxiv"][0]) == {"search_query": ["all:slow AND all:ferries"], "max_results": ["3"]}
    search, summary = map(query_of, requests["pubmed"])
    assert (search["term"], search["retmax"], search["api_key"]) == (["slow ferries"], ["3"], [KEY])
    assert (summary["id"], summary["db"]) == (["11,12"], ["pubmed"])


@EVERY
@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (401, "check the key"),
        (429, "too often, or the credit"),
        (402, "credit of the person's key"),
        (500, "Try again"),
    ],
)
async def test_failure_has_advice_by_its_status(name: str, status: int, advice: str):
    """The service's own message is quoted, without the key that it may repeat."""
    body = json.dumps({"error": {"message": f"No entry with {KEY}"}}).encode()
    with (
        serve(name, lambda _text: Reply(body, status=status)) as server,
        pytest.raises(ToolError, match=advice) as caught,
    ):
        await engine(name, server).search("ferries", 5)
    assert "No entry with [secret]" in str(caught.value)
    assert KEY not in f"{caught.value}{engine(name, server)!r}{ServiceAccess(KEY)!r}"


async def test_spent_credit_of_openalex_is_named():
    """OpenAlex reports the remaining credit of the day in a header."""
    spent = Reply(b"{}", status=429, headers=(("x-ratelimit-remaining-usd", "0.0"),))
    with serve("openalex", lambda _text: spent) as server, pytest.raises(ToolError, match="credit of the day is spent"):
        await engine("openalex", server).search("ferries", 5)


@EVERY
@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'{"web": {"results": [{}]}, "results": [{}], "message": 1}'])
async def test_answer_of_another_form_is_an_error(name: str, body: bytes):
    """The error names the service, and no exception of a parser reaches the agent."""
    with serve(name, lambda _text: Reply(body)) as server, pytest.raises(ToolError, match="cannot be read"):
        await engine(name, server).search("ferries", 5)


async def test_expanding_xml_is_refused():
    """A short answer of a hostile server must not fill the memory."""
    entities = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(9))
    bomb = f'<!DOCTYPE x [<!ENTITY e0 "text">{entities}]><feed>&e9;</feed>'
    with serve("arxiv", lambda _text: Reply(bomb.encode())) as server, pytest.raises(ToolError, match="cannot be read"):
        await engine("arxiv", server).search("ferries", 5)


async def test_empty_and_slow_answers():
    """A missing result is not an error; a service that does not answer in time gives an error."""
    empty = json.dumps({"esearchresult": {"idlist": []}}).encode()
    with serve("pubmed", lambda _text: Reply(empty)) as server:
        assert await engine("pubmed", server).search("ferries", 5) == []
    with (
        serve("crossref", lambda text: Reply(text.encode(), delay_s=5)) as server,
        pytest.raises(ToolError, match=r"0\.2 s"),
    ):
        await engine("crossref", server, total_timeout_s=0.2).search("ferries", 5)


async def test_requests_keep_the_pause_that_a_service_asks_for():
    """Parallel searches queue; PubMed allows three requests a second without a key."""
    with serve("pubmed") as server:
        search = engine("pubmed", server)
        started = asyncio.get_running_loop().time()
        await asyncio.gather(search.search("ferries", 5), search.search("boats", 5))
        assert asyncio.get_running_loop().time() - started >= 3 * SERVICES["pubmed"].pause_s
        assert len(server.requests) == 4


# --- several engines -----------------------------------------------------------------------------------------------


class Listed:
    """A search engine with a fixed list of addresses, or an error."""

    def __init__(self, *names: str, error: Exception | None = None) -> None:
        self._hits = [SearchHit(name, f"https://e.org/{name}", "") for name in names]
        self._error = error

    async def search(self, query: str, limit: int) -> list[SearchHit]:
        del query
        if self._error:
            raise self._error
        return self._hits[:limit]


async def test_hits_of_several_engines_alternate_without_duplicates():
    """An address that several engines find keeps its best rank."""
    combined = CombinedSearch({"one": Listed("a", "b", "c"), "two": Listed("x", "b")})
    assert [hit.title for hit in await combined.search("q", 4)] == ["a", "x", "b", "c"]


async def test_failure_of_one_engine_is_reported_with_the_hits():
    """A search fails only if all engines fail, with an error that names each engine; a fault of the code is raised."""
    broken = Listed(error=ToolError("no answer"))
    hits, failures = await CombinedSearch({"one": Listed("a"), "two": broken}).search_all("q", 5)
    assert ([hit.title for hit in hits], failures) == (["a"], ["two: no answer"])
    with pytest.raises(ToolError, match="one: no answer\ntwo: no answer"):
        await CombinedSearch({"one": broken, "two": broken}).search("q", 5)
    with pytest.raises(ZeroDivisionError):
        await CombinedSearch({"one": Listed("a"), "two": Listed(error=ZeroDivisionError())}).search("q", 5)


def search_run(tmp_path: Path, **options: object) -> tuple[str, str]:
    """Ask a scripted lead that searches; return the system prompt of the search agent, and the result of the search."""

    def answer(request: ModelRequest) -> str | af.ToolCall:
        system = request.messages[0].content
        if "search agent" not in system:
            is_done = len(request.messages) > 2
            call = af.ToolCall("call_subagent", {"agent_name": "search_agent", "instruction": "Find it."})
            return "Done." if is_done else call
        return "Found." if len(request.messages) > 2 else af.ToolCall("web_search", {"query": "zzyzx"})

    model = af.ScriptedModel(answer)
    wb = af.Workbench(model=model, data_dir=tmp_path / "data", interactive=False, **options)
    if (tmp_path / "notes").exists():
        wb.sources.add(tmp_path / "notes")
    wb.ask("Where is it?").wait()
    wb.close()
    searches = [request for request in model.requests if "search agent" in request.messages[0].content]
    return searches[0].messages[0].content, searches[1].messages[-1].content


def test_prompt_and_result_name_the_searched_sources(tmp_path: Path):
    """Without sources, prompt and result name the language reference; an empty result names the scope."""
    prompt, result = search_run(tmp_path)
    assert "web_search searches the Python language reference only" in prompt
    assert "Nothing was found for 'zzyzx' in the Python language reference only" in result


def test_several_engines_are_passed_by_name_and_as_objects(tmp_path: Path):
    """The hits of all services are returned, the person's folders are named, and the agent is informed of a failure."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "ferry.md").write_text("# Ferry\n\nThe zzyzx is a ferry.", encoding="utf-8")
    broken = Listed(error=ToolError("no answer"))
    prompt, result = search_run(tmp_path, search=["local", broken])
    assert "the person's own sources: notes (1 file); Listed" in prompt
    assert "local:notes/ferry" in result
    assert "No answer from Listed: no answer" in result


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ("bing", "one or several of 'local', 'searxng'"),
        (["local", "openalex"], "search is 'openalex': set OPENALEX_API_KEY or pass openalex_key= too"),
        ("brave", "set BRAVE_API_KEY or pass brave_key="),
        (["local", 3], "search is 3; pass a name or an object"),
    ],
)
def test_unusable_engine_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, search: object, message: str
):
    """The error comes when the workbench is made, not in the middle of a run."""
    for name in ("OPENALEX_API_KEY", "BRAVE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match=message):
        af.Workbench(data_dir=tmp_path, search=search)  # type: ignore[arg-type]


# --- behind a proxy --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["crossref", "openalex", "tavily", "searxng"])
async def test_setting_proxy_holds_for_searches(name: str, monkeypatch: pytest.MonkeyPatch):
    """The configured engine sends all its requests through `AF_PROXY`."""
    with ProxyServer({}, login="me:s3cret-word") as proxy:
        monkeypatch.setenv("AF_PROXY", proxy.url.replace("://", "://me:s3cret-word@"))
        keys = {"openalex_key": KEY, "tavily_key": KEY, "searxng_url": "https://search.iana.org"}
        settings = af.Settings.load(search=name, **keys)
        with pytest.raises(ToolError, match=f"through the proxy {proxy.url}: 502") as failed:
            await make_search(name, settings).search("ferry", 5)
    assert [head.partition(" ")[0] for head in proxy.heads] == ["CONNECT"]
    assert "s3cret-word" not in str(failed.value) + repr(settings) + settings.model_dump_json()
    assert {"s3cret-word", "me:s3cret-word"} <= known_values(settings, {}, ())


async def test_search_service_answers_through_a_proxy():
    """A service is found by its name at the proxy, and its hits equal the hits of a direct request."""
    with serve("crossref") as server, ProxyServer({"api.iana.org": server.port}) as proxy:
        service = ServiceSearch(SERVICES["crossref"], ServiceAccess(proxy=proxy.url), base_url="http://api.iana.org")
        through = await service.search("q", 5)
        direct = await engine("crossref", server).search("q", 5)
    assert through == direct != []
