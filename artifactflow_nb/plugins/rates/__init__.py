"""Rates: how many requests and tokens a minute the models of an engine get.

::

    acquire ── waits until the window of 60 s has room ──> a grant ──> the request ──> report: tokens, or the error
                     ^ stopped while the endpoint asks to wait (Retry-After), for all requests of the model
                     ^ halved after a rate limit (429), and then a tenth more for each minute without one
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field

from artifactflow_nb.errors import ModelError, ModelUnavailable, UsageError, brief
from artifactflow_nb.models.base import ModelRequest, estimate_usage

WINDOW_S = 60.0
_RATE_LIMIT = 429
_MIN_SHARE = 1 / 64
_RECHECK_S = 5.0
"""The longest sleep of a waiting request: a reply that is shorter than reserved makes room earlier."""

_MIN_OBSERVED = 8
"""The fewest requests in a window from which a limit of an endpoint is concluded."""

_REPLY_TOKENS = 2_000
"""The tokens that are reserved for a reply until the first reply of the model has ended."""

queue_times: ContextVar[list[float] | None] = ContextVar("queue_times", default=None)
"""A list that gets the waits of the requests of the current task in milliseconds; None if nobody reads the waits."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The limits of a model in any 60 seconds: `af.Rate(requests=500, tokens=200_000)`.

    Attributes:
        requests: The number of requests; None for no limit.
        tokens: Input and output tokens; None for no limit. A single larger request waits for an empty window.

    Errors: `UsageError` for a limit that is not a whole number from 1.
    """

    requests: int | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        for name, limit in (("requests", self.requests), ("tokens", self.tokens)):
            if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 1):
                raise UsageError(f"{name} is {brief(limit)}; it must be a whole number from 1.")


def rates_by_model(rates: Mapping[str, Rate | Mapping[str, int]]) -> dict[str, dict[str, int | None]]:
    """Return rates, or their limits by name, as JSON; `UsageError` for other values."""
    if not isinstance(rates, Mapping):
        raise UsageError(f'rates is {brief(rates)}; pass rates by model, as {{"large": af.Rate(requests=500)}}.')
    limits: dict[str, dict[str, int | None]] = {}
    for model, rate in rates.items():
        if isinstance(rate, Mapping) and {"requests", "tokens"}.issuperset(rate):
            limits[model] = asdict(Rate(**rate))
        elif isinstance(rate, Rate):
            limits[model] = asdict(rate)
        else:
            raise UsageError(
                f"The rate of {brief(model)} is {brief(rate)}; pass af.Rate(requests=500, tokens=200_000)."
            )
    return limits


@dataclass(slots=True)
class Grant:
    """The permission for a request.

    Attributes:
        granted_at: The time, by the clock of the limiter.
        prompt_tokens: The estimated tokens of the prompt.
        tokens: The reserved tokens; after the reply, the tokens of the reply's usage.
    """

    bucket: "Bucket"
    granted_at: float
    prompt_tokens: int
    tokens: int

    def report(self, tokens: int | None = None, error: ModelError | None = None) -> None:
        """Report the end of the request: the tokens, or the error."""
        if tokens is not None:
            self.tokens = tokens
            self.bucket.reply_tokens = max(tokens - self.prompt_tokens, 1)
        if isinstance(error, ModelUnavailable):
            self.bucket.slow_down(self, error)


@dataclass(slots=True)
class Bucket:
    """The window of one model at one endpoint.

    Attributes:
        rate: The limits.
        share: The part of the limits that may be used now; 1 unless the endpoint has refused requests.
        stopped_until: The time until which the endpoint asks to wait.
        reply_tokens: The tokens of the last reply, which the next request reserves beside its prompt.
        halved_at: The time of the last change of `share`.
        observed: The requests in the window when the endpoint refused one; the limit of a model without a rate.
        grants: The requests of the window, the oldest first.
        queue: Orders the waiting requests.
    """

    clock: Callable[[], float]
    rate: Rate = field(default_factory=Rate)
    share: float = 1.0
    stopped_until: float = 0.0
    reply_tokens: int = _REPLY_TOKENS
    halved_at: float = float("-inf")
    observed: int | None = None
    grants: deque[Grant] = field(default_factory=deque)
    queue: asyncio.Lock = field(default_factory=asyncio.Lock)

    def ready_at(self, tokens: int) -> float:
        """Return the earliest time at which a request with this number of tokens can start; now, or later."""
        now = self.clock()
        while self.grants and self.grants[0].granted_at + WINDOW_S <= now:
            self.grants.popleft()
        if self.share < 1 and now >= self.halved_at + WINDOW_S:
            self.share, self.halved_at = min(1.0, self.share + 0.1), self.halved_at + WINDOW_S
        requests = self.rate.requests if self.rate.requests is not None or self.share == 1 else self.observed
        ready = max(now, self.stopped_until)
        if requests is not None and len(self.grants) >= (limit := max(1, int(requests * self.share))):
            ready = max(ready, self.grants[len(self.grants) - limit].granted_at + WINDOW_S)
        if self.rate.tokens is not None:
            free = self.rate.tokens * self.share - tokens - sum(grant.tokens for grant in self.grants)
            for grant in self.grants:
                if free >= 0:
                    break
                free += grant.tokens
                ready = max(ready, grant.granted_at + WINDOW_S)
        return ready

    def slow_down(self, grant: Grant, error: ModelUnavailable) -> None:
        """Stop for the requested time, and halve the limits after a rate limit; once for requests of the same time."""
        now = self.clock()
        if error.retry_after_s:
            self.stopped_until = max(self.stopped_until, now + error.retry_after_s)
        if error.status == _RATE_LIMIT and grant.granted_at > self.halved_at:
            if self.share == 1:
                self.observed = len(self.grants) if len(self.grants) >= _MIN_OBSERVED else None
            self.share, self.halved_at = max(_MIN_SHARE, self.share / 2), now


class RateLimiter:
    """The rate limiter of the models of an engine: a bucket for each model at each endpoint.

    Args:
        clock: Returns the time in seconds; does not go back.
        sleep: Waits, in seconds.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._buckets: dict[tuple[str, str], Bucket] = {}
        self._rates: dict[str, Rate] = {}

    def limit(self, rates: Mapping[str, Rate]) -> None:
        """Set the rates of models by name, at all endpoints."""
        self._rates |= rates
        for (_, model), bucket in self._buckets.items():
            bucket.rate = self._rates.get(model, bucket.rate)

    async def acquire(self, endpoint: str, model: str, request: ModelRequest) -> Grant:
        """Wait until a request can start, in the order of arrival; the wait counts as time in the queue."""
        bucket = self._buckets.get((endpoint, model))
        if bucket is None:
            rate = self._rates.get(model, Rate())
            bucket = self._buckets[endpoint, model] = Bucket(self._clock, rate, stopped_until=self._clock())
        prompt_tokens, arrived_at = estimate_usage(request, "").input_tokens, self._clock()
        async with bucket.queue:
            while (ready := bucket.ready_at(tokens := prompt_tokens + bucket.reply_tokens)) > (now := self._clock()):
                await self._sleep(min(ready - now, _RECHECK_S))
            grant = Grant(bucket, now, prompt_tokens, tokens)
            bucket.grants.append(grant)
        if (times := queue_times.get()) is not None:
            times.append((now - arrived_at) * 1_000)
        return grant
