"""What two runs cost, figure by figure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import fsum

from artifactflow_nb.events import ExecutionMetrics
from artifactflow_nb.recordings.values import RecordedRun
from artifactflow_nb.text.figures import duration, usd


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of both runs; None is unknown.

    Attributes:
        name: Its name in `runs_df`, with its unit.
        a: What it is in the one run.
        b: What it is in the other.
    """

    name: str
    a: float | None
    b: float | None

    @property
    def difference(self) -> float | None:
        """How much more the second run has."""
        return None if self.a is None or self.b is None else self.b - self.a

    @property
    def ratio(self) -> float | None:
        """How many times as much the second run has; None if the first has nothing."""
        return None if not self.a or self.b is None else self.b / self.a

    @property
    def label(self) -> str:
        """Its name in words."""
        return _LABELS[self.name]

    def told(self, value: float | None, *, signed: bool = False) -> str:
        """A value of this figure as people read it; a dash for what is unknown."""
        if value is None:
            return "–"
        sign = "" if not signed or not value else "−" if value < 0 else "+"
        amount = abs(value) if signed else value
        if self.name.endswith("_ms"):
            return sign + duration(amount)
        return sign + (usd(amount) if self.name.endswith("_usd") else f"{amount:,.0f}")


_LABELS = {
    "total_duration_ms": "time",
    "active_ms": "without waiting",
    "wait_ms": "waiting",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "cost_usd": "cost",
    "n_llm_calls": "model calls",
    "n_llm_errors": "failed model calls",
    "n_tool_calls": "tool calls",
    "n_tool_errors": "failed tool calls",
}


def figures(a: tuple[RecordedRun, ExecutionMetrics], b: tuple[RecordedRun, ExecutionMetrics]) -> tuple[Figure, ...]:
    """The figures of two runs; tokens are those of model calls that gave a reply."""
    mine, other = dict(_figures(*a)), dict(_figures(*b))
    return tuple(Figure(name, mine[name], other[name]) for name in _LABELS)


def _figures(run: RecordedRun, metrics: ExecutionMetrics) -> Iterator[tuple[str, float | None]]:
    replies = [turn.reply for turn in run.turns if turn.reply is not None]
    calls = [call for turn in run.turns for call in turn.calls]
    yield "total_duration_ms", metrics.total_duration_ms
    yield "active_ms", metrics.active_ms
    yield "wait_ms", metrics.wait_ms
    yield "input_tokens", _sum(reply.usage.input_tokens for reply in replies)
    yield "output_tokens", _sum(reply.usage.output_tokens for reply in replies)
    yield "cost_usd", _sum(turn.cost_usd for turn in run.turns)
    yield "n_llm_calls", len(replies)
    yield "n_llm_errors", len(run.turns) - len(replies)
    yield "n_tool_calls", len(calls)
    yield "n_tool_errors", sum(call.result is not None and not call.result.success for call in calls)


def _sum(values: Iterable[float | None]) -> float | None:
    """What is known, added up; None if nothing is."""
    known = [value for value in values if value is not None]
    return fsum(known) if known else None
