"""Two runs are compared: equal runs do not diverge, and the cause of a difference is named."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.replies import call, delegate, in_request_protocol, report, requesting_agent
from support.safe_html import VIEW, harms

import artifactflow_nb as af
from artifactflow_nb.analysis.compare.comparison import Comparison
from artifactflow_nb.errors import ModelRejected
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import Script, ScriptedModel
from artifactflow_nb.recording.rows import RunRows

HOSTILE = '<img src="https://hostile.invalid/q.png" onerror="x()">'


def script(
    fruit: str = "Apples", written: str = "They are round.", answer: str = "Done.", title: str = "Report"
) -> Script:
    """Two jobs at the same time, of which the second job finds the fruit; a report; an answer."""

    def reply(request: ModelRequest) -> Any:
        step = sum(message.role == "assistant" for message in request.messages)
        if requesting_agent(request) != "lead":
            question = request.messages[1].content
            return call("look", word=question) if step == 0 else "Stones." if question == "stones" else f"{fruit}."
        jobs = delegate("search_agent", "stones") + delegate("search_agent", "fruit")
        turns = [jobs, call("create_artifact", id="research_report", title=title, content=written), answer]
        return turns[min(step, 2)]

    return reply


@pytest.fixture
def open_workbench(tmp_path: Path) -> Iterator[Any]:
    """Open workbenches, each with a separate store; close the workbenches after the test."""
    opened: list[af.Workbench] = []

    def make(says: Any, *, result: str = "seen", manual: str = "Look a word up.", **options: Any) -> af.Workbench:
        model = says if isinstance(says, ScriptedModel) else ScriptedModel(in_request_protocol(says))
        folder = tmp_path / f"data{len(opened)}"
        wb = af.Workbench(model=model, interactive=False, data_dir=folder, **{"approvals": "approve", **options})
        opened.append(wb)

        def look(ctx: af.ToolContext, word: str) -> str:
            return f"{word}: {result}"

        look.__doc__ = manual
        wb.tool(look, agent="search_agent")
        return wb

    yield make
    for wb in opened:
        wb.close()


def ask(wb: af.Workbench, question: str = "Fruit?", **options: Any) -> af.Run:
    return wb.ask(question, **options).wait(20)


def outcomes(comparison: Comparison) -> list[tuple[str, str, str, str]]:
    columns = ["path", "kind", "name", "outcome"]
    return [tuple(map(str, row)) for row in comparison.steps[columns].itertuples(index=False)]


def test_equal_runs_of_two_workbenches_do_not_diverge(open_workbench: Any) -> None:
    """Ids and times are not compared."""
    comparison = af.compare(ask(open_workbench(script())), ask(open_workbench(script())))
    assert comparison.is_same
    assert comparison.first_difference is None
    assert set(comparison.steps["outcome"]) == {"same"}
    assert comparison.steps["differs"].isna().all()
    assert comparison.answer.is_same
    assert {name: change.state for name, change in comparison.artifacts.items()} == {"research_report": "same"}
    assert repr(comparison) == "Comparison('Fruit?', 12 steps, the same)"


def test_runs_diverge_at_the_cause_and_not_at_its_effects(open_workbench: Any) -> None:
    """The cause is the sub-agent's other answer, although the delegating call started earlier."""
    a, b = ask(open_workbench(script())), ask(open_workbench(script("Pears")))
    comparison = af.compare(a, b)
    parted = comparison.first_difference
    assert parted is not None
    assert (parted.step.path, parted.step.kind, parted.differing_parts) == ("main/1.2", "model", ("reply",))
    assert repr(parted.diffs["reply"]) == "--- a\n+++ b\n@@ -1 +1 @@\n-Apples.\n+Pears."
    assert outcomes(comparison) == [
        ("main", "model", "scripted", "same"),
        ("main/1.1", "model", "scripted", "same"),
        ("main/1.1", "tool", "look", "same"),
        ("main/1.1", "model", "scripted", "same"),
        ("main", "tool", "call_subagent", "same"),
        ("main/1.2", "model", "scripted", "same"),
        ("main/1.2", "tool", "look", "same"),
        ("main/1.2", "model", "scripted", "different"),
        ("main", "tool", "call_subagent", "different"),
        ("main", "model", "scripted", "different"),
        ("main", "tool", "create_artifact", "same"),
        ("main", "model", "scripted", "different"),
    ]
    numbered = {step.number: step for step in a.steps}
    for number, path in zip(comparison.steps["step_a"], comparison.steps["path"], strict=True):
        assert numbered[number].path == path
    assert comparison.steps["differs"].dropna().tolist() == ["reply", "result", "prompt", "prompt"]


@pytest.mark.parametrize(
    ("options", "question", "kind", "parts"),
    [
        ({"result": "not seen"}, {}, "tool", ("result",)),
        ({"manual": "Look a word up elsewhere."}, {}, "model", ("prompt",)),
        ({"manual": "Look a word up elsewhere.", "tool_protocol": "native"}, {}, "model", ("tools",)),
        ({"temperature": 0.1}, {}, "model", ("settings",)),
        ({}, {"question": "Apples?"}, "model", ("prompt",)),
    ],
)
def test_cause_of_a_divergence_is_named(
    open_workbench: Any, options: dict[str, Any], question: dict[str, str], kind: str, parts: tuple[str, ...]
) -> None:
    """Causes are a tool's result, a tool's description, settings and the question."""
    protocol = {name: options[name] for name in ("tool_protocol",) if name in options}
    parted = af.compare(
        ask(open_workbench(script(), **protocol)), ask(open_workbench(script(), **options), **question)
    ).first_difference
    assert parted is not None
    assert (parted.step.kind, parted.differing_parts) == (kind, parts)
    assert not parted.diffs[parts[0]].is_same


def test_other_model_is_the_only_difference(open_workbench: Any) -> None:
    """The runs differ in the names of their models only."""
    first, second = ScriptedModel(["Yes."]), ScriptedModel(["Yes."])
    second.default_model = "another"
    comparison = af.compare(ask(open_workbench(first)), ask(open_workbench(second)))
    assert comparison.steps["differs"].tolist() == ["model"]
    assert comparison.answer.is_same
    assert not comparison.is_same


def test_runs_diverge_at_a_decision(open_workbench: Any) -> None:
    """A call was approved in one run and denied in the other; a decision of a policy counts, too."""
    asking = {"approvals": {"create_artifact": "ask"}}
    a, b = ask(open_workbench(script(), **asking)), ask(open_workbench(script(), **asking))
    a.approve().wait(20)
    b.deny("Not now.").wait(20)
    parted = af.compare(a, b).first_difference
    assert parted is not None
    assert (parted.step.kind, parted.step.name, parted.differing_parts) == (
        "decision",
        "create_artifact",
        ("decision",),
    )
    assert "+denied by user, for once\n+Not now." in repr(parted.diffs["decision"])
    c = ask(open_workbench(script(), approvals={"create_artifact": "deny"}))
    parted = af.compare(a, c).first_difference
    assert parted is not None
    assert parted.outcome == "only a"
    assert af.compare(a, c).step(b=11).differing_parts == ("decision", "result")


def test_further_steps_of_the_longer_run_are_listed(open_workbench: Any) -> None:
    """Steps that only one run has are shown in full."""
    short_script, long_script = [report("A."), "Done."], [report("A."), report("B.", "more"), "Done."]
    short, long = ask(open_workbench(short_script)), ask(open_workbench(long_script))
    comparison = af.compare(short, long)
    assert [row[-1] for row in outcomes(comparison)] == ["same", "same", "different", "only b", "only b"]
    assert comparison.steps["step_a"].tolist() == [1, 2, 3, pd.NA, pd.NA]
    assert comparison.steps["step_b"].tolist() == [1, 2, 3, 4, 5]
    added = comparison.step(b=4)
    assert (added.outcome, added.differing_parts, added.title) == (
        "only b",
        (),
        "step b 4, lead agent, tool create_artifact: only b",
    )
    assert "+content: B." in repr(added.diffs["parameters"])
    assert af.compare(long, short).step(4).outcome == "only a"


def test_artifacts_are_compared_by_their_texts(open_workbench: Any) -> None:
    """An artifact is equal, changed with its difference, or present in one run only."""
    a = ask(open_workbench([report("Same.", "kept") + report("One.", "text") + report("A.", "mine"), "Done."]))
    b = ask(open_workbench([report("Same.", "kept") + report("Two.", "text") + report("B.", "yours"), "Done."]))
    changes = af.compare(a, b).artifacts
    assert {name: change.state for name, change in changes.items()} == {
        "kept": "same",
        "mine": "only a",
        "text": "changed",
        "yours": "only b",
    }
    assert repr(changes["text"].diff) == "--- a v1\n+++ b v1\n@@ -1 +1 @@\n-One.\n+Two."
    assert repr(changes["yours"].diff).splitlines()[:2] == ["--- a (none)", "+++ b v1"]
    assert '<span class="af' not in repr(changes)


def test_metrics_equal_runs_df(open_workbench: Any) -> None:
    """The comparison adds differences and ratios; unknown values stay unknown."""
    broken = script(answer="")
    wb_a = open_workbench(script(), prices={"scripted": {"input": 2, "output": 4}})
    wb_b = open_workbench(broken, approvals="deny")
    a, b = ask(wb_a), ask(wb_b)
    metrics = af.compare(a, b).metrics.set_index("figure")
    for wb, run, side in ((wb_a, a, "a"), (wb_b, b, "b")):
        row = wb.runs_df(run, columns="all").iloc[0]
        for name in metrics.index.difference(["n_llm_errors"]):
            actual, expected = metrics[side][name], row[name]
            assert (actual is expected is pd.NA) or actual == pytest.approx(expected), name
    assert metrics["a"]["cost_usd"] > 0
    assert metrics["difference"]["cost_usd"] is pd.NA
    assert metrics["ratio"]["n_tool_errors"] is pd.NA
    assert metrics["ratio"]["output_tokens"] == metrics["b"]["output_tokens"] / metrics["a"]["output_tokens"]
    assert [str(kind) for kind in metrics.dtypes] == ["Float64"] * 4


def test_failed_run_is_compared(open_workbench: Any) -> None:
    """The failed run has no step for the call without a reply, and its error is shown."""
    comparison = af.compare(ask(open_workbench(["Yes."])), ask(open_workbench([ModelRejected("The key is wrong.")])))
    assert [row[-1] for row in outcomes(comparison)] == ["only a"]
    assert comparison.metrics.set_index("figure")["b"]["n_llm_errors"] == 1
    text = comparison._card().plain()
    assert "completed → failed" in text
    assert "The key is wrong." in text


def test_sealed_run_is_compared_like_a_stored_run(open_workbench: Any, tmp_path: Path) -> None:
    a, b = ask(open_workbench(script())), ask(open_workbench(script("Pears")))
    with af.open_run(a.seal(tmp_path / "a.afrun")) as sealed:
        assert af.compare(a, sealed).is_same
        assert af.compare(a, sealed).metrics["difference"].dropna().eq(0).all()
        pd.testing.assert_frame_equal(af.compare(sealed, b).steps, af.compare(a, b).steps)


def test_fork_diverges_from_its_run_at_the_changed_step(open_workbench: Any) -> None:
    """The cause is the replaced result of a tool."""
    run = ask(open_workbench(script()))
    number = next(step.number for step in run.steps if step.name == "look" and step.path == "main/1.2")
    forked = run.fork(number, tool_result="fruit: nowhere").wait(20)
    parted = af.compare(run, forked).first_difference
    assert parted is not None
    assert (parted.step.number, parted.differing_parts) == (number, ("result",))
    assert "+fruit: nowhere" in repr(parted.diffs["result"])


def test_first_difference_of_a_fork_is_its_changed_instruction(open_workbench: Any) -> None:
    """The first difference is in the first step of the delegated job, and the delegating turn is the same."""
    run = ask(open_workbench(script(), tool_protocol="native"))
    number = next(step.number for step in run.steps if step.kind == "model" and step.path == "main/1.2")
    for comparison in (
        af.compare(run, fork := run.fork(number, prompt="vegetables").wait(20)),
        af.compare(fork, run),
    ):
        difference = comparison.first_difference
        assert difference is not None
        assert (difference.step.path, difference.step.step) == ("main/1.2", 1)
        assert "prompt" in difference.differing_parts
        assert outcomes(comparison)[0] == ("main", "model", "scripted", "same")
    assert str(number) in repr(af.compare(run, fork)).partition("first difference at step ")[2][:3]


def test_first_difference_of_a_fork_is_its_changed_delegation_result(open_workbench: Any) -> None:
    """The steps of the job, which only the first run has, come earlier in the order of causes."""
    run = ask(open_workbench(script()))
    number = next(step.number for step in run.steps if step.name == "call_subagent")
    difference = af.compare(run, run.fork(number, tool_result="Nothing.").wait(20)).first_difference
    assert difference is not None
    assert (difference.step.number, difference.differing_parts) == (number, ("result",))


def test_comparison_is_shown_as_text_and_html(open_workbench: Any) -> None:
    """Each form has the point of divergence and both answers, and no live parts."""
    a = ask(open_workbench(script(answer=f"Said so. {HOSTILE}")), HOSTILE)
    b = ask(open_workbench(script("Pears", f"# {HOSTILE}", f"Said otherwise. {HOSTILE}", HOSTILE)), HOSTILE)
    comparison = af.compare(a, b)
    text, page = comparison._card().plain(), comparison._repr_html_()
    parted = comparison.first_difference
    assert parted is not None
    for saved_output in (text, page):
        assert f"step {parted.number}, search agent, model scripted: reply" in saved_output
    assert parted.call_hint in text
    assert f"comparison.step({parted.number})" == parted.call_hint
    assert "Comparison of two runs" in page
    assert re.search('<th scope="row">model calls</th><td[^>]*>7</td><td[^>]*>7</td><td[^>]*>0</td>', page)
    assert 'class="af-diff af-diff-side-by-side"' in page
    shown = [page, comparison.answer._repr_html_(), parted._repr_html_()]
    shown += [change._repr_html_() for change in comparison.artifacts.values()]
    for html in shown:
        assert harms(html, VIEW | {"style"}) == []


def test_date_in_a_prompt_is_no_difference(open_workbench: Any) -> None:
    """Any other change of the prompt is a difference."""

    class Yesterday:
        def __init__(self, run: af.Run, changes: dict[str, str]) -> None:
            self.run_id, self.artifacts, self.metrics = run.run_id, run.artifacts, run.metrics
            self._rows, self._changes = run.rows(), changes

        def rows(self) -> RunRows:
            texts = tuple({**row, "content": self._changed(row["content"])} for row in self._rows["texts"])
            return replace(self._rows, tables={**self._rows.tables, "texts": texts})

        def _changed(self, text: str) -> str:
            for before, after in self._changes.items():
                text = text.replace(before, after)
            return text

    run = ask(open_workbench(script()))
    day = f"<system_time>{run.started_at:%Y-%m-%d} (UTC)"
    assert af.compare(run, Yesterday(run, {day: "<system_time>2020-02-02 (UTC)"})).is_same
    parted = af.compare(run, Yesterday(run, {day: "<system_time>2020-02-02 (UTC)", "agent": "actor"})).first_difference
    assert parted is not None
    assert parted.differing_parts == ("prompt",)


def test_replay_equals_its_recorded_run(open_workbench: Any, tmp_path: Path) -> None:
    """The replay has the same steps, times and metrics."""
    cassette = tmp_path / "c.jsonl"
    recorded = ask(open_workbench(script(), record=cassette))
    comparison = af.compare(recorded, ask(open_workbench(script("Pears"), replay=cassette)))
    assert comparison.is_same
    assert comparison.metrics["difference"].dropna().eq(0).all()


def test_waiting_run_is_compared_up_to_its_last_step(open_workbench: Any) -> None:
    """The remaining steps belong to the other run only."""
    a, b = ask(open_workbench(script())), ask(open_workbench(script(), approvals={"create_artifact": "ask"}))
    assert b.status == "waiting"
    assert [row[1:] for row in outcomes(af.compare(a, b))][-3:] == [
        ("decision", "create_artifact", "only b"),
        ("tool", "create_artifact", "different"),
        ("model", "scripted", "only a"),
    ]


def test_invalid_run_or_step_is_refused_with_advice(open_workbench: Any) -> None:
    run = ask(open_workbench(["Yes."]))
    with pytest.raises(af.errors.UsageError, match=r"run_b is 'run-1'; pass a run: wb\.run\(run_id\)"):
        af.compare(run, "run-1")
    comparison = af.compare(run, run)
    assert comparison.is_same
    with pytest.raises(af.errors.NotFound, match="a has no step 7"):
        comparison.step(7)
    with pytest.raises(af.errors.UsageError, match="Pass the number of a step"):
        comparison.step()
