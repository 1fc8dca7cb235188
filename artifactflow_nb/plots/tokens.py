"""Tokens by agent: what was read and what was written, with the cached and the reasoning part of each."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from artifactflow_nb.plots.bars import Bar, bars_svg, bars_vega
from artifactflow_nb.plots.chart import Chart, empty_chart
from artifactflow_nb.plots.columns import INT, TEXT, Table, typed_frame
from artifactflow_nb.plots.svg import BLUE, ORANGE, SKY, YELLOW, Fill
from artifactflow_nb.text.figures import count

TITLE = "Tokens by agent"
CACHED = Fill("input from a cache", SKY, "dotted")
READ = Fill("input", BLUE)
REASONED = Fill("output, reasoning", YELLOW, "hatched")
WROTE = Fill("output", ORANGE)
_FILLS = (CACHED, READ, REASONED, WROTE)
_COLUMNS = ("input_tokens", "cache_read_tokens", "output_tokens", "reasoning_tokens")


@dataclass(frozen=True, slots=True)
class _Sum:
    """The tokens of one agent; None where no call told."""

    agent: str
    n_calls: int
    n_unknown: int
    n_estimated: int
    read: int | None
    cached: int | None
    wrote: int | None
    reasoned: int | None


def plot_tokens(llm_calls: pd.DataFrame) -> Chart:
    """Tokens by agent, most first: input with the part that came from a cache, output with the part spent on reasoning.

    Args:
        llm_calls: Rows of `wb.llm_calls_df()`, all or some.

    Errors: `UsageError` for a frame that lacks a column that is needed.
    """
    table = Table(llm_calls, "llm_calls", "plot_tokens", ("agent_name", "input_tokens", "output_tokens"))
    sums = _sums(table)
    if not sums:
        return empty_chart(TITLE, "No model calls in this frame.", _frame(sums))
    bars = [each for agent in sums for each in _bars(agent)]
    total = sum((each.read or 0) + (each.wrote or 0) for each in sums)
    told = f"{count(total, 'token')} of {count(len(sums), 'agent')} in {count(len(table), 'model call')}."
    notes = _notes(sums)
    return Chart(
        TITLE,
        told,
        bars_vega(TITLE, told, bars, _FILLS, "tokens", notes),
        bars_svg(TITLE, told, bars, _FILLS, _short, *notes),
        _frame(sums),
        notes,
    )


def _sums(table: Table) -> list[_Sum]:
    agents = table.texts("agent_name", "unknown")
    estimated = table.values("tokens_estimated")
    columns = [table.values(name) for name in _COLUMNS]
    sums = []
    for agent in dict.fromkeys(agents):
        own = [i for i, name in enumerate(agents) if name == agent]
        read, cached, wrote, reasoned = (_known_sum([column[i] for i in own]) for column in columns)
        unknown = sum(columns[0][i] is None or columns[2][i] is None for i in own)
        guessed = sum(bool(estimated[i]) for i in own)
        sums.append(_Sum(agent, len(own), unknown, guessed, read, cached, wrote, reasoned))
    return sorted(sums, key=lambda each: -((each.read or 0) + (each.wrote or 0)))


def _known_sum(values: Sequence[int | None]) -> int | None:
    """The sum of what is known; None if nothing is."""
    known = [int(value) for value in values if value is not None]
    return sum(known) if known else None


def _bars(each: _Sum) -> tuple[Bar, Bar]:
    about = "≈ " if each.n_estimated else ""
    cached, reasoned = min(each.cached or 0, each.read or 0), min(each.reasoned or 0, each.wrote or 0)
    read = ((CACHED, cached), (READ, (each.read or 0) - cached))
    wrote = ((REASONED, reasoned), (WROTE, (each.wrote or 0) - reasoned))
    told_in = _told(about, each.read, "in", each.cached, "cached")
    told_out = _told(about, each.wrote, "out", each.reasoned, "reasoning")
    return Bar(each.agent, read, told_in), Bar("", wrote, told_out)


def _told(about: str, number: int | None, way: str, part: int | None, what: str) -> str:
    if number is None:
        return f"unknown {way}"
    return f"{about}{number:,} {way}" + (f", {part:,} {what}" if part else "")


def _notes(sums: Sequence[_Sum]) -> tuple[str, ...]:
    unknown, guessed = sum(each.n_unknown for each in sums), sum(each.n_estimated for each in sums)
    notes = []
    if unknown:
        notes.append(f"{count(unknown, 'model call')} without known tokens (failed or cancelled calls have none).")
    if guessed:
        notes.append(f"≈ Estimated in {count(guessed, 'model call')}: the endpoint gave no figures.")
    return tuple(notes)


def _frame(sums: Sequence[_Sum]) -> pd.DataFrame:
    return typed_frame(
        {
            "agent_name": (TEXT, [each.agent for each in sums]),
            "n_llm_calls": (INT, [each.n_calls for each in sums]),
            "input_tokens": (INT, [each.read for each in sums]),
            "cache_read_tokens": (INT, [each.cached for each in sums]),
            "output_tokens": (INT, [each.wrote for each in sums]),
            "reasoning_tokens": (INT, [each.reasoned for each in sums]),
            "n_unknown": (INT, [each.n_unknown for each in sums]),
        }
    )


def _short(number: float) -> str:
    """`950`, `1.2k`, `34k`, `5.6M`: for an axis, where the exact figure stands elsewhere."""
    for unit, size in (("M", 1e6), ("k", 1e3)):
        if abs(number) >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"
