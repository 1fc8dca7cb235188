"""Several decisions on a played run: concurrent decisions, several in one call, and on a forked subrun."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from recording.test_replay_subrun_decisions import Researching, ask_for_research
from support.recorded_scenes import (
    WAIT_S,
    Stage,
    assert_same,
    jobs,
    open_scene,
    rows,
    step_of,
    with_confirmed_look,
    with_look,
)
from support.replies import call, requesting_agent

import artifactflow_nb as af
from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.errors import CassetteError, CassetteMiss
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel


def both_ask(request: ModelRequest) -> Any:
    """Two search agents, each with one call that needs approval."""
    if requesting_agent(request) == "lead":
        return [jobs("a", "b"), "Done."][min(step_of(request), 1)]
    return [call("look", word=request.messages[1].content), "Found."][min(step_of(request), 1)]


@pytest.fixture
def cassette(tmp_path: Path) -> Path:
    """A run whose two requests were approved one after the other."""
    path = tmp_path / "c.jsonl"
    with open_scene(tmp_path, record=path, model=ScriptedModel(both_ask), setup=with_confirmed_look) as wb:
        run = wb.ask("What?").wait(WAIT_S)
        for _ in range(2):
            run.approve(run.pending[0].id).wait(WAIT_S)
        assert run.status == "completed"
    return path


def decide_together(wb: af.Workbench, decisions: dict[str, Decision]) -> list[BaseException | None]:
    """Decide several requests concurrently; return the errors."""
    controller = wb._thread.engine.controller

    async def work() -> list[BaseException | None]:
        calls = (controller.decide(request_id, decision) for request_id, decision in decisions.items())
        return await asyncio.gather(*calls, return_exceptions=True)

    return wb._thread.call(work())


@pytest.mark.parametrize("first", [True, False])
def test_one_different_decision_of_concurrent_ones_continues_live(tmp_path: Path, cassette: Path, first: bool) -> None:
    with open_scene(
        tmp_path, replay=cassette, mode="auto", model=ScriptedModel(both_ask), setup=with_confirmed_look
    ) as wb:
        run = wb.ask("What?").wait(WAIT_S)
        ids = [request.id for request in run.pending]
        answers = dict(zip(ids, [Decision(first), Decision(not first)], strict=True))
        assert decide_together(wb, answers) == [None, None]
        assert run.wait(WAIT_S).response == "Done."
        decided = wb.approvals_df().set_index("request_id")["decision"].to_dict()
        assert [decided[key] for key in ids] == ["approved" if first else "denied", "denied" if first else "approved"]


def test_concurrent_decisions_of_a_replay_are_compared_one_after_the_other(tmp_path: Path, cassette: Path) -> None:
    with open_scene(tmp_path, replay=cassette, setup=with_confirmed_look) as wb:
        run = wb.ask("What?").wait(WAIT_S)
        ids = [request.id for request in run.pending]
        problems = decide_together(wb, {ids[0]: Decision(True), ids[1]: Decision(False)})
        assert [type(problem) for problem in problems] == [type(None), CassetteMiss]
        assert run.wait(WAIT_S).approve(ids[1]).wait(WAIT_S).response == "Done."


def test_one_different_decision_of_several_decides_none(tmp_path: Path, cassette: Path) -> None:
    with open_scene(tmp_path, replay=cassette, setup=with_confirmed_look) as wb:
        run = wb.ask("What?").wait(WAIT_S)
        ids, controller = [request.id for request in run.pending], wb._thread.engine.controller
        thread_id = wb._thread.call(controller.result(run.run_id)).thread_id
        with pytest.raises(CassetteMiss):
            wb._thread.call(controller.resume(thread_id, decisions={ids[0]: True, ids[1]: False}))
        assert [request.id for request in run.pending] == ids
        assert wb._thread.call(controller.resume(thread_id, decisions=dict.fromkeys(ids, True))).response == "Done."


def test_stream_of_a_resumed_replay_starts_with_the_decision(tmp_path: Path) -> None:
    cassette = tmp_path / "c.jsonl"

    def script(request: ModelRequest) -> Any:
        return call("look", word="x") if step_of(request) == 0 else "Done."

    def resumed_events(wb: af.Workbench) -> list[tuple[int, StreamEventType]]:
        run, controller = wb.ask("What?").wait(WAIT_S), wb._thread.engine.controller
        request_id = run.pending[0].id

        async def work() -> list[tuple[int, StreamEventType]]:
            thread_id = (await controller.result(run.run_id)).thread_id
            stream = controller.stream_execute(thread_id=thread_id, resume_data={request_id: True})
            return [(event.seq, event.type) async for event in stream]

        return wb._thread.call(work())

    with open_scene(tmp_path, record=cassette, model=ScriptedModel(script), setup=with_confirmed_look) as wb:
        recorded = resumed_events(wb)
    assert recorded[0][1] is StreamEventType.PERMISSION_RESULT
    with open_scene(tmp_path, replay=cassette, setup=with_confirmed_look) as wb:
        assert resumed_events(wb) == recorded


def test_fork_of_a_subrun_is_recorded(tmp_path: Path) -> None:
    """A fork of a subrun, for which no parent run waits, is replayed with the same answer and rows."""
    cassette = tmp_path / "c.jsonl"

    def scene(wb: af.Workbench, is_played: bool) -> list[str]:
        _, run = ask_for_research(Stage(wb, is_played=is_played))
        while run.pending:
            run.approve(run.pending[0].id).wait(WAIT_S)
        frame = wb.runs_df()
        subrun = wb.run(frame[frame["run_id"] != run.run_id]["run_id"].iloc[0])
        last = [step.number for step in subrun.steps if step.kind == "model"][-1]
        fork = subrun.fork(last).wait(WAIT_S)
        return [run.run_id, subrun.run_id, fork.run_id, str(fork.response)]

    with open_scene(tmp_path, record=cassette, model=Researching({"X": 1}, {}), setup=with_look) as wb:
        recorded, stored = scene(wb, is_played=False), rows(wb)
    with open_scene(tmp_path, replay=cassette, setup=with_look) as wb:
        assert scene(wb, is_played=True) == recorded
        assert_same(rows(wb), stored)


def test_each_waiter_of_a_failed_verification_gets_the_error(tmp_path: Path) -> None:
    with open_scene(tmp_path, record=tmp_path / "c.jsonl", model=ScriptedModel(["Yes."])) as wb:
        wb.ask("Is it?").wait(WAIT_S)
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "lead_agent.md").write_text("You lead otherwise.", encoding="utf-8")
    with open_scene(tmp_path, replay=tmp_path / "c.jsonl", mode="verify", prompts=tmp_path / "prompts") as wb:
        run = wb.ask("Is it?")
        for _ in range(2):
            with pytest.raises(CassetteError, match="1 prompt changed"):
                run.wait(WAIT_S)
