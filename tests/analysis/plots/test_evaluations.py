"""The chart of evaluations."""

import re
from typing import Any

import pandas as pd
import pytest
from conftest import OpenWorkbench
from flows.test_evaluation import Graders, open_judged
from support.charts import HOSTILE, START, texts, tips, xml
from support.cpu_time import within
from support.safe_html import DRAWING, PROSE, harms

import artifactflow_nb as af
from artifactflow_nb.analysis.plots.chart import Chart
from artifactflow_nb.errors import UsageError

ELEMENTS = DRAWING | PROSE | {"div", "rp", "img", "details", "summary"}


def grades(*scores: tuple[str, str, int], **columns: Any) -> pd.DataFrame:
    """A frame of grades, an hour apart, from block, dimension and score."""
    rows = [
        {
            "conversation_id": "conv-1",
            "block_id": block.lower(),
            "block": block,
            "block_version": n + 1,
            "dimension": dimension,
            "persona": None,
            "score": score,
            "evidence_json": f'["passage {n}"]',
            "advice": f"advice {n}",
            "created_at": START + pd.Timedelta(hours=n),
        }
        for n, (block, dimension, score) in enumerate(scores)
    ]
    return pd.DataFrame(rows).assign(**columns)


def test_rows_are_sorted_by_lowest_mean() -> None:
    """Rows are sorted by the mean of their newest scores; a missing grade is a dash."""
    frame = grades(("A", "clarity", 9), ("A", "style", 8), ("B", "clarity", 4), ("C", "style", 6))
    chart = af.plot_evaluations(frame)
    labels = texts(chart.svg)
    assert labels[1:4] == ["clarity", "style", "mean"]
    assert labels[4:] == ["B", "4", "–", "4.0", "C", "–", "6", "6.0", "A", "9", "8", "8.5"]
    assert chart.description == (
        "3 texts judged by 2 dimensions, 6.8 in the mean. Lowest: B by clarity, 4; C by style, 6; A by style, 8."
    )


def test_cell_shows_scores_over_time() -> None:
    """A cell shows the last scores; the table has the earlier scores and the last evidence, in any order of rows."""
    frame = grades(("A", "clarity", 3), ("A", "clarity", 5), ("A", "clarity", 4), ("A", "clarity", 8))
    chart = af.plot_evaluations(frame.iloc[::-1])
    assert "… 5 → 4 → 8" in texts(chart.svg)
    assert tips(chart.svg) == ["A by clarity, 3 → 5 → 4 → 8: “passage 3”"]
    [row] = chart.table.to_dict("records")
    assert (row["score"], row["before"], row["block_version"]) == (8, "3, 5, 4", 4)
    assert (row["evidence"], row["advice"]) == ("“passage 3”", "advice 3")
    assert chart.notes[0].startswith("An arrow leads from a score to the one that was given later")


def test_block_has_a_row_per_persona() -> None:
    """Grades belong to a block under any title; each persona has a row of its own."""
    frame = grades(("A", "clarity", 3), ("A", "clarity", 5), ("A", "clarity", 7))
    frame = frame.assign(block=["Old", "New", "New"], persona=[None, None, "Builders"])
    assert known_rows(af.plot_evaluations(frame)) == [("New", 5), ("New for Builders", 7)]
    two = pd.concat([frame[:1], frame[1:2].assign(conversation_id="conv-2")])
    assert known_rows(af.plot_evaluations(two)) == [("Old", 3), ("New", 5)]


def known_rows(chart: Chart) -> list[tuple[str, float]]:
    return list(zip(chart.table["block"], chart.table["score"], strict=True))


def test_every_representation_has_scores_and_evidence(workbench: OpenWorkbench) -> None:
    """Text, Markdown and HTML contain the table, and are the same for the same frame."""
    wb, project = open_judged(workbench, Graders())
    project.evaluate(dimensions=["clarity"]).wait(20)
    chart = af.plot_evaluations(wb.evaluations_df(project))
    lines = [line.split() for line in repr(chart).splitlines()[4:]]
    assert lines == [["More", "clarity", "4.0"], ["Text", "clarity", "7.0"]]
    assert re.search("<td[^>]*>“X is”</td><td[^>]*>Say more.</td>", chart._repr_markdown_())
    assert "<img" in chart._repr_markdown_()
    html = chart._repr_html_()
    assert re.search("<td[^>]*>“X is”</td><td[^>]*>Say more.</td>", html)
    assert "2 texts judged by 1 dimension, 5.5 in the mean." in html
    assert af.plot_evaluations(wb.evaluations_df(project))._repr_html_() == html


def test_drawing_without_grades_has_a_hint() -> None:
    """Without grades the drawing shows how to evaluate texts."""
    chart = af.plot_evaluations(grades(("A", "clarity", 3))[:0])
    assert "This frame has no grades. project.evaluate() adds them." in texts(chart.svg)
    assert "This frame has no grades" in repr(chart)


def test_three_columns_are_required() -> None:
    """Block, dimension and score are required; a frame without one of them is an error."""
    frame = grades(("A", "clarity", 3), ("B", "clarity", 5))
    chart = af.plot_evaluations(frame[["block", "dimension", "score"]])
    assert known_rows(chart) == [("A", 3), ("B", 5)]
    with pytest.raises(UsageError, match=r"lacks score .* wb.evaluations_df\(\) loads all of them"):
        af.plot_evaluations(frame.drop(columns="score"))


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text(name: str) -> None:
    """Names and evidence cannot add elements to the drawing, the HTML or the Markdown."""
    frame = grades(("A", "clarity", 3), ("A", "clarity", 5)).assign(
        block=name, dimension=name, persona=name, evidence_json=name, advice=name
    )
    chart = af.plot_evaluations(frame)
    assert xml(chart.svg).tag.endswith("svg")
    assert harms(chart._repr_html_().split("</style>")[-1], ELEMENTS) == []
    assert "<script" not in chart._repr_markdown_()


def test_large_evaluation_is_drawn_fast() -> None:
    """200 blocks by 12 dimensions are drawn within two seconds; a note has the number of the omitted blocks."""
    scores = [(f"Block {n}", f"dimension {d}", (n + d) % 10 + 1) for n in range(202) for d in range(12)]
    frame = grades(*scores)
    for attempt in within(2.0):
        with attempt:
            chart = af.plot_evaluations(frame)
            html, markdown = chart._repr_html_(), chart._repr_markdown_()
    assert len(html) < 1_000_000
    assert len(markdown) < 300_000
    assert chart.notes == ("2 more texts in the table.",)
    assert len(chart.table) == len(scores)
