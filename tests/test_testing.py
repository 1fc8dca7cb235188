"""The fakes for tests of users, and the example of their module."""

import re
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import artifactflow_nb as af
from artifactflow_nb import testing
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.testing import FakeClock, FakeIds, FakeSearch, ScriptedModel, SearchHit, SearchProvider
from artifactflow_nb.tools.web.tools import web_search

FARES = SearchHit("Fares", "https://lake.example/fares", "A ticket costs 4 crowns.")
WINTER = SearchHit("Winter", "https://lake.example/winter", "The ferry rests.")


def test_example_of_the_module_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The docstring asserts what it promises, and uses every name of the module."""
    (example,) = re.findall(r"```python\n([\s\S]*?)```", testing.__doc__ or "")
    assert [name for name in testing.__all__ if name not in example] == []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    exec(compile(example, "example", "exec"), {"__name__": "example"})  # noqa: S102 - the module's own example


def test_scripted_model_is_the_public_one():
    assert testing.ScriptedModel is af.ScriptedModel


def test_fake_clock_gives_the_same_times_in_every_run():
    """Each reading of either clock is one step later than the reading before."""
    clock = FakeClock(step_ms=10)
    assert clock.now() == datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=10)
    assert clock.monotonic() == 0.02
    assert FakeClock(step_ms=10).now() == FakeClock(step_ms=10).now()


def test_fake_ids_count_for_each_prefix():
    """Ids repeat from run to run, and prefixes do not disturb each other."""
    ids = FakeIds()
    assert [ids.new("run"), ids.new("msg"), ids.new("run")] == ["run-0001", "msg-0001", "run-0002"]


async def test_fake_search_finds_the_hits_of_the_query():
    """A mapping has the hits of each query; a list is the result of every query; the limit applies to both."""
    search = FakeSearch({"ferry": [FARES, WINTER]})
    assert await search.search("ferry", 5) == [FARES, WINTER]
    assert await search.search("ferry", 1) == [FARES]
    assert await search.search("zeppelin", 5) == []
    assert search.queries == ["ferry", "ferry", "zeppelin"]
    assert await FakeSearch([WINTER]).search("anything", 5) == [WINTER]
    assert await FakeSearch().search("anything", 5) == []


def test_workbench_searches_with_a_provider_of_the_user(tmp_path: Path):
    search = FakeSearch({"ferry": [FARES]})
    turns = [af.ToolCall("call_subagent", {"agent_name": "search_agent", "instruction": "Ferry fares."}), "Done."]

    def script(request: ModelRequest) -> Any:
        if "lead agent" in request.messages[0].content:
            return turns[min(sum(message.role == "assistant" for message in request.messages), 1)]
        return [af.ToolCall("web_search", {"query": "ferry"}), "Found."][
            min(sum(message.role == "assistant" for message in request.messages), 1)
        ]

    with af.Workbench(
        model=ScriptedModel(script), search=search, data_dir=tmp_path, interactive=False, tool_protocol="native"
    ) as wb:
        run = wb.ask("What is the fare?").wait(20)
        assert run.response == "Done."
        assert search.queries == ["ferry"]
        assert FARES.title in next(step.outcome for step in run.steps if step.name == "web_search")
        assert run.manifest["search"] == "FakeSearch"
    with pytest.raises(af.errors.UsageError, match="search is 3; pass a name or an object"):
        af.Workbench(search=3, data_dir=tmp_path)  # type: ignore[arg-type]


async def test_web_search_takes_the_fake_search():
    provider: SearchProvider = FakeSearch([FARES, WINTER])
    context = af.ToolContext("run-1", "conv-1", "msg-1", "agent", "call-1", {SearchProvider: provider})
    result = await web_search.run(context, {"query": "ferry", "max_results": "1"})
    assert result.metadata["results"] == [{"title": "Fares", "address": "https://lake.example/fares"}]
