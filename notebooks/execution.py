"""Execution of notebooks, and export of notebooks as HTML that needs no network.

nbconvert's template loads scripts for formulas, diagrams and widgets from a content delivery network. The exported page
has static outputs only, so these scripts are removed.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from artifactflow_nb.errors import UsageError, brief

_SCRIPT = re.compile(r"<script\b.*?</script>", re.DOTALL)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_DIAGRAMS = re.compile(r"<script type=\"module\">(?:(?!</script>).)*?mermaid.*?</script>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ExportedNotebook:
    """Paths of an executed notebook and its HTML page."""

    notebook: Path
    html: Path


def execute(notebook: Path, target_folder: Path, *, timeout_s: float = 300.0) -> ExportedNotebook:
    """Execute a notebook in its own folder, and write the executed notebook and its HTML page.

    The notebook is not changed; a missing folder is created. `timeout_s` is for one cell, in seconds.

    Errors: `UsageError` if the notebook does not exist; nbclient's `CellExecutionError` if a cell fails.
    """
    import nbformat
    from nbclient import NotebookClient

    if not notebook.is_file():
        raise UsageError(f"There is no notebook {brief(str(notebook))}. Pass the path of an .ipynb file.")
    node = _read(notebook)
    client = NotebookClient(node, timeout=timeout_s, record_timing=False, extra_arguments=["--log-level=ERROR"])
    client.resources = {"metadata": {"path": str(notebook.parent)}}
    client.coalesce_streams = True  # the kernel may send the text of one cell in several messages
    client.execute()
    target_folder.mkdir(parents=True, exist_ok=True)
    executed = target_folder / notebook.name
    nbformat.write(node, executed)  # type: ignore[no-untyped-call]
    return ExportedNotebook(executed, export_html(executed))


def export_html(notebook: Path) -> Path:
    """Write a notebook as an HTML page in the same folder, without the template's references to the network."""
    from nbconvert import HTMLExporter

    exporter: Any = HTMLExporter()  # type: ignore[no-untyped-call]
    page, _ = exporter.from_notebook_node(_read(notebook))
    target = notebook.with_suffix(".html")
    head, body = page.split("</head>", 1)
    head = _COMMENT.sub("", _SCRIPT.sub("", head))  # comments of the style sheets contain URLs
    # The template's theme is light. Without the tag, a browser would use dark form controls for some readers.
    head = head.replace("<head>", '<head><meta name="color-scheme" content="light">', 1)
    target.write_text(f"{head}</head>{_DIAGRAMS.sub('', body)}", encoding="utf-8")
    return target


def _read(notebook: Path) -> Any:
    import nbformat

    return nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
