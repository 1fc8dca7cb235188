"""A study: a stored grid of cells, a run for each, and the same frame from every kernel."""

import asyncio
from typing import Any

import pandas as pd
import pytest
from conftest import OpenWorkbench

from artifactflow_nb.errors import NotFound, UsageError

QUESTIONS = pd.DataFrame({"question": ["How many?", "Who?"], "expected": ["3", None]})
DEPTHS = {"depth": ["quick", "deep"]}


def reply(_request: Any) -> str:
    return "It is so."


def test_study_has_a_run_for_each_cell(workbench: OpenWorkbench) -> None:
    wb = workbench(reply, interactive=False)
    study = wb.studies.start(QUESTIONS, vary=DEPTHS, repeats=2, name="depths").wait(20)
    frame = study.df
    assert list(frame.columns[:6]) == ["cell", "question_n", "question", "expected", "depth", "repeat"]
    assert len(frame) == frame["run_id"].nunique() == frame["cell"].nunique() == 8
    assert set(frame["state"]) == {"done"}
    assert set(frame["status"]) == {"completed"}
    assert list(frame["answer"]) == ["It is so."] * 8
    assert list(frame.query("repeat == 0")["depth"]) == ["quick", "deep", "quick", "deep"]
    assert list(frame["expected"].dropna()) == ["3"] * 4
    assert (frame["tokens"] > 0).all()
    answers = study.answers()
    assert list(answers.index) == ["How many?", "Who?"]
    assert list(answers.columns) == [("deep", 0), ("deep", 1), ("quick", 0), ("quick", 1)]


def test_study_is_the_same_in_another_workbench(workbench: OpenWorkbench) -> None:
    first = workbench(reply, interactive=False)
    frame = first.studies.start(QUESTIONS, vary=DEPTHS, name="depths").wait(20).df
    first.close()
    second = workbench(reply, interactive=False)
    assert list(second.studies) == ["depths"]
    pd.testing.assert_frame_equal(second.studies["depths"].wait(20).df, frame)
    again = second.studies.start(QUESTIONS, vary=DEPTHS, name="depths").wait(20)
    assert len(second.runs(100)) == len(again.df) == 4
    assert len(second.query("SELECT * FROM study_cells WHERE study = 'depths'")) == 4


def test_study_can_be_awaited(workbench: OpenWorkbench) -> None:
    wb = workbench(reply, interactive=False)

    async def cell() -> str:
        return (await wb.studies.start(["How many?"], name="plain")).state

    assert asyncio.run(cell()) == "done"
    assert list(wb.studies["plain"].answers()["answer"]) == ["It is so."]


@pytest.mark.parametrize(
    ("questions", "options", "words"),
    [
        ("How many?", {}, "pass a DataFrame with the column 'question', or a list"),
        ([], {}, "There are no questions"),
        ([""], {}, "each row needs a text in 'question'"),
        (["How many?"] * 2, {}, "occurs twice. To ask it more often, pass repeats="),
        ([{"question": "Who?", "answer": "?"}], {}, "'answer', as a column of results; rename it"),
        (["Who?"], {"vary": {"colour": ["red"]}}, "'colour' cannot vary. Factors: model, flow"),
        (["Who?"], {"vary": {"model": "small"}}, "pass a list of values, or labels with values"),
        (["Who?"], {"vary": {"model": ["small", "small"]}}, "'small' twice; pass labels"),
        (["Who?"], {"repeats": 0}, "repeats is 0; it must be a whole number from 1"),
        (["Who?"], {"colour": "red"}, "'colour' cannot vary"),
    ],
)
def test_invalid_plan_is_refused_and_nothing_is_stored(
    workbench: OpenWorkbench, questions: Any, options: dict[str, Any], words: str
) -> None:
    wb = workbench(reply, interactive=False)
    with pytest.raises(UsageError, match=r".") as caught:
        wb.studies.start(questions, name="bad", **options)
    assert words in str(caught.value)
    assert len(wb.studies) == 0


def test_name_of_another_plan_is_refused(workbench: OpenWorkbench) -> None:
    wb = workbench(reply, interactive=False)
    wb.studies.start(["Who?"], name="one").wait(20)
    with pytest.raises(UsageError, match="There is a study 'one' with other questions or factors"):
        wb.studies.start(["How?"], name="one")
    with pytest.raises(NotFound, match="There is no study 'two' in this store. Studies: 'one'"):
        wb.studies["two"]
