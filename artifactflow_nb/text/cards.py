"""How a value shows itself in a notebook: as a card with a heading, rows and folded details.

A card is a plain value with three faces: text, Markdown and HTML. Whatever it holds is text, never markup, but for
`Prose`, which is Markdown and made harmless. The HTML reads well without its few rules of style, loads nothing and
takes its colours from the page.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any, Protocol

from artifactflow_nb.text.width import clip, cut, pad, width

MAX_ROWS = 20
"""Rows that a table shows; it says how many more there are."""

_CELL_COLUMNS = 300
_PLAIN_COLUMNS = 60
_MOST_LABEL_COLUMNS = 40
_LABEL_COLUMNS = 16
_BODY_COLUMNS = 20_000
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")

_STYLE = """
.af-card { max-width: 60rem; margin: 4px 0; line-height: 1.5; overflow-wrap: anywhere; color: var(--jp-content-font-color1, inherit); }
.af-card.af-card .af-card-table { overflow-x: auto; }
.af-card.af-card > table td { overflow-wrap: anywhere; }
.af-card.af-card p { margin: 0 0 4px; }
.af-card.af-card table { margin: 0; border-collapse: collapse; font-size: inherit; }
.af-card.af-card th, .af-card.af-card td { overflow-wrap: break-word; padding: 2px 12px 2px 0; border: 0; background: none; text-align: left; vertical-align: top; }
.af-card.af-card tbody th { color: var(--jp-content-font-color1, inherit); font-weight: normal; }
.af-card.af-card .af-card-quiet { color: var(--jp-content-font-color2, inherit); font-weight: normal; }
.af-card.af-card th { white-space: nowrap; }
.af-card.af-card thead th { border-bottom: 1px solid var(--jp-border-color2, rgba(128, 128, 128, 0.4)); font-weight: 600; }
.af-card.af-card code { padding: 0; background: none; color: inherit; font-family: var(--jp-code-font-family, monospace); font-size: 0.92em; }
.af-card.af-card pre { max-height: 30em; margin: 4px 0; padding: 6px 8px; overflow: auto; background: rgba(128, 128, 128, 0.09); color: inherit; white-space: pre-wrap; }
.af-card.af-card details { margin: 4px 0 0; }
.af-card.af-card summary { cursor: pointer; }
.af-card.af-card details > div { margin: 4px 0 4px 14px; }
"""  # noqa: E501 - a rule a line


@dataclass(frozen=True, slots=True)
class Code:
    """Text that is shown as it is written, in letters of one width."""

    text: str


@dataclass(frozen=True, slots=True)
class Prose:
    """Markdown of a model or a person."""

    text: str


Cell = str | int | float | Code | None
"""What a row says; None and an empty text say nothing."""

Rows = list[tuple[str, Cell]]
"""Rows of a card: a label and what it says."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        columns: The names of its columns.
        rows: Those of its rows that are shown; as many cells in each as there are columns.
        n_more: How many rows there are besides.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    n_more: int = 0

    @classmethod
    def of(cls, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> "Table":
        """A table of the first rows of all these."""
        listed = list(rows)
        return cls(columns, listed[:MAX_ROWS], max(len(listed) - MAX_ROWS, 0))

    @property
    def more(self) -> str:
        """How many more rows there are, in words; empty if none."""
        return f"… and {self.n_more:,} more" if self.n_more else ""

    def plain(self) -> str:
        """Lines of text, the columns aligned."""
        texts = [[clip(visible(_text(cell)), _PLAIN_COLUMNS) for cell in row] for row in (self.columns, *self.rows)]
        widths = [max(map(width, column)) for column in zip(*texts, strict=True)]
        lines = ["  ".join(map(pad, row, widths)).rstrip() for row in texts]
        return "\n".join([*lines, *filter(None, [self.more])])

    def markdown(self) -> str:
        """A table of Markdown."""
        rule = "|".join(["---"] * len(self.columns))
        lines = [_md_row(self.columns), f"|{rule}|", *map(_md_row, self.rows)]
        return "\n".join(lines) + (f"\n\n{self.more}" if self.n_more else "")

    def html(self) -> str:
        """A `<table>` element."""
        head = "".join(f"<th>{html_text(column)}</th>" for column in self.columns)
        body = "".join(f"<tr>{''.join(f'<td>{html_text(cell)}</td>' for cell in row)}</tr>" for row in self.rows)
        more = f'<p class="af-card-quiet">{self.more}</p>' if self.n_more else ""
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f'<div class="af-card-table" tabindex="0">{table}</div>{more}'


@dataclass(frozen=True, slots=True)
class Fold:
    """Details that are folded away behind a line; as text, only tables that are open are shown."""

    summary: str
    body: Code | Prose | Table
    is_open: bool = False

    def plain(self) -> str:
        """An open table under its line; empty for anything else."""
        if not (self.is_open and isinstance(self.body, Table)):
            return ""
        return f"{visible(self.summary)}:\n{indent(self.body.plain(), '  ')}"

    def markdown(self) -> str:
        """A `<details>` element with Markdown in it."""
        return f"{self._opening()}<summary>{html_text(self.summary)}</summary>\n\n{self._md_body()}\n\n</details>"

    def _md_body(self) -> str:
        from artifactflow_nb.text.markdown import portable

        if isinstance(self.body, Table):
            return self.body.markdown()
        text = _bounded(self.body.text)
        return portable(text) if isinstance(self.body, Prose) else indent(text.strip("\n"), "    ", lambda _line: True)

    def html(self) -> str:
        """A `<details>` element."""
        return f"{self._opening()}<summary>{html_text(self.summary)}</summary><div>{self._html_body()}</div></details>"

    def _opening(self) -> str:
        return "<details open>" if self.is_open else "<details>"

    def _html_body(self) -> str:
        from artifactflow_nb.text.markdown import MarkdownRenderer, escape

        if isinstance(self.body, Table):
            return self.body.html()
        text = _bounded(self.body.text)
        return (
            MarkdownRenderer().html(text) if isinstance(self.body, Prose) else f'<pre tabindex="0">{escape(text)}</pre>'
        )


@dataclass(frozen=True, slots=True)
class Card:
    """A value as a person reads it.

    Attributes:
        kind: What it is, in a word or two.
        title: Which it is.
        rows: What there is to say, each under a label; rows that say nothing are left out.
        folds: Details.
        note: What to do with it; empty if that is plain.
    """

    kind: str
    title: str = ""
    rows: Sequence[tuple[str, Cell]] = ()
    folds: Sequence[Fold] = ()
    note: str = ""

    @property
    def _said(self) -> list[tuple[str, Cell]]:
        said = [(label, cell) for label, cell in self.rows if cell is not None and _text(cell).strip()]
        return [(clip(visible(label), _MOST_LABEL_COLUMNS), cell) for label, cell in said]

    def plain(self) -> str:
        """A heading, a line for each row, and the tables among the details."""
        head = clip(visible(f"{self.kind}: {self.title}" if self.title else self.kind), 2 * _PLAIN_COLUMNS)
        labels = max([_LABEL_COLUMNS, *(width(label) for label, _ in self._said)])
        rows = [
            f"  {pad(label, labels)}  {clip(visible(_text(cell)), 2 * _PLAIN_COLUMNS)}" for label, cell in self._said
        ]
        folds = [fold.plain() for fold in self.folds]
        return "\n".join([head, *rows, *filter(None, [*folds, self.note])])

    def markdown(self) -> str:
        """A heading, a list, and folded details."""
        head = f"**{markdown_text(self.kind)}**" + (f" {markdown_text(self.title)}" if self.title else "")
        rows = "\n".join(f"- {markdown_text(label)}: {markdown_text(cell)}" for label, cell in self._said)
        folds = [fold.markdown() for fold in self.folds]
        return "\n\n".join(filter(None, [head, rows, *folds, markdown_text(self.note)]))

    def html(self) -> str:
        """An element of its own with the few rules of style that it needs."""
        title = f" {html_text(self.title)}" if self.title else ""
        said = [(html_text(label), html_text(cell)) for label, cell in self._said]
        rows = "".join(f'<tr><th scope="row">{label}</th><td>{cell}</td></tr>' for label, cell in said)
        table = f"<table><tbody>{rows}</tbody></table>" if rows else ""
        note = f'<p class="af-card-quiet">{html_text(self.note)}</p>' if self.note else ""
        folds = "".join(fold.html() for fold in self.folds)
        return framed(f"<p><strong>{html_text(self.kind)}</strong>{title}</p>{table}{folds}{note}")


class Printer(Protocol):
    """What IPython hands to `_repr_pretty_`."""

    stack: Sequence[int]

    def text(self, text: str, /) -> None:
        """Write this."""


class Shown:
    """Shows itself as the card that `_card` gives: in full on its own, by its `repr` within something else."""

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._repr_pretty_ = Shown._repr_pretty_  # type: ignore[method-assign]  # IPython prefers a subclass's __repr__

    def _card(self) -> Card:
        raise NotImplementedError

    def _repr_pretty_(self, printer: Printer, cycle: bool) -> None:
        del cycle  # a card holds no other card
        printer.text(repr(self) if len(printer.stack) > 1 else self._card().plain())

    def _repr_markdown_(self) -> str:
        return self._card().markdown()

    def _repr_html_(self) -> str:
        return self._card().html()


def quiet_style(css: str) -> str:
    """A style of which nothing shows where it has no effect: hosts of Markdown take its tags away and leave its text.

    They leave `<rp>` too, which a browser shows nothing of, and for a style it does not matter what it stands in.
    """
    return f"<div><rp><style>{css}</style></rp></div>"


def framed(body: str) -> str:
    """HTML in the frame that gives it the style of a card."""
    return f'{quiet_style(_STYLE)}<div class="af-card mathjax_ignore tex2jax_ignore">{body}</div>'


def _text(cell: Cell) -> str:
    if isinstance(cell, Code):
        return cell.text
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return "" if cell is None else f"{cell:,}" if isinstance(cell, int | float) else cell


def visible(text: str) -> str:
    """The text with a sign in the place of what cannot be seen, or would turn what stands beside it around."""
    return _UNSEEN.sub("�", text)


def _bounded(text: str) -> str:
    text = visible(text)
    kept = cut(text, _BODY_COLUMNS)
    return text if len(kept) == len(text) else f"{kept}\n\n… and {len(text) - len(kept):,} more characters"


def html_text(cell: Cell) -> str:
    """A cell on one line, as HTML."""
    from artifactflow_nb.text.markdown import escape, speak

    text = clip(visible(_text(cell)), _CELL_COLUMNS)
    return f"<code>{escape(text)}</code>" if isinstance(cell, Code) else speak(text)


def markdown_text(cell: Cell) -> str:
    """A cell on one line, as Markdown that has no effect."""
    from artifactflow_nb.text.markdown import portable_line

    text = portable_line(clip(visible(_text(cell)), _CELL_COLUMNS))
    return f"<code>{text}</code>" if isinstance(cell, Code) and text else text


def _md_row(cells: Sequence[Cell]) -> str:
    return f"| {' | '.join(map(markdown_text, cells))} |"
