"""The shape of search results, fetched sources and quotes as text, and its reader.

It stands below tools and models because both sides speak it: tools write what a search or a fetch gave, a model reads
it and reports quotes. Every text can be read back without ambiguity: a hit is three labelled lines, a source says how
many characters follow.
"""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from artifactflow_nb.text.relevance import WordCounts
from artifactflow_nb.text.sentences import collapse
from artifactflow_nb.text.words import term_of

_HIT = re.compile(r"^\d+\. (.*)\n   Address: (\S+)\n   Snippet: ?(.*)$", re.MULTILINE)
_COUNTED = re.compile(r"^Words in the (\d+) passages searched: (.*)$", re.MULTILINE)
_WORD_COUNT = re.compile(r"‘([^’]*)’ in (\d+)")
_SOURCE = re.compile(r'<source address="([^"]*)" (?:error="([^"]*)"/>|title="([^"]*)" characters="(\d+)">\n)')
_QUOTED = re.compile(r"^\d+\. (.*)\n   Address: (\S+)\n((?:   > .*\n?)+)", re.MULTILINE)
_ADDRESS = re.compile(r"\b(?:local:|https?://)[^\s<>\"'`]+")


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A source that a search found.

    Attributes:
        title: Its title.
        address: What it is fetched and cited by: `local:<source_id>#<section>` or a URL.
        snippet: A short piece of its text, on one line.
    """

    title: str
    address: str
    snippet: str


@dataclass(frozen=True, slots=True)
class Document:
    """A fetched source.

    Attributes:
        address: As it was asked for.
        title: Its title; empty if it could not be fetched.
        text: Its text, verbatim.
        error: Why there is no text; None if there is.
    """

    address: str
    title: str = ""
    text: str = ""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Quotes:
    """Verbatim sentences of one source, white space collapsed."""

    title: str
    address: str
    sentences: tuple[str, ...]


def addresses_in(text: str) -> list[str]:
    """The addresses that a text names, each once, in order."""
    return list(dict.fromkeys(found.rstrip(".,;:!?)]") for found in _ADDRESS.findall(text)))


def write_hits(hits: Sequence[SearchHit]) -> str:
    """The hits as a numbered list; `read_hits` reads it back."""
    return "\n\n".join(
        f"{n}. {collapse(hit.title)}\n   Address: {hit.address}\n   Snippet: {collapse(hit.snippet)}"
        for n, hit in enumerate(hits, 1)
    )


def read_hits(text: str) -> list[SearchHit]:
    """The hits in a text that holds what `write_hits` wrote."""
    return [SearchHit(title, address, snippet) for title, address, snippet in _HIT.findall(text)]


def write_counts(spelled: Mapping[str, str], counts: WordCounts) -> str:
    """One line that says in how many passages each word, as it was spelled, occurs; a word in none is telling."""
    words = [f"‘{spelled.get(term, term)}’ in {n}" for term, n in counts.counts.items()]
    return f"Words in the {counts.n_passages} passages searched: {', '.join(words)}"


def read_counts(text: str) -> WordCounts | None:
    """The counts in a text that holds what `write_counts` wrote; None if there are none."""
    merged: dict[str, int] = {}
    n_passages = 0
    for n, words in _COUNTED.findall(text):
        n_passages = max(n_passages, int(n))
        merged.update({term_of(word): int(count) for word, count in _WORD_COUNT.findall(words)})
    return WordCounts(n_passages, merged) if n_passages else None


def write_documents(documents: Iterable[Document]) -> str:
    """Each source in a block of its own, its text untouched; `read_documents` reads it back."""
    return "\n\n".join(_write_document(document) for document in documents)


def _write_document(document: Document) -> str:
    address = html.escape(document.address)
    if document.error is not None:
        return f'<source address="{address}" error="{html.escape(document.error)}"/>'
    title, length = html.escape(collapse(document.title)), len(document.text)
    return f'<source address="{address}" title="{title}" characters="{length}">\n{document.text}\n</source>'


def read_documents(text: str) -> list[Document]:
    """The sources in a text that holds what `write_documents` wrote; one that was cut off keeps what is there."""
    found: list[Document] = []
    position = 0
    while match := _SOURCE.search(text, position):
        address, error, title, length = match.groups()
        position = match.end()
        if length is None:
            found.append(Document(html.unescape(address), error=html.unescape(error or "")))
            continue
        body = text[position : position + int(length)]
        found.append(Document(html.unescape(address), html.unescape(title), body))
        position += len(body)
    return found


def write_quotes(quotes: Iterable[Quotes]) -> str:
    """Quotes by source as a numbered list; `read_quotes` reads it back."""
    return "\n\n".join(
        "\n".join([f"{n}. {collapse(entry.title)}", f"   Address: {entry.address}", *_quoted(entry.sentences)])
        for n, entry in enumerate(quotes, 1)
    )


def _quoted(sentences: Iterable[str]) -> list[str]:
    return [f"   > {collapse(sentence)}" for sentence in sentences]


def read_quotes(text: str) -> list[Quotes]:
    """The quotes in a text that holds what `write_quotes` wrote."""
    return [
        Quotes(title, address, tuple(line.removeprefix("   > ") for line in lines.splitlines()))
        for title, address, lines in _QUOTED.findall(text)
    ]
