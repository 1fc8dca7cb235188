"""What checkpoints are made of, and how large they get, read back from their file while runs wait."""

import json
import os
import subprocess
import sys
from contextlib import closing
from fractions import Fraction
from itertools import pairwise
from typing import Any

import ormsgpack
import pytest
from conftest import OpenEngine
from langgraph.checkpoint.serde.jsonplus import EXT_CONSTRUCTOR_SINGLE_ARG, JsonPlusSerializer
from scripts import call, delegate, report

from artifactflow_nb.approvals import Decision
from artifactflow_nb.engine import CHECKPOINT_FILE, Engine
from artifactflow_nb.messages import ToolCall
from artifactflow_nb.saver import LaneSaver
from artifactflow_nb.store.database import connect
from artifactflow_nb.tools.base import ToolContext, tool

ODD = {"role": "assistant", "content": "half \ud83d pair", "type": "ai", "id": ["langchain", "schema"], "lc": 2}
"""What libraries of this kind make an object of their own from, or cannot write."""

OWN_METADATA = {"source", "step", "parents", "run_id", "thread_id", "checkpoint_ns", "counters_since_delta_snapshot"}

FROM_LANGGRAPH = {"Send", "Interrupt"}
"""Values of LangGraph's own that it writes beside a graph's state."""


def stored_values(engine: Engine) -> list[tuple[str, bytes]]:
    """Every value in the file with the name of its encoding: checkpoints whole, and single writes."""
    with closing(connect(engine.folder / CHECKPOINT_FILE)) as db:
        sql = "SELECT type, checkpoint FROM checkpoints UNION ALL SELECT type, value FROM writes"
        return [(row[0], row[1]) for row in db.execute(sql)]


def metadata(engine: Engine) -> list[dict[str, Any]]:
    with closing(connect(engine.folder / CHECKPOINT_FILE)) as db:
        return [json.loads(row[0]) for row in db.execute("SELECT metadata FROM checkpoints")]


def objects_in(packed: bytes) -> set[str]:
    """The names of all classes whose objects MessagePack extensions hold, however deep."""
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
    """A run of two jobs, each of which waits at a call with odd parameters."""

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
    """With two jobs at their gates, no object of a class, no message and no event is in any checkpoint or write."""
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
    """A dict that looks like a message and an integer of 70 bits reach the tool as written, half a pair as `?`."""
    engine, waiting = await waiting_with_two_jobs(open_engine)
    decisions = {request.id: Decision(approved=True) for request in waiting.pending}
    result = await engine.controller.resume(waiting.thread_id, decisions=decisions)
    assert (result.status, result.response) == ("completed", "Both are weighed.")
    with closing(connect(engine.database.path)) as db:
        sql = "SELECT result FROM tool_calls WHERE tool_name = 'weigh'"
        assert {row[0] for row in db.execute(sql)} == {f"half ? pair: {2**70}"}


async def test_strict_reading_of_checkpoints_is_on(open_engine: OpenEngine) -> None:
    """A checkpoint that names a class which nobody told the serializer about does not run its constructor."""
    engine = await open_engine([])
    third = ormsgpack.packb(("fractions", "Fraction", "1/3"))
    foreign = ormsgpack.packb(ormsgpack.Ext(EXT_CONSTRUCTOR_SINGLE_ARG, third))
    graphs = [flow.graph.checkpointer for flow in engine.controller._rooms.flows.values()]
    for saver in (engine._checkpoints.saver, *graphs):
        assert isinstance(saver, LaneSaver)
        assert not isinstance(saver.serde.loads_typed(("msgpack", foreign)), Fraction)
    assert JsonPlusSerializer(allowed_msgpack_modules=True).loads_typed(("msgpack", foreign)) == Fraction(1, 3)


@pytest.mark.parametrize("first", ["engine", "checkpoints", "flows.loop", "flows.research", "workbench"])
def test_strict_reading_is_on_whatever_is_imported_first(first: str) -> None:
    """Each way into LangGraph switches the strict mode on before LangGraph is imported."""
    code = (
        f"import artifactflow_nb.{first}\n"
        "from langgraph.checkpoint.serde._msgpack import STRICT_MSGPACK_ENABLED as strict\n"
        "print(strict)"
    )
    environment = {key: value for key, value in os.environ.items() if key != "LANGGRAPH_STRICT_MSGPACK"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.strip() == "True", done.stderr


async def sizes(engine: Engine) -> list[int]:
    """The bytes of each checkpoint in the file with its metadata and its writes, in the order written."""
    sql = (
        "SELECT length(c.checkpoint) + length(c.metadata) + (SELECT coalesce(sum(length(w.value)), 0) FROM writes w "
        "WHERE w.thread_id = c.thread_id AND w.checkpoint_ns = c.checkpoint_ns AND w.checkpoint_id = c.checkpoint_id) "
        "FROM checkpoints c ORDER BY c.rowid"
    )
    with closing(connect(engine.folder / CHECKPOINT_FILE)) as db:
        return [row[0] for row in db.execute(sql)]


async def test_checkpoints_do_not_grow_with_the_conversation(open_engine: OpenEngine) -> None:
    """The checkpoints of the 20th turn are as small as those of the first, and no turn leaves any behind."""
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


async def test_a_checkpoint_does_not_grow_with_the_rounds(open_engine: OpenEngine) -> None:
    """The checkpoint of the last round is no bigger than that of the first, whatever the tools gave back."""
    turns = [*(report("A long text. " * 400, f"a{n}") for n in range(4)), call("rewrite_artifact", id="b", content="x")]
    engine = await open_engine(turns)
    waiting = await engine.controller.execute("Write.")
    assert waiting.status == "waiting"
    found = await sizes(engine)
    rounds = [sum(found[n : n + 2]) for n in range(2, 10, 2)]
    assert all(later <= earlier * 1.05 + 32 for earlier, later in pairwise(rounds)), found


async def test_the_metadata_of_checkpoints_has_no_key_of_a_user(open_engine: OpenEngine) -> None:
    """Checkpoints are found by their thread alone: their metadata have LangGraph's own keys and no others."""
    engine, waiting = await waiting_with_two_jobs(open_engine)
    assert waiting.status == "waiting"
    assert {key for entry in metadata(engine) for key in entry} <= OWN_METADATA
