"""The notebooks as shipped: their stored outputs, and how they are refreshed.

`pytest --nbval notebooks` tests that executing them gives the same outputs.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

pytestmark = pytest.mark.usefixtures("fast_kernels")

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
LARGEST_BYTES = 300_000
NOT_COMPARED = "nbval-ignore-output"

pages = pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)


def read(page: Path) -> Any:
    return nbformat.read(page, as_version=4)


def cassette_of(page: Path) -> Path:
    return ROOT / "data" / "cassettes" / f"{page.stem.partition('_')[2]}.jsonl"


def ids_in(text: str) -> set[str]:
    return set(re.findall(r"\b(?:run|conv|msg|thd|req)-[0-9a-f]{16}\b", text))


def outputs(page: Path) -> list[Any]:
    return [output for cell in read(page).cells if cell.cell_type == "code" for output in cell.outputs]


@pages
def test_notebook_is_small_and_complete(page: Path) -> None:
    """The file has a size that a code host still draws, and its cells were executed in their order."""
    assert page.stat().st_size <= LARGEST_BYTES
    counts = [cell.execution_count for cell in read(page).cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))


@pages
def test_notebook_is_readable_without_a_kernel(page: Path) -> None:
    """Every output has a text, no output is a widget or an error; plots are pictures, `Markdown` is IPython's."""
    uses_markdown = "Markdown(" in "".join(cell.source for cell in read(page).cells)
    for output in outputs(page):
        assert output.output_type != "error"
        if output.output_type == "stream":
            assert output.name == "stdout"
        else:
            assert "text/plain" in output.data
            own = {"text/plain", "text/html", "image/png"}
            assert set(output.data) <= (own | {"text/markdown"} if uses_markdown else own)


@pages
def test_notebook_contains_no_path_of_a_machine(page: Path) -> None:
    """A notebook contains no path of a home or temporary folder."""
    assert re.findall(r"/(?:home|root|tmp|Users|var)/[\w./-]*", page.read_text(encoding="utf-8")) == []


@pages
def test_outputs_with_new_ids_are_not_compared(page: Path) -> None:
    """Ids that are not recorded differ each time, so they are only in outputs that are not compared."""
    recorded = ids_in(cassette_of(page).read_text(encoding="utf-8")) if cassette_of(page).exists() else set()
    for cell in read(page).cells:
        if cell.cell_type == "code" and NOT_COMPARED not in cell.metadata.get("tags", ()):
            assert ids_in(str(cell.outputs)) <= recorded


@pages
def test_cassette_belongs_to_its_notebook(page: Path) -> None:
    """A notebook that replays a cassette names it in its parameters cell, and the cassette is small."""
    cassette = cassette_of(page)
    parameters = [cell.source for cell in read(page).cells if "parameters" in cell.metadata.get("tags", ())]
    if cassette.exists():
        assert f'CASSETTE = "../data/cassettes/{cassette.name}"' in parameters[0]
        assert cassette.stat().st_size <= LARGEST_BYTES


def copy_scripts(folder: Path) -> Path:
    """Copy `refresh.py` and the module that it imports; return the path of `refresh.py`."""
    shutil.copy(ROOT / "notebooks" / "execution.py", folder)
    return shutil.copy(ROOT / "notebooks" / "refresh.py", folder)


def test_refresh_updates_the_outputs_of_a_notebook(tmp_path: Path) -> None:
    """`refresh.py` stores the new outputs of a notebook, except for outputs that are not compared."""
    cells = [nbformat.v4.new_code_cell(source) for source in ("1 + 1", "id(object())", "'new'")]
    for cell in cells[1:]:
        cell.metadata["tags"] = [NOT_COMPARED]
    cells[1].outputs = [nbformat.v4.new_output("execute_result", {"text/plain": "as it was"}, execution_count=9)]
    page = tmp_path / "page.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), page)
    refresh = copy_scripts(tmp_path)
    subprocess.run([sys.executable, refresh, page], check=True, cwd=tmp_path)
    results = [(output.data["text/plain"], output.execution_count) for output in outputs(page)]
    assert results == [("2", 1), ("as it was", 2), ("'new'", 3)]


RECORDING = """import artifactflow_nb as af
wb = af.Workbench(replay="../data/cassettes/small.jsonl", model=af.ScriptedModel(lambda request: "{answer}"))
(await wb.ask("Sure?")).raise_for_status().response"""


def test_refresh_records_a_cassette_again(tmp_path: Path) -> None:
    """With AF_MODE=record, `refresh.py` records and replays a cassette; a failure leaves the old one."""
    folder, cassette = tmp_path / "notebooks", tmp_path / "data" / "cassettes" / "small.jsonl"
    folder.mkdir()
    cassette.parent.mkdir(parents=True)
    cassette.touch()
    refresh = copy_scripts(folder)

    def recorded(answer: str) -> int:
        for name, source in (("1_small", RECORDING.format(answer=answer)), ("2_plain", "1 + 1")):
            cells = [nbformat.v4.new_code_cell(source)]
            nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / f"{name}.ipynb")
        environment = {**os.environ, "AF_MODE": "record"}
        return subprocess.run(
            [sys.executable, refresh], env=environment, cwd=tmp_path, capture_output=True, check=False
        ).returncode

    assert recorded("Yes.") == 0
    assert outputs(folder / "1_small.ipynb")[0].data["text/plain"] == "'Yes.'"
    assert outputs(folder / "2_plain.ipynb") == []
    before = cassette.read_bytes()
    assert b"Yes." in before
    assert recorded('" + 1 / 0 + "') != 0
    assert cassette.read_bytes() == before
    assert not list(tmp_path.glob("**/.artifactflow"))
