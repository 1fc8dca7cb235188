"""Replays of parallel jobs, decisions at any time, cancellations and failures."""

import asyncio
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.recorded_scenes import (
    WAIT_S,
    Eventful,
    Stage,
    Uneven,
    jobs,
    open_scene,
    play_both,
    searching,
    step_of,
    with_look,
)
from support.replies import call, delegate, report, requesting_agent

import artifactflow_nb as af
from artifactflow_nb.core.messages import ToolCall, ToolResult, Usage
from artifactflow_nb.errors import CassetteMiss, ContextOverflow, ModelUnavailable
from artifactflow_nb.models.base import ModelDelta, ModelReply, ModelRequest, RetryNotice
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.tools.base import ToolContext

REPLY = Usage(10, 5)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**9), rounds=st.lists(st.integers(1, 5), min_size=1, max_size=2))
def test_any_interleaving_is_replayed(seed: int, rounds: list[int]) -> None:
    """Parallel jobs overtake each other at random; events are played in the recorded order."""

    def script(request: ModelRequest) -> Any:
        if requesting_agent(request) != "lead":
            return searching(request)
        step = step_of(request)
        return jobs(*(f"{step} {n}" for n in range(rounds[step]))) if step < len(rounds) else "Done."

    def scene(stage: Stage) -> Any:
        return stage.ask().wait(WAIT_S).response

    with tempfile.TemporaryDirectory() as folder:
        play_both(Path(folder), scene, Uneven(script, seed), setup=with_look)


def test_concurrent_questions_find_their_recordings(tmp_path: Path) -> None:
    """Two of the questions are equal."""

    def script(request: ModelRequest) -> Any:
        if requesting_agent(request) != "lead":
            return searching(request)
        return jobs("a", "b") if step_of(request) == 0 else f"{request.messages[1].content} is answered."

    def scene(stage: Stage) -> Any:
        runs = [stage.ask(question) for question in ("One?", "Two?", "One?", "Three?")]
        return [run.wait(WAIT_S).response for run in runs]

    play_both(tmp_path, scene, script, setup=with_look)


def test_run_cancelled_during_a_stream_is_replayed(tmp_path: Path) -> None:
    """The replay ends with the same partial text, whether code cancels the run again or not."""

    def scene(stage: Stage) -> Any:
        run = stage.ask()
        while run.status == "running" and sum(event.type == "llm_chunk" for event in stage.events[0]) < 20:
            time.sleep(0.005)
        run.cancel()
        return run.wait(WAIT_S).status

    status = play_both(tmp_path, scene, ScriptedModel(lambda _: "A long text. " * 200, delay_s=0.01))
    assert status == "cancelled"


def test_failed_attempts_are_replayed_with_their_partial_texts(tmp_path: Path) -> None:
    """A prompt was too long, streams broke, and the last attempt failed."""

    def script(request: ModelRequest) -> Any:
        if "fail" in request.messages[-1].content:
            notice = RetryNotice(1, 0.5, "It broke.")
            return [ModelDelta("Half"), notice, ModelDelta("An"), ModelUnavailable("Gone.", partial="An")]
        if sum(map(len, (m.content for m in request.messages))) > 30_000:
            return [ContextOverflow("Too long.")]
        reply = ModelReply("Whole.", REPLY, "stop", "m", attempts=2)
        return [ModelDelta("Hal"), RetryNotice(1, 0.5, "It broke."), ModelDelta("Who"), ModelDelta("le."), reply]

    def scene(stage: Stage) -> Any:
        runs = [stage.ask(question).wait(WAIT_S) for question in ("Short?", "Long? " * 6000, "fail")]
        return [(run.status, run.error) for run in runs]

    results = play_both(tmp_path, scene, Eventful(script))
    assert [status for status, _ in results] == ["completed", "completed", "failed"]


def test_agent_without_streaming_is_replayed(tmp_path: Path) -> None:
    """The reply of such an agent has no chunks."""
    (tmp_path / "quiet_agent.md").write_text("You are the quiet agent.", encoding="utf-8")

    def setup(wb: af.Workbench) -> None:
        wb.register_agent(af.AgentConfig("quiet_agent", "Is quiet.", streaming=False))

    def script(request: ModelRequest) -> Any:
        if requesting_agent(request) == "lead":
            return delegate("quiet_agent", "Say it.") if step_of(request) == 0 else "Done."
        return "Quietly. " * 20

    def scene(stage: Stage) -> Any:
        return stage.ask().wait(WAIT_S).response

    play_both(tmp_path, scene, script, setup=setup, prompts=tmp_path)


def test_unreadable_native_calls_are_replayed(tmp_path: Path) -> None:
    """The error that the model gets is replayed, too."""

    def script(request: ModelRequest) -> Any:
        calls = (ToolCall("look", {}, 'The arguments are not JSON: {"word'), ToolCall("look", {"word": "x"}))
        if step_of(request) > 0:
            return ModelReply("Done.", REPLY, "stop", "m")
        return [ModelDelta('{"word', "call", "look"), ModelReply("Let me see.", REPLY, "tool_calls", "m", calls)]

    def scene(stage: Stage) -> Any:
        return stage.ask().wait(WAIT_S).response

    play_both(tmp_path, scene, Eventful(script), setup=with_look, tool_protocol="native")


def with_odd_tools(wb: af.Workbench) -> None:
    @wb.tool(timeout_s=0.02)
    async def slow(ctx: ToolContext) -> str:
        """Take long."""
        await asyncio.sleep(5)
        return "late"

    @wb.tool
    async def broken(ctx: ToolContext) -> str:
        """Fail."""
        raise ValueError("It is broken.")

    @wb.tool
    async def rich(ctx: ToolContext) -> ToolResult:
        """Give more than text."""
        return ToolResult(success=True, data="Much.", metadata={"n": 3, "nested": {"a": [1, 2.5, None, "é"]}})

    @wb.tool
    async def sorry(ctx: ToolContext) -> ToolResult:
        """Give a failure."""
        return ToolResult(success=False, error="Sorry.", metadata={"code": 7})

    @wb.tool
    def loud(ctx: ToolContext) -> str:
        """Tell of steps, from a thread."""
        for n in range(3):
            ctx.notify("step_start", {"n": n})
        return "told"

    @wb.tool(uses_store_only=True)
    async def note(ctx: ToolContext, text: str) -> str:
        """Keep a note as an artifact."""
        await ctx.service(af.engine.ArtifactManager).create_artifact(ctx.conversation_id, "note", content=text)
        return "kept"


def test_results_errors_and_progress_of_tools_are_replayed(tmp_path: Path) -> None:
    """The replay runs no tool."""
    calls = "".join(call(name) for name in ("slow", "broken", "rich", "sorry", "loud", "rich"))

    def script(request: ModelRequest) -> Any:
        return calls if step_of(request) == 0 else "Done."

    def scene(stage: Stage) -> Any:
        return stage.ask().wait(WAIT_S).response

    play_both(tmp_path, scene, script, setup=with_odd_tools)


@pytest.mark.parametrize("is_killed", [True, False])
def test_run_continued_by_another_process_is_replayed(tmp_path: Path, is_killed: bool) -> None:
    """Answer and artifacts equal an uninterrupted run; only event numbers differ."""
    cassette = tmp_path / "c.jsonl"
    hang = True

    def script(request: ModelRequest) -> Any:
        if requesting_agent(request) != "lead":
            return searching(request)
        return [jobs("a", "b"), report("Apples."), "A long answer. " * 100][step_of(request)]

    class Hanging(Uneven):
        async def stream(self, request: ModelRequest) -> Any:
            n = 0
            async for event in super().stream(request):
                n += 1
                if hang and n == 20 and step_of(request) == 2 and requesting_agent(request) == "lead":
                    await asyncio.sleep(60)
                yield event

    with open_scene(tmp_path, model=Hanging(script), record=cassette, setup=with_look) as wb:
        run = wb.ask("What?")
        while not any(event.type == "artifact_changed" for event in run.events):
            time.sleep(0.01)
        time.sleep(0.2)
        if is_killed:  # what a killed process leaves: a store as it was, and no lock that anybody holds
            shutil.copytree(tmp_path / "data", tmp_path / "left")
    if is_killed:
        shutil.rmtree(tmp_path / "data")
        shutil.move(tmp_path / "left", tmp_path / "data")
    hang = False
    with open_scene(tmp_path, model=Hanging(script), record=cassette, setup=with_look) as wb:
        run = wb.run(run.run_id).resume().wait(WAIT_S)
        response, text = run.response, run.artifacts["research_report"].content
    with open_scene(tmp_path, replay=cassette, setup=with_look) as wb:
        run = wb.ask("What?").wait(WAIT_S)
        assert run.error is None
        assert (run.response, run.artifacts["research_report"].content) == (response, text)


def test_two_workbenches_play_one_read_only_cassette(tmp_path: Path) -> None:
    """Both play at the same time, one workbench in a running loop; no file is written next to the cassette."""
    place = tmp_path / "shared" / "c.jsonl"
    with open_scene(tmp_path, model=ScriptedModel(lambda _: "Yes."), record=place) as wb:
        for question in "abc":
            wb.ask(question).wait(WAIT_S)
    place.chmod(0o444)
    place.parent.chmod(0o555)
    before = sorted((path.name, path.stat().st_mtime_ns) for path in place.parent.iterdir())

    async def loop(wb: af.Workbench) -> list[Any]:
        return [(await wb.ask(question)).response for question in "abc"]

    with open_scene(tmp_path, replay=place) as first, open_scene(tmp_path, replay=place) as second:
        runs = [first.ask(question) for question in "abc"]
        assert asyncio.run(loop(second)) == ["Yes."] * 3
        assert [run.wait(WAIT_S).response for run in runs] == ["Yes."] * 3
    assert sorted((path.name, path.stat().st_mtime_ns) for path in place.parent.iterdir()) == before
    place.parent.chmod(0o755)


def test_late_listener_gets_the_same_events(tmp_path: Path) -> None:
    """A listener that subscribes after the end of the run gets all events."""
    cassette = tmp_path / "c.jsonl"

    def script(request: ModelRequest) -> Any:
        if requesting_agent(request) != "lead":
            return searching(request)
        return jobs("a", "b") if step_of(request) == 0 else "Done."

    def late(wb: af.Workbench) -> list[Any]:
        run = wb.ask("What?").wait(WAIT_S)
        events: list[Any] = []
        run._client.subscribe(events.append)
        wb._thread.call(asyncio.sleep(0.01))
        return [(event.seq, event.type, event.timestamp, event.data) for event in events]

    with open_scene(tmp_path, model=Uneven(script), record=cassette, setup=with_look) as wb:
        recorded = late(wb)
    with open_scene(tmp_path, replay=cassette, setup=with_look) as wb:
        assert late(wb) == recorded


def test_equal_concurrent_questions_find_separate_recordings(tmp_path: Path) -> None:
    cassette = tmp_path / "c.jsonl"

    def answers(wb: af.Workbench) -> list[str]:
        execute = wb._thread.engine.controller.execute

        async def at_once() -> list[Any]:
            return await asyncio.gather(*(execute("What?") for _ in range(5)))

        return sorted(str(result.response) for result in wb._thread.call(at_once()))

    counted = iter(range(100))
    with open_scene(tmp_path, model=ScriptedModel(lambda _: f"Answer {next(counted)}."), record=cassette) as wb:
        responses = answers(wb)
    assert len(set(responses)) == 5
    with open_scene(tmp_path, replay=cassette) as wb:
        assert answers(wb) == responses


def test_miss_of_a_changed_question_names_the_difference(tmp_path: Path) -> None:
    """The difference is the model, the budget, or the count of equal questions."""
    cassette = tmp_path / "c.jsonl"
    with open_scene(tmp_path, model=ScriptedModel(["Yes."]), record=cassette) as wb:
        wb.ask("Sure?", budget={"tokens": 9_000}).wait(WAIT_S)
    with open_scene(tmp_path, replay=cassette) as wb:
        with pytest.raises(CassetteMiss, match=r"differs:\nbudget: recorded .*9000.*, now none\nTo record"):
            wb.ask("Sure?")
        with pytest.raises(CassetteMiss, match=r"differs:\nmodel: recorded none, now other\nTo record"):
            wb.ask("Sure?", budget={"tokens": 9_000}, model="other")
        wb.ask("Sure?", budget={"tokens": 9_000}).wait(WAIT_S)
        with pytest.raises(CassetteMiss, match="less often than now"):
            wb.ask("Sure?", budget={"tokens": 9_000})
