"""Conversion of SQL rows to typed pandas arrays, column by column.

Rows are read in small batches, and each column of a batch becomes a numpy array at once: its Python objects are freed
before the next batch is read, and are still in the processor's cache when they are converted. Converting whole columns
afterwards costs more than twice as much.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from artifactflow_nb.store.frames import BOOL, ENUM, FLOAT, INT, TEXT, TIME

BATCH_ROWS = 200
"""Rows per batch."""


class Packer:
    """Collects the values of a text column in batches, None for unknown; the base of the other types."""

    def __init__(self) -> None:
        self._batches: list[np.ndarray[Any, Any]] = []

    def add(self, values: tuple[Any, ...]) -> None:
        """Append a batch of values; None means unknown."""
        objects = np.empty(len(values), np.object_)
        objects[:] = values
        self._batches.append(objects)

    def array(self) -> Any:
        """All values as one array."""
        return pd.array(self._joined(np.object_), dtype="string")

    def _joined(self, kind: Any) -> np.ndarray[Any, Any]:
        return np.concatenate(self._batches) if self._batches else np.empty(0, kind)


class _Integers(Packer):
    """Integers, with a mask for unknown values."""

    def __init__(self) -> None:
        super().__init__()
        self._masks: list[np.ndarray[Any, Any]] = []

    def add(self, values: tuple[Any, ...]) -> None:
        try:
            numbers, unknown = np.array(values, np.int64), np.zeros(len(values), np.bool_)
        except TypeError:  # some value is None
            unknown = np.array([value is None for value in values])
            numbers = np.array([value or 0 for value in values], np.int64)
        self._batches.append(numbers)
        self._masks.append(unknown)

    def array(self) -> Any:
        return pd.arrays.IntegerArray(self._joined(np.int64), self._mask())

    def _mask(self) -> np.ndarray[Any, Any]:
        return np.concatenate(self._masks) if self._masks else np.empty(0, np.bool_)


class _Booleans(_Integers):
    """Booleans, stored as 0 and 1."""

    def array(self) -> Any:
        return pd.arrays.BooleanArray(self._joined(np.int64) != 0, self._mask())


class _Times(_Integers):
    """Times, stored as microseconds since 1970 in UTC."""

    def array(self) -> Any:
        times = self._joined(np.int64).astype("datetime64[us]")
        times[self._mask()] = np.datetime64("NaT", "us")
        return pd.DatetimeIndex(times).tz_localize("UTC")


class _Floats(Packer):
    """Floats. SQLite cannot store NaN, so NaN can represent unknown here."""

    def add(self, values: tuple[Any, ...]) -> None:
        self._batches.append(np.array(values, np.float64))

    def array(self) -> Any:
        numbers = self._joined(np.float64)
        return pd.arrays.FloatingArray(numbers, np.isnan(numbers))


class _Categories(Packer):
    """Texts with few distinct values: numbered as they arrive, sorted at the end."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[str | None, int] = {None: -1}

    def add(self, values: tuple[Any, ...]) -> None:
        numbers = self._numbers
        for name in set(values).difference(numbers):
            numbers[name] = len(numbers) - 1
        self._batches.append(np.fromiter(map(numbers.__getitem__, values), np.int64, len(values)))

    def array(self) -> Any:
        names = [name for name in self._numbers if name is not None]
        known = pd.Series(names, dtype="object").astype("category")
        codes = np.append(known.cat.codes.to_numpy(), np.int8(-1))  # index -1 (unknown) gets the last entry
        return pd.Categorical.from_codes(codes[self._joined(np.int64)], categories=known.cat.categories)


class _Objects(Packer):
    """Values of several Python types, or of a type without a pandas type."""

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
    _OBJECT: _Objects,
}
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


def pack(rows: Any, dtypes: Sequence[str]) -> list[Any]:
    """Read all rows of a cursor into one array per column. `dtypes` are the pandas types of its columns."""
    packers = [_PACKERS[dtype]() for dtype in dtypes]
    while batch := rows.fetchmany(BATCH_ROWS):
        for packer, values in zip(packers, zip(*batch, strict=True), strict=True):
            packer.add(values)
    return [packer.array() for packer in packers]


def pack_fitting(
    rows: Any, wanted: Sequence[str | None], decode: Callable[[bytes], object] = lambda value: value
) -> list[Any]:
    """Read all rows of a cursor into one array per column, of the wanted type if all values fit it.

    Otherwise the type is inferred from the values: `Int64`, `Float64` or `string`; `object` for mixed types and for
    columns without known values. `decode` returns the value of a BLOB.
    """
    columns: list[list[tuple[Any, ...]]] = [[] for _ in wanted]
    while batch := rows.fetchmany(BATCH_ROWS):
        for batches, values in zip(columns, zip(*batch, strict=True), strict=True):
            batches.append(values)
    arrays = []
    for batches, dtype in zip(columns, wanted, strict=True):
        types = _types(batches)
        if bytes in types:
            batches = [tuple(decode(v) if isinstance(v, bytes) else v for v in values) for values in batches]  # noqa: PLW2901
            types = _types(batches)
        fits = dtype is not None and types <= _VALUE_TYPES[dtype]
        if fits and dtype == BOOL:  # stored as integers, but an expression such as count(*) may have the column's name
            fits = all(_BOOL_VALUES.issuperset(values) for values in batches)
        inferred = next((name for name in (INT, FLOAT, TEXT) if types and types <= _VALUE_TYPES[name]), _OBJECT)
        packer = _PACKERS[dtype if dtype and fits else inferred]()
        for values in batches:
            packer.add(values)
        arrays.append(packer.array())
    return arrays


def _types(batches: Sequence[tuple[Any, ...]]) -> set[type]:
    return {value_type for values in batches for value_type in set(map(type, values))} - {type(None)}


def as_frame(names: Sequence[str], arrays: Sequence[Any], schema: str) -> pd.DataFrame:
    """Combine arrays to a frame with the schema's name in `attrs["schema"]`."""
    frame = pd.DataFrame(dict(zip(names, arrays, strict=True)), copy=False)
    frame.attrs["schema"] = schema
    return frame
