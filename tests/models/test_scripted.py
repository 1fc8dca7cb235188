from dataclasses import replace

import pytest

from artifactflow_nb.core.messages import Message, ToolCall, Usage
from artifactflow_nb.core.toolcalls.xml import parse_reply
from artifactflow_nb.errors import ModelUnavailable
from artifactflow_nb.models.base import ModelDelta, ModelReply, ModelRequest, estimate_usage
from artifactflow_nb.models.scripted import ScriptedModel


def request(prompt="question"):
    return ModelRequest((Message("user", prompt),))


async def test_turns_are_streamed_in_order():
    """Each request gets the next turn, streamed in pieces that add up to the reply."""
    model = ScriptedModel(["a first turn", "second"], chunk_chars=5)
    first = [event async for event in model.stream(request())]
    second = [event async for event in model.stream(request())]
    assert [event.text for event in first[:-1]] == ["a fir", "st tu", "rn"]
    assert (first[-1].content, second[-1].content) == ("a first turn", "second")
    assert first[-1].ttft_ms is not None


async def test_script_function_computes_the_reply():
    """The function can distinguish concurrent agents by their prompts, and every request is stored."""
    model = ScriptedModel(lambda model_request: model_request.messages[-1].content.upper())
    assert [event async for event in model.stream(request("one"))][-1].content == "ONE"
    assert [event async for event in model.stream(request("two"))][-1].content == "TWO"
    assert [model_request.messages[-1].content for model_request in model.requests] == ["one", "two"]


async def test_exception_in_the_script_is_raised():
    """A turn can fail, as with an endpoint."""
    model = ScriptedModel([ModelUnavailable("gone")])
    with pytest.raises(ModelUnavailable, match="gone"):
        _ = [event async for event in model.stream(request())]


async def test_model_reply_is_returned_unchanged():
    """A whole reply sets usage, finish reason and model, too."""
    reply = ModelReply("text", Usage(1, 2), "length", "other")
    assert [event async for event in ScriptedModel([reply]).stream(request())] == [ModelDelta("text"), reply]


async def test_script_uses_the_protocol_of_the_request():
    """Calls in a turn become native or text, as the request requires."""
    call, text = ToolCall("f", {"x": "1"}), "First. "
    for turn in (call, [text, call, "Last.", call]):
        n, content = (1, "") if turn is call else (2, "First. Last.")
        native, xml = [
            [event async for event in ScriptedModel([turn]).stream(replace(request(), tool_protocol=protocol))][-1]
            for protocol in ("native", "xml")
        ]
        assert (native.content, native.calls, native.finish_reason) == (content, (call,) * n, "tool_calls")
        assert (parse_reply(xml.content).calls, xml.calls, xml.finish_reason) == ((call,) * n, (), "stop")
        assert native.usage.output_tokens > 0


async def test_exhausted_script_is_an_error():
    """One request too many is a mistake in the test or in the flow."""
    with pytest.raises(AssertionError, match="no turn left"):
        _ = [event async for event in ScriptedModel([]).stream(request())]


def test_usage_is_estimated_at_four_characters_a_token():
    """The estimate counts all messages, rounds up, and is marked as estimated."""
    request = ModelRequest((Message("system", "12345"), Message("user", "1234")))
    assert estimate_usage(request, "12345") == Usage(3, 2, estimated=True)
