"""`Chart`: an SVG and a table of the same data, for every front end; and `FrameColumns`, which reads frames for it.

- A page with HTML shows the SVG, which takes the colours of the page, and below it the table as a fold. Where a
  sanitiser removes the SVG, as in an untrusted notebook, it shows an image of it.
- A page with Markdown shows the image and the table.
- Everything else shows the table as plain text.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import pandas as pd

from artifactflow_nb.analysis.plots.svg import BOTH_STYLE, empty_drawing, fallback, figure
from artifactflow_nb.core.language import LANGUAGES, Language, Texts, texts_in
from artifactflow_nb.core.messages import COMPUTED_PROVIDER
from artifactflow_nb.core.text.cards import escape_invisible
from artifactflow_nb.core.text.format import clip, pad, width
from artifactflow_nb.core.text.markdown import escape
from artifactflow_nb.core.text.panels import panel_fold, panel_html, panel_table, scroll_box
from artifactflow_nb.errors import UsageError

_CELL_COLUMNS = 44
_NOTE_COLUMNS = 500
_PAGE_CELL_COLUMNS = 300
_MAX_ROWS_PLAIN = 30
_MAX_ROWS_PAGE = 200


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Chart:
    """A chart with a notebook representation.

    Attributes:
        title: Title of the chart.
        description: Description in one or two sentences, also for screen readers.
        svg: The drawing; equal data give equal drawings.
        table: Data of the chart as a frame.
        notes: Sentences about omitted or unknown data.
        plain_columns: Columns of the table as plain text; empty for all.
        language: Language of the chart.
    """

    title: str
    description: str
    svg: str
    table: pd.DataFrame
    notes: tuple[str, ...] = ()
    plain_columns: tuple[str, ...] = ()
    language: Language = "en"

    def __repr__(self) -> str:
        table = self.table[list(self.plain_columns)] if self.plain_columns else self.table
        names, cells, numeric = _rows(table, _MAX_ROWS_PLAIN, _CELL_COLUMNS)
        lines = []
        widths = [max(map(width, column)) for column in zip(names, *cells, strict=True)]
        for row in [names, ["─" * wide for wide in widths], *cells] if cells else ():
            fitted = [
                " " * (wide - width(cell)) + cell if right else pad(cell, wide)
                for cell, wide, right in zip(row, widths, numeric, strict=True)
            ]
            lines.append("  ".join(fitted).rstrip())
        lines = [*lines, *self._omitted_rows(_MAX_ROWS_PLAIN)] or [texts_in(self.language)("no_rows")]
        return escape_invisible("\n".join([self.title, self.description, *lines, *self.notes]))

    def to_html(self) -> str:
        """HTML for any page: the drawing, with the table folded below."""
        drawing = scroll_box(figure(self.svg, self.title, self.description), "af-drawing", self.title)
        return panel_html(drawing + self._folded_table(), BOTH_STYLE)

    def _repr_html_(self) -> str:
        return self.to_html()

    def _repr_markdown_(self) -> str:
        """One HTML block without an empty line, which would end it for a Markdown parser."""
        picture = fallback(self.svg, self.title, self.description)
        # The classes stop MathJax from reading dollar signs as formulas.
        return f'<div class="af-plot tex2jax_ignore mathjax_ignore">\n{picture}\n{self._folded_table()}\n</div>'

    def _folded_table(self) -> str:
        names, cells, numeric = _rows(self.table, _MAX_ROWS_PAGE, _PAGE_CELL_COLUMNS)
        table = panel_table(names, cells, self.title, numeric=list(compress(names, numeric)))
        rest = "".join(f"<p>{escape(line)}</p>" for line in self._omitted_rows(_MAX_ROWS_PAGE))
        notes = "".join(f"<p>{escape(clip(note, _NOTE_COLUMNS))}</p>" for note in self.notes)
        texts = texts_in(self.language)
        summary = texts("table_of", title=clip(self.title, _CELL_COLUMNS), rows=texts.count(len(self.table), "n_rows"))
        return panel_fold(escape(summary), table + rest + notes, css="af-rows")

    def _omitted_rows(self, n_shown: int) -> list[str]:
        texts, n_more = texts_in(self.language), len(self.table) - n_shown
        return [texts("rows_more", rows=texts.count(n_more, "n_rows"), code="chart.table")] if n_more > 0 else []


def empty_chart(title: str, message: str, table: pd.DataFrame, texts: Texts) -> Chart:
    """Build a chart that only shows a message. `table` is an empty frame with its columns."""
    return Chart(title, message, empty_drawing(title, message), table, language=texts.language)


def _cell(value: Any, columns: int) -> str:
    """Format a value of the table; a dash if unknown."""
    if is_unknown(value):
        return "–"
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 1 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else clip(str(value), columns)


def _rows(table: pd.DataFrame, max_rows: int, max_columns: int) -> tuple[list[str], list[list[str]], list[bool]]:
    """Column names, formatted rows, and a flag per column that is true if it is numeric."""
    head = table.head(max_rows)
    columns = [head[name].astype(object).tolist() for name in head.columns]
    numeric = [pd.api.types.is_numeric_dtype(dtype) for dtype in table.dtypes]
    cells = [[_cell(value, max_columns) for value in row] for row in zip(*columns, strict=True)]
    return [str(name) for name in head.columns], cells, numeric


TEXT, INT, FLOAT = "string", "Int64", "Float64"
_SOURCES = {name: f"wb.{name}_df()" for name in ("llm_calls", "tool_calls", "approvals", "plan_steps", "evaluations")}


class FrameColumns:
    """Columns of a frame as lists of plain values. `name` is that of the frame, `chart` the plot function for errors.

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
    """Return the texts in the language of the frames, which a workbench stores in `attrs["language"]`; else English."""
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
