"""Releases of libraries with known holes are neither asked for nor installed."""

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
def test_no_release_with_a_known_hole_is_asked_for_or_installed(name: str) -> None:
    """The project asks for a release without the hole, and the environment has one."""
    lowest = [Version(bound.version) for bound in stated()[name].specifier if bound.operator == ">="]
    assert lowest, f"pyproject.toml gives {name} no lower bound"
    assert max(lowest) >= Version(SAFE_FROM[name])
    assert Version(version(name)) >= Version(SAFE_FROM[name])


def test_the_installed_package_asks_for_the_same() -> None:
    """What is installed states the requirements of the project file, so that pip keeps to them."""
    installed = {found.name: found.specifier for found in map(Requirement, requires("artifactflow-nb") or ())}
    assert {name: stated()[name].specifier for name in SAFE_FROM} == {name: installed[name] for name in SAFE_FROM}


def nodes(kind: type[T]) -> Iterator[T]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, kind):
                yield node


def test_no_checkpoint_is_searched_for_by_its_metadata() -> None:
    """Nothing calls a checkpointer's listing, whose `filter` builds SQL of its keys; a config names a thread alone."""
    listing = re.compile(r"(saver|checkpointer|graph)\.(a?list|a?get_state_history)")
    assert [ast.unparse(call) for call in nodes(ast.Call) if listing.search(ast.unparse(call.func))] == []
    values = [dict(zip(map(_word, node.keys), node.values, strict=True)) for node in nodes(ast.Dict)]
    configs = [value for value in values if "configurable" in value]
    assert len(configs) >= 2
    assert {key for config in configs for key in config} <= {"configurable", "recursion_limit"}
    assert {_word(key) for one in configs for key in getattr(one["configurable"], "keys", [])} == {"thread_id"}


def _word(node: ast.expr | None) -> str:
    return ast.unparse(node).strip("'\"") if node else ""
