"""What people reported about other clients of these endpoints, tried here; a test names the report if there is one."""

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from endpoints.dialect import DialectServer, load
from endpoints.test_errors import turn
from endpoints.test_research import HANDBOOK, OFTEN, QUESTION, options, to_the_end

import artifactflow_nb as af
from artifactflow_nb.errors import ModelUnavailable, ToolsRefused
from artifactflow_nb.models.base import ModelReply, RetryNotice

DONE = {"line": "data: [DONE]"}


def ending(delta: Mapping[str, Any], **choice: Any) -> dict[str, Any]:
    """A step that ends a reply."""
    last = {"index": 0, "delta": delta, "finish_reason": "stop", **choice}
    return {"chunk": {"id": "x", "object": "chat.completion.chunk", "model": "$model", "choices": [last]}}


def speaking(name: str, *steps: Mapping[str, Any], **errors: Mapping[str, Any]) -> DialectServer:
    """An endpoint of a dialect with another stream or further errors."""
    dialect = load(name)
    return DialectServer(replace(dialect, stream=steps or dialect.stream, errors={**dialect.errors, **errors}))


@pytest.mark.parametrize(
    ("name", "step", "problem"),
    [
        # earendil-works/pi#8511: the upstream provider failed, and the reply ends with `stop`
        ("openrouter", ending({"content": ""}, native_finish_reason="network_error"), "network_error"),
        # ollama/ollama#15288: everything is thinking
        ("ollama", ending({"content": "", "reasoning": "The capital is Canberra."}), "nothing but reasoning"),
        # diegosouzapw/OmniRoute#8210 is the same with an error; this one says nothing at all
        ("gemini", ending({"role": "assistant"}), "an empty answer"),
    ],
)
async def test_reply_with_nothing_in_it_is_taken_again(name: str, step: dict[str, Any], problem: str) -> None:
    """An empty reply is no answer: the model is sampled again, and then the run fails with a sentence."""
    with speaking(name, step, DONE) as endpoint:
        with pytest.raises(ModelUnavailable, match=problem):
            await turn(endpoint)
        assert len(endpoint.sent) > 1


@pytest.mark.parametrize("name", ["gemini", "deepseek"])
async def test_reason_to_stop_in_every_chunk_stops_nothing(name: str) -> None:
    """su-kaka/gcli2api#403: each chunk has the finish reason, and the stream goes on."""
    steps = json.loads(json.dumps(load(name).stream))
    for choice in (choice for step in steps if "chunk" in step for choice in step["chunk"].get("choices", [])):
        choice["finish_reason"] = "stop"
    with speaking(name, *steps) as endpoint:
        *_, reply = await turn(endpoint)
    assert isinstance(reply, ModelReply)
    assert [call.name for call in reply.calls] == ["web_search"]


async def test_call_that_was_cut_is_not_run() -> None:
    """vllm-project/vllm#53269: a call cut by the token limit ends with `tool_calls`; the model is told."""
    steps = json.loads(
        json.dumps(load("vllm").stream).replace('"arguments": "$piece"', '"arguments": "{\\"query\\": "')
    )
    with speaking("vllm", *steps) as endpoint:
        *_, reply = await turn(endpoint)
    assert isinstance(reply, ModelReply)
    (call,) = reply.calls
    assert "was not run" in str(call.error)


async def test_call_without_arguments_is_a_call() -> None:
    """deepset-ai/haystack#9408, sigoden/aichat#1217: the arguments of a call without parameters are empty."""
    steps = [step for step in load("vllm").stream if step.get("each") != "argument"]
    with speaking("vllm", *steps) as endpoint:
        *_, reply = await turn(endpoint)
    assert isinstance(reply, ModelReply)
    assert [(call.params, call.error) for call in reply.calls] == [({}, None)]


async def test_fragments_without_an_index_are_one_call() -> None:
    """open-webui/computer#224: Gemini splits the arguments, and sends the signature alone."""
    signature = {"google": {"thought_signature": "S"}}
    calls = [
        {"id": "f1", "type": "function", "function": {"name": "web_search", "arguments": '{"query": '}},
        {"function": {"arguments": '"backups"}'}},
        {"id": "f1", "extra_content": signature},
    ]
    steps = [ending({"tool_calls": [call]}, finish_reason=None) for call in calls]
    with speaking("gemini", *steps, ending({"role": "assistant"}), DONE) as endpoint:
        *_, reply = await turn(endpoint)
    assert isinstance(reply, ModelReply)
    assert [(call.name, call.params) for call in reply.calls] == [("web_search", {"query": "backups"})]
    assert reply.provider_fields is not None
    assert reply.provider_fields["calls"] == [{"extra_content": signature}]


async def test_reply_that_ends_for_a_call_and_has_none_is_taken_again() -> None:
    """The endpoint's parser has lost the call: after a second sample the model calls in its text."""
    steps = ending({"content": "Let me search."}, finish_reason="tool_calls"), DONE
    with speaking("ollama", *steps) as endpoint:
        with pytest.raises(ToolsRefused, match="a call that it did not send"):
            await turn(endpoint)
        assert len(endpoint.sent) == 2


UNKNOWN_TOOL = "tool call validation failed: attempted to call tool 'listFiles' which was not in request.tools"
EFFORT = (
    "Function tools with reasoning_effort are not supported for gpt-5.6-terra in /v1/chat/completions. To use function "
    "tools, use /v1/responses or set reasoning_effort to 'none'."
)
UNKNOWN_SCHEMA = (
    "Invalid JSON payload received. Unknown name \"const\" at 'tools[0].function_declarations[5].parameters': "
    "Cannot find field."
)


async def test_call_of_an_unknown_tool_is_sampled_again() -> None:
    """mastra-ai/mastra#9688: Groq checks the calls of a reply itself, and not every error has a code."""
    error = {"status": 400, "body": {"error": {"message": UNKNOWN_TOOL, "type": "invalid_request_error"}}}
    with speaking("groq", unknown_tool=error) as endpoint:
        endpoint.faults = ["unknown_tool"]
        *before, reply = await turn(endpoint)
    assert isinstance(reply, ModelReply)
    assert len([event for event in before if isinstance(event, RetryNotice)]) == 1


async def test_schema_that_is_not_understood_leads_to_calls_in_text() -> None:
    """zed-industries/zed#44875: Gemini's layer refuses words of JSON Schema in tools of others."""
    error = {"status": 400, "body": [{"error": {"code": 400, "message": UNKNOWN_SCHEMA, "status": "INVALID_ARGUMENT"}}]}
    with speaking("gemini", schema=error) as endpoint:
        endpoint.faults = ["schema"] * 5
        with pytest.raises(ToolsRefused, match="const"):
            await turn(endpoint)
        assert endpoint.refused == ["schema"]


def test_effort_is_kept_where_tools_exclude_it(tmp_path: Path) -> None:
    """openai/openai-openapi#541: newer models refuse tools beside `reasoning_effort`; the effort stays."""
    error = {"message": EFFORT, "type": "invalid_request_error", "param": "reasoning_effort", "code": None}
    with speaking("openai", no_tools={"status": 400, "body": {"error": error}}) as endpoint:
        endpoint.takes_tools = False
        with af.Workbench(**options(endpoint, tmp_path, approvals="approve", reasoning_effort="high")) as wb:
            wb.sources.add(HANDBOOK)
            to_the_end(wb.ask(QUESTION))
        assert endpoint.refused == ["no_tools"]
        chat = [request.body for request in endpoint.requests if "messages" in request.body]
        assert {body["reasoning_effort"] for body in chat} == {"high"}


@pytest.mark.parametrize(
    "name",
    ["functions.$name", "functions.$name:0", "default_api.$name", "default_api:$name", "$name<|channel|>commentary"],
)
def test_name_with_what_a_family_writes_around_it_is_the_tool(tmp_path: Path, name: str) -> None:
    """Endpoints leave the text that gpt-oss, Kimi and Gemini write around a tool's name in native calls."""
    steps = json.loads(json.dumps(load("vllm").stream).replace('"name": "$name"', f'"name": "{name}"'))
    with (
        speaking("vllm", *steps) as endpoint,
        af.Workbench(**options(endpoint, tmp_path, approvals="approve")) as wb,
    ):
        wb.sources.add(HANDBOOK)
        run, _ = to_the_end(wb.ask(QUESTION))
        assert "research_report" in run.artifacts
        assert wb.tool_calls_df(run)["success"].all()


@pytest.mark.parametrize("protocol", ["auto", "xml"])
def test_roles_alternate_after_a_failure(tmp_path: Path, protocol: str) -> None:
    """NousResearch/hermes-agent#20154, ggml-org/llama.cpp#19851, lmstudio-ai/lmstudio-bug-tracker#1586.

    Templates of Mistral, Gemma and Qwen want one system message, then a question, then roles in turn; a run that failed
    or was cancelled leaves no question without an answer.
    """
    with DialectServer(load("lmstudio")) as endpoint:
        endpoint.faults = ["too_long"] * 3
        with af.Workbench(**options(endpoint, tmp_path, approvals="approve", tool_protocol=protocol)) as wb:
            wb.sources.add(HANDBOOK)
            failed = wb.ask(QUESTION).wait()
            assert failed.status == "failed"
            endpoint.faults = []
            run, _ = to_the_end(wb.ask(QUESTION, conversation_id=failed))
            to_the_end(wb.ask(OFTEN, conversation_id=run))
        for request in endpoint.requests:
            roles = [message["role"] for message in request.body.get("messages", ())]
            assert roles[:2] in ([], ["system", "user"])
            talk = [role for role in roles[1:] if role != "tool"]
            assert ("user", "user") not in list(pairwise(talk))
            assert ("tool", "user") not in list(pairwise(roles))
            assert "tool" not in roles or protocol == "auto"
