"""The worked examples of CONTRIBUTING.md run as they are written."""

import re
import tempfile
from pathlib import Path

import pytest

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"^## (.+)\n(?:(?!^## )[\s\S])*?^```python\n([\s\S]*?)^```", TEXT, re.MULTILINE))


def test_contributing_has_the_worked_examples() -> None:
    assert list(EXAMPLES) == [
        "Add a tool",
        "Add a search provider",
        "Add an agent with a prompt",
        "Add a flow",
        "Write a plugin with a table",
        "Add a panel that shows one frame",
    ]


@pytest.mark.usefixtures("own_plugins")
@pytest.mark.parametrize("title", EXAMPLES)
def test_worked_example_runs(title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each example checks itself with assertions, in the folder of the test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    exec(compile(EXAMPLES[title], "CONTRIBUTING.md", "exec"), {"__name__": title})  # noqa: S102 - the page's own code


def test_every_file_and_make_target_that_contributing_names_exists() -> None:
    root = Path(__file__).parents[2]
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make ([a-z]+)", TEXT):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for path in re.findall(r"`([a-z_]+/[\w/.]*)`", TEXT):
        assert (root / path).exists() or (root / "artifactflow_nb" / path).exists(), path


def test_plugin_from_outside_is_short() -> None:
    """A plugin with a table, a tool, a frame, a panel and a label is recorded, replayed, sealed and deleted."""
    assert EXAMPLES["Write a plugin with a table"].count("\n") < 120
