import logging
import socket
import subprocess
import sys
import traceback
from base64 import b64encode

import pytest
from support.chat_endpoint import Answer, ChatServer, events, sse
from support.model_turns import KEY, Waits, chunk, take, text_of

from artifactflow_nb.core.messages import Message, Usage
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.errors import ContextOverflow, ModelRejected, ModelUnavailable, UsageError
from artifactflow_nb.models.base import AttemptStart, ModelDelta, ModelRequest, RetryNotice
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.models.openai.errors import Endpoint


async def test_server_error_is_retried_with_a_notice():
    """Two temporary failures give two notices with growing delays, then the reply of the third attempt."""
    waits = Waits()
    script = [Answer(status=503, error="overloaded"), Answer(status=500), Answer("at last")]
    found, server = await take(script, waits=waits, max_retries=2, retry_delay_s=0.5)
    notices = [event for event in found if isinstance(event, RetryNotice)]
    assert [(notice.attempt, notice.delay_s) for notice in notices] == [(1, 0.5), (2, 1.0)]
    assert waits == [0.5, 1.0]
    assert "503" in notices[0].reason
    assert "overloaded" in notices[0].reason
    assert (found[-1].content, found[-1].attempts, len(server.requests)) == ("at last", 3, 3)


async def test_last_failure_is_raised_after_the_retries():
    """`max_retries` counts the further attempts; 0 means a single attempt."""
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
        ((("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT"),), 0.0),
        ((("retry-after", "soon"),), 0.25),
        ((("retry-after", "nan"),), 0.25),
        ((), 0.25),
    ],
)
async def test_retry_after_sets_the_delay(headers, delay):
    """The delay is in seconds, in milliseconds or a date, up to a maximum; an invalid value is ignored."""
    waits = Waits()
    await take([Answer(status=429, headers=headers), Answer("x")], waits=waits, retry_delay_s=0.25)
    assert waits == [delay]


async def test_broken_stream_is_retried_and_its_text_discarded():
    """The reply has the text of the second attempt only."""
    found, _ = await take([Answer("first try, cut", chunk_chars=4, cut_after=2), Answer("second try")])
    before = found[: next(i for i, event in enumerate(found) if isinstance(event, RetryNotice))]
    assert text_of(before) == "first tr"
    assert (found[-1].content, found[-1].attempts) == ("second try", 2)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer("abcdefgh", chunk_chars=2, cut_after=2), "connection"),
        (Answer("abcd", chunk_chars=2, finish_reason=None, done=False), "without a finish reason"),
        (Answer(raw=b"".join(events(Answer("abcd"), with_usage=False)[:1])), "without a finish reason"),
        (Answer(raw=sse(chunk({"content": "abcd"})) + b"data: {broken\n\n"), "{broken"),
        (Answer(raw=sse(chunk({"content": "abcd"})) + b'data: {"choices": 3}\n\n'), "not part of a chat completion"),
        (Answer(raw=sse(chunk({"content": "abcd"})) + b"data: 3\n\n"), "not part of a chat completion"),
        (Answer(raw=sse(chunk({"content": "abcd"})) + sse({"error": {"message": "engine died"}})), "engine died"),
        (Answer(raw=sse(chunk({"content": "abcd"})) + b'event: error\ndata: "engine died"\n\n'), "engine died"),
        (Answer(raw=sse(chunk({"content": "abcd"})) + b"event: error\ndata: engine died\n\n"), "engine died"),
    ],
)
async def test_broken_stream_keeps_its_partial_text(answer, reason):
    """The error of a broken, invalid or failing stream has the reason and the partial text."""
    with pytest.raises(ModelUnavailable) as caught:
        await take([answer], max_retries=0)
    assert caught.value.partial == "abcd"
    assert reason in str(caught.value)


async def test_connection_may_break_after_the_finish_reason():
    """A reply with a finish reason is complete."""
    body = Answer("abcd", usage="finish", done=False, cut_after=2)
    found, server = await take([body])
    assert (found[-1].content, found[-1].usage, len(server.requests)) == ("abcd", Usage(11, 1), 1)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_permanent_error_is_not_retried(status):
    """A permanent 4xx is raised at once, with address, status and the endpoint's message."""
    waits = Waits()
    with pytest.raises(ModelRejected) as caught:
        await take([Answer(status=status, error="no such thing")] * 2, waits=waits)
    assert waits == []
    for part in ("http://127.0.0.1:", "/v1/chat/completions", str(status), "no such thing"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("key", "variable", "advice"),
    [
        ("key-1234", "key-1234", "Check OPENAI_API_KEY"),
        ("key-1234", "", "Check the key that was passed"),
        (None, "", "No key was sent"),
    ],
)
async def test_error_names_the_origin_of_a_refused_key(key, variable, advice, monkeypatch):
    """The variable is named only if the key came from the variable."""
    monkeypatch.setenv("OPENAI_API_KEY", variable)
    with ChatServer([Answer(status=401)]) as server:
        model = OpenAIModel(server.base_url, key, "m")
        with pytest.raises(ModelRejected, match=advice):
            [event async for event in model.stream(ModelRequest((Message("user", "Hi"),)))]
        await model.aclose()


@pytest.mark.parametrize(("status", "advice"), [(404, "AF_MODEL"), (404, "/v1")])
async def test_permanent_error_has_advice(status, advice):
    """The message names the setting to check."""
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
async def test_permanent_errors_are_recognised_with_any_status(answer):
    """A used-up quota, an error within a stream of status 200, and a web page are not retried."""
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
async def test_endpoint_message_is_found_in_every_common_format(error):
    """Servers format their errors differently; only the message is shown."""
    with pytest.raises(ModelRejected, match=r"status 400: the reason$"):
        await take([Answer(status=400, error=error)])


async def test_long_message_is_shortened():
    """A whole page as an error message is cut."""
    with pytest.raises(ModelRejected) as caught:
        await take([Answer(status=400, error="x" * 100_000)])
    assert len(str(caught.value)) < 600


async def test_refused_connection_suggests_to_check_the_server():
    """The message names the address and asks whether the server is running."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        model = OpenAIModel(f"http://127.0.0.1:{port}/v1", KEY, "m", sleep=Waits())
        with pytest.raises(ModelUnavailable, match=rf"127\.0\.0\.1:{port}.*Is the server running"):
            _ = [event async for event in model.stream(ModelRequest((Message("user", "q"),)))]
        await model.aclose()


async def test_unknown_host_suggests_to_check_the_base_url(monkeypatch):
    """The message names the host."""
    for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    model = OpenAIModel("http://no-such-host.invalid/v1", KEY, "m")
    with pytest.raises(ModelUnavailable, match=r"no-such-host\.invalid was not found\. Check OPENAI_BASE_URL"):
        _ = [event async for event in model.stream(ModelRequest((Message("user", "q"),), max_retries=0))]
    await model.aclose()


async def test_silent_endpoint_times_out():
    """Silence beyond the time limit is a temporary failure with the partial text."""
    with pytest.raises(ModelUnavailable, match=r"sent nothing for 1\.5 s") as caught:
        await take([Answer("abcdefgh", chunk_chars=2, hang_after=2)], timeout_s=1.5, max_retries=0)
    assert caught.value.partial == "abcd"


async def test_reply_that_stops_in_the_middle_is_retried():
    """After the first text a shorter limit counts between two pieces; the stream stays open all the time."""
    found, server = await take([Answer("abcdefgh", chunk_chars=2, hang_after=2), Answer("x")], stall_timeout_s=0.3)
    (notice,) = [event for event in found if isinstance(event, RetryNotice)]
    assert "sent no data for 0.3 s in the middle of its reply. AF_STALL_TIMEOUT_S" in notice.reason
    assert (found[-1].content, found[-1].attempts, len(server.requests)) == ("x", 2, 2)


async def test_first_text_may_take_longer_than_later_texts():
    """The shorter limit does not count before the first text."""
    with pytest.raises(ModelUnavailable, match=r"sent nothing for 0\.8 s"):
        await take([Answer("ab", hang_after=0)], timeout_s=0.8, stall_timeout_s=0.2, max_retries=0)


async def test_reply_is_complete_although_its_stream_stays_open():
    """After the finish reason, silence is no failure."""
    answer = Answer("ab", chunk_chars=1, usage="none", done=False, hang_after=4)
    found, _ = await take([answer], stall_timeout_s=0.2, max_retries=0)
    assert (found[-1].content, found[-1].finish_reason) == ("ab", "stop")


async def test_attempt_starts_after_the_notice():
    """The next attempt follows a notice; the reason in the notice does not advise to wait or to check the quota."""
    script = [Answer(status=429, error="slow down", headers=(("retry-after", "6"),)), Answer("x")]
    notice, start, *deltas, _reply = (await take(script))[0]
    assert (notice.delay_s, start) == (6.0, AttemptStart())
    assert notice.reason.endswith("status 429: slow down.")
    assert all(isinstance(delta, ModelDelta) for delta in deltas)


async def test_advice_follows_a_full_stop():
    """The endpoint's own text ends before the advice begins."""
    for text in ("bad key", "bad key."):
        with pytest.raises(ModelRejected, match=r"status 401: bad key\. Check "):
            await take([Answer(status=401, error=text)])


async def test_connection_closed_without_an_answer_is_retried():
    """A server that closes the connection gets the request again."""
    found, _ = await take([Answer(drop=True), Answer("x")])
    assert (found[-1].content, found[-1].attempts) == ("x", 2)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=401, error=f"Incorrect API key provided: {KEY}"),
        Answer(status=500, error="x" * (290 - len(KEY) // 2) + KEY),
        Answer(raw=sse({"error": {"message": f"bad key {KEY}"}})),
        Answer(raw=f"data: {KEY} is not JSON\n\n".encode()),
    ],
)
async def test_repeated_key_is_not_in_errors_or_logs(answer, caplog):
    """Errors, notices, repr and logs have no part of the key, even in a shortened message."""
    caplog.set_level(logging.DEBUG)
    with pytest.raises((ModelRejected, ModelUnavailable)) as caught:
        await take([answer], max_retries=0)
    assert KEY[:10] not in str(caught.value)
    assert KEY not in caplog.text
    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert KEY not in repr(OpenAIModel("http://h/v1", KEY, "m"))


async def test_password_in_the_address_is_not_shown():
    """No message has the credentials of the base URL."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        model = OpenAIModel(f"http://user:hunter2@127.0.0.1:{unused.getsockname()[1]}/v1?k=v", KEY, "m")
        with pytest.raises(ModelUnavailable) as caught:
            _ = [event async for event in model.stream(ModelRequest((Message("user", "q"),), max_retries=0))]
        await model.aclose()
    assert "hunter2" not in str(caught.value) + repr(model)


@pytest.mark.parametrize("login", ["ada:hunter2-pass", "ada:hunter2%2Dpass", ":hunter2-pass", "hunter2-pass"])
async def test_password_in_the_address_is_sent_and_never_logged(login: str, caplog: pytest.LogCaptureFixture) -> None:
    """Libraries log addresses at INFO, so the password is sent in a header, in place of the key."""
    caplog.set_level(logging.DEBUG)
    user, _, password = login.replace("%2D", "-").partition(":")
    sent = b64encode(f"{user}:{password}".encode()).decode()
    answers = [Answer("Hello."), Answer(status=400, error=f"bad login {user}:{password}, {sent}")]
    with ChatServer(answers) as server:
        model = OpenAIModel(server.base_url.replace("//", f"//{login}@"), KEY, "m")
        request = ModelRequest((Message("user", "q"),), max_retries=0)
        try:
            assert text_of([event async for event in model.stream(request)]) == "Hello."
            with pytest.raises(ModelRejected) as refused:
                _ = [event async for event in model.stream(request)]
        finally:
            await model.aclose()
    assert [request.headers["authorization"] for request in server.requests] == [f"Basic {sent}"] * 2
    logged = caplog.text + "".join(f"{record.args!r}{record.__dict__!r}" for record in caplog.records)
    assert f"{server.base_url}/chat/completions" in logged
    output = logged + str(refused.value) + repr(model) + repr(model._endpoint())
    assert [word for word in ("hunter2", sent, KEY) if word in output] == []


@pytest.mark.parametrize(
    "address",
    ["http://ada:hunter2@host:99999/v1", "http://ada:hunter2@[::1", "http://ada:hun/ter2@host/v1", "x://a:hunter2@h"],
)
def test_invalid_address_is_rejected_without_its_password(address: str) -> None:
    """The password is not shown even if a slash in the password makes its end ambiguous."""
    with pytest.raises(UsageError) as refused:
        OpenAIModel(address, KEY, "m")
    with pytest.raises(UsageError) as also_refused:
        Settings.load(searxng_url=address, model="", base_url="x" + address)
    assert "ter2" not in str(refused.value) + str(also_refused.value)
    assert "is not a web address" in str(refused.value)


@pytest.mark.parametrize("key", ["sk-ключ", "sk-a\nsk-b"])
def test_invalid_key_is_rejected_without_being_shown(key):
    """A key with a line break or a non-ASCII letter was copied incorrectly."""
    with pytest.raises(UsageError) as caught:
        OpenAIModel(None, key, "m")
    assert key not in str(caught.value)


@pytest.mark.parametrize("address", ["localhost:8000", "", "http://", "http://[half/v1", "http://host:port/v1"])
def test_malformed_addresses_are_rejected(address):
    """The message has the address and an example."""
    with pytest.raises(UsageError) as caught:
        OpenAIModel(address, None, "m")
    assert repr(address) in str(caught.value)
    assert "http://localhost:8000/v1" in str(caught.value)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, {"error": {"code": "context_length_exceeded", "message": "This is too much."}}),
        (400, {"error": {"type": "exceed_context_size_error", "message": "request (9) exceeds", "code": 400}}),
        (400, {"message": "This model's maximum context length is 8192 tokens"}),
        (400, [{"error": {"code": 400, "message": "The input token count (9) exceeds the maximum number of tokens."}}]),
        (400, {"error": {"message": "Invalid request: Your request exceeded model token limit: 8192"}}),
        (
            400,
            {"code": "model_max_prompt_tokens_exceeded", "message": "prompt token count of 9 exceeds the limit of 8"},
        ),
        (422, {"error": "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000"}),
        (422, {"error": "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens"}),
        (400, {"error": {"code": "1261", "message": "Prompt 超长"}}),
        (413, {"error": "prompt is too long: 9 tokens"}),
        (413, {"error": {"code": "tokens_limit_reached", "message": "Max size: 8000 tokens."}}),
        (413, "<html><head><title>413 Request Entity Too Large</title></head></html>"),
        (429, {"message": "Request too large for m (for limit m) in organization o: Limit 30000, Requested 37313."}),
    ],
)
async def test_context_overflow_has_its_own_error(status: int, error: object) -> None:
    """Every known message about a too long prompt is a ContextOverflow; other errors, and rate limits, are not."""
    endpoint = Endpoint("http://127.0.0.1/v1", "a-key-that-is-long")
    assert isinstance(endpoint.status_error(status, error, {}), ContextOverflow)
    assert not isinstance(endpoint.status_error(400, {"error": {"message": "bad temperature"}}, {}), ContextOverflow)
    assert not isinstance(endpoint.status_error(429, {"message": "Too many tokens, please wait"}, {}), ContextOverflow)
    limit = {"message": "max_tokens must be less than or equal to 8192", "param": "max_tokens"}
    assert not isinstance(endpoint.status_error(400, limit, {}), ContextOverflow)


def test_attempt_starts_after_the_imports_of_the_client() -> None:
    """In a new process the first request needs modules that take a second to import; no later import follows."""
    code = """
import asyncio, sys
from artifactflow_nb.core.messages import Message
from artifactflow_nb.models.base import AttemptStart, ModelRequest
from artifactflow_nb.models.openai.client import OpenAIModel

async def main():
    model = OpenAIModel(sys.argv[1], "key", "loopback")
    events = model.stream(ModelRequest((Message("user", "question"),)))
    assert await anext(events) == AttemptStart()
    before = set(sys.modules)
    async for event in events:
        pass
    large = {name for name in set(sys.modules) - before if name.partition(".")[0] in {"openai", "httpx", "httpcore"}}
    print(event.content, sorted(large))
    await model.aclose()

asyncio.run(main())
"""
    with ChatServer([Answer("Yes.")]) as server:
        ran = subprocess.run([sys.executable, "-c", code, server.base_url], capture_output=True, text=True, check=False)
    assert ran.stdout == "Yes. []\n", ran.stdout + ran.stderr
