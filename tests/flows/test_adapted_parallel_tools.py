"""Several tools of one tool node interrupt at once: each gets its own answer, and runs to its end once."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenWorkbench
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt

import artifactflow_nb as af
from artifactflow_nb.notebook.run import Run

Log = list[tuple[Any, ...]]


def tool_graph(tools: Sequence[BaseTool], calls: Sequence[tuple[str, str]], **options: Any) -> Any:
    """A graph that makes these calls, a name and an argument each, in one reply, and answers with the results."""

    def model(state: MessagesState) -> dict[str, Any]:
        results = [str(message.content) for message in state["messages"] if message.type == "tool"]
        if results:
            return {"messages": [AIMessage("; ".join(results))]}
        calls_of_reply = [{"name": name, "args": {"x": value}, "id": f"id-{name}-{value}"} for name, value in calls]
        return {"messages": [AIMessage("", tool_calls=calls_of_reply)]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode(tools, **options))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", lambda state: "tools" if state["messages"][-1].tool_calls else END)
    graph.add_edge("tools", "model")
    return graph


def asking_tools(log: Log, *, is_async: bool) -> list[BaseTool]:
    """`paint` asks once, `twice` asks twice, `note` asks nothing."""

    def paint(x: str) -> str:
        """Paint."""
        answer = interrupt({"title": f"Paint {x}?"})
        log.append(("paint", x, answer))
        return f"{x} {answer}"

    def twice(x: str) -> str:
        """Ask twice."""
        answers = interrupt({"title": f"First {x}?"}), interrupt({"title": f"Second {x}?"})
        log.append(("twice", x, *answers))
        return f"{x} {answers}"

    def note(x: str) -> str:
        """Note."""
        log.append(("note", x))
        return f"noted {x}"

    def tool(function: Callable[[str], str]) -> BaseTool:
        async def call(x: str) -> str:
            await asyncio.sleep(0)
            return function(x)

        name, text = function.__name__, function.__doc__
        if is_async:
            return StructuredTool.from_function(coroutine=call, name=name, description=text)
        return StructuredTool.from_function(function, name=name, description=text)

    return [tool(paint), tool(twice), tool(note)]


def decide_all(run: Run, approved: Callable[[str], bool], first: str = "") -> None:
    """Decide the requests of a run one by one; requests with `first` in the title come first."""
    while run.status == "waiting":
        request = min(run.pending, key=lambda each: first not in each.title)
        if approved(request.title):
            run.approve(request.id)
        else:
            run.deny(request_id=request.id)
        run.wait()


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("first", ["red", "blue"])
def test_each_tool_gets_the_answer_to_its_own_question(workbench: OpenWorkbench, first: str, is_async: bool) -> None:
    log: Log = []
    graph = tool_graph(asking_tools(log, is_async=is_async), [("paint", "red"), ("paint", "blue")]).compile()
    run = workbench([]).ask("Paint.", flow=af.adapt(graph, name="painter")).wait()
    assert [request.title for request in run.pending] == ["Paint red?", "Paint blue?"]
    decide_all(run, lambda title: "red" in title, first)
    assert run.response == "red True; blue False"
    assert sorted(log) == [("paint", "blue", False), ("paint", "red", True)]


@pytest.mark.parametrize("is_async", [False, True])
def test_tool_that_has_ended_does_not_run_again(workbench: OpenWorkbench, is_async: bool) -> None:
    """The node runs three times, because one tool asks twice; two tools that have ended run once."""
    log: Log = []
    calls = [("note", "a"), ("twice", "b"), ("paint", "c")]
    graph = tool_graph(asking_tools(log, is_async=is_async), calls).compile()
    run = workbench([]).ask("Go.", flow=af.adapt(graph, name="painter")).wait()
    decide_all(run, lambda title: not title.startswith("Second"))
    assert run.response == "noted a; b (True, False); c True"
    assert sorted(log) == [("note", "a"), ("paint", "c", True), ("twice", "b", True, False)]


def test_answers_survive_the_process(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Another workbench continues from the stored checkpoint, and repeats no tool that has ended."""
    log: Log = []
    graph = tool_graph(asking_tools(log, is_async=False), [("twice", "b"), ("note", "a"), ("paint", "c")])
    first = workbench([])
    run_id = first.ask("Go.", flow=af.adapt(graph.compile(), name="painter")).wait().run_id
    for request in first.pending():
        first.run(run_id).approve(request.id)
    assert [request.title for request in first.run(run_id).wait().pending] == ["Second b?"]
    first.close()
    second = workbench([])
    second.register_flow("painter", af.adapt(graph.compile(), name="painter"))
    run = second.run(run_id)
    decide_all(run, lambda _title: False)
    assert run.response == "b (True, False); noted a; c True"
    assert sorted(log) == [("note", "a"), ("paint", "c", True), ("twice", "b", True, False)]


def test_error_of_a_tool_beside_a_question_is_a_result(workbench: OpenWorkbench) -> None:
    log: Log = []

    def fails(x: str) -> str:
        """Fail."""
        log.append(("fails", x))
        raise ValueError(f"no {x}")

    tools = [*asking_tools(log, is_async=False), StructuredTool.from_function(fails)]
    graph = tool_graph(tools, [("fails", "a"), ("paint", "b")], handle_tool_errors=True).compile()
    run = workbench([]).ask("Go.", flow=af.adapt(graph, name="painter")).wait()
    decide_all(run, lambda _title: True)
    assert "no a" in (run.response or "")
    assert log == [("fails", "a"), ("paint", "b", True)]


def test_wrapper_of_the_tool_node_is_called(workbench: OpenWorkbench) -> None:
    log: Log = []
    names: list[str] = []

    async def wrapper(request: Any, execute: Any) -> Any:
        names.append(request.tool_call["name"])
        return await execute(request)

    graph = tool_graph(asking_tools(log, is_async=True), [("note", "a"), ("paint", "b")], awrap_tool_call=wrapper)
    run = workbench([]).ask("Go.", flow=af.adapt(graph.compile(), name="painter")).wait()
    decide_all(run, lambda _title: True)
    assert run.response == "noted a; b True"
    assert sorted(names) == ["note", "paint", "paint"]


async def test_graph_works_as_before_outside_of_the_workbench() -> None:
    log: Log = []
    graph = tool_graph(asking_tools(log, is_async=True), [("paint", "a"), ("note", "b")]).compile(
        checkpointer=InMemorySaver()
    )
    af.adapt(graph, name="painter")
    config: Any = {"configurable": {"thread_id": "1"}}
    waiting = await graph.ainvoke({"messages": [("user", "Go.")]}, config)
    [question] = waiting["__interrupt__"]
    done = await graph.ainvoke(Command(resume={question.id: "yes"}), config)
    assert done["messages"][-1].content == "a yes; noted b"
