"""The workbench in a real kernel without a page, as nbclient and nbval run it."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.usefixtures("fast_kernels")

MAKE = """import artifactflow_nb as af
wb = af.Workbench(model=af.ScriptedModel([{turns}]), approvals={{"create_artifact": "ask"}})"""
REPORT = (
    "<tool_call><name>create_artifact</name><params><id>research_report</id><title>Report</title>"
    "<content># Found</content></params></tool_call>"
)


def run(folder: Path, *cells: str) -> list[list[Any]]:
    """Execute the cells in a new kernel; their outputs."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = NotebookClient(
        notebook,
        timeout=60,
        allow_errors=True,
        resources={"metadata": {"path": str(folder)}},
        extra_arguments=["--log-level=ERROR"],
    )
    client.execute()
    return [cell["outputs"] for cell in notebook.cells]


def plain(outputs: list[Any]) -> list[str]:
    return [output["data"]["text/plain"] for output in outputs]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_unattended_outputs_are_saved_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a policy each output is final, equal in each execution, and without a widget."""
    monkeypatch.setenv("AF_APPROVALS", "approve")
    make = MAKE.format(turns=repr(REPORT) + ', "It is found."')
    _, question, waited, display, response, report = run(
        tmp_path,
        make,
        'run = wb.ask("Where is it?")\nrun',
        "(await run).status",
        "run",
        "run.response",
        'run.artifacts["research_report"]',
    )
    assert plain(question) == ["Run: Where is it?"]
    assert plain(waited) == ["'completed'"]
    assert plain(display) == ["Run completed: Where is it?\n\nIt is found.\n\nThis answer names no source."]
    assert set(display[0]["data"]) == {"text/plain", "text/html"}
    assert "<p>It is found.</p>" in response[0]["data"]["text/html"]
    assert "<h1>Found</h1>" in report[0]["data"]["text/html"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_waiting_run_without_a_page_shows_how_to_decide(tmp_path: Path) -> None:
    """No page answers, so await returns, and the run shows its request and what to do."""
    make = MAKE.format(turns=repr(REPORT) + ', "It is found."')
    _, waited, pending, approved = run(
        tmp_path,
        make,
        'run = wb.ask("Where is it?")\n(await run).status',
        "run.pending[0].title",
        "run.approve()\n(await run).status",
    )
    assert plain(waited) == ["'waiting'"]
    assert plain(pending) == ["'lead_agent wants to run create_artifact: research_report'"]
    assert plain(approved) == ["'completed'"]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_errors_have_no_long_traceback_in_a_cell(tmp_path: Path) -> None:
    """An error of the caller or of the endpoint shows only its message."""
    failing = (
        'import artifactflow_nb as af\nbad = af.errors.ModelRejected("The model `x` does not exist. Set AF_MODEL.")'
    )
    make = "wb = af.Workbench(model=af.ScriptedModel([bad]))"
    _, _, empty, sources, failed = run(
        tmp_path, failing, make, 'wb.ask("")', 'wb.sources.add("nowhere")', '(await wb.ask("Why?")).raise_for_status()'
    )
    assert empty[0]["traceback"] == ["The question is empty. Write what you want to know. (UsageError)"]
    assert len(sources[0]["traceback"]) == 1
    assert "nowhere" in sources[0]["traceback"][0]
    assert failed[0]["traceback"][0].startswith("The model `x` does not exist. Set AF_MODEL.")
