"""The structure of the package: imports between rooms, public names and lazy loading."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import artifactflow_nb as af

PACKAGE = Path(af.__file__).parent

ROOMS = [
    "__main__",
    "testing",
    "notebook/magics",
    "notebook/workbench",
    "notebook/sealed_run",
    "plugins/acp",
    "plugins/mcp_server",
    "server",
    "plugins",
    "plugins/studies",
    "plugins/ablation",
    "plugins/library",
    "plugins/graders",
    "plugins/rates",
    "plugins/subscription",
    "plugins/claims",
    "plugins/crate",
    "plugins/data",
    "plugins/graphs",
    "plugins/literature",
    "plugins/otel",
    "plugins/projects",
    "notebook",
    "widgets",
    "widgets/home",
    "widgets/chat",
    "widgets/artifacts",
    "widgets/conversations",
    "widgets/run",
    "widgets/forms",
    "widgets/page",
    "export",
    "analysis/compare",
    "analysis/plots",
    "analysis/frames",
    "analysis",
    "recording",
    "engine",
    "flows/plan",
    "flows/research",
    "flows",
    "agents",
    "agents/prompts",
    "tools/mcp",
    "tools/web",
    "tools",
    "models/offline",
    "models/openai",
    "models",
    "sources",
    "sources/formats",
    "sources/retrieval",
    "store",
    "core/toolcalls",
    "core/redaction",
    "core",
    "core/text",
    "core/language",
    "errors",
]
"""The rooms from the top down: a module imports from its own room and from rooms below it, also for type checkers."""

HOMES = {
    "openai": {"models"},
    "genai_prices": {"models"},
    "trafilatura": {"sources"},
    "pypdfium2": {"sources"},
    "bibtexparser": {"plugins"},
    "citeproc": {"plugins"},
    "duckdb": {"plugins"},
    "fsspec": {"plugins"},
    "distributed": {"plugins"},
    "google": {"plugins"},
    "rocrate": {"plugins"},
    "opentelemetry": {"plugins"},
    "langgraph": {"flows", "engine", "plugins"},
    "langchain_core": {"flows", "engine", "plugins"},
    "aiosqlite": {"engine"},
    "sqlite3": {"plugins", "store", "sources", "recording", "engine", "analysis", "notebook"},
    "pandas": {"analysis", "plugins"},
    "matplotlib": {"analysis", "notebook", "plugins"},
    "ipywidgets": {"widgets"},
    "anywidget": {"widgets"},
    "IPython": {"widgets", "notebook", "plugins"},
    "latex2mathml": {"core"},
    "linkify_it": {"core"},
    "pygments": {"core"},
    "docx": {"export"},
    "defusedxml": {"tools"},
    "mcp": {"tools", "plugins"},
    "mcp_types": {"tools"},
    "acp": {"plugins"},
    "starlette": {"server", "plugins"},
    "uvicorn": {"server"},
    "jupyter_server": {"server", "plugins"},
    "tornado": {"server"},
}
"""The rooms that may import a library."""


def room_of(module: str) -> str:
    """The room of a dotted module name below the package; the longest that is listed."""
    parts = module.split(".")
    return next((room for n in (2, 1) if (room := "/".join(parts[:n])) in ROOMS), "")


def imported_modules(path: Path) -> Iterator[str]:
    """The dotted names of all imports in a module, also within functions and for type checkers."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def test_every_folder_is_a_room() -> None:
    """A new folder, such as that of a flow, has a line in `ROOMS`."""
    assert {f"{path.parent.parent.name}/{path.parent.name}" for path in PACKAGE.glob("*/*/*.py")} <= {*ROOMS}


def forbidden_imports(path: Path) -> Iterator[str]:
    """Say what is wrong with the imports of a module."""
    module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    room = room_of(module)
    if not room:
        yield f"{module} is in no room"
        return
    for name in imported_modules(path):
        package, _, rest = name.partition(".")
        if package == "artifactflow_nb" and (other := room_of(rest)) and ROOMS.index(other) < ROOMS.index(room):
            yield f"{module} imports {name}, which is above it"
        if package in HOMES and room.split("/")[0] not in HOMES[package]:
            homes = ", ".join(sorted(HOMES[package]))
            yield (
                f"{module} imports {name}, which only {homes} may import: take its result as an argument, or a "
                "callable that returns it"
            )


def test_imports_point_down() -> None:
    """A module imports from its own room or from rooms below, and a library only in the rooms that it belongs to."""
    assert [fault for path in MODULES for fault in forbidden_imports(path)] == []


FLOW_FOLDERS = tuple(f"flows.{path.parent.name}" for path in PACKAGE.glob("flows/*/spec.py"))

USERS_OF_FLOWS = {
    "engine.__init__": "offers the class `ExtendableGraph` of the research flow",
    "engine.flow_registry": "lists the flows",
    "plugins.projects.research": "asks the research flow for a call of `run_research`",
    "plugins.graphs.state": "stores the to-do list of a graph as a plan, with the ledger of the plan flow",
}
"""The modules outside of the built-in flows that may import one, each with its reason."""


def test_generic_code_imports_no_built_in_flow() -> None:
    """The core, the engine, the loop, the frames and the views know plans and blocks, but not the flows."""
    users = set()
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        names = {name.removeprefix("artifactflow_nb.") for name in imported_modules(path)}
        if not module.startswith(FLOW_FOLDERS) and any(name.startswith(FLOW_FOLDERS) for name in names):
            users.add(module)
    assert users == USERS_OF_FLOWS.keys()


def is_private(name: str) -> bool:
    """Return whether a library may change this name in any release."""
    package, *parts = name.split(".")
    is_private_part = any(part.startswith("_") and not part.startswith("__") for part in parts)
    return package not in {"artifactflow_nb", "__future__"} and (package.startswith("_") or is_private_part)


def test_no_private_name_of_a_library_is_imported() -> None:
    """A library may change or remove modules and names with a leading underscore in any release."""
    assert [(str(path), name) for path in MODULES for name in imported_modules(path) if is_private(name)] == []


def test_package_folder_shows_the_rooms_and_little_else() -> None:
    """The package folder has at most 20 entries."""
    entries = {path.name for path in PACKAGE.iterdir()} - {"__pycache__"}
    assert len(entries) <= 20, sorted(entries)


def test_front_door_names_exist() -> None:
    """Every public name can be imported, and an unknown name is an AttributeError."""
    assert len(set(af.__all__)) == len(af.__all__)
    assert all(getattr(af, name) is not None for name in af.__all__)
    assert set(af.__all__) <= set(dir(af))
    with pytest.raises(AttributeError, match="no attribute 'Wrokbench'"):
        _ = af.Wrokbench


def test_import_loads_no_heavy_library() -> None:
    """The import alone loads none of the libraries that take time."""
    heavy = ["openai", "langgraph", "pandas", "pydantic", "ipywidgets", "anywidget", "IPython", "aiosqlite"]
    code = f"import artifactflow_nb, sys, json; print(json.dumps([m for m in {heavy!r} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_javascript_stays_small_and_loads_nothing() -> None:
    """Modules have at most 200 lines, and no asset names an address on the internet."""
    for path in (*(PACKAGE / "widgets" / "static").iterdir(), *(PACKAGE / "widgets" / "labextension").rglob("*.js*")):
        text = path.read_text(encoding="utf-8")
        assert path.suffix != ".js" or text.count("\n") <= 200, path
        assert "http://" not in text.replace("http://www.w3.org", ""), path
        assert "https://" not in text, path
