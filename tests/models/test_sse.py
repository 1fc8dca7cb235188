import json
import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.chat_endpoint import Answer, events, sse
from support.cpu_time import check_linear
from support.model_turns import chunk, take

from artifactflow_nb.models.openai.sse import SseReader

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
async def test_streams_of_real_endpoints_are_read(body):
    """Streams may have comments, empty data, CRLF or nulls, lack [DONE] or blank lines, or be plain JSON."""
    found, _ = await take([Answer(raw=body)], max_retries=0)
    assert (found[-1].content, found[-1].finish_reason) == ("hello", "stop")


async def test_broken_characters_are_replaced():
    """Invalid UTF-8 and lone surrogates are replaced, so that the text can be stored."""
    body = HELLO.replace(b"hello", b"a\xffb") + HELLO.replace(b"hello", b"c\\ud83dd") + STOP + DONE
    found, _ = await take([Answer(raw=body)], max_retries=0)
    assert found[-1].content == "a\ufffdbc?d"


@given(st.lists(st.integers(0, 400), max_size=12).map(sorted), st.sampled_from(["\n", "\r\n"]))
def test_events_do_not_depend_on_the_cuts(cuts, line_end):
    """Any split of the bytes gives the same events."""
    body = b"".join(events(Answer("上下文 🙂 text", chunk_chars=3), with_usage=True)).replace(b"\n", line_end.encode())
    whole, cut = SseReader(), SseReader()
    expected = whole.feed(body) + whole.finish()
    bounds = [0, *(n * len(body) // 400 for n in cuts), len(body)]
    found = [payload for a, b in pairwise(bounds) for payload in cut.feed(body[a:b])]
    assert found + cut.finish() == expected
    assert len(expected) > 4
    assert cut.done


@pytest.mark.timed
def test_reading_is_linear_in_the_packets_of_a_line():
    """Four times as many packets take about four times as long."""

    def seconds(packets):
        reader, started = SseReader(), time.process_time()
        for _ in range(packets):
            reader.feed(b"x" * 50)
        reader.finish()
        return time.process_time() - started

    check_linear(seconds)
