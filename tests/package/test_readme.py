"""README and guide: their Python runs, their files exist, their settings are those of the code."""

import re
from pathlib import Path

import pytest
from support import settings_guide
from support.cells import CELLS, run_cells
from support.pdf import pdf

import artifactflow_nb as af

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PACKAGES = {"library": "fsspec"}
"""Packages of pages that run in an environment of their own; see the Makefile."""
GUIDE = {page.stem: page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "guide").glob("*.md"))}


@pytest.mark.usefixtures("tmp_path")  # it writes where it runs
async def test_python_of_the_readme_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The code blocks run one after the other, as in a notebook with automatic approvals."""
    monkeypatch.setenv("AF_APPROVALS", "approve")
    names = await run_cells(README)
    run, wb = names["run"], names["wb"]
    assert isinstance(run, af.Run)
    assert isinstance(wb, af.Workbench)
    assert run.status == "completed"
    assert run.response.startswith("> If the return value was true, the exception is suppressed")
    assert "research_report" in run.artifacts
    wb.close()


def test_second_cell_of_the_readme_shows_the_answer() -> None:
    """A notebook shows the value of the last line of a cell."""
    _, second, *_ = CELLS.findall(README)
    assert second.strip().splitlines()[-1].partition("#")[0].strip() == "run.response"


@pytest.mark.parametrize("title", [title for title, page in GUIDE.items() if CELLS.search(page)])
async def test_python_of_a_guide_page_runs(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page runs without the others, and its runs are completed."""
    pytest.importorskip(PACKAGES.get(title, "artifactflow_nb"), reason="make test runs it in another environment")
    monkeypatch.setenv("AF_APPROVALS", "approve")
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "herons.pdf").write_bytes(
        pdf("Herons wait for fish in shallow water at dawn.", "Storks nest on roofs in spring.")
    )
    names = await run_cells(GUIDE[title])
    assert {run.status for run in names.values() if isinstance(run, af.Run)} <= {"completed"}
    if title != "checks":  # which needs no workbench
        names["wb"].close()


def test_readme_is_short() -> None:
    """Explanations are in the guide, and the README leads to each page of it."""
    assert README.count("\n") <= 150
    assert [title for title in GUIDE if f"(docs/guide/{title}.md)" not in README] == []


def test_every_file_that_the_readme_names_exists() -> None:
    """The targets of pictures and links exist."""
    targets = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).is_file()] == []


def test_table_of_settings_is_that_of_their_declarations() -> None:
    """After a change of a setting, `make format` writes the table."""
    assert GUIDE["settings"] == settings_guide.updated(GUIDE["settings"])
