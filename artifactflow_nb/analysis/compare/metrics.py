"""Time, tokens, cost and call counts of two runs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import fsum

from artifactflow_nb.core.events import ExecutionMetrics
from artifactflow_nb.core.text.format import duration, usd
from artifactflow_nb.core.text.panels import ComparisonRow
from artifactflow_nb.recording.rows import RunRows


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of two runs; None means unknown.

    Attributes:
        name: Column name, which ends in the unit; `figures` uses the names of `runs_df`.
        b: Value in the second run.
    """

    name: str
    a: float | None
    b: float | None

    @property
    def difference(self) -> float | None:
        """`b - a`; None if a value is unknown."""
        return None if self.a is None or self.b is None else self.b - self.a

    @property
    def ratio(self) -> float | None:
        """`b / a`; None if a value is unknown or `a` is 0."""
        return None if not self.a or self.b is None else self.b / self.a

    @property
    def texts(self) -> tuple[str, str, str]:
        """Both values and the difference, with units."""
        return self.format_value(self.a), self.format_value(self.b), self.format_value(self.difference, signed=True)

    @property
    def row(self) -> ComparisonRow:
        """The figure in the table of a comparison of runs."""
        return ComparisonRow(_LABELS[self.name], *self.texts)

    def format_value(self, value: float | None, *, signed: bool = False) -> str:
        """Format a value with its unit; a dash for None."""
        if value is None:
            return "–"
        sign = "" if not signed or not value else "−" if value < 0 else "+"
        amount = abs(value) if signed else value
        if self.name.endswith("_ms"):
            return sign + duration(amount)
        return sign + (usd(amount) if self.name.endswith("_usd") else f"{amount:,.0f}")


_LABELS = {
    "total_duration_ms": "time",
    "active_ms": "time without waiting",
    "wait_ms": "waiting for you",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "cost_usd": "cost",
    "n_llm_calls": "model calls",
    "n_llm_errors": "failed model calls",
    "n_tool_calls": "tool calls",
    "n_tool_errors": "failed tool calls",
}


def figures(a: tuple[RunRows, ExecutionMetrics], b: tuple[RunRows, ExecutionMetrics]) -> tuple[Figure, ...]:
    """Compute the figures of two runs; tokens count only for model calls with a reply."""
    return tuple(
        Figure(name, value_a, value_b) for (name, value_a), (_, value_b) in zip(_figures(*a), _figures(*b), strict=True)
    )


def _figures(run: RunRows, metrics: ExecutionMetrics) -> Iterator[tuple[str, float | None]]:
    turns = [row for row in run["llm_calls"] if row["run_id"] == run.run_id]
    replies = [row for row in turns if row["error_type"] is None]
    calls = [row for row in run["tool_calls"] if row["run_id"] == run.run_id]
    yield "total_duration_ms", metrics.total_duration_ms
    yield "active_ms", metrics.active_ms
    yield "wait_ms", metrics.wait_ms
    yield "input_tokens", _sum(row["input_tokens"] for row in replies)
    yield "output_tokens", _sum(row["output_tokens"] for row in replies)
    yield "cost_usd", _sum(row["cost_usd"] for row in turns)
    yield "n_llm_calls", len(replies)
    yield "n_llm_errors", len(turns) - len(replies)
    yield "n_tool_calls", len(calls)
    yield "n_tool_errors", sum(row["completed_at"] is not None and not row["success"] for row in calls)


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum of the known values, or None if all values are unknown: an unknown sum is not 0."""
    known = [value for value in values if value is not None]
    return fsum(known) if known else None
