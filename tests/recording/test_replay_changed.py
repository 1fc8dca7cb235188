"""A notebook that differs from its recording: errors change nothing, and changed runs continue live."""

from pathlib import Path
from typing import Any

import pytest
from support.recorded_scenes import WAIT_S, step_of, with_look
from support.replies import call

import artifactflow_nb as af
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel

KEY = "hunter2hunter2Zz9"


def looks_twice(request: ModelRequest) -> Any:
    return call("look", word="x" * (step_of(request) + 1)) if step_of(request) < 2 else "Done."


def looks_once(request: ModelRequest) -> Any:
    if step_of(request) < 1:
        return call("look", word="x")
    return "It was denied." if "Permission denied" in request.messages[-1].content else "It was seen."


def workbench(script: Any, data_dir: Path | None = None, **options: Any) -> af.Workbench:
    return af.Workbench(model=ScriptedModel(script), data_dir=data_dir, interactive=False, **options)


def test_invalid_decision_changes_nothing(tmp_path: Path) -> None:
    """In the mode auto, invalid parameters or a repeated decision neither end the playback nor call the model."""
    cassette = tmp_path / "c.jsonl"
    with workbench(looks_twice, tmp_path / "data", record=cassette) as wb:
        with_look(wb, permission="confirm")
        run = wb.ask("Q?").wait(WAIT_S)
        for _ in range(2):
            run.approve()
            run.wait(WAIT_S)
        assert run.status == "completed"
    calls: list[ModelRequest] = []

    def counted(request: ModelRequest) -> Any:
        calls.append(request)
        return looks_twice(request)

    with workbench(counted, record=cassette, mode="auto") as wb:
        with_look(wb, permission="confirm")
        run = wb.ask("Q?").wait(WAIT_S)
        first = run.pending[0].id
        with pytest.raises(af.errors.UsageError, match="nothing was decided"):
            run.approve(params={"nonsense": 1})
        run.approve(first)
        run.wait(WAIT_S)
        for decide in (run.approve, lambda request: run.deny("no", request)):
            with pytest.raises(af.errors.Conflict, match="decided already"):
                decide(first)
        assert [request.id for request in run.pending] != [first]
        run.approve()
        assert run.wait(WAIT_S).status == "completed"
        assert not calls


def test_run_that_continues_live_keeps_the_model_of_the_workbench(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A log line names both models; from then on the run has the new model."""
    cassette = tmp_path / "c.jsonl"
    with workbench(looks_twice, tmp_path / "data", record=cassette) as wb:
        with_look(wb, permission="confirm")
        wb.ask("Q?").wait(WAIT_S).approve().wait(WAIT_S).approve().wait(WAIT_S)
    other = ScriptedModel(looks_twice)
    other.default_model = "other"
    with af.Workbench(model=other, record=cassette, mode="auto", interactive=False) as wb:
        with_look(wb, permission="confirm")
        run = wb.ask("Q?").wait(WAIT_S)
        assert run.manifest["agents"]["lead_agent"]["model"] == "scripted"
        assert run.deny("No.").wait(WAIT_S).status == "waiting"
        assert run.manifest["agents"]["lead_agent"]["model"] == "other"
        assert run.approve().wait(WAIT_S).response == "Done."
        assert wb.llm_calls_df()["request_model"].tolist() == ["scripted", "other", "other"]
    assert "with the model scripted (scripted) for lead_agent, and here lead_agent has other (scripted)" in caplog.text
    assert caplog.text.count("The run continues live.") == 1


def test_fork_of_a_run_that_continued_live_is_live(tmp_path: Path) -> None:
    """The recorded fork contains the result of a call that is denied now."""
    cassette = tmp_path / "c.jsonl"

    def fork_status(*, approved: bool, **options: Any) -> str:
        with workbench(looks_once, record=cassette, **options) as wb:
            with_look(wb, permission="confirm")
            run = wb.ask("Q?").wait(WAIT_S)
            if approved:
                run.approve()
            else:
                run.deny("never")
            run.wait(WAIT_S)
            last = [step.number for step in run.steps if step.kind == "model"][-1]
            return str(run.fork(last).wait(WAIT_S).response)

    assert fork_status(approved=True, data_dir=tmp_path / "data") == "It was seen."
    assert fork_status(approved=False, mode="auto") == "It was denied."


def test_each_question_of_a_conversation_verifies(tmp_path: Path) -> None:
    """A follow-up is executed again after the earlier questions."""
    cassette = tmp_path / "c.jsonl"

    def script(request: ModelRequest) -> str:
        return f"Answer {len(request.messages)}"

    def ask_both(wb: af.Workbench) -> list[str | None]:
        first = wb.ask("One?").wait(WAIT_S)
        second = wb.ask("Two?", conversation_id=first.conversation_id).wait(WAIT_S)
        return [first.response, second.response]

    with workbench(script, tmp_path / "data", record=cassette) as wb:
        recorded = ask_both(wb)
    with af.Workbench(replay=cassette, mode="verify", interactive=False) as wb:
        assert ask_both(wb) == recorded


def test_follow_up_of_a_question_recorded_again_is_a_miss(tmp_path: Path) -> None:
    """The recorded follow-up continues the replaced recording of its question."""
    cassette = tmp_path / "c.jsonl"
    for questions in (["One?", "Two?"], ["One?"]):
        with workbench(lambda _: "Hi.", tmp_path / str(len(questions)), record=cassette) as wb:
            where: dict[str, Any] = {}
            for question in questions:
                where = {"conversation_id": wb.ask(question, **where).wait(WAIT_S).conversation_id}
    with af.Workbench(replay=cassette, interactive=False) as wb:
        first = wb.ask("One?").wait(WAIT_S)
        with pytest.raises(af.errors.CassetteMiss, match="which was recorded again"):
            wb.ask("Two?", conversation_id=first.conversation_id)


def test_key_that_is_set_later_is_redacted_in_earlier_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text became a secret after the workbench was made."""
    cassette = tmp_path / "c.jsonl"
    with workbench(lambda _: "Hi.", tmp_path / "data") as wb:
        first = wb.ask(f"Use {KEY}").wait(WAIT_S)
    with workbench(lambda _: "Hi.", tmp_path / "data", record=cassette) as wb:
        monkeypatch.setenv("TAVILY_API_KEY", KEY)
        wb.ask("And?", conversation_id=first.conversation_id).wait(WAIT_S)
    assert "And?" in cassette.read_text(encoding="utf-8")
    assert KEY not in cassette.read_text(encoding="utf-8")


def test_instruction_of_a_fork_is_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", KEY)
    prompts: list[str] = []

    def script(request: ModelRequest) -> str:
        prompts.append(request.messages[-1].content)
        return "Hi."

    with workbench(script, tmp_path / "data") as wb:
        fork = wb.ask("What?").wait(WAIT_S).fork(1, prompt=f"Use {KEY} now").wait(WAIT_S)
        assert prompts[-1].startswith("Use [secret] now")
        assert KEY not in f"{fork!r} {fork.settings}"
