"""Limits on the bytes, queries and compilations of a run."""

import asyncio
import json
import sqlite3
import tracemalloc
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenEngine
from langgraph.graph import StateGraph
from support.chat_endpoint import Answer, ChatProcess
from support.replies import delegate, report

from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.flows.loop import job_loop
from artifactflow_nb.flows.research.spec import research_loop
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.testing import FakeClock

LONG = "abcd " * 5_000
"""An answer of 25 KB, which a model gives in 5,000 pieces."""


async def test_events_of_a_long_answer_are_small(open_engine: OpenEngine) -> None:
    """An answer of 25 KB in 5,000 chunks makes less than 1 MB of events.

    The store grows by less than 4 times the text.
    """
    engine = await open_engine(model=ScriptedModel([LONG], chunk_chars=5))
    events = [event async for event in engine.controller.stream_execute("Tell at length.")]
    chunks = [event for event in events if event.type is StreamEventType.LLM_CHUNK]
    assert 4_990 <= len(chunks) <= 5_000  # the first ones are held back while they may begin a call
    assert chunks[-1].content == LONG
    assert sum(len(json.dumps(dict(event.data))) for event in events) < 1_000_000
    stored = await engine.runs.events(events[0].run_id)
    assert sum(len(json.dumps(dict(event.data))) for event in stored) < 4 * len(LONG)


async def test_listener_holds_the_text_of_a_long_answer_once(open_engine: OpenEngine) -> None:
    """The 5,000 chunks of an answer of 100 KB take a few MB in a listener, not half a GB."""
    engine = await open_engine(model=ScriptedModel(["x" * 100_000], chunk_chars=20))
    run = await engine.controller.begin("Tell at length.")
    events: list[Any] = []
    await engine.controller.subscribe(run.run_id, events.append)
    tracemalloc.start()
    try:
        await (await engine.controller.start(run))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(event.type is StreamEventType.LLM_CHUNK for event in events) == 5_000
    assert peak < 20_000_000


def one_job(request: ModelRequest) -> str:
    """The script of a lead that delegates once, and of the sub-agent that answers."""
    system, *rest = request.messages
    if "lead agent" not in system.content:
        return "It is here."
    return "Done." if len(rest) > 1 else delegate("search_agent", "look") + report()


async def test_graphs_are_compiled_once_in_a_process(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first run of a flow compiles its graphs.

    Opening, later runs, resumes, jobs and other engines compile no graph.
    """
    compiled = Counter[str]()
    compile_graph = StateGraph.compile

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        compiled["graphs"] += 1
        return compile_graph(self, *args, **options)

    monkeypatch.setattr(StateGraph, "compile", counted)
    for cached_graph in (job_loop, research_loop):
        cached_graph.cache_clear()
    asking = {"approvals": {"create_artifact": "ask"}}
    engines = [await open_engine(one_job, folder=tmp_path / name, **asking) for name in "ab"]
    assert compiled["graphs"] == 0
    for number in range(6):
        controller = engines[number % 2].controller
        waiting = await controller.execute(f"Question {number}?")
        assert (await controller.resume(waiting.thread_id, approved=True)).status == "completed"
        assert compiled["graphs"] == 2, "the lead's loop, and that of the agents it delegates to"


async def test_run_uses_only_the_engine_and_file_threads(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes and edges of the loop are called on the engine's thread."""
    engine = await open_engine(one_job)
    await engine.controller.execute("The first question, for which the reference is indexed.")
    called: list[Any] = []
    loop = asyncio.get_running_loop()
    in_executor = loop.run_in_executor

    def noted(pool: Any, work: Callable[..., Any], *args: Any) -> Any:
        called.append(work)
        return in_executor(pool, work, *args)

    monkeypatch.setattr(loop, "run_in_executor", noted)
    assert (await engine.controller.execute("Another?")).status == "completed"
    assert called == []


async def statements(engine: Engine, work: Callable[[], Any]) -> Counter[str]:
    """The number of SQL statements that the work executes on the store, by their first word."""
    counts = Counter[str]()

    def listen(listener: Callable[[str], None] | None) -> Callable[[sqlite3.Connection], None]:
        return lambda db: db.set_trace_callback(listener)

    def note(statement: str) -> None:
        counts[statement.split(maxsplit=1)[0]] += 1

    await engine.database.write(listen(note))
    await engine.database.read(listen(note))
    await work()
    await engine.database.write(listen(None))
    await engine.database.read(listen(None))
    return counts


async def test_number_of_queries_does_not_grow_with_the_conversation(open_engine: OpenEngine) -> None:
    """The 20th turn executes as many queries as the second: its history is one query."""
    engine = await open_engine(lambda _request: "An answer.")
    first = await engine.controller.execute("First?")

    async def turn() -> None:
        await engine.controller.execute("Next?", conversation_id=first.conversation_id)

    early = await statements(engine, turn)
    for _ in range(17):
        await turn()
    late = await statements(engine, turn)
    assert early["SELECT"] > 5
    assert late["SELECT"] + late["WITH"] <= early["SELECT"] + early["WITH"] + 2, (early, late)


async def test_list_of_conversations_reads_no_text(open_engine: OpenEngine) -> None:
    """Listing 50 conversations with messages of 100 KB is one statement that reads neither questions nor answers."""
    engine = await open_engine([])
    for _ in range(50):
        place = await engine.conversations.start_conversation("A title")
        await engine.conversations.add(place, "long question " * 7_000, "long answer " * 8_000)
    columns: set[tuple[str | None, str | None]] = set()

    def watch(action: int, table: str | None, column: str | None, *_where: str | None) -> int:
        if action == sqlite3.SQLITE_READ:
            columns.add((table, column))
        return sqlite3.SQLITE_OK

    conversations: list[Any] = []

    async def listing() -> None:
        conversations.extend(await engine.conversations.list_conversations())

    await engine.database.read(lambda db: db.set_authorizer(watch))
    executed = await statements(engine, listing)
    await engine.database.read(lambda db: db.set_authorizer(None))
    assert len(conversations) == 50
    assert all(conversation.n_messages == 1 for conversation in conversations)
    assert ("messages", "message_id") in columns
    assert not {("messages", "content"), ("messages", "response")} & columns
    assert executed["SELECT"] + executed["WITH"] == 1, executed


async def test_each_chunk_of_an_endpoint_reaches_the_listener(tmp_path: Path) -> None:
    """5,000 chunks of an endpoint are 5,000 events of a run, and the answer is their text."""
    with ChatProcess({"long": [Answer("sixteen letters " * 5_000)]}) as url:
        async with Engine(Settings.load(data_dir=tmp_path / "data", base_url=url, api_key="k", model="long")) as engine:
            events = [event async for event in engine.controller.stream_execute("question")]
    assert sum(event.type is StreamEventType.LLM_CHUNK for event in events) == 5_000
    assert events[-1].data["response"].strip() == ("sixteen letters " * 5_000).strip()


async def test_prompt_does_not_depend_on_the_time_of_day(open_engine: OpenEngine) -> None:
    """Within a run, and in two runs of one day, lead and sub-agents have the same prompt, byte for byte."""
    clock = FakeClock(datetime(2026, 3, 4, 1, tzinfo=UTC), step_ms=61_000)
    engine = await open_engine(one_job, clock=clock)
    for question in ("One?", "Two?"):
        assert (await engine.controller.execute(question)).status == "completed"
    assert 2 < clock.now().hour < 23
    prompts = [request.messages[0].content for request in engine.model.requests]  # type: ignore[attr-defined]
    lead, job, later, *again = prompts
    assert again == [lead, job, later]
    assert lead.split("<current_context>")[0] == later.split("<current_context>")[0]
