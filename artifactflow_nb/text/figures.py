"""Figures in a few words: counts, durations, sizes and times, as people read them."""

from datetime import UTC, datetime
from decimal import Decimal

_SECOND_MS = 1000
_MINUTE_S = 60
_HOUR_S = 3600
_TENTHS_BELOW_MS = 9.95
_KILO = 1000
_PLURALS = {"branch": "branches", "query": "queries"}


def count(number: int, noun: str) -> str:
    """`1 call`, `2 branches`, `1,234 tokens`."""
    return f"{number:,} {noun if number == 1 else _PLURALS.get(noun, noun + 's')}"


def duration(ms: float) -> str:
    """`0.4 ms`, `340 ms`, `12.3 s`, `2 min 05 s`, `3 h 07 min`."""
    if ms < _TENTHS_BELOW_MS:
        return f"{ms:.1f} ms".replace(".0 ", " ")
    if ms < _SECOND_MS:
        return f"{ms:.0f} ms"
    seconds = ms / _SECOND_MS
    if seconds < _MINUTE_S:
        return f"{seconds:.1f} s"
    if seconds < _HOUR_S:
        return f"{int(seconds // _MINUTE_S)} min {int(seconds % _MINUTE_S):02d} s"
    minutes = round(seconds / _MINUTE_S)
    return f"{minutes // _MINUTE_S:,} h {minutes % _MINUTE_S:02d} min"


def usd(amount: float, *, exact: bool = False) -> str:
    """`0.0123 USD`, `12.30 USD`; never with a dollar sign, because pages read text between two of them as a formula.

    What somebody set, a price or a limit, is told exactly: `0.14375 USD`.
    """
    if exact:
        return f"{amount:,.10g} USD"
    return f"{amount:,.2f} USD" if abs(amount) >= 1 else f"{Decimal(f'{amount:.3g}'):f} USD"


def size(n_bytes: float) -> str:
    """`512 bytes`, `1.2 MB`; a kB has 1,000 bytes."""
    if n_bytes < _KILO:
        return count(int(n_bytes), "byte")
    for unit in ("kB", "MB"):
        n_bytes /= _KILO
        if n_bytes < _KILO:
            return f"{n_bytes:.1f} {unit}"
    return f"{n_bytes / _KILO:.1f} GB"


def moment(time: datetime) -> str:
    """`2026-11-22 04:37 UTC`, of an aware time."""
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
