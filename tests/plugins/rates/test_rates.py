"""The rate limiter: never above its limits, and one wait for all requests of a model."""

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from conftest import OpenWorkbench
from hypothesis import given
from hypothesis import strategies as st
from support.chat_endpoint import Answer, ChatServer

import artifactflow_nb as af
from artifactflow_nb.core.messages import Message
from artifactflow_nb.errors import ModelUnavailable, UsageError
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.plugins.rates import WINDOW_S, Grant, Rate, RateLimiter

SHORT = ModelRequest((Message("user", "Who?"),))


class Clock:
    """A clock that only waits move; requests arrive at times of their own."""

    def __init__(self) -> None:
        self.now = 0.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


def limiter(clock: Clock, **limits: int) -> RateLimiter:
    limited = RateLimiter(lambda: clock.now, clock.sleep)
    limited.limit({"small": Rate(**limits)})
    return limited


async def granted(limited: RateLimiter, clock: Clock, arrivals: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """Ask at these times, each with a reply of some tokens; return the time and the tokens of each request."""
    grants: list[Grant] = []
    for arrival, tokens in arrivals:
        clock.now = max(clock.now, arrival)
        limited_bucket = await limited.acquire("here", "small", SHORT)
        limited_bucket.bucket.reply_tokens = 1
        limited_bucket.report(tokens)
        grants.append(limited_bucket)
    return [(grant.granted_at, grant.tokens) for grant in grants]


@given(
    st.lists(st.tuples(st.floats(0, 300), st.just(1)), min_size=1, max_size=80),
    st.integers(1, 12),
)
def test_rate_is_never_above_its_requests_in_any_window(arrivals: list[tuple[float, int]], limit: int) -> None:
    clock = Clock()
    times = [at for at, _ in asyncio.run(granted(limiter(clock, requests=limit), clock, sorted(arrivals)))]
    for start in times:
        assert sum(start <= at < start + WINDOW_S for at in times) <= limit


@given(
    st.lists(st.tuples(st.floats(0, 300), st.just(500)), min_size=1, max_size=60),
    st.integers(500, 4_000),
)
def test_rate_is_never_above_its_tokens_in_any_window(arrivals: list[tuple[float, int]], limit: int) -> None:
    """Each reply is as long as the last reply; the first reply is as long as the reservation."""
    clock = Clock()
    grants = asyncio.run(granted(limiter(clock, tokens=limit), clock, sorted(arrivals)))
    for start, _ in grants:
        assert sum(tokens for at, tokens in grants if start <= at < start + WINDOW_S) <= limit


def test_requests_are_granted_in_the_order_of_arrival_and_without_needless_waits() -> None:
    clock = Clock()
    times = [at for at, _ in asyncio.run(granted(limiter(clock, requests=2), clock, [(0.0, 1), (1.0, 1)] * 2))]
    assert times == [0.0, 1.0, 60.0, 61.0]


def test_rate_limit_halves_the_requests_which_then_creep_up() -> None:
    async def ask() -> list[float]:
        clock = Clock()
        limited = limiter(clock, requests=8)
        refused = [await limited.acquire("here", "small", SHORT) for _ in range(8)]
        for grant in refused:  # eight refusals of the same time halve once
            error = ModelUnavailable("Too many.", retry_after_s=5)
            error.status = 429
            grant.report(error=error)
        return [(await limited.acquire("here", "small", SHORT)).granted_at for _ in range(15)]

    times = asyncio.run(ask())
    assert times[:4] == [60.0] * 4
    assert times[4:8] == [120.0] * 4
    assert sum(at == 180.0 for at in times) > 4


def wait_forms() -> list[tuple[dict[str, str], str]]:
    soon = datetime.now(UTC) + timedelta(hours=6)  # the tests are collected long before they run
    return [
        ({"retry-after": "7"}, ""),
        ({"retry-after": "0.25"}, ""),
        ({"retry-after": "1m30s"}, ""),
        ({"retry-after-ms": "1500"}, ""),
        ({"retry-after": format_datetime(soon, usegmt=True)}, ""),
        ({"retry-after": soon.isoformat()}, ""),
        ({"x-ratelimit-reset": str(int(soon.timestamp()))}, ""),
        ({"x-ratelimit-reset": str(int(soon.timestamp() * 1_000))}, ""),
        ({"x-ratelimit-reset-requests": "59.56s"}, ""),
        ({"x-ratelimit-reset-tokens": "120ms"}, ""),
        ({"anthropic-ratelimit-tokens-reset": soon.isoformat()}, ""),
        ({}, "Rate limit reached. Please try again in 20s."),
    ]


@pytest.mark.parametrize(("headers", "words"), wait_forms(), ids=range(12))
def test_requested_wait_stops_the_whole_bucket(headers: dict[str, str], words: str) -> None:
    """The endpoint answers 429 once; each request of the model waits, but requests of another model do not."""
    clock = Clock()
    limited = RateLimiter(lambda: clock.now, clock.sleep)

    async def ask(base_url: str) -> tuple[float, float]:
        model = af.OpenAIModel(base_url, None, "small", sleep=clock.sleep)
        model.limiter = limited
        with pytest.raises(ModelUnavailable) as caught:
            async for _ in model.stream(ModelRequest(SHORT.messages, max_retries=0)):
                pass
        assert caught.value.retry_after_s
        other = await limited.acquire(model.endpoint, "large", SHORT)
        same = await limited.acquire(model.endpoint, "small", SHORT)
        await model.aclose()
        return other.granted_at, same.granted_at - caught.value.retry_after_s

    refusal = Answer(status=429, error=words or "Slow down.", headers=tuple(headers.items()))
    with ChatServer([refusal]) as server:
        assert asyncio.run(ask(server.base_url)) == (0.0, 0.0)


def test_wait_for_the_rate_is_no_model_time(workbench: OpenWorkbench) -> None:
    """The refusal of the first request stops the others for 2 s; their wait is in the queue."""
    refused = iter([True])

    def answer(_request: Any) -> Answer:
        if next(refused, False):
            return Answer(status=429, error="Slow down.", headers=(("retry-after", "2"),))
        return Answer("It is so.")

    with ChatServer(answer) as server:
        wb = workbench(model=af.OpenAIModel(server.base_url, None, "small"), interactive=False)
        study = wb.studies.start(
            ["Who?", "How?", "Why?", "When?"], name="slow", at_once=2, rates={"small": af.Rate(requests=100)}
        ).wait(30)
        frame = study.df
        calls = wb.llm_calls_df()
    assert set(frame["state"]) == {"done"}
    assert frame["queue_ms"].max() > calls["llm_duration_ms"].sum()


@pytest.mark.parametrize("limits", [{"requests": 0}, {"tokens": -1}, {"requests": 1.5}, {"tokens": True}])
def test_invalid_rate_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="it must be a whole number from 1"):
        af.Rate(**limits)


def test_requests_before_the_first_reply_reserve_prompt_and_reply() -> None:
    async def ask() -> list[float]:
        clock = Clock()
        limited = limiter(clock, tokens=6_000)
        request = ModelRequest((Message("user", "x" * 4_000),))
        return [(await limited.acquire("here", "small", request)).granted_at for _ in range(3)]

    assert asyncio.run(ask()) == [0.0, 0.0, 60.0]


def test_short_replies_make_room_for_waiting_requests() -> None:
    async def ask() -> float:
        clock = Clock()
        limited = limiter(clock, tokens=2_500)
        first = await limited.acquire("here", "small", SHORT)
        waiting = asyncio.ensure_future(limited.acquire("here", "small", SHORT))
        await asyncio.sleep(0)
        first.report(10)
        return (await waiting).granted_at

    assert asyncio.run(ask()) < WINDOW_S
