"""Native tool calls: runs behave as with calls in the text."""

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


async def test_native_calls_stay_native_in_the_next_prompt(open_engine: OpenEngine) -> None:
    """The next prompt has the reply with its calls and a message for each result, and no call as text."""
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
    assert sent[-1].content.endswith('Call it with {"a": "integer", "b": "integer"}')


async def test_native_calls_are_streamed(open_engine: OpenEngine) -> None:
    """The pieces of a native call are chunks of their own kind, which name the tool and are not part of the answer."""
    engine = await open_engine([reply("I add.", ToolCall("add", {"a": 2, "b": 3})), reply("5")], settings=NATIVE)
    engine.register_tool(add)
    run = await engine.controller.begin("2 + 3?")
    events: list[StreamEvent] = []
    await engine.controller.subscribe(run.run_id, events.append)
    await (await engine.controller.start(run))
    (written,) = [event for event in events if event.type == "llm_chunk" and event.data["kind"] == "call"]
    assert (written.tool, written.data["delta"]) == ("add", '{"a": 2, "b": 3}')
    answers = [event.data["delta"] for event in events if event.type == "llm_chunk" and event.data["kind"] == "answer"]
    assert "".join(answers) == "I add.5"


async def test_schemas_are_in_the_request_and_not_in_the_prompt(open_engine: OpenEngine) -> None:
    """The system message neither lists the tools nor shows how to write a call."""
    engine = await open_engine([reply("Hello.")], settings=NATIVE)
    await engine.controller.execute("Hi.")
    request = engine.model.requests[0]
    assert (request.tool_protocol, request.tool_choice) == ("native", "auto")
    assert "create_artifact" in [spec.name for spec in request.tools]
    assert "<tool_call>" not in request.messages[0].content


async def test_call_in_the_text_does_not_run(open_engine: OpenEngine) -> None:
    """With native calls a call in the text is a quotation and stays in the answer."""
    written = f"So. {format_call('add', {'a': '1', 'b': '1'})}"
    engine = await open_engine([reply(written)], settings=NATIVE)
    engine.register_tool(add)
    result = await engine.controller.execute("1 + 1?")
    assert result.response == written
    assert not result.metrics.tool_calls


async def test_unreadable_call_returns_an_error(open_engine: OpenEngine) -> None:
    """The call does not run, and the model gets the reason."""
    broken = ToolCall("add", {}, error="The arguments of add are not JSON: {'a': 1")
    engine = await open_engine([reply("", broken), reply("Sorry.")], settings=NATIVE)
    engine.register_tool(add)
    assert (await engine.controller.execute("1 + 1?")).response == "Sorry."
    assert "not JSON" in engine.model.requests[1].messages[-1].content


async def test_concluding_turn_has_schemas_but_no_calls(open_engine: OpenEngine) -> None:
    """The request has the schemas, so that a cached prompt stays valid; calls in the reply do not run."""
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


async def test_unsupported_tool_protocol_is_refused(open_engine: OpenEngine) -> None:
    """The offline model uses native calls whatever is configured; an agent that requires `xml` is an error."""
    engine = await open_engine(model=OfflineModel(), settings={"tool_protocol": "xml"})
    assert {agent.protocol.name for agent in engine.agents.values()} == {"native"}
    with pytest.raises(UsageError, match=r"'poet' has tool_protocol 'xml', .* model \(offline\) does not support"):
        engine.register_agent(AgentConfig("poet", "Writes.", prompt="search_agent", tool_protocol="xml"))


async def test_each_agent_can_have_its_own_protocol(open_engine: OpenEngine) -> None:
    """One agent uses native calls while the others write their calls as text."""
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


async def test_native_calls_need_approvals_too(open_engine: OpenEngine) -> None:
    """A call waits for its approval and runs with edited parameters; the model is informed about the edit."""
    engine = await open_engine(
        [reply("", ToolCall("add", {"a": 1, "b": 1})), reply("Five.")], approvals={"add": "ask"}, settings=NATIVE
    )
    engine.register_tool(add)
    waiting = await engine.controller.execute("1 + 1?")
    edited = {waiting.pending[0].id: Decision(approved=True, params={"a": 2, "b": 3})}
    assert (await engine.controller.resume(waiting.thread_id, decisions=edited)).response == "Five."
    assert engine.model.requests[-1].messages[-1].content.startswith("5\nThe person changed the parameters")
