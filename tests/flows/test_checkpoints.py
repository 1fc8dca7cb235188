"""Content and size of checkpoints, read from their file while runs wait."""

import gc
import json
import os
import re
import subprocess
import sys
import weakref
from collections import deque
from contextlib import closing
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from ipaddress import IPv4Address
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, NotRequired, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import ormsgpack
import pytest
from conftest import OpenEngine
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.serde.jsonplus import EXT_CONSTRUCTOR_SINGLE_ARG, JsonPlusSerializer
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Interrupt, Send, interrupt
from pydantic import BaseModel
from support.replies import call, delegate, report

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.messages import ToolCall
from artifactflow_nb.engine.engine import CHECKPOINT_FILE, Engine
from artifactflow_nb.engine.serializer import CheckedSerializer
from artifactflow_nb.errors import StoreError
from artifactflow_nb.flows.loop import DeferredSaver
from artifactflow_nb.flows.state import state_classes
from artifactflow_nb.plugins.graphs.adapt import AdaptedGraph, adapt
from artifactflow_nb.store.database import connect
from artifactflow_nb.tools.base import ToolContext, tool

MEBI = 2**20
INCREMENTAL = 2
"""How SQLite calls it that a file can be made smaller step by step."""

ODD = {"role": "assistant", "content": "half \ud83d pair", "type": "ai", "id": ["langchain", "schema"], "lc": 2}
"""What libraries of this kind make an object of their own from, or cannot write."""

OWN_METADATA = {"source", "step", "parents", "run_id", "thread_id", "checkpoint_ns", "counters_since_delta_snapshot"}

FROM_LANGGRAPH = {"Send", "Interrupt"}
"""Internal values that LangGraph writes in addition to a graph's state."""


def stored_values(engine: Engine) -> list[tuple[str, bytes]]:
    """Every value in the file with the name of its encoding: whole checkpoints and single writes."""
    with closing(connect(engine.folder / CHECKPOINT_FILE)) as db:
        sql = "SELECT type, checkpoint FROM checkpoints UNION ALL SELECT type, value FROM writes"
        return [(row[0], row[1]) for row in db.execute(sql)]


def metadata(engine: Engine) -> list[dict[str, Any]]:
    with closing(connect(engine.folder / CHECKPOINT_FILE)) as db:
        return [json.loads(row[0]) for row in db.execute("SELECT metadata FROM checkpoints")]


def objects_in(packed: bytes) -> set[str]:
    """The names of all classes in MessagePack extensions, at any depth."""
    found: set[str] = set()

    def extension(_code: int, data: bytes) -> Any:
        inner = ormsgpack.unpackb(data, ext_hook=extension)
        found.add(inner[1] if isinstance(inner, list) and len(inner) > 1 else repr(inner))
        return inner

    ormsgpack.unpackb(packed, ext_hook=extension)
    return found


@tool(permission="confirm")
async def weigh(ctx: ToolContext, thing: dict[str, Any], weight: int) -> str:
    """Weigh a thing."""
    del ctx
    return f"{thing['content']}: {weight}"


async def waiting_with_two_jobs(open_engine: OpenEngine) -> tuple[Engine, Any]:
    """A run with two jobs, each of which waits at a call with odd parameters."""

    def turn(request: Any) -> str | ToolCall:
        system, *rest = request.messages
        if "lead agent" in system.content:
            jobs = delegate("search_agent", "one \ud83d") + delegate("search_agent", "two")
            return jobs if len(rest) == 1 else "Both are weighed."
        if len(rest) > 1:
            return "weighed"
        return ToolCall("weigh", {"thing": ODD, "weight": 2**70})

    engine = await open_engine(turn, settings={"tool_protocol": "native"})
    engine.register_tool(weigh, agent="search_agent")
    return engine, await engine.controller.execute("Weigh.")


async def test_checkpoints_of_a_waiting_run_are_plain_json(open_engine: OpenEngine) -> None:
    """With two waiting jobs no checkpoint or write contains an object of a class, a message or an event."""
    engine, waiting = await waiting_with_two_jobs(open_engine)
    assert (waiting.status, len(waiting.pending)) == ("waiting", 2)
    values = stored_values(engine)
    assert {kind for kind, _ in values} <= {"msgpack", "null", "empty"}
    packed = [data for kind, data in values if kind == "msgpack"]
    assert len(packed) > 5
    assert set().union(*map(objects_in, packed)) <= FROM_LANGGRAPH
    everything = b"".join(packed)
    assert b"permission_request" not in everything
    assert b"langchain" not in everything


async def test_odd_values_survive_a_waiting_run(open_engine: OpenEngine) -> None:
    """A dict that looks like a message and a 70-bit integer reach the tool unchanged, a lone surrogate as `?`."""
    engine, waiting = await waiting_with_two_jobs(open_engine)
    decisions = {request.id: Decision(approved=True) for request in waiting.pending}
    result = await engine.controller.resume(waiting.thread_id, decisions=decisions)
    assert (result.status, result.response) == ("completed", "Both are weighed.")
    with closing(connect(engine.database.path)) as db:
        sql = "SELECT result FROM tool_calls WHERE tool_name = 'weigh'"
        assert {row[0] for row in db.execute(sql)} == {f"half ? pair: {2**70}"}


async def test_unknown_class_in_a_checkpoint_is_not_constructed(open_engine: OpenEngine) -> None:
    """The constructor of a class that the serializer does not know is not called."""
    engine = await open_engine([])
    third = ormsgpack.packb(("fractions", "Fraction", "1/3"))
    foreign = ormsgpack.packb(ormsgpack.Ext(EXT_CONSTRUCTOR_SINGLE_ARG, third))
    for saver in (engine.checkpoints.saver, DeferredSaver(engine.checkpoints.saver, has_checkpoint=True)):
        with pytest.raises(StoreError, match="an object of the class fractions.Fraction"):
            saver.serde.loads_typed(("msgpack", foreign))
    assert JsonPlusSerializer(allowed_msgpack_modules=True).loads_typed(("msgpack", foreign)) == Fraction(1, 3)


@pytest.mark.parametrize(
    "value",
    [
        date(2026, 11, 23),
        timedelta(seconds=1),
        UUID(int=1),
        Decimal("1.10"),
        {1, 2},
        deque([1]),
        IPv4Address("127.0.0.1"),
        Path("a/b"),
        re.compile("a+", re.IGNORECASE),
        ZoneInfo("UTC"),
        AIMessage("It is.", id="1"),
        ToolMessage("3", tool_call_id="c"),
        Send("node", {"a": 1}),
        Interrupt("Go?", id="1"),
        Command(resume=1, goto=[]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_common_classes_need_no_annotation(value: Any) -> None:
    """Values of the standard library, messages and LangGraph's own values are restored unchanged."""
    serializer = CheckedSerializer()
    assert serializer.loads_typed(serializer.dumps_typed(value)) == value


class Level(Enum):
    LOW = "low"


class Detail(BaseModel):
    level: Literal["low"] = "low"


@dataclass
class Entry:
    number: "EntryNumber"
    child: "Entry | None"
    details: list[Detail]


EntryNumber = NewType("EntryNumber", Decimal)


class Inner(TypedDict):
    level: Annotated[Level | None, "a remark"]


class Outer(TypedDict):
    entries: Annotated[dict[str, Entry], lambda old, _new: old]
    plain: NotRequired[int]


def test_annotated_classes_are_found_in_any_graph() -> None:
    """Classes in unions, containers, aliases, fields and subgraphs are found; values without fields are not listed."""
    inner = StateGraph(Inner).add_node("a", lambda _state: {}).add_edge(START, "a").compile()
    graph = StateGraph(Outer).add_node("inner", inner).add_edge(START, "inner").compile()
    assert state_classes(graph) == {Entry, Detail, Level}


@pytest.mark.parametrize(
    "first", ["engine.engine", "engine.checkpoints", "flows.loop", "flows.research.spec", "notebook.workbench"]
)
def test_strict_mode_is_on_in_any_import_order(first: str) -> None:
    """Every entry point switches the strict mode on before LangGraph is imported."""
    code = (
        f"import artifactflow_nb.{first}\n"
        "from uuid import SafeUUID\n"
        "from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer\n"
        "packed = JsonPlusSerializer().dumps_typed(SafeUUID.safe)\n"
        "print(JsonPlusSerializer().loads_typed(packed))"
    )
    environment = {key: value for key, value in os.environ.items() if key != "LANGGRAPH_STRICT_MSGPACK"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.strip() == "0", done.stderr  # the value of the enum, not the object


async def sizes(engine: Engine) -> list[int]:
    """The bytes of each checkpoint with its metadata and writes, in the order of writing."""
    sql = (
        "SELECT length(c.checkpoint) + length(c.metadata) + (SELECT coalesce(sum(length(w.value)), 0) FROM writes w "
        "WHERE w.thread_id = c.thread_id AND w.checkpoint_ns = c.checkpoint_ns AND w.checkpoint_id = c.checkpoint_id) "
        "FROM checkpoints c ORDER BY c.rowid"
    )
    with closing(connect(engine.folder / CHECKPOINT_FILE)) as db:
        return [row[0] for row in db.execute(sql)]


async def test_checkpoints_do_not_grow_with_the_conversation(open_engine: OpenEngine) -> None:
    """Checkpoints of the 20th turn are as small as checkpoints of the first turn, and finished turns leave none."""
    long = "What was found is told at length. " * 300
    engine = await open_engine(
        lambda request: report(long) if "?" in request.messages[-1].content else long,
        approvals={"create_artifact": "ask"},
    )
    place, totals = None, []
    for turn in range(20):
        waiting = await engine.controller.execute(f"Question {turn:02d}?", conversation_id=place)
        assert waiting.status == "waiting"
        totals.append(sum(await sizes(engine)))
        result = await engine.controller.resume(waiting.thread_id, approved=turn == 0)
        assert result.status == "completed"
        assert await sizes(engine) == []
        place = waiting.conversation_id
    assert len(engine.model.requests[-1].messages) > 20  # type: ignore[attr-defined] - the history was there
    assert max(totals) <= min(totals) * 1.05, totals


async def test_checkpoint_does_not_grow_with_the_rounds(open_engine: OpenEngine) -> None:
    """The checkpoint of the last round is not larger than the checkpoint of the first, whatever tools returned."""
    turns = [*(report("A long text. " * 400, f"a{n}") for n in range(4)), call("rewrite_artifact", id="b", content="x")]
    engine = await open_engine(turns)
    waiting = await engine.controller.execute("Write.")
    assert waiting.status == "waiting"
    found = await sizes(engine)
    rounds = [sum(found[n : n + 2]) for n in range(2, 10, 2)]
    assert all(later <= earlier * 1.05 + 32 for earlier, later in pairwise(rounds)), found


async def test_checkpoint_metadata_has_only_langgraph_keys(open_engine: OpenEngine) -> None:
    """Checkpoints are found by their thread alone, so no key of the user is needed."""
    engine, waiting = await waiting_with_two_jobs(open_engine)
    assert waiting.status == "waiting"
    assert {key for entry in metadata(engine) for key in entry} <= OWN_METADATA


class Counted(TypedDict, total=False):
    count: int
    ballast: Any
    messages: list[Any]


class Ballast:
    """A value that cannot be serialized."""


def counting_graph(rounds: int, ballast: Any = None, *, asks: bool = True) -> Any:
    """A graph that runs for this many rounds with large or odd values in its state and then interrupts."""

    def count(state: Counted) -> dict[str, Any]:
        return {"count": state.get("count", 0) + 1, "ballast": ballast() if ballast else None}

    def end(state: Counted) -> dict[str, Any]:
        return {"messages": [("ai", f"{interrupt('End?') if asks else 'Ended'} {state['count']}")]}

    graph = StateGraph(Counted).add_node("count", count).add_node("end", end).add_edge(START, "count")
    return graph.add_conditional_edges("count", lambda state: "end" if state["count"] >= rounds else "count").compile()


def counting_flow(graph: Any) -> AdaptedGraph:
    return adapt(graph, input=lambda _question, _history: {"count": 0}, answer=lambda state: state["messages"][-1][1])


async def test_thread_has_one_checkpoint(open_engine: OpenEngine) -> None:
    """After any number of rounds the file contains one checkpoint per thread and each value once."""
    engine = await open_engine()
    alive = weakref.WeakSet[Ballast]()

    def ballast() -> Ballast:
        value = Ballast()
        alive.add(value)
        return value

    engine.flows.register("mine", counting_flow(counting_graph(12, ballast)))
    waiting = await engine.controller.execute("Count.", flow="mine")
    assert len(await sizes(engine)) == 1
    gc.collect()
    assert len(alive) == 1
    done = await engine.controller.resume(waiting.thread_id, approved=True)
    assert (done.response, await sizes(engine)) == ("True 12", [])


def in_file(engine: Engine) -> int:
    """Bytes of the file and of its write-ahead log."""
    return sum(path.stat().st_size for path in engine.folder.glob(f"{CHECKPOINT_FILE}*"))


async def test_file_shrinks_after_a_large_run(open_engine: OpenEngine) -> None:
    """After a run with a state of many megabytes the file and its log are small."""
    engine = await open_engine()
    engine.flows.register("mine", counting_flow(counting_graph(6, lambda: "x" * 20 * MEBI)))
    waiting = await engine.controller.execute("Count.", flow="mine")
    assert in_file(engine) > 20 * MEBI
    await engine.controller.resume(waiting.thread_id, approved=True)
    assert in_file(engine) < 10 * MEBI


async def test_incremental_channel_is_restored_completely(open_engine: OpenEngine) -> None:
    """A channel that stores only its additions is complete after a wait, also in another process."""

    class Grown(TypedDict):
        words: Annotated[
            list[str], DeltaChannel(lambda words, more: [*words, *(entry for part in more for entry in part)])
        ]

    def grow(state: Grown) -> dict[str, Any]:
        return {"words": [str(len(state["words"]))]}

    def end(_state: Grown) -> dict[str, Any]:
        interrupt("End?")
        return {}

    def growing() -> AdaptedGraph:
        graph = StateGraph(Grown).add_node("grow", grow).add_node("end", end).add_edge(START, "grow")
        repeated = graph.add_conditional_edges("grow", lambda state: "end" if len(state["words"]) > 5 else "grow")
        return adapt(
            repeated.compile(),
            input=lambda _question, _history: {"words": ["a"]},
            answer=lambda state: str(state["words"]),
        )

    engine = await open_engine()
    engine.flows.register("mine", growing())
    waiting = await engine.controller.execute("Grow.", flow="mine")
    assert waiting.status == "waiting", waiting.error_message
    await engine.aclose()
    other = await open_engine()
    other.flows.register("mine", growing())
    done = await other.controller.resume(waiting.thread_id, approved=True)
    assert done.response == "['a', '1', '2', '3', '4', '5']"
