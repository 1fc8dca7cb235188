"""Sources of runs today: changed, removed and retracted ones, with the claims that rest on them."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.web_server import Reply, Route, WebServer, redirect

import artifactflow_nb as af

OpenWorkbench = Callable[..., af.Workbench]

BIBLIOGRAPHY = "@article{otters, title = {RETRACTED: Otters}, author = {Lind, Nora}, year = {2020}, abstract = {Swim.}}"
REPORT = (
    "# Depth\n\nThe lake is 41 metres deep [1]. It has two islands [2]. Otters swim [3].\n\n## Sources\n\n"
    "1. Lake: Lake — local:papers/lake.md#lake\n2. Islands: Islands — local:papers/islands.md#islands\n"
    "3. Otters — local:papers/refs.bib#otters\n"
)


@pytest.fixture
def run(workbench: OpenWorkbench, tmp_path: Path) -> tuple[af.Workbench, af.Run, Path]:
    papers = tmp_path / "papers"
    papers.mkdir()
    (papers / "lake.md").write_text("# Lake\n\nThe lake is 41 metres deep.", encoding="utf-8")
    (papers / "islands.md").write_text("# Islands\n\nIt has two islands.", encoding="utf-8")
    (papers / "refs.bib").write_text(BIBLIOGRAPHY, encoding="utf-8")
    addresses = [f"local:papers/{name}" for name in ("lake.md#lake", "islands.md#islands", "refs.bib#otters")]
    turns = [
        af.ToolCall("call_subagent", {"agent_name": "crawl_agent", "instruction": "Find the depth."}),
        af.ToolCall("web_fetch", {"urls": addresses}),
        "The lake is 41 metres deep.",
        af.ToolCall("create_artifact", {"id": "report", "title": "Depth", "content": REPORT}),
        "See the report.",
    ]
    wb = workbench(turns, interactive=False, approvals="approve")
    wb.sources.add(papers)
    ended = wb.ask("How deep is the lake?").wait()
    assert ended.status == "completed"
    return wb, ended, papers


def test_only_a_retracted_source_is_listed_before_a_change(run: tuple[af.Workbench, af.Run, Path]) -> None:
    wb, ended, _ = run
    frame = wb.crate.watch(ended)
    assert frame[["address", "state", "claim"]].to_numpy().tolist() == [
        ["local:papers/refs.bib#otters", "retracted", "Otters swim."]
    ]


def test_changed_and_removed_sources_have_the_claims_on_them(run: tuple[af.Workbench, af.Run, Path]) -> None:
    """Each with the status of the last check; no row of the run changes, and a sealed run refuses."""
    wb, ended, papers = run
    before = ended.rows()
    (papers / "lake.md").write_text("# Lake\n\nThe lake is 14 metres deep.", encoding="utf-8")
    (papers / "islands.md").unlink()
    frame = wb.crate.watch([ended.run_id]).set_index("address")
    assert frame.loc["local:papers/lake.md#lake", "state"] == "changed"
    assert frame.loc["local:papers/lake.md#lake", "claim"] == "The lake is 41 metres deep."
    assert frame.loc["local:papers/lake.md#lake", "status"] == "supported"
    assert frame.loc["local:papers/islands.md#islands", "state"] == "removed"
    assert ended.rows() == before
    with (
        af.open_run(ended.seal("run.afrun")) as sealed,
        pytest.raises(af.errors.UsageError, match="Import the run"),
    ):
        sealed.crate.watch(sealed)


def test_moved_page_has_its_new_address_and_the_claims_on_it(workbench: OpenWorkbench) -> None:
    """A page has moved if it leads elsewhere than when the run read it; a page that redirected before has not moved."""
    deep, otters = Reply(b"The lake is 41 metres deep."), Reply(b"Otters swim.")
    routes: dict[str, Route] = {"/depth": deep, "/new": deep, "/short": redirect("/long"), "/long": otters}
    with WebServer(routes) as server:
        addresses = [server.url("/depth"), server.url("/short")]
        report = (
            "# Depth\n\nThe lake is 41 metres deep [1]. Otters swim [2].\n\n## Sources\n\n"
            f"1. Depth: {addresses[0]}\n2. Otters: {addresses[1]}\n"
        )
        turns = [
            af.ToolCall("call_subagent", {"agent_name": "crawl_agent", "instruction": "Find the depth."}),
            af.ToolCall("web_fetch", {"urls": addresses}),
            "The lake is 41 metres deep.",
            af.ToolCall("create_artifact", {"id": "report", "title": "Depth", "content": report}),
            "See the report.",
        ]
        wb = workbench(turns, interactive=False, approvals="approve", allowed_hosts=[server.host])
        run = wb.ask("How deep is the lake?").wait()
        assert len(wb.crate.watch(run)) == 0
        server.routes["/depth"] = redirect("/new", 301)
        (row,) = wb.crate.watch(run).to_dict("records")
        claim = "The lake is 41 metres deep."
        assert (row["address"], row["state"], row["claim"]) == (addresses[0], "moved", claim)
        assert row["reason"] == f"The page is now at {server.url('/new')}"
        server.routes["/new"] = Reply(b"The lake is 14 metres deep.")
        (row,) = wb.crate.watch(run).to_dict("records")
        assert (row["state"], row["reason"]) == ("changed", f"The page is now at {server.url('/new')}")
