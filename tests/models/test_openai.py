import asyncio

import pytest
from support.chat_endpoint import Answer, ChatProcess, ChatServer, calling, sse
from support.model_turns import KEY, chunk, take, text_of

from artifactflow_nb.core.messages import Message, ToolCall, Usage
from artifactflow_nb.errors import ModelRejected
from artifactflow_nb.models.base import AttemptStart, ModelDelta, ModelReply, ModelRequest, RetryNotice
from artifactflow_nb.models.openai.client import OpenAIModel


async def test_turn_streams_deltas_and_ends_with_the_reply():
    """The last event has text, usage, finish reason, model and times."""
    events, server = await take([Answer("Hello, world", chunk_chars=5, cached_tokens=7, reasoning_tokens=2)])
    reply = events[-1]
    assert [event.text for event in events[:-1]] == ["Hello", ", wor", "ld"]
    assert isinstance(reply, ModelReply)
    assert (reply.content, reply.finish_reason, reply.model, reply.attempts) == (
        "Hello, world",
        "stop",
        "loopback-1",
        1,
    )
    assert reply.usage == Usage(11, 3, reasoning_tokens=2, cache_read_tokens=7)
    assert reply.ttft_ms is not None
    assert reply.ttft_ms > 0
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_request_has_messages_model_and_temperature():
    """A request asks for the usage, and leaves out fields without a value."""
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


async def test_endpoint_without_a_key_gets_a_placeholder():
    """A local server needs no key, but the client requires one."""
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
async def test_multibyte_characters_survive_any_cut(packet_bytes):
    """Chinese, accents and emoji are complete for any split into packets."""
    text = "上下文管理器：naïve café 🙂🙃 — done"
    events, _ = await take([Answer(text, chunk_chars=1, packet_bytes=packet_bytes)])
    assert text_of(events) == events[-1].content == text


@pytest.mark.parametrize("usage", ["last", "finish", "every"])
async def test_last_usage_counts(usage):
    """Usage may be in a last chunk without choices, with the finish reason or in every chunk."""
    events, _ = await take([Answer("abcdef", chunk_chars=2, usage=usage)])
    assert events[-1].usage == Usage(11, 3)


@pytest.mark.parametrize("broken", [None, {}, {"prompt_tokens": None, "completion_tokens": 3}])
async def test_missing_usage_is_estimated_and_marked(broken):
    """Without usable counts the tokens are estimated from characters."""
    body = sse(chunk({"content": "x" * 40}, "stop", usage=broken)) + b"data: [DONE]\n\n"
    events, _ = await take([Answer(raw=body)])
    assert events[-1].usage == Usage(5, 10, estimated=True)


@pytest.mark.parametrize("status", [400, 422])
async def test_rejected_stream_options_are_left_out(status):
    """The request is repeated once without `stream_options`, as an event says, and later requests leave it out."""

    def script(request):
        if "stream_options" in request.body:
            return Answer(status=status, error="Unrecognized request argument supplied: stream_options")
        return Answer("fine")

    with ChatServer(script) as server:
        model = OpenAIModel(server.base_url, KEY, "m")
        for attempts in (2, 1):
            events = [event async for event in model.stream(ModelRequest((Message("user", "q"),), max_retries=0))]
            assert sum(isinstance(event, RetryNotice) for event in events) == attempts - 1
            assert (events[-1].content, events[-1].attempts, events[-1].usage.estimated) == ("fine", attempts, True)
        await model.aclose()
        assert ["stream_options" in request.body for request in server.requests] == [True, False, False]


async def test_closing_the_iteration_closes_the_connection():
    """The endpoint notices the closed connection at once."""
    with ChatServer([Answer("x" * 4000, delay_s=0.01)]) as server:
        model = OpenAIModel(server.base_url, KEY, "m")
        stream = model.stream(ModelRequest((Message("user", "q"),)))
        assert [type(await anext(stream)) for _ in range(2)] == [AttemptStart, ModelDelta]
        await stream.aclose()
        assert await asyncio.to_thread(server.client_left.wait, 2)
        await model.aclose()


async def test_cancelling_closes_the_connection():
    """A cancelled turn is not retried, also if the endpoint is silent."""
    with ChatServer([Answer("abcd", hang_after=1)] * 2) as server:
        model = OpenAIModel(server.base_url, KEY, "m")
        arrived = asyncio.Event()

        async def listen():
            async for event in model.stream(ModelRequest((Message("user", "q"),))):
                if isinstance(event, ModelDelta):
                    arrived.set()

        task = asyncio.create_task(listen())
        await asyncio.wait_for(arrived.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.client_left.wait, 2)
        assert len(server.requests) == 1
        await model.aclose()


async def test_stream_left_open_does_not_delay_the_turn():
    """The turn ends at [DONE], whether or not the endpoint closes its stream."""
    async with asyncio.timeout(20):
        events, _ = await take([Answer("abcd", usage="none", hang_after=3)])
    assert events[-1].content == "abcd"


async def test_closed_model_can_be_used_again():
    """The next turn opens a new connection."""
    with ChatServer([Answer("one"), Answer("two")]) as server:
        model = OpenAIModel(server.base_url, KEY, "m")
        for text in ("one", "two"):
            events = [event async for event in model.stream(ModelRequest((Message("user", "q"),)))]
            assert events[-1].content == text
            await model.aclose()


async def test_server_in_its_own_process_answers_by_model_and_turn():
    """Benchmarks script a whole tool loop in advance without measuring the server."""
    with ChatProcess({"m": [Answer("first"), Answer("second")], "calls": [calling(("f", {"x": 1}))]}) as base_url:
        model = OpenAIModel(base_url, KEY, "m")
        prompt = [Message("user", "q")]
        for text in ("first", "second", "second"):
            events = [event async for event in model.stream(ModelRequest(tuple(prompt)))]
            assert events[-1].content == text
            prompt += [Message("assistant", text), Message("user", "go on")]
        events = [event async for event in model.stream(ModelRequest((Message("user", "q"),), model="calls"))]
        assert events[-1].calls == (ToolCall("f", {"x": 1}),)
        with pytest.raises(ModelRejected, match="'other' does not exist"):
            _ = [event async for event in model.stream(ModelRequest(tuple(prompt), model="other"))]
        await model.aclose()
