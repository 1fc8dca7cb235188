"""What runs must not cost: bytes, loads and compilations that grow where nothing new is said."""

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
from support.cpu_time import Try
from support.replies import delegate, report

from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.core.messages import Message
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.flows.loop import job_loop
from artifactflow_nb.flows.research.graph import research_loop
from artifactflow_nb.models.base import ModelDelta, ModelRequest
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.testing import FakeClock

LONG = "abcd " * 5_000
"""An answer of 25 KB, which a model gives in 5,000 pieces."""


async def test_the_events_of_a_long_answer_are_no_larger_than_it(open_engine: OpenEngine) -> None:
    """An answer of 25 KB in 5,000 chunks is less than 1 MB of events, and less than 4 times its text in the store."""
    engine = await open_engine(model=ScriptedModel([LONG], chunk_chars=5))
    told = [event async for event in engine.controller.stream_execute("Tell at length.")]
    chunks = [event for event in told if event.type is StreamEventType.LLM_CHUNK]
    assert len(chunks) == 5_000
    assert chunks[-1].content == LONG
    assert sum(len(json.dumps(dict(event.data))) for event in told) < 1_000_000
    stored = await engine.runs.events(told[0].run_id)
    assert sum(len(json.dumps(dict(event.data))) for event in stored) < 4 * len(LONG)


async def test_listening_to_a_long_answer_holds_its_text_once(open_engine: OpenEngine) -> None:
    """All 5,000 chunks of an answer of 100 KB, kept by a listener, hold a few MB, and not half a GB."""
    engine = await open_engine(model=ScriptedModel(["x" * 100_000], chunk_chars=20))
    run = await engine.controller.begin("Tell at length.")
    kept: list[Any] = []
    await engine.controller.subscribe(run.run_id, kept.append)
    tracemalloc.start()
    try:
        await (await engine.controller.start(run))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(event.type is StreamEventType.LLM_CHUNK for event in kept) == 5_000
    assert peak < 20_000_000


def one_job(request: ModelRequest) -> str:
    """The script of a lead that delegates once, and of the agent that answers it."""
    system, *rest = request.messages
    if "lead agent" not in system.content:
        return "It is here."
    return "Done." if len(rest) > 1 else delegate("search_agent", "look") + report()


async def test_a_graph_is_compiled_once_in_a_process(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first run of a flow compiles its graphs; opening, later runs, resumes, jobs, other engines compile none."""
    compiled = Counter[str]()
    compile_graph = StateGraph.compile

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        compiled["graphs"] += 1
        return compile_graph(self, *args, **options)

    monkeypatch.setattr(StateGraph, "compile", counted)
    for made_before in (job_loop, research_loop):
        made_before.cache_clear()
    asking = {"approvals": {"create_artifact": "ask"}}
    engines = [await open_engine(one_job, folder=tmp_path / name, **asking) for name in "ab"]
    assert compiled["graphs"] == 0
    for number in range(6):
        controller = engines[number % 2].controller
        waiting = await controller.execute(f"Question {number}?")
        assert (await controller.resume(waiting.thread_id, approved=True)).status == "completed"
        assert compiled["graphs"] == 2, "the lead's loop, and that of the agents it delegates to"


async def test_a_run_takes_no_thread_but_those_of_its_files(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes of the loop and what leads from one to the next are called on the engine's own thread."""
    engine = await open_engine(one_job)
    await engine.controller.execute("The first question, for which the reference is indexed.")
    asked: list[Any] = []
    loop = asyncio.get_running_loop()
    in_executor = loop.run_in_executor

    def noted(pool: Any, work: Callable[..., Any], *args: Any) -> Any:
        asked.append(work)
        return in_executor(pool, work, *args)

    monkeypatch.setattr(loop, "run_in_executor", noted)
    assert (await engine.controller.execute("Another?")).status == "completed"
    assert asked == []


async def statements(engine: Engine, work: Callable[[], Any]) -> Counter[str]:
    """How many SQL statements were executed on the store while the work was done, by their first word."""
    found = Counter[str]()

    def listen(listener: Callable[[str], None] | None) -> Callable[[sqlite3.Connection], None]:
        return lambda db: db.set_trace_callback(listener)

    def note(statement: str) -> None:
        found[statement.split(maxsplit=1)[0]] += 1

    await engine.database.write(listen(note))
    await engine.database.read(listen(note))
    await work()
    await engine.database.write(listen(None))
    await engine.database.read(listen(None))
    return found


async def test_a_later_turn_asks_the_store_no_more_than_the_first(open_engine: OpenEngine) -> None:
    """The 20th turn of a conversation looks into the store as often as the second: its history is one query."""
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


async def test_a_list_of_conversations_reads_no_text(open_engine: OpenEngine) -> None:
    """Listing 50 conversations of 100 KB messages reads neither questions nor answers, and is one statement."""
    engine = await open_engine([])
    for _ in range(50):
        place = await engine.conversations.start_conversation("A title")
        await engine.conversations.add(place, "long question " * 7_000, "long answer " * 8_000)
    columns: set[tuple[str | None, str | None]] = set()

    def watch(action: int, table: str | None, column: str | None, *_where: str | None) -> int:
        if action == sqlite3.SQLITE_READ:
            columns.add((table, column))
        return sqlite3.SQLITE_OK

    found: list[Any] = []

    async def listing() -> None:
        found.extend(await engine.conversations.list_conversations())

    await engine.database.read(lambda db: db.set_authorizer(watch))
    executed = await statements(engine, listing)
    await engine.database.read(lambda db: db.set_authorizer(None))
    assert len(found) == 50
    assert all(one.n_messages == 1 for one in found)
    assert ("messages", "message_id") in columns
    assert not {("messages", "content"), ("messages", "response")} & columns
    assert executed["SELECT"] + executed["WITH"] == 1, executed


async def test_a_chunk_of_a_stream_costs_little(tmp_path: Path) -> None:
    """Reading a chunk from an endpoint takes less than 100 us of CPU, and telling it in a run less than 150 us more."""
    with ChatProcess({"long": [Answer("sixteen letters " * 5_000)], "short": [Answer("sixteen letters ")]}) as url:
        model = OpenAIModel(url, "k", "long")
        engine = Engine(Settings.load(data_dir=tmp_path / "data", base_url=url, api_key="k", model="long"))
        try:
            async with engine:
                read_us = await least_us(lambda: read(model))
                run_us = await least_us(lambda: engine.controller.execute("question"))
        finally:
            await model.aclose()
    assert read_us < 100
    assert run_us < 250


async def read(model: OpenAIModel) -> None:
    events = [event async for event in model.stream(ModelRequest((Message("user", "question"),), model="long"))]
    assert sum(isinstance(event, ModelDelta) for event in events) == 5_000


async def least_us(work: Callable[[], Any]) -> float:
    """The least CPU time of three tries, for each of 5,000 chunks."""
    tries = [Try() for _ in range(3)]
    for attempt in tries:
        with attempt:
            await work()
    return min(attempt.seconds for attempt in tries) * 1e6 / 5_000


async def test_the_time_of_day_does_not_change_a_prompt(open_engine: OpenEngine) -> None:
    """Within a run, and from one run of a day to the next, lead and sub-agents have the same prompt to the byte."""
    clock = FakeClock(datetime(2026, 3, 4, 1, tzinfo=UTC), step_ms=61_000)
    engine = await open_engine(one_job, clock=clock)
    for question in ("One?", "Two?"):
        assert (await engine.controller.execute(question)).status == "completed"
    assert 2 < clock.now().hour < 23
    prompts = [request.messages[0].content for request in engine.model.requests]  # type: ignore[attr-defined]
    lead, job, later, *again = prompts
    assert again == [lead, job, later]
    assert lead.split("<current_context>")[0] == later.split("<current_context>")[0]
