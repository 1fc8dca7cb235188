"""The sources that were read for a report, as the text of a block: of each its title, its address, how it begins.

It stands below tools and models because both sides speak it: the flow writes it, the offline model reads it back.
"""

import html
import re
from collections.abc import Iterable, Iterator

from artifactflow_nb.text.citations import Document
from artifactflow_nb.text.markdown import portable_line
from artifactflow_nb.text.sentences import sentences
from artifactflow_nb.text.width import clip_words, width

NONE_READ = "No source was read."

_EXCERPT_COLUMNS = 600
_SOURCE = re.compile(r"^- \*\*(.*)\*\* — (\S+)$(?:\n\n  > (.*)$)?", re.MULTILINE)
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+!|~$])")


def write_sources(documents: Iterable[Document], report: str) -> str:
    """The sources as Markdown, those first that a report names; `read_sources` reads it back."""
    in_order = sorted(documents, key=lambda one: one.address not in report)
    return "\n\n".join(map(_written, in_order)) or NONE_READ


def _written(one: Document) -> str:
    excerpt = portable_line(_excerpt(one.text))
    named = f"- **{portable_line(one.title or one.address)}** — {one.address}"
    return f"{named}\n\n  > {excerpt}" if excerpt else named


def _excerpt(text: str) -> str:
    """The first sentences of a text, without headings and tables; of one without sentences how it begins."""
    chosen = list(_first(one.quote for one in sentences(text)))
    return " ".join(chosen) or clip_words(" ".join(text.split()), _EXCERPT_COLUMNS)


def _first(quotes: Iterable[str]) -> Iterator[str]:
    """So many sentences as have room."""
    room = _EXCERPT_COLUMNS
    for quote in quotes:
        room -= width(quote) + 1
        if room < 0:
            return
        yield quote


def read_sources(text: str) -> list[Document]:
    """The sources of a text that `write_sources` wrote, with the excerpts that stand there."""
    return [Document(address, _plain(title), _plain(excerpt)) for title, address, excerpt in _SOURCE.findall(text)]


def _plain(line: str) -> str:
    return html.unescape(_ESCAPED.sub(r"\1", line))
