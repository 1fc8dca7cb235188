"""State of adapted graphs: any object within a process, serializable values across processes."""

import asyncio
import io
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import OpenEngine
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from support.forked_python import fast_python
from support.graph_states import Holding, Unnamed, describing, holding, holding_a_table
from support.graphs import ai_message, react_agent

import artifactflow_nb as af

TESTS = Path(__file__).parent.parent

WAITS = """
import asyncio, sys
import langgraph.graph
sys.path[:0] = [sys.argv[2]]
from pathlib import Path
import artifactflow_nb as af
import artifactflow_nb.widgets.run.transcript
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.settings import Settings
from support import graph_states as states

async def main():
    async with Engine(Settings.load(data_dir=Path(sys.argv[1]))) as engine:
        engine.flows.register("mine", af.adapt(getattr(states, sys.argv[3])()))
        waiting = await engine.controller.execute("Go.", flow="mine")
        assert waiting.status == "waiting", waiting
        if len(sys.argv) > 4:
            print((await engine.controller.resume(waiting.thread_id, approved=True)).response)

asyncio.run(main())
"""
"""Lets a graph go on until it waits; LangGraph is imported before the package, as a notebook may do it."""


def in_another_process(folder: Path, graph: str, *more: str) -> subprocess.CompletedProcess[str]:
    code = [*fast_python(), "-c", WAITS, str(folder), str(TESTS), graph, *more]
    return subprocess.run(code, check=False, capture_output=True, text=True)


@pytest.mark.parametrize(
    "value",
    [
        pd.DataFrame({"a": [1]}),
        threading.Lock(),
        (n for n in [1]),
        io.StringIO("open"),
        2**70,
        np.array([object()]),
        Unnamed("of a class that no annotation names"),
        {"deep": [{"down": object()}]},
    ],
    ids=lambda value: type(value).__name__,
)
async def test_unserializable_state_stays_in_memory(open_engine: OpenEngine, value: Any) -> None:
    """A graph gets the same object after an interrupt in the same process."""
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(holding(value)))
    waiting = await engine.controller.execute("Go.", flow="mine")
    assert waiting.status == "waiting"
    done = await engine.controller.resume(waiting.thread_id, approved=True)
    assert (done.status, done.response) == ("completed", f"{type(value).__name__} True")
    assert engine.checkpoints.saver._values == {}  # nothing is held once the run is over


async def test_missing_unserializable_state_fails_the_run(open_engine: OpenEngine, tmp_path: Path) -> None:
    """In another process the error names the key, the type and what to do; the rows stay."""
    first = await asyncio.to_thread(in_another_process, tmp_path / "data", "holding_a_table")
    assert first.returncode == 0, first.stderr
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(holding_a_table()))
    [stored] = await engine.runs.unfinished()
    done = await engine.controller.resume(stored.thread_id, approved=True)
    assert (done.status, done.error_type) == ("failed", "RunFailed")
    assert "value in its state has the type DataFrame, which cannot be serialized" in done.error_message
    assert "with a checkpointer that can store the value" in done.error_message
    sql = "SELECT content FROM llm_calls"
    assert [row[0] for row in await engine.database.read(lambda db: db.execute(sql).fetchall())] == ["Well. "]


async def test_tool_artifact_may_be_any_object(open_engine: OpenEngine) -> None:
    """The message still has the object after an interrupt."""
    things: list[Any] = []

    @tool(response_format="content_and_artifact")
    def draw(subject: str) -> tuple[str, dict[str, Any]]:
        """Draw."""
        return f"A {subject}.", {"picture": object()}

    def look(state: MessagesState) -> dict[str, Any]:
        interrupt("Look?")
        things.append(state["messages"][2].artifact["picture"])
        return {}

    agent = react_agent([ai_message("", ("draw", {"subject": "cat"})), ai_message("Drawn.")], draw)
    graph = StateGraph(MessagesState).add_node("agent", agent).add_node("look", look)
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(graph.add_edge(START, "agent").add_edge("agent", "look").compile()))
    waiting = await engine.controller.execute("A cat.", flow="mine")
    done = await engine.controller.resume(waiting.thread_id, approved=True)
    assert (done.status, done.response, type(things[0])) == ("completed", "Drawn.", object)


async def test_classes_of_the_state_are_restored(open_engine: OpenEngine, tmp_path: Path) -> None:
    """Pydantic models, dataclasses and enums come back unchanged and without warnings, in any process."""
    expected = "(<Mood.GOOD: 'good'>, [Point(x=1)], Draft(text='It'))"
    here = await asyncio.to_thread(in_another_process, tmp_path / "here", "describing", "go on")
    assert (here.stdout.strip(), here.stderr) == (expected, "")
    first = await asyncio.to_thread(in_another_process, tmp_path / "data", "describing")
    assert (first.returncode, first.stderr) == (0, "")
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(describing()))
    [stored] = await engine.runs.unfinished()
    done = await engine.controller.resume(stored.thread_id, approved=True)
    assert done.response == expected, done.error_message


async def test_class_missing_from_the_state_is_reported(open_engine: OpenEngine) -> None:
    """The run stays as it is, and the error names the class."""
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(describing()))
    waiting = await engine.controller.execute("Go.", flow="mine")
    await engine.aclose()
    other = await open_engine()
    renamed = StateGraph(Holding).add_node("begin", lambda _state: {}).add_node("show", lambda _state: {})
    other.flows.register("mine", af.adapt(renamed.add_edge(START, "begin").add_edge("begin", "show").compile()))
    stays = await other.controller.resume(waiting.thread_id, approved=True)
    assert stays.status == "abandoned"
    assert "an object of the class support.graph_states." in stays.error_message
    other.flows.register("mine", af.adapt(describing()))
    await (await other.controller.start(await other.runs.get(waiting.run_id)))
    assert (await other.controller.result(waiting.run_id)).status == "completed"
