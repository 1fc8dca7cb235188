"""Conversion of stored values to typed arrays, across batches."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pandas as pd
import pytest

from artifactflow_nb.analysis.frames.packing import pack
from artifactflow_nb.store.frames import BOOL, ENUM, FLOAT, INT, TEXT, TIME


def packed(values: Sequence[Any], dtype: str) -> pd.Series:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE t (value)")
        db.executemany("INSERT INTO t VALUES (?)", [(value,) for value in values])
        (array,) = pack(db.execute("SELECT value FROM t ORDER BY rowid"), [dtype])
    return pd.Series(array)


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (TEXT, ["a", None, ""], ["a", None, ""]),
        (ENUM, ["b", None, "a", "b"], ["b", None, "a", "b"]),
        (INT, [2**62 + 1, None, -1, 0], [2**62 + 1, None, -1, 0]),
        (FLOAT, [0.5, None, 2], [0.5, None, 2.0]),
        (BOOL, [1, None, 0], [True, None, False]),
        (TIME, [1_767_225_600_000_001, None], [pd.Timestamp("2026-01-01T00:00:00.000001Z"), None]),
    ],
)
@pytest.mark.parametrize("times", [0, 1, 201])
def test_values_get_the_type_of_the_column(dtype: str, values: list[Any], expected: list[Any], times: int) -> None:
    """Values keep their order across batches, and None becomes NA."""
    series = packed(values * times, dtype)
    assert str(series.dtype) == dtype
    assert [None if pd.isna(value) else value for value in series] == expected * times


def test_categories_are_sorted() -> None:
    """Categories are sorted as by pandas, in any order of the values."""
    assert packed(["b", "a", None, "c", "a"], ENUM).cat.categories.tolist() == ["a", "b", "c"]
