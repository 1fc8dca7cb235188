"""First guesses: an unknown name is answered with the name that exists."""

import copy
import inspect
import pickle
import typing

import pandas as pd
import pytest
from conftest import OpenWorkbench

import artifactflow_nb as af
from artifactflow_nb.core.suggestions import SuggestsNames


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("text", "Use run.response."),
        ("cost", "wb.runs_df(run)"),
        ("respons", "Did you mean 'response'?"),
        ("artefacts", "Did you mean 'artifacts'?"),
        ("retry", "wb.conversation(run).regenerate()"),
    ],
)
def test_unknown_attribute_of_a_run_suggests_a_name(workbench: OpenWorkbench, name: str, hint: str) -> None:
    run = workbench(["Yes."]).ask("Why?").wait()
    with pytest.raises(AttributeError, match=name) as caught:
        getattr(run, name)
    assert hint in str(caught.value)
    assert caught.value.name == name


@pytest.mark.parametrize(
    ("name", "hint"), [("compare", "af.compare(run, other)"), ("asks", "'ask'"), ("run_df", "'runs_df'")]
)
def test_unknown_attribute_of_a_workbench_suggests_a_name(workbench: OpenWorkbench, name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(workbench([]), name)
    assert hint in str(caught.value)


def test_private_and_unlike_names_get_no_suggestion(workbench: OpenWorkbench) -> None:
    wb = workbench([])
    for name in ("_repr_latex_", "__deepcopy__", "zzz"):
        with pytest.raises(AttributeError, match=r"has no attribute '\w+'\.$"):
            getattr(wb, name)
    assert not hasattr(wb, "zzz")


class Values(SuggestsNames):
    amount = 3


def test_copies_and_pickles_work_as_before() -> None:
    assert copy.copy(Values()).amount == copy.deepcopy(Values()).amount == 3
    assert pickle.loads(pickle.dumps(Values())).amount == 3  # noqa: S301 - of this test


def test_unknown_argument_of_ask_suggests_a_name(workbench: OpenWorkbench) -> None:
    """Signature and types of the method stay unchanged."""
    wb = workbench([])
    with pytest.raises(TypeError, match="'modle'. Did you mean 'model'"):
        wb.ask("Why?", modle="x")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="'zzz'. It takes question, conversation_id"):
        wb.ask("Why?", zzz=1)  # type: ignore[call-arg]
    assert "budget" in inspect.signature(wb.ask).parameters
    assert typing.get_type_hints(af.Workbench.ask)["question"] is str
    assert len(wb.runs_df()) == 0


@pytest.mark.parametrize("budget", [1000, "1000", 0.5, [1000]])
def test_budget_without_names_says_what_to_pass(workbench: OpenWorkbench, budget: object) -> None:
    with pytest.raises(af.errors.UsageError, match=r"as af\.Budget\(tokens=50_000\)"):
        workbench([]).ask("Why?", budget=budget)  # type: ignore[arg-type]


@pytest.mark.parametrize("sources", [pd.DataFrame({"a": [1]}), ["a.md"], None, 3])
def test_sources_that_are_no_path_say_what_to_pass(workbench: OpenWorkbench, sources: object) -> None:
    with pytest.raises(af.errors.UsageError, match=f"of type {type(sources).__name__}. Pass the path"):
        workbench([]).sources.add(sources)  # type: ignore[arg-type]


def test_text_that_begins_with_a_table_has_a_table(workbench: OpenWorkbench) -> None:
    run = workbench(["| a | b |\n|---|---|\n| 1 | 2 |\n\nThat is all."]).ask("Why?").wait()
    [table] = run.tables
    assert table.to_dict("list") == {"a": [1], "b": [2]}


def test_step_has_a_short_repr(workbench: OpenWorkbench) -> None:
    run = workbench(["Yes. " * 1000]).ask("Why?").wait()
    assert len(repr(run.steps[0])) < 200
    assert "kind='model'" in repr(run.steps[0])
