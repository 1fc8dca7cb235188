"""A Jupyter notebook as sections: one per cell, with its text output."""

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import orjson

from artifactflow_nb.sources.formats.sections import DocumentSection, ExtractedDocument, UnreadableFile, title_from_path
from artifactflow_nb.sources.retrieval.passages import split_blocks

_OUTPUT_CHARS = 2000  # of one cell
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def split_by_cells(data: bytes, path: PurePath) -> ExtractedDocument:
    """Return a section for each Markdown and code cell with text: `cell-3`, titled by the heading above it.

    A code cell consists of its source and, below a line `Output:`, the first 2,000 characters of its text output.

    Errors: `UnreadableFile` for a file that is not a notebook.
    """
    try:
        notebook = orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        raise UnreadableFile(f"is not a notebook: its JSON is broken in line {error.lineno} ({error.msg})") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise UnreadableFile("is not a notebook of format 4: it has no list of cells")
    title, above = "", title_from_path(path)
    sections = []
    for n, cell in enumerate((cell for cell in cells if isinstance(cell, dict)), 1):
        text, headings = _joined(cell.get("source")).strip("\n"), []
        if cell.get("cell_type") == "markdown":
            headings = [block.title for block in split_blocks(text) if block.kind == "heading"]
        elif cell.get("cell_type") == "code":
            text = "\n\n".join(filter(None, [text, _output(cell)]))
        else:
            continue
        title = title or (headings[0] if headings else "")
        if text.strip():
            sections.append(DocumentSection(f"cell-{n}", headings[0] if headings else above, text))
        above = headings[-1] if headings else above
    return ExtractedDocument(title or title_from_path(path), tuple(sections))


def _joined(text: Any) -> str:
    """Return a text of a notebook, which may be stored as a list of its lines."""
    lines = text if isinstance(text, list) else [text]
    return "".join(line for line in lines if isinstance(line, str))


def _output(cell: Mapping[str, Any]) -> str:
    """Return the text output of a code cell, without pictures and widgets."""
    outputs = cell.get("outputs")
    texts: list[str] = []
    for output in outputs if isinstance(outputs, list) else ():
        if not isinstance(output, dict):
            continue
        if output.get("output_type") == "error":
            texts.append(f"{output.get('ename', '')}: {output.get('evalue', '')}")
        else:
            mime_bundle = output.get("data")
            data = mime_bundle if isinstance(mime_bundle, dict) else {}
            text = output.get("text") or data.get("text/markdown") or data.get("text/plain")
            texts.append(_joined(text).strip("\n"))
    text = _COLOURS.sub("", "\n".join(filter(None, texts))).strip("\n")
    if not text.strip():
        return ""
    cut = f"\n[{len(text) - _OUTPUT_CHARS:,} more characters of output]" if len(text) > _OUTPUT_CHARS else ""
    return f"Output:\n{text[:_OUTPUT_CHARS]}{cut}"
