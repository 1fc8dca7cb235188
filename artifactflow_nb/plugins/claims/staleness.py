"""Outputs that are older than a cell on which they depend, by names and execution counts."""

import ast
import re
from collections.abc import Sequence

from artifactflow_nb.plugins.claims.documents import Cell

_MAGIC = re.compile(r"^\s*[%!?].*$", re.MULTILINE)


def stale_cells(cells: Sequence[Cell]) -> dict[int, int]:
    """Return the cells whose output is older than a cell that defines a name they read, each with that cell."""
    definers: dict[str, int] = {}
    needs: dict[int, set[int]] = {}
    counts = {cell.number: cell.count for cell in cells}
    for cell in cells:
        if cell.kind != "code":
            continue
        defined, used = _names(cell.text)
        needs[cell.number] = {definers[name] for name in used if name in definers}
        definers |= dict.fromkeys(defined, cell.number)
    stale: dict[int, int] = {}
    for number, direct in needs.items():
        count = counts[number]
        if count is None:
            continue
        pending, seen = list(direct), set(direct)
        while pending:
            other = pending.pop()
            newer = counts[other]
            if newer is not None and newer > count:
                stale[number] = other
                break
            pending += needs.get(other, set()) - seen
            seen |= {*pending}
    return stale


def _names(code: str) -> tuple[set[str], set[str]]:
    """Return the names that a cell assigns and the names that it reads; none for code that does not parse."""
    try:
        tree = ast.parse(_MAGIC.sub("", code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set(), set()
    defined: set[str] = set()
    used: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                used.add(name)
            case ast.Name(id=name):
                defined.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                defined.add(name)
            case ast.alias(name=name, asname=asname):
                defined.add(asname or name.partition(".")[0])
            case ast.AugAssign(target=ast.Name(id=name)):
                used.add(name)
    return defined, used
