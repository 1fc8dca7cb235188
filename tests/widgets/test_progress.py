"""The progress line of indexing, and interrupted indexing."""

import io
import os
import re
import signal
import sys
import time
from pathlib import Path

import nbformat
import pytest
from bench.source_files import Writer
from nbclient import NotebookClient

import artifactflow_nb as af
from artifactflow_nb.widgets.progress import IndexingLine

pytestmark = pytest.mark.usefixtures("fast_kernels")

FILES = 600


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("indexed") / "notes"
    Writer(vocabulary=5000).write(root, FILES)
    return root


def executed(folder: Path, cell: str) -> list[str]:
    """The texts that a cell outputs in a kernel without a page."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=60, resources=resources, extra_arguments=["--log-level=ERROR"]).execute()
    return [output["data"]["text/plain"] for output in notebook.cells[0]["outputs"]]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_attended_cell_ends_with_one_line(tmp_path: Path, notes: Path) -> None:
    """An attended cell shows the progress in one line, which ends with the result."""
    shown = executed(
        tmp_path,
        f"import artifactflow_nb as af\nwb = af.Workbench(model=af.OfflineModel(), interactive=True)\n"
        f"len(wb.sources.add({str(notes)!r}).sources)",
    )
    assert len(shown) == 2
    assert re.fullmatch(rf"Indexed {notes}: {FILES} of {FILES} files read, \d+\.\d s", shown[0])
    assert shown[1] == str(FILES)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_unattended_cell_has_no_line(tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unattended cell only outputs its value."""
    monkeypatch.setenv("AF_APPROVALS", "approve")
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    shown = executed(
        tmp_path,
        f"import artifactflow_nb as af\nwb = af.Workbench(model=af.OfflineModel())\nwb.sources.add({str(notes)!r})",
    )
    assert [text.splitlines()[:2] for text in shown] == [[f"Sources: {notes}", f"  added             {FILES}"]]


def test_terminal_shows_line_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a terminal the line is overwritten and ends with the result; nothing is written to a file."""
    terminal, file = Terminal(), io.StringIO()
    for stream in (terminal, file):
        monkeypatch.setattr(sys, "stderr", stream)
        line = IndexingLine("notes", is_attended=False)
        line.note(32, 600, "a.md")
        line.draw()  # too early
        time.sleep(0.55)
        line.draw()
        line.note(600, 600, "z.md")
        line.end("Indexed")
    first, second, last = terminal.getvalue().split("\r")
    assert (first, second.strip()) == ("", "Indexing notes: 32 of 600 files, a.md")
    assert re.fullmatch(r"Indexed notes: 600 of 600 files read, 0\.\d s *\n", last)
    assert not file.getvalue()


def test_fast_indexing_shows_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no line for a small folder or a folder without new files."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    quick = IndexingLine("notes", is_attended=True)
    quick.note(5, 5, "a.md")
    quick.end("Indexed")
    unchanged = IndexingLine("notes", is_attended=True)
    unchanged.draw()
    unchanged.end("Indexed")
    assert not terminal.getvalue()


class Interrupting(Terminal):
    """A terminal that sends Ctrl-C once the progress is displayed."""

    def write(self, text: str) -> int:
        written = super().write(text)
        if text.startswith("\rIndexing"):
            os.kill(os.getpid(), signal.SIGINT)
        return written


@pytest.mark.skipif(os.name == "nt", reason="A program cannot press Ctrl-C for itself there.")
def test_interrupted_cell_keeps_indexed_files(tmp_path: Path, notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupting the cell stops the indexing; the workbench remains usable, and adding again indexes the rest."""
    terminal = Interrupting()
    monkeypatch.setattr(sys, "stderr", terminal)
    with af.Workbench(model=af.OfflineModel(), data_dir=tmp_path / "data", approvals="approve") as wb:
        with pytest.raises(KeyboardInterrupt):
            wb.sources.add(notes)
        monkeypatch.setattr(sys, "stderr", Terminal())
        added = wb.sources.add(notes)
        assert len(added.sources) == FILES
        assert 0 < added.unchanged < FILES
        assert added.added + added.unchanged == FILES
    assert "\rNot finished" in terminal.getvalue()
