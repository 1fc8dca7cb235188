"""Code as sections: Python source by top-level class or function, and Jupyter notebooks by cell with its text output.

The tokens of Python are found by a regular expression, not with `ast`, which would print warnings below the current
cell and rejects code of other Python versions.
"""

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

import orjson

from artifactflow_nb.sources.formats.markdown import split_by_length
from artifactflow_nb.sources.formats.sections import (
    AnchorAllocator,
    DocumentSection,
    ExtractedDocument,
    UnreadableFile,
    title_from_path,
)
from artifactflow_nb.sources.retrieval.passages import split_blocks

_TOKEN = re.compile(
    r"#[^\n]*"
    r"|(?P<quote>\"\"\"|''')(?:[^\\]|\\.)*?(?P=quote)"
    r"|(?P<open>\"\"\"|''')"
    r"|\"(?:[^\\\n\"]|\\.)*\"|'(?:[^\\\n']|\\.)*'"
    r"|(?P<deeper>[(\[{])|(?P<back>[)\]}])"
    r"|^(?:(?P<decorator>@)|(?:class|(?:async[ \t]+)?def)[ \t]+(?P<name>\w+)|(?P<other>[^\s#)\]}]))",
    re.DOTALL | re.MULTILINE,
)
_DOCSTRING = re.compile(r"\s*(?:#[^\n]*\n\s*)*[rR]?(\"\"\"|''')\s*([^\n]*?)\s*(?:\1|\n)")
_TITLE_CHARS = 120


def split_by_definitions(source: str, path: PurePath) -> ExtractedDocument:
    """Return a section for each top-level class and function, with its decorators and the comments right above it.

    Code before the first definition is `module`, code between two of them `code`. Source with an unterminated string or
    bracket is not Python: it is split as plain text.
    """
    starts: list[tuple[int, str]] = [(0, "")]  # of each section, with the name of its class or function
    decorated: int | None = None
    depth = 0
    for token in _TOKEN.finditer(source):
        kind = token.lastgroup
        depth += (kind == "deeper") - (kind == "back")
        if kind == "open" or depth < 0:
            return split_by_length(source, path)
        if depth or kind not in {"decorator", "name", "other"}:
            continue
        if kind == "decorator":
            decorated = token.start() if decorated is None else decorated
        elif kind == "name" or starts[-1][1]:
            begin = token.start() if decorated is None else decorated
            while begin and source.startswith("#", above := source.rfind("\n", 0, begin - 1) + 1):
                begin = above
            starts.append((max(begin, starts[-1][0]), token["name"] or ""))
            decorated = None
    if depth:
        return split_by_length(source, path)
    anchors = AnchorAllocator()
    docstring = _DOCSTRING.match(source)
    title = docstring[2].rstrip(".")[:_TITLE_CHARS] if docstring else ""
    title = title or title_from_path(path)
    ends = [*(start for start, _ in starts[1:]), len(source)]
    sections = []
    for n, ((start, name), end) in enumerate(zip(starts, ends, strict=True)):
        text = source[start:end].rstrip()
        if text.strip():
            anchor = anchors.allocate(name or ("code" if n else "module"))
            sections.append(DocumentSection(anchor, name or title, text.strip("\n")))
    return ExtractedDocument(title, tuple(sections))


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
