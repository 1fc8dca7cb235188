"""Played runs for the tests of views."""

import pytest
from support.played_runs import REPORT, PlayedRun, Script, research

from artifactflow_nb.engine import feeds
from artifactflow_nb.widgets.run import polled_view


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def finished(script: Script) -> PlayedRun:
    run = PlayedRun(research(script).events)
    run.artifacts["research_report", 1] = REPORT
    run.results["tc-2"] = "five <b>results</b>"
    return run


@pytest.fixture
def waiting(script: Script) -> PlayedRun:
    return PlayedRun(research(script, decided=False).events)


@pytest.fixture(autouse=True)
def short_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll every 20 ms instead of once or twice a second, so that the tests are fast."""
    monkeypatch.setattr(polled_view, "POLL_INTERVAL_S", 0.02)
    monkeypatch.setattr(feeds, "FOLLOW_INTERVAL_S", 0.02)
