"""A cassette as a frame: a row a turn or tool call, typed as all frames are."""

from pathlib import Path

import pandas as pd
import pytest
from recordings.generated import LONG, START, a_call, a_run, a_turn

import artifactflow_nb as af
from artifactflow_nb.approvals import Decision
from artifactflow_nb.frames.cassette import CASSETTE
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.recordings.cassette_file import cassette_bytes
from artifactflow_nb.recordings.values import Failure, RecordedAsk

DENIED = a_call(
    "rewrite_artifact",
    result=ToolResult(success=False, error="Permission denied"),
    ask=RecordedAsk("tool", "", START, START, Decision(approved=False)),
)


def framed(path: Path, *runs: object) -> pd.DataFrame:
    path.write_bytes(cassette_bytes(runs))
    return af.cassette_df(path)


def test_every_turn_and_call_is_a_row(tmp_path: Path) -> None:
    """Rows come run by run, each turn followed by its calls, with sizes, tokens, time, cost and what was decided."""
    turns = [
        a_turn(content=f"Look: {LONG}", calls=(a_call(), DENIED, a_call(result=None)), cost_usd=0.25),
        a_turn(step=2, reply=None, failure=Failure("ModelUnavailable", "Gone away."), pieces=()),
    ]
    frame = framed(
        tmp_path / "x.jsonl",
        a_run(turns=turns),
        a_run("2", "Else?", turns=[a_turn(calls=(a_call(),)), a_turn("main/1.1")]),
    )
    assert list(frame.columns) == [column.name for column in CASSETTE.columns]
    assert frame["kind"].tolist() == ["model", "tool", "tool", "tool", "model", "model", "tool", "model"]
    assert frame["run_number"].tolist() == [1, 1, 1, 1, 1, 2, 2, 2]
    assert frame["position"].fillna(0).tolist() == [0, 1, 2, 3, 0, 0, 1, 0]
    assert frame["name"].tolist()[:5] == ["m-2026", "web_search", "rewrite_artifact", "web_search", "m"]
    model, searched, denied, unfinished, failed, *_, other = (row for _, row in frame.iterrows())
    assert (model["answered_chars"], model["input_tokens"], model["cost_usd"]) == (len(LONG) + 6, 100, 0.25)
    assert (model["asked"], model["started_at"], model["attempt"]) == ("Step 1 of main", pd.Timestamp(START), 1)
    assert (searched["asked"], searched["answered"][:12]) == ('{"query":"managers"}', "Found: What ")
    assert (denied["decision"], denied["success"], denied["answered"]) == ("denied", False, "Permission denied")
    assert unfinished[["success", "answered_chars", "duration_ms", "decision"]].isna().all()
    assert (failed["error_type"], failed["answered"], failed["success"]) == ("ModelUnavailable", "Gone away.", False)
    assert (other["path"], other["question"]) == ("main/1.1", "Else?")


def test_an_empty_cassette_has_the_same_types(tmp_path: Path) -> None:
    """Types follow from the declaration, not from the rows."""
    full, empty = framed(tmp_path / "full.jsonl", a_run()), framed(tmp_path / "empty.jsonl")
    assert len(empty) == 0
    for name, dtype in full.dtypes.items():
        assert dtype == empty.dtypes[name] or str(dtype) == str(empty.dtypes[name]) == "category", name
    assert full.attrs["schema"] == "artifactflow_nb/cassette/1"


def test_columns_are_chosen_by_name_or_group(tmp_path: Path) -> None:
    """The ids come along; an unknown name is told with those that there are."""
    (tmp_path / "x.jsonl").write_bytes(cassette_bytes([a_run()]))
    frame = af.cassette_df(tmp_path / "x.jsonl", columns=["tokens", "name"])
    ids = ["run_number", "run_id", "path", "step", "attempt", "position"]
    assert list(frame.columns) == [*ids, "name", "input_tokens", "output_tokens"]
    with pytest.raises(af.UsageError, match="The frame cassette has no column or group 'price'"):
        af.cassette_df(tmp_path / "x.jsonl", columns="price")
