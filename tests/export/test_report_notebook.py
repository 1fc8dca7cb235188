"""The notebook of a run is a readable report that computes its figures from the sealed run next to it."""

import json
import re
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import nbformat
import pytest
from markdown_it import MarkdownIt
from nbclient import NotebookClient
from support.replies import call, report
from support.safe_html import VIEW, harms
from support.sealed_store import CITED, SECRET, make, open_workbench

import artifactflow_nb as af
from artifactflow_nb.core.language import in_language
from artifactflow_nb.errors import CassetteError
from artifactflow_nb.export.report import report_notebook, write_report
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recording.seal import ReadSource, read_sealed

pytestmark = pytest.mark.usefixtures("fast_kernels")

HOSTILE = '<img src="https://hostile.invalid/q.png" onerror="x()"> ![i](https://hostile.invalid/p.png) $x$'

OFFLINE = """\
import socket

def refuse(self, address):
    raise OSError(f"There is no network; {address} was asked for.")

socket.socket.connect = socket.socket.connect_ex = refuse
"""


@dataclass(frozen=True)
class Reported:
    """A folder with the store of some runs, and the report of one of them with its sealed run."""

    folder: Path
    run_id: str
    other_id: str
    notebook: Path
    sealed: Path


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Reported:
    folder = tmp_path_factory.mktemp("report")
    _, second, sibling = make(folder)
    (folder / "out").mkdir()
    with open_workbench(folder / "data", tavily_key=SECRET) as wb:
        notebook = wb.run(second).to_notebook(folder / "out" / "report.ipynb")
    return Reported(folder, second, sibling, notebook, notebook.with_suffix(".afrun"))


def read(notebook: Path) -> Any:
    return nbformat.read(notebook, as_version=4)


def text_of(notebook: Any) -> str:
    return "\n\n".join(cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "markdown")


def outputs(node: Any) -> list[Any]:
    return [cell.outputs for cell in node.cells if cell.cell_type == "code"]


def execute(node: Any, folder: Path) -> Any:
    """Execute in a folder, without a network."""
    node.cells.insert(0, nbformat.v4.new_code_cell(OFFLINE))
    client = NotebookClient(node, timeout=60, resources={"metadata": {"path": str(folder)}}, record_timing=False)
    client.execute()
    del node.cells[0]
    return node


def plain(node: Any) -> str:
    """The outputs of all code cells as text."""
    found = [output for each in outputs(node) for output in each]
    return "\n".join(str(output.get("data", {}).get("text/plain", output)) for output in found)


def test_report_contains_question_answer_artifacts_and_sources(reported: Reported) -> None:
    """Question, answer, artifacts and sources are text, with the addresses unchanged."""
    text = text_of(read(reported.notebook))
    assert text.startswith("# Ask: two\n\n*Asked ")
    assert "## Answer\n\nAnswered with" in text
    assert "<code>rAsktwo</code> · version 2 · lead agent\n\nAsk: two\n\nRead local:notes" in text
    assert f"- Letters: <code>{CITED}</code>".replace("#", "\\#") in text
    assert "[report.afrun](report.afrun)" in text


def test_report_is_a_valid_executed_notebook(reported: Reported) -> None:
    """Every code cell except the one with the parameters has an output, and none is an error."""
    node = read(reported.notebook)
    nbformat.validate(node)
    assert node.metadata["language_info"] == {"name": "python"}  # and not which one executed it
    parameters, *others = [cell for cell in node.cells if cell.cell_type == "code"]
    assert parameters.metadata["tags"] == ["parameters"]
    assert parameters.source == 'SEALED = "report.afrun"'
    assert [len(cell.outputs) for cell in others] == [1] * len(others)
    assert {cell.outputs[0].output_type for cell in others} == {"execute_result"}
    pictures = [cell for cell in others if "af-drawn" in cell.outputs[0].data.get("text/html", "")]
    assert [cell.source.partition("(")[0] for cell in pictures] == ["run.timeline"]


def test_report_reproduces_its_outputs_from_its_two_files(reported: Reported, tmp_path: Path) -> None:
    """The report, executed in a clean folder without a network, gives the same outputs as before."""
    clean = tmp_path / "clean"
    clean.mkdir()
    for file in (reported.notebook, reported.sealed):
        shutil.copy(file, clean)
    fresh = execute(read(clean / "report.ipynb"), clean)
    for now, stored in zip(outputs(fresh), outputs(read(reported.notebook)), strict=True):
        counted = [{**output, "execution_count": None} for output in now]
        assert counted == [{**output, "execution_count": None} for output in stored]
    assert sorted(file.name for file in clean.iterdir()) == ["report.afrun", "report.ipynb"]


def test_parameters_can_be_replaced_as_by_papermill(reported: Reported, tmp_path: Path) -> None:
    """An added cell names another sealed run, and the figures come from that run."""
    with open_workbench(reported.folder / "data") as wb:
        wb.run(reported.other_id).seal(tmp_path / "other.afrun")
    node = read(reported.notebook)
    at = next(n for n, cell in enumerate(node.cells) if "parameters" in cell.metadata.get("tags", ()))
    injected = nbformat.v4.new_code_cell('SEALED = "other.afrun"', metadata={"tags": ["injected-parameters"]})
    node.cells.insert(at + 1, injected)
    text = plain(execute(node, tmp_path))
    assert "Sealed run: Ask: three" in text
    assert reported.other_id in text
    assert reported.run_id not in text


async def test_writing_a_report_again_gives_the_same_bytes(reported: Reported, tmp_path: Path) -> None:
    """The report is written in a running loop, and from an existing sealed file."""
    with open_workbench(reported.folder / "data", tavily_key=SECRET) as wb:
        run = wb.run(reported.run_id)
        again = run.to_notebook(tmp_path / "report.ipynb")
        assert again.read_bytes() == reported.notebook.read_bytes()
        assert again.with_suffix(".afrun").read_bytes() == reported.sealed.read_bytes()
        run.to_notebook(again, sealed=again.with_suffix(".afrun"), replace=True)
        assert again.read_bytes() == reported.notebook.read_bytes()


def test_report_contains_no_secret_and_no_local_path(reported: Reported) -> None:
    written = reported.notebook.read_text(encoding="utf-8")
    assert json.dumps(SECRET, ensure_ascii=False)[1:-1] not in written
    assert SECRET not in written
    assert re.findall(r"/(?:home|root|tmp|Users|var)/[\w./-]*", written) == []


def test_texts_of_a_run_are_sanitised_in_its_report(tmp_path: Path) -> None:
    """Markup in question, answer, artifact and source is plain text; a web address is a link."""
    turns = [call("create_artifact", id="research_report", title=HOSTILE, content=f"# {HOSTILE}"), HOSTILE]
    with open_workbench(tmp_path / "data", model=ScriptedModel(turns)) as wb:
        run = wb.ask(f"{HOSTILE}\n# More").wait(20).approve().wait(20)
        sealed, manifest = read_sealed(run.seal(tmp_path / "run.afrun"))
    address = "https://example.org/a?b=(1)&c=%20*x*"
    sources = tuple(
        ReadSource(entry, entry, HOSTILE, "") for entry in (address, "https://x.invalid/><script>", "local:a#b")
    )
    notebook = report_notebook(replace(sealed, sources=sources), manifest["sha256"], "folder with spaces/run(1).afrun")
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(text_of(notebook))
    file = "folder%20with%20spaces/run%281%29.afrun"
    assert harms(rendered, VIEW) == [f"<a href={file!r}>"]  # the sealed run, and nothing else
    assert '<a href="https://example.org/a?b=(1)&amp;c=%20*x*">' in rendered
    assert 'SEALED = "folder with spaces/run(1).afrun"' in [cell["source"] for cell in notebook["cells"]]


def test_long_question_follows_a_plain_heading(tmp_path: Path) -> None:
    question = "Why? " * 100 + "\n\nAnd so?"
    with open_workbench(tmp_path / "data", model=ScriptedModel(["So."])) as wb:
        sealed, manifest = read_sealed(wb.ask(question).wait(20).seal(tmp_path / "run.afrun"))
    text = text_of(report_notebook(sealed, manifest["sha256"], "run.afrun"))
    assert text.startswith("# Report\n")
    assert question.strip().partition("\n")[2].strip() in text


def test_report_of_a_failed_run_has_its_error(tmp_path: Path) -> None:
    with open_workbench(tmp_path / "data", model=ScriptedModel([""])) as wb:
        sealed, manifest = read_sealed(wb.ask("Fail.").wait(20).seal(tmp_path / "run.afrun"))
    text = text_of(report_notebook(sealed, manifest["sha256"], "run.afrun"))
    assert "## Answer\n\nFailed; there is no answer." in text
    assert "empty answer" in text


def test_headings_of_a_report_have_the_language_of_the_views(tmp_path: Path) -> None:
    """The title of an artifact is not repeated as a heading within its text."""
    turns = [call("create_artifact", id="r", title="渡轮", content="# 渡轮\n\n五元。\n\n## 细节\n\n单程。"), "五元。"]
    with open_workbench(tmp_path / "data", model=ScriptedModel(turns), language="zh") as wb:
        sealed, manifest = read_sealed(wb.ask("多少钱？").wait(20).approve().wait(20).seal(tmp_path / "run.afrun"))
    with in_language("zh"):
        text = text_of(report_notebook(sealed, manifest["sha256"], "run.afrun"))
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        *("# 多少钱？", "## 回答", "## 渡轮", "### 细节", "## 形成过程"),
        *("## 词元、时间和费用", "## 模型调用", "## 工具调用", "## 决定", "## 写成的文稿"),
    ]
    assert "*提问：" in text
    assert "<code>r</code> · 第 1 版 · 主智能体" in text


def test_report_overwrites_no_file(reported: Reported, tmp_path: Path) -> None:
    """For an unfinished run nothing is written."""
    before = reported.notebook.read_bytes()
    with open_workbench(reported.folder / "data") as wb:
        run = wb.run(reported.run_id)
        with pytest.raises(af.errors.UsageError, match=r"There is a file '.*report.ipynb' already. Pass replace=True"):
            run.to_notebook(reported.notebook)
        with pytest.raises(af.errors.UsageError, match="is the name of a sealed run"):
            run.to_notebook(tmp_path / "report.afrun")
        with pytest.raises(af.errors.UsageError, match=f"is the run {reported.run_id}, not {reported.other_id}"):
            wb.run(reported.other_id).to_notebook(tmp_path / "report.ipynb", sealed=reported.sealed)
        with pytest.raises(CassetteError, match="none.afrun"):
            run.to_notebook(tmp_path / "report.ipynb", sealed=tmp_path / "none.afrun")
        (tmp_path / "kept.afrun").write_bytes(b"kept")
        with pytest.raises(af.errors.UsageError, match="kept.afrun"):
            run.to_notebook(tmp_path / "kept.ipynb")
    with (
        open_workbench(tmp_path / "data", model=ScriptedModel([report(), "Done."])) as wb,
        pytest.raises(af.errors.Conflict),
    ):
        wb.ask("Wait?").wait(20).to_notebook(tmp_path / "waiting.ipynb")
    assert reported.notebook.read_bytes() == before
    assert [file.name for file in tmp_path.glob("*.*")] == ["kept.afrun"]


def test_failed_execution_names_the_requirements(
    reported: Reported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the kernel cannot import the package, the error says so and no notebook is written."""
    (tmp_path / "artifactflow_nb.py").write_text("raise ImportError('not here')")
    monkeypatch.delenv("JUPYTER_PATH")  # whose kernels have imported it
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(af.errors.UsageError, match=r"not here(.|\n)*needs a kernel python3 in which artifactflow_nb"):
        write_report(tmp_path / "report.ipynb", reported.run_id, print, sealed=reported.sealed)
    assert not (tmp_path / "report.ipynb").exists()
