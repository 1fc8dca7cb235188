"""The front door is true: the README's code runs, its files exist, its settings are those of the code."""

import re
from pathlib import Path
from typing import Any

import pytest

import artifactflow_nb as af
from artifactflow_nb.settings import VARIABLES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.usefixtures("tmp_path")  # it writes where it runs
async def test_the_python_of_the_readme_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cells run one after the other, as in a notebook whose approvals are given in the person's place."""
    cells = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, Any] = {}
    monkeypatch.setenv("AF_APPROVALS", "approve")
    for cell in cells:
        body = "\n".join(f"    {line}" for line in cell.splitlines())
        exec(f"async def cell():\n    global af, wb, run\n{body}", names)  # noqa: S102 - the README's own code
        await names["cell"]()
    run, wb = names["run"], names["wb"]
    assert isinstance(run, af.Run)
    assert isinstance(wb, af.Workbench)
    assert run.status == "completed"
    assert "research_report" in run.artifacts
    wb.close()


def test_every_file_that_the_readme_names_exists() -> None:
    """Pictures and links lead somewhere."""
    targets = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).is_file()] == []


def test_every_setting_is_in_the_readme() -> None:
    """The table names every variable that is read."""
    assert [name for name in VARIABLES.values() if f"`{name}`" not in README] == []
