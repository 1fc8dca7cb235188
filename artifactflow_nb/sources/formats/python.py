"""Python source as sections: one per top-level class or function, and the code between them.

The tokens are found by a regular expression, not with `ast`, which would print its warnings below the cell that runs
now and refuses code of other Python versions.
"""

import re
from pathlib import PurePath

from artifactflow_nb.sources.formats.markdown import split_by_length
from artifactflow_nb.sources.formats.sections import (
    AnchorAllocator,
    DocumentSection,
    ExtractedDocument,
    title_from_path,
)

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
