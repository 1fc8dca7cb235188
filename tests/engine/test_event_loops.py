"""Workbenches share one event loop, so that HTTP clients which exist once in a process work in all workbenches."""

import asyncio
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenWorkbench
from langgraph.graph import START, MessagesState, StateGraph
from support.chat_endpoint import Answer, ChatServer, Request
from support.forked_python import fast_python

import artifactflow_nb as af

GRAPHS = """
import asyncio, sys
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from support.chat_endpoint import Answer, ChatServer
import artifactflow_nb as af

def answer(request):
    return Answer("Hello.", call_style="openai" if request.body.get("stream") else "plain", delay_s=0.1)

server = ChatServer(answer)
server.__enter__()

def make_graph(**options):
    model = ChatOpenAI(base_url=server.base_url, api_key="k", model="m", **options)

    async def call(state):
        return {"messages": [await model.ainvoke(state["messages"])]}

    return StateGraph(MessagesState).add_node("call", call).add_edge(START, "call").compile()

def open_workbench(folder):
    return af.Workbench(model=af.ScriptedModel([]), data_dir=folder, interactive=False)

def ask(wb, graph):
    run = wb.ask("Hello?", flow=af.adapt(graph)).wait()
    return run.error or run.response

async def await_in_cell(graph):
    return (await graph.ainvoke({"messages": [("user", "Hello?")]}))["messages"][-1].content
"""


def output_of(program: str, folder: Path) -> list[str]:
    """Run a program in a process of its own: LangChain's client exists once in a process."""
    command = [*fast_python(), "-c", GRAPHS + program]
    env = {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=120, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


def test_one_graph_works_in_several_workbenches(tmp_path: Path) -> None:
    """The graph works in two workbenches at the same time, and in a new workbench after both were closed."""
    program = """
graph = make_graph()
one, other = open_workbench("one"), open_workbench("other")
print(ask(one, graph), ask(other, graph), ask(one, graph))
runs = [wb.ask("Hello?", flow=af.adapt(graph)) for wb in (one, other) for _ in range(4)]
print({run.wait().response for run in runs})
one.close()
print(ask(other, graph))
other.close()
print(ask(open_workbench("one"), graph), len(server.requests))
"""
    assert output_of(program, tmp_path) == ["Hello. Hello. Hello.", "{'Hello.'}", "Hello.", "Hello. 13"]


def test_awaited_graph_fails_with_advice(tmp_path: Path) -> None:
    """A graph whose client has connections of the kernel's loop fails; the error says how to create the model."""
    program = """
async def cells(graph, wb):
    print(await await_in_cell(graph))
    print(await asyncio.to_thread(ask, wb, graph))

wb = open_workbench("data")
ask(wb, make_graph(default_headers={"Connection": "close"}))  # imports; an unused connection lasts for five seconds
asyncio.run(cells(make_graph(), wb))
"""
    answer, error = output_of(program, tmp_path)
    assert answer == "Hello."
    assert error.startswith("The graph failed in call: RuntimeError: ")
    assert 'create its models with default_headers={"Connection": "close"}' in error


def test_graph_without_lasting_connections_can_be_awaited_in_a_cell_too(tmp_path: Path) -> None:
    """Without lasting connections a graph answers in a cell and in a workbench, in turns and at the same time."""
    program = """
async def cells(graph, wb):
    for _ in range(2):
        print(await await_in_cell(graph), await asyncio.to_thread(ask, wb, graph))
    run = wb.ask("Hello?", flow=af.adapt(graph))
    print(set(await asyncio.gather(*(await_in_cell(graph) for _ in range(9)))), (await run).response)

graph = make_graph(default_headers={"Connection": "close"})
asyncio.run(cells(graph, open_workbench("data")))
"""
    assert output_of(program, tmp_path) == ["Hello. Hello.", "Hello. Hello.", "{'Hello.'} Hello."]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt("now"), BaseException("odd")])
def test_exit_in_a_graph_ends_its_run_only(workbench: OpenWorkbench, tmp_path: Path, error: BaseException) -> None:
    """A node that calls `sys.exit` fails the run of the graph; the loop and other workbenches continue."""

    async def leave(_state: Any) -> dict[str, Any]:
        raise error

    graph = StateGraph(MessagesState).add_node("leave", leave).add_edge(START, "leave").compile()
    wb = workbench(model=af.ScriptedModel([]))
    other = workbench(model=af.ScriptedModel(["Hello."]), data_dir=tmp_path / "other")
    run = wb.ask("Go.", flow=af.adapt(graph)).wait(30)
    assert (run.status, run.error) == ("failed", f"The graph failed in leave: {type(error).__name__}: {error}")
    assert other.ask("Hello?").wait(30).response == "Hello."


def test_closing_a_workbench_leaves_the_model_of_another(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """A model works in two workbenches at once; a turn in one workbench continues while the other is closed."""
    is_streaming = threading.Event()

    def answer(request: Request) -> Answer:
        is_slow = request.body["messages"][-1]["content"] == "Slow?"
        if is_slow:
            is_streaming.set()
        return Answer("A long answer. " * 4, delay_s=0.2) if is_slow else Answer("Hello.")

    with ChatServer(answer) as server:
        model = af.OpenAIModel(server.base_url, "k", "m")
        first, second = workbench(model=model), workbench(model=model, data_dir=tmp_path / "other")
        assert [wb.ask("Hello?").wait().response for wb in (first, second, first)] == ["Hello."] * 3
        run = second.ask("Slow?")
        assert is_streaming.wait(10)
        first.close()
        assert run.wait().response == ("A long answer. " * 4).strip()
        assert second.ask("Hello?").wait().response == "Hello."
        third = workbench(model=model, data_dir=tmp_path / "third")
        assert third.ask("Hello?").wait().response == "Hello."
        assert len(server.requests) == 6
        third.close()
        second.close()


def test_closed_workbench_leaves_no_task(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The tasks of a closed workbench are cancelled, and the tasks of another workbench continue."""

    async def wait_in_child() -> None:
        await asyncio.create_task(asyncio.sleep(3600), name="child")

    closed_wb, open_wb = workbench(), workbench(data_dir=tmp_path / "other")
    waiting, remaining = (wb._thread.submit(wait_in_child()) for wb in (closed_wb, open_wb))

    async def count_children() -> int:
        return sum(task.get_name() == "child" for task in asyncio.all_tasks())

    assert open_wb._thread.call(count_children()) == 2
    closed_wb.close()
    assert waiting.cancelled()
    assert open_wb._thread.call(count_children()) == 1
    open_wb.close()
    assert remaining.cancelled()
