"""When a playback waits for code, the store has the rows of the recorded pause."""

from pathlib import Path
from typing import Any

import pytest
from recording import test_replay_compose, test_replay_plan
from support.recorded_scenes import (
    WAIT_S,
    Stage,
    Uneven,
    jobs,
    play_both,
    rows,
    step_of,
    with_confirmed_look,
)
from support.replies import call, report, requesting_agent

from artifactflow_nb.models.base import ModelRequest


def waiting(stage: Stage, **arguments: Any) -> list[dict[str, list[dict[str, Any]]]]:
    """The rows of the store at each pause of a run with requests that code decides."""
    run = stage.ask("What?", **arguments).wait(WAIT_S)
    pauses = []
    while run.pending:
        pauses.append(rows(stage.wb))
        run.approve(run.pending[0].id).wait(WAIT_S)
    return pauses


def research(request: ModelRequest) -> Any:
    """Two agents ask at the same time, then the lead asks."""
    if requesting_agent(request) != "lead":
        return [call("look", word=request.messages[1].content), "Found."][min(step_of(request), 1)]
    return [jobs("a", "bb"), report("A."), call("look", word="x"), "Done."][min(step_of(request), 3)]


def test_store_at_a_pause_of_research_equals_the_recording(tmp_path: Path) -> None:
    assert len(play_both(tmp_path, waiting, Uneven(research), setup=with_confirmed_look)) >= 2


def test_store_at_a_pause_of_a_plan_equals_the_recording(tmp_path: Path) -> None:
    def scene(stage: Stage) -> Any:
        return waiting(stage, flow="plan")

    options: dict[str, Any] = {"setup": test_replay_plan.with_tools, "graph_config": test_replay_plan.CONFIG}
    assert len(play_both(tmp_path, scene, test_replay_plan.plan_script, **options)) >= 2


@pytest.mark.parametrize("n_follow_ups", [0, 1])
def test_store_at_a_pause_of_compose_equals_the_recording(tmp_path: Path, n_follow_ups: int) -> None:
    def scene(stage: Stage) -> Any:
        project = test_replay_compose.make_project(stage.wb)
        at = {"conversation_id": project.conversation_id, "flow": "compose"}
        return [waiting(stage, **at) for _ in range(1 + n_follow_ups)]

    assert any(play_both(tmp_path, scene, test_replay_compose.script))
