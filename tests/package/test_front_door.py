"""The front door: its three tables of public names are the same, and type checkers see each name."""

import ast
from pathlib import Path

import pytest

import artifactflow_nb as af

SOURCE = ast.parse(Path(af.__file__).read_text(encoding="utf-8"))
TYPED_API = ast.parse((Path(__file__).parents[1] / "typing" / "api.py").read_text(encoding="utf-8"))


def assigned(name: str) -> ast.expr:
    """The expression that the front door assigns to a name."""
    values = [
        node.value for node in SOURCE.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
    ]
    assert len(values) == 1
    return values[0]


def checker_imports() -> dict[str, str]:
    """The modules of the names that are imported for type checkers."""
    (block,) = [node for node in SOURCE.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert len(imports) == len(block.body)
    return {alias.asname or alias.name: str(node.module) for node in imports for alias in node.names}


LAZY = {
    name: f"artifactflow_nb.{module}"
    for module, names in ast.literal_eval(assigned("_NAMES")).items()
    for name in names.split()
}


SUBMODULES = ast.literal_eval(assigned("_SUBMODULES"))


def test_all_is_a_literal_with_every_lazily_loaded_name() -> None:
    """`__all__` can be read without executing the module, and names each entry of the table once."""
    names = ast.literal_eval(assigned("__all__"))
    assert names == af.__all__
    assert sorted(names) == sorted({"__version__", *SUBMODULES, *LAZY})


def test_checkers_and_the_lazy_table_find_each_name_in_the_same_module() -> None:
    assert checker_imports() == LAZY | {
        name: f"artifactflow_nb.{module.rpartition('.')[0]}" for name, module in SUBMODULES.items()
    }


@pytest.mark.parametrize("name", LAZY)
def test_public_name_resolves_to_the_object_of_its_module(name: str) -> None:
    assert getattr(af, name).__module__ == LAZY[name]


def test_typed_api_uses_every_public_name() -> None:
    """The module that mypy checks covers the whole front door with at least 60 asserted types."""
    attributes = [node for node in ast.walk(TYPED_API) if isinstance(node, ast.Attribute)]
    used = {node.attr for node in attributes if ast.unparse(node.value) == "af"}
    assert set(af.__all__) - used == set()
    calls = [node for node in ast.walk(TYPED_API) if isinstance(node, ast.Call)]
    assert sum(ast.unparse(call.func) == "assert_type" for call in calls) >= 60
