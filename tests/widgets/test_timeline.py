"""The timeline of a run while it goes, and what stays of it."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts import report
from widgets.pages import ShownView

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.widgets.timeline import TimelineView


@pytest.fixture
def wb(tmp_path: Path) -> Iterator[af.Workbench]:
    model = ScriptedModel([report(), "Done."])
    made = af.Workbench(model=model, data_dir=tmp_path / "data", approvals={"create_artifact": "ask"}, interactive=True)
    yield made
    made.close()


def test_it_grows_while_the_run_goes_on(wb: af.Workbench) -> None:
    """A waiting run shows its wait, growing; approved, the tool's bar and the end follow without a press."""
    run = wb.ask("Write it.")
    page = ShownView(wb._thread, TimelineView(run.port))
    page.until(lambda: "waiting" in page.html["table"])
    assert all("wb.approve(id)" in saved for saved in wb.timeline(run).face().values())
    drawn = page.html["drawing"]
    page.until(lambda: page.html["drawing"] != drawn)
    run.approve()
    run.wait(10)
    page.until(lambda: "Completed" in page.html["head"])
    assert page.html["table"].count("<tr>") == 5  # heads, two model calls, the wait, the tool
    assert "create_artifact" in page.faces[-1]["text/html"]


def test_a_run_that_is_over_reads_without_a_kernel(wb: af.Workbench) -> None:
    """Shown where nobody watches, it has no times; every span stands in the table, and nothing moves."""
    run = wb.ask("Write it.")
    page = ShownView(wb._thread, TimelineView(run.port))
    page.until(lambda: "waiting" in page.html["table"])
    run.approve().wait(10)
    first, second = (wb.timeline(run).face() for _ in range(2))
    assert first == second
    assert "create_artifact" in first["text/html"]
    assert not re.search(r"\d ms|\d s\b", first["text/html"].split("</style>")[1])
    assert repr(wb.timeline()) == first["text/plain"]


def test_without_a_run_there_is_an_error(wb: af.Workbench) -> None:
    """The newest run of an empty store is not there, and the error says what to do."""
    with pytest.raises(af.NotFound, match="Ask something first"):
        wb.timeline()
