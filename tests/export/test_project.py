"""Projects as files."""

import json
from pathlib import Path
from typing import Any

import docx
import nbformat
import pytest
from conftest import OpenWorkbench
from support.hostile_texts import HOSTILE
from support.safe_html import harms

from artifactflow_nb.errors import UsageError
from artifactflow_nb.plugins.projects.handle import Project


@pytest.fixture
def project(workbench: OpenWorkbench) -> Project:
    """A report in two phases, with a group in a group."""
    report = workbench().projects.start("Sea levels", template="paper")
    report.add("Question", "How fast does it rise?", phase="question")
    report.add("Report", phase="writing", is_group=True)
    report.add("Method", "# Method\n\nGauges.\n\n## Where\n\nAt the coast.", parent="Report")
    report.add("Findings", parent="Report", is_group=True)
    report.add("Rate", "Rates\n=====\n\n3 mm a year.", parent="Findings", depends_on=["Method"])
    return report


def headings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("#")]


def test_blocks_are_exported_in_order_with_headings_by_depth(project: Project, tmp_path: Path) -> None:
    """Headings within texts are below the headings of the blocks, and no name is repeated."""
    text = project.to_markdown(tmp_path).read_text()
    assert headings(text) == [
        *("# Sea levels", "## Question", "## Report", "### Method", "#### Where"),
        *("### Findings", "#### Rate", "##### Rates"),
    ]
    assert "not finished" not in text
    assert text.index("Gauges.") < text.index("At the coast.") < text.index("3 mm a year.")
    assert (tmp_path / "Sea_levels.md").is_file()


def test_unfinished_document_starts_with_a_notice(project: Project, tmp_path: Path) -> None:
    """The notice lists stale, unreviewed and missing blocks."""
    project["Method"].write("Satellites.")
    project.add("Summary", phase="review")
    project.add("Verdict", "It holds.", phase="review", need_review=True)
    text = project.to_markdown(tmp_path).read_text()
    top, rest = text.split("## Question")
    assert top.split("\n\n")[1] == "**This document is not finished**"
    assert top.split("\n\n")[2].splitlines() == [
        "- Stale (their dependencies were changed since): Report / Findings / Rate",
        "- Not reviewed (a person has not approved them yet): Verdict",
        "- Not written yet (they have no text): Summary",
    ]
    assert "## Summary\n\n*Not written yet.*" in rest
    project["Verdict"].approve()
    project["Rate"].keep()
    assert "Stale" not in project.to_markdown(tmp_path, overwrite=True).read_text()


def test_notice_has_the_language_of_the_views(workbench: OpenWorkbench, tmp_path: Path) -> None:
    with workbench([], language="zh") as wb:
        project = wb.projects.start("海平面")
        project.add("总结", phase=project.phase)
        page = project.to_html(tmp_path).read_text()
    assert "<strong>此文档尚未完成</strong>" in page
    assert "待撰写（没有内容）：总结" in page
    assert "<em>尚未撰写。</em>" in page
    assert "海平面 · 1 个内容块 · 阶段：" in page


def test_deleted_blocks_are_not_exported(project: Project, tmp_path: Path) -> None:
    """The blocks of a deleted group are not exported either; restored blocks are exported again."""
    group = project["Findings"]
    group.delete()
    text = project.to_markdown(tmp_path).read_text()
    assert "Findings" not in text
    assert "3 mm" not in text
    group.restore()
    assert "3 mm" in project.to_markdown(tmp_path, overwrite=True).read_text()


def test_notebook_cells_have_block_metadata(project: Project, tmp_path: Path) -> None:
    """One cell per block, valid and reproducible, with the fields of the block in its metadata."""
    project["Method"].write("Costs $5 and $6.")
    path = project.to_ipynb(tmp_path)
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    title, *cells = notebook.cells
    assert title.source.startswith("# Sea levels\n")
    provenance = [cell.metadata["artifactflow"] for cell in cells]
    names = ["question", "report", "method", "findings", "rate"]
    assert [entry["block_id"] for entry in provenance] == names
    assert provenance[-1] == {
        "block_id": "rate",
        "phase": "writing",
        "parent": "findings",
        "is_group": False,
        "status": "draft",
        "depends_on": ["method"],
        "need_review": False,
        "version": project["Rate"].version,
        "stale": True,
    }
    assert cells[2].source == "### Method\n\nCosts \\$5 and \\$6."
    assert notebook.metadata["artifactflow"]["project"] == "Sea levels"
    assert project.to_ipynb(tmp_path, overwrite=True).read_bytes() == path.read_bytes()


def test_page_and_word_document_have_the_same_outline(project: Project, tmp_path: Path) -> None:
    """The page names the project and the phase."""
    page = project.to_html(tmp_path).read_text()
    for heading in ("<h1>Sea levels</h1>", "<h2>Report</h2>", "<h3>Method</h3>", "<h4>Where</h4>", "<h5>Rates</h5>"):
        assert heading in page
    assert "Sea levels · 3 blocks · phase question" in page
    word = docx.Document(str(project.to_docx(tmp_path)))
    outline = [(p.text, p.style.name) for p in word.paragraphs if p.style and str(p.style.name).startswith("Heading")]
    assert outline[:4] == [
        ("Sea levels", "Heading 1"),
        ("Question", "Heading 2"),
        ("Report", "Heading 2"),
        ("Method", "Heading 3"),
    ]


def test_headings_end_at_level_six(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Deeper blocks keep their order."""
    project = workbench().projects.start("Deep", template="paper")
    parent: Any = ""
    for name in "ABCDEFG":
        parent = project.add(name, parent=parent, is_group=True)
    project.add("Leaf", "# Own\n\nText.", parent=parent)
    text = project.to_markdown(tmp_path).read_text()
    assert headings(text)[-4:] == ["###### F", "###### G", "###### Leaf", "###### Own"]


def test_project_without_blocks_is_exported_as_its_title(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """An existing file stays."""
    project = workbench().projects.start("Nothing <b>yet</b>", template="paper")
    assert project.to_markdown(tmp_path).read_text() == "# Nothing &lt;b>yet&lt;/b>\n"
    assert all(write(tmp_path).is_file() for write in (project.to_html, project.to_docx, project.to_ipynb))
    with pytest.raises(UsageError, match="overwrite=True"):
        project.to_markdown(tmp_path)


def test_hostile_texts_stay_harmless(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Texts, names and phases are sanitised in every format, and all headings remain."""
    project = workbench().projects.start("<script>window.__xss++</script> $x$", template="paper")
    for n, text in enumerate(HOSTILE):
        name = text.replace("/", "|").lstrip("@")[:90].encode("utf-8", "replace").decode()
        project.add(f"{n} {name}", text.encode("utf-8", "replace").decode())
    body = project.to_html(tmp_path).read_text().split("<body>")[1].split("</body>")[0]
    assert harms(body.replace("<main>", "").replace("</main>", "").replace("footer>", "p>")) == []
    assert body.count("<h2") == len(HOSTILE)
    cells = json.loads(project.to_ipynb(tmp_path).read_text())["cells"]
    assert len(cells) == len(HOSTILE) + 1
    assert project.to_docx(tmp_path).is_file()
