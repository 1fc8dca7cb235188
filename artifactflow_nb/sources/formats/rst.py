"""reStructuredText as sections, split at underlined and overlined headings, without docutils."""

import re
from pathlib import PurePath

from artifactflow_nb.core.text.format import width
from artifactflow_nb.sources.formats.markdown import Heading, split_at
from artifactflow_nb.sources.formats.sections import ExtractedDocument

_ADORNMENT = re.compile(r"([!-/:-@\[-`{-~])\1{2,}")  # any ASCII punctuation
_EXPLICIT_MARKUP = re.compile(r"(?:\.\.(?:[ \t][^\n]*)?\n(?:[ \t]+[^\n]*\n|[ \t]*\n)*|[ \t]*\n)*")
"""Comments, targets and directives, with the indented lines that belong to them."""


def split_by_underlines(text: str, path: PurePath) -> ExtractedDocument:
    """Return a section for each underlined heading; comments and directives above the first one are left out."""
    headings: list[Heading] = []
    lines = text.splitlines(keepends=True)
    start = 0
    for n, line in enumerate(lines):
        title, end = line.rstrip(), start + len(line)
        above, below = (lines[k].rstrip() if 0 <= k < len(lines) else "" for k in (n - 1, n + 1))
        is_overlined = above == below and bool(_ADORNMENT.fullmatch(below))
        if (
            _ADORNMENT.fullmatch(below)
            and title
            and not _ADORNMENT.fullmatch(title)
            and len(below) + 2 >= width(title)  # authors miscount
            and (is_overlined or (not above and not line[0].isspace()))
        ):
            heading_start = start - len(lines[n - 1]) if is_overlined else start
            headings.append(Heading(heading_start, end + len(lines[n + 1]), title.strip()))
        start = end
    preamble = text[: headings[0].start] if headings else text
    return split_at(text, headings, path, "" if _EXPLICIT_MARKUP.fullmatch(preamble) else preamble)
