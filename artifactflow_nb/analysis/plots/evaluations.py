"""Heat map of evaluations: a row per block, a column per dimension, in each cell the scores over time."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import pandas as pd

from artifactflow_nb.analysis.plots.chart import FLOAT, INT, TEXT, Chart, FrameColumns, texts_of, typed_frame
from artifactflow_nb.analysis.plots.svg import (
    BLUE,
    CHART_WIDTH,
    bar,
    drawing,
    empty_drawing,
    faint,
    footnotes,
    heading,
    label,
)
from artifactflow_nb.core.language import Texts
from artifactflow_nb.core.text.format import clip

MAX_ROWS, MAX_DIMENSIONS = 200, 16
_PLAIN_COLUMNS = ("block", "dimension", "score", "before")
_MAX_NAMED = 3
_HIGHEST = 10
_GUTTER, _RIGHT, _TOP, _ROW, _GAP = 200, 110, 62, 26, 2
_WIDE_PX = {4: 130, 8: 104}
"""Width of a cell, by the largest number of dimensions to which it applies."""
_NARROW_PX = 92
_BOLD_PX = 8.6
"""Upper bound of the width of a column of bold text."""
_TOOLTIP_SCORES = 12
_PALEST, _FULLEST = 0.05, 0.45
"""Opacity of the blue in cells with the lowest and the highest score; text is legible on both."""
_NAME_COLUMNS = 23

Subject = tuple[str, str, str]
"""Conversation of the project, block, and reader persona of the grader (empty for none)."""


@dataclass(slots=True)
class _Grades:
    """Grades of one subject in one dimension, oldest first."""

    scores: list[float] = field(default_factory=list)
    version: float | None = None
    evidence: str = ""
    advice: str = ""

    @property
    def last(self) -> float:
        return self.scores[-1]

    def history_text(self, n_most: int) -> str:
        """The latest scores, newest last, such as `5 → 7`."""
        ellipsis = "… " if len(self.scores) > n_most else ""
        return ellipsis + " → ".join(f"{score:g}" for score in self.scores[-n_most:])

    @property
    def before(self) -> str:
        return ", ".join(f"{score:g}" for score in self.scores[:-1])


@dataclass(frozen=True, slots=True)
class _Row:
    """Grades of one subject, by dimension."""

    name: str
    scores: Mapping[str, _Grades]

    @property
    def mean(self) -> float:
        return fmean(grades.last for grades in self.scores.values())


def plot_evaluations(evaluations: pd.DataFrame) -> Chart:
    """Plot the grades of blocks by dimension, lowest mean first, with earlier scores and evidence.

    Args:
        evaluations: Rows of `wb.evaluations_df()`, all or some.

    Errors: `UsageError` for a frame that lacks a required column.
    """
    table = FrameColumns(evaluations, "evaluations", "plot_evaluations", ("block", "dimension", "score"))
    texts = texts_of(evaluations)
    rows = sorted(_rows(table, texts), key=lambda row: row.mean)
    dimensions = tuple(dict.fromkeys(table.texts("dimension", texts("unknown"))))
    description, notes = _describe(rows, dimensions, texts), _notes(rows, dimensions, texts)
    svg = _svg(rows[:MAX_ROWS], dimensions[:MAX_DIMENSIONS], description, notes, texts)
    frame = _frame(rows, dimensions)
    return Chart(texts("scores"), description, svg, frame, notes, _PLAIN_COLUMNS, language=texts.language)


def _rows(table: FrameColumns, texts: Texts) -> list[_Row]:
    """Group the grades by subject, in the order of the frame; a block gets the name of its newest grade."""
    blocks, conversations = table.texts("block_id"), table.texts("conversation_id")
    names, personas = table.texts("block", texts("unknown")), table.texts("persona")
    dimensions, scores, versions = (
        table.texts("dimension", texts("unknown")),
        table.numbers("score"),
        table.numbers("block_version"),
    )
    evidence, advice = table.texts("evidence_json", "[]"), table.texts("advice")
    subjects: list[Subject] = [(conversations[n], blocks[n] or names[n], personas[n]) for n in range(len(table))]
    row_names: dict[Subject, str] = {}
    by_subject: dict[Subject, dict[str, _Grades]] = {
        subjects[n]: {} for n, score in enumerate(scores) if score is not None
    }
    times = table.times_ms("created_at")
    for n in sorted(range(len(table)), key=lambda row: times[row] or 0.0):
        if (score := scores[n]) is None:
            continue
        name = texts("for_reader", name=names[n], reader=personas[n]) if personas[n] else names[n]
        row_names[subjects[n]] = name
        grades = by_subject[subjects[n]].setdefault(dimensions[n], _Grades())
        grades.scores.append(score)
        grades.version, grades.evidence, grades.advice = versions[n], _quotes(evidence[n]), advice[n]
    return [_Row(row_names[subject], grades) for subject, grades in by_subject.items()]


def _quotes(evidence: str) -> str:
    """Passages of a JSON list in quotation marks; any other text unchanged."""
    try:
        passages = json.loads(evidence)
    except ValueError:
        return evidence
    return " ".join(f"“{passage}”" for passage in passages) if isinstance(passages, list) else evidence


# --- texts and table -------------------------------------------------------------------------------------------------


def _describe(rows: Sequence[_Row], dimensions: Sequence[str], texts: Texts) -> str:
    """Number of texts and dimensions, mean score, and the lowest scores."""
    if not rows:
        return texts("no_scores")
    latest = sorted((grades.last, row.name, name) for row in rows for name, grades in row.scores.items())
    lowest = [
        texts("score_by", row=clip(row, 40), dimension=clip(name, 40), score=f"{score:g}")
        for score, row, name in latest[:_MAX_NAMED]
    ]
    return texts(
        "scores_text",
        texts=texts.count(len(rows), "n_texts"),
        dimensions=texts.count(len(dimensions), "n_dimensions"),
        mean=f"{fmean(score for score, _, _ in latest):.1f}",
        lowest="; ".join(lowest),
    )


def _notes(rows: Sequence[_Row], dimensions: Sequence[str], texts: Texts) -> tuple[str, ...]:
    notes = []
    if any(len(grades.scores) > 1 for row in rows for grades in row.scores.values()):
        notes.append(texts("scores_arrow"))
    for key, n_more in ("n_more_texts", len(rows) - MAX_ROWS), ("n_more_dimensions", len(dimensions) - MAX_DIMENSIONS):
        if n_more > 0:
            notes.append(texts("in_table", rows=texts.count(n_more, key)))
    return tuple(notes)


def _frame(rows: Sequence[_Row], dimensions: Sequence[str]) -> pd.DataFrame:
    cells = [(row.name, name, row.scores[name]) for row in rows for name in dimensions if name in row.scores]
    return typed_frame(
        {
            "block": (TEXT, [name for name, _, _ in cells]),
            "dimension": (TEXT, [name for _, name, _ in cells]),
            "score": (FLOAT, [grades.last for *_, grades in cells]),
            "before": (TEXT, [grades.before for *_, grades in cells]),
            "block_version": (INT, [grades.version for *_, grades in cells]),
            "evidence": (TEXT, [grades.evidence for *_, grades in cells]),
            "advice": (TEXT, [grades.advice for *_, grades in cells]),
        }
    )


# --- the drawing -----------------------------------------------------------------------------------------------------


def _svg(rows: Sequence[_Row], dimensions: Sequence[str], description: str, notes: Sequence[str], texts: Texts) -> str:
    title = texts("scores")
    if not rows:
        return empty_drawing(title, description)
    wide = next((px for limit, px in _WIDE_PX.items() if len(dimensions) <= limit), _NARROW_PX)
    right, bottom = _GUTTER + len(dimensions) * wide, _TOP + len(rows) * _ROW
    middle = 'text-anchor="middle"'
    pieces = [heading(title)]
    for n, name in enumerate(dimensions):
        x, n_columns, bold = _GUTTER + (n + 0.5) * wide, int(wide / _BOLD_PX), f'{middle} font-weight="600"'
        pieces.append(label(x, _TOP - 10, name.replace("_", " "), n_columns, more=bold))
    pieces.append(faint(label(right + 12, _TOP - 10, texts("mean"), 12)))
    for n, row in enumerate(rows):
        y = _TOP + n * _ROW
        pieces.append(label(_GUTTER - 10, y + _ROW / 2 + 4, row.name, _NAME_COLUMNS, more='text-anchor="end"'))
        for m, name in enumerate(dimensions):
            x = _GUTTER + m * wide
            if (grades := row.scores.get(name)) is None:
                pieces.append(faint(label(x + wide / 2, y + _ROW / 2 + 4, "–", 3, more=middle)))
                continue
            # The higher the last score, the stronger the colour of the background.
            share = min(max((grades.last - 1) / (_HIGHEST - 1), 0.0), 1.0)
            background = f'fill-opacity="{_PALEST + (_FULLEST - _PALEST) * share:.2f}" rx="3"'
            evidence = f": {clip(grades.evidence, 120)}" if grades.evidence else ""
            scores = grades.history_text(_TOOLTIP_SCORES)
            tip = texts("score_by", row=clip(row.name, 60), dimension=clip(name, 60), score=scores) + evidence
            box = x + _GAP / 2, y + _GAP / 2, wide - _GAP, _ROW - _GAP
            scores = grades.history_text(2 if wide == _NARROW_PX else 3)
            text = label(x + wide / 2, y + _ROW / 2 + 4, scores, _NAME_COLUMNS, more=middle)
            pieces.append(bar(*box, BLUE, tip, more=background) + text)
        pieces.append(label(right + 12, y + _ROW / 2 + 4, f"{row.mean:.1f}", 12))
    below, height = footnotes(notes, bottom + 22)
    return drawing((max(right + _RIGHT, CHART_WIDTH), bottom + 12 + height), title, description, *pieces, *below)
