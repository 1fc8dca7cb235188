"""How texts were judged: a row for each block, a column for each dimension, in each cell the scores one after another.

It is made as the drawing of blocks is: a drawing, and beneath it a table that says the same, with the evidence. A chart
that a front end draws itself would have the evidence only where it is pointed at.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

import pandas as pd

from artifactflow_nb.plots import columns
from artifactflow_nb.plots.columns import FLOAT, INT, TEXT, typed_frame
from artifactflow_nb.plots.still import BOTH_STYLE, drawn, image
from artifactflow_nb.plots.svg import BLUE, bar, heading, label, nothing, picture, quiet
from artifactflow_nb.text.cards import Fold, Table, framed, markdown_text, quiet_style, visible
from artifactflow_nb.text.figures import count
from artifactflow_nb.text.markdown import escape
from artifactflow_nb.text.width import clip

TITLE = "Scores of texts, from 1 to 10"
MAX_ROWS, MAX_DIMENSIONS = 200, 16
_MOST_LISTED = 200
_MOST_IMAGE_CHARS = 300_000
_MOST_NAMED = 3
_HIGHEST = 10
_GUTTER, _RIGHT, _TOP, _ROW, _GAP = 200, 110, 62, 26, 2
_WIDE_PX = {4: 130, 8: 104}
"""How wide a cell is in a drawing of at most so many dimensions."""
_NARROW_PX = 92
_BOLD_PX = 6.8
"""How wide a column of bold text is, at most."""
_SCORES_TOLD = 12
_PALEST, _FULLEST = 0.05, 0.45
"""How much blue is in the cells of the lowest and the highest score: text in ink can be read on both."""
_NAME_COLUMNS = 30

Subject = tuple[str, str, str]
"""What is judged: the conversation of the project, the block, and the persona from whose view; empty for nobody's."""


@dataclass(slots=True)
class _Scores:
    """The grades of one subject by one dimension, in the order in which they were given."""

    given: list[float] = field(default_factory=list)
    version: float | None = None
    evidence: str = ""
    advice: str = ""

    @property
    def last(self) -> float:
        return self.given[-1]

    def said(self, n_most: int) -> str:
        """At most so many scores, the newest last: `5 → 7`."""
        begun = "… " if len(self.given) > n_most else ""
        return begun + " → ".join(f"{value:g}" for value in self.given[-n_most:])

    @property
    def before(self) -> str:
        return ", ".join(f"{value:g}" for value in self.given[:-1])


@dataclass(frozen=True, slots=True)
class _Row:
    """All that was judged of one subject, by dimension."""

    name: str
    scores: Mapping[str, _Scores]

    @property
    def mean(self) -> float:
        return fmean(one.last for one in self.scores.values())


def plot_evaluations(evaluations: pd.DataFrame) -> "EvaluationChart":
    """How texts were judged by dimensions, those with the lowest mean first, with how it changed and the evidence.

    Args:
        evaluations: Rows of `wb.evaluations_df()`, all or some.

    Errors: `UsageError` for a frame that lacks a column that is needed.
    """
    table = columns.Table(evaluations, "evaluations", "plot_evaluations", ("block", "dimension", "score"))
    rows = sorted(_rows(table), key=lambda row: row.mean)
    return EvaluationChart(rows, tuple(dict.fromkeys(table.texts("dimension", "unknown"))))


def _rows(table: columns.Table) -> list[_Row]:
    """What was judged, in the order of the frame; a block has the name that it had last."""
    blocks, conversations = table.texts("block_id"), table.texts("conversation_id")
    names, personas = table.texts("block", "unknown"), table.texts("persona")
    dimensions, scores, versions = (
        table.texts("dimension", "unknown"),
        table.numbers("score"),
        table.numbers("block_version"),
    )
    evidence, advice = table.texts("evidence_json", "[]"), table.texts("advice")
    subjects: list[Subject] = [(conversations[n], blocks[n] or names[n], personas[n]) for n in range(len(table))]
    called: dict[Subject, str] = {}
    found: dict[Subject, dict[str, _Scores]] = {subjects[n]: {} for n, score in enumerate(scores) if score is not None}
    for n in _in_time(table):
        if (score := scores[n]) is None:
            continue
        called[subjects[n]] = f"{names[n]} for {personas[n]}" if personas[n] else names[n]
        one = found[subjects[n]].setdefault(dimensions[n], _Scores())
        one.given.append(score)
        one.version, one.evidence, one.advice = versions[n], _quotes(evidence[n]), advice[n]
    return [_Row(called[subject], found[subject]) for subject in found]


def _in_time(table: columns.Table) -> list[int]:
    """The rows in the order in which the grades were given; as they stand where the frame has no times."""
    moments = table.moments("created_at")
    return sorted(range(len(table)), key=lambda n: moments[n] or 0.0)


def _quotes(told: str) -> str:
    """The passages of a list in JSON, in quotation marks; a text that is none as it is."""
    try:
        passages = json.loads(told)
    except ValueError:
        return told
    return " ".join(f"“{passage}”" for passage in passages) if isinstance(passages, list) else told


class EvaluationChart:
    """How texts were judged; as the last value of a cell it shows itself.

    Args:
        rows: What was judged, as it is to be listed.
        dimensions: By what.

    Attributes:
        title: What it shows.
        description: What there is to see, in a sentence or two.
        svg: The drawing; the same for the same grades.
        table: The newest grade of each text by each dimension, with the scores `before` and the evidence, as a frame.
        notes: What is left out of the drawing, in sentences.
    """

    title = TITLE

    def __init__(self, rows: Sequence[_Row], dimensions: Sequence[str]) -> None:
        self.description = _told(rows, dimensions)
        self.notes = _notes(rows, dimensions)
        self.table = _frame(rows, dimensions)
        self.svg = _svg(rows[:MAX_ROWS], dimensions[:MAX_DIMENSIONS], self.description, self.notes)

    def __repr__(self) -> str:
        table = [self._listed(["block", "dimension", "score", "before"]).plain()] if len(self.table) else []
        return visible("\n".join([self.title, self.description, *table, *self.notes]))

    def _listed(self, names: Sequence[str]) -> Table:
        rows = [[_cell(value) for value in row] for row in self.table[names].astype(object).to_numpy()[:_MOST_LISTED]]
        return Table(names, rows, max(len(self.table) - _MOST_LISTED, 0))

    @property
    def _fold(self) -> Fold:
        listed = self._listed(["block", "dimension", "score", "before", "evidence", "advice"])
        return Fold(f"The same as a table, with the evidence: {count(len(self.table), 'score')}", listed)

    def _still(self) -> str:
        """The drawing as an image; its words where that would be too large to be kept."""
        if len(self.svg) > _MOST_IMAGE_CHARS:
            return f"<p>{escape(self.description)}</p>"
        return image(self.svg, f"{self.title}. {self.description}")

    def _repr_markdown_(self) -> str:
        return f"**{markdown_text(self.title)}**\n\n{self._still()}\n\n{self._fold.markdown()}"

    def _repr_html_(self) -> str:
        body = f'<div class="af-run">{drawn(self.svg, self._still())}{self._fold.html()}</div>'
        return f"{quiet_style(BOTH_STYLE)}{framed(body)}"


def _cell(value: object) -> str:
    return "" if value is pd.NA else f"{value:g}" if isinstance(value, float) else str(value)


# --- in words --------------------------------------------------------------------------------------------------------


def _told(rows: Sequence[_Row], dimensions: Sequence[str]) -> str:
    """How much was judged, what that is in the mean, and what was judged worst."""
    if not rows:
        return "Nothing was judged in this frame. project.evaluate() has texts judged."
    ends = sorted((one.last, row.name, name) for row in rows for name, one in row.scores.items())
    worst = "; ".join(f"{clip(row, 40)} by {clip(name, 40)}, {score:g}" for score, row, name in ends[:_MOST_NAMED])
    judged = f"{count(len(rows), 'text')} judged by {count(len(dimensions), 'dimension')}"
    return f"{judged}, {fmean(score for score, _, _ in ends):.1f} in the mean. Lowest: {worst}."


def _notes(rows: Sequence[_Row], dimensions: Sequence[str]) -> tuple[str, ...]:
    notes = []
    if any(len(one.given) > 1 for row in rows for one in row.scores.values()):
        notes.append("An arrow leads from a score to the one that was given later; the colour is that of the last.")
    if more := max(len(rows) - MAX_ROWS, 0):
        notes.append(f"{count(more, 'more text')} in the table.")
    if more := max(len(dimensions) - MAX_DIMENSIONS, 0):
        notes.append(f"{count(more, 'more dimension')} in the table.")
    return tuple(notes)


def _frame(rows: Sequence[_Row], dimensions: Sequence[str]) -> pd.DataFrame:
    found = [(row.name, name, row.scores[name]) for row in rows for name in dimensions if name in row.scores]
    return typed_frame(
        {
            "block": (TEXT, [name for name, _, _ in found]),
            "dimension": (TEXT, [name for _, name, _ in found]),
            "score": (FLOAT, [one.last for *_, one in found]),
            "before": (TEXT, [one.before for *_, one in found]),
            "block_version": (INT, [one.version for *_, one in found]),
            "evidence": (TEXT, [one.evidence for *_, one in found]),
            "advice": (TEXT, [one.advice for *_, one in found]),
        }
    )


# --- the drawing -----------------------------------------------------------------------------------------------------


def _svg(rows: Sequence[_Row], dimensions: Sequence[str], told: str, notes: Sequence[str]) -> str:
    if not rows:
        return nothing(TITLE, told)
    wide = next((px for most, px in _WIDE_PX.items() if len(dimensions) <= most), _NARROW_PX)
    right, bottom = _GUTTER + len(dimensions) * wide, _TOP + len(rows) * _ROW
    middle = 'text-anchor="middle"'
    heads = [_head(_GUTTER + (n + 0.5) * wide, name, wide) for n, name in enumerate(dimensions)]
    heads.append(quiet(label(right + 12, _TOP - 10, "mean", 12)))
    pieces = [heading(TITLE), *heads]
    for n, row in enumerate(rows):
        y = _TOP + n * _ROW
        pieces.append(label(_GUTTER - 10, y + _ROW / 2 + 4, row.name, _NAME_COLUMNS, more='text-anchor="end"'))
        pieces += [
            _field(_GUTTER + m * wide, y, wide, row.name, name, row.scores[name])
            if name in row.scores
            else quiet(label(_GUTTER + (m + 0.5) * wide, y + _ROW / 2 + 4, "–", 3, more=middle))
            for m, name in enumerate(dimensions)
        ]
        pieces.append(label(right + 12, y + _ROW / 2 + 4, f"{row.mean:.1f}", 12))
    pieces += [quiet(label(12, bottom + 22 + 16 * n, note, 130)) for n, note in enumerate(notes)]
    size = (max(right + _RIGHT, 640), bottom + 12 + 16 * len(notes) + (8 if notes else 0))
    return picture(size, TITLE, told, *pieces)


def _head(x: float, name: str, wide: int) -> str:
    look = 'text-anchor="middle" font-weight="600"'
    return label(x, _TOP - 10, name.replace("_", " "), int(wide / _BOLD_PX), more=look)


def _field(x: float, y: float, wide: int, block: str, dimension: str, one: _Scores) -> str:
    """A cell: its scores on a ground that is the fuller the higher the last one is."""
    share = min(max((one.last - 1) / (_HIGHEST - 1), 0.0), 1.0)
    ground = f'fill-opacity="{_PALEST + (_FULLEST - _PALEST) * share:.2f}" rx="3"'
    evidence = f": {clip(one.evidence, 120)}" if one.evidence else ""
    tip = f"{clip(block, 60)} by {clip(dimension, 60)}, {one.said(_SCORES_TOLD)}{evidence}"
    place = x + _GAP / 2, y + _GAP / 2, wide - _GAP, _ROW - _GAP
    shown = one.said(2 if wide == _NARROW_PX else 3)
    at = x + wide / 2, y + _ROW / 2 + 4
    return bar(*place, BLUE, tip, more=ground) + label(*at, shown, _NAME_COLUMNS, more='text-anchor="middle"')
