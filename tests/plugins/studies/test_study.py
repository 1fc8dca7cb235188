"""A study: a stored grid of cells, a run for each, and the same frame from every kernel."""

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import OpenWorkbench
from support.chat_endpoint import Answer, ChatServer

import artifactflow_nb as af
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


def test_budget_in_dollars_needs_prices(workbench: OpenWorkbench) -> None:
    """The cost of a model without a price never reaches a limit."""
    wb = workbench(reply, interactive=False)
    with pytest.raises(UsageError, match="there is no price for the model 'scripted'"):
        wb.studies.start(["Who?"], name="dear", budget=af.Budget(usd=5))


def test_name_of_another_plan_is_refused(workbench: OpenWorkbench) -> None:
    wb = workbench(reply, interactive=False)
    wb.studies.start(["Who?"], name="one").wait(20)
    with pytest.raises(
        UsageError, match="There is a study 'one' with other questions, factors, options or limits of a run"
    ):
        wb.studies.start(["How?"], name="one")
    with pytest.raises(UsageError, match="other questions, factors, options or limits"):
        wb.studies.start(["Who?"], name="one", depth="deep")
    with pytest.raises(NotFound, match="There is no study 'two' in this store. Studies: 'one'"):
        wb.studies["two"]


def test_seed_prompt_and_configuration_vary_between_cells(workbench: OpenWorkbench) -> None:
    """The endpoint gets the seed, and the frame of the cells shows it."""
    script = {"quick": [Answer("It is so.")], "slow": [Answer("It is so.")]}
    requests: list[Any] = []

    def answer(request: Any) -> Answer:
        requests.append(request.body)
        return script["quick"][0]

    with ChatServer(answer) as server:
        wb = workbench(model=af.OpenAIModel(server.base_url, None, "quick"), interactive=False)
        vary = {
            "seed": [1, 2],
            "prompts": {"own": {"lead_agent": "You answer in a word."}, "packaged": {}},
            "graph_config": {"warm": {"lead_agent": {"temperature": 1.5}}},
        }
        study = wb.studies.start(["Who?"], vary=vary, name="varied", at_once=1).wait(20)
    assert set(study.df["state"]) == {"done"}
    assert [body["seed"] for body in requests] == study.df["seed"].tolist() == [1, 1, 2, 2]
    assert [body["temperature"] for body in requests] == [1.5] * 4
    prompts = ["You answer in a word." in body["messages"][0]["content"] for body in requests]
    assert prompts == [label == "own" for label in study.df["prompts"]]
    assert wb.query("SELECT seed FROM study_cells ORDER BY 1")["seed"].tolist() == [1, 1, 2, 2]


def test_recorded_study_is_the_same_with_another_number_at_once(tmp_path: Path) -> None:
    """A replay needs no model, and each cell gets the recorded run of its place in the plan."""
    numbers = count()
    plan: dict[str, Any] = {"questions": QUESTIONS, "vary": {"seed": [1, 2]}, "repeats": 3, "name": "recorded"}

    def numbered(_request: Any) -> str:
        return f"Answer {next(numbers)}."

    with af.Workbench(
        model=af.ScriptedModel(numbered), data_dir=tmp_path / "data", record=tmp_path / "c.jsonl", interactive=False
    ) as wb:
        recorded = wb.studies.start(**plan, at_once=4).wait(20).df
    for at_once in (1, 16):
        with af.Workbench(replay=tmp_path / "c.jsonl", interactive=False) as replay:
            frame = replay.studies.start(**plan, at_once=at_once).wait(20).df
            pd.testing.assert_frame_equal(frame, recorded)
