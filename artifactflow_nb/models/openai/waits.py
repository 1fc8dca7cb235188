"""How long an endpoint asks to wait: in headers, or in the words of its error."""

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_WAIT_S = 120.0
"""The longest wait before a retry in seconds; a turn fails if the endpoint asks for more."""

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_PART = r"(\d+(?:\.\d+)?)\s*(ms|milli|[smhd])[a-z]*"
_DURATION = re.compile(rf"(?:{_PART}(?:\s*,?\s*(?:and\s*)?))+", re.IGNORECASE)
_IN_WORDS = re.compile(rf"(?:try again|retry|wait)\D{{0,30}}?({_DURATION.pattern})", re.IGNORECASE)
_FIRST_MOMENT_S = 1e9  # a larger number is a moment since 1970
_FIRST_MOMENT_MS = 1e12


def requested_wait(headers: Mapping[str, str], body: object = None) -> float | None:
    """Return the seconds that an endpoint asks to wait, or None.

    The wait is read from `retry-after-ms`, `Retry-After` (seconds or a date), the error ("try again in 7m12s"), or
    the `x-ratelimit-reset` of a limit that is used up.
    """
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    waits = [None if milliseconds is None else milliseconds / 1_000, _seconds(headers.get("retry-after", ""))]
    if words := _IN_WORDS.search(str(body or "")):
        waits.append(_seconds(words[1]))
    resets = [
        _seconds(value)
        for name, value in headers.items()
        if "ratelimit" in name.lower() and "reset" in name.lower()
        if headers.get(name.lower().replace("reset", "remaining"), "0").strip() in {"0", ""}
    ]
    waits.append(max((wait for wait in resets if wait is not None), default=None))
    return next((wait for wait in waits if wait is not None), None)


def _seconds(text: str) -> float | None:
    """Return the seconds to wait from a number, a duration (`1m30.5s`), a Unix time or a date; None for other texts."""
    text = text.strip()
    now = datetime.now(UTC)
    try:
        number = float(text)
    except ValueError:
        if _DURATION.fullmatch(text):
            return sum(
                float(n) * _UNITS["ms" if unit.lower() == "milli" else unit.lower()]
                for n, unit in re.findall(_PART, text, re.IGNORECASE)
            )
        for read in (parsedate_to_datetime, datetime.fromisoformat):
            with suppress(ValueError):
                moment = read(text)
                moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
                return max(0.0, (moment - now).total_seconds())
        return None
    if not math.isfinite(number):
        return None
    if number >= _FIRST_MOMENT_S:
        number = number / (1_000 if number >= _FIRST_MOMENT_MS else 1) - now.timestamp()
    return max(0.0, number)
