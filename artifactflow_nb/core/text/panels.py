"""HTML that panels and the displays of values share: style rules, the frame, tables, and the parts of a comparison.

All comparisons, of runs, steps, branches and versions, have one design: a table with a column for each side, and a fold
for each text with its difference. The HTML is readable without its style rules.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from artifactflow_nb.core.text.cards import CardCell, cell_html, hidden_style
from artifactflow_nb.core.text.content_style import content_style
from artifactflow_nb.core.text.format import width
from artifactflow_nb.core.text.markdown import escape

SIDES = ("a", "b")
"""Names of the two sides of a comparison."""

BASE_STYLE = "view.css"
_STATIC = files("artifactflow_nb") / "widgets" / "static"
_STYLES = {
    "code.css": "af-code-box",
    "artifact_panel.css": "af-art-",
    "board.css": "af-board",
    "chat.css": "af-chat",
    "diff.css": "af-diff",
    "form.css": "af-changes",
    "home.css": "af-home",
    "metrics.css": "af-groups",
    "plan.css": "af-steps",
    "study.css": "af-study",
    "timeline.css": "af-(?:drawing|timeline)",
    "tree_view.css": "af-branches",
}
"""Beginnings of class names, as patterns, by the style file that the classes need. An output has no other styles."""
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_RULE = re.compile(r"\s*([^{}]+?)\s*(\{(?:[^{}]|\{[^{}]*\})*\})")
"""A rule, or an at-rule with its inner rules."""
_SPACE = re.compile(r"\s*([{};,])\s*|(?<=[a-z]:)\s+")
_CLASS = re.compile(r"\.(af-[\w-]+)")
_SCOPE = ".af-run.af-run"
_LINE_BREAK = re.compile(r"\s*\n\s*")
_LONG_COLUMNS = 28
"""Maximum columns of a cell without line breaks."""


class ComparisonRow(NamedTuple):
    """A row of the table of a comparison.

    Attributes:
        b: Value of the second side.
        difference: `b - a` with sign and unit; empty if the values are not numbers.
    """

    label: str
    a: CardCell
    b: CardCell
    difference: str = ""


def panel_html(body: str, *styles: str) -> str:
    """Put HTML into the frame of a panel, with the style rules that the HTML uses."""
    root = f'<div class="af-run af-saved mathjax_ignore tex2jax_ignore">{body}</div>'
    return hidden_style(panel_style(root, *styles)) + root


def panel_style(root: str, *styles: str) -> str:
    """Collect the style rules that the HTML of a panel uses, on one line, with further styles."""
    names = [name for name, css_class in _STYLES.items() if re.search(f'[" ]{css_class}', root)]
    css = f"{_used_style(stylesheet(*names), root)} {' '.join(styles)} {content_style(root)}"
    return _SPACE.sub(r"\1", css).strip()  # without the spaces that have no meaning


@cache
def stylesheet(*names: str) -> str:
    """Return the CSS for a saved output: the shared style, then the named files; every rule is scoped to `.af-run`.

    The result is one line without comments. Every saved output contains the line, and a blank line would end the HTML
    block when a notebook is converted to Markdown.
    """
    css = "\n".join((_STATIC / name).read_text(encoding="utf-8") for name in (BASE_STYLE, *names))
    return _LINE_BREAK.sub(" ", _COMMENT.sub("", css)).strip()


def _used_style(css: str, markup: str) -> str:
    """Return the CSS rules for elements that occur in a markup, with one `scope` block for consecutive scoped rules."""
    classes = frozenset(name for names in re.findall(r'class="([^"]*)"', markup) for name in names.split())
    pieces: list[str] = []
    is_nested = False
    for selectors, body in _RULE.findall(css):
        matching = [part for part in selectors.split(", ") if classes.issuperset(_CLASS.findall(part))]
        if not matching or ("[lang" in selectors and 'lang="zh' not in markup):
            continue
        in_scope = all(part.startswith(f"{_SCOPE} ") for part in matching)
        if in_scope != is_nested:
            pieces.append(f"{_SCOPE}{{" if in_scope else "}")
            is_nested = in_scope
        pieces.append(", ".join(part.replace(f"{_SCOPE} ", "& ") if in_scope else part for part in matching) + body)
    return "".join([*pieces, "}" if is_nested else ""])


def scroll_box(html: str, css: str, name: str) -> str:
    """Render a scrollable box that the keyboard can reach; `name` is its accessible name."""
    return f'<div class="{css}" tabindex="0" role="group" aria-label="{escape(name)}">{html}</div>'


def panel_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[CardCell]],
    name: str,
    *,
    numeric: Collection[str] = (),
    total: Sequence[CardCell] = (),
) -> str:
    """Render a table that scrolls sideways if it is too wide, with an optional row of totals.

    The first column names the rows; `numeric` columns are aligned to the right.
    """
    aligned = ["" if column in numeric else "af-words" for column in columns]
    header = "".join(
        f'<th scope="col"{_classes(css)}>{cell_html(column)}</th>' if column else "<td></td>"
        for column, css in zip(columns, aligned, strict=True)
    )

    def row_html(first: CardCell, *cells: CardCell) -> str:
        html = f'<th scope="row"{_classes(_long(first))}>{cell_html(first)}</th>'
        for cell, css in zip(cells, aligned[1:], strict=True):
            html += f"<td{_classes(css, _long(cell))}>{cell_html(cell)}</td>"
        return f"<tr>{html}</tr>"

    body = "".join(row_html(*row) for row in rows)
    foot = f"<tfoot>{row_html(*total)}</tfoot>" if total else ""
    table = f'<table class="af-table"><thead><tr>{header}</tr></thead><tbody>{body}</tbody>{foot}</table>'
    return scroll_box(table, "af-table-box", name)


def _long(cell: CardCell) -> str:
    return "af-long" if isinstance(cell, str) and width(cell) > _LONG_COLUMNS else ""


def _classes(*names: str) -> str:
    css = " ".join(filter(None, names))
    return f' class="{css}"' if css else ""


def panel_fold(summary: str, body: str, *, css: str = "af-artifact", is_open: bool = False) -> str:
    """Render a fold like the folds of views (`widgets.page.saved`). `summary` and `body` are HTML."""
    state = " open" if is_open else ""
    return f'<details class="{css}"{state}><summary>{summary}</summary><div class="af-body">{body}</div></details>'


# --- comparisons -----------------------------------------------------------------------------------------------------


def comparison_heading(kind: str, title: str = "") -> str:
    """Render the heading of a comparison: what is compared, and below it the question or the step."""
    quiet = f'<div class="af-quiet">{cell_html(title)}</div>' if title else ""
    return f'<div class="af-question">Comparison of {escape(kind)}</div>{quiet}'


def comparison_table(rows: Sequence[ComparisonRow]) -> str:
    """Render the table of a comparison, with a column of differences if a row has a difference."""
    columns = ("", *SIDES, "difference") if any(row.difference for row in rows) else ("", *SIDES)
    return panel_table(columns, [row[: len(columns)] for row in rows], "Comparison")


def comparison_summary(title: str, state: str, *, code: str = "") -> str:
    """Render the summary line of a compared text. `state` says how the text differs, such as `v1 → v2`."""
    identifier = f"<code>{escape(code)}</code> " if code else ""
    return f'<span class="af-title">{cell_html(title)}</span> <span class="af-out">{identifier}{escape(state)}</span>'
