"""Calls in the text protocol are streamed as calls: no reader of the answer's text sees them."""

import time
from pathlib import Path

import pytest
from conftest import OpenEngine, OpenWorkbench
from support.replies import report

import artifactflow_nb as af
from artifactflow_nb.core.events import StreamEvent
from artifactflow_nb.testing import ScriptedModel

CONTENT = "# Fares\n\n" + "The ferry costs 40 crowns. " * 40
WRITING = f"I write the report now.\n\n```xml\n{report(CONTENT)}\n```"


def streamed(events: list[StreamEvent], kind: str) -> str:
    return "".join(e.data["delta"] for e in events if e.type == "llm_chunk" and e.data["kind"] == kind)


async def events_of(engine: af.engine.Engine) -> list[StreamEvent]:
    run = await engine.controller.begin("Write.")
    events: list[StreamEvent] = []
    await engine.controller.subscribe(run.run_id, events.append)
    await (await engine.controller.start(run))
    return events


@pytest.mark.parametrize("size", [1, 3, 16, 10_000])
async def test_answer_chunks_never_have_a_call(open_engine: OpenEngine, size: int) -> None:
    """Wherever pieces end, the text of a call is in separate chunks, which name the tool."""
    engine = await open_engine(model=ScriptedModel([WRITING, "It is written."], chunk_chars=size), approvals="approve")
    events = await events_of(engine)
    assert streamed(events, "answer") == "I write the report now.\n\nIt is written."
    assert streamed(events, "call") == WRITING[WRITING.index("```xml") :]
    last = [event for event in events if event.type == "llm_chunk" and event.data["kind"] == "call"][-1]
    assert (last.tool, last.data["tool_protocol"]) == ("create_artifact", "xml")
    assert last.content == streamed(events, "call")


async def test_text_that_only_begins_like_a_call_is_complete(open_engine: OpenEngine) -> None:
    engine = await open_engine(model=ScriptedModel(["It is 3 <tool"], chunk_chars=4))
    assert streamed(await events_of(engine), "answer") == "It is 3 <tool"


def test_cancelled_run_has_the_prose_only(workbench: OpenWorkbench) -> None:
    wb = workbench(model=ScriptedModel([WRITING], chunk_chars=8, delay_s=0.01))
    run = wb.ask("Write.")
    seen: list[StreamEvent] = []
    run._client.subscribe(seen.append)
    while "call" not in {event.data.get("kind") for event in tuple(seen)}:
        time.sleep(0.01)
    run.cancel().wait()
    assert seen[-1].data["partial"] == "I write the report now."
    (content,) = wb.query("SELECT content FROM main.llm_calls")["content"]
    assert content.startswith("I write the report now.\n\n```xml\n<")


def test_replay_streams_the_same_chunks(tmp_path: Path) -> None:
    """The events of run and replay are equal, and the text of the call is not stored twice."""
    streams: list[list[StreamEvent]] = []
    for options in ({"record": "runs.jsonl"}, {"replay": "runs.jsonl"}):
        model = ScriptedModel([WRITING, "It is written."], chunk_chars=8)
        paths = {name: tmp_path / file for name, file in options.items()}
        folder = tmp_path / "-".join(options)
        with af.Workbench(model=model, approvals="approve", interactive=False, data_dir=folder, **paths) as wb:
            thread = wb._thread

            async def ask() -> list[StreamEvent]:
                return [event async for event in thread.engine.controller.stream_execute("Write.")]  # noqa: B023

            streams.append(thread.call(ask()))
            assert "said" not in wb.query("SELECT pieces_json FROM main.llm_calls")["pieces_json"][0]
    recorded, played = ([(e.seq, e.type, e.tool, e.data) for e in events] for events in streams)
    assert sum(kind == "llm_chunk" for _, kind, *_ in recorded) > 10
    assert played == recorded
