"""The content of a saved notebook in each mode of live views: outputs and states of widgets."""

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

VIEW = "application/vnd.jupyter.widget-view+json"
STATES = "application/vnd.jupyter.widget-state+json"
MAX_STATE_BYTES = 2048
MAX_NOTEBOOK_BYTES = 1_000_000
SETUP = """import ipywidgets
import artifactflow_nb as af
report = af.ToolCall("create_artifact", {"id": "report", "title": "Report", "content": "# Found"})
def turn(request):
    return report if "Write" in request.messages[-1].content else "The answer has a sentence. " * 20
wb = af.Workbench(model=af.ScriptedModel(turn), approvals={"create_artifact": "ask"}, data_dir="data")"""
ENDED = "run = wb.ask('Why?')\ndisplay(run)\nrun.wait(20)\nNone"
WAITING = "waiting = wb.ask('Write.')\ndisplay(waiting)\nwaiting.wait(20)\nNone"
PANELS = ("wb.chat(run)", "ipywidgets.VBox([wb.tree(), wb.artifact_panel(waiting)])")


def saved(folder: Path, *cells: str) -> nbformat.NotebookNode:
    """Execute cells as papermill and nbconvert do, which save the states of widgets."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in (SETUP, *cells)])
    NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    return notebook


def states(notebook: nbformat.NotebookNode) -> list[dict[str, Any]]:
    """The states of our widgets."""
    widgets = notebook.metadata.get("widgets", {}).get(STATES, {}).get("state", {})
    return [state for state in widgets.values() if state["model_module"] == "anywidget"]


@pytest.mark.usefixtures("fast_kernels")
@pytest.mark.parametrize("mode", ["page", "widget", "off"])
def test_outputs_are_readable_and_states_are_small(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every output has HTML and text; in the mode `widget` the output also has the view, until a run has ended."""
    monkeypatch.setenv("AF_LIVE", mode)
    monkeypatch.setenv("AF_APPROVALS", "ask")
    notebook = saved(tmp_path, ENDED, WAITING, *PANELS)
    ended, waiting, chat, layout = (cell.outputs[0].data for cell in notebook.cells[1:])
    is_widget = mode == "widget"
    assert set(ended) == {"text/html", "text/plain"}
    for output in (waiting, chat):
        assert set(output) == {"text/html", "text/plain", *([VIEW] if is_widget else [])}
    assert set(layout) == {VIEW, "text/plain"}  # the output of ipywidgets
    assert ("The answer has a sentence." if mode != "off" else "Why?") in ended["text/html"]
    assert "Write" in waiting["text/html"]
    assert states(notebook)
    assert max(len(json.dumps(state)) for state in states(notebook)) <= MAX_STATE_BYTES


@pytest.mark.usefixtures("fast_kernels")
def test_notebook_of_thirty_runs_is_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty displayed runs take less than 1 MB with the states of the widgets."""
    monkeypatch.setenv("AF_LIVE", "widget")
    monkeypatch.setenv("AF_APPROVALS", "ask")
    notebook = saved(tmp_path, *[ENDED] * 30)
    assert states(notebook)
    assert len(nbformat.writes(notebook).encode()) < MAX_NOTEBOOK_BYTES
