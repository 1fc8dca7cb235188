"""The texts of blocks: how the offline model writes them, and the sentences that it can quote from them.

::

    > A sentence of a source. [1]

    *A remark of the model.*

    **Sources** (quoted verbatim; no language model was used)

    1. Title of the source — local:its#address

A sentence that another block quoted keeps the address of its source; a sentence that a person wrote has the address of
its block, `@Report / Method`. A report of a language model cites by number, as `[1]`, and lists its sources; a sentence
quoted from it loses the numbers, and the list is not quoted.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from artifactflow_nb.core.document.tree import PATH_SEPARATOR
from artifactflow_nb.models.offline.phrases import PHRASES, UNUSED
from artifactflow_nb.sources.citation_marks import SOURCES_HEADING
from artifactflow_nb.sources.citations import NO_SOURCES_READ, SourceQuotes, read_sources
from artifactflow_nb.sources.retrieval.sentences import split_sentences


@dataclass(frozen=True, slots=True)
class BlockText:
    """The path and the Markdown text of a block."""

    path: str
    content: str

    @property
    def name(self) -> str:
        """The block's own name."""
        return self.path.rpartition(PATH_SEPARATOR)[2]


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence with the title and the address of its source."""

    sentence: str
    title: str
    address: str


# --- texts of the offline model --------------------------------------------------------------------------------------

_QUOTE = re.compile(r"\A> (.*) \[(\d+)\]\Z")
_SOURCE = re.compile(r"^(\d+)\. (.*) — ((?:local:|https?://)\S+|@.+)$", re.MULTILINE)
_LIST_HEADINGS = tuple(f"**{phrases['sources']}** (" for phrases in PHRASES.values())
_REPORT_MARKS = tuple(
    mark
    for phrases in PHRASES.values()
    for mark in (phrases["offline"], f"**{phrases['sources']}** ({phrases['quoted_read']})")
)
_REPORT_REMARKS = (
    *("searched", "searched_none", "absent", "not_read"),
    *("problem", "report_failed", "in_report", "offline"),
)
_REMARK = re.compile(
    "|".join(
        ".*".join(map(re.escape, re.split(r"\{\w+\}", phrases[name])))
        for phrases in PHRASES.values()
        for name in _REPORT_REMARKS
    ),
    re.DOTALL,
)


def write_text(quotes: Sequence[Quote], remarks: Iterable[str], heading: str) -> str:
    """Write the text of a block: quotes in order, remarks, and under the heading the sources."""
    titles = {quote.address: quote.title for quote in reversed(quotes)}
    addresses = list(dict.fromkeys(quote.address for quote in quotes))
    parts = [f"> {quote.sentence} [{addresses.index(quote.address) + 1}]" for quote in quotes]
    parts += [f"*{remark}*" for remark in remarks]
    sources = "\n".join(f"{n}. {titles[address]} — {address}" for n, address in enumerate(addresses, 1))
    return "\n\n".join([*parts, *([heading, sources] if addresses else [])])


def split_quotes(quotes: Iterable[SourceQuotes]) -> list[Quote]:
    """Split the quotes of sources into quotes of one sentence each."""
    return [Quote(sentence, entry.title, entry.address) for entry in quotes for sentence in entry.sentences]


def is_offline_text(content: str) -> bool:
    """Return whether the offline model wrote a text, also after edits by a person."""
    return any(remark in content for remark in UNUSED)


def is_report(content: str) -> bool:
    """Return whether a text comes from research: a report, or a text rewritten from the sources of a report."""
    if any(mark in content for mark in _REPORT_MARKS):
        return True
    return not is_offline_text(content) and bool(_citation_numbers(content, _split_paragraphs(content)))


def is_source_list(content: str) -> bool:
    """Return whether a text lists the sources that were read for a report."""
    return content.strip() == NO_SOURCES_READ or bool(read_sources(content))


def text_title(content: str) -> str:
    """Return the heading at the start of a text, which is the question of a report; empty if there is none."""
    match = _TITLE.search(content)
    return match[1].rstrip("# ") if match else ""


# --- sentences to quote ----------------------------------------------------------------------------------------------


def quotes_from(text: BlockText) -> list[Quote]:
    """Return the sentences of a block's text in order: its quotes, and the sentences that were written in it."""
    if is_source_list(text.content):
        listed = [(source, split_sentences(source.text)) for source in read_sources(text.content)]
        return [Quote(part.quote, source.title, source.address) for source, parts in listed for part in parts]
    quotes: list[Quote] = []
    sources = {number: (title, address) for number, title, address in _SOURCE.findall(text.content)}
    paragraphs = _split_paragraphs(text.content)
    numbers = _citation_numbers(text.content, paragraphs)
    is_below_heading = False
    for paragraph, is_listed in paragraphs:
        quote = _QUOTE.match(paragraph)
        is_italic = paragraph.startswith("*") and paragraph.endswith("*") and not paragraph.startswith("**")
        is_source = is_listed or (is_below_heading and _SOURCE.match(paragraph))
        if quote and quote[2] in sources:
            quotes.append(Quote(quote[1], *sources[quote[2]]))
        elif paragraph.startswith(_LIST_HEADINGS):
            is_below_heading = True
        elif not (is_italic or is_source or _REMARK.fullmatch(paragraph)):
            sentences = split_sentences(_without_citations(paragraph, numbers))
            quotes += [Quote(sentence.quote, text.name, f"@{text.path}") for sentence in sentences]
    return quotes


# --- citations by number ---------------------------------------------------------------------------------------------

_TITLE = re.compile(r"\A\s*#{1,6}\s+(\S.*)$", re.MULTILINE)
_HEADING = re.compile(r"^ {0,3}#{1,6}\s+(\S.*)$|^\*\*([^*\n]+)\*\*:?$")
_CITATION = re.compile(r"\[(\d{1,3}(?:\s*[,;，、–-]\s*\d{1,3})*)\]")
_SPACED_CITATION = re.compile(rf" ?{_CITATION.pattern}")
_LIST_ENTRY = re.compile(r"^\s*(?:[-*+] )?(?:\[\^?(\d{1,3})\]:?|(\d{1,3})[.)])\s+\S")
_PARAGRAPH_BREAK = re.compile(r"\n\s*\n")
_DIGITS = re.compile(r"\d+")
_RULE = re.compile(r"(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,}")
_CODE = re.compile(r"(`[^`\n]*`)")


def _split_paragraphs(content: str) -> list[tuple[str, bool]]:
    """Split a text into paragraphs, each with a flag for lists of sources (by heading or cited numbers)."""
    cited, is_below_heading, paragraphs = _cited_numbers(content), False, []
    for text in map(str.strip, _PARAGRAPH_BREAK.split(content)):
        first, _, rest = text.partition("\n")
        heading = _HEADING.match(first)
        if heading:
            is_below_heading = SOURCES_HEADING.fullmatch((heading[1] or heading[2]).strip("# :：")) is not None
        elif _RULE.fullmatch(first):
            is_below_heading = False
        lines = (rest if heading else text).splitlines()
        is_cited_list = bool(lines) and all(_entry_number(line) in cited for line in lines)
        paragraphs.append((text, is_below_heading or is_cited_list))
    return paragraphs


def _citation_numbers(content: str, paragraphs: list[tuple[str, bool]]) -> frozenset[str]:
    """Return the cited numbers in the list of sources; all if the list is unnumbered, none without a list."""
    cited = _cited_numbers(content)
    listed = {_entry_number(line) for text, is_listed in paragraphs if is_listed for line in text.splitlines()}
    if listed - {""}:
        return cited & listed
    return cited if listed else frozenset()


def _entry_number(line: str) -> str:
    """Return the number at the start of a line of a list of sources; empty if there is none."""
    match = _LIST_ENTRY.match(line)
    return (match[1] or match[2]) if match else ""


def _cited_numbers(content: str) -> frozenset[str]:
    """Return the numbers in square brackets, except at the start of a line."""
    lines = (_LIST_ENTRY.sub("", line) for line in content.splitlines())
    return frozenset(number for line in lines for marks in _CITATION.findall(line) for number in _DIGITS.findall(marks))


def _without_citations(text: str, numbers: frozenset[str]) -> str:
    """Remove the citations of these numbers from a text, except in code."""

    def replacement(match: re.Match[str]) -> str:
        return "" if numbers.issuperset(_DIGITS.findall(match[0])) else match[0]

    parts = _CODE.split(text)  # code is at the odd places
    return "".join(part if n % 2 else _SPACED_CITATION.sub(replacement, part) for n, part in enumerate(parts))
