"""Faults around a study: deleted runs, other engines, secrets, prices, and what is refused in a sentence."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import OpenWorkbench
from support.chat_endpoint import Answer, ChatServer

import artifactflow_nb as af
from artifactflow_nb.errors import Conflict, UsageError
from artifactflow_nb.plugins.studies.driver import StudyDrivers
from artifactflow_nb.plugins.studies.view import figures_sentence, load_progress
from artifactflow_nb.store.database import read_store


def reply(_request: Any) -> str:
    return "It is so."


def asking(request: Any) -> Any:
    if request.messages[-1].role == "user":
        return af.ToolCall("create_artifact", {"id": "note", "title": "Note", "content": "Text"})
    return "It is written."


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_values_of_pandas_and_numpy_are_plain(workbench: OpenWorkbench) -> None:
    wb = workbench(reply, interactive=False)
    numbers = pd.array([1, None], dtype="Int64")
    frame = pd.DataFrame({"question": pd.Series(["Who?", "How?"], dtype="string"), "n": numbers})
    seeds = {"seed": np.array([1, 2])}
    study = wb.studies.start(frame, vary=seeds, rates={"small": {"requests": 5}}, name="plain").wait(60)
    assert set(study.df["state"]) == {"done"}
    assert study.df["seed"].tolist() == [1, 2, 1, 2]
    assert study.df["n"].isna().tolist() == [False, False, True, True]
    prompts = {"lead_agent": "Answer in one sentence."}
    series = wb.studies.start(frame["question"], prompts=prompts, name="series").wait(60)
    assert set(series.df["state"]) == {"done"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"vary": {"model": [af.ScriptedModel(["Yes."])]}}, "and a study is stored: pass the name of a model"),
        ({"flow": object()}, "and a study is stored"),
        ({"rates": af.Rate(requests=1)}, "pass rates by model"),
        ({"rates": {"small": {"request": 1}}}, "The rate of 'small' is {'request': 1}"),
        ({"rates": {"small": 500}}, "The rate of 'small' is 500"),
    ],
)
def test_what_cannot_be_stored_is_refused(workbench: OpenWorkbench, options: dict[str, Any], words: str) -> None:
    wb = workbench(reply, interactive=False)
    with pytest.raises(UsageError, match=r".") as caught:
        wb.studies.start(["Who?"], name="bad", **options)
    assert words in str(caught.value)
    with pytest.raises(UsageError, match="The question 1 is"):
        wb.studies.start(pd.Series(["Who?", pd.NA]), name="bad")
    assert len(wb.studies) == 0


def test_secrets_are_masked_before_they_are_stored(workbench: OpenWorkbench, monkeypatch: pytest.MonkeyPatch) -> None:
    token = "tok-4f9a8b7c6d5e4f3a"  # noqa: S105 - a value of this test
    monkeypatch.setenv("LAB_TOKEN", token)
    wb = workbench(reply, interactive=False)
    rows = [{"question": f"Who has {token}?", "note": token}]
    study = wb.studies.start(rows, vary={"prompts": {"a": {"lead_agent": token}}}, name="secret").wait(60)
    study.extend(questions=[f"Is {token} mine?"]).wait(60)
    assert len(study.df) == 2
    assert token not in study.df.to_json()
    assert token not in str(study._stored)


def test_cell_whose_run_was_deleted_fails_and_can_be_done_again(workbench: OpenWorkbench) -> None:
    wb = workbench(asking, interactive=False, approvals={"create_artifact": "ask"})
    study = wb.studies.start(["Who?"], name="deleted").wait(60)
    wb.conversation(wb.run(study.df["run_id"][0])).delete()
    wait_for(lambda: study.df["state"][0] == "failed")
    assert "There is no run" in study.df["error"][0]
    assert study.wait(60).state == "done"
    study.retry().wait(60)
    study.decide("create_artifact", approved=True).wait(60)
    wait_for(lambda: study.df["state"][0] == "done")


def test_study_waits_for_a_run_that_another_engine_drives(workbench: OpenWorkbench) -> None:
    """The driver of the first engine stops, and the runs go on there, as those of workers do."""
    delays = iter([2.0])
    with ChatServer(lambda _request: Answer("It is so.", delay_s=next(delays, 0.0))) as server:
        first, second = (
            workbench(model=af.OpenAIModel(server.base_url, None, "small"), interactive=False) for _ in range(2)
        )
        study = first.studies.start(["Who?"], name="shared")
        wait_for(lambda: bool(server.requests))
        first._thread.call(first._thread.engine.service(StudyDrivers).aclose())
        again = second.studies["shared"].wait(60)
        assert again.df[["state", "status", "attempts"]].to_numpy().tolist() == [["done", "completed", 1]]
        assert len(second.runs()) == len(server.requests) == 1
        assert study.state == "done"


def test_usage_counts_once_after_a_restart(workbench: OpenWorkbench) -> None:
    budget = {"budget": af.Budget(tokens=100_000)}
    first = workbench(asking, interactive=False, approvals={"create_artifact": "ask"})
    first.studies.start(["Who?"], name="thrifty", **budget).wait(60)
    first.close()
    wb = workbench(asking, interactive=False, approvals={"create_artifact": "ask"})
    study = wb.studies["thrifty"].decide("create_artifact", approved=True)
    wait_for(lambda: study.df["state"][0] == "done")
    study.wait(60)
    driver = wb._thread.engine.service(StudyDrivers).drivers[study.study_id]
    assert driver._spent.tokens == study.df["tokens"].sum()


def test_later_budget_counts_what_was_spent_before(workbench: OpenWorkbench) -> None:
    wb = workbench(reply, interactive=False)
    study = wb.studies.start(["Who?", "How?"], name="later").wait(60)
    study.extend(repeats=2, budget=af.Budget(tokens=int(study.df["tokens"].sum()))).wait(60)
    assert study.df["state"].value_counts().to_dict() == {"done": 2, "planned": 2}
    with pytest.raises(UsageError, match="there is no price for the model"):
        study.extend(budget=af.Budget(usd=1))


def test_cancelled_study_is_not_decided_and_ended_study_is_not_cancelled(workbench: OpenWorkbench) -> None:
    wb = workbench(asking, interactive=False, approvals={"create_artifact": "ask"})
    study = wb.studies.start(["Who?"], name="over").wait(60)
    study.cancel().wait(60)
    with pytest.raises(Conflict, match="The study 'over' is cancelled, so nothing waits"):
        study.decide("create_artifact", approved=True)
    assert study.state == "cancelled"
    study.retry("cancelled").decide("create_artifact", approved=False)
    wait_for(lambda: study.df["state"][0] == "done")
    assert study.wait(60).cancel().state == "done"


def test_workbenches_that_share_a_model_share_the_limiter(workbench: OpenWorkbench, tmp_path: Path) -> None:
    with ChatServer(lambda _request: Answer("It is so.")) as server:
        model = af.OpenAIModel(server.base_url, None, "small")
        for number, rates in enumerate(({"small": af.Rate(requests=100)}, {"large": af.Rate(requests=7)})):
            wb = workbench(model=model, interactive=False, data_dir=tmp_path / str(number))
            assert wb.studies.start(["Who?"], name="one", rates=rates).wait(60).state == "done"
    assert {name: rate.requests for name, rate in model.limiter._rates.items()} == {"small": 100, "large": 7}


def test_repeated_start_sets_the_rates_of_a_study_that_runs(workbench: OpenWorkbench) -> None:
    with ChatServer(lambda _request: Answer("It is so.", delay_s=600.0)) as server:
        model = af.OpenAIModel(server.base_url, None, "small")
        wb = workbench(model=model, interactive=False)
        wb.studies.start(["Who?"], name="paced")
        study = wb.studies.start(["Who?"], name="paced", rates={"small": af.Rate(requests=7)})
        assert model.limiter._rates["small"].requests == 7
        study.cancel().wait(60)


def test_card_tells_unknown_prices(workbench: OpenWorkbench) -> None:
    with ChatServer(lambda _request: Answer("It is so.")) as server:
        model = af.OpenAIModel(server.base_url, None, "small")
        wb = workbench(model=model, interactive=False, prices={"small": {"input": 1, "output": 1}})
        wb.studies.start(["Who?"], vary={"model": ["small", "large"]}, name="priced").wait(60)
    progress = read_store(wb.store.path, lambda db: load_progress(db, "priced"))
    more = replace(progress, cells={**progress.cells, (1, "small"): Counter({"planned": 2})})
    assert ", 1 unknown" in figures_sentence(progress)
    assert "at least" in figures_sentence(more)
    assert "about" not in figures_sentence(more)
    assert "about" in figures_sentence(replace(more, n_unpriced=0))


def test_deleted_answers_are_done_again_and_a_repeated_start_sets_the_pace(workbench: OpenWorkbench) -> None:
    wb = workbench(reply, interactive=False)
    study = wb.studies.start(["Who?", "How?"], name="again").wait(60)
    wb.conversation(wb.run(study.df["run_id"][0])).delete()
    assert study.retry().wait(60).df["answer"].tolist() == ["It is so."] * 2
    assert study.df["attempts"].tolist() == [2, 1]
    wb.studies.start(["Who?", "How?"], name="again", at_once=3, rates={"small": af.Rate(requests=9)})
    assert study._stored.spec["at_once"] == 3
    assert study._stored.spec["rates"]["small"]["requests"] == 9
    with pytest.raises(UsageError, match="options or limits of a run"):
        wb.studies.start(["Who?", "How?"], name="again", each=af.Budget(tokens=5_000))
