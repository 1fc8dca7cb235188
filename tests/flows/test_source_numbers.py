"""When a run ends, each source of its reports and of its answer has one number."""

from pathlib import Path

from support.replies import report

import artifactflow_nb as af

A, B = "https://e.org/a", "https://e.org/b"
WRITTEN = f"# Report\n\nOne [1], two [2], three [5].\n\n## Sources\n\n1. A: {A}\n2. B: {B}\n5. A again: {A}\n"
RENUMBERED = f"# Report\n\nOne [1], two [2], three [1].\n\n## Sources\n\n1. A: {A}\n2. B: {B}\n"


def texts(run: af.Run) -> list[str]:
    return [version.content for version in run.artifacts["report"].versions.values()]


def test_reports_and_answers_are_renumbered(tmp_path: Path) -> None:
    """The report gets a version with the reason; a replay has the same versions."""
    cassette = tmp_path / "numbers.jsonl"
    model = af.ScriptedModel([report(WRITTEN, "report"), f"It is written, see [2].\n\n2. B: {B}"])
    with af.Workbench(model=model, record=cassette, data_dir=tmp_path / "data", interactive=False) as wb:
        run = wb.ask("Compare a and b.").wait()
        assert texts(run) == [WRITTEN, RENUMBERED]
        assert run.artifacts["report"].reason == "The workbench gave each source one number."
        assert run.response == f"It is written, see [2].\n\n- [2] B: {B}"
        assert [run.citation(n).address for n in (1, 2)] == [A, B]
        assert [item["URL"] for item in run.to_csl()] == [A, B]
    with af.Workbench(replay=cassette, interactive=False) as wb:
        assert texts(wb.ask("Compare a and b.").wait()) == [WRITTEN, RENUMBERED]
