"""A Jupyter notebook as sections: a cell each, with the text that it put out."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

import orjson

from artifactflow_nb.formats.parts import Extracted, Part, name_of
from artifactflow_nb.formats.unreadable import Unreadable
from artifactflow_nb.text.blocks import blocks

_OUTPUT_CHARS = 2000  # of one cell
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def by_cells(data: bytes, path: PurePath) -> Extracted:
    """A section for each Markdown and code cell that holds anything: `cell-3`, titled by the heading above it.

    A code cell is its source and, below a line `Output:`, the text that it put out, the first 2,000 characters.
    `Unreadable` for what is no notebook.
    """
    title, above = "", name_of(path)
    parts = []
    for n, cell in enumerate(_cells(data), 1):
        text, headings = _read(cell)
        title = title or (headings[0] if headings else "")
        if text.strip():
            parts.append(Part(f"cell-{n}", headings[0] if headings else above, text))
        above = headings[-1] if headings else above
    return Extracted(title or name_of(path), tuple(parts))


def _read(cell: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The cell's text, empty for a raw one, and the headings in it."""
    text = _joined(cell.get("source")).strip("\n")
    if cell.get("cell_type") == "markdown":
        return text, [block.title for block in blocks(text) if block.kind == "heading"]
    return "\n\n".join(filter(None, [text, _output(cell)])) if cell.get("cell_type") == "code" else "", []


def _cells(data: bytes) -> Iterator[Mapping[str, Any]]:
    try:
        notebook = orjson.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        raise Unreadable(f"is no notebook: its JSON is broken in line {error.lineno} ({error.msg})") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise Unreadable("is no notebook of format 4: it has no list of cells")
    return (cell for cell in cells if isinstance(cell, dict))


def _joined(text: Any) -> str:
    """A text of a notebook, which may be a list of its lines."""
    lines = text if isinstance(text, list) else [text]
    return "".join(line for line in lines if isinstance(line, str))


def _output(cell: Mapping[str, Any]) -> str:
    outputs = cell.get("outputs")
    entries = [one for one in outputs if isinstance(one, dict)] if isinstance(outputs, list) else []
    text = _COLOURS.sub("", "\n".join(filter(None, map(_said, entries)))).strip("\n")
    if not text.strip():
        return ""
    cut = f"\n[{len(text) - _OUTPUT_CHARS:,} more characters of output]" if len(text) > _OUTPUT_CHARS else ""
    return f"Output:\n{text[:_OUTPUT_CHARS]}{cut}"


def _said(output: Mapping[str, Any]) -> str:
    """What one output says as text; nothing for a picture or a widget alone."""
    if output.get("output_type") == "error":
        return f"{output.get('ename', '')}: {output.get('evalue', '')}"
    given = output.get("data")
    data = given if isinstance(given, dict) else {}
    return _joined(output.get("text") or data.get("text/markdown") or data.get("text/plain")).strip("\n")
