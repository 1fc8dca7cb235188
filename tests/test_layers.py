"""The house: who may import whom, what the front door shows, what is loaded when."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import artifactflow_nb as af

PACKAGE = Path(af.__file__).parent

LAYERS = [
    {
        "messages",
        "errors",
        "ambient",
        "xml_calls",
        "approvals",
        "budget",
        "graph_config",
        "middleware",
        "text",
        "formats",
        "plans",
        "belongings",
        "personas",
        "skills",
        "evaluations",
        "blocks",
        "block_names",
        "delegating",
        "block_needs",
        "block_edits",
        "block_order",
        "block_outline",
        "projects",
        "project_template",
        "origin",
        "mcp_servers",
    }
    | {"call_json", "call_places", "call_reader", "call_values"},
    {"events"},
    {"models", "store", "settings"},
    {"recordings"},
    {"tools"},
    {"agents", "mcp_tools"},
    {"flows"},
    {"checkpoints", "saver", "serializer", "kept", "manifest", "crew", "makers"},
    {"flow_registry", "mcp_bench"},
    {"run_choices"},
    {"drive", "follow"},
    {"driven"},
    {"beginning"},
    {"subruns"},
    {"controller"},
    {"engine"},
    {"engine_thread"},
    {"run_port", "export", "audit"},
    {"run", "run_record", "artifact", "conversation", "lists", "frames", "repro"},
    {"plots", "comparing", "project", "project_belongings", "block_handle", "with_projects"},
    {"widgets"},
    {"views"},
    {"overview", "own_parts"},
    {"workbench", "opened"},
    {"magics"},
]
"""From the ground up; a module imports from its own floor or from below."""

HOMES = {
    "openai": {"models"},
    "trafilatura": {"formats"},
    "pypdf": {"formats"},
    "langgraph": {"flows", "checkpoints", "saver", "serializer"},
    "langchain_core": {"flows"},
    "aiosqlite": {"checkpoints", "saver"},
    "sqlite3": {"store", "recordings", "checkpoints", "saver", "frames", "run_port", "run", "audit"},
    "pandas": {"frames", "plots"},
    "ipywidgets": {"widgets"},
    "anywidget": {"widgets"},
    "IPython": {"widgets", "workbench", "magics", "artifact"},
    "docx": {"export"},
    "mcp": {"mcp_tools"},
    "mcp_types": {"mcp_tools"},
}
"""Where a library may be imported."""


def room(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return parts[0]


def imports(path: Path) -> Iterator[str]:
    """What a module imports when it runs; what only a type checker reads does not count."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    read_by_checker = [
        node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
    ]
    tree.body = [node for node in tree.body if node not in read_by_checker]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path: Path) -> None:
    """A module imports from its own floor or from below, and a library only where it is at home."""
    floor = {name: level for level, names in enumerate(LAYERS) for name in names}
    mine = room(path)
    for name in imports(path):
        package, *rest = name.split(".")
        if package == "artifactflow_nb" and rest:
            assert floor[rest[0]] <= floor[mine], f"{mine} imports {name}, which is above it"
        assert package not in HOMES or mine in HOMES[package], f"{mine} imports {name}"


def test_the_front_door_names_what_there_is() -> None:
    """Every public name can be had, and an unknown one is an AttributeError."""
    assert len(set(af.__all__)) == len(af.__all__)
    assert all(getattr(af, name) is not None for name in af.__all__)
    assert set(af.__all__) <= set(dir(af))
    with pytest.raises(AttributeError, match="no attribute 'Wrokbench'"):
        _ = af.Wrokbench


def test_importing_the_package_loads_nothing_heavy() -> None:
    """The import alone loads none of the libraries that take time."""
    heavy = ["openai", "langgraph", "pandas", "pydantic", "ipywidgets", "anywidget", "IPython", "aiosqlite"]
    code = f"import artifactflow_nb, sys, json; print(json.dumps([m for m in {heavy!r} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_no_function_is_longer_than_a_screen() -> None:
    """Functions are at most 80 lines, files at most 400."""
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        assert text.count("\n") <= 400, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 80, f"{path}: {node.name}"


def test_javascript_stays_small_and_loads_nothing() -> None:
    """Modules have at most 200 lines, and no asset names an address on the internet."""
    for path in (PACKAGE / "widgets" / "static").iterdir():
        text = path.read_text(encoding="utf-8")
        assert path.suffix != ".js" or text.count("\n") <= 200, path
        assert "http://" not in text.replace("http://www.w3.org", ""), path
        assert "https://" not in text, path
