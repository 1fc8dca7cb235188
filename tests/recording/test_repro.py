"""The reproducibility report lists recorded, replayed, live and changed runs with advice."""

import threading
from pathlib import Path
from typing import Any

import pytest
from support.hostile_texts import HOSTILE
from support.replies import call, report
from support.safe_html import VIEW, harms

import artifactflow_nb as af
from artifactflow_nb.core.text.cards import MAX_ROWS
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recording.report import ReproducibilityReport, RunOrigin


def open_workbench(folder: Path, *turns: Any, **options: Any) -> af.Workbench:
    """A workbench with a model of these turns; with `replay`, a workbench with a separate store and no model."""
    if options.get("replay") is None:
        options["data_dir"] = folder / "data"
    if turns:
        options["model"] = ScriptedModel(list(turns))
    return af.Workbench(interactive=False, **options)


def states(repro: ReproducibilityReport) -> list[str]:
    return [run.state for run in repro.runs]


@pytest.fixture
def cassette(tmp_path: Path) -> Path:
    """Two recorded runs: `First?` writes a report and answers, `Second?` answers."""
    path = tmp_path / "c.jsonl"
    with open_workbench(tmp_path / "recorded", report("A."), "One.", "Two.", record=path) as wb:
        for question in ("First?", "Second?"):
            wb.ask(question).wait(20)
    return path


def test_advice_for_live_runs_is_to_record_them(tmp_path: Path) -> None:
    """Without a cassette every run is live."""
    with open_workbench(tmp_path, "One.", "Two.") as wb:
        assert wb.repro().advice == 'No run yet. Ask with wb.ask("...").'
        run = wb.ask("Who?").wait(20)
        found = wb.repro()
        assert (states(found), found.cassette, found.mode) == (["live"], None, "live")
        assert found.runs[0].llm_calls == {"off": 1}
        assert found.advice.startswith(f"The run is not recorded. {run.run_id} is live: make the workbench with")
        assert 'af.Workbench(record="data/cassettes/notebook.jsonl")' in found.advice
        wb.ask("And?").wait(20)
        assert wb.repro().advice.startswith("None of the 2 runs is recorded.")


def test_recorded_runs_are_in_the_cassette(tmp_path: Path) -> None:
    """A run is recorded while the file contains the run, and live after the file was removed."""
    path = tmp_path / "c.jsonl"
    with open_workbench(tmp_path, report("A."), "One.", "Two.", record=path) as wb:
        assert wb.repro().cassette == path
        for question in ("First?", "Second?"):
            wb.ask(question).wait(20)
        found = wb.repro()
        assert states(found) == ["recorded", "recorded"]
        assert (found.runs[0].llm_calls, found.runs[0].tool_calls) == ({"recorded": 2}, {"recorded": 1})
        assert found.advice == (
            "All 2 runs are recorded. With AF_MODE=replay, the notebook has the same results without a network and "
            "without a key."
        )
        path.unlink()
        assert states(wb.repro()) == ["live", "live"]
        assert 'execute the notebook from its beginning with af.Workbench(record="c.jsonl")' in wb.repro().advice
        path.write_text("broken")
        assert states(wb.repro()) == ["live", "live"]
        assert wb.repro().advice == f"None of the 2 runs is recorded. {wb.repro().problem}"
        assert f"{path} is not a cassette" in wb.repro()._card().plain()


def test_replayed_runs_called_no_model(tmp_path: Path, cassette: Path) -> None:
    """All calls come from the cassette, and nothing is reported as changed."""
    with open_workbench(tmp_path, replay=cassette) as wb:
        for question in ("First?", "Second?"):
            wb.ask(question).wait(20)
        found = wb.repro()
    assert states(found) == ["replayed", "replayed"]
    assert [run.llm_calls for run in found.runs] == [{"hit": 2}, {"hit": 1}]
    assert [run.tool_calls for run in found.runs] == [{"hit": 1}, {}]
    assert [run.changes for run in found.runs] == [(), ()]
    assert found.advice == "All 2 runs are recorded. No model or service was called."


def test_report_has_runs_of_this_workbench_or_all(tmp_path: Path) -> None:
    """With `all=True` the report includes runs of earlier workbenches."""
    path = tmp_path / "c.jsonl"
    with open_workbench(tmp_path, "One.", "Two.", record=path) as wb:
        wb.ask("First?").wait(20)
    with open_workbench(tmp_path, "Three.") as wb:
        assert wb.repro().runs == ()
        assert states(wb.repro(all=True)) == ["recorded"]
        assert "This workbench has no cassette: pass the cassette" in wb.repro(all=True).advice
        third = wb.ask("Third?").wait(20)
        assert states(wb.repro(all=True)) == ["recorded", "live"]
        assert wb.repro(all=True).advice.startswith(f"1 of 2 runs is recorded. {third.run_id} is live:")
        assert [run.run_id for run in wb.repro().runs] == [third.run_id]
        wb.conversation(third).delete()
        assert wb.repro().runs == ()


def test_running_run_is_live_until_it_ends(tmp_path: Path) -> None:
    """While the run is running, the report advises to wait."""
    may_continue = threading.Event()
    with open_workbench(tmp_path, call("wait"), "Done.", record=tmp_path / "c.jsonl") as wb:

        @wb.tool
        def wait(ctx: af.ToolContext) -> str:
            """Wait."""
            may_continue.wait(20)
            return "waited"

        run = wb.ask("Who?")
        found = wb.repro()
        may_continue.set()
        run.wait(20)
        assert states(found) == ["live"]
        assert found.advice == f"The run is not recorded. {run.run_id} is live: wait for the end or the next pause."
        assert states(wb.repro()) == ["recorded"]


def test_report_escapes_texts(tmp_path: Path) -> None:
    """A question is plain text in all forms, and loads no address."""
    with open_workbench(tmp_path, *["Yes."] * len(HOSTILE)) as wb:
        for text in HOSTILE:
            wb.ask(text).wait(20)
        found = wb.repro()
    assert harms(found._repr_html_(), VIEW | {"style", "strong"}) == []
    assert "<script" not in found._repr_html_()
    assert repr(found) == f"ReproducibilityReport({len(HOSTILE)} live, mode='live')"


def test_long_report_starts_with_unrecorded_runs() -> None:
    """The advice names the first unrecorded runs."""
    stored = [RunOrigin(f"run-{n}", "?", "recorded", True, "record", "completed", {}, {}) for n in range(2 * MAX_ROWS)]
    live = [RunOrigin(f"run-live-{n}", "?", "live", False, "live", "completed", {}, {}) for n in range(5)]
    found = ReproducibilityReport((*stored, *live), Path("c.jsonl"), "record")
    assert "run-live-4" in found._card().plain()
    assert f"{len(stored)} of {len(stored) + 5} runs are recorded." in found.advice
    assert "run-live-0, run-live-1, run-live-2 and 2 more are live:" in found.advice
