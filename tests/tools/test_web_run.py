"""Web search and fetching in whole runs: approvals, the guard, and the configured engine."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support.replies import by_agent, call, delegate
from support.web_server import Reply, WebServer

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel

KEY = "tvly-secret-0123456789"


def reading(url: str) -> ScriptedModel:
    """A lead that delegates the reading of a page, and a reader that fetches it."""
    return ScriptedModel(
        by_agent(
            lead=[delegate("crawl_agent", f"Read {url}."), "Done."],
            reading=[call("web_fetch", urls=[url]), "Read."],
        )
    )


def test_page_is_fetched_after_approval(tmp_path: Path) -> None:
    """The sub-agent waits for the approval; the model gets the page's text."""
    with WebServer({"/page": Reply(b"<h1>Fares</h1><p>Four euros.", content_type="text/html")}) as server:
        url = server.url("/page")
        model = reading(url)
        with af.Workbench(model=model, data_dir=tmp_path / "data", allowed_hosts=server.host) as wb:
            run = wb.ask("What is the fare?").wait()
            assert [(request.agent, request.tool) for request in run.pending] == [("crawl_agent", "web_fetch")]
            assert server.requests == []
            assert run.approve().wait().response == "Done."
            assert len(server.requests) == 1
    assert any("Four euros." in request.messages[-1].content for request in model.requests)


def test_approval_does_not_override_the_guard(tmp_path: Path) -> None:
    """The server of an approved address is not reached, and the model gets the reason."""
    with WebServer({"/page": Reply(b"secret")}) as server:
        model = reading(server.url("/page"))
        with af.Workbench(model=model, data_dir=tmp_path / "data", approvals="approve") as wb:
            assert wb.ask("What is it?").wait().response == "Done."
            (error,) = wb.tool_calls_df().query("tool_name == 'web_fetch'")["error_message"]
        assert server.requests == []
    assert "Only public hosts are fetched" in error


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:9/x", "http://localhost/x", "https://example.org:8080/x", "file:///etc/passwd", "http://[::1]/"],
)
def test_refused_address_needs_no_approval(tmp_path: Path, url: str) -> None:
    """The model gets the reason at once, even if a rule of the person requires an approval for each fetch."""
    for number, approvals in enumerate(("ask", {"web_fetch": "ask"})):
        model = reading(url)
        with af.Workbench(model=model, data_dir=tmp_path / str(number), approvals=approvals) as wb:
            run = wb.ask("What is there?").wait()
            assert (run.status, run.pending) == ("completed", ())
            assert wb.tool_calls_df(run).query("tool_name == 'web_fetch'")["success"].tolist() == [False]


def test_missing_ddgs_is_refused_at_the_creation_of_the_workbench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is one line with the install command; a replay does not search, so it needs no package."""
    monkeypatch.setitem(sys.modules, "ddgs", None)
    with pytest.raises(af.UsageError, match=r"not installed: pip install 'artifactflow-nb\[ddgs\]'$"):
        af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "data", search="ddgs")
    cassette = tmp_path / "tape.jsonl"
    with af.Workbench(model=ScriptedModel(["Yes."]), data_dir=tmp_path / "data", record=cassette) as wb:
        wb.ask("Is it?").wait()
    with af.Workbench(data_dir=tmp_path / "replay", replay=cassette, search="ddgs") as wb:
        assert wb.ask("Is it?").wait().response == "Yes."


def test_configured_search_engine_is_used(tmp_path: Path) -> None:
    """With search="searxng" the search agent's query goes there, and its hits are returned."""
    found = {"results": [{"title": "Ferry", "url": "https://ferry.example/fares", "content": "Fares of the ferry."}]}
    routes = {"/search": Reply(json.dumps(found).encode(), content_type="application/json")}
    script = by_agent(
        lead=[delegate("search_agent", "Find fares."), "Done."], search=[call("web_search", query="ferry fares"), "Ok."]
    )
    model = ScriptedModel(script)
    with WebServer(routes) as server:
        options: dict[str, Any] = {"search": "searxng", "searxng_url": server.url("")}
        with af.Workbench(model=model, data_dir=tmp_path / "data", **options) as wb:
            wb.ask("What is the fare?").wait()
        assert "ferry+fares" in server.requests[0].path
    assert any("https://ferry.example/fares" in request.messages[-1].content for request in model.requests)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"search": "searxng"}, "set AF_SEARXNG_URL or pass searxng_url="),
        ({"search": "tavily"}, "set TAVILY_API_KEY or pass tavily_key="),
        ({"search": "altavista"}, "one or several of 'local', 'searxng'"),
        ({"searxng_url": "ftp://x"}, "begins with http:// or https://"),
    ],
)
def test_invalid_search_settings_are_rejected(tmp_path: Path, settings: dict[str, str], words: str) -> None:
    """The error names the setting and the missing value."""
    with pytest.raises(af.UsageError, match=words):
        af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "data", **settings)


def test_search_key_is_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the settings nor the workbench show the key, whatever its origin."""
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    with af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "data", search="tavily") as wb:
        assert KEY not in repr(wb) + repr(wb.settings) + str(wb.settings)
