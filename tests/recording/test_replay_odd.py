"""Replay and verification of branches, forks, secrets and agents with models of their own."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.recorded_scenes import Stage, open_scene, play_both, step_of
from support.replies import call, delegate, report, requesting_agent

import artifactflow_nb as af
from artifactflow_nb.core.redaction.redactor import Redactor
from artifactflow_nb.engine.factories import known_values
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.models.scripted import ScriptedModel

SECRET = 'The config is\npassword = "hunter2hunter2"'  # noqa: S105 - it is to be found, and opens nothing
WAIT_S = 30


def turns(*replies: str) -> Any:
    return lambda request: replies[min(step_of(request), len(replies) - 1)]


def searching(request: ModelRequest) -> str:
    if requesting_agent(request) != "lead":
        return "Found."
    return [delegate("search_agent", "apples"), report("R"), "Done."][min(step_of(request), 2)]


@pytest.mark.parametrize("origin", ["regenerate", "edit", "fork", "fork of a fork", "by hand", "cancel"])
def test_later_branch_is_verified(tmp_path: Path, origin: str) -> None:
    """Other branches used version numbers, and clicks are repeated."""
    policy: Any = {"create_artifact": "ask"} if origin == "cancel" else "approve"
    with open_scene(
        tmp_path, model=ScriptedModel(turns(report("Hi"), "Done.")), data_dir=tmp_path / "s", approvals=policy
    ) as wb:
        run = wb.ask("Q").wait(WAIT_S)
        if origin == "regenerate":
            run = wb.conversation(run).regenerate()
        elif origin == "edit":
            run = wb.conversation(run).edit("Q2")
        elif origin == "fork":
            run = run.fork(1)
        elif origin == "fork of a fork":
            run = run.fork(3, prompt="X").wait(WAIT_S).fork(2, tool_result="No")
        elif origin == "by hand":
            run.artifacts["research_report"].edit("By hand")
            run = wb.ask("Q2", conversation_id=run)
        else:
            run.cancel()
        path = run.wait(WAIT_S).seal(tmp_path / "x.afrun")
    with af.open_run(path) as opened_run:
        found = opened_run.verify()
    assert (found.differences, found.prompts) == ((), ())


def test_verification_ignores_agent_models_and_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither `agent_models` nor AF_MODE has an effect."""
    options: dict[str, Any] = {"agent_models": {"search_agent": "small"}, "approvals": "approve"}
    with open_scene(tmp_path, model=ScriptedModel(searching), data_dir=tmp_path / "s", **options) as wb:
        path = wb.ask("Q").wait(WAIT_S).seal(tmp_path / "x.afrun")
    for name, value in {"AF_MODE": "replay", "AF_TEMPERATURE": "0.1", "AF_TOOL_PROTOCOL": "native"}.items():
        monkeypatch.setenv(name, value)
    with af.open_run(path) as opened_run:
        assert opened_run.verify().differences == ()


def test_agent_of_the_user_can_be_verified(tmp_path: Path) -> None:
    """A missing prompt file is reported as a difference."""
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "counter.md").write_text("You count.", encoding="utf-8")
    config = af.AgentConfig("counter", "Counts.")
    script = ScriptedModel([delegate("counter", "Count."), "Three.", "Three it is."])
    with open_scene(tmp_path, model=script, data_dir=tmp_path / "s", prompts=tmp_path / "prompts") as wb:
        wb.register_agent(config)
        path = wb.ask("How many?").wait(WAIT_S).seal(tmp_path / "x.afrun")
    with af.open_run(path) as run:
        without, found = run.verify(agents=[config]), run.verify(agents=[config], prompts=tmp_path / "prompts")
    assert (without.differences, found.differences, found.prompts) == ((), (), ())
    assert any("-You count." in prompt for prompt in without.prompts)


def test_masked_secret_in_an_artifact_is_no_difference(tmp_path: Path) -> None:
    """The mask is shorter, and results contain lengths."""
    script = turns(report(SECRET), call("update_artifact", id="research_report", old_str="The", new_str="A"), "Done.")
    with open_scene(tmp_path, model=ScriptedModel(script), record=tmp_path / "c.jsonl", approvals="approve") as wb:
        path = wb.ask("Q").wait(WAIT_S).seal(tmp_path / "x.afrun")
    assert "hunter2" not in (tmp_path / "c.jsonl").read_text(encoding="utf-8")
    with open_scene(tmp_path, replay=tmp_path / "c.jsonl", approvals="approve") as wb:
        assert wb.ask("Q").wait(WAIT_S).status == "completed"
    with af.open_run(path) as run:
        assert run.verify().differences == ()


def test_verified_fork_uses_its_replaced_result(tmp_path: Path) -> None:
    """A replaced result is used for a tool that is executed again, and for a call that the person had denied."""

    def scene(stage: Stage) -> Any:
        run = stage.ask().wait(WAIT_S).approve().wait(WAIT_S)
        number = next(step.number for step in run.steps if step.kind == "decision")
        fork = run.fork(number + 1, tool_result="Given.").wait(WAIT_S)
        denied = run.fork(number, decision=False).wait(WAIT_S)
        again = denied.fork(number + 1, tool_result="Given.").wait(WAIT_S)
        return [[step.outcome for step in entry.steps if step.kind == "tool"] for entry in (fork, again)]

    policy = {"create_artifact": "ask"}
    assert play_both(tmp_path, scene, turns(report("a"), "Done."), approvals=policy) == [["Given."], ["Given."]]


def test_requests_of_a_replay_have_their_recorded_order(tmp_path: Path) -> None:
    """The order of two agents depends on the recorded times, not on their speed now."""

    class Slow(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            if requesting_agent(request) != "lead" and "apples" in request.messages[1].content:
                await asyncio.sleep(0.1)
            async for event in super().stream(request):
                yield event

    def script(request: ModelRequest) -> str:
        if requesting_agent(request) != "lead":
            return [call("look", word=request.messages[1].content), "Found."][min(step_of(request), 1)]
        both = delegate("search_agent", "apples") + delegate("search_agent", "pears")
        return [both, "Done."][min(step_of(request), 1)]

    def setup(wb: af.Workbench) -> None:
        @wb.tool(agent="search_agent", permission="confirm")
        def look(ctx: af.ToolContext, word: str) -> str:
            """Look a word up."""
            return word

    def scene(stage: Stage) -> Any:
        run = stage.ask().wait(WAIT_S)
        first = str(run.pending[0].params)
        run.deny("No.", run.pending[0].id).wait(WAIT_S)
        return first, run.approve().wait(WAIT_S).status

    result = play_both(tmp_path, scene, Slow(script), setup=setup)
    assert result == ("{'word': 'pears'}", "completed")


@pytest.mark.timed
def test_miss_of_a_long_question_is_fast(tmp_path: Path) -> None:
    long, other = ("\n".join(str(n * step % 120) for n in range(48_000)) for step in (1, 7))
    with open_scene(tmp_path, model=ScriptedModel(["Yes."]), record=tmp_path / "c.jsonl") as wb:
        wb.ask(long).wait(WAIT_S)
    with open_scene(tmp_path, replay=tmp_path / "c.jsonl") as wb:
        started = time.monotonic()
        with pytest.raises(af.errors.CassetteMiss):
            wb.ask(other)
        assert time.monotonic() - started < 2


def test_keys_of_models_are_secret(tmp_path: Path) -> None:
    """A model can be passed with a key that the settings do not have."""
    key = "plain1key9value8xyz"
    model = OpenAIModel("http://127.0.0.1:9/v1", key, "m")
    with open_scene(tmp_path, model=model, record=tmp_path / "c.jsonl") as wb:
        assert key not in wb._thread.engine.session.redacted_text(f"refused: {key}")
    redactor = Redactor(known_values(Settings.load(), {**os.environ, "DB_PASS": "abc1def2ghi3"}, ()))
    for text in (
        "abc1def2ghi3",
        "Set-Cookie: sid=9f8e7d6c5b4a39281706; Path=/",
        "gsk_abcdefghijklmnop1234567890ABCDEF",
    ):
        assert "[secret]" in redactor.text(text)
