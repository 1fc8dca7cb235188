"""A process that is killed at any moment leaves a run that another one finishes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

KILLS = 40


@pytest.mark.skipif(not hasattr(os, "fork"), reason="The test forks; this system cannot.")
@pytest.mark.parametrize("flow", ["research", "plan"])
def test_killed_at_any_moment(tmp_path: Path, flow: str) -> None:
    """After each of many kills at random moments: one end, nothing half written, no letter sent twice, none lost."""
    command = [
        sys.executable,
        str(Path(__file__).with_name("killed.py")),
        str(tmp_path / "runs"),
        "1",
        str(KILLS),
        flow,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(outcomes) == KILLS, done.stderr[-2000:]
    assert sum(outcome["midway"] for outcome in outcomes) >= KILLS / 2, "The kills came too early or too late."
    assert [outcome for outcome in outcomes if outcome["problems"]] == []
    assert done.stderr == ""
