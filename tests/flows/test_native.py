"""Calls beside the text of a reply: the same runs as with calls in the text."""

from typing import Any

import pytest
from conftest import OpenEngine

from artifactflow_nb.agents.base import AgentConfig
from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.events import StreamEvent
from artifactflow_nb.core.messages import Message, ToolCall, Usage
from artifactflow_nb.core.toolcalls.xml import format_call
from artifactflow_nb.errors import UsageError
from artifactflow_nb.models.base import ModelReply
from artifactflow_nb.models.offline.model import OfflineModel
from artifactflow_nb.tools.base import ToolContext, tool

NATIVE = {"tool_protocol": "native"}


def reply(text: str, *calls: ToolCall) -> ModelReply:
    return ModelReply(text, Usage(10, 5), "tool_calls" if calls else "stop", "scripted", calls=calls)


@tool
def add(ctx: ToolContext, a: int, b: int) -> str:
    """Add two numbers."""
    del ctx
    return str(a + b)


async def test_native_calls_run_and_are_written_back_as_such(open_engine: OpenEngine) -> None:
    """The next prompt has the reply with its calls, a message for each result in order, and no call as text."""
    calls = ToolCall("add", {"a": 2, "b": 3}), ToolCall("add", {"a": "x", "b": 1})
    engine = await open_engine([reply("I add.", *calls), reply("It is 5.")], settings=NATIVE)
    engine.register_tool(add)
    result = await engine.controller.execute("2 + 3?")
    assert result.response == "It is 5."
    sent = engine.model.requests[1].messages
    assert sent[-3] == Message("assistant", "I add.", calls)
    assert sent[-2] == Message("tool", "5")
    assert sent[-1].role == "tool"
    assert sent[-1].content.startswith("Error: add was not run: 'a' is 'x'")


async def test_a_call_is_heard_while_it_is_written(open_engine: OpenEngine) -> None:
    """Its pieces are chunks of their own kind, which name the tool and are no part of the answer."""
    engine = await open_engine([reply("I add.", ToolCall("add", {"a": 2, "b": 3})), reply("5")], settings=NATIVE)
    engine.register_tool(add)
    run = await engine.controller.begin("2 + 3?")
    heard: list[StreamEvent] = []
    await engine.controller.subscribe(run.run_id, heard.append)
    await (await engine.controller.start(run))
    (written,) = [event for event in heard if event.type == "llm_chunk" and event.data["kind"] == "call"]
    assert (written.tool, written.data["delta"]) == ("add", '{"a": 2, "b": 3}')
    answers = [event.data["delta"] for event in heard if event.type == "llm_chunk" and event.data["kind"] == "answer"]
    assert "".join(answers) == "I add.5"


async def test_the_endpoint_is_told_the_tools_and_the_prompt_is_not(open_engine: OpenEngine) -> None:
    """Schemas go with the request; the system message neither lists the tools nor shows how to write a call."""
    engine = await open_engine([reply("Hello.")], settings=NATIVE)
    await engine.controller.execute("Hi.")
    request = engine.model.requests[0]
    assert (request.tool_protocol, request.tool_choice) == ("native", "auto")
    assert "create_artifact" in [spec.name for spec in request.tools]
    assert "<tool_call>" not in request.messages[0].content


async def test_a_call_written_as_text_stays_text(open_engine: OpenEngine) -> None:
    """With calls beside the text, a call within the text is a quote: it does not run, and the answer holds it whole."""
    written = f"So. {format_call('add', {'a': '1', 'b': '1'})}"
    engine = await open_engine([reply(written)], settings=NATIVE)
    engine.register_tool(add)
    result = await engine.controller.execute("1 + 1?")
    assert result.response == written
    assert not result.metrics.tool_calls


async def test_a_call_that_could_not_be_read_is_told_to_the_model(open_engine: OpenEngine) -> None:
    """It is not run, and the model hears what was wrong with it."""
    broken = ToolCall("add", {}, error="The arguments of add are not JSON: {'a': 1")
    engine = await open_engine([reply("", broken), reply("Sorry.")], settings=NATIVE)
    engine.register_tool(add)
    assert (await engine.controller.execute("1 + 1?")).response == "Sorry."
    assert "not JSON" in engine.model.requests[1].messages[-1].content


async def test_the_concluding_turn_keeps_the_tools_and_forbids_calls(open_engine: OpenEngine) -> None:
    """The request keeps its schemas, so that a cached prompt stays valid, and a call that comes anyway is not run."""
    call = ToolCall("add", {"a": 1, "b": 1})
    turns = [*(reply("", call) for _ in range(5)), reply("Enough.", call)]
    engine = await open_engine(turns, settings=NATIVE)
    engine.register_tool(add)
    result = await engine.controller.execute("Go on.")
    assert result.response == "Enough."
    last = engine.model.requests[-1]
    assert last.tool_choice == "none"
    assert last.tools == engine.model.requests[0].tools
    assert len(result.metrics.tool_calls) == 5


async def test_a_model_is_asked_in_a_way_that_it_knows(open_engine: OpenEngine) -> None:
    """The offline model calls beside its text whatever is configured; an agent that insists on text is an error."""
    engine = await open_engine(model=OfflineModel(), settings={"tool_protocol": "xml"})
    assert {agent.protocol.name for agent in engine.agents.values()} == {"native"}
    with pytest.raises(UsageError, match=r"'poet' has tool_protocol 'xml', which its model \(offline\) does not know"):
        engine.register_agent(AgentConfig("poet", "Writes.", prompt="search_agent", tool_protocol="xml"))


async def test_each_agent_can_have_its_own_way(open_engine: OpenEngine) -> None:
    """One agent calls natively while the others write their calls as text."""
    turns: list[Any] = [
        format_call("call_subagent", {"agent_name": "clerk", "instruction": "Add 1 and 1."}),
        reply("", ToolCall("add", {"a": 1, "b": 1})),
        reply("It is two."),
        "Two, says the clerk.",
    ]
    engine = await open_engine(turns)
    engine.register_agent(AgentConfig("clerk", "Adds.", prompt="search_agent", tool_protocol="native"))
    engine.register_tool(add, agent="clerk")
    assert (await engine.controller.execute("1 + 1?")).response == "Two, says the clerk."
    assert [request.tool_protocol for request in engine.model.requests] == ["xml", "native", "native", "xml"]


async def test_native_calls_ask_like_any_other(open_engine: OpenEngine) -> None:
    """A call that needs a permission waits, runs with edited parameters, and the model hears of the change."""
    engine = await open_engine(
        [reply("", ToolCall("add", {"a": 1, "b": 1})), reply("Five.")], approvals={"add": "ask"}, settings=NATIVE
    )
    engine.register_tool(add)
    waiting = await engine.controller.execute("1 + 1?")
    edited = {waiting.pending[0].id: Decision(approved=True, params={"a": 2, "b": 3})}
    assert (await engine.controller.resume(waiting.thread_id, decisions=edited)).response == "Five."
    assert engine.model.requests[-1].messages[-1].content.startswith("5\nThe person changed the parameters")
