"""`OpenAIModel` and the engine against a real language model, as a scripted endpoint can only imitate one."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from realserver.proxy import Extend, extending_proxy
from realserver.server import CALL_MARK, CONTEXT_TOKENS, END_MARK, MODEL, RealServer, skip_reason

from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.core.messages import Message, ToolSpec
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.errors import ModelRejected
from artifactflow_nb.models.base import ModelDelta, ModelEvent, ModelReply, ModelRequest
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.tools.base import ToolContext, tool

if skip_reason() and os.environ.get("AF_REALSERVER") != "required":
    pytest.skip(skip_reason(), allow_module_level=True)

QUESTION = "What is the capital of France? Answer with one word."
STORY = "Write a very long story about a lighthouse keeper, with at least thirty chapters."
PROMPT = "You are the lead agent. You answer questions with the tools that you have."
SOON_S = 5.0
"""A short answer takes a tenth of this; a text without a limit takes several times as long."""

FIGURES = {"Paris": "4711", "Berlin": "5822", "Rome": "6933"}
CALL_GRAMMAR = """
root ::= "<tool_call><name>population</name><params><city><![CDATA[" city "]]></city></params></tool_call>"
city ::= "Paris" | "Berlin" | "Rome"
"""
ANSWER_GRAMMAR = """
root ::= "The number of inhabitants is " [0-9] [0-9] [0-9] [0-9] "."
"""


@pytest.fixture
def extended(server: RealServer) -> Iterator[Callable[[Extend], str]]:
    """Base URLs at which further fields are added to each request."""
    with ExitStack() as proxies:
        yield lambda extend: proxies.enter_context(extending_proxy(server.address, extend))


@pytest.fixture
async def open_on(tmp_path: Path) -> AsyncIterator[Any]:
    """Opens an engine on an endpoint, as settings name it; its lead has a short prompt, because one thread reads it."""
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "lead_agent.md").write_text(PROMPT, encoding="utf-8")
    config = {"lead_agent": {"tools": []}}
    async with AsyncExitStack() as engines:

        async def open_engine(base_url: str, **more: Any) -> Engine:
            own = {"base_url": base_url, "data_dir": tmp_path / "data", "graph_config": config, **more}
            settings = Settings.load(model=MODEL, temperature=0, **own)
            return await engines.enter_async_context(Engine(settings, prompts=tmp_path / "prompts"))

        yield open_engine


def ask(content: str) -> ModelRequest:
    return ModelRequest((Message("user", content),), temperature=0)


async def take(model: OpenAIModel, content: str) -> list[ModelEvent]:
    return [event async for event in model.stream(ask(content))]


def deltas(events: list[ModelEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, ModelDelta)]


def reply(events: list[ModelEvent]) -> ModelReply:
    last = events[-1]
    assert isinstance(last, ModelReply)
    return last


async def test_streamed_pieces_make_up_the_reply(model: OpenAIModel) -> None:
    """The reply joins several deltas, and has the model, the finish reason and the time of the first delta."""
    events = await take(model, QUESTION)
    last = reply(events)
    assert len(deltas(events)) > 3
    assert "".join(deltas(events)) == last.content
    assert "Paris" in last.content
    assert (last.finish_reason, last.model, last.attempts) == ("stop", MODEL, 1)
    assert last.ttft_ms


async def test_token_counts_are_those_of_the_endpoint(model: OpenAIModel, server: RealServer) -> None:
    """The number of input tokens equals the count of the server's tokenizer; a repeated prompt is cached."""
    first, second = [reply(await take(model, QUESTION)).usage for _ in range(2)]
    assert not first.estimated
    assert first.input_tokens == second.input_tokens == server.count_tokens(QUESTION)
    assert first.output_tokens == second.output_tokens > 3
    assert second.cache_read_tokens == second.input_tokens - 1


async def test_truncated_answer_has_finish_reason_length(extended: Callable[[Extend], str]) -> None:
    """At the limit of tokens the finish reason is `length`, and as many tokens are counted."""
    model = OpenAIModel(extended(lambda _: {"max_tokens": 4}), None, MODEL)
    last = reply(await take(model, STORY))
    await model.aclose()
    assert (last.finish_reason, last.usage.output_tokens) == ("length", 4)


async def test_closing_the_iteration_frees_the_server(model: OpenAIModel) -> None:
    """A request that waits for the only slot is answered soon after the long turn before it was closed."""
    story = model.stream(ask(STORY))
    assert isinstance(story, AsyncGenerator)
    while not isinstance(await anext(story), ModelDelta):  # before it, the request may not have been sent
        pass
    waiting = asyncio.create_task(take(model, QUESTION))
    answered, _ = await asyncio.wait({waiting}, timeout=1.0)
    assert not answered
    await story.aclose()
    assert "Paris" in reply(await asyncio.wait_for(waiting, SOON_S)).content


async def test_prompt_beyond_the_context_is_refused_without_retry(
    server: RealServer, extended: Callable[[Extend], str]
) -> None:
    """The error repeats the endpoint's words with both sizes, and the request is not tried again."""
    too_long = "word " * CONTEXT_TOKENS
    sent: list[Mapping[str, Any]] = []

    def note(body: Mapping[str, Any]) -> Mapping[str, Any]:
        sent.append(body)
        return {}

    model = OpenAIModel(extended(note), None, MODEL)
    with pytest.raises(ModelRejected) as refused:
        await take(model, too_long)
    await model.aclose()
    error_text = str(refused.value)
    assert (
        f"({server.count_tokens(too_long)} tokens) exceeds the available context size ({CONTEXT_TOKENS}" in error_text
    )
    assert "status 400" in error_text
    assert len(sent) == 1


async def test_run_calls_a_tool_and_answers_with_its_result(
    extended: Callable[[Extend], str], open_on: Callable[[str], Any]
) -> None:
    """The model writes a call, the engine runs the tool, and the model's answer contains the tool's result."""

    def extend(body: Mapping[str, Any]) -> Mapping[str, Any]:
        called = any(message["role"] == "assistant" for message in body["messages"])
        return {"grammar": ANSWER_GRAMMAR if called else CALL_GRAMMAR}

    cities: list[str] = []

    @tool()
    async def population(_ctx: ToolContext, city: Annotated[str, "The city's name."]) -> str:
        """Look up how many people live in a city."""
        cities.append(city)
        return f"The number of inhabitants is {FIGURES[city]}."

    engine = await open_on(extended(extend))
    engine.register_tool(population)
    events = [event async for event in engine.controller.stream_execute("How many people live in Paris?")]
    outcome = await engine.controller.result(events[0].run_id)
    assert outcome.status == "completed"
    assert len(cities) == 1
    assert outcome.response == f"The number of inhabitants is {FIGURES[cities[0]]}."
    results = [event.data["success"] for event in events if event.type is StreamEventType.TOOL_COMPLETE]
    assert results == [True]
    turns = [event.data for event in events if event.type is StreamEventType.LLM_COMPLETE]
    assert [turn["finish_reason"] for turn in turns] == ["stop", "stop"]
    assert not any(turn["token_usage"]["estimated"] for turn in turns)


async def test_run_calls_a_tool_natively_and_answers_with_its_result(
    server: RealServer, extended: Callable[[Extend], str], open_on: Callable[..., Any]
) -> None:
    """The endpoint gets the tool, streams the call in separate fields, and answers from the result."""
    (mark, end) = server.tokens(CALL_MARK + END_MARK)
    sent: list[Mapping[str, Any]] = []

    def extend(body: Mapping[str, Any]) -> Mapping[str, Any]:
        sent.append(body)
        tools = [entry for entry in body["tools"] if entry["function"]["name"] == "population"]
        if body["messages"][-1]["role"] == "tool":
            return {"tools": tools, "tool_choice": "none", "grammar": ANSWER_GRAMMAR}
        # `required` has the server's grammar allow no end before a call; of what it allows, the bias picks these two.
        return {"tools": tools, "tool_choice": "required", "logit_bias": [[mark, 100], [end, 200]], "max_tokens": 100}

    cities: list[str] = []

    @tool()
    async def population(_ctx: ToolContext, city: Annotated[Literal["Paris", "Berlin", "Rome"], "The city."]) -> str:
        """Look up how many people live in a city."""
        cities.append(city)
        return f"The number of inhabitants is {FIGURES[city]}."

    engine = await open_on(extended(extend), tool_protocol="native")
    engine.register_tool(population)
    events = [event async for event in engine.controller.stream_execute("How many people live in Paris?")]
    outcome = await engine.controller.result(events[0].run_id)
    assert outcome.status == "completed", events[-1]
    assert len(cities) == 1
    assert outcome.response == f"The number of inhabitants is {FIGURES[cities[0]]}."
    turns = [event.data for event in events if event.type is StreamEventType.LLM_COMPLETE]
    assert [turn["finish_reason"] for turn in turns] == ["tool_calls", "stop"]
    assert not any(turn["token_usage"]["estimated"] for turn in turns)
    call, result = sent[1]["messages"][-2:]
    assert json.loads(call["tool_calls"][0]["function"]["arguments"]) == {"city": cities[0]}
    assert (result["tool_call_id"], result["content"]) == (call["tool_calls"][0]["id"], outcome.response)


async def test_model_is_informed_of_a_truncated_call(server: RealServer, extended: Callable[[Extend], str]) -> None:
    """A call cut within its arguments keeps its name, has no half of a value, and says that it was too long."""
    (mark,) = server.tokens(CALL_MARK)  # within a text nothing forbids it either: the argument never ends
    limits = {"tool_choice": "required", "logit_bias": [[mark, 100]], "max_tokens": 60}
    model = OpenAIModel(extended(lambda _: limits), None, MODEL)
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    tools = (ToolSpec("write", "Write a text.", schema),)
    request = ModelRequest((Message("user", STORY),), tools, tool_protocol="native", temperature=0)
    last = reply([event async for event in model.stream(request)])
    await model.aclose()
    (cut,) = last.calls
    assert (last.finish_reason, last.content) == ("length", "")
    assert (cut.name, cut.params) == ("write", {})
    assert "limit of tokens" in (cut.error or "")
    assert last.ttft_ms


async def test_cancelling_a_run_frees_the_server(
    model: OpenAIModel, extended: Callable[[Extend], str], open_on: Callable[[str], Any]
) -> None:
    """A run cancelled while its answer streams keeps the text, and the server answers the next request soon."""
    engine = await open_on(extended(lambda _: {"ignore_eos": True}))
    run = await engine.controller.begin("Tell me a story.")
    arrived = asyncio.Event()

    def listen(event: StreamEvent) -> None:
        if event.type is StreamEventType.LLM_CHUNK:
            arrived.set()

    await engine.controller.subscribe(run.run_id, listen)
    await engine.controller.start(run)
    await asyncio.wait_for(arrived.wait(), 60)
    await engine.controller.cancel(run.run_id)
    assert "Paris" in reply(await asyncio.wait_for(take(model, QUESTION), SOON_S)).content
    events = await engine.runs.events(run.run_id)
    assert events[-1].type is StreamEventType.CANCELLED
    assert events[-1].data["partial"]
