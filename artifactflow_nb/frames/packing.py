"""Stored values packed into typed pandas arrays, column by column.

Rows come in small portions, and each portion of a column becomes a numpy array at once: its numbers and names are gone
as Python objects before the next portion is read, and all of them still lie in the processor's cache. Converting whole
columns afterwards costs more than twice as much.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from artifactflow_nb.frames.columns import BOOL, ENUM, FLOAT, INT, TEXT, TIME

PORTION = 200
"""Rows to pack at a time."""


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


class _Anything(Packer):
    """Values of several kinds, or of none that has a type of its own."""

    def array(self) -> Any:
        return pd.arrays.NumpyExtensionArray(self._joined(np.object_))


_OBJECT = "object"
_PACKERS: dict[str, type[Packer]] = {
    TEXT: Packer,
    ENUM: _Categories,
    INT: _Integers,
    FLOAT: _Floats,
    BOOL: _Booleans,
    TIME: _Times,
    _OBJECT: _Anything,
}
_KINDS: dict[str, set[type]] = {TEXT: {str}, ENUM: {str}, INT: {int}, FLOAT: {int, float}, BOOL: {int}, TIME: {int}}
"""The kinds of values that a column of a type can take."""


def pack(rows: Any, dtypes: Sequence[str]) -> list[Any]:
    """Take all rows of a cursor; an array for each column, of its type.

    Args:
        rows: A cursor that gives tuples, as many values each as there are types.
        dtypes: The columns' types, each one of a frame's.
    """
    packers = [_PACKERS[dtype]() for dtype in dtypes]
    while portion := rows.fetchmany(PORTION):
        for packer, values in zip(packers, zip(*portion, strict=True), strict=True):
            packer.add(values)
    return [packer.array() for packer in packers]


def pack_fitting(rows: Any, wanted: Sequence[str | None]) -> list[Any]:
    """Take all rows of a cursor; an array for each column, of the wanted type if its values fit it.

    Otherwise the values say the type: `Int64`, `Float64` or `string`, and `object` where that is no single one of these
    or nothing is known.
    """
    columns: list[list[tuple[Any, ...]]] = [[] for _ in wanted]
    while portion := rows.fetchmany(PORTION):
        for column, values in zip(columns, zip(*portion, strict=True), strict=True):
            column.append(values)
    return [_packed(column, dtype) for column, dtype in zip(columns, wanted, strict=True)]


def _packed(portions: Sequence[tuple[Any, ...]], wanted: str | None) -> Any:
    kinds = {kind for values in portions for kind in set(map(type, values))} - {type(None)}
    packer = _PACKERS[wanted if wanted and _fits(wanted, kinds, portions) else _found(kinds)]()
    for values in portions:
        packer.add(values)
    return packer.array()


def _fits(dtype: str, kinds: set[type], portions: Sequence[tuple[Any, ...]]) -> bool:
    return kinds <= _KINDS[dtype] and (dtype != BOOL or all(_TRUTHS.issuperset(values) for values in portions))


_TRUTHS = frozenset({0, 1, None})


def _found(kinds: set[type]) -> str:
    return next((dtype for dtype in (INT, FLOAT, TEXT) if kinds and kinds <= _KINDS[dtype]), _OBJECT)


def as_frame(names: Sequence[str], arrays: Sequence[Any], schema: str) -> pd.DataFrame:
    """The arrays as a frame; `attrs["schema"]` names what it is and its version."""
    frame = pd.DataFrame(dict(zip(names, arrays, strict=True)), copy=False)
    frame.attrs["schema"] = schema
    return frame


def _objects(values: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    objects = np.empty(len(values), np.object_)
    objects[:] = values
    return objects
