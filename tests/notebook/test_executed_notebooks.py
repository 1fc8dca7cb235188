"""Notebooks that a program executes without a page: what their outputs say about runs shown before their end.

These programs drop what a kernel sends for an earlier cell, so the cell that awaits a run updates its display.
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import papermill
import pytest
from support.replies import report

NO_SOURCE = "This answer names no source."
MAKE = f"""import artifactflow_nb as af
turns = ["It is found.", "Found again.", {report()!r}, "Nobody waits for this."]
model = af.ScriptedModel(turns, chunk_chars=80, delay_s=1.5)
wb = af.Workbench(model=model, approvals={{"create_artifact": "ask"}})"""
CELLS = (
    'first = wb.ask("First?")\nfirst',
    "ended = await first",
    'second = wb.ask("Second?")\ndisplay(second)\nawait second',
    'third = wb.ask("Third?")\nthird',
    "third.wait().status",
    'wb.ask("Fourth?")',
)
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.usefixtures("fast_kernels"),
]


def by_papermill(source: Path, target: Path) -> None:
    papermill.execute_notebook(str(source), str(target), cwd=source.parent, progress_bar=False, log_output=False)


def by_nbconvert(source: Path, target: Path) -> None:
    program = [sys.executable, "-m", "nbconvert", "--execute", "--to", "notebook", "--output", target.name, source.name]
    subprocess.run(program, cwd=source.parent, check=True, capture_output=True, timeout=120)


def by_jupytext(source: Path, target: Path) -> None:
    program = [sys.executable, "-m", "jupytext", "--execute", "--output", str(target), str(source)]
    subprocess.run(program, cwd=source.parent, check=True, capture_output=True, timeout=120)


@pytest.mark.parametrize("execute", [by_papermill, by_nbconvert, by_jupytext])
def test_executed_notebook_shows_the_end_of_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, execute: Callable[[Path, Path], None]
) -> None:
    """The display of a run shows once that the run waits for a person, and once the end that a cell has awaited."""
    monkeypatch.delenv("AF_APPROVALS", raising=False)
    source, target = tmp_path / "source.ipynb", tmp_path / "executed.ipynb"
    cells = [nbformat.v4.new_code_cell(cell) for cell in (MAKE, *CELLS)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), source)
    execute(source, target)
    first, ended, second, third, status, fourth = outputs(target)[1:]
    assert first == [f"Run completed: First?\n\nIt is found.\n\n{NO_SOURCE}"]
    assert ended == []
    assert second == [f"Run completed: Second?\n\nFound again.\n\n{NO_SOURCE}"]
    assert status == ["'waiting'"]
    [waiting] = third
    assert "Waiting for your approval: Write “" in waiting
    assert "wb.pending()" in waiting
    [running] = fourth
    assert "The run was still running when this was saved. `await run` shows its end" in running
    assert "wb.pending()" in running


def outputs(path: Path) -> list[list[Any]]:
    """The plain texts of the outputs of each cell; an error fails the test."""
    cells = nbformat.read(path, as_version=4).cells
    assert not [output for cell in cells for output in cell.outputs if output.output_type == "error"]
    return [
        [output.data["text/plain"] for output in cell.outputs if "data" in output]
        for cell in cells
        if cell.cell_type == "code"
    ]
