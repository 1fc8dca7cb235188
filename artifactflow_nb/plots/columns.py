"""What a chart reads of a frame: columns that it needs, those that it can do without, values with None for unknown."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from artifactflow_nb.errors import UsageError

TEXT, INT, FLOAT = "string", "Int64", "Float64"
_SOURCES = {name: f"wb.{name}_df()" for name in ("llm_calls", "tool_calls", "approvals", "plan_steps", "evaluations")}


class Table:
    """A frame as a chart reads it.

    Args:
        frame: The frame, or None for one without rows.
        name: Which one it should be: `llm_calls`, `tool_calls`, `approvals`, `plan_steps` or `evaluations`.
        chart: The function that reads it, for what an error says.
        needed: The columns that must be there.

    Errors: `UsageError` that names what is missing, and where it comes from.
    """

    def __init__(self, frame: pd.DataFrame | None, name: str, chart: str, needed: Sequence[str]) -> None:
        if frame is not None and not isinstance(frame, pd.DataFrame):
            raise UsageError(
                f"{chart} draws a DataFrame of {name}, not {type(frame).__name__}. {_SOURCES[name]} gives one."
            )
        missing = [] if frame is None else [column for column in needed if column not in frame.columns]
        if missing:
            had = ", ".join(map(str, list(frame.columns)[:12])) if frame is not None and len(frame.columns) else "none"
            raise UsageError(
                f"{chart} needs the columns {', '.join(needed)} of {name}; this frame lacks {', '.join(missing)} "
                f"(it has: {had}). {_SOURCES[name]} gives them all; keep them when you pick columns."
            )
        self._frame = frame

    def __len__(self) -> int:
        return 0 if self._frame is None else len(self._frame)

    def values(self, column: str) -> list[Any]:
        """The values of a column as plain ones; None where unknown, and throughout if the column is not there."""
        if self._frame is None or column not in self._frame.columns:
            return [None] * len(self)
        return [None if _unknown(value) else value for value in self._frame[column].astype(object).tolist()]

    def texts(self, column: str, unknown: str = "") -> list[str]:
        """The values as text."""
        return [unknown if value is None else str(value) for value in self.values(column)]

    def numbers(self, column: str) -> list[float | None]:
        """The values as numbers."""
        return [None if value is None else float(value) for value in self.values(column)]

    def moments(self, column: str) -> list[float | None]:
        """Times as milliseconds since 1970 in UTC."""
        times = [None if value is None else pd.Timestamp(value) for value in self.values(column)]
        return [None if time is None else _utc(time).value / 1e6 for time in times]


def _unknown(value: Any) -> bool:
    return value is None or value is pd.NA or bool(value != value)  # noqa: PLR0124 - NaN and NaT differ from themselves


def _utc(time: pd.Timestamp) -> pd.Timestamp:
    """The time in nanoseconds, as UTC if it says no zone."""
    return (time.tz_localize("UTC") if time.tzinfo is None else time).as_unit("ns")


def typed_frame(columns: Mapping[str, tuple[Any, Sequence[Any]]]) -> pd.DataFrame:
    """A frame of columns given with their types; None is unknown."""
    return pd.DataFrame({name: pd.array(list(values), dtype=kind) for name, (kind, values) in columns.items()})
