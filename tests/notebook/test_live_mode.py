"""How live views are shown, found out from the names that front ends leave in their kernels."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

MODE = "from artifactflow_nb.widgets.page.display import live_mode\nprint(live_mode())"


def mode_in_kernel(folder: Path, code: str = "") -> str:
    """The mode in a new kernel after this code."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(f"{code}\n{MODE}")])
    NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    return str(notebook.cells[0].outputs[0].text.strip())


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
    assert mode_in_kernel(tmp_path, code) == mode
