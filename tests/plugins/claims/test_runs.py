"""Claims of a run's artifacts: the rows, in live, replayed, sealed, imported and forked runs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import artifactflow_nb as af
from artifactflow_nb.plugins.claims.versions import claim_rows
from artifactflow_nb.sources.values import Evidence

NOTES = """# Survey

The survey took 9,340 casts in 2021 at the northern site. Herring made up 45 % of the catch.

The reserve was opened on 3 May 2014 by Nora Lind.
"""
REPORT = """# Survey

The survey took 9,340 casts in 2021. It took 9,430 casts in 2021 at the northern site [1].

- The reserve was opened in May 2014 [1].
- The harbour has 77 berths [1].
- Otters sleep late [2].

Nobody wrote this down.

## Sources

1. Survey: Survey — local:papers/notes.md#survey
2. Otters — https://otters.example/
"""
QUESTION = "How many casts were there?"
STATUSES = ["supported", "contradicted", "uncheckable", "unsupported", "unchecked", "unsupported"]
SEARCH = [
    af.ToolCall("call_subagent", {"agent_name": "crawl_agent", "instruction": "Find the casts."}),
    af.ToolCall("web_fetch", {"urls": ["local:papers/notes.md#survey"]}),
    "The survey has them.",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    papers = tmp_path / "papers"
    papers.mkdir()
    (papers / "notes.md").write_text(NOTES, encoding="utf-8")
    return tmp_path


@pytest.fixture
def reported(folder: Path) -> Iterator[tuple[af.Workbench, af.Run]]:
    call = af.ToolCall("create_artifact", {"id": "report", "title": "Survey", "content": REPORT})
    with af.Workbench(
        model=af.ScriptedModel([*SEARCH, call, "See the report."]),
        data_dir=folder / "data",
        record=folder / "runs.jsonl",
        mode="record",
        approvals="approve",
        interactive=False,
    ) as wb:
        wb.sources.add(folder / "papers")
        yield wb, wb.ask(QUESTION).wait()


def rows(frame: Any) -> list[dict[str, Any]]:
    """The rows without ids, which differ between a run and its fork."""
    return [
        {name: value for name, value in row.items() if name not in {"claim_id", "run_id", "checked_at", "version"}}
        for row in frame.astype(object).where(frame.notna(), None).to_dict("records")
    ]


def test_each_claim_of_a_version_is_checked_when_it_is_written(reported: tuple[af.Workbench, af.Run]) -> None:
    wb, run = reported
    frame = wb.claims_df(run)
    assert frame["status"].tolist() == STATUSES
    wrong = frame.iloc[1]
    assert (wrong["reason"], wrong["method"], wrong["kind"]) == ("9,340 there, not 9,430.", "figures", "figure")
    assert wrong["quote"] == "The survey took 9,340 casts in 2021 at the northern site."
    assert (wrong["address"], wrong["source_title"]) == ("local:papers/notes.md#survey", "Survey: Survey")
    assert (wrong["artifact_id"], wrong["version"], wrong["n"], wrong["checker"]) == ("report", 1, 1, "rules")
    assert frame["reason"][4] == "This run has not read the source."
    assert frame["reason"][5] == "No source is cited."
    open_claims = "SELECT text, \"end\" - start AS n FROM claims WHERE status = 'contradicted'"
    assert wb.query(open_claims)["n"].tolist() == [len(wrong["quote"])]
    assert {"claim_id", "checked_at"} <= set(wb.columns_df().query("frame == 'claims'")["column"])


def test_later_version_has_claims_of_its_own(reported: tuple[af.Workbench, af.Run]) -> None:
    wb, run = reported
    run.artifacts["report"].edit(REPORT.replace("9,430", "9,340"))
    frame = wb.claims_df(run)
    assert frame.query("version == 1")["status"].tolist() == STATUSES
    assert frame.query("version == 2")["status"].tolist() == ["supported", "uncheckable", *STATUSES[2:]]


def test_text_that_cites_nothing_has_no_claims(folder: Path) -> None:
    call = af.ToolCall(
        "create_artifact", {"id": "poem", "title": "Poem", "content": "Two herons wait. Nine fish swim."}
    )
    with af.Workbench(
        model=af.ScriptedModel([call, "Here."]), data_dir=folder / "data", approvals="approve", interactive=False
    ) as wb:
        assert wb.claims_df(wb.ask("Write a poem.").wait()).empty


def test_replayed_sealed_and_imported_runs_have_the_same_claims(
    reported: tuple[af.Workbench, af.Run], folder: Path
) -> None:
    wb, run = reported
    live = wb.claims_df(run)
    with af.open_run(run.seal(folder / "run.afrun")) as sealed:
        assert sealed.claims_df().equals(live)
    with af.Workbench(replay=folder / "runs.jsonl", interactive=False) as replay:
        assert replay.claims_df(replay.ask(QUESTION).wait()).equals(live)
    with af.Workbench(model=af.ScriptedModel([]), data_dir=folder / "other", interactive=False) as other:
        assert other.claims_df(other.store.import_run(folder / "run.afrun")).equals(live)
        other.conversation(run.conversation_id).delete()
        assert other.claims_df().empty
    assert "claims" in wb.store.storage_df()["kind"].tolist()


def test_fork_after_the_report_has_its_claims(reported: tuple[af.Workbench, af.Run]) -> None:
    """The copied version has another number, and its claims belong to the fork."""
    wb, run = reported
    last = max(step.number for step in run.steps if step.kind == "model")
    fork = run.fork(last, prompt="Answer in one word.").wait()
    forked = wb.claims_df(fork)
    assert rows(forked) == rows(wb.claims_df(run))
    assert set(forked["run_id"]) == {fork.run_id}
    assert set(forked["version"]) == {fork.artifacts["report"].version} != {1}


def test_sentence_shares_the_citation_at_the_end_of_its_paragraph_and_a_cell_that_of_its_row() -> None:
    text = (
        "One. The lake is deep. It is cold [1].\n\n| lake | depth | source |\n|---|---|---|\n| A | 9 m | [1] |\n"
        "| B | 8 m | |\n\n> It is cold.\n\n## Sources\n\n1. Lake: https://a.example/\n"
    )
    found = list(claim_rows(text, lambda _cited: Evidence({"https://a.example/": "The lake A has 9 m. It is cold."})))
    assert [(row["text"], row["address"] is not None) for row in found] == [
        ("The lake is deep.", True),
        ("It is cold.", True),
        ("A | depth: 9 m", True),
        ("B | depth: 8 m", False),
        ("It is cold.", False),
    ]


@pytest.mark.parametrize(
    "source",
    [
        "9" * 100_000,
        "a," * 50_000,
        "\x00\x1b[31m<script>" * 5_000,
        "1 000 " * 20_000,
        "[a](" * 50_000,
        "`a``b" * 20_000,
    ],
)
def test_hostile_sources_are_harmless(source: str) -> None:
    """A check ends with a verdict that is not a contradiction."""
    text = "It has 9 rooms [1].\n\n## Sources\n\n1. A: https://a.example/\n"
    found = list(claim_rows(text, lambda _cited: Evidence({"https://a.example/": source})))
    assert [row["status"] for row in found] == ["unsupported"]


def test_source_that_changed_is_read_anew() -> None:
    """The same address with another text gives another verdict and another hash."""
    text = "The house has 9 rooms [1].\n\n## Sources\n\n1. A: https://a.example/\n"
    read = [Evidence({"https://a.example/": f"The house has {n} rooms."}) for n in (9, 8)]
    old, new = (next(claim_rows(text, lambda _cited: evidence)) for evidence in read)  # noqa: B023 - called at once
    assert (old["status"], new["status"]) == ("supported", "contradicted")
    assert old["source_sha256"] != new["source_sha256"]
