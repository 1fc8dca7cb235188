"""`af.check_notebook`, the command, the magic and the pytest plug-in."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from IPython.core.error import UsageError as MagicError
from IPython.core.interactiveshell import InteractiveShell
from IPython.testing.globalipapp import start_ipython
from nbformat import v4

import artifactflow_nb as af
from artifactflow_nb.__main__ import main

ROOT = Path(__file__).parents[3]
TABLE = "      mean depth    n\nsite                  \nNord        12.41   41\nSund        14.12   31"
PROSE = (
    "# 1. Results of 2024\nThe mean depth of Nord was 12.9 m. The slope was 0.317, and 9,340 fish were caught.\n\n"
    "Figure 3 and version 1.2.3 are no claims. Is it 41?\n\n- seed: 7\n\n> A quote of 99 words.\n\nWe paid 777 euros."
)


def code(source: str, count: int | None, **forms: Any) -> Any:
    outputs = [v4.new_output("execute_result", forms, execution_count=count)] if forms else []
    return v4.new_code_cell(source, execution_count=count, outputs=outputs)


def write(path: Path, *cells: Any) -> Path:
    nbformat.write(v4.new_notebook(cells=list(cells)), path)
    return path


@pytest.fixture
def paper(tmp_path: Path) -> Path:
    return write(
        tmp_path / "paper.ipynb",
        v4.new_markdown_cell(PROSE),
        code("df", 1, **{"text/plain": TABLE}),
        code("slope", 2, **{"text/plain": "0.31742"}),
        code("summary", 3, **{"application/json": {"fish caught": 9340}, "text/plain": "<JSON>"}),
    )


def statuses(report: Any) -> dict[str, str]:
    return {each.figure: each.status for each in report.checks}


def test_figures_of_the_prose_are_found_in_outputs(paper: Path) -> None:
    report = af.check_notebook(paper)
    assert repr(report) == "4 figures: 2 in an output, 1 differ, 1 nowhere"
    assert statuses(report) == {
        "12.9 m": "differs", "0.317": "supported", "9,340": "supported", "777 euros": "nowhere",
        "3": "unchecked", "1.2.3": "unchecked", "99": "unchecked",
    }  # fmt: skip
    (wrong,) = report.with_status("differs")
    assert (wrong.value, wrong.where) == ("12.41", "cell 1, output 0, row Nord, column mean depth")
    assert report.df.columns.tolist() == ["file", "cell", "text", "figure", "status", "reason", "where", "value"]
    assert "12.41 there, not 12.9 m." in report._repr_html_()


def test_copy_with_marks_leaves_the_notebook_as_it_is(paper: Path, tmp_path: Path) -> None:
    before = paper.read_bytes()
    af.check_notebook(paper, annotate=tmp_path / "marked.ipynb")
    assert paper.read_bytes() == before
    text = nbformat.read(tmp_path / "marked.ipynb", as_version=4).cells[0].source
    assert '12.9 m<sup title="differs: 12.41 there, not 12.9 m.">✗</sup>' in text
    with pytest.raises(af.errors.UsageError, match="is the notebook itself"):
        af.check_notebook(paper, annotate=paper)


def test_output_older_than_a_cell_that_it_reads_is_stale(tmp_path: Path) -> None:
    paper = write(
        tmp_path / "stale.ipynb",
        code("limit = 3", 5),
        code("total = limit * 1234", 2),
        code("total", 3, **{"text/plain": "3702"}),
        v4.new_markdown_cell("The total is 3702."),
    )
    assert statuses(af.check_notebook(paper)) == {"3702": "stale"}
    mass = code("mass", 3, **{"text/plain": "8123"})
    other = write(tmp_path / "other.ipynb", code("x", 1), code("y", 2), mass, v4.new_markdown_cell("The mass is 8123."))
    report = af.check_notebook(paper, other)
    assert statuses(report) == {"3702": "stale", "8123": "supported"}
    assert [each.where for each in report.checks] == [
        "stale.ipynb, cell 2, output 0, column total",
        "other.ipynb, cell 2, output 0, column mass",
    ]


@pytest.mark.parametrize(
    ("prose", "status"),
    [
        ("Nord is 1.71 m shallower, a difference of Sund and Nord.", "supported"),
        ("In total 72 n were counted at Nord and Sund.", "supported"),
        ("The mean depth of Nord was 12.4 m.", "supported"),
        ("The mean depth of Nord was 1,241 cm.", "supported"),
        ("The mean depth of Nord was about 12 m.", "supported"),
        ("The mean depth of Nord in winter after the storm and the flood was 15.3 m.", "nowhere"),
    ],
)
def test_figure_is_rounded_converted_or_derived(prose: str, status: str, tmp_path: Path) -> None:
    paper = write(tmp_path / "a.ipynb", v4.new_markdown_cell(prose), code("df", 1, **{"text/plain": TABLE}))
    assert [each.status for each in af.check_notebook(paper).checks] == [status]


def test_report_and_data_files_belong_to_the_check(paper: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "costs.csv").write_text("item,cost\nboat,777\nnets,81\n")
    (tmp_path / "report.md").write_text("The slope is 0.317. The boat cost 777.\n")
    report = af.check_notebook(paper, tmp_path / "report.md", data=tmp_path / "data")
    by_file = {(Path(each.file).name, each.figure): each for each in report.checks}
    assert by_file["report.md", "0.317"].status == "supported"
    assert by_file["report.md", "777"].where == "costs.csv, row boat, column cost"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not a notebook"),
        (b"[]", "is not a notebook"),
        (b'{"cells": 3}', "has no list of cells"),
        (b'{"cells": [3]}', "cell 0 is 3"),
        (b"[" * 200_000, "nested too deeply"),
        (b"\xff\xfe", "is not UTF-8"),
    ],
)
def test_broken_notebook_ends_in_one_sentence(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.ipynb").write_bytes(content)
    assert main(["check", str(tmp_path / "broken.ipynb")]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_hostile_notebook_is_read_and_its_texts_are_escaped(tmp_path: Path) -> None:
    prose = "The <img src=x onerror=alert(1)> value is 41.5 and " + "9" * 5000 + " " + "[" * 5000 + "1,1" * 3000
    outputs = {"text/plain": "{" * 3000 + "1" * 3000, "text/html": "<table>" * 2000 + "<tr><td>" * 2000}
    paper = write(tmp_path / "hostile.ipynb", v4.new_markdown_cell(prose), code("x(", 1, **outputs))
    report = af.check_notebook(paper)
    assert "<img" not in report._repr_html_()


@pytest.mark.parametrize("form", ["text", "json", "github", "sarif"])
def test_command_prints_each_format_and_ends_with_1_if_a_figure_differs(
    form: str, paper: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", str(paper), "--format", form]) == 1
    out = capsys.readouterr().out
    assert "12.41 there, not 12.9 m." in out
    if form == "json":
        assert json.loads(out)["counts"]["differs"] == 1
    if form == "sarif":
        (run,) = json.loads(out)["runs"]
        assert [result["level"] for result in run["results"]] == ["error", "note"]
    if form == "github":
        assert out.startswith(f"::error file={paper},line=2,title=12.9 m differs::12.41 there")


def test_command_starts_no_engine() -> None:
    program = (
        "import sys; from artifactflow_nb.__main__ import main; main(['check', 'README.md']);"
        "print([name for name in ('langgraph', 'pandas', 'pydantic', 'starlette') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_magic_checks_a_named_notebook_or_that_of_the_session(paper: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    InteractiveShell.clear_instance()  # another test may have left a shell
    shell = start_ipython() or InteractiveShell.instance()
    shell.run_line_magic("load_ext", "artifactflow_nb")
    assert repr(shell.run_line_magic("af", f"check {paper}")) == repr(af.check_notebook(paper))
    monkeypatch.setenv("JPY_SESSION_NAME", str(paper))
    assert repr(shell.run_line_magic("af", "check")) == repr(af.check_notebook(paper))
    monkeypatch.delenv("JPY_SESSION_NAME")
    with pytest.raises(af.errors.UsageError, match="Name it"):
        shell.run_line_magic("af", "check")
    with pytest.raises(MagicError, match="Known:.*check"):
        shell.run_line_magic("af", "chek")


def test_pytest_has_a_test_for_each_cell_with_figures(paper: Path, tmp_path: Path) -> None:
    plugin = "artifactflow_nb.plugins.claims.pytest_plugin"
    command = [sys.executable, "-m", "pytest", "-p", plugin, "-q", "--claims", str(paper), "--rootdir", str(tmp_path)]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "1 failed" in done.stdout, done.stdout + done.stderr
    assert "12.41 there, not 12.9 m." in done.stdout


@pytest.mark.parametrize("page", [*(ROOT / "notebooks").glob("[0-9]*.ipynb"), *(ROOT / "docs" / "guide").glob("*.md")])
def test_no_figure_of_our_own_pages_differs(page: Path) -> None:
    assert af.check_notebook(page).with_status("differs") == []
