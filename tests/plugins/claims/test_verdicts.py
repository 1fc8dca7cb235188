"""Verdicts of persons on claims: stored with the version, and carried by new versions, seals, imports and forks."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.survey_run import survey_run

import artifactflow_nb as af

NOTES = "# Survey\n\nThe survey took 9,340 casts in 2021 at the northern site. Herring made up 45 % of the catch.\n"
REPORT = """# Survey

The survey took 9,430 casts in 2021 at the northern site [1]. Herring made up 45 % of the catch [1].

## Sources

1. Survey: local:notes/survey.md#survey
"""
NOTE = "Read in the original, p. 12"


@pytest.fixture
def reported(tmp_path: Path) -> Iterator[tuple[af.Workbench, af.Run]]:
    with survey_run(tmp_path, NOTES, REPORT, "See the report.") as opened:
        yield opened


def test_claims_of_a_version_are_a_list_with_counts_and_passages(reported: tuple[af.Workbench, af.Run]) -> None:
    wb, run = reported
    claims = wb.claims[run.artifacts["report"]]
    assert repr(claims) == "2 claims: 1 supported, 1 contradicted"
    assert (claims[0].status, claims[0].reason, claims[0].checker) == (
        "contradicted",
        "9,340 there, not 9,430.",
        "rules",
    )
    assert claims[0].quote == "The survey took 9,340 casts in 2021 at the northern site."
    assert "9,340 there, not 9,430." in claims._repr_html_()
    with pytest.raises(af.errors.UsageError, match="takes a version"):
        wb.claims["report"]  # type: ignore[index]


def test_verdict_of_a_person_overrules_and_earlier_checks_stay(reported: tuple[af.Workbench, af.Run]) -> None:
    wb, run = reported
    report = run.artifacts["report"]
    wb.claims[report][0].accept(NOTE)
    wb.claims[report][1].reject("The table of the original says 54 %.")
    claims = wb.claims[report]
    assert [(claim.status, claim.method) for claim in claims] == [("supported", "person"), ("contradicted", "person")]
    assert claims[0].reason == NOTE
    assert claims[0].checker not in {"", "rules"}
    assert f"Supported: {NOTE}" in report._repr_html_()
    assert wb.claims_df(run)["checked_at"].notna().all()
    with pytest.raises(af.errors.UsageError, match="note"):
        claims[0].accept(" ")
    wb.claims[report][0].reject("Read again: the original has the figure of another survey.")
    assert wb.claims[report][0].status == "contradicted"


def test_counts_are_those_of_the_last_versions_of_each_run(reported: tuple[af.Workbench, af.Run]) -> None:
    wb, run = reported
    assert wb.claims.counts_df(run).to_dict("records") == [
        {
            "n_claims_supported": 1,
            "n_claims_contradicted": 1,
            "n_claims_unsupported": 0,
            "n_claims_uncheckable": 0,
            "n_claims_unchecked": 0,
            "n_claims": 2,
        }
    ]
    wb.claims[run.artifacts["report"]][0].accept(NOTE)
    new = run.artifacts["report"].edit(REPORT.replace("45 %", "54 %"))
    assert wb.claims[new][0].status == "supported"
    counts = wb.claims.counts_df()
    assert counts.loc[run.run_id, ["n_claims", "n_claims_supported", "n_claims_contradicted"]].tolist() == [2, 1, 1]
    other = wb.ask("Write nothing.").wait()
    assert other.run_id not in wb.claims.counts_df().index
    new.edit("# Survey\n\nThe survey is not described here.\n")
    assert run.run_id not in wb.claims.counts_df().index


def test_next_version_keeps_the_verdict_on_the_same_sentence_only(reported: tuple[af.Workbench, af.Run]) -> None:
    wb, run = reported
    report = run.artifacts["report"]
    wb.claims[report][0].accept(NOTE)
    wb.claims[report][1].accept(NOTE)
    new = report.edit(REPORT.replace("45 %", "54 %"))
    assert [(claim.status, claim.method) for claim in wb.claims[new]] == [
        ("supported", "person"),
        ("contradicted", "figures"),
    ]
    assert wb.claims[new][0].checker == wb.claims[report][0].checker
    newest = new.edit(new.content.replace("# Survey", "# The survey"))
    assert wb.claims[newest][0].reason == NOTE


def test_seals_imports_and_forks_carry_the_verdict(reported: tuple[af.Workbench, af.Run], tmp_path: Path) -> None:
    wb, run = reported
    wb.claims[run.artifacts["report"]][0].accept(NOTE)
    with af.open_run(run.seal(tmp_path / "run.afrun")) as sealed:
        claims = sealed.claims[sealed.artifacts["report"]]
        assert (claims[0].method, claims[0].reason) == ("person", NOTE)
        with pytest.raises(af.errors.UsageError, match="import_run"):
            claims[0].reject("No.")
    with af.Workbench(model=af.ScriptedModel([]), data_dir=tmp_path / "other", interactive=False) as other:
        imported = other.store.import_run(tmp_path / "run.afrun")
        assert other.claims[imported.artifacts["report"]][0].reason == NOTE
    last = max(step.number for step in run.steps if step.kind == "model")
    fork = run.fork(last, prompt="Answer in one word.").wait()
    assert wb.claims[fork.artifacts["report"]][0].reason == NOTE
