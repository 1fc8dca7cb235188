"""Text formats for search hits, fetched sources, quotes and lists of sources, with a writer and a parser for each.

Tools and flows write these texts, and the offline model parses them. Parsing is unambiguous: a hit is three labelled
lines, and a source states its number of characters.
"""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import orjson

from artifactflow_nb.core.text.format import clip_words, count, width
from artifactflow_nb.core.text.markdown import safe_markdown_line
from artifactflow_nb.sources.retrieval.scoring import WordCounts
from artifactflow_nb.sources.retrieval.sentences import collapse_whitespace, split_sentences
from artifactflow_nb.sources.retrieval.terms import index_term

_HIT = re.compile(r"^\d+\. (.*)\n   Address: (\S+)\n   Snippet: ?(.*)$", re.MULTILINE)
_COUNTED = re.compile(r"^Words in the ([\d,]+) passages? searched: (.*)$", re.MULTILINE)
_WORD_COUNT = re.compile(r"‘([^’]*)’ in (\d+)")
_SOURCE = re.compile(r'<source address="([^"]*)" (?:error="([^"]*)"/>|title="([^"]*)" characters="(\d+)">\n)')
_QUOTED = re.compile(r"^\d+\. (.*)\n   Address: (\S+)\n((?:   > .*\n?)+)", re.MULTILINE)
_ADDRESS = re.compile(r"\b(?:local:|https?://)[^\s<>\"'`]+")


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A source found by a search.

    Attributes:
        title: Title of the source.
        address: Address for fetching and citing: `local:<source_id>#<section>` or a URL.
        snippet: A short excerpt of the text, on one line.
    """

    title: str
    address: str
    snippet: str


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A fetched source.

    Attributes:
        title: Title of the source; empty if the source could not be fetched.
        error: The reason why there is no text, or None.
    """

    address: str
    title: str = ""
    text: str = ""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class SourceQuotes:
    """Verbatim sentences of one source, with white space collapsed."""

    title: str
    address: str
    sentences: tuple[str, ...]


def find_addresses(text: str) -> list[str]:
    """Return the addresses in a text, in order and without duplicates."""
    return list(dict.fromkeys(address.rstrip(".,;:!?)]") for address in _ADDRESS.findall(text)))


def write_hits(hits: Sequence[SearchHit]) -> str:
    """Format hits as a numbered list, which `read_hits` parses."""
    return "\n\n".join(
        f"{n}. {collapse_whitespace(hit.title)}\n   Address: {hit.address}\n"
        f"   Snippet: {collapse_whitespace(hit.snippet)}"
        for n, hit in enumerate(hits, 1)
    )


def read_hits(text: str) -> list[SearchHit]:
    """Parse the hits of `write_hits` in a text."""
    return [SearchHit(title, address, snippet) for title, address, snippet in _HIT.findall(text)]


def write_counts(spelled: Mapping[str, str], counts: WordCounts) -> str:
    """Format in one line how many passages contain each word of the question, including zeros."""
    words = ", ".join(f"‘{spelled.get(term, term)}’ in {n}" for term, n in counts.counts.items())
    return f"Words in the {count(counts.n_passages, 'passage')} searched: {words}"


def read_counts(text: str) -> WordCounts | None:
    """Parse and merge the counts of `write_counts` in a text; return None for a text without counts."""
    merged: dict[str, int] = {}
    n_passages = 0
    for n, words in _COUNTED.findall(text):
        n_passages = max(n_passages, int(n.replace(",", "")))
        merged.update({index_term(word): int(number) for word, number in _WORD_COUNT.findall(words)})
    return WordCounts(n_passages, merged) if n_passages else None


def write_documents(documents: Iterable[SourceDocument]) -> str:
    """Format each source as an element with its verbatim text, which `read_documents` parses."""
    elements = []
    for document in documents:
        start = f'<source address="{html.escape(document.address)}"'
        if document.error is not None:
            elements.append(f'{start} error="{html.escape(document.error)}"/>')
            continue
        title, length = html.escape(collapse_whitespace(document.title)), len(document.text)
        elements.append(f'{start} title="{title}" characters="{length}">\n{document.text}\n</source>')
    return "\n\n".join(elements)


def read_documents(text: str) -> list[SourceDocument]:
    """Parse the sources of `write_documents` in a text; a truncated source gets the remaining text."""
    documents: list[SourceDocument] = []
    position = 0
    while match := _SOURCE.search(text, position):
        address, error, title, length = match.groups()
        position = match.end()
        if length is None:
            documents.append(SourceDocument(html.unescape(address), error=html.unescape(error or "")))
            continue
        body = text[position : position + int(length)]
        documents.append(SourceDocument(html.unescape(address), html.unescape(title), body))
        position += len(body)
    return documents


def write_quotes(quotes: Iterable[SourceQuotes]) -> str:
    """Format quotes by source as a numbered list, which `read_quotes` parses."""
    entries = []
    for n, entry in enumerate(quotes, 1):
        lines = [f"   > {collapse_whitespace(sentence)}" for sentence in entry.sentences]
        entries.append("\n".join([f"{n}. {collapse_whitespace(entry.title)}", f"   Address: {entry.address}", *lines]))
    return "\n\n".join(entries)


def read_quotes(text: str) -> list[SourceQuotes]:
    """Parse the quotes of `write_quotes` in a text."""
    return [
        SourceQuotes(title, address, tuple(line.removeprefix("   > ") for line in lines.splitlines()))
        for title, address, lines in _QUOTED.findall(text)
    ]


NO_SOURCES_READ = "No source was read."

_EXCERPT_COLUMNS = 600
_LISTED_SOURCE = re.compile(r"^- \*\*(.*)\*\* — (\S+)$(?:\n\n  > (.*)$)?", re.MULTILINE)
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+!|~$])")


def write_sources(documents: Iterable[SourceDocument], report: str) -> str:
    """Format sources as a Markdown list, sources named in the report first; `read_sources` parses the list.

    An entry quotes the first sentences of the source, without headings and tables, or else the first words.
    """
    entries = []
    for document in sorted(documents, key=lambda document: document.address not in report):
        entries.append(f"- **{safe_markdown_line(document.title or document.address)}** — {document.address}")
        quotes = [sentence.quote for sentence in split_sentences(document.text)]
        ends = accumulate(width(quote) + 1 for quote in quotes)
        sentences = " ".join(quotes[: sum(end <= _EXCERPT_COLUMNS for end in ends)])
        if start := safe_markdown_line(sentences or clip_words(" ".join(document.text.split()), _EXCERPT_COLUMNS)):
            entries[-1] += f"\n\n  > {start}"
    return "\n\n".join(entries) or NO_SOURCES_READ


def read_sources(text: str) -> list[SourceDocument]:
    """Parse the list of `write_sources`; the texts of the sources are the excerpts."""
    return [
        SourceDocument(address, _plain(title), _plain(excerpt))
        for title, address, excerpt in _LISTED_SOURCE.findall(text)
    ]


def _plain(line: str) -> str:
    return html.unescape(_ESCAPED.sub(r"\1", line))


def documents_read(tool_calls: Iterable[Mapping[str, Any]]) -> list[SourceDocument]:
    """Return the documents in tool calls (rows of `tool_calls`), in order and without duplicates."""
    read: dict[SourceDocument, None] = {}
    for row in tool_calls:
        results = orjson.loads(row["metadata_json"] or "{}").get("results", ()) if row["success"] else ()
        addresses = {str(result.get("address")) for result in results if isinstance(result, Mapping)}
        documents = read_documents(row["result"] or "") if addresses else []
        read |= dict.fromkeys(doc for doc in documents if doc.error is None and doc.address in addresses)
    return list(read)
