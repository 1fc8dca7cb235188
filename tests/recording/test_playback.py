"""A recorded run is played back: the same rows, events, chunks and frames, decisions included."""

import socket
from pathlib import Path
from typing import Any

import orjson
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
from support.replies import call, delegate, plan, report, requesting_agent

import artifactflow_nb as af
from artifactflow_nb.agents.prompts import PromptLibrary
from artifactflow_nb.errors import CassetteError, CassetteMiss, Conflict, ModelUnavailable
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recording.cassette import Cassette


def research(request: ModelRequest) -> Any:
    """Two search agents at the same time, a report, an answer."""
    if requesting_agent(request) != "lead":
        word = request.messages[1].content
        return [f"Looking for {word}. " + call("look", word=word), f"{word} is found. " * 5][min(step_of(request), 1)]
    return [jobs("apples", "pears"), report("Apples."), "Done."][min(step_of(request), 2)]


def asks_once(request: ModelRequest) -> Any:
    return call("look", word="x") if step_of(request) == 0 else "Done."


def test_research_run_is_played_to_the_byte(tmp_path: Path) -> None:
    def scene(stage: Stage) -> Any:
        first = stage.ask("Fruit?").wait(WAIT_S)
        stage.ask("And nuts?", conversation_id=first.conversation_id).wait(WAIT_S)
        stage.ask("Fruit?").wait(WAIT_S)
        return [run.response for run in stage.runs]

    assert play_both(tmp_path, scene, Uneven(research), setup=with_look, times=2) == ["Done."] * 3


def test_playback_needs_no_network_no_key_and_no_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("# A\n\nText.\n", encoding="utf-8")
    with open_scene(tmp_path, record=tmp_path / "c.jsonl", model=ScriptedModel(["Yes."])) as wb:
        wb.sources.add(tmp_path / "notes")
        wb.ask("Is it?").wait(WAIT_S)
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("The replay used the network."))
    with open_scene(tmp_path, replay=tmp_path / "c.jsonl") as wb:
        assert wb.sources.add(tmp_path / "missing").sources == ()
        assert wb.ask("Is it?").wait(WAIT_S).response == "Yes."


def test_decision_that_differs_is_a_miss_and_decides_nothing(tmp_path: Path) -> None:
    cassette = tmp_path / "c.jsonl"
    with open_scene(tmp_path, record=cassette, model=ScriptedModel(asks_once), setup=with_confirmed_look) as wb:
        wb.ask("What?").wait(WAIT_S).approve(note="Go on.").wait(WAIT_S)
    with open_scene(tmp_path, replay=cassette, setup=with_confirmed_look) as wb:
        run = wb.ask("What?").wait(WAIT_S)
        with pytest.raises(CassetteMiss, match=r"recorded: approved \(Go on.\) for once, now: denied \(No.\) for once"):
            run.deny("No.")
        with pytest.raises(CassetteMiss, match="it was cancelled"):
            run.cancel()
        assert (run.status, len(run.pending)) == ("waiting", 1)
        assert run.approve(note="Go on.").wait(WAIT_S).response == "Done."


def test_decision_beyond_the_recording_is_a_miss(tmp_path: Path) -> None:
    cassette = tmp_path / "c.jsonl"
    with open_scene(tmp_path, record=cassette, model=ScriptedModel(asks_once), setup=with_confirmed_look) as wb:
        assert wb.ask("What?").wait(WAIT_S).status == "waiting"
    with open_scene(tmp_path, replay=cassette, setup=with_confirmed_look) as wb:
        run = wb.ask("What?").wait(WAIT_S)
        with pytest.raises(CassetteMiss, match="recorded: nothing was decided, now: approved"):
            run.approve()


@pytest.mark.parametrize("other", ["deny", "cancel"])
def test_auto_continues_live_after_another_decision(tmp_path: Path, other: str) -> None:
    """The part before the decision is played; the new run replaces the recording."""
    cassette = tmp_path / "c.jsonl"

    def script(request: ModelRequest) -> Any:
        if requesting_agent(request) == "lead":
            return [jobs("a", "b"), "Done."][min(step_of(request), 1)]
        return [call("look", word=request.messages[1].content), "Found."][min(step_of(request), 1)]

    def ask(wb: af.Workbench) -> af.Run:
        run = wb.ask("What?").wait(WAIT_S)
        run.approve(run.pending[0].id).wait(WAIT_S)
        return run

    with open_scene(tmp_path, record=cassette, model=ScriptedModel(script), setup=with_confirmed_look) as wb:
        run = ask(wb)
        recorded = run.approve(run.pending[0].id).wait(WAIT_S).run_id
    model = ScriptedModel(script)
    with open_scene(tmp_path, replay=cassette, mode="auto", model=model, setup=with_confirmed_look) as wb:
        run = ask(wb)
        assert model.requests == []
        if other == "deny":
            assert run.deny("No.", run.pending[0].id).wait(WAIT_S).response == "Done."
            assert len(model.requests) == 2  # the agent that was denied, and the lead
        else:
            assert run.cancel().wait(WAIT_S).status == "cancelled"
        assert run.run_id == recorded
        changed = rows(wb)
    with open_scene(tmp_path, replay=cassette, setup=with_confirmed_look) as wb:
        run = ask(wb)
        (run.deny("No.", run.pending[0].id) if other == "deny" else run.cancel()).wait(WAIT_S)
        assert_same(rows(wb), changed)


def test_auto_executes_and_records_new_runs(tmp_path: Path) -> None:
    cassette, model = tmp_path / "c.jsonl", ScriptedModel(["One.", "Two.", "Three."])
    with open_scene(tmp_path, record=cassette, model=model) as wb:
        wb.ask("First?").wait(WAIT_S)
    with open_scene(tmp_path, replay=cassette, mode="auto", model=model) as wb:
        first = wb.ask("First?").wait(WAIT_S)
        assert wb.ask("Second?", conversation_id=first).wait(WAIT_S).response == "Two."
        assert wb.runs_df(columns="mode")["mode"].tolist() == ["auto", "auto"]
        assert wb.llm_calls_df()["cassette"].tolist() == ["hit", "recorded"]
    with open_scene(tmp_path, replay=cassette) as wb:
        first = wb.ask("First?").wait(WAIT_S)
        assert wb.ask("Second?", conversation_id=first).wait(WAIT_S).response == "Two."
        with pytest.raises(CassetteMiss, match="The nearest question is 'First"):
            wb.ask("Third?")


def test_follow_up_of_a_live_run_is_live(tmp_path: Path) -> None:
    """The recorded answer depends on the recorded history, so a follow-up of a new answer is live."""
    cassette = tmp_path / "c.jsonl"
    with open_scene(
        tmp_path, record=cassette, model=ScriptedModel([*map(str, range(9))]), setup=with_confirmed_look
    ) as wb:
        run = wb.ask("One?").wait(WAIT_S)
        wb.ask("Two?", conversation_id=run).wait(WAIT_S)
    cassette.write_bytes(b"")
    cassette.unlink()
    with open_scene(tmp_path, record=cassette, model=ScriptedModel(asks_once), setup=with_confirmed_look) as wb:
        run = wb.ask("One?").wait(WAIT_S).approve().wait(WAIT_S)
        wb.ask("Two?", conversation_id=run).wait(WAIT_S).approve().wait(WAIT_S)
    model = ScriptedModel(["Denied.", "Another."])
    with open_scene(tmp_path, replay=cassette, mode="auto", model=model, setup=with_confirmed_look) as wb:
        run = wb.ask("One?").wait(WAIT_S).deny().wait(WAIT_S)
        assert wb.ask("Two?", conversation_id=run).wait(WAIT_S).response == "Another."


def test_failed_plan_with_decisions_is_played_to_the_byte(tmp_path: Path) -> None:
    def script(request: ModelRequest) -> Any:
        if requesting_agent(request) == "executor":
            return [call("look", word="x"), ModelUnavailable("Too busy.")][min(step_of(request), 1)]
        return plan("Find", "Send")

    def setup(wb: af.Workbench) -> None:
        wb.tool(permission="confirm", agent="executor")(look)

    def look(ctx: af.ToolContext, word: str) -> str:
        """Look a word up."""
        return word

    def scene(stage: Stage) -> Any:
        run = stage.ask("What?", flow="plan").wait(WAIT_S)
        while run.pending:
            run.approve(run.pending[0].id).wait(WAIT_S)
        return run.status

    play_both(tmp_path, scene, script, setup=setup)


def test_replay_into_a_store_that_has_the_run_is_refused(tmp_path: Path) -> None:
    with open_scene(tmp_path, record=tmp_path / "c.jsonl", model=ScriptedModel(["Yes."])) as wb:
        wb.ask("Is it?").wait(WAIT_S)
    wb = open_scene(tmp_path, replay=tmp_path / "c.jsonl", data_dir=tmp_path / "data")
    with wb, pytest.raises(Conflict, match="holds the run"):
        wb.ask("Is it?")


def test_changed_prompt_is_logged_in_a_line_that_names_verify(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_scene(tmp_path, record=tmp_path / "c.jsonl", model=ScriptedModel(["Yes."])) as wb:
        wb.ask("Is it?").wait(WAIT_S)
    (tmp_path / "prompts").mkdir()
    packaged = PromptLibrary().render("lead_agent")
    (tmp_path / "prompts" / "lead_agent.md").write_text(f"You lead otherwise.\n{packaged}", "utf-8")
    with open_scene(tmp_path, replay=tmp_path / "c.jsonl", prompts=tmp_path / "prompts") as wb:
        assert wb.ask("Is it?").wait(WAIT_S).response == "Yes."
        (line,) = caplog.messages
        assert "Changed since then: prompt lead_agent.md. AF_MODE=verify" in line
    wb = open_scene(tmp_path, replay=tmp_path / "c.jsonl", mode="verify", prompts=tmp_path / "prompts")
    with wb, pytest.raises(CassetteError, match=r"1 prompt changed(?s:.*)\+You lead otherwise."):
        wb.ask("Is it?").wait(WAIT_S)
    with open_scene(tmp_path, replay=tmp_path / "c.jsonl", mode="verify") as wb:
        assert wb.ask("Is it?").wait(WAIT_S).response == "Yes."


def test_fork_of_a_played_run_is_played(tmp_path: Path) -> None:
    model = ScriptedModel(research)
    with open_scene(tmp_path, record=tmp_path / "c.jsonl", model=model, setup=with_look) as wb:
        run = wb.ask("Fruit?").wait(WAIT_S)
        n_requests = len(model.requests)
        fork = run.fork(2, tool_result="No apples.").wait(WAIT_S)
        assert len(model.requests) - n_requests == 4  # the other agent twice, the lead twice
        assert next(step.outcome for step in fork.steps if step.kind == "tool") == "No apples."
        recorded = rows(wb)
    with open_scene(tmp_path, replay=tmp_path / "c.jsonl", setup=with_look) as wb:
        wb.ask("Fruit?").wait(WAIT_S).fork(2, tool_result="No apples.").wait(WAIT_S)
        assert_same(rows(wb), recorded)


def test_delegation_is_forked_within_its_job(tmp_path: Path) -> None:
    """The turns before the step are copied; the job continues with the new instruction."""

    def script(request: ModelRequest) -> Any:
        if requesting_agent(request) == "lead":
            return [delegate("search_agent", "apples"), "Done."][min(step_of(request), 1)]
        return [call("look", word=request.messages[1].content), "Found."][min(step_of(request), 1)]

    model = ScriptedModel(script)
    with open_scene(tmp_path, record=tmp_path / "c.jsonl", model=model, setup=with_look) as wb:
        run = wb.ask("Fruit?").wait(WAIT_S)
        number = next(step.number for step in run.steps if step.path != "main" and step.kind == "model")
        fork = run.fork(number, prompt="plums").wait(WAIT_S)
        assert (fork.status, fork.question) == ("completed", "Fruit?")
        assert any("plums" in step.outcome for step in fork.steps if step.name == "look")
        with pytest.raises(af.errors.UsageError, match="There is no model 'other'"):
            run.fork(number, model="other")


def test_prompts_of_a_long_run_share_their_parts(tmp_path: Path) -> None:
    """The cassette grows linearly with the turns, and each prompt can be read completely."""
    n_turns = 20

    def script(request: ModelRequest) -> Any:
        return call("look", word="x" * step_of(request)) if step_of(request) < n_turns - 1 else "Done."

    model, limits = ScriptedModel(script), {"lead_agent": {"max_tool_rounds": n_turns}}
    with open_scene(tmp_path, record=tmp_path / "c.jsonl", model=model, setup=with_look, graph_config=limits) as wb:
        assert wb.ask("What?").wait(WAIT_S).response == "Done."
    cassette = Cassette.open(tmp_path / "c.jsonl")
    recorded = cassette.rows(cassette.heads[0])
    parts = [orjson.loads(row["request_json"]) for row in recorded["llm_calls"]]
    assert sum(map(len, parts)) < 5 * n_turns
    prompts = [recorded.prompts[row["call_id"]] for row in recorded["llm_calls"]]
    texts = [[(role, recorded.texts[key]) for role, key, *_ in prompt] for prompt in prompts]
    assert texts == [[(message.role, message.content) for message in request.messages] for request in model.requests]
