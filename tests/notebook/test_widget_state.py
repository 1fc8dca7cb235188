"""The saved panels of an executed notebook: small states of widgets, and outputs of HTML and text."""

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

MAX_STATE_CHARS = 2000
CELLS = (
    """import artifactflow_nb as af
wb = af.Workbench(model=af.ScriptedModel(["One.", "Two."]), data_dir="data")
wb.chat()""",
    "wb.tree()",
    'run = await wb.ask("Why?")\nrun',
    "wb.artifact_panel()",
    "wb.chat(run)",
)


@pytest.fixture
def executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> nbformat.NotebookNode:
    """A notebook with four panels, executed by nbclient as if a person could be there."""
    monkeypatch.setenv("AF_APPROVALS", "ask")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    return notebook


def test_state_of_a_view_is_small(executed: nbformat.NotebookNode) -> None:
    """No widget has the scripts and styles, and the views in cells share one layout."""
    states = executed.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    panels = [state for state in states.values() if state["model_module"] == "anywidget"]
    assert len(panels) == 4
    assert len(states) == len(panels) + 1
    assert max(len(json.dumps(state, indent=1)) for state in states.values()) <= MAX_STATE_CHARS


def test_outputs_are_html_and_text(executed: nbformat.NotebookNode) -> None:
    """No output refers to a widget, since nothing could show a widget in the saved notebook."""
    outputs = [output.data for cell in executed.cells for output in cell.outputs]
    assert [sorted(data) for data in outputs] == [["text/html", "text/plain"]] * len(CELLS)
