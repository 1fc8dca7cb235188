"""Tool calls of adapted graphs: each call matches the call that the model wrote, and has the right result."""

import asyncio
from typing import Annotated, Any

import pytest
from conftest import OpenEngine
from flows.test_adapted_budget import Chat, rows, run
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import RetryPolicy, Send
from support.graphs import ScriptedChat, ai_message, react_agent

from artifactflow_nb.widgets.run.transcript import RunTranscript

RESULTS = "position, success, iif(success, result, error_message)"


def look(word: str) -> str:
    """Look a word up."""
    return f"{word} found"


async def test_call_of_an_unknown_tool_is_finished_by_the_graph(open_engine: OpenEngine) -> None:
    """The graph's message is the result of the call, beside another call that ran."""
    engine = await open_engine()
    script = [ai_message("", ("nope", {"a": 1}), ("look", {"word": "a"})), ai_message("Done.")]
    result = await run(engine, react_agent(script, look))
    assert await rows(engine, RESULTS, "tool_calls") == [
        (0, 0, "Error: nope is not a valid tool, try one of [look]."),
        (1, 1, "a found"),
    ]
    transcript, events = RunTranscript("Go."), await engine.runs.events(result.run_id)
    for event in events:
        transcript.apply(event)
    assert [event.tool for event in events if event.type == "tool_complete"] == ["look", "nope"]
    second_turn = [event.seq for event in events if event.type == "agent_start"][1]
    assert max(event.seq for event in events if event.type == "tool_complete") < second_turn


async def test_results_in_a_refused_prompt_are_stored(open_engine: OpenEngine) -> None:
    """Calls with a result in the prompt of a refused model call are finished."""
    engine = await open_engine()
    result = await run(engine, react_agent([ai_message("", ("nope", {"a": 1}))], look), budget={"tokens": 20})
    assert result.error_type == "BudgetExceeded"
    assert await rows(engine, "status, success", "tool_calls") == [("finished", 0)]


@pytest.mark.parametrize("continues", [True, False])
async def test_results_without_langchain_tools_are_stored(open_engine: OpenEngine, continues: bool) -> None:
    """Calls that a node carries out itself finish with the next prompt, or with the graph."""
    model = ScriptedChat(script=[ai_message("", ("look", {"word": "a"}), ("look", {"word": "a"})), ai_message("Done.")])

    async def ask(state: Chat) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    def answer(state: Chat) -> dict[str, Any]:
        calls = state["messages"][-1].tool_calls
        status = ["success", "error"]
        messages = [ToolMessage(f"{n}.", tool_call_id=call["id"], status=status[n]) for n, call in enumerate(calls)]
        return {"messages": [*messages[::-1], *([] if continues else [("ai", "Done.")])]}

    graph = StateGraph(Chat)
    graph.add_node("ask", ask)
    graph.add_node("answer", answer)
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", lambda state: "answer" if state["messages"][-1].tool_calls else END)
    graph.add_edge("answer", "ask" if continues else END)
    engine = await open_engine()
    assert (await run(engine, graph.compile())).response == "Done."
    assert await rows(engine, RESULTS, "tool_calls") == [(0, 1, "0."), (1, 0, "1.")]


@tool
async def name_of(word: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> str:
    """Return the name of a call."""
    await asyncio.sleep(0)
    return f"{word} of {tool_call_id}"


def sending_graph() -> Any:
    """A graph that sends each call of a reply to a node of its own, the last one first."""
    model = ScriptedChat(script=[ai_message("", *[("name_of", {"word": "a"})] * 3), ai_message("Done.")])

    async def ask(state: Chat) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    async def work(call: Any) -> dict[str, Any]:
        return {"messages": [await name_of.ainvoke(call)]}

    def each(state: Chat) -> Any:
        calls = state["messages"][-1].tool_calls
        return [Send("work", {**call, "type": "tool_call"}) for call in calls[::-1]] or END

    graph = StateGraph(Chat)
    graph.add_node("ask", ask)
    graph.add_node("work", work)
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", each)
    graph.add_edge("work", "ask")
    return graph.compile()


async def test_results_are_matched_by_call_id(open_engine: OpenEngine) -> None:
    """Calls with equal arguments that run in another order have their own results."""
    engine = await open_engine()
    assert (await run(engine, sending_graph())).response == "Done."
    expected = [(n, 1, f"a of call-{n}") for n in range(3)]
    assert await rows(engine, RESULTS, "tool_calls") == expected


@pytest.mark.parametrize(("n_failures", "status"), [(1, "completed"), (3, "failed")])
async def test_retried_tool_is_one_call(open_engine: OpenEngine, n_failures: int, status: str) -> None:
    """If LangGraph repeats a node, the call ends once, with the last result."""
    model = ScriptedChat(
        script=[ai_message("", ("flaky", {"word": "a"}), ("look", {"word": "b"})), ai_message("Done.")]
    )
    tries: list[str] = []

    def flaky(word: str) -> str:
        """Fail at first."""
        tries.append(word)
        if len(tries) <= n_failures:
            raise ConnectionError(f"try {len(tries)}")
        return f"try {len(tries)}"

    async def ask(state: Chat) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    policy = RetryPolicy(max_attempts=3, initial_interval=0.01, retry_on=ConnectionError)
    graph = StateGraph(Chat)
    graph.add_node("ask", ask)
    graph.add_node("work", ToolNode([flaky, look], handle_tool_errors=False), retry_policy=policy)
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", lambda state: "work" if state["messages"][-1].tool_calls else END)
    graph.add_edge("work", "ask")
    engine = await open_engine()
    result = await run(engine, graph.compile())
    assert (result.status, len(tries)) == (status, min(3, n_failures + 1))
    [first, *_] = await rows(engine, RESULTS, "tool_calls")
    assert first == ((0, 1, "try 2") if status == "completed" else (0, 0, "ConnectionError: try 3"))
    events = [event.type for event in await engine.runs.events(result.run_id) if event.tool == "flaky"]
    assert events == ["tool_start", "tool_complete"]
