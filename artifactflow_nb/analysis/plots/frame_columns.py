"""`FrameColumns`: columns of a frame as plain values, with errors that name the method which loads the frame."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import pandas as pd

from artifactflow_nb.core.language import LANGUAGES, in_language
from artifactflow_nb.core.messages import COMPUTED_PROVIDER
from artifactflow_nb.errors import UsageError

_Arguments = ParamSpec("_Arguments")
_Plot = TypeVar("_Plot")


class FrameColumns:
    """Columns of a frame as lists of plain values; an error names the frame and the plot function.

    `name` names the method that loads the frame: `llm_calls` stands for `wb.llm_calls_df`.

    Errors: `UsageError` with the missing columns and the method that loads them.
    """

    def __init__(self, frame: pd.DataFrame | None, name: str, plot: str, needed: Sequence[str]) -> None:
        if frame is not None and not isinstance(frame, pd.DataFrame):
            raise UsageError(f"{plot} draws a DataFrame of {name}, not {type(frame).__name__}. Pass wb.{name}_df().")
        missing = [] if frame is None else [column for column in needed if column not in frame.columns]
        if missing:
            present = (
                ", ".join(map(str, list(frame.columns)[:12])) if frame is not None and len(frame.columns) else "none"
            )
            raise UsageError(
                f"{plot} needs the columns {', '.join(needed)} of {name}; this frame lacks {', '.join(missing)} "
                f"(it has: {present}). wb.{name}_df() loads all of them; include them when you select columns."
            )
        self._frame = frame

    def __len__(self) -> int:
        return 0 if self._frame is None else len(self._frame)

    def values(self, column: str) -> list[Any]:
        """Return the values of a column; None for unknown values, and for every row if the frame lacks the column."""
        if self._frame is None or column not in self._frame.columns:
            return [None] * len(self)
        return [None if is_unknown(value) else value for value in self._frame[column].astype(object).tolist()]

    def texts(self, column: str, unknown: str = "") -> list[str]:
        """Return the values of a column as text."""
        return [unknown if value is None else str(value) for value in self.values(column)]

    def numbers(self, column: str) -> list[float | None]:
        """Return the values of a column as floats."""
        return [None if value is None else float(value) for value in self.values(column)]

    def times_ms(self, column: str) -> list[float | None]:
        """Return the times of a column as milliseconds since 1970 in UTC."""
        times_ms: list[float | None] = []
        for value in self.values(column):
            time = None if value is None else pd.Timestamp(value)
            if time is not None and time.tzinfo is None:  # a naive time means UTC
                time = time.tz_localize("UTC")
            times_ms.append(None if time is None else time.as_unit("ns").value / 1e6)
        return times_ms

    def models(self, unknown: str = "unknown") -> list[str]:
        """Return the name of each row's requested model; `none` for rows without a model.

        A reply may name a version of the model, such as `gpt-5-2025-08-07`, or the choice of a router.
        """
        names = self.texts("request_model", unknown)
        providers = self.texts("provider")
        return [
            "none" if provider == COMPUTED_PROVIDER else name for provider, name in zip(providers, names, strict=True)
        ]


def in_language_of_frames(plot: Callable[_Arguments, _Plot]) -> Callable[_Arguments, _Plot]:
    """Write the texts of a plot in the language that the workbench has stored in `attrs["language"]` of the frames."""

    @wraps(plot)
    def plot_in_language(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Plot:
        frames = [value for value in (*args, *kwargs.values()) if isinstance(value, pd.DataFrame)]
        languages = [frame.attrs.get("language") for frame in frames]
        with in_language(next((language for language in LANGUAGES if language in languages), "en")):
            return plot(*args, **kwargs)

    return plot_in_language


def rows_by_name(names: Sequence[str]) -> dict[str, list[int]]:
    """Return the row numbers of each name, in the order of first occurrence."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return rows


def known_sum(values: Iterable[float | None]) -> float | None:
    """Return the sum of the known values, or None if all values are unknown: an unknown sum is not 0."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def is_unknown(value: Any) -> bool:
    """Return whether a value of a frame is None, NA, NaN or NaT."""
    return value is None or value is pd.NA or bool(value != value)  # noqa: PLR0124 - NaN and NaT differ from themselves


def typed_frame(columns: Mapping[str, tuple[Any, Sequence[Any]]]) -> pd.DataFrame:
    """Build a frame from dtype and values of each column; None means unknown."""
    return pd.DataFrame({name: pd.array(list(values), dtype=kind) for name, (kind, values) in columns.items()})
