"""The difference of two texts as HTML, Markdown and plain text.

The HTML says with `<ins>` and `<del>` what came and what went, so that it reads without colours and without its style.
All that the texts hold is shown as text; characters that cannot be seen are shown by their numbers. Long stretches
without a change are folded away, and of a very long difference the first part is shown.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from itertools import groupby
from operator import attrgetter
from typing import Literal

from artifactflow_nb.errors import UsageError
from artifactflow_nb.text.chinese import language_tag
from artifactflow_nb.text.figures import count
from artifactflow_nb.text.lines import CONTEXT, unified_diff
from artifactflow_nb.text.markdown import escape
from artifactflow_nb.text.word_diff import Line, Row, Stretch, compare

Layout = Literal["inline", "side_by_side"]

MAX_ROWS = 2000
"""Changed lines that are shown, and unchanged lines that one fold holds."""

_NAMES = ("before", "after")
_LEAST_FOLDED = 4
_OLD, _NEW = attrgetter("old"), attrgetter("new")
_LANGUAGE_CHARS = 4000
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def diff_html(old: str, new: str, *, layout: Layout = "inline", names: tuple[str, str] = _NAMES) -> str:
    """The difference as an element for a page that has the rules of `diff_style`, within an element `af-run`.

    Args:
        old: The one text.
        new: The other.
        layout: `inline`, removed lines above added ones; or `side_by_side`, the old text left of the new one.
        names: What the two texts are called.

    Errors: `UsageError` for another layout.
    """
    if layout not in _FACES:
        raise UsageError(f"layout is {layout!r}; it must be 'inline' or 'side_by_side'.")
    stretches = compare(old, new)
    lang = f' lang="{tag}"' if (tag := language_tag(new[:_LANGUAGE_CHARS] or old[:_LANGUAGE_CHARS])) else ""
    kind = layout.replace("_", "-")
    said = f'<p class="af-diff-said">{escape(" → ".join(names))}: {_counted(stretches)}</p>'
    return f'<div class="af-diff af-diff-{kind}"{lang}>{said}{"".join(_body(stretches, layout))}</div>'


def diff_style() -> str:
    """The rules for `diff_html`; every one is within `.af-run`."""
    return (files("artifactflow_nb") / "widgets" / "static" / "diff.css").read_text(encoding="utf-8")


def diff_markdown(old: str, new: str, *, names: tuple[str, str] = _NAMES) -> str:
    """The unified difference in a fence that nothing in it can close."""
    diff = diff_plain(old, new, names=names)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", diff)), default=0))
    return f"{fence}diff\n{diff.rstrip()}\n{fence}"


def diff_plain(old: str, new: str, *, names: tuple[str, str] = _NAMES) -> str:
    """The unified difference, or that there is none."""
    return unified_diff(old, new, *names) or f"{' → '.join(names)}: no difference\n"


def _counted(stretches: Iterable[Stretch]) -> str:
    rows = [row for stretch in stretches for row in stretch.rows]
    both = sum(row.is_alike for row in rows)
    come, gone = (sum(line is not None for line in side) - both for side in (map(_NEW, rows), map(_OLD, rows)))
    parts = [(both, "changed"), (come, "added"), (gone, "removed")]
    return ", ".join(f"{count(n, 'line')} {what}" for n, what in parts if n) or "no difference"


def _body(stretches: Sequence[Stretch], layout: Layout) -> Iterator[str]:
    """Tables of changed lines with some lines around them, and folds between the tables."""
    face = _FACES[layout]
    rows: list[str] = []
    room = MAX_ROWS if any(stretch.rows for stretch in stretches) else -1
    for at, stretch in enumerate(stretches):
        if room < 0:
            break
        if stretch.rows:
            rows += face(stretch.rows[:room], True)
            room -= len(stretch.rows)
            continue
        lead, hidden, trail = _split(stretch, is_first=at == 0, is_last=at == len(stretches) - 1)
        rows += face(lead, False)
        if hidden:
            yield _table(rows) + _fold(hidden, layout)
            rows = []
        rows += face(trail, False)
    yield _table(rows)
    if (left := sum(len(stretch.rows) for stretch in stretches) - MAX_ROWS) > 0:
        yield f'<p class="af-diff-said">… {count(left, "further changed line")}</p>'


def _split(stretch: Stretch, *, is_first: bool, is_last: bool) -> tuple[list[Row], list[Row], list[Row]]:
    """The unchanged lines that are shown at both ends of a stretch, and those between them, which are folded away."""
    rows = [
        Row(Line(stretch.old_start + n, text, (), True), Line(stretch.new_start + n, text, (), True))
        for n, text in enumerate(stretch.same, 1)
    ]
    lead, trail = (0 if is_first else CONTEXT), (0 if is_last else CONTEXT)
    if len(rows) - lead - trail < _LEAST_FOLDED:
        return rows, [], []
    return rows[:lead], rows[lead : len(rows) - trail], rows[len(rows) - trail :]


def _fold(rows: Sequence[Row], layout: Layout) -> str:
    shown = _table(_FACES[layout](rows[:MAX_ROWS], False))
    more = f'<p class="af-diff-said">… {count(len(rows) - MAX_ROWS, "line")} more</p>' if len(rows) > MAX_ROWS else ""
    summary = f"<summary>… {count(len(rows), 'unchanged line')}</summary>"
    return f'<details class="af-diff-fold">{summary}{shown}{more}</details>'


def _table(rows: Iterable[str]) -> str:
    body = "".join(rows)
    return f'<table class="af-diff-lines"><tbody>{body}</tbody></table>' if body else ""


def _inline(rows: Sequence[Row], changed: bool) -> Iterator[str]:
    """A line that became another stands above it; of lines that are replaced, all old ones stand above all new ones."""
    if not changed:
        yield from (_inline_row(row.old, row.new, "same") for row in rows)
        return
    for is_alike, run in groupby(rows, lambda row: row.is_alike):
        for group in ([row] for row in run) if is_alike else [list(run)]:
            yield from (_inline_row(row.old, None, "del") for row in group if row.old)
            yield from (_inline_row(None, row.new, "ins") for row in group if row.new)


_SIGNS = {"same": ("", ""), "del": ("−", "removed"), "ins": ("+", "added")}


def _inline_row(old: Line | None, new: Line | None, kind: str) -> str:
    sign, word = _SIGNS[kind]
    label = f' aria-label="{word}"' if word else ""
    line = new or old
    return (
        f'<tr class="af-diff-{kind}">{_number(old)}{_number(new)}<td class="af-diff-sign"{label}>{sign}</td>'
        f"{_text(line, kind)}</tr>"
    )


def _side_by_side(rows: Sequence[Row], changed: bool) -> Iterator[str]:
    left, right = ("del", "ins") if changed else ("same", "same")
    return (f"<tr>{_side(row.old, left)}{_side(row.new, right)}</tr>" for row in rows)


def _side(line: Line | None, kind: str) -> str:
    return f"{_number(line)}{_text(line, kind if line else 'none')}"


def _number(line: Line | None) -> str:
    return f'<td class="af-diff-no">{line.number if line else ""}</td>'


def _text(line: Line | None, kind: str) -> str:
    """The cell of a line; one that is changed as a whole says so, and its words need no marks."""
    spans = line.spans if line else ()
    whole = " af-diff-whole" if kind in {"ins", "del"} and all(span.changed for span in spans) else ""
    end = "" if line is None or line.is_ended else '<span class="af-diff-end"> (no line feed at the end)</span>'
    inside = "".join(f"<{kind}>{_seen(text)}</{kind}>" if changed else _seen(text) for text, changed in spans)
    return f'<td class="af-diff-text af-diff-{kind}{whole}">{inside}{end}</td>'


def _seen(text: str) -> str:
    return escape(_UNSEEN.sub(lambda found: f"[U+{ord(found[0]):04X}]", text))


_FACES = {"inline": _inline, "side_by_side": _side_by_side}
