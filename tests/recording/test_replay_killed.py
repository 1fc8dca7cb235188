"""A run that was killed during its recording and finished by another process is replayed byte for byte."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from support.forked_python import fast_python

NUMBERS = {"research": 6, "busy": 4}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="The test forks; this system cannot.")
@pytest.mark.parametrize("flow", NUMBERS)
def test_killed_and_resumed_run_is_replayed(tmp_path: Path, flow: str) -> None:
    """The run is killed at random times; times, rows, order and outputs are as recorded."""
    script = str(Path(__file__).with_name("killed_recording.py"))
    number = NUMBERS[flow]
    command = [*fast_python(), script, str(tmp_path / "runs"), "1", str(number), flow]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(outcomes) == number, done.stderr[-2000:]
    assert sum(outcome["midway"] for outcome in outcomes) >= number / 2, "They were ended too early or too late."
    assert [outcome["differs"] for outcome in outcomes if outcome["differs"]] == []
