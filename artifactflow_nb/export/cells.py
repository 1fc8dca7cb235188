"""A document as a notebook: a Markdown cell for each of its chapters or parts, harmless wherever it is opened."""

import json
from collections.abc import Iterator
from typing import Any

from markdown_it import MarkdownIt

from artifactflow_nb.export.document import Document, Part
from artifactflow_nb.text.cards import markdown_text
from artifactflow_nb.text.markdown import portable

_CHAPTERS = {"h1", "h2"}


def to_ipynb(document: Document) -> bytes:
    """The notebook, in format 4.5; the same text gives the same bytes."""
    parts = document.parts or [Part(chapter, {}) for chapter in _chapters_of(document)]
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    origin = {**document.about, "sha256": document.sha256}
    notebook = {
        "cells": [_cell(f"{document.sha256[:12]}-{n}", part) for n, part in enumerate(parts)],
        "metadata": {"artifactflow": origin, "kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return (json.dumps(notebook, ensure_ascii=False, indent=1) + "\n").encode("utf-8", "replace")


def _cell(cell_id: str, part: Part) -> dict[str, Any]:
    metadata = {"artifactflow": part.about} if part.about else {}
    source = part.markdown.splitlines(keepends=True)
    return {"cell_type": "markdown", "id": cell_id, "metadata": metadata, "source": source}


def _chapters_of(document: Document) -> list[str]:
    title = [] if document.has_title else [f"# {markdown_text(document.title)}"]
    return [*title, *_chapters(portable(document.markdown))]


def _chapters(markdown: str) -> Iterator[str]:
    """The text, cut before each heading of the first two levels that stands in nothing else."""
    lines = markdown.split("\n")
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    heads = [token.map[0] for token in tokens if token.tag in _CHAPTERS and token.map and token.level == 0]
    for start, end in zip([0, *heads], [*heads, len(lines)], strict=True):
        if chapter := "\n".join(lines[start:end]).strip("\n"):
            yield chapter
