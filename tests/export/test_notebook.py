"""Notebooks are executed and exported as pages."""

import json
import re
import shutil
from pathlib import Path

import pytest
from execution import ExportedNotebook, execute
from nbconvert import MarkdownExporter

from artifactflow_nb.errors import UsageError

ROOT = Path(__file__).parents[2]
SHOWN = {
    "01_quickstart": "on the first Monday of each month",
    "06_record_and_replay": "came out the same",
    "07_fork_and_compare": "The batteries of the south station have 12.7 V.",
    "08_plan_and_execute": "There is frost at the north station",
    "09_compose": "The Python interpreter raises an exception when it detects a run-time error",
}
"""What the page of each notebook shows, one text each."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the notebooks and of their data."""
    place = tmp_path_factory.mktemp("export")
    shutil.copytree(ROOT / "notebooks", place / "notebooks", ignore=shutil.ignore_patterns(".artifactflow"))
    shutil.copytree(ROOT / "data", place / "data")
    return place


@pytest.fixture(scope="module", params=sorted(SHOWN))
def exported(request: pytest.FixtureRequest, repository: Path, fast_kernels: None) -> ExportedNotebook:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AF_APPROVALS", "approve")
        return execute(repository / "notebooks" / f"{request.param}.ipynb", repository / "build")


def test_exported_notebook_page_loads_nothing_from_the_internet(exported: ExportedNotebook) -> None:
    """The only address in the page is the XML namespace of its pictures."""
    page = exported.html.read_text(encoding="utf-8")
    found = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w{2,}", page))
    assert found <= {"http://www.w3.org"}
    assert "<script" not in page
    assert SHOWN[exported.notebook.stem] in page


def test_executed_notebook_has_the_stored_outputs(exported: ExportedNotebook) -> None:
    """The outputs are equal byte for byte, except pictures, whose bytes depend on the release of matplotlib."""
    fresh = json.loads(exported.notebook.read_text(encoding="utf-8"))
    shipped = json.loads((ROOT / "notebooks" / exported.notebook.name).read_text(encoding="utf-8"))
    for ours, theirs in zip(fresh["cells"], shipped["cells"], strict=True):
        assert ours["source"] == theirs["source"]
        if "nbval-ignore-output" not in ours["metadata"].get("tags", ()):
            for output in (*ours.get("outputs", ()), *theirs.get("outputs", ())):
                output.get("data", {}).pop("image/png", None)
            assert ours.get("outputs") == theirs.get("outputs")


def test_stored_notebook_reads_without_a_kernel() -> None:
    """The outputs are text and HTML, without widgets and errors."""
    shipped = json.loads((ROOT / "notebooks" / "01_quickstart.ipynb").read_text(encoding="utf-8"))
    outputs = [output for cell in shipped["cells"] for output in cell.get("outputs", [])]
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    assert kinds == {"text/plain", "text/html"}
    assert not [output for output in outputs if output["output_type"] == "error"]


def test_markdown_conversion_shows_no_style_sheet(exported: ExportedNotebook) -> None:
    """The style sheets are inside `<rp>`, whose content browsers do not display."""
    written, _ = MarkdownExporter().from_filename(str(exported.notebook))
    assert "--af-" in written
    assert "--af-" not in re.sub(r"<rp>.*?</rp>", "", written, flags=re.DOTALL)


def test_missing_notebook_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no notebook '.*nothing.ipynb'"):
        execute(tmp_path / "nothing.ipynb", tmp_path)
