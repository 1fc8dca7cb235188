"""The open requests of all runs in one view, over a real engine with a simulated page."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.pages import ShownView
from support.replies import report

import artifactflow_nb as af
from artifactflow_nb.widgets.home.view import HomeView
from artifactflow_nb.widgets.pending import PendingView


@pytest.fixture
def wb(tmp_path: Path) -> Iterator[af.Workbench]:
    model = af.ScriptedModel(lambda _request: report())
    with af.Workbench(model=model, data_dir=tmp_path, approvals={"create_artifact": "ask"}, interactive=True) as wb:
        yield wb


def test_requests_of_several_runs_are_in_order(wb: af.Workbench) -> None:
    """In the pending view in one box, which the page can decide at once; in the home in a box for each run."""
    runs = [wb.ask(f"Question {number}?") for number in range(3)]
    page = ShownView(wb._thread, PendingView(wb._thread.engine))
    page.until(lambda: all(run.status == "waiting" for run in runs))
    request_ids = [request.id for request in wb.pending()]
    for view, n_boxes in ((PendingView(wb._thread.engine), 1), (HomeView(wb._thread), 3)):
        page = ShownView(wb._thread, view)
        page.until(lambda page=page: list(page.kinds.values()).count("approval") == 3)
        assert list(page.kinds.values()).count("approvals") == n_boxes
        cards = [data["request"] for key, data in page.data.items() if page.kinds[key] == "approval"]
        assert cards == request_ids


def test_pending_is_live_before_anything_waits(wb: af.Workbench) -> None:
    """Shown too early it says that nothing waits, and has the card once something does."""
    page = ShownView(wb._thread, PendingView(wb._thread.engine))
    assert "Nothing waits for a decision." in page.text
    wb.ask("Write it.")
    page.until(lambda: "approval" in page.kinds.values())
    assert "Nothing waits" not in page.text
