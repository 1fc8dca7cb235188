"""Completion of a workbench in IPython: verbs first, then names that arguments take and keys."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from IPython.testing.globalipapp import start_ipython
from support.replies import report

import artifactflow_nb as af
from artifactflow_nb.notebook.completion import VERBS


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Any]:
    """An IPython shell with a workbench `wb` and one artifact."""
    InteractiveShell.clear_instance()
    shell = start_ipython() or InteractiveShell.instance()
    model = af.ScriptedModel([report(), "Done."])
    with af.Workbench(model=model, data_dir=tmp_path, approvals="approve", interactive=False) as wb:
        wb.projects.start("Essay", template="paper").add("Method", "How?")
        run = wb.ask("Write it.").wait()
        shell.user_ns |= {
            "wb": wb,
            "run": run,
            "found": wb.artifacts(run),
            "project": wb.projects.start("Essay"),
            "plain": object(),
        }
        yield shell


def completions(shell: Any, text: str) -> list[str]:
    """The completions at the end of a text, as a front end gets them."""
    with provisionalcompleter():
        return [completion.text for completion in shell.Completer.completions(text, len(text))]


def test_verbs_come_first(shell: Any) -> None:
    """Verbs precede other public attributes in alphabetical order; private attributes come on request."""
    found = completions(shell, "wb.")
    assert tuple(found[: len(VERBS)]) == VERBS
    assert found[len(VERBS) :] == sorted(found[len(VERBS) :])
    assert "flows" in found
    assert not [name for name in found if name.startswith("_")]
    assert completions(shell, "x = wb.so")[0] == "sources"
    assert "_thread" in completions(shell, "wb._th")
    assert all(hasattr(shell.user_ns["wb"], verb) for verb in VERBS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('wb.ask("Why (not)?", flow="', ["research", "plan", "compose"]),
        ("wb.ask('Why?', depth='q", ["quick"]),
        ("wb.chat(model='s", ["scripted"]),
    ],
)
def test_arguments_are_completed(shell: Any, text: str, expected: list[str]) -> None:
    """Arguments are completed also after a question with parentheses."""
    assert completions(shell, text)[: len(expected)] == expected


@pytest.mark.parametrize("text", ["wb.artifacts()['", 'wb.artifacts(run)["rese', "found['"])
def test_ids_of_artifacts_are_completed(shell: Any, text: str) -> None:
    """Ids are offered as keys of a call and of a variable."""
    assert [found.strip("'\"]") for found in completions(shell, text)] == ["research_report"]


def test_projects_are_completed(shell: Any) -> None:
    """The keys of `wb.projects` are the names of the projects."""
    assert any("Essay" in found for found in completions(shell, "wb.projects['"))


def test_blocks_are_completed(shell: Any) -> None:
    """The keys of a project are the paths of its blocks."""
    assert any("Method" in found for found in completions(shell, "project['"))


def test_other_objects_are_left_to_ipython(shell: Any) -> None:
    """A workbench that is closed is left to IPython too."""
    assert "__class__" in completions(shell, "plain.__cl")
    shell.user_ns["wb"].close()
    assert "ask" in completions(shell, "wb.as")
