"""Any two runs can be compared, whatever their ends and texts."""

import itertools
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recording.test_compare import HOSTILE
from support.replies import call, report

import artifactflow_nb as af
from artifactflow_nb.analysis.compare.comparison import Comparison
from artifactflow_nb.errors import ModelError, ModelRejected
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recording.rows import RunRows

BINARY = "".join(map(chr, range(256))) * 8 + "\ufeff\u202e" + "Z" * 20_000
MANY = 39
"""Calls of each of five replies: 200 steps."""


def many(word: str) -> list[str]:
    notes = ["".join(call("note", word=f"{word} {turn}.{n}") for n in range(MANY)) for turn in range(5)]
    return [*notes, f"{word} is noted."]


class OfFlow:
    """A run with the name of another flow."""

    def __init__(self, run: af.Run, flow: str) -> None:
        self.run_id, self.artifacts, self.metrics = run.run_id, run.artifacts, run.metrics
        self._run, self._flow = run, flow

    def rows(self) -> RunRows:
        rows = self._run.rows()
        runs = tuple({**row, "flow": self._flow} for row in rows["runs"])
        return replace(rows, tables={**rows.tables, "runs": runs})


ASKS = {"approvals": {"create_artifact": "ask"}}
SCRIPTS: dict[str, tuple[Callable[[], list[Any]], dict[str, Any]]] = {
    "plain": (lambda: [report("One.\n\nTwo."), "Done."], {}),
    "without artifacts": (lambda: ["Only this."], {}),
    "failed": (lambda: [ModelRejected("The key is wrong.")], {}),
    "failed otherwise": (lambda: [ModelError("It is odd.")], {}),
    "waiting": (lambda: [report(), "Done."], ASKS),
    "cancelled": (lambda: [report(), "Done."], ASKS),
    "binary": (lambda: [report(BINARY), f"Done. {BINARY[:300]}"], {}),
    "binary backwards": (lambda: [report(BINARY[::-1]), f"Done. {BINARY[299::-1]}"], {}),
    "long": (lambda: many("this"), {}),
    "long otherwise": (lambda: many("that"), {}),
}


@pytest.fixture(scope="module")
def ended_runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with ExitStack() as stack:
        runs: dict[str, Any] = {}
        for name, (turns, options) in SCRIPTS.items():
            folder: Path = tmp_path_factory.mktemp("odd")
            settings = {"approvals": "approve", **options, "interactive": False, "data_dir": folder}
            wb = stack.enter_context(af.Workbench(model=ScriptedModel(turns()), **settings))

            def note(ctx: af.ToolContext, word: str) -> str:
                """Note a word."""
                return f"{word} is noted"

            wb.tool(note)
            runs[name] = wb.ask("What?").wait(60)
            if name == "cancelled":
                runs[name].cancel().wait(20)
        yield runs | {"of another flow": OfFlow(runs["plain"], "plan")}


def displays(comparison: Comparison) -> dict[str, str]:
    shown = [comparison, comparison.answer, *comparison.artifacts.values()]
    shown += [comparison.first_difference] if comparison.first_difference else []
    return {
        "text": "".join([comparison._card().plain(), *map(repr, shown)]),
        "page": "".join(entry._repr_html_() for entry in shown),
    }


def test_any_two_runs_can_be_compared_and_shown(ended_runs: dict[str, Any]) -> None:
    """Text, HTML and both frames are made for each pair, and contain no invalid characters."""
    for (name, a), (other, b) in itertools.product(ended_runs.items(), repeat=2):
        comparison = af.compare(a, b)
        assert comparison.is_same == (name == other), (name, other)
        assert len(comparison.steps) == max(len(comparison.pairs), 0)
        assert len(comparison.metrics) == 10
        for media, text in displays(comparison).items():
            assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f]", text), (name, other, media)
            assert len(text) < 1_000_000


SUMMARIES = {
    ("plain", "plain"): ["steps +3 steps, all the same", "answers +the same", "artifacts +research_report: same"],
    ("plain", "of another flow"): ["flow +research → plan", "steps +3 steps, all the same"],
    ("without artifacts", "failed"): ["completed → failed", "1 step, 1 of them differs", "answers +only a has one"],
    ("failed", "failed otherwise"): [
        "error in a +The key is wrong",
        "error in b +It is odd",
        "steps +none",
        "neither has",
    ],
    ("waiting", "plain"): ["waiting → completed", "answers +only b has one", "research_report: only b"],
    ("cancelled", "waiting"): ["cancelled → waiting"],
    ("binary", "binary backwards"): ["research_report: changed", "answers +different"],
    ("long", "long otherwise"): [
        "201 steps, 201 of them differ",
        "first difference +step 1, lead agent, model scripted: reply",
    ],
}


@pytest.mark.parametrize("pair", SUMMARIES, ids=" and ".join)
def test_summary_names_all_differences(ended_runs: dict[str, Any], pair: tuple[str, str]) -> None:
    """The differences are flow, status, errors, answers and artifacts."""
    text = af.compare(ended_runs[pair[0]], ended_runs[pair[1]])._card().plain()
    for pattern in SUMMARIES[pair]:
        assert re.search(pattern, text), text


def test_running_run_is_compared_up_to_its_last_step(ended_runs: dict[str, Any], tmp_path: Path) -> None:
    """The running run has no answer yet, and has current metrics."""
    model = ScriptedModel([f"word {HOSTILE} " * 2000], delay_s=0.02)
    with af.Workbench(model=model, interactive=False, data_dir=tmp_path) as wb:
        comparison = af.compare(wb.ask("What?"), ended_runs["plain"])
        assert "running → completed" in comparison._card().plain()
        assert "only b has one" in comparison._repr_html_()
