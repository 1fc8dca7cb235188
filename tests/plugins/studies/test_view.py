"""The card of a study: small changes, counts of many questions, and a text for the saved notebook."""

from collections import Counter
from dataclasses import replace
from typing import Any

import orjson
import pytest
from conftest import OpenWorkbench

from artifactflow_nb.plugins.studies.view import MAX_QUESTIONS, load_progress, progress_nodes
from artifactflow_nb.store.database import read_store
from artifactflow_nb.widgets.page.nodes import TreeDiff

DEPTHS = {"depth": ["quick", "standard", "deep"], "seed": [1, 2]}


def reply(_request: Any) -> str:
    return "It is so."


@pytest.mark.parametrize("n_questions", [20, MAX_QUESTIONS + 1])
def test_finished_cell_changes_less_than_a_kilobyte(workbench: OpenWorkbench, n_questions: int) -> None:
    """A cell that starts and then ends: the two patches together."""
    wb = workbench(reply, interactive=False)
    questions = [f"Question {number} about the depth of the lake?" for number in range(n_questions)]
    wb.studies.start(questions, vary=DEPTHS, name="large").wait(60)
    progress = read_store(wb.store.path, lambda db: load_progress(db, "large"))
    diff = TreeDiff()
    diff.snapshot(progress_nodes(progress))
    sent = 0
    for state in ("running", "done"):
        cells = {**progress.cells, (0, "quick, 1"): Counter({state: 1})}
        patch = diff.patch(progress_nodes(replace(progress, cells=cells, tokens=progress.tokens + 2_000)))
        sent += len(orjson.dumps(patch))
    assert 0 < sent < 1_000


def test_saved_card_is_a_text_and_a_list(workbench: OpenWorkbench) -> None:
    wb = workbench(reply, interactive=False)
    study = wb.studies.start(["Who?", "<b>How?</b>"], vary={"depth": ["quick", "deep"]}, name="small").wait(20)
    output = study._view().saved_output()
    assert output["text/plain"].splitlines() == [
        "Study small: 4 cells: 4 done",
        "",
        "Who?: quick 1 done; deep 1 done",
        "",
        "<b>How?</b>: quick 1 done; deep 1 done",
    ]
    assert "&lt;b&gt;How?" in output["text/html"]
    assert "<button" not in output["text/html"].replace("af-copy-code", "")


def test_card_of_many_questions_has_a_row_for_each_combination(workbench: OpenWorkbench) -> None:
    wb = workbench(reply, interactive=False)
    questions = [f"Question {number}?" for number in range(MAX_QUESTIONS + 1)]
    study = wb.studies.start(questions, vary={"depth": ["quick", "deep"]}, name="many").wait(30)
    text = study._view().saved_output()["text/plain"]
    assert "quick: 41 done" in text
    assert "deep: 41 done" in text
    assert "Question 7?" not in text
