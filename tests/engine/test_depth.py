"""The depth of a run: the rounds of its agents, and the expected cost of a deep run."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
from conftest import OpenEngine
from support.replies import by_agent, call, delegate, report

import artifactflow_nb as af
from artifactflow_nb.engine.folder_file import STORE_FILE
from artifactflow_nb.errors import UsageError
from artifactflow_nb.models.base import ModelRequest


async def test_deep_run_has_more_rounds_than_a_quick_run(open_engine: OpenEngine) -> None:
    """The lead searches in every round; the prompt names the rounds and the depth."""

    def search_forever(request: ModelRequest) -> str:
        return "Done." if request.tool_choice == "none" else call("read_artifact", id="none")

    engine = await open_engine(search_forever)
    rounds, prompts = {}, {}
    for depth in ("quick", "standard", "deep"):
        n_before = len(engine.model.requests)  # type: ignore[attr-defined]
        run = await engine.controller.begin("Why?", depth=depth)
        await (await engine.controller.start(run))
        requests = list(engine.model.requests)  # type: ignore[attr-defined]
        rounds[depth] = len(requests) - n_before - 1  # without the answer
        prompts[depth] = requests[-1].messages[0].content
    assert rounds == {"quick": 4, "standard": 5, "deep": 15}
    assert "wants a quick answer" in prompts["quick"]
    assert "at most 15 rounds" in prompts["deep"]
    assert "<depth>" not in prompts["standard"]


async def test_configured_values_take_precedence_over_the_depth(open_engine: OpenEngine) -> None:
    """Rounds that a person has set for the lead stay; a resumed or repeated run keeps its depth."""
    engine = await open_engine([report(), "Done."], settings={"graph_config": {"lead_agent": {"max_tool_rounds": 7}}})
    run = await engine.controller.begin("Why?", depth="deep")
    assert run.settings["graph_config"]["lead_agent"] == {"max_tool_rounds": 7}
    assert run.settings["graph_config"]["search_agent"] == {"max_tool_rounds": 6}
    await (await engine.controller.start(run))
    again = await engine.controller.begin_sibling(run.message_id)
    assert again.settings["depth"] == "deep"


def test_depth_that_a_run_cannot_have_is_refused(tmp_path: Path) -> None:
    """The error lists the depths, or says that the flow has no depths; nothing is stored."""
    with af.Workbench(model=af.ScriptedModel(["Done."]), data_dir=tmp_path, interactive=False) as wb:
        with pytest.raises(UsageError, match="depth is 'abyss'; it must be one of 'quick', 'standard', 'deep'"):
            wb.ask("Why?", depth="abyss")  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="Runs of the flow 'compose' have no depth"):
            wb.ask("Why?", conversation_id=wb.projects.start("Essay").conversation_id, flow="compose", depth="deep")
        assert wb.runs_df().empty


def test_forecast_is_the_median_of_earlier_deep_runs(tmp_path: Path) -> None:
    """Runs of another depth do not count."""
    script = by_agent(lead=[delegate("search_agent", "Look."), "Done."], search=["Found."])
    wb = af.Workbench(model=af.ScriptedModel(script), data_dir=tmp_path, interactive=False)
    assert wb.forecast() == {"runs": 0}
    first = wb.ask("Why?", depth="deep").wait()
    wb.ask("Why?").wait()
    forecast = wb.forecast()
    tokens = int(wb.llm_calls_df(first)["total_tokens"].sum())
    assert (forecast["runs"], forecast["tokens"]) == (1, tokens)
    assert forecast["seconds"] > 0
    assert "usd" not in forecast
    wb.close()


def test_depth_belongs_to_the_recording(tmp_path: Path) -> None:
    """A deep run is played for a deep question, and a quick question has no recording."""
    cassette = tmp_path / "runs.jsonl"
    with af.Workbench(
        model=af.ScriptedModel(["Deep."]), data_dir=tmp_path / "a", record=cassette, interactive=False
    ) as wb:
        assert wb.ask("Why?", depth="deep").wait().response == "Deep."
    with af.Workbench(replay=cassette, interactive=False) as wb:
        assert wb.ask("Why?", depth="deep").wait().response == "Deep."
        with pytest.raises(af.errors.CassetteMiss):
            wb.ask("Why?", depth="quick")


def set_times(data_dir: Path, runs: Sequence[af.Run], times_ms: Sequence[float]) -> None:
    """Store how long runs took."""
    with closing(sqlite3.connect(data_dir / STORE_FILE)) as db, db:
        for run, time_ms in zip(runs, times_ms, strict=True):
            sql = "UPDATE runs SET completed_at = started_at + ? WHERE run_id = ?"
            assert db.execute(sql, (time_ms * 1000, run.run_id)).rowcount == 1


def test_usual_time_counts_runs_of_the_same_kind(tmp_path: Path) -> None:
    """Runs of another depth, flow or model do not count; with fewer than five other runs the time is None."""
    with af.Workbench(model=af.ScriptedModel(["Done."] * 7), data_dir=tmp_path, interactive=False) as wb:
        quick = wb.ask("Why?", depth="quick").wait()
        runs = [wb.ask("Why?").wait() for _ in range(5)]
        set_times(tmp_path, [quick, *runs], [9_000, 280, 290, 300, 310, 9_000])
        assert runs[-1]._client.usual_ms() is None
        last = wb.ask("Why?").wait()
        set_times(tmp_path, runs[-1:], [320])
        assert last._client.usual_ms() == 300
    with af.Workbench(data_dir=tmp_path, interactive=False) as wb:
        assert wb.ask("Why?").wait()._client.usual_ms() is None


def test_runs_that_differ_much_are_no_forecast(tmp_path: Path) -> None:
    """There is no usual time if the middle half of earlier runs spreads over more than half of the median."""
    with af.Workbench(model=af.ScriptedModel(["Done."] * 6), data_dir=tmp_path, interactive=False) as wb:
        runs = [wb.ask("Why?").wait() for _ in range(6)]
        set_times(tmp_path, runs, [10, 10, 600, 600, 300, 100])
        assert runs[-1]._client.usual_ms() is None
