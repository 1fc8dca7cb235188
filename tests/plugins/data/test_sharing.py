"""Sharing: snapshots of frames, clear words for awkward ones, and the card."""

import datetime as dt
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import OpenWorkbench
from IPython.core.interactiveshell import InteractiveShell

from artifactflow_nb.errors import UsageError
from artifactflow_nb.plugins.data.snapshot import SharedFrame

CASTS = pd.DataFrame({"site": ["a", "b", "a"], "temp": [1.5, None, 3.0]})


def twins() -> pd.DataFrame:
    return pd.DataFrame([[1, 2]], columns=["x", "x"])


class ForeignFrame:
    """A DataFrame of another library."""

    def to_pandas(self) -> pd.DataFrame:
        return CASTS


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (twins(), "which SQL cannot tell apart"),
        (pd.DataFrame({"Temp": [1], "temp": [2]}), "which SQL cannot tell apart"),
        (pd.DataFrame(index=[0, 1]), "has no columns"),
        (pd.DataFrame({"x": [pd.Timestamp("2020-01-01")]}, dtype=object), "pd.to_datetime(..., utc=True)"),
        (ForeignFrame(), "share DataFrames of pandas. Call .to_pandas() first."),
        (pd.DataFrame({1: [1]}), "whose name is no text"),
        (pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])), "MultiIndex as its columns"),
        (pd.DataFrame({"x": [1]}, index=pd.MultiIndex.from_tuples([("a", "b")])), "call .reset_index() first"),
        (pd.DataFrame({"x": [1, "one"]}, dtype=object), "int, str"),
        (pd.DataFrame({"x": [{1}, {2}]}), "set"),
        (pd.DataFrame({"x": [2**70, 1]}, dtype=object), "more than 64 bits"),
        (pd.DataFrame({"x": pd.period_range("2020", periods=2, freq="M")}), ".dt.to_timestamp()"),
        (pd.DataFrame({"x": [1j]}), "complex"),
        (pd.DataFrame({"a\ud800": [1]}), "whose name is no text of one line"),
        (pd.DataFrame({"a\nb": [1]}), "whose name is no text of one line"),
        (pd.DataFrame({" ": [1]}), "whose name is no text of one line"),
        (pd.DataFrame({"x": [Decimal("1e30"), Decimal("1e-9")]}), "decimals of more than 38 digits"),
        (pd.DataFrame({"x": [Decimal("Infinity")]}), "infinity"),
        (pd.DataFrame({"x": [b"a"]}), "decode it"),
        (pd.DataFrame({"x": [dt.time(9)]}), "times without a date"),
        (pd.Series([1]), "Call .to_frame() first"),
        ([1], "share DataFrames"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_awkward_frame_is_refused_with_a_way_out(frame: Any, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        SharedFrame.of("casts", frame, "rows")
    assert words in str(caught.value)


def test_kinds_of_columns_name_the_zone_of_times() -> None:
    frame = pd.DataFrame(
        {
            "day": pd.to_datetime(["2020-01-01"]),
            "berlin": pd.to_datetime(["2020-01-01"]).tz_localize("Europe/Berlin"),
            "kind": pd.Categorical(["u"]),
            "n": pd.array([1], dtype="Int64"),
            "is_ok": [True],
            "took": pd.to_timedelta([1], unit="s"),
        },
        index=pd.Index(["s1"], name="station"),
    )
    assert SharedFrame.of("casts", frame, "rows").columns == {
        "station": "text",
        "day": "time",
        "berlin": "time in UTC, not Europe/Berlin",
        "kind": "text",
        "n": "integer",
        "is_ok": "boolean",
        "took": "duration",
    }


def test_snapshot_does_not_follow_the_frame() -> None:
    frame = CASTS.copy()
    shared = SharedFrame.of("casts", frame, "rows")
    frame.loc[0, "temp"] = 99.0
    assert shared.frame["temp"][0] == 1.5


def test_fingerprint_depends_on_values_names_and_types() -> None:
    same = [SharedFrame.of("casts", CASTS.copy(), "rows").fingerprint, SharedFrame.of("x", CASTS, "schema").fingerprint]
    others = [
        CASTS.assign(temp=[1.5, None, 3.1]),
        CASTS.assign(site=["a", "b", "b"]),
        CASTS.rename(columns={"temp": "t"}),
        CASTS.assign(temp=CASTS["temp"].astype("float32")),
        CASTS.head(2),
    ]
    assert len({*same}) == 1
    assert len({*same, *(SharedFrame.of("casts", frame, "rows").fingerprint for frame in others)}) == 6


def test_agents_have_the_tools_from_the_first_share_on(workbench: OpenWorkbench) -> None:
    wb = workbench(["Fine."])
    before = wb._thread.engine.lead.tool_names
    wb.data.share(casts=CASTS)
    added = [name for name in wb._thread.engine.lead.tool_names if name not in before]
    assert added == ["list_data", "describe_data", "query_data", "plot_data"]
    query = next(entry for entry in wb._thread.engine.tools if entry.name == "query_data")
    assert '"casts" (3 rows): "site" text, "temp" number' in query.description


def test_card_shows_frames_and_says_how_to_share(workbench: OpenWorkbench) -> None:
    wb = workbench(["Fine."])
    assert "wb.data.share(name=frame)" in wb.data._card().plain()
    wb.data.share(casts=CASTS)
    wb.data.share(people=CASTS, see="aggregates")
    card = wb.data._card().plain()
    assert "casts   3     2        rows        0" in card
    assert "aggregates" in card
    assert "people" in wb.data._repr_html_()
    wb.data.unshare("people")
    assert "people" not in wb.data._card().plain()
    wb.data.unshare()
    assert "Nothing is shared." in wb.data._card().plain()


def test_card_names_a_variable_that_was_assigned_again(
    workbench: OpenWorkbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = InteractiveShell()
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: shell)
    shell.user_ns["casts"] = CASTS
    wb = workbench(["Fine."])
    wb.data.share(casts=CASTS)
    assert "another frame" not in wb.data._card().plain()
    shell.user_ns["casts"] = CASTS.head(1)
    assert "The variable casts is another frame now" in wb.data._card().plain()


def test_errors_of_sharing_say_what_to_do(workbench: OpenWorkbench, monkeypatch: pytest.MonkeyPatch) -> None:
    wb = workbench(["Fine."])
    wb.data.share(casts=CASTS)
    with pytest.raises(UsageError, match="'Casts' is in use in another case"):
        wb.data.share(Casts=CASTS)
    for unnamed in ((), (CASTS,)):
        with pytest.raises(UsageError, match="Pass DataFrames by name"):
            wb.data.share(*unnamed)
    with pytest.raises(UsageError, match="see is 'all'"):
        wb.data.share(casts=CASTS, see="all")
    with pytest.raises(UsageError, match="'stations' is not shared. Shared: casts"):
        wb.data.unshare("stations")
    with pytest.raises(UsageError, match="MultiIndex"):
        wb.data.share(fine=CASTS, awkward=CASTS.set_index(["site", "temp"]))
    assert list(wb._thread.engine.service(type(wb.data._shared)).frames) == ["casts"]
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UsageError, match=r"pip install 'artifactflow-nb\[data\]'"):
        wb.data.share(casts=CASTS)


def test_attributes_and_plain_indexes_stay_out() -> None:
    frame = CASTS.iloc[[2, 0]]
    frame.attrs["secret"] = object()
    shared = SharedFrame.of("casts", frame, "rows")
    assert (list(shared.columns), shared.frame.attrs) == (["site", "temp"], {})
    assert np.array_equal(shared.frame["temp"], [3.0, 1.5])
