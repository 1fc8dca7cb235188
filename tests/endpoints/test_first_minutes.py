"""`make demo` and the first five minutes of the README, unchanged, with nothing but the environment of an endpoint."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from endpoints.brain import THINKING
from endpoints.dialect import KEY, REFUSED, DialectServer
from support.cells import CELLS, run_cells
from support.forked_python import KERNEL_LIBRARIES, fast_python

import artifactflow_nb as af

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST_MINUTES = re.search(r"^## The first five minutes$(.*?)^## ", README, re.DOTALL | re.MULTILINE)
LIBRARIES = (*KERNEL_LIBRARIES, "nbclient", "nbconvert.exporters.html")
HIDDEN = THINKING.split(":", maxsplit=1)[0]


def environment(endpoint: DialectServer) -> dict[str, str]:
    """The variables that the README names, and the answer of a person who approves everything."""
    return {
        "OPENAI_BASE_URL": endpoint.base_url,
        "OPENAI_API_KEY": KEY,
        "AF_MODEL": endpoint.dialect.model,
        "AF_APPROVALS": "approve",
    }


@pytest.mark.usefixtures("tmp_path")  # it writes where it runs
async def test_first_five_minutes(endpoint: DialectServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question gets an answer and a report, and the four views show the run."""
    for name, value in environment(endpoint).items():
        monkeypatch.setenv(name, value)
    assert FIRST_MINUTES is not None
    assert len(CELLS.findall(FIRST_MINUTES[1])) == 3
    names = await run_cells(FIRST_MINUTES[1])
    run, wb = names["run"], names["wb"]
    assert isinstance(run, af.Run)
    assert run.status == "completed"
    assert "exception" in run.artifacts["research_report"].content
    assert HIDDEN not in run.response
    assert set(wb.llm_calls_df(run)["request_model"]) == {endpoint.dialect.model}
    wb.close()
    assert endpoint.sent
    assert endpoint.refused == REFUSED.get((endpoint.dialect.name, "auto"), [])


@pytest.mark.usefixtures("fast_kernels")
@pytest.mark.parametrize("endpoint", ["openai", "mistral", "ollama"], indirect=True)
def test_demo(endpoint: DialectServer, tmp_path: Path) -> None:
    """The quickstart is executed unattended, also with a refused field and without a key; its report is printed."""
    for name in ("notebooks/demo.py", "notebooks/execution.py", "notebooks/01_quickstart.ipynb"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "data" / "handbook", tmp_path / "data" / "handbook")
    demo = subprocess.run(
        [*fast_python(LIBRARIES), str(tmp_path / "notebooks" / "demo.py")],
        env=os.environ | environment(endpoint),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert demo.returncode == 0, demo.stderr
    assert "If the comparison fails, tell the data steward on the same day" in demo.stdout
    assert HIDDEN not in demo.stdout
    assert endpoint.sent
    assert endpoint.refused == REFUSED.get((endpoint.dialect.name, "auto"), [])
    assert (tmp_path / "build" / "01_quickstart.html").is_file()
