"""`SharedFrame`: a snapshot of a DataFrame that SQL can read, with a fingerprint."""

import hashlib
import re
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

from artifactflow_nb.errors import UsageError, brief

if TYPE_CHECKING:
    import pandas as pd

See = Literal["rows", "aggregates", "schema"]  # results of any query, of at least MIN_GROUP rows, or columns only
MIN_GROUP = 5
MAX_CATEGORIES = 20
_MAX_DIGITS = 38  # of a DECIMAL
_NO_TEXT = re.compile(r"[\0-\x1f\x7f\ud800-\udfff]|^\s*$")  # what neither SQL nor UTF-8 can write

DESCRIBED = ("column", "type", "missing", "distinct", "min", "max", "mean", "stddev", "categories")

_KINDS = {"b": "boolean", "i": "integer", "u": "integer", "f": "number", "M": "time", "m": "duration"}
# Kinds of columns of objects, by their content, and the types of pandas in which SQL reads them.
_OBJECTS: dict[str, tuple[str, Any]] = {
    "string": ("text", "string"), "empty": ("text", "string"), "boolean": ("boolean", "boolean"),
    "integer": ("integer", "Int64"), "floating": ("number", "float64"), "decimal": ("number", object),
    "date": ("date", object),
}  # fmt: skip

_ADVICE = {
    "long decimal": "infinity, or decimals of more than 38 digits; convert it with .astype(float)",
    "period": "a period; convert it with .dt.to_timestamp()",
    "datetime": "times as objects, e.g. of several time zones; convert it with pd.to_datetime(..., utc=True)",
    "bytes": "bytes; leave it out or decode it",
    "time": "times without a date; convert it with .astype(str)",
}


@dataclass(frozen=True, eq=False)
class SharedFrame:
    """A snapshot of a DataFrame under its name in SQL, the kinds of its columns, and the DataFrame while it exists."""

    name: str
    frame: "pd.DataFrame" = field(repr=False)
    see: See
    columns: Mapping[str, str]
    source: Callable[[], Any]

    @classmethod
    def of(cls, name: str, frame: Any, see: See) -> "SharedFrame":
        """Take a snapshot of a DataFrame; later changes of the DataFrame do not change the snapshot.

        Errors: `UsageError` with advice for a value that is no DataFrame, and for columns that SQL cannot read.
        """
        if see not in get_args(See):
            raise UsageError(f"see is {brief(see)}; it must be one of {', '.join(get_args(See))}.")
        snapshot = _snapshot(name, frame)
        check_names(name, list(snapshot.columns))
        columns = {}
        for column in list(snapshot.columns):
            converted, columns[column] = _readable(snapshot[column], f"The column {brief(column)} of {name}")
            if converted is not None:
                snapshot[column] = converted
        return cls(name, snapshot, see, columns, weakref.ref(frame))

    @property
    def schema(self) -> str:
        """The table with its columns in one line, without values."""
        columns = ", ".join(f"{quoted(column)} {kind}" for column, kind in self.columns.items())
        return f"{quoted(self.name)} ({len(self.frame):,} rows): {columns}"

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all values, names and types, 32 hexadecimal digits; takes about 60 ms for 40 MB."""
        digest = hashlib.blake2b(digest_size=16)
        for column, series in self.frame.items():
            digest.update(f"{column}\0{series.dtype}\0{len(series)}\0".encode("utf-8", "replace"))
            digest.update(_buffer(series))
        return digest.hexdigest()


def _snapshot(name: str, frame: Any) -> "pd.DataFrame":
    import pandas as pd

    if not isinstance(frame, pd.DataFrame):
        way = "to_frame" if isinstance(frame, pd.Series) else "to_pandas"
        hint = f" Call .{way}() first." if hasattr(frame, way) else ""
        raise UsageError(f"{name} is a {type(frame).__name__}; share DataFrames of pandas.{hint}")
    for axis, way in (("columns", "join the levels to one name each"), ("index", "call .reset_index() first")):
        if isinstance(getattr(frame, axis), pd.MultiIndex):
            raise UsageError(f"{name} has a MultiIndex as its {axis}; {way}.")
    copies_on_write = int(pd.__version__.split(".")[0]) >= 3  # noqa: PLR2004 - the release that made it the rule
    snapshot = pd.DataFrame(frame).copy(deep=not copies_on_write)
    snapshot.attrs = {}
    has_meaning = snapshot.index.name is not None or snapshot.index.dtype.kind not in "iu"
    return snapshot.reset_index(drop=not has_meaning, allow_duplicates=True)


def check_names(name: str, columns: list[Any]) -> None:
    """Raise `UsageError` for column names that SQL cannot tell apart."""
    if others := [column for column in columns if not isinstance(column, str) or _NO_TEXT.search(column)]:
        way = "rename the columns, e.g. with frame.columns = frame.columns.map(str)"
        raise UsageError(f"{name} has a column {brief(others[0])}, whose name is no text of one line; {way}.")
    if not columns:
        raise UsageError(f"{name} has no columns; share a DataFrame that has one.")
    names: dict[str, str] = {}
    for column in columns:
        if before := names.get(column.casefold()):
            raise UsageError(f"{name} has columns {before!r} and {column!r}, which SQL cannot tell apart; rename one.")
        names[column.casefold()] = column


def _readable(series: "pd.Series[Any]", label: str) -> "tuple[pd.Series[Any] | None, str]":
    """Return a column in a type that SQL reads, or None if the column has such a type, and the kind of the column."""
    import pandas as pd

    dtype: Any = series.dtype
    if isinstance(dtype, pd.CategoricalDtype) and not isinstance(dtype.categories.dtype, pd.StringDtype):
        plain = series.astype(dtype.categories.dtype if dtype.categories.dtype.kind in "mM" else object)
        converted, kind = _readable(plain, label)
        return plain if converted is None else converted, kind
    if isinstance(dtype, pd.DatetimeTZDtype):
        return None, "time in UTC" if str(dtype.tz) == "UTC" else f"time in UTC, not {dtype.tz}"
    if isinstance(dtype, pd.StringDtype | pd.CategoricalDtype):
        return None, "text"
    kind = getattr(dtype, "kind", "O")
    is_plain = kind in _KINDS and type(dtype).__name__ != "SparseDtype" and dtype.itemsize in {1, 2, 4, 8}
    if is_plain and (kind, dtype.itemsize) != ("f", 2):
        return None if getattr(dtype, "isnative", True) else series.astype(dtype.newbyteorder("=")), _KINDS[kind]
    inferred = pd.api.types.infer_dtype(series, skipna=True)
    if inferred == "decimal":
        series = series.map(Decimal, na_action="ignore")  # another process does not know a subclass
        inferred = "long decimal" if _digits(series[series.notna()]) > _MAX_DIGITS else inferred
    if inferred in _OBJECTS and dtype != "longdouble":
        try:  # None also stands for the NaN of decimals, which SQL cannot read
            values = series.where(series.notna(), None) if kind == "O" else series
            return values.astype(_OBJECTS[inferred][1]), _OBJECTS[inferred][0]
        except OverflowError:
            raise UsageError(f"{label} holds integers of more than 64 bits; convert it with .astype(float).") from None
    types = sorted({type(value).__name__ for value in series[series.notna()].head(10_000)})
    advice = f"{dtype} values ({', '.join(types[:5])}); convert it to text, numbers or times"
    raise UsageError(f"{label} holds {_ADVICE.get(inferred, _ADVICE.get(str(dtype).partition('[')[0], advice))}.")


def _digits(decimals: "pd.Series[Any]") -> int:
    """Return the digits that a column needs before and after the point together; 99 if a value is infinite."""
    sizes = ((v.adjusted() + 1, -v.as_tuple().exponent) if v.is_finite() else (99, 0) for v in decimals)
    return sum(max(0, *side) for side in zip(*sizes, strict=True))


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def _buffer(series: "pd.Series[Any]") -> memoryview:
    """Return bytes that are equal for equal values."""
    import numpy as np
    import pandas as pd

    plain = isinstance(series.dtype, np.dtype) and series.dtype != object
    hashed = series if plain else pd.util.hash_pandas_object(series, index=False, encoding="unicode_escape")  # any text
    return np.ascontiguousarray(hashed.to_numpy()).view("u1").data
