"""Execute the notebooks of this folder and store their outputs: `python notebooks/refresh.py [notebook ...]`.

The outputs are part of the repository and of the tests. An output that the tests do not compare, because it differs in
each execution, is kept unless its cell changed. Every change of an output is therefore visible to readers.
With AF_MODE=record, the notebooks that have a cassette are first recorded again, and only they are executed.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from execution import execute

HERE = Path(__file__).parent
NOT_COMPARED = "nbval-ignore-output"


def main(names: list[str]) -> None:
    """Refresh these notebooks, or all of them."""
    os.environ["AF_APPROVALS"] = "approve"
    notebooks = [Path(name).resolve() for name in names] or sorted(HERE.glob("[0-9]*.ipynb"))
    if os.environ.pop("AF_MODE", "") == "record":
        notebooks = [notebook for notebook in notebooks if cassette_of(notebook).exists()]
        for notebook in notebooks:
            record(notebook)
    for notebook in notebooks:
        refresh(notebook)
        print(f"{notebook.name}: {notebook.stat().st_size:,} bytes")


def cassette_of(notebook: Path) -> Path:
    """Where the cassette of a notebook lies: for `06_a_name.ipynb` it is `data/cassettes/a_name.jsonl`."""
    _, _, name = notebook.stem.partition("_")
    return notebook.parents[1] / "data" / "cassettes" / f"{name}.jsonl"


def record(notebook: Path) -> None:
    """Record the cassette of a notebook again, in a separate store; if that fails, the old cassette remains."""
    cassette = cassette_of(notebook)
    before = cassette.read_bytes()
    cassette.unlink()
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"AF_MODE": "record", "AF_DATA_DIR": folder}
        try:
            execute(notebook, Path(folder) / "build")
        except BaseException:
            cassette.write_bytes(before)
            raise
        finally:
            del os.environ["AF_MODE"], os.environ["AF_DATA_DIR"]
    print(f"{cassette.name}: {cassette.stat().st_size:,} bytes")


def refresh(notebook: Path) -> None:
    """Execute a notebook in its own folder and store its outputs in it."""
    before = nbformat.read(notebook, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        executed = nbformat.read(execute(notebook, Path(folder)).notebook, as_version=4)
    _keep(before, executed)
    nbformat.write(executed, notebook)


def _keep(before: Any, executed: Any) -> None:
    """Put back what is not compared, where it was stored for the same source."""
    stored = {cell.source: cell.outputs for cell in before.cells if cell.cell_type == "code"}
    for cell in executed.cells:
        if NOT_COMPARED in cell.metadata.get("tags", ()) and stored.get(cell.source):
            cell.outputs = stored[cell.source]
            for output in cell.outputs:
                if output.output_type == "execute_result":
                    output.execution_count = cell.execution_count


if __name__ == "__main__":
    main(sys.argv[1:])
