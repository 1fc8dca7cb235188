"""When the face of a run is saved while the run goes on."""

import asyncio

import pytest
from widgets.played import PlayedRun, Script

from artifactflow_nb.widgets import following
from artifactflow_nb.widgets.following import Follower
from artifactflow_nb.widgets.transcript import Transcript


async def test_steps_are_saved_now_and_then(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first step that is over is worth saving at once, those behind it once after a while; text never is."""
    monkeypatch.setattr(following, "KEEP_EVERY_S", 0.3)
    script.say("word " * 20, "word", call="llm-0")
    for number in range(5):
        script.call("web_search", f"tc-{number}", {"query": "exit"})
    *chunks, first = script.events[: next(i for i, one in enumerate(script.events) if one.type == "llm_complete") + 1]
    later = script.events[len(chunks) + 1 :]
    kept: list[int] = []
    transcript = Transcript()
    follower = Follower(PlayedRun([]), transcript, lambda: None, lambda: kept.append(len(transcript.tool_uses)))
    for event in chunks:
        follower.take(event)
    assert kept == []
    follower.take(first)
    assert kept == [0]
    for event in later:
        follower.take(event)
    await asyncio.sleep(0.1)
    assert kept == [0]
    await asyncio.sleep(0.4)
    assert kept == [0, 5]
    follower.close()


async def test_who_is_closed_before_it_has_started_hears_nothing(script: Script) -> None:
    """A view that is closed while it is opened leaves nobody behind who listens."""
    script.say("word", "word", call="llm-0")
    told: list[None] = []
    run = PlayedRun(script.events[:-1])  # what is arriving, which is heard by those who subscribe
    follower = Follower(run, Transcript(), lambda: told.append(None), lambda: None)
    starting = asyncio.create_task(follower.start())
    await asyncio.sleep(0)
    follower.close()
    await starting
    assert told == []


async def test_nothing_is_saved_after_it_was_closed(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view that was closed leaves no timer behind."""
    monkeypatch.setattr(following, "KEEP_EVERY_S", 0.05)
    for number in range(2):
        script.call("web_search", f"tc-{number}", {"query": "exit"})
    kept: list[None] = []
    follower = Follower(PlayedRun([]), Transcript(), lambda: None, lambda: kept.append(None))
    for event in script.events:
        follower.take(event)
    follower.close()
    await asyncio.sleep(0.15)
    assert len(kept) == 1


async def test_a_run_ends_with_all_that_was_done_for_its_calls(script: Script) -> None:
    """What a run below did that nobody had heard of yet is there when the end is saved, also if it began just now."""
    below = Script()
    below.add("metadata", None, question="What is X?")
    below.say("A letter.", "A letter.", call="llm-9")
    below.add("complete", None, success=True, response="A letter.")
    script.add("tool_start", tool="run_research", job_id="main", tool_call_id="tc-1", params={"query": "What is X?"})
    started = {"job_id": "tc-1", "tool_call_id": "tc-1", "run_id": "run-0002", "flow": "research"}
    script.add("subrun_start", None, **started, question="What is X?")
    script.add("tool_complete", tool="run_research", job_id="main", tool_call_id="tc-1", success=True)
    script.add("complete", None, success=True, response="So it is.")
    run, transcript, kept = PlayedRun([]), Transcript(), asyncio.Event()
    run.subruns["run-0002"] = PlayedRun(below.events)
    answers: list[str] = []

    def keep() -> None:
        if transcript.ended:
            answers.extend(one.transcript.response for one in transcript.subruns.values())
            kept.set()

    follower = Follower(run, transcript, lambda: None, keep)
    for event in script.events:
        follower.take(event)
    async with asyncio.timeout(5):
        await kept.wait()
    assert answers == ["A letter."]
