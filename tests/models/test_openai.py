import asyncio
import json
import logging
import socket
import time
import traceback
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import Answer, ChatServer, events, sse

from artifactflow_nb.errors import ModelRejected, ModelUnavailable, UsageError
from artifactflow_nb.messages import Message, Usage
from artifactflow_nb.models.base import ModelDelta, ModelReply, ModelRequest, RetryNotice
from artifactflow_nb.models.endpoint_errors import retry_after
from artifactflow_nb.models.openai import LONGEST_DELAY_S, OpenAIModel
from artifactflow_nb.models.sse import SseReader

KEY = "sk-very-secret-key-0123456789"


class Waits(list[float]):
    """Notes how long it was asked to wait, and does not."""

    async def __call__(self, seconds):
        self.append(seconds)


async def take(script, *, prompt="question", waits=None, timeout_s=5.0, **asked):
    """One turn against a server with this script: the events, and the server."""
    with ChatServer(script) as server:
        model = OpenAIModel(
            server.base_url, KEY, "loopback", timeout_s=timeout_s, sleep=Waits() if waits is None else waits
        )
        request = ModelRequest((Message("system", "Be brief."), Message("user", prompt)), **asked)
        try:
            return [event async for event in model.stream(request)], server
        finally:
            await model.aclose()


def said(found, kind="answer"):
    return "".join(event.text for event in found if isinstance(event, ModelDelta) and event.kind == kind)


def chunk(delta, finish=None, **more):
    return {"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


# --- a turn that goes well -----------------------------------------------------------------------------------------


async def test_a_turn_streams_deltas_and_ends_with_the_reply_that_sums_them_up():
    """Every piece arrives as a delta, and the last event holds text, usage, finish reason, model and times."""
    found, server = await take([Answer("Hello, world", chunk_chars=5, cached_tokens=7, reasoning_tokens=2)])
    reply = found[-1]
    assert [event.text for event in found[:-1]] == ["Hello", ", wor", "ld"]
    assert isinstance(reply, ModelReply)
    assert (reply.content, reply.finish_reason, reply.model, reply.attempts) == (
        "Hello, world",
        "stop",
        "loopback-1",
        1,
    )
    assert reply.usage == Usage(11, 3, reasoning_tokens=2, cache_read_tokens=7)
    assert reply.ttft_ms is not None
    assert 0 < reply.ttft_ms < 5000
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_the_request_says_what_was_asked_for():
    """Messages, model and temperature go out as given, and usage is asked for; what was not given is left out."""
    _, server = await take([Answer("x")] * 2, model="other", temperature=0.25)
    body = dict(server.requests[0].body)
    assert body.pop("messages") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "question"},
    ]
    assert body == {
        "model": "other",
        "temperature": 0.25,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    _, server = await take([Answer("x")])
    assert server.requests[0].body["model"] == "loopback"
    assert "temperature" not in server.requests[0].body


async def test_an_endpoint_without_a_key_gets_a_placeholder():
    """A local server needs no key; the client's insistence on one is met."""
    with ChatServer([Answer("x")]) as server:
        model = OpenAIModel(server.base_url, None, "m")
        assert [event async for event in model.stream(ModelRequest((Message("user", "q"),)))][-1].content == "x"
        await model.aclose()


async def test_further_turns_use_one_connection():
    """The stream is read to its end, so that the next turn needs no new connection."""
    with ChatServer([Answer("x")] * 3) as server:
        model = OpenAIModel(server.base_url, KEY, "m")
        for _ in range(3):
            assert [event async for event in model.stream(ModelRequest((Message("user", "q"),)))]
        await model.aclose()
        assert server.connections == 1


@pytest.mark.parametrize("packet_bytes", [1, 2, 3, 7, 64])
async def test_characters_of_many_bytes_survive_packets_cut_anywhere(packet_bytes):
    """Chinese, accents and emoji arrive whole however the network cuts their bytes."""
    text = "上下文管理器：naïve café 🙂🙃 — done"
    found, _ = await take([Answer(text, chunk_chars=1, packet_bytes=packet_bytes)])
    assert said(found) == found[-1].content == text


# --- usage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("usage", ["last", "finish", "every"])
async def test_usage_is_read_wherever_it_stands_and_never_summed(usage):
    """Counts in a last chunk without choices, beside the finish reason or in every chunk: the last ones count."""
    found, _ = await take([Answer("abcdef", chunk_chars=2, usage=usage)])
    assert found[-1].usage == Usage(11, 3)


@pytest.mark.parametrize("broken", [None, {}, {"prompt_tokens": None, "completion_tokens": 3}])
async def test_usage_that_is_missing_is_estimated_and_marked(broken):
    """Without usable counts the tokens are estimated from characters, and say so."""
    body = sse(chunk({"content": "x" * 40}, "stop", usage=broken)) + b"data: [DONE]\n\n"
    found, _ = await take([Answer(raw=body)])
    assert found[-1].usage == Usage(5, 10, estimated=True)


@pytest.mark.parametrize("status", [400, 422])
async def test_an_endpoint_that_refuses_the_usage_option_is_asked_without_it_from_then_on(status):
    """One silent second request without `stream_options`; the next turn leaves it out at once."""

    def script(request):
        if "stream_options" in request.body:
            return Answer(status=status, error="Unrecognized request argument supplied: stream_options")
        return Answer("fine")

    with ChatServer(script) as server:
        model = OpenAIModel(server.base_url, KEY, "m")
        for _ in range(2):
            found = [event async for event in model.stream(ModelRequest((Message("user", "q"),), max_retries=0))]
            assert not any(isinstance(event, RetryNotice) for event in found)
            assert (found[-1].content, found[-1].attempts, found[-1].usage.estimated) == ("fine", 1, True)
        await model.aclose()
        assert ["stream_options" in request.body for request in server.requests] == [True, False, False]


# --- reasoning -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_reasoning_fields_become_reasoning_and_not_content(field):
    """Either field is streamed as reasoning and stays out of the answer."""
    found, _ = await take([Answer("The answer", reasoning="Let me see", reasoning_field=field, chunk_chars=3)])
    assert said(found, "reasoning") == found[-1].reasoning == "Let me see"
    assert said(found) == found[-1].content == "The answer"


@pytest.mark.parametrize("chunk_chars", [1, 2, 3, 5, 8, 100])
@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        ("<think>hm < 3</think>\n\nIt is < 4.", "hm < 3", "It is < 4."),
        ("\n <think>\nhm\n</think>yes", "\nhm\n", "yes"),
        ("<think>cut short", "cut short", ""),
        ("<think></think>only the answer", "", "only the answer"),
        ("<think>a</think>b <think>c</think> d", "a", "b <think>c</think> d"),
        ("no opening tag\n</think>\n\nanswer", "no opening tag\n", "answer"),
        ("plain <thin air> and </thing>", "", "plain <thin air> and </thing>"),
        ("It ends a block with `</think>` as a rule.", "", "It ends a block with `</think>` as a rule."),
        ("Two tags: <think> and </think>.", "", "Two tags: <think> and </think>."),
        ("<tool_call><p>x </think> y</p></tool_call>", "", "<tool_call><p>x </think> y</p></tool_call>"),
        ("ends with <", "", "ends with <"),
        ("<", "", "<"),
        (" \n", "", ""),
    ],
)
async def test_think_tags_are_told_apart_from_the_answer_wherever_they_are_cut(text, reasoning, content, chunk_chars):
    """Text between think tags before the answer, or before a lone closing tag, is reasoning; a tag spoken of is not."""
    with ChatServer([Answer(text, chunk_chars=chunk_chars)]) as server:
        model = OpenAIModel(server.base_url, KEY, "m")
        found = [event async for event in model.stream(ModelRequest((Message("user", "q"),)))]
        await model.aclose()
    assert (found[-1].reasoning, found[-1].content) == (reasoning, content)
    if "no opening tag" not in text:  # that one is known to be reasoning only once it has been shown
        assert (said(found, "reasoning"), said(found)) == (reasoning, content)


# --- streams as endpoints send them --------------------------------------------------------------------------------

HELLO = sse(chunk({"content": "hello"}))
STOP = sse(chunk({}, "stop"))
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    "body",
    [
        HELLO + STOP + DONE,
        HELLO + STOP,
        HELLO + DONE,
        (HELLO + STOP + DONE).replace(b"\n", b"\r\n"),
        b": ping\n\n" + HELLO + b":\n\n: OPENROUTER PROCESSING\n\n" + STOP + DONE,
        b"\xef\xbb\xbf" + HELLO + STOP + DONE,
        b"data:\n\ndata: \n\n" + HELLO + b"\n\n\n" + STOP + DONE,
        b"id: 1\nretry: 5\nevent: message\n" + HELLO + STOP + DONE,
        (HELLO + STOP + DONE).replace(b"data: ", b"data:").replace(b"\n\n", b"\n"),
        HELLO + STOP + b"data: [DONE]",
        HELLO
        + sse(chunk(None))
        + sse({"choices": None})
        + sse({"choices": []})
        + sse({"choices": [None]})
        + STOP
        + DONE,
        HELLO + sse(chunk({"content": None, "reasoning_content": None, "tool_calls": None})) + STOP + DONE,
        sse(chunk({"role": "assistant", "content": ""})) + HELLO + STOP + DONE + b"data: {broken\n\n",
        b'data: {"choices": [{"delta":\ndata: {"content": "hello"}}]}\n\n' + STOP + DONE,
        sse(chunk({"content": [{"type": "text", "text": "hello"}]})) + STOP + DONE,
        b"unknown: field\nnoise\n" + HELLO + STOP + DONE,
        json.dumps({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}).encode(),
        json.dumps({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}, indent=2).encode(),
    ],
)
async def test_a_stream_is_read_as_endpoints_really_send_it(body):
    """Comments, empty data, CRLF, nulls, no [DONE], no blank lines, or plain JSON: the answer is read all the same."""
    found, _ = await take([Answer(raw=body)], max_retries=0)
    assert (found[-1].content, found[-1].finish_reason) == ("hello", "stop")


async def test_broken_characters_do_not_break_the_stream():
    """Bytes that are no UTF-8 and half surrogate pairs are replaced, so that the text can be stored."""
    body = HELLO.replace(b"hello", b"a\xffb") + HELLO.replace(b"hello", b"c\\ud83dd") + STOP + DONE
    found, _ = await take([Answer(raw=body)], max_retries=0)
    assert found[-1].content == "a\ufffdbc?d"


@given(st.lists(st.integers(0, 400), max_size=12).map(sorted), st.sampled_from(["\n", "\r\n"]))
def test_the_reader_gives_the_same_events_however_the_bytes_are_cut(cuts, line_end):
    """Cutting the stream at any bytes changes nothing in what is read."""
    body = b"".join(events(Answer("上下文 🙂 text", chunk_chars=3), usage_asked=True)).replace(b"\n", line_end.encode())
    whole, cut = SseReader(), SseReader()
    expected = whole.feed(body) + whole.finish()
    bounds = [0, *(n * len(body) // 400 for n in cuts), len(body)]
    found = [payload for a, b in pairwise(bounds) for payload in cut.feed(body[a:b])]
    assert found + cut.finish() == expected
    assert len(expected) > 4
    assert cut.done


def test_reading_is_linear_in_a_line_of_many_packets():
    """A line that arrives in twice as many packets takes about twice, not four times, as long."""

    def seconds(packets):
        reader, started = SseReader(), time.process_time()
        for _ in range(packets):
            reader.feed(b"x" * 50)
        reader.finish()
        return time.process_time() - started

    short = min(seconds(20_000) for _ in range(3))
    assert min(seconds(80_000) for _ in range(3)) < 10 * short + 0.01


# --- failures ------------------------------------------------------------------------------------------------------


async def test_a_server_error_is_retried_and_each_retry_is_told():
    """Two failures that may pass: two notices with growing delays, then the answer of the third attempt."""
    waits = Waits()
    script = [Answer(status=503, error="overloaded"), Answer(status=500), Answer("at last")]
    found, server = await take(script, waits=waits, max_retries=2, retry_delay_s=0.5)
    notices = [event for event in found if isinstance(event, RetryNotice)]
    assert [(notice.attempt, notice.delay_s) for notice in notices] == [(1, 0.5), (2, 1.0)]
    assert waits == [0.5, 1.0]
    assert "503" in notices[0].reason
    assert "overloaded" in notices[0].reason
    assert (found[-1].content, found[-1].attempts, len(server.requests)) == ("at last", 3, 3)


async def test_when_the_retries_are_used_up_the_last_failure_is_raised():
    """`max_retries` counts the further attempts, and 0 means a single one."""
    for retries in (0, 1):
        waits = Waits()
        with pytest.raises(ModelUnavailable, match="status 502"):
            await take([Answer(status=502)] * 3, waits=waits, max_retries=retries)
        assert len(waits) == retries


@pytest.mark.parametrize(
    ("headers", "delay"),
    [
        ((("retry-after", "7"),), 7.0),
        ((("retry-after", "0"),), 0.0),
        ((("retry-after-ms", "1500"),), 1.5),
        ((("retry-after", "86400"),), LONGEST_DELAY_S),
        ((("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"),), 0.0),
        ((("retry-after", "soon"),), 0.25),
        ((("retry-after", "nan"),), 0.25),
        ((), 0.25),
    ],
)
async def test_retry_after_is_honoured_within_reason(headers, delay):
    """Seconds, milliseconds or a date set the delay, up to a cap; nonsense leaves the own one."""
    waits = Waits()
    await take([Answer(status=429, headers=headers), Answer("x")], waits=waits, retry_delay_s=0.25)
    assert waits == [delay]


def test_retry_after_may_be_a_date_to_come():
    """A date is turned into the seconds until then."""
    moment = datetime.now(UTC) + timedelta(seconds=30)
    assert 28 < retry_after({"retry-after": format_datetime(moment, usegmt=True)}) <= 30


async def test_a_stream_that_breaks_is_retried_and_its_text_is_void():
    """The retry starts the text again; the reply holds the second text only."""
    found, _ = await take([Answer("first try, cut", chunk_chars=4, cut_after=2), Answer("second try")])
    before = found[: next(i for i, event in enumerate(found) if isinstance(event, RetryNotice))]
    assert said(before) == "first tr"
    assert (found[-1].content, found[-1].attempts) == ("second try", 2)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer("abcdefgh", chunk_chars=2, cut_after=2), "connection"),
        (Answer("abcd", chunk_chars=2, finish_reason=None, done=False), "without a finish reason"),
        (Answer(raw=b"".join(events(Answer("abcd"), usage_asked=False)[:1])), "without a finish reason"),
        (Answer(raw=sse(chunk({"content": "abcd"})) + b"data: {broken\n\n"), "{broken"),
        (Answer(raw=sse(chunk({"content": "abcd"})) + b'data: {"choices": 3}\n\n'), "no part of a chat answer"),
        (Answer(raw=sse(chunk({"content": "abcd"})) + b"data: 3\n\n"), "no part of a chat answer"),
        (Answer(raw=sse(chunk({"content": "abcd"})) + sse({"error": {"message": "engine died"}})), "engine died"),
        (Answer(raw=sse(chunk({"content": "abcd"})) + b'event: error\ndata: "engine died"\n\n'), "engine died"),
        (Answer(raw=sse(chunk({"content": "abcd"})) + b"event: error\ndata: engine died\n\n"), "engine died"),
    ],
)
async def test_a_stream_that_ends_badly_keeps_the_text_that_had_arrived(answer, reason):
    """A broken, garbled or failing stream raises, says why, and keeps the partial text."""
    with pytest.raises(ModelUnavailable) as caught:
        await take([answer], max_retries=0)
    assert caught.value.partial == "abcd"
    assert reason in str(caught.value)


async def test_a_connection_that_breaks_after_the_finish_reason_loses_nothing():
    """An answer that said that it is complete is complete."""
    body = Answer("abcd", usage="finish", done=False, cut_after=2)
    found, server = await take([body])
    assert (found[-1].content, found[-1].usage, len(server.requests)) == ("abcd", Usage(11, 1), 1)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_a_refusal_is_never_retried_and_tells_the_endpoints_own_words(status):
    """A 4xx that will not change is raised at once, with address, status and message."""
    waits = Waits()
    with pytest.raises(ModelRejected) as caught:
        await take([Answer(status=status, error="no such thing")] * 2, waits=waits)
    assert waits == []
    for part in ("http://127.0.0.1:", "/v1/chat/completions", str(status), "no such thing"):
        assert part in str(caught.value)


@pytest.mark.parametrize(("status", "advice"), [(401, "OPENAI_API_KEY"), (404, "AF_MODEL"), (404, "/v1")])
async def test_a_refusal_says_what_to_do(status, advice):
    """The message names the setting to look at."""
    with pytest.raises(ModelRejected, match=advice):
        await take([Answer(status=status)])


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=429, error={"error": {"message": "pay", "code": "insufficient_quota"}}),
        Answer(raw=sse({"error": {"message": "too long", "code": 400}})),
        Answer(raw=b'{"error": {"message": "bad", "type": "invalid_request_error"}}', content_type="application/json"),
        Answer(raw=b"<html><body>Log in</body></html>", content_type="text/html"),
    ],
)
async def test_failures_that_will_not_pass_are_recognised_whatever_their_status(answer):
    """A used-up quota, a refusal told in a stream with status 200, and a web page are not asked for again."""
    waits = Waits()
    with pytest.raises(ModelRejected):
        await take([answer] * 2, waits=waits)
    assert waits == []


@pytest.mark.parametrize(
    "error",
    [
        {"error": {"message": "the reason"}},
        {"error": "the reason"},
        {"detail": "the reason"},
        {"object": "error", "message": "the reason"},
        {"detail": [{"loc": ["body"], "msg": "the reason"}]},
    ],
)
async def test_the_endpoints_message_is_found_in_every_common_shape(error):
    """Each server writes its errors in its own way; the message is what is shown."""
    with pytest.raises(ModelRejected, match=r"status 400: the reason$"):
        await take([Answer(status=400, error=error)])


async def test_a_long_message_is_shortened():
    """An endpoint that answers with a page of text does not fill the notebook with it."""
    with pytest.raises(ModelRejected) as caught:
        await take([Answer(status=400, error="x" * 100_000)])
    assert len(str(caught.value)) < 600


async def test_a_refused_connection_asks_whether_the_server_runs():
    """Nobody listens: the message names the address and asks the obvious question."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        model = OpenAIModel(f"http://127.0.0.1:{port}/v1", KEY, "m", sleep=Waits())
        with pytest.raises(ModelUnavailable, match=rf"127\.0\.0\.1:{port}.*Is the server running"):
            _ = [event async for event in model.stream(ModelRequest((Message("user", "q"),)))]
        await model.aclose()


async def test_an_unknown_host_points_to_the_base_url(monkeypatch):
    """A host that no name server knows is told as such."""
    for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    model = OpenAIModel("http://no-such-host.invalid/v1", KEY, "m")
    with pytest.raises(ModelUnavailable, match=r"no-such-host\.invalid was not found\. Check OPENAI_BASE_URL"):
        _ = [event async for event in model.stream(ModelRequest((Message("user", "q"),), max_retries=0))]
    await model.aclose()


async def test_an_endpoint_that_says_nothing_times_out():
    """Silence longer than the time-out is a failure that may pass, and keeps the text."""
    with pytest.raises(ModelUnavailable, match=r"sent nothing for 0\.2 s") as caught:
        await take([Answer("abcdefgh", chunk_chars=2, hang_after=2)], timeout_s=0.2, max_retries=0)
    assert caught.value.partial == "abcd"


async def test_a_connection_closed_without_an_answer_is_retried():
    """A server that hangs up is asked again."""
    found, _ = await take([Answer(drop=True), Answer("x")])
    assert (found[-1].content, found[-1].attempts) == ("x", 2)


# --- the key -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=401, error=f"Incorrect API key provided: {KEY}"),
        Answer(status=500, error="x" * (290 - len(KEY) // 2) + KEY),
        Answer(raw=sse({"error": {"message": f"bad key {KEY}"}})),
        Answer(raw=f"data: {KEY} is no JSON\n\n".encode()),
    ],
)
async def test_the_key_is_in_no_error_and_no_log_even_if_the_endpoint_repeats_it(answer, caplog):
    """Errors, notices, repr and logs are free of the key, and of its pieces where a message was shortened."""
    caplog.set_level(logging.DEBUG)
    with pytest.raises((ModelRejected, ModelUnavailable)) as caught:
        await take([answer], max_retries=0)
    assert KEY[:10] not in str(caught.value)
    assert KEY not in caplog.text
    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert KEY not in repr(OpenAIModel("http://h/v1", KEY, "m"))


async def test_a_password_in_the_address_is_not_shown():
    """Credentials that stand in the base URL do not reach a message."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        model = OpenAIModel(f"http://user:hunter2@127.0.0.1:{taken.getsockname()[1]}/v1?k=v", KEY, "m")
        with pytest.raises(ModelUnavailable) as caught:
            _ = [event async for event in model.stream(ModelRequest((Message("user", "q"),), max_retries=0))]
        await model.aclose()
    assert "hunter2" not in str(caught.value) + repr(model)


@pytest.mark.parametrize("key", ["sk-ключ", "sk-a\nsk-b"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(key):
    """A key with a line break or a foreign letter inside was copied wrongly; better said now than by the network."""
    with pytest.raises(UsageError) as caught:
        OpenAIModel(None, key, "m")
    assert key not in str(caught.value)


def test_an_address_without_a_scheme_is_refused():
    """`localhost:8000` is no address; the message shows one."""
    with pytest.raises(UsageError, match=r"'localhost:8000'.*http://localhost:8000/v1"):
        OpenAIModel("localhost:8000", None, "m")


# --- leaving early -------------------------------------------------------------------------------------------------


async def test_closing_the_iteration_closes_the_connection_at_once():
    """The endpoint notices within a moment that nobody listens any more."""
    with ChatServer([Answer("x" * 4000, delay_s=0.01)]) as server:
        model = OpenAIModel(server.base_url, KEY, "m")
        stream = model.stream(ModelRequest((Message("user", "q"),)))
        assert await anext(stream)
        await stream.aclose()
        assert await asyncio.to_thread(server.client_left.wait, 2)
        await model.aclose()


async def test_cancelling_closes_the_connection_at_once():
    """A cancelled turn frees the endpoint, in the middle of silence too, and is not retried."""
    with ChatServer([Answer("abcd", hang_after=1)] * 2) as server:
        model = OpenAIModel(server.base_url, KEY, "m")
        arrived = asyncio.Event()

        async def listen():
            async for _ in model.stream(ModelRequest((Message("user", "q"),))):
                arrived.set()

        task = asyncio.create_task(listen())
        await asyncio.wait_for(arrived.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.client_left.wait, 2)
        assert len(server.requests) == 1
        await model.aclose()


async def test_a_stream_left_open_after_its_end_does_not_hold_up_the_turn():
    """After [DONE] the turn is over, whether or not the endpoint closes its stream."""
    started = time.monotonic()
    found, _ = await take([Answer("abcd", usage="none", hang_after=3)])
    assert found[-1].content == "abcd"
    assert time.monotonic() - started < 2


async def test_a_model_can_be_used_again_after_it_was_closed():
    """Closing frees connections; the next turn opens a new one."""
    with ChatServer([Answer("one"), Answer("two")]) as server:
        model = OpenAIModel(server.base_url, KEY, "m")
        for text in ("one", "two"):
            found = [event async for event in model.stream(ModelRequest((Message("user", "q"),)))]
            assert found[-1].content == text
            await model.aclose()
