"""Notebooks, Jupytext files and Markdown reports, read without executing anything, and the cells that are stale."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from symtable import symtable
from typing import Any

from artifactflow_nb.errors import UsageError, brief

MOST_BYTES = 300_000_000
_MOST_CELLS = 20_000
_MAGIC = re.compile(r"^\s*[%!?].*$", re.MULTILINE)
_PERCENT = re.compile(r"^# ?%%(.*)$", re.MULTILINE)
_TEXT_SUFFIXES = frozenset({".md", ".py", ".rmd", ".qmd"})


@dataclass(frozen=True)
class Cell:
    """A cell: its position from 0, kind (markdown, code, raw), source, stored outputs and execution count."""

    number: int
    kind: str
    text: str
    outputs: Sequence[Mapping[str, Any]] = ()
    count: int | None = None


@dataclass(frozen=True)
class Document:
    """A file: its cells with prose, the cells with outputs (of the paired notebook for Jupytext), its JSON."""

    path: Path
    cells: Sequence[Cell]
    code: Sequence[Cell] = ()
    content: Mapping[str, Any] = field(default_factory=dict)


def read_document(path: str | Path) -> Document:
    """Read a notebook or a text.

    Errors: `UsageError` for a file that cannot be read, or is not what its name says.
    """
    path = Path(path)
    if path.suffix == ".ipynb":
        content = _read_json(path)
        cells = list(_cells(content, path))
        return Document(path, [cell for cell in cells if cell.kind == "markdown"], cells, content)
    if path.suffix.lower() not in _TEXT_SUFFIXES:
        raise UsageError(f"{path} is neither a notebook (.ipynb) nor a text (.md, .py of Jupytext). Name another file.")
    text = read_text(path)
    cells = list(_percent_cells(text)) if path.suffix == ".py" else [Cell(0, "markdown", text)]
    paired = path.with_suffix(".ipynb")
    is_paired = path.suffix == ".py" or bool(re.match(r"---\n(?:.*\n){0,40}?jupytext:", text))
    code = read_document(paired).code if is_paired and paired.exists() else ()
    return Document(path, [cell for cell in cells if cell.kind == "markdown"], code)


def read_text(path: Path) -> str:
    """Read a text file; `UsageError` if it cannot be read, is too large or is not UTF-8."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UsageError(f"{path} has {path.stat().st_size:,} bytes; at most {MOST_BYTES:,} are read.")
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}. Check the path.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text. Save it as UTF-8.") from None


def _read_json(path: Path) -> Mapping[str, Any]:
    text = read_text(path)
    try:
        content = json.loads(text)
    except RecursionError:
        raise UsageError(f"{path} is nested too deeply for a notebook. Save it again in Jupyter.") from None
    except ValueError as error:
        raise UsageError(f"{path} is not a notebook: {error}. Save it again in Jupyter.") from None
    if not isinstance(content, dict):
        raise UsageError(f"{path} is not a notebook: its JSON is {brief(content)}, not an object with cells.")
    return content


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "".join(part for part in value if isinstance(part, str))
    return value if isinstance(value, str) else ""


def _cells(content: Mapping[str, Any], path: Path) -> Iterator[Cell]:
    cells = content.get("cells")
    if not isinstance(cells, list):
        raise UsageError(f"{path} is no notebook of nbformat 4: it has no list of cells. Save it again in Jupyter.")
    for number, cell in enumerate(cells[:_MOST_CELLS]):
        if not isinstance(cell, dict):
            raise UsageError(f"{path} is not a notebook: cell {number} is {brief(cell)}. Save it again in Jupyter.")
        outputs = cell.get("outputs")
        listed = [each for each in outputs if isinstance(each, dict)] if isinstance(outputs, list) else []
        count = count if isinstance(count := cell.get("execution_count"), int) else None
        yield Cell(number, str(cell.get("cell_type")), _text(cell.get("source")), listed, count)


def _percent_cells(text: str) -> Iterator[Cell]:
    marks = list(_PERCENT.finditer(text))
    for number, (mark, following) in enumerate(zip(marks, [*marks[1:], None], strict=True)):
        body = text[mark.end() : following.start() if following else len(text)]
        is_prose = "[markdown]" in mark[1] or "[md]" in mark[1]
        prose = re.sub(r"^# ?", "", body, flags=re.MULTILINE).strip("\n").removeprefix('"""').removesuffix('"""')
        yield Cell(number, "markdown" if is_prose else "code", prose if is_prose else body)


def output_forms(output: Mapping[str, Any]) -> dict[str, Any]:
    """Return the forms of an output by media type; the form of a stream is text/plain."""
    data = output.get("data")
    if isinstance(data, dict):
        return {kind: value if "json" in kind else _text(value) for kind, value in data.items()}
    return {"text/plain": _text(output.get("text"))}


def stale_cells(cells: Sequence[Cell]) -> dict[int, int]:
    """Return the cells whose output is older than a cell that defines a name they read, each with that cell."""
    definers: dict[str, tuple[int, int]] = {}  # the cell that was executed last of all that a name depends on
    stale: dict[int, int] = {}
    for cell in cells:
        if cell.kind == "code":
            defined, used = _names(cell.text)
            last = max([(cell.count or 0, cell.number), *(definers[name] for name in used if name in definers)])
            if cell.count is not None and last[0] > cell.count:
                stale[cell.number] = last[1]
            definers |= dict.fromkeys(defined, last)
    return stale


def _names(code: str) -> tuple[set[str], set[str]]:
    """Return the names that a cell assigns and the names that it reads; none for code that does not parse."""
    try:
        scopes = [symtable(_MAGIC.sub("", code), "cell", "exec")]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set(), set()
    for scope in scopes:
        scopes += scope.get_children()
    top, every = scopes[0].get_symbols(), [symbol for scope in scopes for symbol in scope.get_symbols()]
    defined = {symbol.get_name() for symbol in top if symbol.is_assigned() or symbol.is_imported()}
    return defined, {symbol.get_name() for symbol in every if symbol.is_referenced()}
