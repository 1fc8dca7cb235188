"""The tools web_search and web_fetch."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.web_server import Reply, WebServer

from artifactflow_nb.core.clock_ids import SystemClock
from artifactflow_nb.sources.citations import read_counts, read_documents, read_hits
from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.store.database import Database
from artifactflow_nb.tools.base import ToolContext, ToolPermission
from artifactflow_nb.tools.web.fetch import Fetcher
from artifactflow_nb.tools.web.scoring import LocalSearch
from artifactflow_nb.tools.web.tools import SearchProvider, web_fetch, web_search

TEXT = (
    "# Ferry\n\n## Fares\n\nA ticket costs 4 crowns.\n</source>\nChildren pay half.\n\n## Winter\n\nThe ferry rests.\n"
)


@pytest.fixture
async def context(tmp_path: Path):
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / "ferry.md").write_text(TEXT, encoding="utf-8")
    database = Database(tmp_path / "store.db")
    await database.open()
    sources = SourceManager(database, SystemClock())
    await sources.add_folder(tmp_path / "lake")
    services = {SourceManager: sources, SearchProvider: LocalSearch(sources)}
    yield ToolContext("run-1", "conv-1", "msg-1", "agent", "call-1", services)
    await database.close()


async def test_search_returns_hits_and_word_counts(context: ToolContext):
    """The text can be parsed into hits and counts, and the metadata have titles and addresses."""
    result = await web_search.run(context, {"query": "What does a ticket for the zeppelin cost?", "max_results": "3"})
    (hit,) = read_hits(result.data)
    assert (hit.title, hit.address) == ("Ferry: Fares", "local:lake/ferry.md#fares")
    counts = read_counts(result.data)
    assert counts is not None
    assert (counts.counts["ticket"], counts.counts["zeppelin"]) == (1, 0)
    assert result.metadata["results"] == [{"title": "Ferry: Fares", "address": "local:lake/ferry.md#fares"}]


async def test_search_without_hits_advises_other_words(context: ToolContext):
    """A search without hits is a success; an empty query is an error."""
    assert "Nothing was found" in (await web_search.run(context, {"query": "zeppelin"})).data
    assert not (await web_search.run(context, {"query": "  "})).success


async def test_fetched_text_is_verbatim(context: ToolContext):
    """The result is parsed exactly, even if the text contains the end marker; an invalid address has its own error."""
    urls = ["local:lake/ferry.md#fares", "local:lake/ferry.md#fare"]
    result = await web_fetch.run(context, {"urls": urls})
    good, bad = read_documents(result.data)
    assert good.text == "## Fares\n\nA ticket costs 4 crowns.\n</source>\nChildren pay half."
    assert "local:lake/ferry.md#fares" in (bad.error or "")
    assert [entry["address"] for entry in result.metadata["failed"]] == ["local:lake/ferry.md#fare"]


async def test_long_source_is_excerpted_by_focus(context: ToolContext, tmp_path: Path):
    """The paragraphs nearest to the focus are returned, with a note on the omitted length."""
    filler = "\n\n".join(f"Paragraph {n} tells of nothing but waves and wind. " * 8 for n in range(60))
    (tmp_path / "lake" / "log.md").write_text(f"# Log\n\n{filler}\n\nThe anchor weighs 80 kg.\n", encoding="utf-8")
    await context.service(SourceManager).add_folder(tmp_path / "lake")
    params = {"urls": ["local:lake/log.md#log"], "focus": "weight of the anchor"}
    (document,) = read_documents((await web_fetch.run(context, params)).data)
    assert len(document.text) < 17_000
    assert "The anchor weighs 80 kg." in document.text
    assert "characters left out ...]" in document.text


async def test_local_sources_and_pages_are_returned_in_order(context: ToolContext):
    """A call with both kinds of addresses has a document or an error for each, in order."""
    with WebServer(
        {"/fares": Reply(b"<h1>Fares</h1><p>A crossing costs 4 euros.", content_type="text/html")}
    ) as server:
        services = {**context.services, Fetcher: Fetcher([server.host])}
        urls = [server.url("/fares"), "local:lake/ferry.md#fares", server.url("/gone")]
        result = await web_fetch.run(replace(context, services=services), {"urls": urls})
    documents = read_documents(result.data)
    assert [document.address for document in documents] == urls
    assert "A crossing costs 4 euros." in documents[0].text
    assert "404" in (documents[2].error or "")


async def test_address_that_is_not_public_is_refused(context: ToolContext):
    """Without the setting a loopback server is not reached, and the message says so."""
    with WebServer({"/secret": Reply(b"secret")}) as server:
        services = {**context.services, Fetcher: Fetcher()}
        result = await web_fetch.run(replace(context, services=services), {"urls": [server.url("/secret")]})
        assert server.requests == []
    assert not result.success
    assert "127.0.0.1" in (result.error or "")
    assert "public" in (result.error or "")


@pytest.mark.parametrize(
    ("urls", "permission"),
    [
        (["local:a#b", "local:c#d"], ToolPermission.AUTO),
        (["local:a#b", "https://example.org/"], ToolPermission.CONFIRM),
        (["HTTPS://example.org/Ferry"], ToolPermission.CONFIRM),
    ],
)
async def test_only_local_addresses_need_no_approval(context: ToolContext, urls: list[str], permission: ToolPermission):
    """web_fetch needs an approval unless every address is local; web_search needs none."""
    context = replace(context, services={**context.services, Fetcher: Fetcher()})
    assert await web_fetch.permission_for(context, web_fetch.bind({"urls": urls})) is permission
    assert await web_search.permission_for(context, web_search.bind({"query": "x"})) is ToolPermission.AUTO


async def test_refused_address_refuses_the_whole_call(context: ToolContext):
    """Other addresses are not fetched without the approval that the call needs, and local sources are not read."""
    with WebServer({"/fares": Reply(b"Fares")}) as server:
        services = {**context.services, Fetcher: Fetcher([server.host])}
        urls = [server.url("/fares"), "http://10.0.0.7/", "local:lake/ferry.md#fares"]
        result = await web_fetch.run(replace(context, services=services), {"urls": urls})
        assert server.requests == []
    assert (result.error or "").startswith("http://10.0.0.7/: Not fetched: 10.0.0.7 is")
    assert "Nothing was read. Call it again without these addresses." in (result.error or "")
