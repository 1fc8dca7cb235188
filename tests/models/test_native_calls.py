"""Native tool calls: as they go out, and as endpoints really send them."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.call_styles import STYLES, call_deltas, pieces
from support.chat_endpoint import Answer, ChatServer, calling
from support.cpu_time import check_linear
from support.model_turns import KEY, Waits, said, take

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


async def test_tools_go_out_only_with_the_native_protocol():
    """With `native` the endpoint is told each tool's schema; with `xml`, or without tools, nothing of them is sent."""
    _, server = await take([Answer("x")], **TOOLS)
    assert server.requests[0].body["tools"] == [
        {
            "type": "function",
            "function": {"name": "web_search", "description": "Search the web.", "parameters": SEARCH.parameters},
        }
    ]
    assert "tool_choice" not in server.requests[0].body
    for asked in ({**TOOLS, "tool_protocol": "xml", "tool_choice": "none"}, {**TOOLS, "tools": ()}):
        _, server = await take([Answer("x")], **asked)
        assert not {"tools", "tool_choice"} & set(server.requests[0].body)


async def test_a_concluding_turn_sends_the_tools_and_forbids_them():
    """The tools stay, for the endpoint's prompt cache and for a history with calls; only `tool_choice` is added."""
    _, server = await take([Answer("x")], **TOOLS, tool_choice="none")
    body = server.requests[0].body
    assert (body["tool_choice"], len(body["tools"])) == ("none", 1)


async def test_calls_and_results_go_back_as_they_came():
    """An assistant's calls have ids, each result names its call in order, and arguments are compact JSON text."""
    calls = tuple(ToolCall(name, params) for name, params in CALLS)
    prompt = (Message("user", "q"), Message("assistant", "", calls), *(Message("tool", f"r{i}") for i in range(3)))
    with ChatServer([Answer("x")]) as server:
        model = OpenAIModel(server.base_url, KEY, "m")
        assert [event async for event in model.stream(ModelRequest(prompt, **TOOLS))]
        await model.aclose()
    _, asked, *results = server.requests[0].body["messages"]
    assert (asked["role"], asked["content"]) == ("assistant", "")
    assert [call["function"] for call in asked["tool_calls"]] == [
        {"name": "web_search", "arguments": '{"query":"上下文 🙂","limit":3}'},
        {"name": "read_artifact", "arguments": '{"id":"a"}'},
        {"name": "list_artifacts", "arguments": "{}"},
    ]
    assert results == [
        {"role": "tool", "tool_call_id": call["id"], "content": f"r{i}"} for i, call in enumerate(asked["tool_calls"])
    ]


def test_every_call_of_a_transcript_has_an_id_of_its_own_that_mistral_takes():
    """Ids are nine letters and digits, differ over all rounds, and do not change when the transcript grows."""
    transcript = []
    for _ in range(30):
        transcript += [Message("assistant", "", (ToolCall("f", {}),) * 2), Message("tool", "a"), Message("tool", "b")]
    written = wire_messages(transcript)
    ids = [call["id"] for entry in written for call in entry.get("tool_calls", ())]
    assert len(set(ids)) == 60
    assert all(len(call_id) == 9 and call_id.isalnum() for call_id in ids)
    assert ids == [entry["tool_call_id"] for entry in written if entry["role"] == "tool"]
    assert wire_messages(transcript[:30]) == written[:30]


def test_results_of_calls_written_as_text_are_a_users_message():
    """A `tool` message that no native call waits for is sent with the role that every endpoint takes."""
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
    """Letters, digits, `_` and `-`, 64 at most: another name in the transcript would have the request refused."""
    assert valid_tool_name(name) == legal


async def test_equal_transcripts_are_equal_bytes():
    """The same transcript, made anew, gives the same request byte for byte, so that endpoints can cache it."""

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
async def test_calls_are_read_however_the_endpoint_sends_them(style, n):
    """Indexes, ids, names and arguments as they should be, missing, repeated or misplaced: the calls are the same."""
    n = 1 if style == "function_call" else n
    answer = calling(*CALLS[:n], text="I look.", call_style=style, chunk_chars=4)
    found, _ = await take([answer], max_retries=0, **TOOLS)
    reply = found[-1]
    assert reply.calls == tuple(ToolCall(name, params) for name, params in CALLS[:n])
    assert (reply.content, reply.finish_reason) == ("I look.", "tool_calls")


@pytest.mark.parametrize("style", ["index always 0, id then empty", "name in each piece", "whole", "no id"])
def test_calls_of_the_same_tool_are_separate(style):
    """Two calls of one tool stay two where there are ids or indexes."""
    calls = (("f", '{"x": 1}'), ("f", '{"x": 2}'))
    assert [call.params for call in read(call_deltas(style, calls, 3))] == [{"x": 1}, {"x": 2}]


@pytest.mark.parametrize("style", sorted(set(STYLES) - {"function_call", "objects", "whole, nothing but names"}))
def test_calls_without_parameters_are_separate(style):
    """With empty arguments only ids, indexes and names are left to tell one call from the next."""
    expected = ["first", "second", "third"]
    assert [call.name for call in read(call_deltas(style, tuple((name, "") for name in expected), 4))] == expected


@pytest.mark.parametrize(("call_id", "n"), [({}, 2), ({"id": "c"}, 1)])
def test_two_entries_of_one_delta_are_two_calls_unless_their_id_is_the_same(call_id, n):
    """No delta holds two pieces of one call: without ids, even equal calls in one are several."""
    entry = {"function": {"name": "f", "arguments": None}}
    assert read([{"tool_calls": [{**entry, **call_id}] * 2}]) == (ToolCall("f", {}),) * n
    named = [{"function": {"name": name}, **call_id} for name in ("f", "g")]
    assert [call.name for call in read([{"tool_calls": named}])] == ["f", "g"]


@given(st.lists(st.integers(1, 12), min_size=1), st.sampled_from(sorted(STYLES)), st.integers(1, 3))
def test_arguments_are_the_same_however_they_are_cut(sizes, style, n):
    """Any cut of the arguments into pieces, in any style, gives the calls that were sent."""
    n = 1 if style == "function_call" else n
    calls = tuple((name, json.dumps(params)) for name, params in CALLS[:n])
    for size in sizes:
        assert read(call_deltas(style, calls, size)) == tuple(ToolCall(name, params) for name, params in CALLS[:n])


@given(st.dictionaries(st.text(), st.recursive(st.none() | st.booleans() | st.text(), st.lists)), st.data())
def test_any_parameters_survive_any_cut(params, data):
    """What a model wrote is what the tool gets, wherever the stream was cut."""
    text = json.dumps(params, ensure_ascii=data.draw(st.booleans()))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    bounds = zip([0, *cuts], [*cuts, len(text)], strict=True)
    deltas = [{"tool_calls": [{"index": 0, "function": {"arguments": text[a:b]}}]} for a, b in bounds]
    head = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f"}}]}
    expected = json.loads(json.dumps(params, ensure_ascii=False).encode("utf-8", "replace"))
    assert read([head, *deltas]) == (ToolCall("f", expected),)


def test_calls_that_end_in_other_words_are_calls_all_the_same():
    """The endpoint's `stop` does not unmake calls, and its `tool_calls` does not make any."""
    assert arguments('{"x": 1}', "stop") == (ToolCall("f", {"x": 1}),)
    assert read([{"content": "text", "tool_calls": None}], "tool_calls") == ()


async def test_a_reply_of_calls_alone_has_no_text_and_a_first_moment():
    """No deltas of text are made up; the first piece of a call counts as the first output."""
    found, _ = await take([calling(*CALLS)], **TOOLS)
    assert said(found) == found[-1].content == ""
    assert found[-1].ttft_ms is not None
    found, _ = await take([Answer()], **TOOLS)
    assert found[-1].ttft_ms is None


async def test_calls_of_a_broken_stream_are_discarded():
    """A stream that breaks within a call is retried, and only the second attempt's calls are given."""
    found, _ = await take([calling(CALLS[0], chunk_chars=4, cut_after=3), calling(CALLS[1])], **TOOLS)
    at = next(i for i, event in enumerate(found) if isinstance(event, RetryNotice))
    assert "".join(delta.text for delta in found[:at]) != ""
    assert {delta.tool for delta in found[at + 1 : -1]} == {"read_artifact"}
    assert "".join(delta.text for delta in found[at + 1 : -1]) == '{"id": "a"}'
    assert found[-1].calls == (ToolCall("read_artifact", {"id": "a"}),)


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
def test_arguments_with_harmless_noise_are_read(text):
    """Brackets too many, fences, tags, an empty object first, all sent twice, encoded twice, or an object as it is."""
    assert arguments(text) == (ToolCall("f", {"x": 1}),)


@pytest.mark.parametrize("text", ["", None, " ", "null", "{}", "[]", '""', '"{}"', {}, [], "{}{}"])
def test_a_call_without_parameters_is_a_call(text):
    """However nothing is written, it is no parameters."""
    assert arguments(text) == (ToolCall("f", {}),)


def test_several_objects_are_as_many_calls():
    """Some models write the arguments of parallel calls one after the other into one: no call is lost."""
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
    """Never half a value: the call keeps its name, has no parameters, and says what is wrong and how to write it."""
    (call,) = arguments(text)
    assert (call.name, call.params) == ("f", {})
    assert words in call.error
    assert 'such as {"name": "value"}' in call.error
    assert len(call.error) < 500


@pytest.mark.parametrize("text", ['{"content": "half a rep', '{"x": 1', '"{\\"x\\"', "", "{}", '{"x": 1}{"y"'])
def test_a_call_cut_by_the_limit_of_tokens_says_so(text):
    """The model is told that its call was too long, also where nothing of the arguments had come yet."""
    (call,) = arguments(text, "length")
    assert call.params == {}
    assert "limit of tokens" in call.error


def test_token_limit_loses_only_the_truncated_call():
    """Calls before the last are whole, and the last one too if its arguments are complete."""
    calls = (("f", "{}"), ("g", '{"x": 1}'))
    assert read(call_deltas("openai", calls, 4), "length") == (ToolCall("f", {}), ToolCall("g", {"x": 1}))


def test_call_without_a_name_is_reported_to_the_model():
    """Arguments that belong to no tool are not dropped in silence; a piece with nothing in it is nothing."""
    (call,) = read([{"tool_calls": [{"index": 0, "function": {"arguments": '{"x": 1}'}}]}])
    assert (call.name, call.params) == ("", {})
    assert "names no tool" in call.error
    assert read([{"tool_calls": [{"index": 0, "id": "c", "function": {}}, None]}]) == ()


def test_line_breaks_within_a_text_are_read():
    """Strict JSON forbids them, models write them, and there is only one thing that they can mean."""
    assert arguments('{"x": "a\n\tb"}')[0].params == {"x": "a\n\tb"}


def test_numbers_that_nothing_else_holds_stay_text():
    """Integers of more than 64 bits, numbers beyond floats and NaN would break stores and requests: they are text."""
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
def test_half_surrogate_pairs_are_replaced(text):
    """No file and no database takes them; whole pairs stay what they are."""
    assert arguments(text)[0].params == {"a?": "🙂 ?"}


def test_reading_is_linear_in_the_pieces():
    """Four times as many pieces take about four, not sixteen, times as long, whichever way they are marked."""

    def seconds(n, style):
        deltas = call_deltas(style, (("f", json.dumps({"x": "{}" * n})),), 2)
        started = time.process_time()
        assert read(deltas)[0].error is None
        return time.process_time() - started

    for style in ("openai", "another id in each piece", "name in each piece"):
        check_linear(lambda n, style=style: seconds(n, style))


@pytest.mark.parametrize("calls", [5, "text", [5], ["text"], [{"function": "text"}], [{"id": [], "function": {}}]])
async def test_malformed_call_is_a_broken_stream(calls):
    """Something else in the place of calls is an error of the endpoint, not of this program."""
    body = b'data: {"choices": [{"delta": {"tool_calls": %b}}]}\n\n' % json.dumps(calls).encode()
    with pytest.raises(ModelUnavailable, match="not part of a chat completion"):
        await take([Answer(raw=body)], max_retries=0, **TOOLS)


async def test_estimated_tokens_count_tools_and_calls():
    """Without the endpoint's figures, schemas, calls in the transcript and calls in the reply are counted, too."""
    found, _ = await take([calling(("web_search", {"query": "x" * 400}), usage="none")], **TOOLS)
    plain, _ = await take([Answer(usage="none")])
    assert found[-1].usage.estimated
    assert found[-1].usage.output_tokens > 100
    assert found[-1].usage.input_tokens > plain[-1].usage.input_tokens
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
    """One request, no retry, and a message that names the setting which makes it work."""
    with pytest.raises(ModelRejected, match=r"AF_TOOL_PROTOCOL=xml") as caught:
        await take([Answer(status=status, error=error)] * 2, **TOOLS)
    assert str(status) in str(caught.value)
    with pytest.raises((ModelRejected, ModelUnavailable)) as caught:
        await take([Answer(status=status, error=error)] * 2, max_retries=0)
    assert "AF_TOOL_PROTOCOL" not in str(caught.value)


async def test_tool_refusal_in_the_stream_is_reported():
    """Some gateways answer with status 200 and put the refusal into the stream."""
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
    """A request that is repeated in the error, an overflow, a passing failure: what they were before."""
    with pytest.raises((ContextOverflow, ModelRejected, ModelUnavailable)) as caught:
        await take([Answer(status=status, error=error)], max_retries=0, **TOOLS)
    assert "AF_TOOL_PROTOCOL" not in str(caught.value)
    assert isinstance(caught.value, ModelUnavailable) == (status >= 429)


async def test_an_endpoint_that_refuses_tool_choice_is_asked_without_it_from_then_on():
    """One silent second request with the tools and without `tool_choice`; the next turn leaves it out at once."""

    def script(request):
        if "tool_choice" in request.body:
            return Answer(status=400, error="Unrecognized request argument supplied: tool_choice")
        return Answer("fine")

    waits = Waits()
    with ChatServer(script) as server:
        model = OpenAIModel(server.base_url, KEY, "m", sleep=waits)
        for _ in range(2):
            request = ModelRequest((Message("user", "q"),), **TOOLS, tool_choice="none")
            found = [event async for event in model.stream(request)]
            assert (found[-1].content, found[-1].attempts) == ("fine", 1)
        await model.aclose()
    assert ["tool_choice" in request.body for request in server.requests] == [True, False, False]
    assert all("tools" in request.body and "stream_options" in request.body for request in server.requests)
    assert waits == []


def test_a_tools_own_schema_goes_out_as_json():
    """What the `tool` decorator makes of a function is what an endpoint is told."""

    @tool()
    async def add(_ctx: ToolContext, numbers: list[int], note: str = "") -> str:
        """Add numbers."""
        return f"{sum(numbers)} {note}"

    assert json.loads(json.dumps(add.spec.parameters))["required"] == ["numbers"]


def test_a_call_reads_the_same_by_itself():
    """Arguments that a store or another reader holds as text are read by the same rules."""
    assert read_call("f", "".join(pieces('{"x": [1, "a"]}', 1))) == [ToolCall("f", {"x": [1, "a"]})]
