"""Executing a notebook and writing it as a page that needs no network.

nbconvert's template loads scripts for formulas, diagrams and widgets from a content delivery network. A page that was
made here has none of them: its outputs are static.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artifactflow_nb.errors import UsageError

_SCRIPT = re.compile(r"<script\b.*?</script>", re.DOTALL)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_DIAGRAMS = re.compile(r"<script type=\"module\">(?:(?!</script>).)*?mermaid.*?</script>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Exported:
    """Where an executed notebook and its page lie."""

    notebook: Path
    html: Path


def execute(notebook: Path, into: Path, *, timeout_s: float = 300.0) -> Exported:
    """Run a notebook from top to bottom in its own folder, and write it with its outputs and as HTML.

    Args:
        notebook: The notebook; it is not changed.
        into: The folder for the results; made if missing.
        timeout_s: Seconds that one cell may take.

    Errors: `UsageError` if there is no such notebook; nbclient's `CellExecutionError` if a cell fails.
    """
    import nbformat
    from nbclient import NotebookClient

    if not notebook.is_file():
        raise UsageError(f"There is no notebook {str(notebook)!r}.")
    node = _read(notebook)
    where = {"metadata": {"path": str(notebook.parent)}}
    NotebookClient(
        node, timeout=timeout_s, resources=where, extra_arguments=["--log-level=ERROR"], record_timing=False
    ).execute()
    into.mkdir(parents=True, exist_ok=True)
    executed = into / notebook.name
    nbformat.write(node, executed)  # type: ignore[no-untyped-call]
    return Exported(executed, export_html(executed))


def export_html(notebook: Path) -> Path:
    """Write a notebook as a page beside it; what the template would load or name on the internet is left out."""
    from nbconvert import HTMLExporter

    exporter: Any = HTMLExporter()  # type: ignore[no-untyped-call]
    page, _ = exporter.from_notebook_node(_read(notebook))
    target = notebook.with_suffix(".html")
    target.write_text(_declared_light(_without_network(page)), encoding="utf-8")
    return target


def _without_network(page: str) -> str:
    """The page without its template's scripts and without the comments of its style."""
    head, body = page.split("</head>", 1)
    head = _COMMENT.sub("", _SCRIPT.sub("", head))
    return f"{head}</head>{_DIAGRAMS.sub('', body)}"


def _declared_light(page: str) -> str:
    """The page with a word to the browser that its theme is a light one, whatever the reader's system prefers."""
    return page.replace("<head>", '<head><meta name="color-scheme" content="light">', 1)


def _read(notebook: Path) -> Any:
    import nbformat

    return nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
