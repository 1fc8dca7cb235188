"""Web search and fetching in whole runs: approvals, the guard, and the configured engine."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.replies import by_agent, call, delegate, requesting_agent
from support.web_server import Reply, WebServer

import artifactflow_nb as af
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.tools.base import ToolContext, tool
from artifactflow_nb.widgets.run.saved import saved_run

KEY = "tvly-secret-0123456789"


@tool(permission="confirm")
def send(ctx: ToolContext) -> str:
    """Send a letter."""
    return "sent"


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


def reader(*fetches: list[str]) -> ScriptedModel:
    """A lead whose reading agent fetches these addresses, a call after the other, for each question."""

    def script(request: ModelRequest) -> Any:
        if requesting_agent(request) == "lead":
            return "Done." if "Read all." in request.messages[-1].content else delegate("crawl_agent", "Read.")
        n_calls = sum(message.role == "assistant" for message in request.messages)
        return call("web_fetch", urls=fetches[n_calls]) if n_calls < len(fetches) else "Read all."

    return ScriptedModel(script)


@pytest.fixture
def two_hosts() -> Iterator[tuple[WebServer, WebServer]]:
    page = Reply(b"<p>Four euros.", content_type="text/html")
    with WebServer({"/1": page, "/2": page}) as first, WebServer({"/1": page}) as second:
        yield first, second


def fetching(folder: Path, model: ScriptedModel, servers: tuple[WebServer, WebServer], **options: Any) -> af.Workbench:
    hosts = ",".join(server.host for server in servers)
    rounds = {"crawl_agent": {"max_tool_rounds": 5}}
    return af.Workbench(
        model=model, data_dir=folder, allowed_hosts=hosts, graph_config=rounds, interactive=False, **options
    )


def test_hosts_are_approved_for_the_run_not_pages(tmp_path: Path, two_hosts: tuple[WebServer, WebServer]) -> None:
    """A second page of an approved host is read without a request; another host, and the next run, ask again."""
    first, second = two_hosts
    model = reader([first.url("/1")], [first.url("/2")], [first.url("/1"), second.url("/1")])
    with fetching(tmp_path / "data", model, two_hosts) as wb:
        run = wb.ask("What is the fare?").wait()
        assert run.pending[0].title == f"crawl_agent wants to read pages of {first.host}"
        assert run.pending[0].hosts == (first.host,)
        run.approve().wait()
        assert [set(request.hosts) for request in run.pending] == [{first.host, second.host}]
        assert len(first.requests) == 2
        assert run.approve().wait().response == "Done."
        assert wb.tool_calls_df(run).query("tool_name == 'web_fetch'")["approval"].tolist() == ["approved"] * 3
        assert wb.ask("And tomorrow?").wait().status == "waiting"


def test_denied_host_is_not_asked_for_again_in_the_run(tmp_path: Path, two_hosts: tuple[WebServer, WebServer]) -> None:
    """A call that reads from the denied host and another host makes no request either; nothing is read."""
    first, second = two_hosts
    model = reader([first.url("/1")], [first.url("/2")], [first.url("/1"), second.url("/1")])
    with fetching(tmp_path / "data", model, two_hosts) as wb:
        run = wb.ask("What is the fare?").wait()
        assert run.deny().wait().response == "Done."
        assert wb.tool_calls_df(run).query("tool_name == 'web_fetch'")["approval"].tolist() == ["denied"] * 3
    assert (first.requests, second.requests) == ([], [])


def test_host_is_approved_for_good_until_the_approval_is_withdrawn(
    tmp_path: Path, two_hosts: tuple[WebServer, WebServer]
) -> None:
    """`always` holds in later conversations and workbenches; a policy overrides it; other tools have no such scope."""
    first, _ = two_hosts
    with fetching(tmp_path / "data", reader([first.url("/1")]), two_hosts) as wb:
        run = wb.ask("What is the fare?").wait()
        run.approve(scope="always").wait()
        assert f"always for {first.host}" in saved_run(run._client)["text/html"]
    with fetching(tmp_path / "data", reader([first.url("/2")]), two_hosts) as wb:
        assert wb.ask("And tomorrow?").wait().response == "Done."
        assert wb.store.withdraw(first.host.upper()) == 1
        assert wb.ask("And then?").wait().status == "waiting"
    with fetching(tmp_path / "data", reader([first.url("/2")]), two_hosts, approvals={"web_fetch": "deny"}) as wb:
        assert wb.tool_calls_df(wb.ask("Now?").wait())["approval"].tolist()[-1] == "denied"
    with af.Workbench(model=ScriptedModel([call("send"), "Done."]), data_dir=tmp_path / "other") as wb:
        wb.tool(send)
        with pytest.raises(af.errors.UsageError, match="only a request about hosts can have"):
            wb.ask("Send.").wait().approve(scope="always")


def test_approval_for_good_holds_only_in_its_own_store(tmp_path: Path, two_hosts: tuple[WebServer, WebServer]) -> None:
    """A run that is imported, or played from a cassette, approves nothing for other runs of the store."""
    first, _ = two_hosts
    cassette, sealed = tmp_path / "runs.jsonl", tmp_path / "run.zip"
    model = reader([first.url("/1")])
    with fetching(tmp_path / "data", model, two_hosts, record=cassette) as wb:
        wb.ask("What is the fare?").wait().approve(scope="always").wait().seal(sealed)
    with fetching(tmp_path / "imported", model, two_hosts) as wb:
        wb.store.import_run(sealed)
        assert wb.ask("And tomorrow?").wait().status == "waiting"
    with fetching(tmp_path / "played", model, two_hosts, replay=cassette, mode="auto") as wb:
        played = wb.ask("What is the fare?").wait()
        assert played.approve(scope="always").wait().response == "Done."
        assert wb.runs_df(columns="mode")["mode"].tolist() == ["auto"]
        assert wb.ask("And tomorrow?").wait().status == "waiting"


def test_requests_of_parallel_agents_are_covered_by_one_decision(
    tmp_path: Path, two_hosts: tuple[WebServer, WebServer]
) -> None:
    """Two readers wait for the same host: one approval lets both go on."""
    first, _ = two_hosts

    def script(request: ModelRequest) -> Any:
        if requesting_agent(request) == "lead":
            both = "".join(delegate("crawl_agent", f"Read page {n}.") for n in (1, 2))
            return "Done." if "Read all." in request.messages[-1].content else both
        if any(message.role == "assistant" for message in request.messages):
            return "Read all."
        return call("web_fetch", urls=[first.url("/1" if "page 1" in request.messages[-1].content else "/2")])

    with fetching(tmp_path / "data", ScriptedModel(script), two_hosts) as wb:
        run = wb.ask("What is the fare?").wait()
        assert len(run.pending) == 2
        assert run.approve(run.pending[0].id).wait().response == "Done."
    assert len(first.requests) == 2


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
    with pytest.raises(af.errors.UsageError, match=r"not installed: pip install 'artifactflow-nb\[ddgs\]'$"):
        af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "data", search="ddgs")
    cassette = tmp_path / "tape.jsonl"
    with af.Workbench(model=ScriptedModel(["Yes."]), data_dir=tmp_path / "data", record=cassette) as wb:
        wb.ask("Is it?").wait()
    with af.Workbench(data_dir=tmp_path / "replay", replay=cassette, search="ddgs") as wb:
        assert wb.ask("Is it?").wait().response == "Yes."


def test_configured_search_engine_is_used(tmp_path: Path) -> None:
    """With search="searxng" the search agent's query goes to SearXNG, and the hits of SearXNG are returned."""
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
    with pytest.raises(af.errors.UsageError, match=words):
        af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "data", **settings)


def test_search_key_is_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the settings nor the workbench show the key, whatever its origin."""
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    with af.Workbench(model=ScriptedModel([]), data_dir=tmp_path / "data", search="tavily") as wb:
        assert KEY not in repr(wb) + repr(wb.settings) + str(wb.settings)
