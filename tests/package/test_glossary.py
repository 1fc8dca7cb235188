"""The glossary names existing classes and files; neither package nor tests use replaced words as identifiers."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import artifactflow_nb as af

PACKAGE = Path(af.__file__).parent
TESTS = Path(__file__).parents[1]
GLOSSARY = (Path(__file__).parents[2] / "docs" / "glossary.md").read_text(encoding="utf-8")
ENTRIES = re.findall(r"^- \*\*(.+?)\*\*(.*)$", GLOSSARY, re.MULTILINE)

DIALECT = frozenset(
    {
        *("told", "said", "given", "kept", "held", "beside", "anew", "begun", "taken", "asked", "made"),
        *("one", "what", "which", "how", "why", "who"),
    }
)
"""Words that say nothing as the name of a function, a parameter or a variable; glossary.md has the terms."""


def code_spans(text: str) -> list[str]:
    """The texts in backticks."""
    return re.findall(r"`([^`]+)`", text)


@cache
def class_homes() -> dict[str, list[Path]]:
    """The files that define each class name of the package."""
    homes: dict[str, list[Path]] = {}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(path)
    return homes


def declared_names(tree: ast.AST) -> Iterator[str]:
    """The names of functions, parameters and assigned variables, loop variables and attributes included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def test_glossary_defines_each_term_once() -> None:
    terms = [term for term, _ in ENTRIES]
    assert len(terms) > 100
    assert sorted(terms) == sorted(set(terms))


def test_every_path_of_the_glossary_exists() -> None:
    paths = [span for span in code_spans(GLOSSARY) if re.fullmatch(r"[\w/]+(\.py|/)|\w+\.py", span)]
    assert paths
    assert [path for path in paths if not (PACKAGE / path).exists()] == []


def test_every_class_of_the_glossary_exists() -> None:
    names = {span for span in code_spans(GLOSSARY) if re.fullmatch(r"[A-Z]\w+", span)}
    assert len(names) > 50
    assert sorted(names - class_homes().keys()) == []


def test_glossary_entries_name_a_file_that_defines_their_class() -> None:
    homes = class_homes()
    for term, text in ENTRIES:
        bracket = re.match(r" \(([^)]*)\):", text)
        paths = [PACKAGE / span for span in code_spans(text) if "/" in span or span.endswith(".py")]
        for name in code_spans(bracket[1]) if bracket else []:
            assert any(home == path or path in home.parents for home in homes[name] for path in paths), (term, name)


@pytest.mark.parametrize("folder", [PACKAGE, TESTS], ids=["package", "tests"])
def test_no_identifier_is_a_word_of_the_dialect(folder: Path) -> None:
    """An underscore in front makes no difference. docs/glossary.md has the terms."""
    files = [path for path in folder.rglob("*.py") if "node_modules" not in path.parts]
    assert len(files) > 300
    names = {
        f"{path.relative_to(folder)}: {name}"
        for path in files
        for name in declared_names(ast.parse(path.read_text(encoding="utf-8")))
        if name.strip("_") in DIALECT
    }
    assert sorted(names) == []
