"""A recorded run is played byte for byte, and a question without a recording is a clear error."""

import asyncio
import json
from operator import attrgetter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.recorded_scenes import FRAMES, assert_same, open_workbench, rows, script, start_with_listener
from support.replies import in_request_protocol

import artifactflow_nb as af
from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.events import StreamEvent
from artifactflow_nb.errors import CassetteError, CassetteMiss, ModelUnavailable
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.widgets.run.saved import saved_run


def comparable(event: StreamEvent) -> tuple[Any, ...]:
    data = json.dumps(dict(event.data), sort_keys=True, default=str)
    return event.seq, event.type, event.timestamp, event.agent, event.tool, data


def ask(wb: af.Workbench, question: str = "Fruit?", **options: Any) -> tuple[af.Run, list[tuple[Any, ...]]]:
    run, events = start_with_listener(wb, question, **options)
    run.wait(20)
    if run.pending:
        run.approve(note="Go on.").wait(20)
    wb._thread.call(asyncio.sleep(0))
    return run, [comparable(event) for event in events]


@pytest.mark.parametrize("protocol", ["xml", "native"])
def test_replay_equals_the_recorded_run_byte_for_byte(tmp_path: Path, protocol: str) -> None:
    """Events, chunks, rows, artifacts and outputs are equal, also with parallel sub-agents."""
    cassette = tmp_path / "c.jsonl"
    model = ScriptedModel(in_request_protocol(script), delay_s=0.0005)
    with open_workbench(tmp_path, model=model, record=cassette, tool_protocol=protocol) as wb:
        run, events = ask(wb)
        frames = {
            name: attrgetter(name)(wb)(columns="all").drop(columns=["mode", "cassette"], errors="ignore")
            for name in FRAMES
        }
        recorded, shown = (
            rows(wb),
            (events, run.response, run.artifacts["research_report"].content, saved_run(run._client)),
        )
        assert wb.lookups  # type: ignore[attr-defined]
    for _ in range(3):
        with open_workbench(tmp_path, replay=cassette) as wb:
            run, events = ask(wb)
            assert run.error is None
            assert_same(rows(wb), recorded)
            assert (
                events,
                run.response,
                run.artifacts["research_report"].content,
                saved_run(run._client),
            ) == shown
            for name, frame in frames.items():
                pd.testing.assert_frame_equal(attrgetter(name)(wb)(columns="all")[list(frame)], frame)
            assert wb.lookups == []  # type: ignore[attr-defined]
            assert set(wb.llm_calls_df()["cassette"]) == {"hit"}
            assert wb.runs_df(columns="mode")["mode"].tolist() == ["replay"]


def test_clicks_are_replayed_and_code_decides_again(tmp_path: Path) -> None:
    """A replay repeats clicks; where code decided, it waits for the same decision."""
    cassette = tmp_path / "c.jsonl"
    with open_workbench(tmp_path, model=ScriptedModel(script), record=cassette) as wb:
        clicked = wb.ask("Clicked?").wait(20)
        wb._thread.call(clicked._client.decide(clicked.pending[0].id, Decision(approved=True)))
        clicked.wait(20)
        wb.ask("Coded?").wait(20).deny("No fruit.").wait(20)
        recorded = rows(wb)
    with open_workbench(tmp_path, replay=cassette) as wb:
        assert wb.ask("Clicked?").wait(20).status == "completed"
        waiting = wb.ask("Coded?").wait(20)
        assert waiting.status == "waiting"
        with pytest.raises(CassetteMiss, match=r"recorded: denied \(No fruit.\) for once, now: approved"):
            waiting.approve()
        waiting.deny("No fruit.").wait(20)
        assert_same(rows(wb), recorded)


def test_branches_and_repeated_questions_find_their_recordings(tmp_path: Path) -> None:
    """A question that is repeated, regenerated or continued has a separate recording each time."""
    cassette = tmp_path / "c.jsonl"
    counted = iter(range(100))

    def tour(wb: af.Workbench) -> list[Any]:
        first = wb.ask("What?").wait(20)
        again = wb.ask("What?").wait(20)
        sibling = wb.conversation(first).regenerate().wait(20)
        later = wb.ask("And?", conversation_id=first.conversation_id).wait(20)
        other = wb.conversation(later).edit("Or?").wait(20)
        return [run.response for run in (first, again, sibling, later, other)]

    with open_workbench(
        tmp_path, model=ScriptedModel(lambda _request: f"Answer {next(counted)}."), record=cassette
    ) as wb:
        outcomes, recorded = tour(wb), rows(wb)
    assert len(set(outcomes)) == 5
    with open_workbench(tmp_path, replay=cassette) as wb:
        assert tour(wb) == outcomes
        assert_same(rows(wb), recorded)


def test_failures_are_replayed(tmp_path: Path) -> None:
    """A broken stream with a retry and a refusing endpoint end as recorded."""
    cassette = tmp_path / "c.jsonl"
    turns = [ModelUnavailable("It broke.", partial="Half an"), "Whole."]
    with open_workbench(tmp_path, model=ScriptedModel(turns), record=cassette) as wb:
        broken, ok = wb.ask("One?").wait(20), wb.ask("Two?").wait(20)
        assert (broken.status, ok.status) == ("failed", "completed")
        recorded, error = rows(wb), broken.error
    with open_workbench(tmp_path, replay=cassette) as wb:
        assert wb.ask("One?").wait(20).error == error
        wb.ask("Two?").wait(20)
        assert_same(rows(wb), recorded)


def test_miss_names_the_nearest_question(tmp_path: Path) -> None:
    """No model is called."""
    cassette = tmp_path / "c.jsonl"
    with open_workbench(tmp_path, model=ScriptedModel(script), record=cassette) as wb:
        ask(wb)
    miss = r"'Vegetables\?' was asked.*no such run(.|\n)*The nearest question is 'Fruit\?'"
    with open_workbench(tmp_path, replay=cassette) as wb, pytest.raises(CassetteMiss, match=miss):
        wb.ask("Vegetables?")


def test_auto_plays_recorded_runs_and_records_new_runs(tmp_path: Path) -> None:
    """A recorded run costs nothing; a new run calls the model and is recorded, too."""
    cassette = tmp_path / "c.jsonl"
    with open_workbench(tmp_path, model=ScriptedModel(["One."]), replay=cassette, mode="auto") as wb:
        assert wb.ask("First?").wait(20).response == "One."
    model = ScriptedModel(["Two."])
    with open_workbench(tmp_path, model=model, replay=cassette, mode="auto") as wb:
        assert [wb.ask(question).wait(20).response for question in ("First?", "Second?")] == ["One.", "Two."]
        assert len(model.requests) == 1
        assert wb.llm_calls_df()["cassette"].tolist() == ["hit", "recorded"]
    before = cassette.read_bytes()
    with open_workbench(tmp_path, replay=cassette) as wb:
        assert [wb.ask(question).wait(20).response for question in ("First?", "Second?")] == ["One.", "Two."]
    assert cassette.read_bytes() == before


def test_replay_uses_a_temporary_store_and_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay ignores keys and endpoints of the environment."""
    cassette = tmp_path / "c.jsonl"
    with open_workbench(tmp_path, model=ScriptedModel(["Yes."]), record=cassette) as wb:
        wb.ask("Sure?").wait(20)
    monkeypatch.setenv("AF_MODE", "replay")
    with open_workbench(tmp_path / "elsewhere", record=cassette) as wb:
        assert wb.ask("Sure?").wait(20).response == "Yes."
    with open_workbench(tmp_path, replay=cassette) as wb:
        folder = wb.data_dir
        assert folder.exists()
    assert not folder.exists()
    with pytest.raises(CassetteError, match="There is no cassette"):
        open_workbench(tmp_path, replay=tmp_path / "none.jsonl")


def test_second_replay_into_one_store_is_refused_with_advice(tmp_path: Path) -> None:
    """A replay uses the recorded ids, so the store has the run already."""
    cassette = tmp_path / "c.jsonl"
    with open_workbench(tmp_path, model=ScriptedModel(["Yes."]), record=cassette) as wb:
        wb.ask("Sure?").wait(20)
    with (
        af.Workbench(replay=cassette, data_dir=tmp_path / "data", interactive=False) as wb,
        pytest.raises(af.errors.Conflict, match="Remove data_dir"),
    ):
        wb.ask("Sure?")


def test_contradictory_cassette_settings_are_refused_with_advice(tmp_path: Path) -> None:
    """Two cassettes are passed, or a mode without a cassette."""
    with pytest.raises(af.errors.UsageError, match="pass one of them"):
        af.Workbench(record=tmp_path / "a.jsonl", replay=tmp_path / "b.jsonl")
    with pytest.raises(af.errors.UsageError, match="there is no cassette"):
        af.Workbench(mode="replay")
    with pytest.raises(af.errors.UsageError, match="'live', 'record', 'replay', 'auto' or 'verify'"):
        af.Workbench(replay=tmp_path / "a.jsonl", mode="rewind")
