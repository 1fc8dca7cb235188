"""The wait that an endpoint asks for, in every form that endpoints use."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from support.chat_endpoint import Answer
from support.model_turns import Waits, take

from artifactflow_nb.errors import ModelUnavailable
from artifactflow_nb.models.base import RetryNotice
from artifactflow_nb.models.openai.waits import MAX_WAIT_S, requested_wait

SOON = datetime.now(UTC) + timedelta(hours=3)


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({"retry-after": "7"}, None, 7),
        ({"retry-after": "0.25"}, None, 0.25),
        ({"retry-after": "-5"}, None, 0),
        ({"retry-after": "1m30s"}, None, 90),
        ({"retry-after-ms": "1500", "retry-after": "9"}, None, 1.5),
        ({"retry-after": format_datetime(SOON, usegmt=True)}, None, SOON),
        ({"retry-after": SOON.isoformat()}, None, SOON),
        ({"x-ratelimit-reset": str(int(SOON.timestamp() * 1_000))}, None, SOON),
        ({"x-ratelimit-reset": str(int(SOON.timestamp()))}, None, SOON),
        ({"x-ratelimit-reset-requests": "2m59.56s"}, None, 179.56),
        ({"x-ratelimit-reset-tokens": "120ms"}, None, 0.12),
        (
            {
                "x-ratelimit-reset-requests": "1h2m3s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-tokens": "7.66s",
                "x-ratelimit-remaining-tokens": "17997",
            },
            None,
            3_723,
        ),
        ({"anthropic-ratelimit-tokens-reset": SOON.isoformat()}, None, SOON),
        ({}, {"message": "on tokens per day (TPD): Limit 100000. Please try again in 7m12s. Need more?"}, 432),
        ({}, {"error": {"message": "Quota exceeded. Please retry in 34.074824224s."}}, 34.074824224),
        ({}, {"message": "Please retry after 26 seconds."}, 26),
        ({}, {"message": "Rate limit reached. Try again in 20s."}, 20),
        ({}, {"message": "Please wait 2 minutes and 5 seconds"}, 125),
        ({}, {"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}]}, 34),
        ({"retry-after": "soon"}, {"message": "Retry later; the limit is 60 requests"}, None),
        ({"retry-after": "inf"}, None, None),
        ({"x-ratelimit-reset-tokens": "6s", "x-ratelimit-remaining-tokens": "12"}, None, None),
        ({}, None, None),
    ],
)
def test_every_form_of_a_wait_is_read(headers: dict[str, str], body: object, expected: float | datetime | None) -> None:
    """A wait is a number, a date, a duration, a moment or words; a limit that is not used up asks for no wait."""
    earlier = datetime.now(UTC)
    wait = requested_wait(headers, body)
    if isinstance(expected, datetime):
        assert wait is not None
        moment, second = expected - timedelta(seconds=wait), timedelta(seconds=1)
        assert earlier - second <= moment <= datetime.now(UTC) + second
    else:
        assert wait == expected


async def test_wait_of_up_to_two_minutes_is_shown_and_waited() -> None:
    """The notice has the whole wait."""
    waits = Waits()
    answers = [Answer(status=429, headers=(("retry-after", "119.5"),)), Answer("fine")]
    found, _ = await take(answers, waits=waits)
    assert [event.delay_s for event in found if isinstance(event, RetryNotice)] == [119.5] == waits
    assert MAX_WAIT_S == 120


@pytest.mark.parametrize(
    "fields",
    [
        {"status": 429, "error": "Please try again in 7m12s."},
        {"status": 429, "headers": (("retry-after", "432"),)},
        {"status": 503, "headers": (("retry-after", "432"),)},
    ],
)
async def test_longer_wait_fails_at_once_and_is_named(fields: dict[str, Any]) -> None:
    """The run does not wait for minutes, and the error says how long and until when."""
    waits = Waits()
    with pytest.raises(ModelUnavailable, match=r"It asks to wait 7 min 12 s, until \d\d:\d\d UTC") as caught:
        await take([Answer(**fields)] * 3, waits=waits)
    assert (waits, caught.value.retry_after_s) == ([], 432)
