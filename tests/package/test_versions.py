"""Releases of libraries with known vulnerabilities are neither required nor installed."""

import ast
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import requires, version
from pathlib import Path
from typing import TypeVar

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import artifactflow_nb

SAFE_FROM = {
    "langgraph-checkpoint": "4.0",
    "langgraph-checkpoint-sqlite": "3.0.1",
    "langchain-core": "1.2.22",
    "jupyterlab": "4.6.2",
    "jupyter-server": "2.21",
    "nbconvert": "7.17",
}
"""The first release of each that is free of the holes known in autumn 2026."""

T = TypeVar("T", bound=ast.AST)

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
PACKAGE = Path(artifactflow_nb.__file__).parent


def stated() -> dict[str, Requirement]:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    found = map(Requirement, project["dependencies"])
    return {requirement.name: requirement for requirement in found}


@pytest.mark.parametrize("name", SAFE_FROM)
def test_vulnerable_release_is_neither_required_nor_installed(name: str) -> None:
    """The project requires a release without the vulnerability, and the environment has such a release."""
    lowest = [Version(bound.version) for bound in stated()[name].specifier if bound.operator == ">="]
    assert lowest, f"pyproject.toml gives {name} no lower bound"
    assert max(lowest) >= Version(SAFE_FROM[name])
    assert Version(version(name)) >= Version(SAFE_FROM[name])


def test_installed_package_has_the_same_requirements() -> None:
    """The metadata of the installed package has the requirements of the project file."""
    installed = {found.name: found.specifier for found in map(Requirement, requires("artifactflow-nb") or ())}
    assert {name: stated()[name].specifier for name in SAFE_FROM} == {name: installed[name] for name in SAFE_FROM}


def nodes(kind: type[T]) -> Iterator[T]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, kind):
                yield node


def test_checkpoints_are_not_searched_by_metadata() -> None:
    """No code filters a list of checkpoints, where `filter` builds SQL of its keys; a config contains only a thread."""
    listing = re.compile(r"(saver|checkpointer|graph)\.(a?list|a?get_state_history)")
    listings = [call for call in nodes(ast.Call) if listing.search(ast.unparse(call.func))]
    assert [ast.unparse(call) for call in listings if call.keywords or len(call.args) != 1] == []
    values = [dict(zip(map(_word, node.keys), node.values, strict=True)) for node in nodes(ast.Dict)]
    configs = [value for value in values if "configurable" in value]
    assert len(configs) >= 2
    assert {key for config in configs for key in config} <= {"configurable", "recursion_limit"}
    keys = [getattr(entry["configurable"], "keys", []) for entry in configs]
    ours = [each for each in keys if None not in each]  # else it extends a config of LangGraph
    assert {_word(key) for each in ours for key in each} == {"thread_id"}


def _word(node: ast.expr | None) -> str:
    return ast.unparse(node).strip("'\"") if node else ""
