"""Code as sections: Python source by top-level class or function, and Jupyter notebooks by cell with its text output.

A regular expression finds the tokens of Python, because `ast` would print warnings below the current cell and rejects
code of other Python versions.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from artifactflow_nb.sources.formats.charset import decode_text
from artifactflow_nb.sources.formats.html import read_plain_page
from artifactflow_nb.sources.formats.markdown import split_by_length
from artifactflow_nb.sources.formats.sections import (
    AnchorAllocator,
    DocumentSection,
    ExtractedDocument,
    UnreadableFile,
    list_counts,
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
    """Return a section for each top-level class and function, with decorators and the comments right above.

    Code before the first definition is `module`, code between definitions `code`. Source with an unterminated string
    or bracket is not Python and is split as plain text.
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
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_OVERWRITTEN = re.compile(r"[^\n]*\r")  # of a progress bar


def split_by_cells(data: bytes, path: PurePath) -> ExtractedDocument:
    """Return a section for each cell with text: `cell-3`, titled by the heading above the cell.

    A code cell consists of its source and, below a line `Output:`, the first 2,000 characters of its text output.

    Errors: `UnreadableFile` for a file that is not a notebook.
    """
    try:
        notebook = json.loads(decode_text(data))  # Python writes `NaN` and halves of characters, which orjson refuses
    except json.JSONDecodeError as error:
        raise UnreadableFile(f"is not a notebook: its JSON is broken in line {error.lineno} ({error.msg})") from None
    title, above = "", title_from_path(path)
    sections = []
    omitted: Counter[str] = Counter()
    for n, cell in enumerate(_cells(notebook), 1):
        text, headings = _joined(cell.get("source") or cell.get("input")).strip("\n"), []
        if cell.get("cell_type") == "heading":
            text = f"{'#' * int(cell.get('level') or 1)} {text}"
        if cell.get("cell_type") in {"markdown", "heading"}:
            headings = [block.title for block in split_blocks(text) if block.kind == "heading"]
        elif cell.get("cell_type") == "code":
            text = "\n\n".join(filter(None, [text, _output(cell, omitted)]))
        title = title or (headings[0] if headings else "")
        if text.strip():
            sections.append(DocumentSection(f"cell-{n}", headings[0] if headings else above, text))
        above = headings[-1] if headings else above
    return ExtractedDocument(title or title_from_path(path), tuple(sections), list_counts(omitted))


def _cells(notebook: Any) -> list[dict[str, Any]]:
    """Return the cells of a notebook; before format 4 the cells are in worksheets."""
    sheets = notebook.get("worksheets", [notebook]) if isinstance(notebook, dict) else []
    lists = [sheet["cells"] for sheet in sheets if isinstance(sheet, dict) and isinstance(sheet.get("cells"), list)]
    if not lists:
        raise UnreadableFile("is not a notebook: it has no list of cells")
    return [cell for cells in lists for cell in cells if isinstance(cell, dict)]


def _joined(text: Any) -> str:
    """Return a text of a notebook, which may be stored as a list of its lines."""
    lines = text if isinstance(text, list) else [text]
    return "".join(line for line in lines if isinstance(line, str)).encode(errors="replace").decode()


def _output(cell: Mapping[str, Any], omitted: Counter[str]) -> str:
    """Return the text output of a code cell as Jupyter shows it; count pictures and outputs that are cut."""
    outputs = cell.get("outputs")
    texts: list[str] = []
    for output in outputs if isinstance(outputs, list) else ():
        if not isinstance(output, dict):
            continue
        if output.get("output_type") in {"error", "pyerr"}:
            texts.append(f"{output.get('ename', '')}: {output.get('evalue', '')}")
            continue
        mime_bundle = output.get("data")
        # Before format 4 the names of the forms lack the first part of the type: `html` instead of `text/html`.
        forms = mime_bundle if isinstance(mime_bundle, dict) else {f"text/{kind}": output[kind] for kind in output}
        omitted["picture"] += any(str(kind).rpartition("/")[0] == "image" for kind in forms) or "png" in output
        written = (
            _OVERWRITTEN.sub("", _joined(output.get("text")).replace("\r\n", "\n")),
            read_plain_page(_joined(forms.get("text/html"))).text,
            *(_joined(forms.get(f"text/{kind}")) for kind in ("markdown", "plain", "latex")),  # as Jupyter prefers them
        )
        texts.append(next((text for text in written if text.strip()), "").strip("\n"))
        omitted["output without text"] += not texts[-1] and any(str(kind).startswith("application/") for kind in forms)
    text = _COLOURS.sub("", "\n".join(filter(None, texts))).strip("\n")
    if not text.strip():
        return ""
    omitted["cut output"] += len(text) > _OUTPUT_CHARS
    cut = f"\n[{len(text) - _OUTPUT_CHARS:,} more characters of output]" if len(text) > _OUTPUT_CHARS else ""
    return f"Output:\n{text[:_OUTPUT_CHARS]}{cut}"
