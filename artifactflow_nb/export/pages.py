"""HTML and notebook export.

The page loads and runs nothing, and has the reader's light or dark colour scheme; the notebook has a sanitised Markdown
cell per part or chapter of the document.
"""

import json
from importlib.resources import files
from typing import Any

from markdown_it import MarkdownIt

from artifactflow_nb.core.text.cards import cell_markdown
from artifactflow_nb.core.text.chinese import language_tag
from artifactflow_nb.core.text.content_style import content_style
from artifactflow_nb.core.text.markdown import escape, escape_with_language, safe_markdown
from artifactflow_nb.export.document import DocumentPart, ExportDocument
from artifactflow_nb.sources.citation_marks import Citations, listed_sources

# A second barrier after the sanitiser: even if markup got through, the browser would load and run nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_CHAPTER_TAGS = {"h1", "h2"}


def to_html(document: ExportDocument) -> bytes:
    """Convert a document to an HTML page."""
    body = Citations(listed_sources(document.markdown), document.evidence).apply(document.html)
    style = (files("artifactflow_nb.export") / "page.css").read_text(encoding="utf-8") + content_style(body)
    heading = "" if document.has_title else f"<h1>{escape_with_language(document.title)}</h1>"
    return f"""<!doctype html>
<html lang="{language_tag(document.content[:4000]) or "en"}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{escape(document.title)}</title>
<style>
{style}</style>
</head>
<body>
<main>
{heading}{body}
</main>
<footer>{escape(document.origin)}</footer>
</body>
</html>
""".encode()


def to_ipynb(document: ExportDocument) -> bytes:
    """Convert a document to a notebook in format 4.5; equal documents give equal bytes."""
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    origin = {**document.metadata, "sha256": document.sha256}
    notebook = {
        "cells": [
            _cell(f"{document.sha256[:12]}-{n}", part) for n, part in enumerate(document.parts or _parts(document))
        ],
        "metadata": {"artifactflow": origin, "kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return (json.dumps(notebook, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "replace")


def _parts(document: ExportDocument) -> list[DocumentPart]:
    """The title, and the text split before each top-level heading of level 1 or 2, but not in lists or quotations."""
    markdown = safe_markdown(document.markdown)
    lines = markdown.split("\n")
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    heads = [token.map[0] for token in tokens if token.tag in _CHAPTER_TAGS and token.map and token.level == 0]
    chapters = [] if document.has_title else [f"# {cell_markdown(document.title)}"]
    for start, end in zip([0, *heads], [*heads, len(lines)], strict=True):
        chapters.append("\n".join(lines[start:end]).strip("\n"))
    return [DocumentPart(chapter, {}) for chapter in chapters if chapter]


def _cell(cell_id: str, part: DocumentPart) -> dict[str, Any]:
    metadata = {"artifactflow": part.metadata} if part.metadata else {}
    source = part.markdown.splitlines(keepends=True)
    return {"cell_type": "markdown", "id": cell_id, "metadata": metadata, "source": source}
