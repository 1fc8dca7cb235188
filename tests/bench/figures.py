"""Benchmark figures: medians of ratios to a floor that is measured alternately in the same run."""

import gc
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

Side = Callable[[], Awaitable[object]]
Name = TypeVar("Name")


@dataclass(frozen=True, slots=True)
class Figure:
    """One comparison.

    Attributes:
        name: What was measured.
        value: Its cost, in `unit`.
        floor: The cost of what it is compared with, in the same run.
        unit: `ms`, `us per chunk`, ...
        target: The largest ratio that is good enough.
        allowance: What may be added to the target, in `unit`.
    """

    name: str
    value: float
    floor: float
    unit: str
    target: float
    allowance: float = 0.0

    @property
    def met(self) -> bool:
        """True if the cost is within the target."""
        return self.value <= self.target * self.floor + self.allowance

    def __str__(self) -> str:
        allowed = f"{self.target:g}" + (f" + {self.allowance:g} {self.unit}" if self.allowance else "")
        costs = f"{self.value:9.2f} / {self.floor:9.2f} {self.unit:<12}"
        verdict = "met" if self.met else "MISSED"
        return f"{self.name:<44}{self.value / self.floor:6.2f}  = {costs}  target {allowed:<14}{verdict}"


async def print_all(figures: AsyncIterator[Figure]) -> bool:
    """Print each figure as soon as it is measured; return True if all targets are met."""
    met = True
    async for figure in figures:
        print(figure, flush=True)
        met = met and figure.met
    return met


async def cpu_seconds(sides: Mapping[Name, Side], *, repeats: int) -> dict[Name, float]:
    """CPU seconds of this process for each side: medians over rounds after a warm-up; the order alternates."""
    durations: dict[Name, list[float]] = {name: [] for name in sides}
    for turn in range(repeats + 1):
        for name, side in list(sides.items())[:: -1 if turn % 2 else 1]:
            gc.collect()
            started = time.process_time()
            await side()
            if turn:
                durations[name].append(time.process_time() - started)
    return {name: statistics.median(seconds) for name, seconds in durations.items()}
