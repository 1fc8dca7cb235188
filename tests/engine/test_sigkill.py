"""A process is killed at any moment; another process completes the run."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.forked_python import fast_python

KILLS = 14
CHANGES = 8
"""Of the plan: it is made, three times a step begins and ends, and one of them is tried again."""

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="The test forks; this system cannot.")


def killed(*args: str | Path) -> list[dict[str, Any]]:
    """The outcome of each run that was killed and completed."""
    command = [*fast_python(), str(Path(__file__).parents[1] / "support" / "killed_engine.py"), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@forks
@pytest.mark.parametrize("flow", ["research", "plan"])
def test_run_killed_at_a_random_moment_is_completed(tmp_path: Path, flow: str) -> None:
    """After many kills each run has one end, no incomplete rows, and each letter was sent once."""
    outcomes = killed(tmp_path / "runs", flow, "1", str(KILLS))
    assert len(outcomes) == KILLS
    assert sum(outcome["midway"] for outcome in outcomes) >= KILLS / 4, "The kills came too early or too late."
    assert [outcome for outcome in outcomes if outcome["problems"]] == []


@forks
def test_run_killed_at_a_change_of_its_plan_is_completed(tmp_path: Path) -> None:
    """For each change, each step is carried out once and has one event."""
    outcomes = killed(tmp_path / "runs", "plan")
    assert [outcome["midway"] for outcome in outcomes] == [True] * CHANGES
    assert [outcome for outcome in outcomes if outcome["problems"]] == []
