"""Times and usage of adapted graphs are those of the calls, however late their events are handled."""

import asyncio
import operator
import threading
import time
from typing import Annotated, Any, TypedDict

import pytest
from conftest import OpenWorkbench
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, StateGraph
from support.chat_endpoint import Answer, ChatServer, calling
from support.graphs import ScriptedChat, ai_message

import artifactflow_nb as af

CALL_S, WAIT_S = 0.3, 10


class Slow(ScriptedChat):
    """A chat model that waits, and then sends its whole reply at once."""

    def _stream(self, *args: Any, **options: Any) -> Any:
        time.sleep(CALL_S)
        yield from super()._stream(*args, **options)


class Words(TypedDict, total=False):
    words: Annotated[list[str], operator.add]


@tool
def wait() -> str:
    """Wait."""
    time.sleep(CALL_S)
    return "waited"


def test_calls_are_timed_while_the_loop_is_busy(workbench: OpenWorkbench) -> None:
    """A node blocks the event loop, and the model and the tool in the thread of another node have their own times."""
    model = Slow(script=[ai_message("One two.")])
    is_started, is_blocked, is_done = (threading.Event() for _ in range(3))

    def call(_state: Words) -> Words:
        is_started.set()
        is_blocked.wait(WAIT_S)
        words = [str(model.invoke("Go.").content), str(wait.invoke({}))]
        is_done.set()
        return {"words": words}

    async def block(_state: Words) -> Words:
        while not is_started.is_set():  # noqa: ASYNC110 - the other node is in a thread
            await asyncio.sleep(0.01)
        is_blocked.set()
        is_done.wait(WAIT_S)  # blocks the loop on purpose
        return {"words": ["blocked"]}

    graph = StateGraph(Words).add_node("call", call).add_node("block", block)
    graph = graph.add_edge(START, "call").add_edge(START, "block").compile()
    wb = workbench(interactive=False)
    run = wb.ask("Go.", flow=af.adapt(graph, input=lambda _question, _history: {"words": []})).wait()
    [row] = wb.llm_calls_df(run).to_dict("records")
    [duration] = [event.data["duration_ms"] for event in run.events if event.type.value == "tool_complete"]
    expected = pytest.approx(CALL_S * 1000, abs=250)
    assert (row["llm_duration_ms"], row["ttft_ms"], duration) == (expected, expected, expected)
    assert (row["completed_at"] - row["started_at"]).total_seconds() * 1000 == expected


def agent(base_url: str, **options: Any) -> Any:
    model = ChatOpenAI(base_url=base_url, api_key="k", model="loopback-1", **options)
    return af.adapt(create_agent(model, [wait], name="clerk"), name="mine")


def test_usage_is_requested_from_the_endpoint(workbench: OpenWorkbench) -> None:
    """A `ChatOpenAI` with a custom address gets the usage, which would be estimated otherwise."""
    with ChatServer([calling(("wait", {}), input_tokens=17), Answer("One two three.", input_tokens=23)]) as server:
        wb = workbench(interactive=False)
        run = wb.ask("Go.", flow=agent(server.base_url)).wait()
        assert run.response == "One two three."
        assert [request.body["stream_options"] for request in server.requests] == [{"include_usage": True}] * 2
    calls = wb.llm_calls_df(run).sort_values("started_at")
    assert calls.input_tokens.tolist() == [17, 23]
    assert not calls.tokens_estimated.any()


def test_stream_usage_set_by_the_user_is_kept(workbench: OpenWorkbench) -> None:
    """The user may have an endpoint that rejects the option."""
    with ChatServer([Answer("One.")]) as server:
        wb = workbench(interactive=False)
        run = wb.ask("Go.", flow=agent(server.base_url, stream_usage=False)).wait()
        assert "stream_options" not in server.requests[0].body
    assert wb.llm_calls_df(run).tokens_estimated.tolist() == [True]
