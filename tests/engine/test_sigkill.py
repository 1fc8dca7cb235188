"""A process that is killed at any moment leaves a run that another one finishes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

KILLS = 14
CHANGES = 8
"""Of the plan: it is made, three times a step begins and ends, and one of them is tried again."""

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="The test forks; this system cannot.")


def killed(*args: str | Path) -> list[dict[str, Any]]:
    """How each run came out that was killed and finished."""
    command = [sys.executable, str(Path(__file__).parents[1] / "support" / "killed_engine.py"), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@forks
@pytest.mark.parametrize("flow", ["research", "plan"])
def test_killed_at_any_moment(tmp_path: Path, flow: str) -> None:
    """After each of many kills at random moments: one end, nothing half written, no letter sent twice, none lost."""
    outcomes = killed(tmp_path / "runs", flow, "1", str(KILLS))
    assert len(outcomes) == KILLS
    assert sum(outcome["midway"] for outcome in outcomes) >= KILLS / 2, "The kills came too early or too late."
    assert [outcome for outcome in outcomes if outcome["problems"]] == []


@forks
def test_killed_when_a_change_of_a_plan_is_stored(tmp_path: Path) -> None:
    """Whichever change it was, each step is carried out by an agent of its own, and told once."""
    outcomes = killed(tmp_path / "runs", "plan")
    assert [outcome["midway"] for outcome in outcomes] == [True] * CHANGES
    assert [outcome for outcome in outcomes if outcome["problems"]] == []
