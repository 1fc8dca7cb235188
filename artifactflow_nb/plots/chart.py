"""A chart in three forms: a Vega-Lite specification, an SVG and a table.

A front end shows that form of an output that it ranks highest, so they are chosen to give one chart everywhere:

- JupyterLab ranks Vega-Lite above Markdown and SVG. Its own extension draws it offline: the schema's address is a name
  and is not fetched. Drawn as SVG it follows the theme by the same CSS variables as ours, and it is shown in notebooks
  that are not trusted. HTML would rank higher still, but there a sanitiser takes the tags of an SVG away and leaves a
  heap of labels: so there is no HTML.
- nbconvert takes Markdown: the SVG as an image, with the table folded beneath it.
- A code host shows the Markdown, of whose image a sanitiser may leave only the description, and the table; or the SVG,
  which carries its own paper.
- Everything else gets the table as text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from artifactflow_nb.plots.still import image
from artifactflow_nb.plots.svg import INK, nothing
from artifactflow_nb.text.figures import count
from artifactflow_nb.text.markdown import escape
from artifactflow_nb.text.width import clip, pad, width

VEGA_LITE = "application/vnd.vegalite.v5+json"
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
_EMBED = {
    "renderer": "svg",
    "actions": {"export": {"svg": True, "png": False}, "source": False, "compiled": False, "editor": False},
}
_CONFIG = {
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelLimit": 220, "labelPadding": 6, "labelColor": INK, "titleColor": INK, "titleFontWeight": "normal",
        "gridColor": INK, "gridOpacity": 0.16, "domainColor": INK, "tickColor": INK, "domainOpacity": 0.4,
        "tickOpacity": 0.4,
    },
    "legend": {"orient": "top", "title": None, "labelColor": INK},
    "title": {"anchor": "start", "color": INK, "subtitleColor": INK, "subtitlePadding": 4},
    "text": {"color": INK},
}  # fmt: skip
_CELL_COLUMNS = 44
_NOTE_COLUMNS = 120
FIGURE = '<figure class="af-plot tex2jax_ignore mathjax_ignore" style="margin:0">'
"""What a chart's HTML begins with."""

_LINE_COLUMNS = 500
_MOST_ROWS_PLAIN = 30
_MOST_ROWS_PAGE = 200


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Chart:
    """A chart; as the last value of a cell it shows itself.

    Attributes:
        title: What it shows.
        description: What there is to see, in a sentence or two.
        spec: The Vega-Lite v5 specification, with its data in it.
        svg: The same as a drawing.
        table: The same as a frame.
        notes: What is left out or not known, in sentences.
    """

    title: str
    description: str
    spec: dict[str, Any]
    svg: str
    table: pd.DataFrame
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        lines = [self.title, *_plain_table(self.table), *self.notes]
        return "\n".join(lines)

    def to_html(self) -> str:
        """The drawing, with the table folded beneath it, as HTML that needs nothing else."""
        return f"{FIGURE}{self.svg}{self._folded_table()}</figure>"

    def _folded_table(self) -> str:
        notes = "".join(f"<p>{escape(clip(note, _LINE_COLUMNS))}</p>" for note in self.notes)
        return (
            f"<details><summary>Table: {escape(self.title)} ({count(len(self.table), 'row')})</summary>"
            f"{_html_table(self.table)}{notes}</details>"
        )

    def _markdown(self) -> str:
        """One block of HTML, without an empty line: Markdown leaves it alone, and so do scripts that set formulas."""
        shown = image(self.svg, clip(f"{self.title}. {self.description}", _LINE_COLUMNS))
        return f'<div class="af-plot tex2jax_ignore mathjax_ignore">\n{shown}\n{self._folded_table()}\n</div>'

    def _repr_mimebundle_(self, **_wanted: object) -> tuple[dict[str, Any], dict[str, Any]]:
        """Every form, as the display protocol asks for it."""
        bundle = {
            VEGA_LITE: self.spec,
            "text/markdown": self._markdown(),
            "image/svg+xml": self.svg,
            "text/plain": repr(self),
        }
        return bundle, {VEGA_LITE: {"embed_options": _EMBED}}


def vega_spec(
    title: str, description: str, rows: Sequence[Mapping[str, Any]], notes: Sequence[str] = (), **parts: Any
) -> dict[str, Any]:
    """A Vega-Lite specification over rows of plain values.

    It stands on the page's own ground, and its text takes the colour of the theme, also of one that is chosen later.

    Args:
        title: Its heading.
        description: What there is to see, for a screen reader.
        rows: The data.
        notes: Sentences below the heading.
        parts: Its size, marks and encodings.
    """
    heading: dict[str, Any] = {"text": title}
    if notes:
        heading["subtitle"] = [clip(note, _NOTE_COLUMNS) for note in notes]
    return {
        "$schema": SCHEMA,
        "title": heading,
        "description": description,
        "background": "transparent",
        "config": _CONFIG,
        "data": {"values": list(rows)},
        **parts,
    }


def empty_chart(title: str, message: str, table: pd.DataFrame) -> Chart:
    """A chart that says that there is nothing to draw.

    Args:
        title: What it would show.
        message: Why it shows nothing.
        table: A frame without rows.
    """
    text = {"type": "text", "align": "left", "fontSize": 12, "x": 0}
    spec = vega_spec(title, message, [{"message": message}], width=620, height=24)
    return Chart(
        title,
        message,
        {**spec, "mark": text, "encoding": {"text": {"field": "message"}}},
        nothing(title, message),
        table,
    )


def _cell(value: Any) -> str:
    """A value of the table as it is read; a dash for what is not known."""
    if value is None or value is pd.NA or value != value:  # noqa: PLR0124 - NaN differs from itself
        return "–"
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 1 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else clip(str(value), _CELL_COLUMNS)


def _rows(table: pd.DataFrame, most: int) -> tuple[list[str], list[list[str]], list[bool]]:
    """Headings, cells, and which columns hold numbers."""
    head = table.head(most)
    columns = [head[name].astype(object).tolist() for name in head.columns]
    numeric = [pd.api.types.is_numeric_dtype(kind) for kind in table.dtypes]
    cells = [[_cell(value) for value in row] for row in zip(*columns, strict=True)]
    return [str(name) for name in head.columns], cells, numeric


def _rest(table: pd.DataFrame, most: int) -> list[str]:
    return [f"… {count(len(table) - most, 'more row')} in chart.table"] if len(table) > most else []


def _plain_table(table: pd.DataFrame) -> list[str]:
    names, cells, numeric = _rows(table, _MOST_ROWS_PLAIN)
    if not cells:
        return ["(no rows)"]
    widths = [max(map(width, column)) for column in zip(names, *cells, strict=True)]
    lines = []
    for row in [names, ["─" * wide for wide in widths], *cells]:
        fitted = [
            " " * (wide - width(cell)) + cell if right else pad(cell, wide)
            for cell, wide, right in zip(row, widths, numeric, strict=True)
        ]
        lines.append("  ".join(fitted).rstrip())
    return lines + _rest(table, _MOST_ROWS_PLAIN)


def _html_table(table: pd.DataFrame) -> str:
    names, cells, numeric = _rows(table, _MOST_ROWS_PAGE)
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    align = [' style="text-align:right"' if right else ' style="text-align:left"' for right in numeric]
    body = "".join(
        "<tr>" + "".join(f"<td{at}>{escape(cell)}</td>" for at, cell in zip(align, row, strict=True)) + "</tr>"
        for row in cells
    )
    rest = "".join(f"<p>{escape(line)}</p>" for line in _rest(table, _MOST_ROWS_PAGE))
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{rest}"
