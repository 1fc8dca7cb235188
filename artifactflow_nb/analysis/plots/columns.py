"""Reading of frames for charts: required and optional columns, plain values with None for unknown."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from artifactflow_nb.core.language import LANGUAGES, Texts, texts_in
from artifactflow_nb.core.messages import COMPUTED_PROVIDER
from artifactflow_nb.errors import UsageError

TEXT, INT, FLOAT = "string", "Int64", "Float64"
_SOURCES = {name: f"wb.{name}_df()" for name in ("llm_calls", "tool_calls", "approvals", "plan_steps", "evaluations")}


class FrameColumns:
    """Columns of a frame as lists of plain values.

    Args:
        frame: The frame, or None for no rows.
        name: Name of the frame: `llm_calls`, `tool_calls`, `approvals`, `plan_steps` or `evaluations`.
        chart: Name of the plot function, for errors.
        needed: Required columns.

    Errors: `UsageError` with the missing columns and the method that loads them.
    """

    def __init__(self, frame: pd.DataFrame | None, name: str, chart: str, needed: Sequence[str]) -> None:
        if frame is not None and not isinstance(frame, pd.DataFrame):
            raise UsageError(f"{chart} draws a DataFrame of {name}, not {type(frame).__name__}. Pass {_SOURCES[name]}.")
        missing = [] if frame is None else [column for column in needed if column not in frame.columns]
        if missing:
            present = (
                ", ".join(map(str, list(frame.columns)[:12])) if frame is not None and len(frame.columns) else "none"
            )
            raise UsageError(
                f"{chart} needs the columns {', '.join(needed)} of {name}; this frame lacks {', '.join(missing)} "
                f"(it has: {present}). {_SOURCES[name]} loads all of them; include them when you select columns."
            )
        self._frame = frame

    def __len__(self) -> int:
        return 0 if self._frame is None else len(self._frame)

    def values(self, column: str) -> list[Any]:
        """Values of a column; None for unknown values, and for every row if the frame lacks the column."""
        if self._frame is None or column not in self._frame.columns:
            return [None] * len(self)
        return [None if is_unknown(value) else value for value in self._frame[column].astype(object).tolist()]

    def texts(self, column: str, unknown: str = "") -> list[str]:
        """Values of a column as text."""
        return [unknown if value is None else str(value) for value in self.values(column)]

    def numbers(self, column: str) -> list[float | None]:
        """Values of a column as floats."""
        return [None if value is None else float(value) for value in self.values(column)]

    def times_ms(self, column: str) -> list[float | None]:
        """Times of a column as milliseconds since 1970 in UTC."""
        times_ms: list[float | None] = []
        for value in self.values(column):
            time = None if value is None else pd.Timestamp(value)
            if time is not None and time.tzinfo is None:  # a naive time means UTC
                time = time.tz_localize("UTC")
            times_ms.append(None if time is None else time.as_unit("ns").value / 1e6)
        return times_ms

    def models(self, unknown: str = "unknown") -> list[str]:
        """Name of each row's model: the replying one, else the requested one; `none` for rows without a model."""
        requested, replied = self.texts("request_model", unknown), self.texts("response_model")
        names = [reply or request for request, reply in zip(requested, replied, strict=True)]
        providers = self.texts("provider")
        return [
            "none" if provider == COMPUTED_PROVIDER else name for provider, name in zip(providers, names, strict=True)
        ]


def texts_of(*frames: pd.DataFrame | None) -> Texts:
    """The texts in the language of the frames, which a workbench stores in `attrs["language"]`; otherwise English."""
    known = (frame.attrs.get("language") for frame in frames if isinstance(frame, pd.DataFrame))
    return texts_in(next((language for language in known if language in LANGUAGES), "en"))


def rows_by_name(names: Sequence[str]) -> dict[str, list[int]]:
    """Row numbers of each name, in the order of first occurrence."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return rows


def known_sum(values: Iterable[float | None]) -> float | None:
    """Sum of the known values; None if all are unknown, which is not the same as 0."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def is_unknown(value: Any) -> bool:
    """Whether a value of a frame is None, NA, NaN or NaT."""
    return value is None or value is pd.NA or bool(value != value)  # noqa: PLR0124 - NaN and NaT differ from themselves


def typed_frame(columns: Mapping[str, tuple[Any, Sequence[Any]]]) -> pd.DataFrame:
    """Build a frame from dtype and values of each column; None means unknown."""
    return pd.DataFrame({name: pd.array(list(values), dtype=kind) for name, (kind, values) in columns.items()})


def frame_of_rows(dtypes: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Build a frame from the dtype of each column and a mapping per row; None means unknown."""
    return typed_frame({name: (dtype, [row[name] for row in rows]) for name, dtype in dtypes.items()})
