"""Text differences as displayable values, in HTML and plain text.

The HTML uses `<ins>` and `<del>`, so that it is readable without colours and style. The texts are escaped, and
invisible characters are displayed by code point. Long unchanged sections are collapsed, and very long diffs are
truncated.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Literal, get_args

from artifactflow_nb.core.language import EnglishText, translate
from artifactflow_nb.core.text.cards import escape_invisible
from artifactflow_nb.core.text.chinese import language_tag
from artifactflow_nb.core.text.comparison import (
    COARSE,
    CONTEXT_LINES,
    DiffLine,
    DiffRow,
    DiffSection,
    DiffSpan,
    compare_texts,
    unified_diff,
)
from artifactflow_nb.core.text.format import translate_count
from artifactflow_nb.core.text.markdown import escape
from artifactflow_nb.core.text.panels import SIDES, panel_html
from artifactflow_nb.errors import UsageError

Layout = Literal["inline", "side_by_side"]

MAX_ROWS = 2000
"""Maximum number of displayed changed lines, and of unchanged lines per collapsed section."""

_MIN_COLLAPSED = 4
_WHERE = ' class="af-where"'
_LANGUAGE_CHARS = 4000  # a sample is enough to detect the language
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def diff_html(old: str, new: str, *, layout: Layout = "inline", names: tuple[str, str] = ("before", "after")) -> str:
    """Render a difference as an HTML element without style rules, e.g. for a panel.

    Args:
        old: The old text.
        new: The new text.
        layout: `inline`, removed lines above added lines; or `side_by_side`, the old text left of the new text.
        names: Names of the two texts.

    Errors: `UsageError` for another layout.
    """
    if layout not in get_args(Layout):
        raise UsageError(f"layout is {layout!r}; it must be 'inline' or 'side_by_side'.")
    sections = compare_texts(old, new)
    rows = [row for section in sections for row in section.rows]
    changed = sum(row.is_similar for row in rows)
    added = sum(row.new is not None for row in rows) - changed
    removed = sum(row.old is not None for row in rows) - changed
    labels: list[tuple[int, EnglishText]] = [
        (changed, "{lines} changed"),
        (added, "{lines} added"),
        (removed, "{lines} removed"),
    ]
    counts = ", ".join(translate(text, lines=translate_count(n, "line")) for n, text in labels if n)
    counts = counts or translate("no difference")
    if any(section.is_coarse for section in sections):
        counts += f" ({translate(COARSE)})"
    lang = f' lang="{tag}"' if (tag := language_tag(new[:_LANGUAGE_CHARS] or old[:_LANGUAGE_CHARS])) else ""
    kind = layout.replace("_", "-")
    heading = f'<p class="af-diff-said">{escape(" → ".join(names))}: {counts}</p>'
    return f'<div class="af-diff af-diff-{kind}"{lang}>{heading}{"".join(_body(sections, layout))}</div>'


def _body(sections: Sequence[DiffSection], layout: Layout) -> Iterator[str]:
    """Render tables of changed lines with context lines, and collapsed sections between them."""
    render = partial(_render, layout=layout)
    rows: list[str] = []
    remaining = MAX_ROWS if any(section.rows for section in sections) else -1
    for index, section in enumerate(sections):
        if remaining < 0:
            break
        if section.rows:
            rows += render(section.rows[:remaining], True)
            remaining -= len(section.rows)
            continue
        starts = section.old_start, section.new_start
        lines = [
            DiffRow(*(DiffLine(start + n, text, (DiffSpan(text, False),), True) for start in starts))
            for n, text in enumerate(section.unchanged_lines, 1)
        ]
        lead = 0 if index == 0 else CONTEXT_LINES
        end = len(lines) - (0 if index == len(sections) - 1 else CONTEXT_LINES)
        if end - lead < _MIN_COLLAPSED:
            rows += render(lines, False)
            continue
        yield _table([*rows, *render(lines[:lead], False)])
        summary = translate("… {lines}", lines=translate_count(end - lead, "unchanged line"))
        n_more = end - lead - MAX_ROWS
        note = translate("… {lines} more", lines=translate_count(n_more, "line"))
        more = f'<p class="af-diff-said">{note}</p>' if n_more > 0 else ""
        table = _table(render(lines[lead:end][:MAX_ROWS], False))
        yield f'<details class="af-diff-fold"><summary>{summary}</summary>{table}{more}</details>'
        rows = [*render(lines[end:], False)]
    yield _table(rows)
    if (n_omitted := sum(len(section.rows) for section in sections) - MAX_ROWS) > 0:
        note = translate("… {lines}", context="further", lines=translate_count(n_omitted, "further changed line"))
        yield f'<p class="af-diff-said">{note}</p>'


def _table(rows: Iterable[str]) -> str:
    body = "".join(rows)
    return f'<table class="af-diff-lines"><tbody>{body}</tbody></table>' if body else ""


def _render(rows: Sequence[DiffRow], changed: bool, layout: Layout) -> Iterator[str]:
    if layout == "side_by_side":
        left, right = ("del", "ins") if changed else ("same", "same")
        yield from (f"<tr>{_side(row.old, left)}{_side(row.new, right)}</tr>" for row in rows)
        return
    if not changed:
        yield from (_inline_row(row.old, row.new, "same") for row in rows)
        return
    for kind, line in _in_order(rows):
        yield _inline_row(line if kind == "del" else None, line if kind == "ins" else None, kind)


def marked_diff(hunks: str) -> str:
    """Render the lines of a unified diff: changed lines as `<del>` or `<ins>` with `<mark>`, others as `<span>`."""
    html = ""
    for is_change, group in groupby(hunks.split("\n"), lambda line: line[:1] in {"-", "+", "\\"}):
        if not is_change:
            html += "".join(f"<span{_WHERE * line.startswith('@@')}>{escape(line)}\n</span>" for line in group)
            continue
        texts = dict.fromkeys("-+", "")
        sign = "-"
        for line in group:
            if line[0] == "\\":  # "No newline at end of file" is about the line before
                texts[sign] = texts[sign].removesuffix("\n")
            else:
                sign = line[0]
                texts[sign] += f"{line[1:]}\n"
        end = "" if any(text.endswith("\n") for text in texts.values()) else "\n"  # no note if both texts lack it
        for section in compare_texts(*(text and text + end for text in texts.values())):
            html += "".join(f"<span> {escape(line)}\n</span>" for line in section.unchanged_lines)
            for kind, changed in _in_order(section.rows):
                tag = "mark" if any(not is_changed for _, is_changed in changed.spans) else ""
                words = (
                    f"<{tag}>{escape(text)}</{tag}>" if tag and new else escape(text) for text, new in changed.spans
                )
                note = "" if changed.has_newline else f"<span{_WHERE}> {translate('(no line feed at the end)')}</span>"
                html += f"<{kind}>{'-' if kind == 'del' else '+'}{''.join(words)}{note}\n</{kind}>"
    return html


def _in_order(rows: Iterable[DiffRow]) -> Iterator[tuple[str, DiffLine]]:
    """Yield lines as `del` or `ins`: an edited line above its new version, other removed lines above added lines."""
    for is_similar, run in groupby(rows, lambda row: row.is_similar):
        for group in ([row] for row in run) if is_similar else [list(run)]:
            yield from (("del", row.old) for row in group if row.old)
            yield from (("ins", row.new) for row in group if row.new)


_SIGNS = {"same": "", "del": "−", "ins": "+"}
_CHANGES: dict[str, EnglishText] = {"del": "removed", "ins": "added"}


def _inline_row(old: DiffLine | None, new: DiffLine | None, kind: str) -> str:
    sign = _SIGNS[kind]
    label = f' aria-label="{translate(_CHANGES[kind])}"' if sign else ""
    line = new or old
    return (
        f'<tr class="af-diff-{kind}">{_number(old)}{_number(new)}<td class="af-diff-sign"{label}>{sign}</td>'
        f"{_text(line, kind)}</tr>"
    )


def _side(line: DiffLine | None, kind: str) -> str:
    return f"{_number(line)}{_text(line, kind if line else 'none')}"


def _number(line: DiffLine | None) -> str:
    return f'<td class="af-diff-no">{line.number if line else ""}</td>'


def _text(line: DiffLine | None, kind: str) -> str:
    """Render the text cell of a line; a class marks lines that are changed as a whole."""
    spans = line.spans if line else ()
    whole = " af-diff-whole" if kind in {"ins", "del"} and all(span.changed for span in spans) else ""
    end = ""
    if line is not None and not line.has_newline:
        end = f'<span class="af-diff-end"> {translate("(no line feed at the end)")}</span>'
    content = "".join(f"<{kind}>{_visible(text)}</{kind}>" if changed else _visible(text) for text, changed in spans)
    return f'<td class="af-diff-text af-diff-{kind}{whole}">{content}{end}</td>'


def _visible(text: str) -> str:
    return escape(_INVISIBLE.sub(lambda match: f"[U+{ord(match[0]):04X}]", text))


@dataclass(frozen=True, slots=True, repr=False)
class TextDiff:
    """Word-level difference between two texts.

    Attributes:
        layout: HTML layout: `side_by_side` or `inline`.
    """

    a: str
    b: str
    names: tuple[str, str] = SIDES
    layout: Layout = "side_by_side"

    @property
    def is_same(self) -> bool:
        """Whether the texts are equal."""
        return self.a == self.b

    @property
    def inline(self) -> "TextDiff":
        """Copy with the inline layout, removed lines above added lines."""
        return replace(self, layout="inline")

    @property
    def _texts(self) -> tuple[str, str]:
        """Both texts; if neither ends with a line feed, each gets a line feed, because only a difference counts."""
        end = "" if self.a.endswith("\n") or self.b.endswith("\n") else "\n"
        return self.a and self.a + end, self.b and self.b + end

    def plain(self) -> str:
        """Render as a unified diff, or as a note that there is no difference."""
        diff = unified_diff(*self._texts, *self.names) or f"{' → '.join(self.names)}: no difference"
        return escape_invisible(diff.rstrip("\n"))

    def table(self) -> str:
        """Render as an HTML element without its style rules."""
        return diff_html(*self._texts, layout=self.layout, names=self.names)

    def __repr__(self) -> str:
        return self.plain()

    def _repr_html_(self) -> str:
        return panel_html(self.table())


class DiffMixin(ABC):
    """Displays a value as its text difference."""

    __slots__ = ()

    @property
    @abstractmethod
    def diff(self) -> TextDiff:
        """The text difference; a missing text counts as empty."""

    def __repr__(self) -> str:
        return repr(self.diff)

    def _repr_html_(self) -> str:
        return self.diff._repr_html_()
