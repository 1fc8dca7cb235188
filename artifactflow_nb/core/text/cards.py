"""Cards: notebook display of values with a heading, rows and collapsible details.

A card renders as plain text and HTML. All content is escaped, except `MarkdownText`, which is sanitised. The
HTML is readable without its few style rules, loads nothing and takes its colours from the page.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any, Protocol, Self, TypeVar, overload

from artifactflow_nb.core.text.format import clip, cut, pad, width

MAX_ROWS = 20
"""Maximum number of rows in a table; a line below the table gives the number of omitted rows."""

_CELL_COLUMNS = 300
_PLAIN_COLUMNS = 60
_MAX_LABEL_COLUMNS = 40
_MIN_LABEL_COLUMNS = 16
_BODY_COLUMNS = 20_000
# Control characters, lone surrogates and bidirectional overrides, which could hide or reorder text around them.
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")

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
"""  # noqa: E501 - one rule per line


@dataclass(frozen=True, slots=True)
class Code:
    """Literal text in a monospaced font."""

    text: str


@dataclass(frozen=True, slots=True)
class Named:
    """A display name with the name in code as tooltip, unless both names have the same words."""

    text: str
    name: str

    @property
    def tooltip(self) -> str:
        """HTML attribute with the tooltip, after a space, or an empty string."""
        from artifactflow_nb.core.text.markdown import escape

        is_same = self.text.casefold() == self.name.replace("_", " ").casefold()
        return "" if is_same else f' title="{escape(self.name)}"'


@dataclass(frozen=True, slots=True)
class MarkdownText:
    """Markdown written by a model or a person; sanitised when rendered."""

    text: str


CardCell = str | int | float | Code | Named | None
"""Content of a cell; rows with None or an empty text are omitted."""

CardRows = list[tuple[str, CardCell]]
"""Rows of a card as pairs of label and content."""


@dataclass(frozen=True, slots=True)
class CardTable:
    """A table in a card.

    Attributes:
        columns: Column names.
        rows: Displayed rows, each with one cell per column.
        n_more: Number of omitted rows.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[CardCell]]
    n_more: int = 0

    @classmethod
    def from_rows(cls, columns: Sequence[str], rows: Iterable[Sequence[CardCell]]) -> "CardTable":
        """Create a table of the first `MAX_ROWS` rows."""
        all_rows = list(rows)
        return cls(columns, all_rows[:MAX_ROWS], max(len(all_rows) - MAX_ROWS, 0))

    @property
    def more_text(self) -> str:
        """Text for the omitted rows, e.g. `… and 12 more`, or an empty string."""
        return f"… and {self.n_more:,} more" if self.n_more else ""

    def plain(self) -> str:
        """Render as lines of text with aligned columns."""
        texts = [
            [clip(escape_invisible(_text(cell)), _PLAIN_COLUMNS) for cell in row] for row in (self.columns, *self.rows)
        ]
        widths = [max(map(width, column)) for column in zip(*texts, strict=True)]
        lines = ["  ".join(map(pad, row, widths)).rstrip() for row in texts]
        return "\n".join([*lines, *filter(None, [self.more_text])])

    def html(self) -> str:
        """Render as a scrollable `<table>` element."""
        header = "".join(f"<th>{cell_html(column)}</th>" for column in self.columns)
        body = "".join(f"<tr>{''.join(f'<td>{cell_html(cell)}</td>' for cell in row)}</tr>" for row in self.rows)
        more = f'<p class="af-card-quiet">{self.more_text}</p>' if self.n_more else ""
        table = f"<table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>"
        return f'<div class="af-card-table" tabindex="0">{table}</div>{more}'


@dataclass(frozen=True, slots=True)
class Details:
    """Collapsible details under a summary line.

    Attributes:
        summary: The summary line.
        body: The collapsible content.
        is_open: Whether the content is expanded at first.
    """

    summary: str
    body: Code | MarkdownText | CardTable
    is_open: bool = False

    def plain(self) -> str:
        """Render an open table as text; other details have no text."""
        if not (self.is_open and isinstance(self.body, CardTable)):
            return ""
        return f"{escape_invisible(self.summary)}:\n{indent(self.body.plain(), '  ')}"

    def html(self) -> str:
        """Render as a `<details>` element."""
        from artifactflow_nb.core.text.markdown import MarkdownRenderer, escape

        if isinstance(self.body, CardTable):
            body = self.body.html()
        elif isinstance(self.body, MarkdownText):
            body = MarkdownRenderer().html(_truncate(self.body.text))
        else:
            body = f'<pre tabindex="0">{escape(_truncate(self.body.text))}</pre>'
        state = " open" if self.is_open else ""
        return f"<details{state}><summary>{cell_html(self.summary)}</summary><div>{body}</div></details>"


@dataclass(frozen=True, slots=True)
class Card:
    """Display form of a value.

    Attributes:
        kind: Kind of value, in one or two words.
        title: Name of the value.
        rows: Labelled rows; rows with empty content are omitted.
        folds: Collapsible details.
        note: Hint on how to use the value; may be empty.
    """

    kind: str
    title: str = ""
    rows: Sequence[tuple[str, CardCell]] = ()
    folds: Sequence[Details] = ()
    note: str = ""

    @property
    def _visible_rows(self) -> list[tuple[str, CardCell]]:
        rows = [(label, cell) for label, cell in self.rows if cell is not None and _text(cell).strip()]
        return [(clip(escape_invisible(label), _MAX_LABEL_COLUMNS), cell) for label, cell in rows]

    def plain(self) -> str:
        """Render as text: a heading, a line per row, and the open tables."""
        line = clip(escape_invisible(f"{self.kind}: {self.title}" if self.title else self.kind), 2 * _PLAIN_COLUMNS)
        labels = max([_MIN_LABEL_COLUMNS, *(width(label) for label, _ in self._visible_rows)])
        rows = [
            f"  {pad(label, labels)}  {clip(escape_invisible(_text(cell)), 2 * _PLAIN_COLUMNS)}"
            for label, cell in self._visible_rows
        ]
        folds = [fold.plain() for fold in self.folds]
        return "\n".join([line, *rows, *filter(None, [*folds, self.note])])

    def html(self) -> str:
        """Render as an HTML element that includes its style rules."""
        return card_frame(self.content_html())

    @property
    def output(self) -> dict[str, str]:
        """The saved output of a cell, by media type."""
        return {"text/plain": self.plain(), "text/html": self.html()}

    def content_html(self) -> str:
        """Render the content, without the frame and the style rules."""
        title = f" {cell_html(self.title)}" if self.title else ""
        rows = "".join(
            f'<tr><th scope="row">{cell_html(label)}</th><td>{cell_html(cell)}</td></tr>'
            for label, cell in self._visible_rows
        )
        table = f"<table><tbody>{rows}</tbody></table>" if rows else ""
        note = f'<p class="af-card-quiet">{cell_html(self.note)}</p>' if self.note else ""
        folds = "".join(fold.html() for fold in self.folds)
        return f"<p><strong>{cell_html(self.kind)}</strong>{title}</p>{table}{folds}{note}"


class Printer(Protocol):
    """The part of IPython's pretty printer that `_repr_pretty_` uses."""

    stack: Sequence[int]

    def text(self, text: str, /) -> None:
        """Write text."""


class CardMixin(ABC):
    """Displays a value as the card from `_card`; inside a container, text output uses the value's `repr` instead."""

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._repr_pretty_ = CardMixin._repr_pretty_  # type: ignore[method-assign]  # IPython prefers a subclass's __repr__

    @abstractmethod
    def _card(self) -> Card:
        """Return the content of the card."""

    def _repr_pretty_(self, printer: Printer, cycle: bool) -> None:
        del cycle  # a card holds no other card
        printer.text(repr(self) if len(printer.stack) > 1 else self._card().plain())

    def _repr_html_(self) -> str:
        return self._card().html()


def hidden_style(css: str) -> str:
    """Wrap CSS in a `<style>` element that stays invisible where a sanitiser strips the tags and keeps the text.

    Such sanitisers keep `<rp>`, whose content browsers do not display; a style applies wherever it is placed.
    """
    return f"<div><rp><style>{css}</style></rp></div>"


def card_frame(body: str) -> str:
    """Wrap HTML in a styled card element."""
    from artifactflow_nb.core.text.content_style import content_style

    return (
        f'{hidden_style(_STYLE + content_style(body))}<div class="af-card mathjax_ignore tex2jax_ignore">{body}</div>'
    )


def _text(cell: CardCell) -> str:
    if isinstance(cell, Code | Named):
        return cell.text
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return "" if cell is None else f"{cell:,}" if isinstance(cell, int | float) else cell


def escape_invisible(text: str) -> str:
    """Replace invisible characters, and characters that change the direction of the text around them."""
    return _INVISIBLE.sub("�", text)


def _truncate(text: str) -> str:
    text = escape_invisible(text)
    beginning = cut(text, _BODY_COLUMNS)
    if len(beginning) == len(text):
        return text
    return f"{beginning}\n\n… and {len(text) - len(beginning):,} more characters"


def cell_html(cell: CardCell) -> str:
    """Render a cell on one line as HTML."""
    from artifactflow_nb.core.text.markdown import escape, escape_with_language

    text = clip(escape_invisible(_text(cell)), _CELL_COLUMNS)
    if isinstance(cell, Named) and cell.tooltip:
        return f"<span{cell.tooltip}>{escape_with_language(text)}</span>"
    return f"<code>{escape(text)}</code>" if isinstance(cell, Code) else escape_with_language(text)


def cell_markdown(cell: CardCell) -> str:
    """Render a cell on one line as escaped Markdown."""
    from artifactflow_nb.core.text.markdown import safe_markdown_line

    text = safe_markdown_line(clip(escape_invisible(_text(cell)), _CELL_COLUMNS))
    return f"<code>{text}</code>" if isinstance(cell, Code) and text else text


T = TypeVar("T")


class DisplayList(Sequence[T]):
    """Immutable sequence that displays as a table; subclasses define the columns.

    A slice is a list of the same class. A list is equal to any other sequence of the same values.
    """

    def __init__(self, values: Iterable[T]) -> None:
        self._values = tuple(values)

    @abstractmethod
    def _columns(self) -> Sequence[str]:
        """Return the column names."""

    @abstractmethod
    def _cells(self, value: T, /) -> Sequence[CardCell]:
        """Return the table row of a value."""

    def _nothing(self) -> str:
        """Return the text of an empty list."""
        return "Nothing."

    def _note(self) -> str:
        """Return a hint on how to use the values; may be empty."""
        return ""

    def _slice(self, values: Sequence[T]) -> Self:
        return type(self)(values)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Self: ...

    def __getitem__(self, index: int | slice) -> "T | Self":
        return self._slice(self._values[index]) if isinstance(index, slice) else self._values[index]

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Sequence) and not isinstance(other, str | bytes):
            return list(self) == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # a display list equals a list, which has no hash

    def _lines(self) -> Sequence[str]:
        """Return the text display without the note."""
        return [self._table().plain()]

    def _table(self) -> CardTable:
        return CardTable.from_rows(self._columns(), map(self._cells, self))

    def _remarks(self) -> list[str]:
        return list(filter(None, [self._note() if self else self._nothing()]))

    def __repr__(self) -> str:
        return escape_invisible("\n".join([*(self._lines() if self else []), *self._remarks()]))

    def _repr_pretty_(self, printer: Printer, cycle: bool) -> None:
        del cycle
        printer.text(repr(self))

    def _repr_html_(self) -> str:
        notes = (f'<p class="af-card-quiet">{cell_html(remark)}</p>' for remark in self._remarks())
        return card_frame((self._table().html() if self else "") + "".join(notes))
