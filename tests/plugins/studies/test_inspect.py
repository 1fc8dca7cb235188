"""The log of a study, read by inspect_ai; `make test` runs this file in the environment `inspect` as well."""

import importlib.util
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import OpenWorkbench

import artifactflow_nb as af
from artifactflow_nb.errors import UsageError

HAS_INSPECT = importlib.util.find_spec("inspect_ai") is not None
QUESTIONS = pd.DataFrame({"question": ["How deep?", "How wide?"], "expected": [5, 7]})


def study_of(wb: af.Workbench) -> Any:
    study = wb.studies.start(QUESTIONS, name="lakes", vary={"depth": ["quick", "standard"]}, repeats=2).wait(60)
    study.grade(af.graders.figures("expected"))
    return study


@pytest.mark.skipif(HAS_INSPECT, reason="the environment with inspect_ai runs the next test")
def test_log_needs_inspect(workbench: OpenWorkbench) -> None:
    wb = workbench(lambda _request: "It is 5 m.", interactive=False)
    with pytest.raises(UsageError, match=r"pip install 'artifactflow-nb\[inspect\]'"):
        study_of(wb).to_inspect("log.eval")


@pytest.mark.skipif(not HAS_INSPECT, reason="make test runs it in the environment with inspect_ai")
@pytest.mark.filterwarnings("ignore")  # those of inspect_ai and of what it imports
def test_log_is_read_by_inspect(workbench: OpenWorkbench, tmp_path: Path) -> None:
    from inspect_ai.analysis import samples_df
    from inspect_ai.log import read_eval_log

    wb = workbench(lambda _request: "It is 5 m.", interactive=False)
    path = study_of(wb).to_inspect(str(tmp_path / "log.eval"))
    log = read_eval_log(path)
    assert (log.status, log.eval.task, log.eval.config.epochs, log.results.completed_samples) == (
        "success",
        "lakes",
        2,
        8,
    )
    sample = log.samples[0]
    assert (sample.input, sample.target, sample.output.completion) == ("How deep?", "5", "It is 5 m.")
    assert sample.metadata["run_id"].startswith("run-")
    frame = samples_df(path)
    assert len(frame) == 8
    assert sorted(frame["id"].unique()) == ["0 depth=quick", "0 depth=standard", "1 depth=quick", "1 depth=standard"]
    assert frame["score_figures(expected)"].astype(float).tolist() == [1, 1, 0, 0] * 2
