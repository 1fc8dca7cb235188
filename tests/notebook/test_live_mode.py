"""How live views are shown, found out from the names that front ends leave in their kernels."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

MODE = "from artifactflow_nb.widgets.page.display import live_mode\nprint(live_mode())"


VIEW = "application/vnd.jupyter.widget-view+json"
MANAGER = {VIEW: {"colab": {"custom_widget_manager": {"url": "https://widgets.example/manager.js"}}}}
REPLACED = f"""from IPython import get_ipython
from artifactflow_nb.widgets.page.display import Display

def add_manager(message):
    message["content"]["metadata"].update({MANAGER})
    return message

get_ipython().display_pub.register_hook(add_manager)
view = {{"{VIEW}": {{"version_major": 2, "version_minor": 0, "model_id": "1"}}}}
display = Display({{**view, "text/plain": "before"}})
display.replace({{**view, "text/plain": "after"}})"""
"""What Colab does to messages with the view of a widget, once its manager for widgets of others is enabled."""


def execute(folder: Path, code: str) -> Any:
    """Execute a cell in a new kernel and return its output."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    [output] = notebook.cells[0].outputs
    return output


@pytest.mark.parametrize(
    ("variables", "code", "mode"),
    [
        ({}, "", "page"),
        ({"VSCODE_PID": "1"}, "", "widget"),
        ({"VSCODE_PID": "1", "JPY_SESSION_NAME": "run.ipynb"}, "", "page"),
        ({}, '__vsc_ipynb_file__ = "/home/me/run.ipynb"', "widget"),
        ({}, 'import sys, types\nsys.modules["google.colab"] = types.ModuleType("google.colab")', "widget"),
    ],
)
def test_front_end_is_known_by_its_names(
    variables: dict[str, str], code: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """VS Code and Colab get widgets; a Jupyter server that VS Code started shows pages."""
    for name in ("VSCODE_PID", "VSCODE_CWD", "JPY_SESSION_NAME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert execute(tmp_path, f"{code}\n{MODE}").text.strip() == mode


def test_replaced_output_has_the_metadata_of_the_front_end(tmp_path: Path) -> None:
    """Colab names the manager of widgets beside the first output; a replacing output needs the same name."""
    output = execute(tmp_path, REPLACED)
    assert output.data["text/plain"] == "after"
    assert output.metadata == MANAGER
