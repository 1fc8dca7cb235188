"""Fakes for tests of tools, agents and notebooks: nothing needs a network, and times and ids repeat exactly.

```python
import asyncio
from tempfile import mkdtemp

import artifactflow_nb as af
from artifactflow_nb.testing import FakeClock, FakeIds, FakeSearch, ScriptedModel, SearchHit, SearchProvider

@af.tool(idempotent=True)
async def best_title(ctx: af.ToolContext, query: str) -> str:
    "Return the title of the best search result."
    hits = await ctx.service(SearchProvider).search(query, 1)
    return hits[0].title if hits else "Nothing was found."

async def call_the_tool_alone():
    search = FakeSearch({"ferry": [SearchHit("Fares", "https://lake.example/fares", "A ticket costs 4 crowns.")]})
    context = af.ToolContext("run-1", "conv-1", "msg-1", "lead_agent", "call-1", {SearchProvider: search})
    result = await best_title.run(context, {"query": "ferry"})
    assert result.data == "Fares"
    assert search.queries == ["ferry"]

async def call_it_in_a_run():
    model = ScriptedModel([af.ToolCall("best_title", {"query": "ferry"}), "It is called Fares."])
    settings = af.Settings(data_dir=mkdtemp())
    engine = await af.engine.Engine(settings, model=model, clock=FakeClock(), ids=FakeIds()).open()
    engine.register_tool(best_title)
    result = await engine.controller.execute("What is it called?")
    assert (result.run_id, result.response) == ("run-0001", "It is called Fares.")
    assert "best_title" in model.requests[1].messages[-1].content
    await engine.aclose()

asyncio.run(call_the_tool_alone())
asyncio.run(call_it_in_a_run())
```

A `Workbench` takes the scripted model too: `af.Workbench(model=ScriptedModel(["Yes."]), interactive=False)`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.sources.citations import SearchHit
from artifactflow_nb.tools.web.tools import SearchProvider

__all__ = ["FakeClock", "FakeIds", "FakeSearch", "ScriptedModel", "SearchHit", "SearchProvider"]


class FakeClock:
    """Clock that advances by a fixed step at each reading.

    Args:
        start: Time before the first reading; 2026-01-01 UTC by default.
        step_ms: Milliseconds between two readings.
    """

    def __init__(self, start: datetime | None = None, step_ms: float = 1.0) -> None:
        self._start = start or datetime(2026, 1, 1, tzinfo=UTC)
        self._step = timedelta(milliseconds=step_ms)
        self._readings = 0

    def now(self) -> datetime:
        """Advance by one step and return the time."""
        self._readings += 1
        return self._start + self._step * self._readings

    def monotonic(self) -> float:
        """Advance by one step and return the seconds since the start."""
        return (self.now() - self._start).total_seconds()


class FakeIds:
    """Consecutive ids for each prefix: `run-0001`, `run-0002`."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def new(self, prefix: str) -> str:
        """Return the next id of this prefix."""
        self._counts[prefix] += 1
        return f"{prefix}-{self._counts[prefix]:04d}"


class FakeSearch:
    """Search provider with fixed results.

    Args:
        results: The hits of every query, or a mapping from queries to hits; other queries find nothing.

    Attributes:
        queries: All queries, in order.
    """

    def __init__(self, results: Sequence[SearchHit] | Mapping[str, Sequence[SearchHit]] = ()) -> None:
        self.queries: list[str] = []
        self._results = results

    async def search(self, query: str, limit: int) -> list[SearchHit]:
        """Record the query and return up to `limit` hits."""
        self.queries.append(query)
        hits = self._results.get(query, ()) if isinstance(self._results, Mapping) else self._results
        return list(hits[:limit])
