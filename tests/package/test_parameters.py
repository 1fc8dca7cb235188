"""The notebooks that take parameters, executed with other values the way papermill puts them in."""

import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from execution import execute

pytestmark = pytest.mark.usefixtures("fast_kernels")

ROOT = Path(__file__).parents[2]
TAG = "parameters"


def first_code_cell(page: Path) -> Any:
    return next(cell for cell in nbformat.read(page, as_version=4).cells if cell.cell_type == "code")


def tagged(page: Path) -> list[Any]:
    return [cell for cell in nbformat.read(page, as_version=4).cells if TAG in cell.metadata.get("tags", ())]


PAGES = [page for page in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")) if tagged(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_parameters_come_first_and_are_plain(page: Path) -> None:
    """The tagged cell is the first cell with code and the only cell with the tag, and contains only values."""
    (cell,) = tagged(page)
    assert cell == first_code_cell(page)
    values: dict[str, Any] = {}
    exec(cell.source, {"__builtins__": {}}, values)  # noqa: S102 - a cell of this repository
    assert {"QUESTION", "CASSETTE"} & set(values)
    assert all(isinstance(value, str | None) for value in values.values())


def test_injected_question_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a cell after the parameters sets another question, the quickstart answers the other question."""
    monkeypatch.setenv("AF_APPROVALS", "approve")
    shutil.copytree(ROOT / "data", tmp_path / "data")
    (tmp_path / "notebooks").mkdir()
    page = tmp_path / "notebooks" / "page.ipynb"
    node = nbformat.read(ROOT / "notebooks" / "01_quickstart.ipynb", as_version=4)
    at = node.cells.index(tagged(ROOT / "notebooks" / "01_quickstart.ipynb")[0])
    source = 'QUESTION = "How long are raw files kept?"'
    node.cells.insert(at + 1, nbformat.v4.new_code_cell(source, metadata={"tags": ["injected-parameters"]}))
    nbformat.write(node, page)
    executed = nbformat.read(execute(page, tmp_path / "out").notebook, as_version=4)
    shown = [str(cell.outputs) for cell in executed.cells if cell.cell_type == "code"]
    assert "<h1>How long are raw files kept?</h1>" in "".join(shown)
    assert "How are backups checked" not in "".join(shown)
