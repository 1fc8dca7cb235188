"""Conversion of SQL rows to typed pandas arrays, column by column."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from artifactflow_nb.store.frames import BOOL, ENUM, FLOAT, INT, TEXT, TIME

_OBJECT = "object"
_VALUE_TYPES: dict[str, set[type]] = {
    TEXT: {str},
    ENUM: {str},
    INT: {int},
    FLOAT: {int, float},
    BOOL: {int},
    TIME: {int},
}
"""Python types of the values that fit each pandas type."""
_BOOL_VALUES = frozenset({0, 1, None})


def _array(values: Sequence[Any], dtype: str) -> Any:
    """Convert values to an array of a pandas type; None means unknown."""
    if dtype == ENUM:
        return pd.Categorical(values)
    if dtype == _OBJECT:
        objects = np.empty(len(values), np.object_)
        objects[:] = values
        return pd.arrays.NumpyExtensionArray(objects)
    if dtype == FLOAT:  # SQLite cannot store NaN, so NaN can stand for unknown here
        floats = np.array(values, np.float64)
        return pd.arrays.FloatingArray(floats, np.isnan(floats))
    if dtype == TEXT:
        return pd.array(values, dtype="string")
    unknown = np.array([value is None for value in values], np.bool_)
    integers = np.array([value or 0 for value in values], np.int64)
    if dtype == INT:
        return pd.arrays.IntegerArray(integers, unknown)
    if dtype == BOOL:
        return pd.arrays.BooleanArray(integers != 0, unknown)
    times = integers.astype("datetime64[us]")  # microseconds since 1970 in UTC
    times[unknown] = np.datetime64("NaT", "us")
    return pd.DatetimeIndex(times).tz_localize("UTC")


def _columns(rows: Iterable[Sequence[Any]], n_columns: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(n_columns)]


def pack(rows: Any, dtypes: Sequence[str]) -> list[Any]:
    """Read all rows of a cursor into one array per column. `dtypes` are the pandas types of the columns."""
    return [_array(values, dtype) for values, dtype in zip(_columns(rows, len(dtypes)), dtypes, strict=True)]


def pack_fitting(
    rows: Any, dtypes: Sequence[str | None], decode: Callable[[bytes], object] = lambda value: value
) -> list[Any]:
    """Read all rows of a cursor into one array per column, of the type in `dtypes` if all values fit this type.

    Otherwise the type is inferred from the values: `Int64`, `Float64` or `string`; `object` for mixed types and for
    columns without known values. `decode` returns the value of a BLOB.
    """
    arrays = []
    for stored, dtype in zip(_columns(rows, len(dtypes)), dtypes, strict=True):
        values = [decode(value) if isinstance(value, bytes) else value for value in stored]
        types = set(map(type, values)) - {type(None)}
        fits = dtype is not None and types <= _VALUE_TYPES[dtype]
        if fits and dtype == BOOL:  # stored as integers, but an expression such as count(*) may have the column's name
            fits = _BOOL_VALUES.issuperset(values)
        inferred = next((name for name in (INT, FLOAT, TEXT) if types and types <= _VALUE_TYPES[name]), _OBJECT)
        arrays.append(_array(values, dtype if dtype and fits else inferred))
    return arrays


def as_frame(names: Sequence[str], arrays: Sequence[Any], schema: str) -> pd.DataFrame:
    """Combine arrays to a frame with the schema's name in `attrs["schema"]`."""
    frame = pd.DataFrame(dict(zip(names, arrays, strict=True)), copy=False)
    frame.attrs["schema"] = schema
    return frame
