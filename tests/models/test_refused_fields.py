"""Fields of a request that an endpoint refuses, in the words of many endpoints."""

import json
from typing import Any

import pytest
from support.chat_endpoint import Answer, ChatServer
from support.model_turns import KEY, Waits

from artifactflow_nb.core.messages import Message
from artifactflow_nb.errors import ModelRejected
from artifactflow_nb.models.base import ModelRequest, RetryNotice
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.models.openai.refusals import Refused, demand, refuse, refused_field, without_refused

SENT = {
    "model": "m",
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]},
        {"role": "assistant", "content": "", "reasoning_content": "hm", "reasoning": "hm", "tool_calls": []},
    ],
    "tools": [],
    "stream": True,
    "stream_options": {"include_usage": True},
    **dict.fromkeys(("temperature", "max_tokens", "max_completion_tokens", "stop", "tool_choice", "seed"), 1),
    **dict.fromkeys(("parallel_tool_calls", "reasoning_effort", "response_format", "presence_penalty", "store"), 1),
}


def error(message: str, **more: Any) -> dict[str, Any]:
    return {"message": message, "type": "invalid_request_error", **more}


def forbidden(*loc: str | int) -> list[dict[str, Any]]:
    return [{"type": "extra_forbidden", "loc": ["body", *loc], "msg": "Extra inputs are not permitted", "input": 1}]


@pytest.mark.parametrize(
    ("status", "body", "field"),
    [
        (
            400,
            error(
                "Unsupported value: 'temperature' does not support 0.7 with this model. Only the default (1) value is "
                "supported.",
                param="temperature",
                code="unsupported_value",
            ),
            "temperature",
        ),
        (
            400,
            error(
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
                "instead.",
                code="invalid_request_body",
            ),
            "max_tokens",
        ),
        (400, error("Your organization must be verified to stream this model.", param="stream"), "stream"),
        (400, error("Unrecognized request argument supplied: parallel_tool_calls"), "parallel_tool_calls"),
        (400, error("Unknown parameter: 'stream_options.include_usage'."), "stream_options"),
        (
            422,
            {
                "object": "error",
                "message": {"detail": forbidden("max_completion_tokens")},
                "type": "invalid_request_error",
                "param": None,
            },
            "max_completion_tokens",
        ),
        (422, {"detail": forbidden("messages", 2, "assistant", "reasoning_content")}, "reasoning_content"),
        (
            422,
            {"message": json.dumps({"detail": forbidden("presence_penalty")}), "type": "internal_error_proxy"},
            "presence_penalty",
        ),
        (
            400,
            error(
                "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property "
                "'reasoning' is unsupported, did you mean 'role'?)]"
            ),
            "reasoning",
        ),
        (400, error("property 'store' is unsupported, did you mean 'stop'?"), "store"),
        (
            400,
            error(
                "messages.2.assistant.reasoning_content: property 'messages.2.assistant.reasoning_content' is "
                "unsupported",
                param="validation_error",
                code="wrong_api_format",
            ),
            "reasoning_content",
        ),
        (
            400,
            [
                {
                    "error": {
                        "code": 400,
                        "message": 'Invalid JSON payload received. Unknown name "seed": Cannot find field.',
                        "status": "INVALID_ARGUMENT",
                    }
                }
            ],
            "seed",
        ),
        (
            400,
            {
                "code": "Client specified an invalid argument",
                "error": "Argument not supported on this model: presencePenalty",
            },
            "presence_penalty",
        ),
        (400, {"error": "Model grok-4-0709 does not support parameter reasoningEffort."}, "reasoning_effort"),
        (400, {"error": "reasoning.effort is not supported", "param": "reasoning.effort"}, "reasoning_effort"),
        (400, error("deepseek-reasoner does not support this tool_choice", param=None), "tool_choice"),
        (
            400,
            error(
                "litellm.UnsupportedParamsError: gpt-5 models don't support temperature=0. Only temperature=1 is "
                "supported. To drop unsupported params set `litellm.drop_params = True`",
                code="400",
            ),
            "temperature",
        ),
        (400, error("`temperature` may only be set to 1 when thinking is enabled."), "temperature"),
        (400, error("messages.0.content.0.cache_control: Extra inputs are not permitted"), "cache_control"),
        (400, {"error": "Validation error at #/stream_options: Extra inputs are not permitted"}, "stream_options"),
        (400, error("max_tokens is too large: 100000. This model supports at most 16384.", param=None), "max_tokens"),
        (
            500,
            {"code": 500, "message": "Unsupported param: response_format", "type": "server_error"},
            "response_format",
        ),
        (400, error("This response_format type is unavailable now: unsupported"), "response_format"),
    ],
)
def test_refused_field_is_found(status: int, body: object, field: str) -> None:
    """The refusals of OpenAI, Azure, Mistral, Groq, Gemini, xAI, DeepSeek, llama.cpp and others are understood."""
    assert refused_field(status, body, SENT) == field


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, error("Missing `reasoning_content` field in the assistant message at message index 2.")),
        (400, error("The reasoning_content in the thinking mode must be passed back to the API.")),
        (400, error("Invalid schema for function 'x'", param="tools[0].function.parameters")),
        (400, error("Unsupported model", param="model")),
        (401, error("Invalid temperature", param="temperature")),
        (429, error("Too many requests; only 3 with stream_options are allowed", param="stream_options")),
        (500, error("The stop token was not reached")),
        (400, error("The value is not supported", param="top_p")),
    ],
)
def test_other_errors_name_no_field(status: int, body: object) -> None:
    """A field that is missing, that was not sent, or that a request needs is never left out."""
    assert refused_field(status, body, SENT) is None


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ("Missing `reasoning_content` field in the assistant message at message index 2.", "reasoning_content"),
        ("The `reasoning_content` in the thinking mode must be passed back to the API.", "reasoning_content"),
        ("thinking is enabled but reasoning_content is missing in assistant tool call message", "reasoning_content"),
        ("Function call is missing a thought_signature in functionCall parts.", "extra_content"),
    ],
)
def test_demanded_field_is_filled_in_where_there_is_none(message: str, field: str) -> None:
    """A second demand of the same field is an error; a field that a message has is never replaced."""
    call = {"id": "c", "function": {"name": "f", "arguments": "{}"}}
    own = [{"role": "assistant", "reasoning_content": "hm", "tool_calls": [{**call, "extra_content": {"google": "S"}}]}]
    other = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "", "tool_calls": [call, call]}]
    refused: Refused = {}
    assert demand(400, [{"error": error(message)}], refused)
    assert demand(400, [{"error": error(message)}], refused) is None
    user, assistant = without_refused({"messages": other}, refused)["messages"]
    assert user == other[0]
    first, second = assistant["tool_calls"]
    assert (field in assistant, field in first, second) == (
        field == "reasoning_content",
        field == "extra_content",
        call,
    )
    assert without_refused({"messages": own}, refused) == {"messages": own}


def test_field_that_is_demanded_and_refused_is_left_out() -> None:
    """Whatever an endpoint says, the attempts end."""
    refused: Refused = {}
    assert demand(400, "reasoning_content is missing", refused)
    assert refuse("reasoning_content", refused)
    assert demand(400, "reasoning_content is missing", refused) is None
    assert demand(429, "thought_signature is missing", refused) is None
    sent = {"messages": [{"role": "assistant", "content": "", "reasoning_content": "hm"}]}
    assert without_refused(sent, refused) == {"messages": [{"role": "assistant", "content": ""}]}


async def turn(client: OpenAIModel, **fields: Any) -> list[Any]:
    return [event async for event in client.stream(ModelRequest((Message("user", "q"),), max_retries=0, **fields))]


async def test_each_refused_field_costs_one_attempt_and_is_remembered_for_the_model() -> None:
    """Another model of the endpoint gets the fields; the notice says what happened; nothing waits."""

    def script(request: Any) -> Answer:
        for field in ("temperature", "max_tokens", "reasoning_effort") if request.body["model"] == "o9" else ():
            if field in request.body:
                message = f"Unsupported parameter: '{field}' is not supported with this model. The key was {KEY}."
                return Answer(status=400, error={"error": error(message, param=field)})
        return Answer("fine")

    waits = Waits()
    with ChatServer(script) as server:
        model = OpenAIModel(server.base_url, KEY, "o9", extra_body={"max_tokens": 9}, sleep=waits)
        events = await turn(model, temperature=0.2, extra_body={"reasoning_effort": "low"})
        again = await turn(model, temperature=0.2, extra_body={"reasoning_effort": "low"})
        await turn(model, temperature=0.2, model="other")
        await model.aclose()
    notices = [event for event in events if isinstance(event, RetryNotice)]
    assert [notice.delay_s for notice in notices] == [0, 0, 0]
    assert "refused the field temperature, which is left out from now on for this model" in notices[0].reason
    assert "max_tokens, which is sent as max_completion_tokens from now on" in notices[1].reason
    assert not any(KEY in notice.reason for notice in notices)
    assert (events[-1].attempts, again[-1].attempts, waits) == (4, 1, [0, 0, 0])
    last, other = server.requests[-2].body, server.requests[-1].body
    assert last.keys() == {"model", "messages", "stream", "stream_options", "max_completion_tokens"}
    assert (last["max_completion_tokens"], other["max_tokens"], other["temperature"]) == (9, 9, 0.2)
    assert [model.takes_temperature(name) for name in ("o9", "other", "gpt-4o", "gpt-5-mini")] == [
        *(False, None, True, None)
    ]


async def test_field_that_is_refused_under_both_names_is_left_out() -> None:
    """An endpoint that knows neither name of the limit gets no limit."""

    def script(request: Any) -> Answer:
        sent = [name for name in ("max_tokens", "max_completion_tokens") if name in request.body]
        return Answer(status=422, error={"detail": forbidden(sent[0])}) if sent else Answer("fine")

    with ChatServer(script) as server:
        model = OpenAIModel(server.base_url, KEY, "m", extra_body={"max_completion_tokens": 9})
        assert (await turn(model))[-1].content == "fine"
        await model.aclose()
        assert len(server.requests) == 3


async def test_endpoint_that_does_not_stream_answers_whole() -> None:
    """Without `stream` there are no `stream_options`, and the reply is read as one JSON object."""

    def script(request: Any) -> Answer:
        if request.body.get("stream"):
            return Answer(status=400, error={"error": error("Unsupported value: 'stream'", param="stream")})
        return Answer("whole", call_style="plain")

    with ChatServer(script) as server:
        model = OpenAIModel(server.base_url, KEY, "m")
        assert (await turn(model))[-1].content == "whole"
        await model.aclose()
        assert server.requests[-1].body.keys() == {"model", "messages"}


async def test_cache_marks_that_are_refused_are_left_out() -> None:
    """A field of messages is removed from every message."""

    def script(request: Any) -> Answer:
        if "cache_control" in json.dumps(request.body):
            return Answer(status=400, error="messages.0.content.0.cache_control: Extra inputs are not permitted")
        return Answer("fine")

    with ChatServer(script) as server:
        model = OpenAIModel(server.base_url, KEY, "m", prompt_cache=True)
        assert (await turn(model))[-1].content == "fine"
        await model.aclose()
        assert server.requests[-1].body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "q"}]}]


async def test_refusal_of_a_field_that_was_not_sent_ends_the_turn() -> None:
    """The endpoint's message is the error."""
    with ChatServer([Answer(status=400, error="Unknown parameter: 'top_k'")]) as server:
        model = OpenAIModel(server.base_url, KEY, "m")
        with pytest.raises(ModelRejected, match="top_k"):
            await turn(model)
        await model.aclose()
