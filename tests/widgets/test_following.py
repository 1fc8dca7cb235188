"""Saving the output of a run while it is followed."""

import asyncio

import pytest
from support.played_runs import PlayedRun, Script

from artifactflow_nb.widgets.run import follower as following
from artifactflow_nb.widgets.run.follower import RunFollower
from artifactflow_nb.widgets.run.transcript import RunTranscript


async def test_saves_of_steps_are_throttled(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first completed step is saved at once, later steps at most once per interval; streamed text is not saved."""
    monkeypatch.setattr(following, "SAVE_INTERVAL_S", 0.3)
    script.say("word " * 20, "word", call="llm-0")
    for number in range(5):
        script.call("web_search", f"tc-{number}", {"query": "exit"})
    *chunks, first = script.events[
        : next(i for i, entry in enumerate(script.events) if entry.type == "llm_complete") + 1
    ]
    later = script.events[len(chunks) + 1 :]
    saves: list[int] = []
    transcript = RunTranscript()
    follower = RunFollower(PlayedRun([]), transcript, lambda: None, lambda: saves.append(len(transcript.tool_uses)))
    for event in chunks:
        follower.apply(event)
    assert saves == []
    follower.apply(first)
    assert saves == [0]
    for event in later:
        follower.apply(event)
    await asyncio.sleep(0.1)
    assert saves == [0]
    await asyncio.sleep(0.4)
    assert saves == [0, 5]
    follower.close()


async def test_follower_closed_during_start_does_not_subscribe(script: Script) -> None:
    """A view that is closed while it opens leaves no subscription."""
    script.say("word", "word", call="llm-0")
    updates: list[None] = []
    run = PlayedRun(script.events[:-1])  # what is arriving, which is heard by those who subscribe
    follower = RunFollower(run, RunTranscript(), lambda: updates.append(None), lambda: None)
    starting = asyncio.create_task(follower.start())
    await asyncio.sleep(0)
    follower.close()
    await starting
    assert updates == []


async def test_closed_follower_does_not_save(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed view has no timer."""
    monkeypatch.setattr(following, "SAVE_INTERVAL_S", 0.05)
    for number in range(2):
        script.call("web_search", f"tc-{number}", {"query": "exit"})
    saves: list[None] = []
    follower = RunFollower(PlayedRun([]), RunTranscript(), lambda: None, lambda: saves.append(None))
    for event in script.events:
        follower.apply(event)
    follower.close()
    await asyncio.sleep(0.15)
    assert len(saves) == 1


async def test_end_of_run_includes_subruns(script: Script) -> None:
    """The last saved output contains all events of the subruns, also of a subrun that was just started."""
    below = Script()
    below.add("metadata", None, question="What is X?")
    below.say("A letter.", "A letter.", call="llm-9")
    below.add("complete", None, success=True, response="A letter.")
    script.add("tool_start", tool="run_research", job_id="main", tool_call_id="tc-1", params={"query": "What is X?"})
    started = {"job_id": "tc-1", "tool_call_id": "tc-1", "run_id": "run-0002", "flow": "research"}
    script.add("subrun_start", None, **started, question="What is X?")
    script.add("tool_complete", tool="run_research", job_id="main", tool_call_id="tc-1", success=True)
    script.add("complete", None, success=True, response="So it is.")
    run, transcript, saves = PlayedRun([]), RunTranscript(), asyncio.Event()
    run.subruns["run-0002"] = PlayedRun(below.events)
    answers: list[str] = []

    def keep() -> None:
        if transcript.is_ended:
            answers.extend(subrun.response for subrun in transcript.subruns.values())
            saves.set()

    follower = RunFollower(run, transcript, lambda: None, keep)
    for event in script.events:
        follower.apply(event)
    async with asyncio.timeout(5):
        await saves.wait()
    assert answers == ["A letter."]
