"""Played runs for the tests of views."""

import pytest
from support.played_runs import REPORT, PlayedRun, Script, research

from artifactflow_nb.engine import feeds as follow
from artifactflow_nb.widgets.page import poll as watch


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
def looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a view looks for once or twice a second it looks for more often: no test here is about how long that is."""
    monkeypatch.setattr(watch, "POLL_INTERVAL_S", 0.02)
    monkeypatch.setattr(follow, "FOLLOW_INTERVAL_S", 0.02)
