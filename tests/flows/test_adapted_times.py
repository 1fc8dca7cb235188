"""Times and usage of adapted graphs are measured at the calls, however late events are handled."""

import asyncio
import operator
import threading
import time
from typing import Annotated, Any, TypedDict

import pytest
from conftest import OpenWorkbench
from langchain.agents import create_agent
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.tools import tool
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from langgraph.graph import START, StateGraph
from support.chat_endpoint import Answer, ChatServer, calling
from support.graphs import ScriptedChat, ai_message

import artifactflow_nb as af

CALL_S, WAIT_S = 0.3, 10


class Words(TypedDict, total=False):
    words: Annotated[list[str], operator.add]


def as_words(question: str, _history: object) -> Words:
    return {"words": [question]}


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

    passed_ms = []

    def call(_state: Words) -> Words:
        is_started.set()
        is_blocked.wait(WAIT_S)
        began = time.monotonic()
        words = [str(model.invoke("Go.").content), str(wait.invoke({}))]
        passed_ms.append((time.monotonic() - began) * 1000)
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
    times = [row["llm_duration_ms"], row["ttft_ms"], (row["completed_at"] - row["started_at"]).total_seconds() * 1000]
    for time_ms in times:
        assert min(time_ms, duration) >= CALL_S * 1000 - 1
        assert time_ms + duration <= passed_ms[0] + 2, "A time includes the other call or the busy loop."


def agent(base_url: str, **options: Any) -> Any:
    model = ChatOpenAI(base_url=base_url, api_key="k", model="loopback-1", **options)
    return af.adapt(create_agent(model, [wait], name="clerk"), name="mine")


def test_usage_is_requested_from_the_endpoint(workbench: OpenWorkbench) -> None:
    """A `ChatOpenAI` with a custom address gets the usage; without a request, the usage would be estimated."""
    with ChatServer([calling(("wait", {}), input_tokens=17), Answer("One two three.", input_tokens=23)]) as server:
        wb = workbench(interactive=False)
        run = wb.ask("Go.", flow=agent(server.base_url)).wait()
        assert run.response == "One two three."
        assert [request.body["stream_options"] for request in server.requests] == [{"include_usage": True}] * 2
    calls = wb.llm_calls_df(run).sort_values("started_at")
    assert calls.input_tokens.tolist() == [17, 23]
    assert not calls.tokens_estimated.any()


async def by_astream(model: Any) -> str:
    return "".join([chunk.text async for chunk in model.astream("Count.")])


def by_stream(model: Any) -> str:
    return "".join(chunk.text for chunk in model.stream("Count."))


ASYNC_WAYS = {
    "ainvoke": lambda model: model.ainvoke("Count."),
    "astream": by_astream,
    "tools": lambda model: model.bind_tools([wait]).ainvoke("Count."),
    "chain": lambda model: (ChatPromptTemplate.from_template("{word}.") | model.with_retry()).ainvoke(
        {"word": "Count"}
    ),
    "fallback": lambda model: model.with_fallbacks([model]).ainvoke("Count."),
    "thread": lambda model: asyncio.to_thread(model.invoke, "Count."),
    "batch": lambda model: model.abatch(["Count."]),
}
SYNC_WAYS = {
    "invoke": lambda model: model.invoke("Count."),
    "stream": by_stream,
    "bound": lambda model: model.bind_tools([wait]).invoke("Count."),
}


@pytest.mark.parametrize("kind", ["openai", "azure"])
@pytest.mark.parametrize("way", [*ASYNC_WAYS, *SYNC_WAYS])
def test_usage_of_a_model_that_a_node_makes_is_real(workbench: OpenWorkbench, way: str, kind: str) -> None:
    """A node may make a model for each call, and call the model in any way that LangChain has."""
    with ChatServer([Answer("One two three.", input_tokens=100)]) as server:

        def make() -> Any:
            options = {"api_key": "k", "model": "loopback-1", "default_headers": {"Connection": "close"}}
            if kind == "openai":
                return ChatOpenAI(base_url=server.base_url, **options)
            return AzureChatOpenAI(azure_endpoint=server.base_url, api_version="1", **options)

        async def asynchronous(_state: Words) -> Words:
            await ASYNC_WAYS[way](make())
            return {"words": ["done"]}

        def synchronous(_state: Words) -> Words:
            SYNC_WAYS[way](make())
            return {"words": ["done"]}

        builder = StateGraph(Words)
        builder.add_node("count", asynchronous if way in ASYNC_WAYS else synchronous)
        builder.add_edge(START, "count")
        flow = af.adapt(builder.compile(), name="mine", answer=lambda state: state["words"][-1], input=as_words)
        wb = workbench(interactive=False)
        run = wb.ask("Go.", flow=flow).wait()
    [call] = wb.llm_calls_df(run).to_dict("records")
    assert (call["input_tokens"], call["tokens_estimated"]) == (100, False)


def test_stream_usage_set_by_the_user_is_kept(workbench: OpenWorkbench) -> None:
    """The user may have an endpoint that rejects the option."""
    with ChatServer([Answer("One.")]) as server:
        wb = workbench(interactive=False)
        run = wb.ask("Go.", flow=agent(server.base_url, stream_usage=False)).wait()
        assert "stream_options" not in server.requests[0].body
    assert wb.llm_calls_df(run).tokens_estimated.tolist() == [True]
