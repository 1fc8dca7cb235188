"""Python source as sections: a top-level class or function each, under its name, and what stands around them.

It is read by its lexical shape, not with `ast`: that would print warnings about the code that it reads into whatever
cell runs now, and it refuses code of other Python versions.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from artifactflow_nb.formats.parts import Anchors, Extracted, Part, name_of
from artifactflow_nb.formats.prose import in_parts

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


class _Broken(Exception):
    """A string or a bracket has no end, or a bracket no beginning."""


@dataclass(frozen=True, slots=True)
class _Section:
    start: int
    name: str  # of the class or function; empty for other statements


def by_definitions(source: str, path: PurePath) -> Extracted:
    """A section for each top-level class and function; what stands before the first is `module`, between two `code`.

    A definition begins with its decorators and the comments right above. Source with a string or a bracket that does
    not end is no Python: it is read as plain text.
    """
    try:
        sections = list(_sections(source))
    except _Broken:
        return in_parts(source, path)
    anchors = Anchors()
    title = _title(source) or name_of(path)
    ends = [*(section.start for section in sections[1:]), len(source)]
    parts = []
    for n, (section, end) in enumerate(zip(sections, ends, strict=True)):
        text = source[section.start : end].rstrip()
        if text.strip():
            anchor = section.name or ("code" if n else "module")
            parts.append(Part(anchors.unused(anchor), section.name or title, text.strip("\n")))
    return Extracted(title, tuple(parts))


def _title(source: str) -> str:
    """The first line of the module's docstring."""
    found = _DOCSTRING.match(source)
    return found[2].rstrip(".")[:_TITLE_CHARS] if found else ""


def _sections(source: str) -> Iterator[_Section]:
    current = _Section(0, "")
    decorated: int | None = None
    for kind, start, name in _statements(source):
        if kind == "decorator":
            decorated = start if decorated is None else decorated
        elif kind == "name" or current.name:
            begin = _with_comments(source, start if decorated is None else decorated)
            yield current
            current, decorated = _Section(max(begin, current.start), name), None
    yield current


def _statements(source: str) -> Iterator[tuple[str, int, str]]:
    """The statements that begin at the left margin: `decorator`, `name` of a definition, or `other`."""
    depth = 0
    for token in _TOKEN.finditer(source):
        kind = token.lastgroup
        if kind == "open":
            raise _Broken
        if kind == "deeper":
            depth += 1
        elif kind == "back":
            depth -= 1
            if depth < 0:
                raise _Broken
        elif kind in {"decorator", "name", "other"} and depth == 0:
            yield kind, token.start(), token["name"] or ""
    if depth:
        raise _Broken


def _with_comments(source: str, start: int) -> int:
    """Where the comment begins that ends on the line above, else `start`."""
    while start:
        above = source.rfind("\n", 0, start - 1) + 1
        if not source.startswith("#", above):
            break
        start = above
    return start
