"""A plugin can be taken out: the rest of the package works without it, and does not know its nouns."""

import ast
import functools
import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import artifactflow_nb as af
from artifactflow_nb.engine.plugin import BUILT_IN_PLUGINS

PACKAGE = Path(af.__file__).parent

WITHOUT_PLUGIN = r"""
import importlib, pkgutil, sys
from pathlib import Path
import artifactflow_nb as af

folder = Path(sys.argv[1])
assert Path(af.__file__).is_relative_to(folder)
for module in pkgutil.walk_packages(af.__path__, "artifactflow_nb."):
    if module.name != "artifactflow_nb.__main__":
        importlib.import_module(module.name)

from artifactflow_nb.analysis.frames.catalog import all_frames
from artifactflow_nb.analysis.frames.reading import load_frame

papers = folder / "papers"
papers.mkdir()
(papers / "herons.md").write_text("# Herons\n\nHerons wait in shallow water.")
(papers / "refs.bib").write_text("@misc{a, title = {Otters}}")
answer = "It is written [1].\n\n## Sources\n\n1. Herons — local:papers/herons.md#herons"
call = af.ToolCall("create_artifact", {"id": "note", "title": "Note", "content": "Text"})
wb = af.Workbench(
    model=af.ScriptedModel([call, answer], chunk_chars=2), approvals={"create_artifact": "ask"},
    data_dir=folder / "data", record=folder / "runs.jsonl", mode="record", interactive=False,
)
added = wb.sources.add(papers)
assert len(added.sources) + added.unsupported.get(".bib", 0) == 2
assert "shallow water" in wb.sources.search_df("herons")["snippet"][0]
run = wb.ask("Write a note.").wait()
run.approve().wait()
assert run.response == answer
assert (run.citation(1).title, run.citation(1).is_unread) == ("Herons", True)
assert [event.type for event in run.events][-1] == "complete"
assert wb.artifacts(run)["note"].content == "Text"
assert all(load_frame(folder / "data/store.db", frame) is not None for frame in all_frames())
assert run.verify().differences == ()
with af.open_run(run.seal(folder / "run.afrun")) as sealed:
    assert sealed.response == run.response
assert "note" in wb.chat(run).saved_output()["text/html"].lower()
wb.close()
with af.Workbench(replay=folder / "runs.jsonl", interactive=False) as replay:
    again = replay.ask("Write a note.").wait()
    again.approve().wait()
    assert again.response == run.response
"""


@pytest.mark.parametrize("name", BUILT_IN_PLUGINS)
def test_package_works_without_a_plugin(name: str, tmp_path: Path) -> None:
    """A copy without the folder of the plugin and its lines in the list asks, approves, records, replays and reads."""
    copy = tmp_path / "artifactflow_nb"
    modules_of_pytest = shutil.ignore_patterns("*-pytest-*.pyc")
    shutil.copytree(PACKAGE, copy, ignore=modules_of_pytest)  # with the compiled modules
    shutil.rmtree(copy / "plugins" / name)
    noun = name.removesuffix("s")
    for listing in (copy / path for path in THE_LISTS):
        lines = listing.read_text(encoding="utf-8").splitlines(keepends=True)
        listing.write_text(
            "".join(line for line in lines if not re.search(rf"\b{noun}", line.lower())), encoding="utf-8"
        )
    program = [sys.executable, "-c", WITHOUT_PLUGIN, str(tmp_path)]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


THE_LISTS = {"plugins/__init__.py", "plugins/built_in.py"}
"""The files with a line for each plugin, which name what the plugin adds, its value and its accessor."""

SETTINGS = "engine/settings.py"
"""The one place of settings, also of a setting that switches a plugin off."""

OUTLETS = ("plugins/acp/", "plugins/mcp_server/")
"""Plugins for other programs, whose tools and classes have the nouns of other plugins and of these programs."""


@functools.cache
def words_of_identifiers(path: Path) -> frozenset[str]:
    """The words of the names that a module defines, imports, reads or passes, in lower case and in the singular."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.alias(name=name):
                names |= {*name.split(".")}
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", " ".join(names))
    return frozenset(part.lower().removesuffix("s") for part in parts)


@pytest.mark.parametrize("name", BUILT_IN_PLUGINS)
def test_nouns_of_a_plugin_stay_in_its_folder(name: str) -> None:
    """No file outside of the folder has the plugin's nouns in its identifiers, apart from the list of plugins.

    Several plugins can have the same noun.
    """
    folders = [path.parent.name for path in PACKAGE.glob("plugins/*/__init__.py")]
    modules = {each: importlib.import_module(f"artifactflow_nb.plugins.{each}") for each in folders}
    nouns_by_plugin = {each: getattr(module, "NOUNS", frozenset()) for each, module in modules.items()}
    nouns = nouns_by_plugin[name]
    others = [
        path
        for path in PACKAGE.rglob("*.py")
        if not any(
            nouns & words and path.is_relative_to(PACKAGE / "plugins" / each) for each, words in nouns_by_plugin.items()
        )
    ]
    users = {
        str(path.relative_to(PACKAGE))
        for path in others
        if nouns & words_of_identifiers(path) and not str(path.relative_to(PACKAGE)).startswith(OUTLETS)
    }
    assert users <= THE_LISTS | {SETTINGS}
