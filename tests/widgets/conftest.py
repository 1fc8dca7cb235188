"""Played runs for the tests of views."""

import pytest
from widgets.played import REPORT, PlayedRun, Script, research


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
