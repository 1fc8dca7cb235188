"""The site of `make docs`, without MkDocs: pages exist, the API reference is complete, links and outputs convert."""

import importlib.util
import inspect
import pkgutil
import re
import subprocess
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import nbformat
import pytest
import yaml

import artifactflow_nb as af
from artifactflow_nb.plugins import PUBLIC_NAMES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
REFERENCE = "\n".join(page.read_text(encoding="utf-8") for page in sorted((DOCS / "reference").glob("*.md")))
OBJECTS = re.findall(r"^::: (\S+)$", REFERENCE, re.MULTILINE)


def load_hooks() -> ModuleType:
    """The hooks of the site; they import MkDocs only while it builds."""
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "mkdocs" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HOOKS = load_hooks()


def nav_pages(entry: Any) -> list[str]:
    """The pages of a navigation entry."""
    if isinstance(entry, str):
        return [entry]
    children = entry.values() if isinstance(entry, dict) else entry
    return [page for child in children for page in nav_pages(child)]


PAGES = nav_pages(CONFIG["nav"])


def test_pages_of_the_navigation_exist() -> None:
    sources = HOOKS.page_sources()
    assert PAGES
    assert [page for page in PAGES if not (ROOT / sources.get(page, f"docs/{page}")).is_file()] == []


def test_every_page_is_in_the_navigation_once() -> None:
    """The navigation has the pages of `docs/`, of the root and of the notebooks."""
    written = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    generated = {page for page in HOOKS.page_sources() if page.endswith(".md")}
    assert sorted(PAGES) == sorted(written | generated)


def test_every_public_name_is_in_the_api_reference() -> None:
    documented = {name.removeprefix("artifactflow_nb.") for name in OBJECTS}
    modules = {"plots": "analysis.plots.public", "extend": "plugins.extend", "graders": "plugins.graders"}
    modules = {name: modules.get(name, name) for name in af.__all__ if inspect.ismodule(getattr(af, name))}
    for module, path in modules.items() - {("testing", "testing")}:  # the page has the module as a whole
        offered = set(getattr(getattr(af, module), "__all__", ())) - set(af.__all__)
        missing = {name for name in offered if f"{path}.{name}" not in documented}
        assert {name for name in missing if callable(getattr(getattr(af, module), name))} == set(), module
    of_plugins = {name for name, module in PUBLIC_NAMES.items() if f"{module}.{name}" in documented}
    assert set(af.__all__) - documented - set(modules) - of_plugins == {"__version__"}


def test_objects_of_the_api_reference_exist_and_are_documented() -> None:
    assert len(set(OBJECTS)) == len(OBJECTS) > 100
    assert [name for name in OBJECTS if not pkgutil.resolve_name(name).__doc__] == []


def test_site_loads_nothing_from_elsewhere_and_its_folder_is_ignored() -> None:
    """The site has no fonts of another host, and no plugin that could fetch something."""
    assert CONFIG["theme"]["font"] is False
    assert [plugin if isinstance(plugin, str) else next(iter(plugin)) for plugin in CONFIG["plugins"]] == [
        "search",
        "mkdocstrings",
    ]
    assert "http" not in (DOCS / "mkdocs" / "site.css").read_text(encoding="utf-8")
    ignored = subprocess.run(["git", "-C", ROOT, "check-ignore", CONFIG["site_dir"]], capture_output=True, check=False)
    assert ignored.returncode == 0


@pytest.mark.parametrize(
    ("page", "markdown", "expected"),
    [
        ("index.md", "[log](../CHANGELOG.md)", "[log](changelog.md)"),
        ("contributing.md", "[log](CHANGELOG.md#a)", "[log](changelog.md#a)"),
        (
            "architecture.md",
            "[rules](../tests/package/test_layers.py) of [us](glossary.md)",
            "rules of [us](glossary.md)",
        ),
        ("guide/tools.md", "[first](../../notebooks/01_quickstart.ipynb)", "[first](../notebooks/01_quickstart.md)"),
        ("notebooks/03_branching.md", "![Tree](../docs/tree.png)", "![Tree](../tree.png)"),
        (
            "notebooks/03_branching.md",
            "[1](01_quickstart.ipynb) [2](http://a.org/b.md)",
            "[1](01_quickstart.md) [2](http://a.org/b.md)",
        ),
        (
            "notebooks/02_tools_and_approvals.md",
            "![Card](../tests/browser/screenshots/ask-card-light.png)",
            "![Card](../screenshots/ask-card-light.png)",
        ),
        ("index.md", '```python\nframe["a"](columns)\n```', '```python\nframe["a"](columns)\n```'),
    ],
)
def test_links_lead_to_pages_of_the_site(page: str, markdown: str, expected: str) -> None:
    assert HOOKS.relink(markdown, page) == expected


def test_outputs_of_a_notebook_are_put_into_the_page(tmp_path: Path) -> None:
    """Each output has its best form: SVG, then HTML, then text."""
    data: list[dict[str, Any]] = [
        {"text/plain": "'<b>'"},
        {"text/plain": "x", "text/html": "<p>card</p>"},
        {"text/plain": "x", "text/html": "y", "image/svg+xml": "<svg></svg>"},
    ]
    outputs = [nbformat.v4.new_output("display_data", forms) for forms in data]
    outputs.append(nbformat.v4.new_output("stream", text="printed\n"))
    cells = [nbformat.v4.new_markdown_cell("# Title"), nbformat.v4.new_code_cell("1 + 1", outputs=outputs)]
    notebook = tmp_path / "page.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), notebook)
    markdown = HOOKS.notebook_markdown("notebooks/page.md", notebook)
    assert markdown.startswith("# Title\n\n```python\n1 + 1\n```\n\n")
    content = "".join(f"<p>{line}</p>" for line in markdown.split("\n\n")[2:])
    page = SimpleNamespace(file=SimpleNamespace(src_uri="notebooks/page.md"))
    html = HOOKS.on_page_content(content, page=page)
    bodies = re.findall(r'<div class="af-output">(.*?)</div>', html, re.DOTALL)
    assert [body.strip() for body in bodies] == [
        "<pre><code>&#x27;&lt;b&gt;&#x27;</code></pre>",
        "<p>card</p>",
        "<svg></svg>",
        "<pre><code>printed\n</code></pre>",
    ]
