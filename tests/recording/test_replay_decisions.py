"""A replay repeats clicks, and compares decisions of code with the recorded decisions."""

import time
from pathlib import Path
from typing import Any

import pytest
from support.recorded_scenes import (
    WAIT_S,
    Stage,
    Uneven,
    assert_same,
    jobs,
    open_scene,
    play_both,
    rows,
    step_of,
    with_confirmed_look,
    with_look,
)
from support.replies import call, delegate, requesting_agent

import artifactflow_nb as af
from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel

Answer = tuple[bool, dict[str, Any]]
ANSWERS: list[list[Answer]] = [
    [(True, {"params": {"word": "other"}, "instruction": "So."}), (False, {"instruction": "B", "replaces_call": True})],
    [(False, {"instruction": "No."}), (True, {})],
    [(True, {"scope": "run"})],
    [(True, {"scope": "conversation"})],
    [],
]
"""What is decided in each of a conversation's runs, which ask for the same call twice."""


@pytest.mark.parametrize("decider", ["click", "code"])
def test_decisions_of_every_kind_are_replayed(tmp_path: Path, decider: str) -> None:
    """Edited parameters, instructions, denials and standing decisions are replayed."""

    def script(request: ModelRequest) -> Any:
        return call("look", word="x" * (step_of(request) + 1)) if step_of(request) < 2 else "Done."

    def scene(stage: Stage) -> Any:
        where: dict[str, Any] = {}
        for n, answers in enumerate(ANSWERS):
            run = stage.ask(f"Question {n}?", **where).wait(WAIT_S)
            where = {"conversation_id": run.conversation_id}
            for approved, decision in answers:
                getattr(stage, decider)(run, approved=approved, **decision)
                run.wait(WAIT_S)
        return [run.status for run in stage.runs]

    assert play_both(tmp_path, scene, script, setup=with_confirmed_look) == ["completed"] * len(ANSWERS)


@pytest.mark.parametrize("decider", ["click", "code"])
@pytest.mark.parametrize("approved", [True, False])
def test_decisions_on_a_spent_budget_are_replayed(tmp_path: Path, decider: str, approved: bool) -> None:
    """The run continues, or ends at its budget."""

    def script(request: ModelRequest) -> Any:
        return call("look", word="x") if step_of(request) < 3 else "Done."

    def scene(stage: Stage) -> Any:
        run = stage.ask(budget={"tokens": 1500, "when_spent": "ask"}).wait(WAIT_S)
        while run.pending:
            getattr(stage, decider)(run, approved=approved, instruction="So be it.")
            run.wait(WAIT_S)
        return run.status

    result = play_both(tmp_path, scene, script, setup=with_look)
    assert result == ("completed" if approved else "failed")


def waiting_for(run: af.Run, number: int) -> None:
    """Wait until this number of requests is open or the run stops running."""
    until = time.monotonic() + WAIT_S
    while len(run.pending) < number and run.status == "running" and time.monotonic() < until:
        time.sleep(0.005)


@pytest.mark.parametrize("decider", ["click", "code"])
def test_decision_during_a_stream_is_replayed_at_its_place(tmp_path: Path, decider: str) -> None:
    """The event of the decision lies between the chunks of another job."""

    def script(request: ModelRequest) -> Any:
        if requesting_agent(request) == "lead":
            return delegate("search_agent", "a") + delegate("crawl_agent", "b") if step_of(request) == 0 else "Done."
        if request.messages[1].content == "a":
            return [call("look", word="aaa"), "Found."][min(step_of(request), 1)]
        return "A long text. " * 60

    def scene(stage: Stage) -> Any:
        run = stage.ask()
        waiting_for(run, 1)
        time.sleep(0.05)  # a decision before the job waits has the same effect as an earlier one
        if run.pending:  # the replay may have decided
            getattr(stage, decider)(run)
        return run.wait(WAIT_S).status

    model = Uneven(script, longest_s=0.02)
    play_both(tmp_path, scene, model, setup=with_confirmed_look)


@pytest.mark.parametrize("decider", ["click", "code"])
def test_two_requests_in_sequence_are_replayed(tmp_path: Path, decider: str) -> None:
    """Two jobs wait, and the run pauses between their decisions."""

    def script(request: ModelRequest) -> Any:
        if requesting_agent(request) == "lead":
            return jobs("a", "b") if step_of(request) == 0 else "Done."
        return [call("look", word=request.messages[1].content), "Found."][min(step_of(request), 1)]

    def scene(stage: Stage) -> Any:
        run = stage.ask().wait(WAIT_S)
        for _ in range(2):
            if run.pending:
                getattr(stage, decider)(run, nth=-1)
            run.wait(WAIT_S)
        return run.status

    result = play_both(tmp_path, scene, script, setup=with_confirmed_look)
    assert result == "completed"


def test_replay_does_not_call_the_policy(tmp_path: Path) -> None:
    """The recorded decisions of the policy are replayed."""
    words: list[str] = []

    def policy(request: Any) -> str:
        words.append(request.params["word"])
        return {"x": "approve", "xx": "deny"}.get(request.params["word"], "ask")

    def script(request: ModelRequest) -> Any:
        return call("look", word="x" * (step_of(request) + 1)) if step_of(request) < 3 else "Done."

    def scene(stage: Stage) -> Any:
        return stage.ask().wait(WAIT_S).approve().wait(WAIT_S).status

    result = play_both(tmp_path, scene, script, setup=with_confirmed_look, approvals=policy)
    assert (result, words) == ("completed", ["x", "xx", "xxx"])


def test_cancelled_waiting_run_is_replayed(tmp_path: Path) -> None:
    """The replay waits until code cancels the run again."""

    def scene(stage: Stage) -> Any:
        run = stage.ask().wait(WAIT_S)
        assert run.status == "waiting"
        return run.cancel().wait(WAIT_S).status

    script = ScriptedModel(lambda _: call("look", word="x"))
    result = play_both(tmp_path, scene, script, setup=with_confirmed_look)
    assert result == "cancelled"


def test_recording_of_a_waiting_run_is_replayed(tmp_path: Path) -> None:
    """The replay waits as well; a decision is a miss, since no decision is recorded."""

    def script(request: ModelRequest) -> Any:
        return call("look", word="x") if step_of(request) == 0 else "Done."

    setup: dict[str, Any] = {"setup": with_confirmed_look}
    cassette = tmp_path / "c.jsonl"
    with open_scene(tmp_path, model=ScriptedModel(script), record=cassette, **setup) as wb:
        run = wb.ask("What?").wait(WAIT_S)
        assert run.status == "waiting"
        recorded = rows(wb)
    with open_scene(tmp_path, replay=cassette, **setup) as wb:
        run = wb.ask("What?").wait(WAIT_S)
        assert run.status == "waiting"
        assert_same(rows(wb), recorded)
    with open_scene(tmp_path, replay=cassette, **setup) as wb:
        run = wb.ask("What?").wait(WAIT_S)
        with pytest.raises(af.errors.CassetteMiss, match="recorded: nothing was decided, now: approved"):
            run.approve()
    with open_scene(tmp_path, model=ScriptedModel(script), replay=cassette, mode="auto", **setup) as wb:
        assert wb.ask("What?").wait(WAIT_S).approve().wait(WAIT_S).response == "Done."
    with open_scene(tmp_path, replay=cassette, **setup) as wb:
        assert wb.ask("What?").wait(WAIT_S).approve().wait(WAIT_S).response == "Done."


def stopped(stage: Stage, run: af.Run) -> None:
    """Cancel the run by a click, which a replay repeats by itself."""
    if not stage.is_played:
        stage.wb._thread.call(run._client.cancel())


def test_waiting_run_stopped_by_a_click_ends_by_itself(tmp_path: Path) -> None:
    """Another request of the run was decided before, by code or by a click."""

    def script(request: ModelRequest) -> Any:
        if requesting_agent(request) == "lead":
            return call("look", word="x") + call("look", word="xx")
        raise AssertionError

    def scene(stage: Stage) -> Any:
        for decider in ("click", "code", None):
            run = stage.ask(f"What, {decider}?").wait(WAIT_S)
            if decider is not None:
                getattr(stage, decider)(run)
            stopped(stage, run)
            run.wait(WAIT_S)
        return [run.status for run in stage.runs]

    result = play_both(tmp_path, scene, script, setup=with_confirmed_look)
    assert result == ["cancelled"] * 3


@pytest.mark.parametrize("decider", ["click", "code"])
def test_run_cancelled_right_after_an_approval_is_replayed(tmp_path: Path, decider: str) -> None:
    """Nothing had started in between; code may cancel the run again."""

    def scene(stage: Stage) -> Any:
        run = stage.ask().wait(WAIT_S)
        controller = stage.wb._thread.engine.controller

        async def at_once() -> None:
            await controller.decide(run.pending[0].id, Decision(approved=True))
            await controller.cancel(run.run_id, by_code=decider == "code")

        stage.wb._thread.call(at_once())
        return run.wait(WAIT_S).status

    script = ScriptedModel(lambda _: call("look", word="xxx"))
    result = play_both(tmp_path, scene, script, setup=with_confirmed_look)
    assert result == "cancelled"


def test_click_for_the_whole_run_decides_other_open_requests(tmp_path: Path) -> None:
    """Two jobs wait for the same tool."""

    def script(request: ModelRequest) -> Any:
        if requesting_agent(request) == "lead":
            return jobs("a", "b") if step_of(request) == 0 else "Done."
        return [call("look", word=request.messages[1].content), "Found."][min(step_of(request), 1)]

    def scene(stage: Stage) -> Any:
        run = stage.ask().wait(WAIT_S)
        stage.click(run, scope="run")
        return run.wait(WAIT_S).status

    assert play_both(tmp_path, scene, script, setup=with_confirmed_look) == "completed"


def test_outputs_of_a_waiting_run_do_not_change_with_time(tmp_path: Path) -> None:
    """Metrics, frames, timeline and result end at the pause, also in a replay."""

    def shown(stage: Stage, run: af.Run) -> Any:
        result = stage.wb._thread.call(stage.wb._thread.engine.controller.result(run.run_id))
        waited = stage.wb.query("SELECT wait_ms FROM runs").values.tolist()
        outputs = stage.wb.timeline(run).saved_output()
        return repr(run.metrics), repr(result.metrics), run.metrics.as_json(), repr(result), waited, outputs

    def scene(stage: Stage) -> Any:
        run = stage.ask().wait(WAIT_S)
        before = shown(stage, run)
        time.sleep(1.1 if not stage.is_played else 0)
        assert shown(stage, run) == before
        return before

    play_both(tmp_path, scene, ScriptedModel(lambda _: call("look", word="x")), setup=with_confirmed_look)


def test_edits_between_runs_have_their_recorded_times(tmp_path: Path) -> None:
    """An edit, a new title and a restored version have the recorded times; a new edit has the present time."""

    def scene(stage: Stage) -> Any:
        run = stage.ask().wait(WAIT_S)
        time.sleep(0.02)
        note = run.artifacts["note"].edit("By hand.").rename("Another title")
        time.sleep(0.02)
        note.restore(1)
        run.artifacts["note"].edit("By hand.")  # the same once more
        stage.ask("And now?", conversation_id=run.conversation_id).wait(WAIT_S)
        return stage.wb.artifacts_df()["created_at"].tolist()

    def script(request: ModelRequest) -> Any:
        if "And now?" in request.messages[-1].content:
            return "Seen."
        return [call("create_artifact", id="note", title="Note", content="Written."), "Done."][step_of(request)]

    play_both(tmp_path, scene, script)


def writes_note(request: ModelRequest) -> Any:
    if "And now?" in request.messages[-1].content:
        return "Seen."
    return [call("create_artifact", id="note", title="Note", content="Written."), "Done."][step_of(request)]


def edited(wb: af.Workbench, text: str) -> tuple[str, str]:
    """A run, a manual edit and a follow-up."""
    run = wb.ask("What?").wait(WAIT_S)
    run.artifacts["note"].edit(text)
    return run.run_id, wb.ask("And now?", conversation_id=run.conversation_id).wait(WAIT_S).run_id


def test_changed_edit_is_a_miss_with_the_difference(tmp_path: Path) -> None:
    with open_scene(tmp_path, record=tmp_path / "c.jsonl", model=ScriptedModel(writes_note)) as wb:
        edited(wb, "By hand.")
    with open_scene(tmp_path, replay=tmp_path / "c.jsonl") as wb:
        with pytest.raises(
            af.errors.CassetteMiss, match=r"'note' was edited.*\n(?s:.*)-By hand\.\n\+By another hand\."
        ):
            edited(wb, "By another hand.")
        assert wb.artifacts_df()["version"].tolist() == [1]
    with open_scene(tmp_path, replay=tmp_path / "c.jsonl") as wb:
        edited(wb, "By hand.")


def test_auto_continues_live_after_a_changed_edit(tmp_path: Path) -> None:
    """The run with the edited message is played, and recorded again with the edit."""
    cassette = tmp_path / "c.jsonl"
    with open_scene(tmp_path, record=cassette, model=ScriptedModel(writes_note)) as wb:
        recorded = edited(wb, "By hand.")
    model = ScriptedModel(writes_note)
    with open_scene(tmp_path, replay=cassette, mode="auto", model=model) as wb:
        now = edited(wb, "By another hand.")
        assert (now[0] == recorded[0], now[1] == recorded[1], len(model.requests)) == (True, False, 1)
    with open_scene(tmp_path, replay=cassette) as wb:
        assert edited(wb, "By another hand.") == now
