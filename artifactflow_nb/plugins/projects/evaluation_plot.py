"""The plot of grades: a cell for each block and dimension, with earlier scores."""

import json
from dataclasses import dataclass, field
from math import isfinite
from statistics import fmean
from typing import TYPE_CHECKING

import pandas as pd

from artifactflow_nb.analysis.plots.canvas import canvas, finish, message_only, name_text, rows_axis, write_beside
from artifactflow_nb.analysis.plots.frame_columns import FrameColumns, in_language_of_frames
from artifactflow_nb.analysis.plots.waterfall import omitted_note
from artifactflow_nb.core.language import translate
from artifactflow_nb.core.text.format import clip, translate_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_BLOCKS, _MAX_DIMENSIONS = 200, 16
_MAX_NAMED = _N_SCORES = 3
_HIGHEST = 10


@dataclass(slots=True)
class _Graded:
    """The grades of a block by one reader: the block's newest name, and the scores and evidence of each dimension."""

    name: str = ""
    scores: dict[str, list[float]] = field(default_factory=dict)
    evidence: dict[str, str] = field(default_factory=dict)

    @property
    def mean(self) -> float:
        return fmean(scores[-1] for scores in self.scores.values())


@in_language_of_frames
def plot_evaluations(grades: pd.DataFrame, *, ax: "Axes | None" = None) -> "Axes":
    """Plot the grades of blocks; see `ProjectFrames.plot_evaluations`."""
    table = FrameColumns(
        grades, "projects.evaluations", "wb.projects.plot_evaluations", ("block", "dimension", "score")
    )
    blocks = sorted(_graded_blocks(table), key=lambda block: block.mean)
    dimensions = list(dict.fromkeys(table.texts("dimension", translate("unknown"))))
    rows, columns = blocks[:_MAX_BLOCKS], dimensions[:_MAX_DIMENSIONS]
    with canvas(ax, len(rows)) as axes:
        if not blocks:
            return message_only(
                axes,
                translate("Scores of texts, from 1 to 10"),
                translate("This frame has no grades. project.evaluate() adds them."),
            )
        cells = [[block.scores.get(name, [float("nan")])[-1] for name in columns] for block in rows]
        axes.imshow(cells, cmap="cividis", vmin=1, vmax=_HIGHEST, aspect="auto")
        for y, block in enumerate(rows):
            for x, name in enumerate(columns):
                scores, last = block.scores.get(name, []), cells[y][x]
                ink = axes.title.get_color() if not isfinite(last) else "white" if last < _HIGHEST / 2 else "black"
                text = ("… " if len(scores) > _N_SCORES else "") + " → ".join(
                    f"{score:g}" for score in scores[-_N_SCORES:]
                )
                axes.text(x, y, text or "–", ha="center", va="center", color=ink)
            write_beside(axes, y, f"{block.mean:.1f}")
        axes.set_xticks(range(len(columns)), [name_text(name.replace("_", " "), 18) for name in columns])
        rows_axis(axes, [block.name for block in rows])
        axes.tick_params(axis="x", top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
        axes.text(1.01, 1.0, translate("mean"), transform=axes.transAxes, va="bottom", fontsize="small")
        notes = (
            [translate("An arrow leads from a score to the next score; the colour shows the last score.")]
            if any(len(s) > 1 for block in rows for s in block.scores.values())
            else []
        )
        notes += omitted_note(len(blocks) - _MAX_BLOCKS, translate_count(len(blocks) - _MAX_BLOCKS, "more text"))
        notes += omitted_note(
            len(dimensions) - _MAX_DIMENSIONS, translate_count(len(dimensions) - _MAX_DIMENSIONS, "more dimension")
        )
        latest = sorted((scores[-1], block.name, name) for block in blocks for name, scores in block.scores.items())
        evidence = {(block.name, name): text for block in blocks for name, text in block.evidence.items()}
        lowest = []
        for score, block_name, name in latest[:_MAX_NAMED]:
            quoted = evidence.get((block_name, name), "")
            row, dimension = name_text(block_name), name_text(name)
            text = translate("{row} by {dimension}, {score}", row=row, dimension=dimension, score=f"{score:g}")
            lowest.append(f"{text}: {clip(quoted, 120)}" if quoted else text)
        description = translate(
            "{texts} judged by {dimensions}, {mean} in the mean. Lowest: {lowest}.",
            texts=translate_count(len(blocks), "text"),
            dimensions=translate_count(len(dimensions), "dimension"),
            mean=f"{fmean(score for score, *_ in latest):.1f}",
            lowest="; ".join(lowest),
        )
        return finish(axes, translate("Scores of texts, from 1 to 10"), description, notes)


def _graded_blocks(table: FrameColumns) -> list[_Graded]:
    """Group the grades by block and reader, in the order of time."""
    names, personas = table.texts("block", translate("unknown")), table.texts("persona")
    ids = zip(table.texts("conversation_id"), table.texts("block_id"), names, personas, strict=True)
    subjects = [(conversation, block or name, persona) for conversation, block, name, persona in ids]
    dimensions, scores, times = (
        table.texts("dimension", translate("unknown")),
        table.numbers("score"),
        table.times_ms("created_at"),
    )
    evidence = table.texts("evidence_json", "[]")
    blocks: dict[tuple[str, str, str], _Graded] = {}
    for row in sorted(range(len(table)), key=lambda row: times[row] or 0.0):
        score = scores[row]
        if score is None:
            continue
        block = blocks.setdefault(subjects[row], _Graded())
        persona = personas[row]
        block.name = translate("{name} for {reader}", name=names[row], reader=persona) if persona else names[row]
        block.scores.setdefault(dimensions[row], []).append(score)
        block.evidence[dimensions[row]] = " ".join(f"“{passage}”" for passage in json.loads(evidence[row]))
    return list(blocks.values())
