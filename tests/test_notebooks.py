"""The notebooks as they are shipped: what a reader without a kernel finds, and how they are made anew.

That executing them gives the same outputs is tested by `pytest --nbval notebooks`.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
LARGEST_BYTES = 300_000
CHART = {"application/vnd.vegalite.v5+json", "image/svg+xml"}
NOT_COMPARED = "nbval-ignore-output"

pages = pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)


def read(page: Path) -> Any:
    return nbformat.read(page, as_version=4)


def outputs(page: Path) -> list[Any]:
    return [output for cell in read(page).cells if cell.cell_type == "code" for output in cell.outputs]


@pages
def test_a_page_is_small_and_whole(page: Path) -> None:
    """It has a size that a code host still draws, and its cells were executed in their order."""
    assert page.stat().st_size <= LARGEST_BYTES
    counts = [cell.execution_count for cell in read(page).cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))


@pages
def test_a_page_reads_without_a_kernel(page: Path) -> None:
    """Every output has a text, none is a widget, and none an error."""
    for output in outputs(page):
        assert output.output_type != "error"
        if output.output_type == "stream":
            assert output.name == "stdout"
        else:
            assert "text/plain" in output.data
            assert set(output.data) <= {"text/plain", "text/markdown", "text/html"} | CHART


@pages
def test_a_page_tells_nothing_of_the_machine_that_made_it(page: Path) -> None:
    """No path of a home or of a temporary folder stands in it."""
    assert re.findall(r"/(?:home|root|tmp|Users|var)/[\w./-]*", page.read_text(encoding="utf-8")) == []


@pages
def test_a_page_with_ids_is_not_compared_there(page: Path) -> None:
    """Ids differ each time: they stand only in outputs whose cells say that they are not compared."""
    for cell in read(page).cells:
        if cell.cell_type == "code" and NOT_COMPARED not in cell.metadata.get("tags", ()):
            assert re.findall(r"\b(?:run|conv|msg|thd|req)-[0-9a-f]{16}\b", str(cell.outputs)) == []


def test_a_notebook_is_made_anew(tmp_path: Path) -> None:
    """`refresh.py` stores what a notebook gives now, and leaves outputs that are not compared as they are."""
    cells = [nbformat.v4.new_code_cell(source) for source in ("1 + 1", "id(object())", "'new'")]
    for cell in cells[1:]:
        cell.metadata["tags"] = [NOT_COMPARED]
    cells[1].outputs = [nbformat.v4.new_output("execute_result", {"text/plain": "as it was"}, execution_count=9)]
    page = tmp_path / "page.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), page)
    refresh = shutil.copy(ROOT / "notebooks" / "refresh.py", tmp_path)
    subprocess.run([sys.executable, refresh, page], check=True, cwd=tmp_path)
    made = [(output.data["text/plain"], output.execution_count) for output in outputs(page)]
    assert made == [("2", 1), ("as it was", 2), ("'new'", 3)]
