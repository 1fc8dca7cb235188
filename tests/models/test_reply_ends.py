"""The end of a reply: complete, broken off, or no reply at all."""

import json
from typing import Any

import pytest
from support.chat_endpoint import Answer, sse
from support.model_turns import Waits, chunk, take, text_of

from artifactflow_nb.core.messages import ToolSpec
from artifactflow_nb.errors import ModelError, ModelRejected, ModelUnavailable, ToolsRefused

TOOLS: Any = {"tools": (ToolSpec("look", "Looks.", {"type": "object", "properties": {}}),), "tool_protocol": "native"}


def ending(reason: str | None, *, choice: Any = None, **more: Any) -> Answer:
    last = chunk({"content": ""}, reason, **more)
    last["choices"][0] |= choice or {}
    return Answer(raw=sse(chunk({"content": "Half an "})) + sse(last) + b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("reason", "stored"),
    [
        *((reason, "stop") for reason in ("stop", "STOP", "end_turn", "eos")),
        *((reason, "length") for reason in ("length", "MAX_TOKENS", "model_length")),
        *((reason, "tool_calls") for reason in ("tool_calls", "tool_use", "function_call")),
    ],
)
async def test_good_reasons_have_one_spelling(reason: str, stored: str) -> None:
    """Together, Gemini, Mistral and others have other spellings of the finish reasons of complete replies."""
    found, _ = await take([ending(reason)])
    assert (found[-1].content, found[-1].finish_reason) == ("Half an ", stored)


ERROR = {"code": 502, "message": "Provider disconnected"}


@pytest.mark.parametrize(
    "broken",
    [
        ending("error"),
        ending("error", error=ERROR),
        ending("error", choice={"error": ERROR}),
        ending(None, choice={"error": ERROR}),
        ending("insufficient_system_resource"),
        ending("abort"),
        ending("network_error"),
        ending("function_call_filter: MALFORMED_FUNCTION_CALL"),
        ending("content_filter"),
        ending("stop", choice={"native_finish_reason": "network_error"}),
        ending("stop", choice={"native_finish_reason": "MALFORMED_FUNCTION_CALL"}),
        Answer(""),
        Answer("", reasoning="Hm."),
        Answer(" \n", reasoning="Hm."),
    ],
)
async def test_reply_that_was_broken_off_is_taken_again(broken: Answer) -> None:
    """Neither half an answer nor an empty answer ends a turn."""
    found, server = await take([broken, Answer("Whole.")])
    assert (found[-1].content, found[-1].attempts, len(server.requests)) == ("Whole.", 2, 2)


@pytest.mark.parametrize(
    ("reason", "n_requests", "words"),
    [
        ("error", 3, "finish reason 'error'"),
        ("MALFORMED_FUNCTION_CALL", 2, "MALFORMED_FUNCTION_CALL"),
        ("content_filter", 2, "content filter stopped it"),
    ],
)
async def test_error_of_the_last_attempt_has_the_reason_and_the_text(reason: str, n_requests: int, words: str) -> None:
    """A call that could not be used and a filtered reply get one more sample, a failure gets the usual retries."""
    requests: list[Any] = []

    def script(request: Any) -> Answer:
        requests.append(request)
        return ending(reason)

    with pytest.raises(ModelUnavailable, match=words) as caught:
        await take(script)
    assert (len(requests), caught.value.partial) == (n_requests, "Half an ")


@pytest.mark.parametrize(
    "failure",
    [
        Answer(status=400, error={"error": {"message": "Failed to call a function.", "code": "tool_use_failed"}}),
        Answer(raw=sse({"error": {"message": "Failed.", "code": "tool_use_failed", "status_code": 400}})),
        Answer(
            status=400,
            error={
                "error": {
                    "message": "Tool choice is none, but model called a tool",
                    "code": "tool_use_failed",
                    "failed_generation": '{"name": "look", "arguments": {"temperature": "invalid"}}',
                }
            },
        ),
    ],
)
async def test_failed_tool_use_is_one_bad_sample(failure: Answer) -> None:
    """Groq refuses the model's text; the next sample counts, and nothing is left out of the request."""
    found, server = await take([failure, Answer("fine")], temperature=0.5, **TOOLS)
    assert (found[-1].content, [request.body["temperature"] for request in server.requests]) == ("fine", [0.5, 0.5])
    with pytest.raises(ToolsRefused):
        await take([failure, failure, Answer("fine")], **TOOLS)


async def test_text_of_a_chunk_with_delta_and_message_counts_once() -> None:
    """Some endpoints end a stream with the whole message; others stream messages without deltas."""
    whole = chunk({}, "stop")
    whole["choices"][0]["message"] = {"role": "assistant", "content": "Hello"}
    body = sse(chunk({"content": "Hel"})) + sse(chunk({"content": "lo"})) + sse(whole) + b"data: [DONE]\n\n"
    found, _ = await take([Answer(raw=body)])
    assert found[-1].content == text_of(found) == "Hello"
    pieces = [{"choices": [{"message": {"content": piece}}]} for piece in ("Hel", "lo")]
    body = b"".join(map(sse, pieces)) + sse(chunk({}, "stop")) + b"data: [DONE]\n\n"
    found, _ = await take([Answer(raw=body)])
    assert found[-1].content == "Hello"


@pytest.mark.parametrize(
    ("body", "advice"),
    [
        ('{"error": "Unexpected endpoint or method. (POST /chat/completions)"}', "AF_MODEL"),
        ('{"error": {"message": "Invalid API key"}}', "api_key"),
        ('{"error": "model \'m\' not found"}', "AF_MODEL"),
        ('{"detail": "Not Found"}', "/v1"),
        ("<!DOCTYPE html>\n<html><body>Sign in with your API key</body></html>", "/v1"),
        ("OK", "/v1"),
        ('{"status": "alive"}', "/v1"),
    ],
)
async def test_success_without_a_reply_fails_at_once_with_advice(body: str, advice: str) -> None:
    """A status of 200 does not make a reply."""
    waits = Waits()
    with pytest.raises(ModelRejected, match=advice):
        await take([Answer(raw=body.encode(), content_type="text/html")] * 3, waits=waits)
    assert waits == []


@pytest.mark.parametrize(
    "body", [{"error": {"code": 503, "message": "No instances"}}, {"error": "The model is overloaded, try again"}]
)
async def test_success_with_a_passing_error_is_retried(body: Any) -> None:
    """Gateways send temporary failures with status 200 as well."""
    with pytest.raises(ModelError) as caught:
        await take([Answer(raw=json.dumps(body).encode(), content_type="application/json")] * 3, max_retries=2)
    assert isinstance(caught.value, ModelUnavailable)
