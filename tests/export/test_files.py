"""Artifacts as Markdown, pages and notebooks."""

import json
import re
import resource
import signal
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import nbformat
import pytest
from markdown_it import MarkdownIt
from nbclient import NotebookClient
from support.cpu_time import check_linear

from artifactflow_nb.errors import UsageError
from artifactflow_nb.export.document import artifact_document
from artifactflow_nb.export.files import EXPORT_FORMATS, document_bytes, document_name, write_document
from artifactflow_nb.store.artifact_versions import Artifact

TEXT = """# The report

It says *something*, see [the source](https://example.org/a?b=1).

```python
# no heading
print("x")
```

## Findings

| a | b |
|---|--:|
| 1 | 2 |

- one
- two

### Detail

Deeper.

Second title
------------

> A quote.
"""
HOSTILE = """# Title <script>window.x=1</script>

![pixel](https://hostile.invalid/p.png)
<img src="https://hostile.invalid/q.png" onerror="x()">
[run](javascript:alert(1)) [file](file:///etc/passwd)
<style>@import url(https://hostile.invalid/s.css)</style>

<div data-act="approve" onclick="x()">press</div>
"""


def artifact_bytes(artifact: Artifact, form: str) -> bytes:
    return document_bytes(artifact_document(artifact), form)


def write_artifact(artifact: Artifact, form: str, path: str | Path | None = None, *, overwrite: bool = False) -> Path:
    return write_document(artifact_document(artifact), form, path, overwrite=overwrite)


@pytest.fixture
def artifact() -> Artifact:
    when = datetime(2026, 11, 22, 4, 30, tzinfo=UTC)
    return Artifact(
        "research_report",
        3,
        "The report",
        "text/markdown",
        TEXT,
        "update",
        when,
        "user",
        "run-1",
        "msg-1",
        "",
        None,
        None,
    )


def test_markdown_export_is_the_stored_text(artifact: Artifact) -> None:
    assert artifact_bytes(artifact, "md") == TEXT.encode()
    assert artifact_bytes(replace(artifact, content="a\r\n\tb  \n\n"), "md") == b"a\r\n\tb  \n\n"


def test_other_media_types_become_fenced_code(artifact: Artifact) -> None:
    """The fence is longer than any fence in the text."""
    code = replace(artifact, content_type="text/x-python", content="~~~~~~~\nx = '<b>'\n~~~")
    assert artifact_bytes(code, "md").decode() == "~~~~~~~~\n~~~~~~~\nx = '<b>'\n~~~\n~~~~~~~~"
    assert "x = '&lt;b&gt;'" in artifact_bytes(code, "html").decode()


def test_page_has_text_version_and_both_colour_schemes(artifact: Artifact) -> None:
    page = artifact_bytes(artifact, "html").decode()
    assert "<title>The report</title>" in page
    assert "<em>something</em>" in page
    assert page.count("<h1>") == 1
    assert "research_report · version 3 · user · 2026-11-22 04:30 UTC" in page
    assert "prefers-color-scheme: dark" in page
    assert '<html lang="en">' in page


def test_text_without_a_heading_gets_its_title(artifact: Artifact) -> None:
    """The title is escaped."""
    bare = replace(artifact, title="A <b> & *c*", content="Only text.")
    assert "<h1>A &lt;b&gt; &amp; *c*</h1>" in artifact_bytes(bare, "html").decode()
    cells = json.loads(artifact_bytes(bare, "ipynb"))["cells"]
    title, text = ("".join(cell["source"]) for cell in cells)
    assert (MarkdownIt().render(title), text) == ("<h1>A &lt;b&gt; &amp; *c*</h1>\n", "Only text.")


def test_page_loads_and_runs_nothing(artifact: Artifact) -> None:
    """The page has no script, image, handler, frame or style except its own."""
    page = artifact_bytes(replace(artifact, content=HOSTILE, title=HOSTILE), "html").decode()
    assert "default-src 'none'" in page
    assert not re.search(r"<(script|img|iframe|link|object|embed|form|svg|base)\b", page)
    body = page.split("</head>")[1]
    tags = re.findall(r"<[^>]*>", body)
    assert not [tag for tag in tags if re.search(r"\son\w+=|javascript:|data-act|src=|file:", tag)]
    assert page.count("<style>") == 1


def test_page_declares_the_language_of_its_text(artifact: Artifact) -> None:
    page = artifact_bytes(replace(artifact, content="# 温度计\n\n温度计每年校准一次。"), "html").decode()
    assert '<html lang="zh">' in page


def test_notebook_has_a_cell_for_each_chapter(artifact: Artifact, tmp_path: Path) -> None:
    """Cells start at headings of the first two levels only; code stays Markdown; the format is valid."""
    path = write_artifact(artifact, "ipynb", tmp_path)
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert [cell.source.split("\n")[0] for cell in notebook.cells] == ["# The report", "## Findings", "Second title"]
    assert {cell.cell_type for cell in notebook.cells} == {"markdown"}
    assert 'print("x")' in notebook.cells[0].source
    assert "### Detail" in notebook.cells[1].source
    assert path.read_bytes() == artifact_bytes(artifact, "ipynb")


def test_notebook_metadata_name_artifact_version_run_and_hash(artifact: Artifact) -> None:
    known = json.loads(artifact_bytes(artifact, "ipynb"))["metadata"]["artifactflow"]
    assert (known["artifact_id"], known["version"], known["run_id"]) == ("research_report", 3, "run-1")
    assert known["created_at"] == "2026-11-22T04:30:00+00:00"
    assert len(known["sha256"]) == 64


@pytest.mark.usefixtures("fast_kernels")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_notebook_executes_without_changes(artifact: Artifact, tmp_path: Path) -> None:
    notebook = nbformat.read(write_artifact(artifact, "ipynb", tmp_path), as_version=4)
    done = NotebookClient(notebook, timeout=60, extra_arguments=["--log-level=ERROR"]).execute()
    assert [cell.source for cell in done.cells] == [cell.source for cell in notebook.cells]


def test_notebook_contains_no_html_image_or_unsafe_link(artifact: Artifact) -> None:
    cells = json.loads(artifact_bytes(replace(artifact, content=HOSTILE), "ipynb"))["cells"]
    text = "".join("".join(cell["source"]) for cell in cells)
    assert "![" not in text
    assert not re.search(r"<\w", text)
    assert "](javascript" not in text


@pytest.mark.parametrize(
    ("artifact_id", "name"),
    [
        ("research_report", "research_report.html"),
        ("../../etc/passwd", "etc_passwd.html"),
        ("..", "artifact.html"),
        ("a b/c\\d:e", "a_b_c_d_e.html"),
        ("温度计", "温度计.html"),
        ("x" * 300, f"{'x' * 80}.html"),
        ("-rf", "-rf.html"),
    ],
)
def test_file_is_named_after_its_artifact(artifact: Artifact, artifact_id: str, name: str) -> None:
    """The name never leads out of the folder."""
    assert document_name(artifact_document(replace(artifact, artifact_id=artifact_id)), "html") == name


def test_file_is_overwritten_only_on_request(
    artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the existing file."""
    monkeypatch.chdir(tmp_path)
    path = write_artifact(artifact, "md")
    assert path == tmp_path / "research_report.md"
    path.write_text("mine")
    with pytest.raises(UsageError, match=r"research_report.md' already. Pass overwrite=True"):
        write_artifact(artifact, "md")
    assert path.read_text() == "mine"
    write_artifact(artifact, "md", path, overwrite=True)
    assert path.read_text() == TEXT


def test_missing_folder_is_named_in_the_error(artifact: Artifact, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere/x.md' cannot be written: No such file or directory"):
        write_artifact(artifact, "md", tmp_path / "nowhere" / "x.md")


@pytest.mark.parametrize("name", ["x" * 300, f"{'x' * 300}/a.md", "a\0b", "a\ud800b"])
def test_invalid_path_is_a_usage_error(artifact: Artifact, tmp_path: Path, name: str) -> None:
    """The name is too long or has invalid characters."""
    with pytest.raises(UsageError, match="cannot be used: .* Pass an absolute path"):
        write_artifact(artifact, "md", f"{tmp_path}/{name}")


def test_file_name_is_limited_in_bytes(artifact: Artifact, tmp_path: Path) -> None:
    """A letter can have four bytes."""
    wide = replace(artifact, artifact_id="\U00020000" * 100)
    assert write_artifact(wide, "ipynb", tmp_path).is_file()


@pytest.mark.parametrize("overwrite", [True, False])
def test_full_disk_leaves_the_old_file(artifact: Artifact, tmp_path: Path, overwrite: bool) -> None:
    """No draft remains."""
    target = tmp_path / "a.md"
    if overwrite:
        target.write_text("mine")
    large = replace(artifact, content="x" * 100_000)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1][1]))
    try:
        with pytest.raises(UsageError, match="cannot be written: File too large"):
            write_artifact(large, "md", target, overwrite=overwrite)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before[1])
        signal.signal(signal.SIGXFSZ, before[0])
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == ({"a.md": "mine"} if overwrite else {})


def test_symbolic_link_stays_a_link(artifact: Artifact, tmp_path: Path) -> None:
    """The target of the link is replaced and keeps its permissions."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a.md").write_text("mine")
    (tmp_path / "there" / "a.md").chmod(0o640)
    (tmp_path / "a.md").symlink_to("there/a.md")
    write_artifact(artifact, "md", tmp_path / "a.md", overwrite=True)
    assert (tmp_path / "a.md").is_symlink()
    assert (tmp_path / "there" / "a.md").read_text() == TEXT
    assert (tmp_path / "there" / "a.md").stat().st_mode & 0o777 == 0o640


def test_unknown_format_lists_known_formats(artifact: Artifact) -> None:
    """The error lists the known formats."""
    with pytest.raises(UsageError, match="Unknown export format 'pdf'. Pass one of: md, html, docx, ipynb"):
        artifact_bytes(artifact, "pdf")


def test_invalid_unicode_is_exported_in_every_format(artifact: Artifact) -> None:
    """The text has a lone surrogate and control characters."""
    broken = replace(artifact, content="a\ud800b\x00c\x0b\n\n# d\x1f", title="t\ud800\x00")
    for form in EXPORT_FORMATS:
        assert artifact_bytes(broken, form)


def test_wide_formulas_shrink_in_print(artifact: Artifact) -> None:
    """A formula that is wider than a page of paper has the factor by which it shrinks; other formulas have none."""
    terms = " + ".join(rf"\frac{{a_{{{n}}}}}{{b_{{{n}}}}}" for n in range(40))
    page, short = (
        artifact_bytes(replace(artifact, content=f"$$y = {tex}\\text{{\u00a0}}$$"), "html").decode()
        for tex in (terms, "x")
    )
    (factor,) = map(float, re.findall(r'style="--af-fit: ([\d.]+)"', page))
    assert 0.3 < factor < 0.9
    assert "af-display" in short
    assert "--af-fit:" not in short
    assert "font-size: calc(1em * var(--af-fit, 1))" in page.partition("@media print")[2]


@pytest.mark.timed
@pytest.mark.parametrize("form", EXPORT_FORMATS)
@pytest.mark.parametrize("part", ["## Heading\n\n", "- item\n", "| a |\n|---|\n| b |\n\n", "$x_1$ **b** ", "> " * 9])
def test_export_takes_time_in_proportion_to_its_length(artifact: Artifact, form: str, part: str) -> None:
    """Each cell, item, table and piece costs the same, however many there are."""

    def seconds(size: int) -> float:
        long = artifact_document(replace(artifact, content=part * (size // 4)))
        start = time.process_time()
        EXPORT_FORMATS[form].make(long)
        return time.process_time() - start

    check_linear(seconds)
    document = artifact_document(artifact)
    assert document.sha256 is document.sha256  # each cell of a notebook has it, so it is computed once
