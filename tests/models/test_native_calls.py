"""Native tool calls: requests, and the responses of real endpoints."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.call_styles import STYLES, call_deltas, pieces
from support.chat_endpoint import Answer, ChatServer, calling
from support.cpu_time import check_linear
from support.model_turns import KEY, Waits, take, text_of

from artifactflow_nb.core.messages import Message, ToolCall, ToolSpec, Usage
from artifactflow_nb.errors import ContextOverflow, ModelRejected, ModelUnavailable
from artifactflow_nb.models.base import ModelRequest, RetryNotice
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.models.openai.native_calls import NativeCallReader, read_call, valid_tool_name, wire_messages
from artifactflow_nb.tools.base import ToolContext, tool

SEARCH = ToolSpec("web_search", "Search the web.", {"type": "object", "properties": {"query": {"type": "string"}}})
TOOLS = {"tools": (SEARCH,), "tool_protocol": "native"}
CALLS = (("web_search", {"query": "上下文 🙂", "limit": 3}), ("read_artifact", {"id": "a"}), ("list_artifacts", {}))


def read(deltas, finish_reason="tool_calls"):
    reader = NativeCallReader()
    for delta in deltas:
        reader.add(delta)
    return reader.calls(finish_reason)


def arguments(text, finish_reason="tool_calls"):
    return read([{"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": text}}]}], finish_reason)


# --- what goes out -------------------------------------------------------------------------------------------------


async def test_schemas_are_sent_only_with_the_native_protocol():
    """With `native` the request has each tool's schema; with `xml`, or without tools, it has none."""
    _, server = await take([Answer("x")], **TOOLS)
    assert server.requests[0].body["tools"] == [
        {
            "type": "function",
            "function": {"name": "web_search", "description": "Search the web.", "parameters": SEARCH.parameters},
        }
    ]
    assert "tool_choice" not in server.requests[0].body
    for options in ({**TOOLS, "tool_protocol": "xml", "tool_choice": "none"}, {**TOOLS, "tools": ()}):
        _, server = await take([Answer("x")], **options)
        assert not {"tools", "tool_choice"} & set(server.requests[0].body)


async def test_concluding_turn_sends_schemas_and_forbids_calls():
    """The schemas stay for the endpoint's prompt cache; only `tool_choice` is added."""
    _, server = await take([Answer("x")], **TOOLS, tool_choice="none")
    body = server.requests[0].body
    assert (body["tool_choice"], len(body["tools"])) == ("none", 1)


async def test_calls_and_results_are_sent_back():
    """Calls have ids, each result has the id of its call, and arguments are compact JSON text."""
    calls = tuple(ToolCall(name, params) for name, params in CALLS)
    prompt = (Message("user", "q"), Message("assistant", "", calls), *(Message("tool", f"r{i}") for i in range(3)))
    with ChatServer([Answer("x")]) as server:
        model = OpenAIModel(server.base_url, KEY, "m")
        assert [event async for event in model.stream(ModelRequest(prompt, **TOOLS))]
        await model.aclose()
    _, assistant, *results = server.requests[0].body["messages"]
    assert (assistant["role"], assistant["content"]) == ("assistant", "")
    assert [call["function"] for call in assistant["tool_calls"]] == [
        {"name": "web_search", "arguments": '{"query":"上下文 🙂","limit":3}'},
        {"name": "read_artifact", "arguments": '{"id":"a"}'},
        {"name": "list_artifacts", "arguments": "{}"},
    ]
    assert results == [
        {"role": "tool", "tool_call_id": call["id"], "content": f"r{i}"}
        for i, call in enumerate(assistant["tool_calls"])
    ]


def test_call_ids_are_unique_and_stable():
    """Ids are nine letters and digits, as Mistral requires, and do not change when the transcript grows."""
    transcript = []
    for _ in range(30):
        transcript += [Message("assistant", "", (ToolCall("f", {}),) * 2), Message("tool", "a"), Message("tool", "b")]
    written = wire_messages(transcript)
    ids = [call["id"] for entry in written for call in entry.get("tool_calls", ())]
    assert len(set(ids)) == 60
    assert all(len(call_id) == 9 and call_id.isalnum() for call_id in ids)
    assert ids == [entry["tool_call_id"] for entry in written if entry["role"] == "tool"]
    assert wire_messages(transcript[:30]) == written[:30]


def test_results_without_native_calls_are_user_messages():
    """A `tool` message without a native call is sent with a role that every endpoint accepts."""
    calls = (ToolCall("f", {}),)
    roles = [
        entry["role"]
        for entry in wire_messages(
            [
                Message("assistant", "<tool_call>"),
                Message("tool", "<tool_result>"),
                Message("assistant", "Native.", calls),
                Message("tool", "1"),
                Message("tool", "one too many"),
                Message("assistant", "", calls),
                Message("user", "Never mind."),
                Message("tool", "late"),
            ]
        )
    ]
    assert roles == ["assistant", "user", "assistant", "tool", "user", "assistant", "user", "user"]


@pytest.mark.parametrize(
    ("name", "legal"),
    [
        ("web_search", "web_search"),
        ("functions.web search", "functions_web_search"),
        ("搜索", "__"),
        ("", "unnamed"),
        ("x" * 100, "x" * 64),
    ],
)
def test_invented_tool_name_is_made_valid_in_requests(name, legal):
    """Endpoints reject names other than letters, digits, `_` and `-`, at most 64."""
    assert valid_tool_name(name) == legal


async def test_equal_transcripts_are_equal_bytes():
    """The same transcript gives the same request byte for byte, so that endpoints can cache it."""

    def request():
        call = ToolCall("web_search", {"query": "q", "n": [1, {"b": 2, "a": None}]})
        return ModelRequest((Message("user", "q"), Message("assistant", "", (call,)), Message("tool", "r")), **TOOLS)

    sent = []
    for _ in range(2):
        with ChatServer([Answer("x")]) as server:
            model = OpenAIModel(server.base_url, KEY, "m")
            assert [event async for event in model.stream(request())]
            await model.aclose()
        sent.append(server.requests[0].data)
    assert sent[0] == sent[1]
    assert len(sent[0]) > 400


# --- what comes back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", [*STYLES, "plain"])
@pytest.mark.parametrize("n", [1, 3])
async def test_calls_are_read_in_every_style(style, n):
    """Missing, repeated or misplaced indexes, ids, names and arguments give the same calls."""
    n = 1 if style == "function_call" else n
    answer = calling(*CALLS[:n], text="I look.", call_style=style, chunk_chars=4)
    events, _ = await take([answer], max_retries=0, **TOOLS)
    reply = events[-1]
    assert reply.calls == tuple(ToolCall(name, params) for name, params in CALLS[:n])
    assert (reply.content, reply.finish_reason) == ("I look.", "tool_calls")


@pytest.mark.parametrize("style", ["index always 0, id then empty", "name in each piece", "whole", "no id"])
def test_calls_of_the_same_tool_are_separate(style):
    """Ids or indexes separate two calls of one tool."""
    calls = (("f", '{"x": 1}'), ("f", '{"x": 2}'))
    assert [call.params for call in read(call_deltas(style, calls, 3))] == [{"x": 1}, {"x": 2}]


@pytest.mark.parametrize("style", sorted(set(STYLES) - {"function_call", "objects", "whole, nothing but names"}))
def test_calls_without_parameters_are_separate(style):
    """Ids, indexes and names separate calls with empty arguments."""
    expected = ["first", "second", "third"]
    assert [call.name for call in read(call_deltas(style, tuple((name, "") for name in expected), 4))] == expected


@pytest.mark.parametrize(("call_id", "n"), [({}, 2), ({"id": "c"}, 1)])
def test_entries_of_one_delta_are_separate_calls(call_id, n):
    """Without equal ids even equal entries of one delta are several calls."""
    entry = {"function": {"name": "f", "arguments": None}}
    assert read([{"tool_calls": [{**entry, **call_id}] * 2}]) == (ToolCall("f", {}),) * n
    named = [{"function": {"name": name}, **call_id} for name in ("f", "g")]
    assert [call.name for call in read([{"tool_calls": named}])] == ["f", "g"]


@given(st.lists(st.integers(1, 12), min_size=1), st.sampled_from(sorted(STYLES)), st.integers(1, 3))
def test_arguments_do_not_depend_on_the_cuts(sizes, style, n):
    """Any split of the arguments into pieces, in any style, gives the same calls."""
    n = 1 if style == "function_call" else n
    calls = tuple((name, json.dumps(params)) for name, params in CALLS[:n])
    for size in sizes:
        assert read(call_deltas(style, calls, size)) == tuple(ToolCall(name, params) for name, params in CALLS[:n])


@given(st.dictionaries(st.text(), st.recursive(st.none() | st.booleans() | st.text(), st.lists)), st.data())
def test_any_parameters_survive_any_cut(params, data):
    """The tool gets the model's parameters for any split of the stream."""
    text = json.dumps(params, ensure_ascii=data.draw(st.booleans()))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    bounds = zip([0, *cuts], [*cuts, len(text)], strict=True)
    deltas = [{"tool_calls": [{"index": 0, "function": {"arguments": text[a:b]}}]} for a, b in bounds]
    head = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f"}}]}
    expected = json.loads(json.dumps(params, ensure_ascii=False).encode("utf-8", "replace"))
    assert read([head, *deltas]) == (ToolCall("f", expected),)


def test_finish_reason_does_not_affect_calls():
    """The reason `stop` discards no calls, and the reason `tool_calls` makes none."""
    assert arguments('{"x": 1}', "stop") == (ToolCall("f", {"x": 1}),)
    assert read([{"content": "text", "tool_calls": None}], "tool_calls") == ()


async def test_reply_of_calls_only_has_no_text():
    """The first piece of a call counts as the first output."""
    events, _ = await take([calling(*CALLS)], **TOOLS)
    assert text_of(events) == events[-1].content == ""
    assert events[-1].ttft_ms is not None
    events, _ = await take([Answer(finish_reason="length")], **TOOLS)
    assert events[-1].ttft_ms is None


async def test_calls_of_a_broken_stream_are_discarded():
    """A stream that breaks within a call is retried, and the reply has the calls of the second attempt."""
    events, _ = await take([calling(CALLS[0], chunk_chars=4, cut_after=3), calling(CALLS[1])], **TOOLS)
    at = next(i for i, event in enumerate(events) if isinstance(event, RetryNotice))  # the start of the attempt follows
    assert "".join(delta.text for delta in events[:at]) != ""
    assert {delta.tool for delta in events[at + 2 : -1]} == {"read_artifact"}
    assert "".join(delta.text for delta in events[at + 2 : -1]) == '{"id": "a"}'
    assert events[-1].calls == (ToolCall("read_artifact", {"id": "a"}),)


@pytest.mark.parametrize(
    "text",
    [
        '{"x": 1}',
        ' {"x": 1}\n',
        '{"x": 1}}',
        '{"x": 1}\n```',
        '{"x": 1}</tool_call>',
        '{"x": 1}<|im_end|>',
        '{}{"x": 1}',
        '{"x": 1}{"x": 1}',
        '"{\\"x\\": 1}"',
        {"x": 1},
    ],
)
def test_arguments_with_noise_are_read(text):
    """The noise is extra brackets, fences, tags, a leading empty object, a repetition or a double encoding."""
    assert arguments(text) == (ToolCall("f", {"x": 1}),)


@pytest.mark.parametrize("text", ["", None, " ", "null", "{}", "[]", '""', '"{}"', {}, [], "{}{}"])
def test_empty_arguments_are_no_parameters(text):
    """Every notation of empty arguments is accepted."""
    assert arguments(text) == (ToolCall("f", {}),)


def test_several_objects_are_as_many_calls():
    """Some models write the arguments of parallel calls one after the other; no call is lost."""
    assert arguments('{"x": 1}\n{"x": 2}{"x": true}') == tuple(ToolCall("f", {"x": x}) for x in (1, 2, True))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{'x': 1}", "double quotes at character 1"),
        ('{"x": 1', "at character 7"),
        ('{"x": 1}, "y": 2}', "at character 8"),
        ('{"x": 1} and more', "at character 9"),
        ('{"x": 1}{"x":', "at character 13"),
        ("Paris", "at character 0"),
        ('"Paris"', "at character 0"),
        ("[1]", "not an object"),
        ("5", "not an object"),
        (5, "not an object"),
        ([{"x": 1}], "not an object"),
        ('{"x": ' + "[" * 101 + "]" * 101 + "}", "deeper than 100 levels"),
        ('{"x": ' + "[" * 100_000, "recursion"),
    ],
)
def test_unreadable_arguments_are_reported_to_the_model(text, words):
    """The call has its name, no parameters, and an error that shows how to write it."""
    (call,) = arguments(text)
    assert (call.name, call.params) == ("f", {})
    assert words in call.error
    assert 'such as {"name": "value"}' in call.error
    assert len(call.error) < 500


@pytest.mark.parametrize("text", ['{"content": "half a rep', '{"x": 1', '"{\\"x\\"', "", "{}", '{"x": 1}{"y"'])
def test_call_cut_by_the_token_limit_is_reported(text):
    """The model gets an error about the length of its call, even if no arguments arrived."""
    (call,) = arguments(text, "length")
    assert call.params == {}
    assert "limit of tokens" in call.error


def test_token_limit_loses_only_the_truncated_call():
    """Calls before the last call are complete, and so is the last call if its arguments are complete."""
    calls = (("f", "{}"), ("g", '{"x": 1}'))
    assert read(call_deltas("openai", calls, 4), "length") == (ToolCall("f", {}), ToolCall("g", {"x": 1}))


def test_call_without_a_name_is_reported_to_the_model():
    """Arguments without a tool name are reported; an empty piece is ignored."""
    (call,) = read([{"tool_calls": [{"index": 0, "function": {"arguments": '{"x": 1}'}}]}])
    assert (call.name, call.params) == ("", {})
    assert "names no tool" in call.error
    assert read([{"tool_calls": [{"index": 0, "id": "c", "function": {}}, None]}]) == ()


def test_line_breaks_within_a_text_are_read():
    """Strict JSON forbids line breaks within a text, but models write such texts."""
    assert arguments('{"x": "a\n\tb"}')[0].params == {"x": "a\n\tb"}


def test_oversized_numbers_stay_text():
    """Integers of more than 64 bits, numbers beyond floats and NaN would break stores and requests."""
    text = '{"a": 9223372036854775807, "b": 9223372036854775808, "c": 1e999, "d": NaN, "e": -Infinity, "f": 1.5}'
    huge = '{"g": ' + "9" * 5000 + "}"
    assert arguments(text)[0].params == {
        "a": 9223372036854775807,
        "b": "9223372036854775808",
        "c": "1e999",
        "d": "NaN",
        "e": "-Infinity",
        "f": 1.5,
    }
    assert arguments(huge)[0].params == {"g": "9" * 5000}


@pytest.mark.parametrize(
    "text", [r'{"a\ud800": "\ud83d\ude42 \udfff"}', r'"{\"a\ud800\": \"\\ud83d\\ude42 \\udfff\"}"']
)
def test_lone_surrogates_are_replaced(text):
    """Files and databases reject lone surrogates; whole pairs are unchanged."""
    assert arguments(text)[0].params == {"a?": "🙂 ?"}


@pytest.mark.timed
def test_reading_is_linear_in_the_pieces():
    """Four times as many pieces take about four times as long, in any style."""

    def seconds(n, style):
        deltas = call_deltas(style, (("f", json.dumps({"x": "{}" * n})),), 2)
        started = time.process_time()
        assert read(deltas)[0].error is None
        return time.process_time() - started

    for style in ("openai", "another id in each piece", "name in each piece"):
        check_linear(lambda n, style=style: seconds(n, style))


@pytest.mark.parametrize("calls", [5, "text", [5], ["text"], [{"function": "text"}], [{"id": [], "function": {}}]])
async def test_malformed_call_is_a_broken_stream(calls):
    """Another structure in place of calls is an error of the endpoint."""
    body = b'data: {"choices": [{"delta": {"tool_calls": %b}}]}\n\n' % json.dumps(calls).encode()
    with pytest.raises(ModelUnavailable, match="not part of a chat completion"):
        await take([Answer(raw=body)], max_retries=0, **TOOLS)


async def test_estimated_tokens_count_tools_and_calls():
    """The estimate includes schemas, calls in the transcript and calls in the reply."""
    events, _ = await take([calling(("web_search", {"query": "x" * 400}), usage="none")], **TOOLS)
    plain, _ = await take([Answer(usage="none", finish_reason="length")])
    assert events[-1].usage.estimated
    assert events[-1].usage.output_tokens > 100
    assert events[-1].usage.input_tokens > plain[-1].usage.input_tokens
    assert plain[-1].usage == Usage(5, 0, estimated=True)


# --- endpoints that do not take tools ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"error": {"message": "stablelm2:latest does not support tools", "type": "api_error"}}),
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        (400, {"error": {"message": "Unsupported parameter.", "param": "tools"}}),
        (422, {"detail": [{"loc": ["body", "tools"], "msg": "Extra inputs are not permitted", "input": {}}]}),
        (404, {"error": {"message": "No endpoints found that support tool use.", "code": 404}}),
        (500, {"error": {"message": "tools param requires --jinja flag", "type": "server_error"}}),
        (500, {"error": {"message": "Unsupported param: tools", "type": "server_error"}}),
    ],
)
async def test_endpoint_without_tool_support_is_reported(status, error):
    """There is one request and no retry; the error names the setting that helps."""
    with pytest.raises(ModelRejected, match=r"AF_TOOL_PROTOCOL=xml") as caught:
        await take([Answer(status=status, error=error)] * 2, **TOOLS)
    assert str(status) in str(caught.value)
    with pytest.raises((ModelRejected, ModelUnavailable)) as caught:
        await take([Answer(status=status, error=error)] * 2, max_retries=0)
    assert "AF_TOOL_PROTOCOL" not in str(caught.value)


async def test_tool_refusal_in_the_stream_is_reported():
    """Some gateways answer with status 200 and send the error in the stream."""
    body = b'data: {"error": {"message": "This model does not support tools", "code": 500}}\n\n'
    with pytest.raises(ModelRejected, match="AF_TOOL_PROTOCOL=xml"):
        await take([Answer(raw=body)], **TOOLS)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"detail": [{"loc": ["body", "temperature"], "msg": "too hot", "input": {"tools": ["these tools"]}}]}),
        (400, "context_length_exceeded: shorten the messages or the tools"),
        (500, "Failed to parse tool call arguments as JSON"),
        (429, "Too many requests for models that support tool use"),
    ],
)
async def test_other_failures_are_not_attributed_to_tools(status, error):
    """Errors that repeat the request, overflows and temporary failures keep their kind."""
    with pytest.raises((ContextOverflow, ModelRejected, ModelUnavailable)) as caught:
        await take([Answer(status=status, error=error)], max_retries=0, **TOOLS)
    assert "AF_TOOL_PROTOCOL" not in str(caught.value)
    assert isinstance(caught.value, ModelUnavailable) == (status >= 429)


async def test_rejected_tool_choice_is_left_out():
    """The request is repeated once without `tool_choice`, and later requests leave it out."""

    def script(request):
        if "tool_choice" in request.body:
            return Answer(status=400, error="Unrecognized request argument supplied: tool_choice")
        return Answer("fine")

    waits = Waits()
    with ChatServer(script) as server:
        model = OpenAIModel(server.base_url, KEY, "m", sleep=waits)
        for attempts in (2, 1):
            request = ModelRequest((Message("user", "q"),), **TOOLS, tool_choice="none")
            events = [event async for event in model.stream(request)]
            assert (events[-1].content, events[-1].attempts) == ("fine", attempts)
        await model.aclose()
    assert ["tool_choice" in request.body for request in server.requests] == [True, False, False]
    assert all("tools" in request.body and "stream_options" in request.body for request in server.requests)
    assert waits == [0]


def test_schema_of_a_tool_is_sent_as_json():
    """The request has the schema that the `tool` decorator creates."""

    @tool()
    async def add(_ctx: ToolContext, numbers: list[int], note: str = "") -> str:
        """Add numbers."""
        return f"{sum(numbers)} {note}"

    assert json.loads(json.dumps(add.spec.parameters))["required"] == ["numbers"]


def test_stored_arguments_are_parsed_by_the_same_rules():
    """Arguments that are stored as text are parsed by the same rules as streamed arguments."""
    assert read_call("f", "".join(pieces('{"x": [1, "a"]}', 1))) == [ToolCall("f", {"x": [1, "a"]})]
