"""A cassette as a frame: a row for each model turn and tool call, with the types of other frames."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.recorded_scenes import WAIT_S, open_scene, step_of, with_look
from support.replies import call

import artifactflow_nb as af
from artifactflow_nb.analysis.frames.cassette import CASSETTE
from artifactflow_nb.errors import ModelUnavailable
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel


@pytest.fixture(scope="module")
def cassette(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a denied call and a call that ran, and a run with a failed model."""

    def script(request: ModelRequest) -> Any:
        if "Else?" in request.messages[-1].content:
            raise ModelUnavailable("Gone away.")
        return ["Look: " + call("look", word="x"), call("look", word="xx"), "Found it."][min(step_of(request), 2)]

    def setup(wb: af.Workbench) -> None:
        with_look(wb, permission="confirm")

    folder = tmp_path_factory.mktemp("cassette")
    prices = {"scripted": {"input": 1.0, "output": 1.0}}
    model = ScriptedModel(script)
    with open_scene(folder, model=model, record=folder / "c.jsonl", setup=setup, prices=prices) as wb:
        wb.ask("What?").wait(WAIT_S).deny("No.").wait(WAIT_S).approve().wait(WAIT_S)
        wb.ask("Else?").wait(WAIT_S)
    return folder / "c.jsonl"


def test_every_turn_and_call_is_a_row(cassette: Path) -> None:
    frame = af.cassette_df(cassette)
    assert list(frame.columns) == [column.name for column in CASSETTE.columns]
    assert frame["kind"].tolist() == ["model", "tool", "model", "tool", "model", "model"]
    assert frame["run_number"].tolist() == [1, 1, 1, 1, 1, 2]
    assert frame["position"].fillna(0).tolist() == [0, 1, 0, 1, 0, 0]
    turn, denied, _, called, answer, failed = (row for _, row in frame.iterrows())
    assert (turn["name"], turn["path"], turn["step"], turn["attempt"]) == ("scripted", "main", 1, 1)
    assert turn["cost_usd"] > 0
    assert turn["asked"] == "What?"
    assert (denied["decision"], denied["success"], denied["answered"][:17]) == ("denied", False, "Permission denied")
    assert (called["decision"], called["success"], called["asked"]) == ("approved", True, '{"word":"xx"}')
    assert (answer["answered"], answer["answered_chars"]) == ("Found it.", 9)
    assert (failed["error_type"], failed["answered"], failed["success"]) == ("ModelUnavailable", "Gone away.", False)
    assert failed["question"] == "Else?"


def test_empty_cassette_has_the_same_types(cassette: Path, tmp_path: Path) -> None:
    """Types follow from the declaration, not from the rows."""
    with open_scene(tmp_path, model=ScriptedModel([]), record=tmp_path / "c.jsonl") as wb:
        with pytest.raises(af.errors.UsageError):
            wb.ask("")
        run = wb.ask("What?").wait(WAIT_S)
        assert run.status == "failed"
    full, other = af.cassette_df(cassette), af.cassette_df(tmp_path / "c.jsonl").iloc[:0]
    for name, dtype in full.dtypes.items():
        assert dtype == other.dtypes[name] or str(dtype) == str(other.dtypes[name]) == "category", name
    assert full.attrs["schema"] == "artifactflow_nb/cassette/1"
    assert isinstance(full, pd.DataFrame)


def test_columns_are_chosen_by_name_or_group(cassette: Path) -> None:
    frame = af.cassette_df(cassette, columns=["tokens", "name"])
    ids = ["run_number", "run_id", "path", "step", "attempt", "position"]
    assert list(frame.columns) == [*ids, "name", "input_tokens", "output_tokens"]
    with pytest.raises(af.errors.UsageError, match="The frame cassette has no column or group 'price'"):
        af.cassette_df(cassette, columns="price")
