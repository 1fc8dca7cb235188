"""Stored values packed into typed pandas arrays, column by column.

Rows come in small portions, and each portion of a column becomes a numpy array at once: its numbers and names are gone
as Python objects before the next portion is read, and all of them still lie in the processor's cache. Converting whole
columns afterwards costs more than twice as much.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

PORTION = 200
"""Rows to pack at a time."""

Dtype = Any  # pandas' stubs take literals only
TEXT, ENUM, INT, FLOAT, BOOL, TIME = "string", "category", "Int64", "Float64", "boolean", "datetime64[us, UTC]"


class Packer:
    """Takes a column's values in portions, each with None for what is unknown; gives them as one array."""

    def __init__(self) -> None:
        self._portions: list[np.ndarray[Any, Any]] = []

    def add(self, values: tuple[Any, ...]) -> None:
        """Take the next values."""
        self._portions.append(_objects(values))

    def array(self) -> Any:
        """All values, as text."""
        return pd.array(self._joined(np.object_), dtype="string")

    def _joined(self, kind: Any) -> np.ndarray[Any, Any]:
        return np.concatenate(self._portions) if self._portions else np.empty(0, kind)


class _Integers(Packer):
    """Whole numbers, with a mask of what is unknown."""

    def __init__(self) -> None:
        super().__init__()
        self._masks: list[np.ndarray[Any, Any]] = []

    def add(self, values: tuple[Any, ...]) -> None:
        try:
            numbers, unknown = np.array(values, np.int64), np.zeros(len(values), np.bool_)
        except TypeError:  # some value is None
            unknown = np.array([value is None for value in values])
            numbers = np.array([value or 0 for value in values], np.int64)
        self._portions.append(numbers)
        self._masks.append(unknown)

    def array(self) -> Any:
        return pd.arrays.IntegerArray(self._joined(np.int64), self._mask())

    def _mask(self) -> np.ndarray[Any, Any]:
        return np.concatenate(self._masks) if self._masks else np.empty(0, np.bool_)


class _Booleans(_Integers):
    """Truth values, stored as 0 and 1."""

    def array(self) -> Any:
        return pd.arrays.BooleanArray(self._joined(np.int64) != 0, self._mask())


class _Times(_Integers):
    """Moments, stored as microseconds since 1970 in UTC."""

    def array(self) -> Any:
        moments = self._joined(np.int64).astype("datetime64[us]")
        moments[self._mask()] = np.datetime64("NaT")
        return pd.DatetimeIndex(moments).tz_localize("UTC")


class _Floats(Packer):
    """Numbers; SQLite stores none that is not a number, so NaN can stand for unknown on the way."""

    def add(self, values: tuple[Any, ...]) -> None:
        self._portions.append(np.array(values, np.float64))

    def array(self) -> Any:
        numbers = self._joined(np.float64)
        return pd.arrays.FloatingArray(numbers, np.isnan(numbers))


class _Categories(Packer):
    """Names of which there are few: numbered as they come, sorted in the end."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[str | None, int] = {None: -1}

    def add(self, values: tuple[Any, ...]) -> None:
        numbers = self._numbers
        for name in set(values).difference(numbers):
            numbers[name] = len(numbers) - 1
        self._portions.append(np.fromiter(map(numbers.__getitem__, values), np.int64, len(values)))

    def array(self) -> Any:
        names = [name for name in self._numbers if name is not None]
        known = pd.Series(names, dtype="object").astype("category")
        places = np.append(known.cat.codes.to_numpy(), np.int8(-1))  # the last one is where -1 leads
        return pd.Categorical.from_codes(places[self._joined(np.int64)], categories=known.cat.categories)


_PACKERS: dict[str, type[Packer]] = {
    TEXT: Packer,
    ENUM: _Categories,
    INT: _Integers,
    FLOAT: _Floats,
    BOOL: _Booleans,
    TIME: _Times,
}


def pack(rows: Any, dtypes: Sequence[Dtype]) -> list[Any]:
    """Take all rows of a cursor; an array for each column, of its type.

    Args:
        rows: A cursor that gives tuples, as many values each as there are types.
        dtypes: The columns' types, each one of those above.
    """
    packers = [_PACKERS[dtype]() for dtype in dtypes]
    while portion := rows.fetchmany(PORTION):
        for packer, values in zip(packers, zip(*portion, strict=True), strict=True):
            packer.add(values)
    return [packer.array() for packer in packers]


def _objects(values: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    objects = np.empty(len(values), np.object_)
    objects[:] = values
    return objects
