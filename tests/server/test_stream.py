"""Readers: several, slow ones, and those that connect again."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from server.conftest import Serve
from support.forked_python import fast_python
from support.gated_model import GatedModel
from support.http_server import Client, Received, serving
from support.killed_server import ANSWER
from support.replies import call, delegate, in_request_protocol, report, requesting_agent

import artifactflow_nb as af
from artifactflow_nb.core.events import StreamedText, StreamEvent, StreamEventType
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.server.lifecycle import open_lifecycle
from artifactflow_nb.server.stream import EventQueue, SentEvent, encode

TEXT = "It leaves at nine, and the next one leaves at noon. " * 8


def texts(events: list[Received]) -> dict[str, str]:
    """The answer of each model call as a client assembles it: `content` replaces, `delta` is added.

    Pieces of tool calls are another text, which only a reader during the model call receives.
    """
    found: dict[str, str] = {}
    for event in events:
        if event.event == "llm_chunk" and event.data["kind"] == "answer":
            key = event.data["call_id"]
            found[key] = event.data.get("content") or found.get(key, "") + event.data["delta"]
    return found


def stored(events: list[Received]) -> list[int]:
    return [event.id for event in events if event.event != "llm_chunk"]


def parallel_jobs(request: ModelRequest) -> str:
    if requesting_agent(request) != "lead":
        return TEXT
    is_first = "nine" not in request.messages[-1].content
    return delegate("search_agent", "One.") + delegate("search_agent", "Two.") if is_first else "Both."


def test_three_readers_get_the_same_events(serve: Serve) -> None:
    model = GatedModel(in_request_protocol(parallel_jobs), chunk_chars=12)
    client = serve(model=model)
    run = client.ask("When?")
    read: list[list[Received]] = [[], [], []]

    def listen(events: list[Received]) -> None:
        with Client(client.base_url) as reader:
            for event in reader.events(run["thread_id"]):
                events.append(event)
                model.gate.set() if all(read) else None

    threads = [threading.Thread(target=listen, args=(events,)) for events in read]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read[0] == read[1] == read[2]
    assert sum(event.event == "llm_chunk" for event in read[0]) > 60
    assert [event.id for event in read[0]] == sorted({event.id for event in read[0]})


def test_reader_that_connects_again_after_each_event_misses_and_repeats_nothing(serve: Serve) -> None:
    """The run is slow enough that most connections are cut while text arrives."""
    model = GatedModel(in_request_protocol(parallel_jobs), chunk_chars=24, delay_s=0.03)
    client = serve(model=model)
    run = client.ask("When?")
    model.gate.set()
    whole: list[Received] = []
    reader = threading.Thread(target=lambda: whole.extend(client.events(run["thread_id"])))
    reader.start()
    pieces: list[Received] = []
    with Client(client.base_url) as other:
        while not pieces or pieces[-1].event != "complete":
            events = other.events(run["thread_id"], last=pieces[-1].id if pieces else None)
            pieces += [event for _, event in zip(range(3), events, strict=False)]
            events.close()  # type: ignore[attr-defined]
    reader.join()
    assert stored(pieces) == stored(whole)
    assert all(before.id < after.id for before, after in pairwise(pieces) if "content" not in after.data)
    assert all(before.id <= after.id for before, after in pairwise(pieces))
    assert any(event.event == "llm_chunk" for event in pieces)


def test_parameter_from_is_the_last_event_that_the_reader_has(serve: Serve) -> None:
    client = serve(["At nine."])
    run = client.ask("When?")
    events = list(client.events(run["thread_id"]))
    rest = list(client.events(run["thread_id"], **{"from": events[1].id}))
    assert stored(rest) == [number for number in stored(events) if number > events[1].id]
    assert client.get(f"/stream/{run['thread_id']}", params={"from": events[-1].id}).status_code == 204


def test_cumulative_stream_has_the_text_so_far(serve: Serve) -> None:
    model = GatedModel([TEXT], chunk_chars=10)
    client = serve(model=model)
    run = client.ask("When?")
    chunks = []
    for event in client.events(run["thread_id"], cumulative=1):
        model.gate.set()
        chunks += [event] if event.event == "llm_chunk" else []
    assert chunks[-1].data["content"] == TEXT
    assert all(TEXT.startswith(chunk.data["content"]) for chunk in chunks)


@contextmanager
def killable_server(folder: Path) -> Iterator[tuple[subprocess.Popen[str], Client]]:
    script = Path(__file__).parents[1] / "support" / "killed_server.py"
    process = subprocess.Popen([sys.executable, str(script), str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        with Client(f"http://127.0.0.1:{process.stdout.readline().strip()}") as client:
            yield process, client
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_stream_continues_after_the_server_was_killed(tmp_path: Path) -> None:
    """The reader sends the number of its last piece of text to the next server."""
    events: list[Received] = []
    with killable_server(tmp_path / "data") as (process, client):
        run = client.ask("Count.")
        with pytest.raises(httpx.HTTPError):  # noqa: PT012 - the stream breaks off somewhere
            for event in client.events(run["thread_id"]):
                events.append(event)
                if sum(each.event == "llm_chunk" for each in events) == 12:
                    process.kill()
    assert events[-1].event == "llm_chunk"
    with killable_server(tmp_path / "data") as (_, client):
        rest = list(client.events(run["thread_id"], last=events[-1].id))
        everything = list(client.events(run["thread_id"]))
    assert rest[-1].data["response"].strip() == ANSWER.strip()
    assert stored(events) + stored(rest) == stored(everything)
    assert events[-1].id < rest[0].id
    assert texts(rest).popitem()[1] == ANSWER


def test_run_of_a_notebook_that_was_killed_stays_abandoned(tmp_path: Path, serve: Serve) -> None:
    """A server continues the runs of servers only: a kernel may have been stopped on purpose."""
    code = (
        "import os, sys, artifactflow_nb as af\n"
        "wb = af.Workbench(model=af.ScriptedModel(['a b c ' * 50], delay_s=0.5), data_dir=sys.argv[1])\n"
        "print(wb.ask('Count.').thread_id, flush=True)\n"
        "os._exit(1)\n"
    )
    command = [*fast_python(), "-c", code, str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    client = serve(["Again."])
    assert client.get(f"/runs/{done.stdout.strip()}").json()["status"] == "abandoned"


def chunk(number: int, text: StreamedText) -> StreamEvent:
    data = {"job_id": "main", "call_id": "call-1", "kind": "answer", "delta": f"{number} "}
    place = datetime(2026, 1, 1, tzinfo=UTC), number, "run-1", "lead_agent", None
    return StreamEvent(StreamEventType.LLM_CHUNK, *place, data, text, text.append(data["delta"]))


async def test_slow_reader_loses_pieces_and_gets_the_text_so_far() -> None:
    queue, text = EventQueue(0, max_waiting=10), StreamedText()
    for number in range(1, 101):
        queue.put(chunk(number, text))
    queue.put(StreamEvent(StreamEventType.CANCELLED, datetime(2026, 1, 1, tzinfo=UTC), 101, "run-1"))
    sent = [sent async for batch in queue.batches() for sent in batch]
    assert len(sent) <= 11
    received = ""
    for each in sent[:-1]:
        received = each.event.content if each.with_text else received + each.event.data["delta"]
    assert received == "".join(f"{number} " for number in range(1, 101))


def test_slow_reader_costs_other_readers_nothing(serve: Serve) -> None:
    """A reader that pauses for the whole run does not delay the others, and gets all events in the end."""
    answer = "x" * 400_000
    model = GatedModel([answer], chunk_chars=1000)
    client = serve(model=model)
    run = client.ask("When?")
    with Client(client.base_url) as other, other.http.stream("GET", f"/stream/{run['thread_id']}") as slow:
        events = []
        for event in client.events(run["thread_id"]):
            model.gate.set()
            events.append(event)
        assert texts(events).popitem()[1] == answer
        text = slow.read().decode()
    assert text.count("event: complete") == 1


def test_values_that_json_cannot_hold_are_sent_as_text() -> None:
    event = StreamEvent(StreamEventType.METADATA, datetime(2026, 1, 1, tzinfo=UTC), 1, "run-1", data={"n": 2**70})
    assert b'"data":{"n":"1180591620717411303424"}' in encode([SentEvent(event)])


def test_notebook_and_server_share_a_run(serve: Serve, workbench: "type[af.Workbench]") -> None:
    """A request of a notebook's run is decided on the server, and both receive the events of the run."""
    turns = [
        af.ToolCall("create_artifact", {"id": "note", "title": "Note", "content": "One."}),
        "Written.",
        af.ToolCall("rewrite_artifact", {"id": "note", "content": "Two."}),
        "Rewritten.",
    ]
    wb = workbench(turns, interactive=False)
    first = wb.ask("Write.").wait()
    second = wb.ask("Again.", conversation_id=first).wait()
    client = serve(model=ScriptedModel(["Rewritten by the server."]))
    [request] = client.get("/pending").json()["requests"]
    assert request["thread_id"] == second.thread_id
    events: list[Received] = []
    reader = threading.Thread(target=lambda: events.extend(client.events(second.thread_id, last=len(second.events))))
    answer = client.post(f"/chat/{second.conversation_id}/resume", thread_id=second.thread_id, approved=True)
    reader.start()
    assert answer.status_code == 202
    reader.join()
    assert events[-1].data["response"] == "Rewritten by the server."
    assert second.wait().response == "Rewritten by the server."
    assert wb.approvals_df(second)["decided_by"].tolist()[0].startswith("http:")


def test_reader_that_leaves_is_forgotten_and_the_run_continues(tmp_path: Path) -> None:
    model = GatedModel(["At nine."])
    lifecycle = open_lifecycle(model=model, data_dir=tmp_path / "data")
    with serving(lifecycle) as client:
        run = client.ask("When?")
        events = client.events(run["thread_id"])
        assert next(events).event == "metadata"
        controller = lifecycle.thread.engine.controller
        feed = lifecycle.thread.call(controller.scheduler.feeds.get(run["run_id"]))
        assert feed.has_listeners
        events.close()  # type: ignore[attr-defined]
        deadline = time.monotonic() + 10
        while feed.has_listeners:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        model.gate.set()
        assert list(client.events(run["thread_id"]))[-1].data["response"] == "At nine."


@pytest.mark.parametrize("after", [0, 2])
def test_reader_that_comes_after_the_end_gets_the_text(serve: Serve, after: int) -> None:
    client = serve([TEXT])
    run = client.ask("When?")
    live = list(client.events(run["thread_id"]))
    late = list(client.events(run["thread_id"], last=after))
    [chunk] = [event for event in late if event.event == "llm_chunk"]
    assert chunk.data["delta"] == chunk.data["content"] == TEXT.strip()
    assert list(texts(late)) == list(texts(live))
    assert stored(late) == [number for number in stored(live) if number > after]
    assert [event.id for event in late] == sorted({event.id for event in late})


def test_reader_of_a_waiting_run_gets_the_text_before_the_pause(serve: Serve) -> None:
    rewrite = call("rewrite_artifact", id="research_report", content="Another.")
    client = serve([[report()], "Written.", [TEXT, rewrite]])
    first = client.ask("Write.")
    list(client.events(first["thread_id"]))
    waiting = client.ask("Change.", conversation_id=first["conversation_id"])
    first_reader, late_reader = (texts(list(client.events(waiting["thread_id"]))) for _ in range(2))
    assert [text.strip() for text in first_reader.values()] == list(late_reader.values()) == [TEXT.strip()]


def test_late_readers_of_parallel_jobs_get_each_text_once(serve: Serve) -> None:
    client = serve(model=ScriptedModel(in_request_protocol(parallel_jobs), chunk_chars=24))
    run = client.ask("When?")
    live = list(client.events(run["thread_id"]))
    late = list(client.events(run["thread_id"]))
    answers = {event.data["call_id"]: event.data["text"] for event in live if event.event == "llm_complete"}
    assert texts(late) == {key: text for key, text in answers.items() if text}
    assert [event.id for event in late] == sorted(event.id for event in late)


def test_event_of_a_completed_call_has_content_and_success(serve: Serve) -> None:
    client = serve(["At nine."])
    [completed] = [event for event in client.events(client.ask("When?")["thread_id"]) if event.event == "llm_complete"]
    assert (completed.data["content"], completed.data["text"], completed.data["success"]) == (*["At nine."] * 2, True)
