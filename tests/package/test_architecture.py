"""The architecture page follows the code: its functions, files and rooms exist."""

import ast
import re
from pathlib import Path

import artifactflow_nb as af

PACKAGE = Path(af.__file__).parent
DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "architecture.md").read_text(encoding="utf-8")
DRAWINGS = "\n".join(re.findall(r"^```$(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
STEPS = re.findall(r"^[ >─<]*([A-Za-z_]+(?:\.\w+)?) .*?(\w+/[\w/]+\.py)", DRAWINGS, re.MULTILINE)
"""The functions in the drawings of the page, each with its file."""


def defined_names(path: Path) -> set[str]:
    """The classes, functions and methods (`Class.method`) of a file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
            names |= {f"{node.name}.{child.name}" for child in node.body if isinstance(child, ast.FunctionDef)}
            names |= {f"{node.name}.{child.name}" for child in node.body if isinstance(child, ast.AsyncFunctionDef)}
    return names


def test_sequences_of_the_page_are_read() -> None:
    names = {name for name, _ in STEPS}
    assert {"Workbench.ask", "RunDriver.drive", "take_turn", "PageStream.receive", "ApprovalStore.decide"} <= names


def test_each_step_of_a_sequence_is_defined_in_its_file() -> None:
    assert [(name, path) for name, path in STEPS if name not in defined_names(PACKAGE / path)] == []


def test_drawing_shows_every_room() -> None:
    drawn = set(re.findall(r"^[├└]── ([\w.]+?)/? ", PAGE, re.MULTILINE))
    assert {path.name for path in PACKAGE.iterdir()} - {"__pycache__", "py.typed"} == drawn


def test_links_of_the_documents_lead_to_files() -> None:
    for page in [*DOCS.rglob("*.md"), *DOCS.parent.glob("*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).is_file(), f"{page.name} links to {target}"


def test_files_that_security_names_exist() -> None:
    paths = re.findall(r"`(\w+/[\w/]+\.py)`", (DOCS.parent / "SECURITY.md").read_text(encoding="utf-8"))
    assert len(paths) > 20
    assert [path for path in paths if not (PACKAGE / path).exists()] == []
