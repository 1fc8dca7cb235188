"""Clicks while a run is about to pause are replayed with the same effect."""

import random
import tempfile
import time
from pathlib import Path
from typing import Any

from support.recorded_scenes import WAIT_S, Stage, Uneven, jobs, play_both, step_of, with_confirmed_look
from support.replies import call, requesting_agent

import artifactflow_nb as af
from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.models.base import ModelRequest

TIMES = 6


def script(request: ModelRequest) -> Any:
    """Two jobs that ask twice each, one job for two calls at once; then the lead asks too."""
    step = step_of(request)
    if requesting_agent(request) == "lead":
        return [jobs("a", "bb"), call("look", word="x"), "Done."][min(step, 2)]
    word = request.messages[1].content
    return [call("look", word=word) * len(word), call("look", word=word * 3), "Found."][min(step, 2)]


class Person:
    """Clicks on any open request after a short random time; in a replay nobody clicks.

    Args:
        seed: For the moments.
        longest_s: How long a question is open at most.
    """

    def __init__(self, seed: int, longest_s: float = 0.005) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - a seed repeats the same numbers
        self._longest_s = longest_s

    def __call__(self, stage: Stage) -> Any:
        run = stage.ask()
        until = time.monotonic() + WAIT_S
        while run.status in {"running", "waiting"} and time.monotonic() < until:
            if run.pending and not stage.is_played:
                time.sleep(self._chance.random() * self._longest_s)
                self._decide(stage, run)
            else:
                time.sleep(0.0005)
        return run.wait(WAIT_S).status

    def _decide(self, stage: Stage, run: af.Run) -> None:
        request = run.pending[-1 if self._chance.random() < 0.5 else 0]
        stage.decide(request, "click", Decision(approved=request.params["word"] != "bb"))


def test_click_right_after_a_request_is_replayed() -> None:
    """A click that comes milliseconds before or after a pause is replayed with the same effect."""
    for seed in range(TIMES):
        with tempfile.TemporaryDirectory() as folder:
            status = play_both(Path(folder), Person(seed), Uneven(script, seed), setup=with_confirmed_look)
        assert status == "completed"
