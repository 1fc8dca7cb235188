"""Changes of sources since a run read the sources, and the statements of the report that cite changed sources."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from artifactflow_nb.sources.citation_marks import statements_by_address
from artifactflow_nb.sources.citations import documents_read, find_addresses, read_hits
from artifactflow_nb.sources.excerpt import is_excerpt_of
from artifactflow_nb.sources.retrieval.sentences import collapse_whitespace


@dataclass(frozen=True, slots=True)
class SourceChange:
    """A source that has changed since a run read it.

    Attributes:
        address: Address of the source.
        title: Title of the source.
        kind: `changed`, or `removed` if the address no longer exists.
        statements: The sentences of the run's report that cite the source.
    """

    address: str
    title: str
    kind: Literal["changed", "removed"]
    statements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UncheckedSource:
    """A source that could not be compared; `reason` completes a sentence that starts with the address."""

    address: str
    reason: str


@dataclass(frozen=True, slots=True)
class SourceOfRun:
    """A source that a run used.

    Attributes:
        text: The text that an agent got, whole or as an excerpt.
        is_snippet: Whether an agent saw only sentences of the source, among the results of a search.
    """

    address: str
    title: str
    text: str
    is_snippet: bool = False

    def is_same_as(self, text: str) -> bool:
        """Return whether a text still contains the text that the agent got."""
        if self.is_snippet:
            present = collapse_whitespace(text)
            return all(part.strip() in present for part in collapse_whitespace(self.text).split("…"))
        return is_excerpt_of(self.text, text)


def sources_of_run(tool_calls: Sequence[Mapping[str, Any]], report: str) -> list[SourceOfRun]:
    """Return the sources that agents of a run read, and unread search results that the report cites."""
    used = [SourceOfRun(read.address, read.title, read.text) for read in documents_read(tool_calls)]
    unread = set(find_addresses(report)) - {source.address for source in used}
    for row in tool_calls:
        for hit in read_hits(row["result"] or "") if row["success"] else ():
            if hit.address in unread:
                unread.remove(hit.address)
                used.append(SourceOfRun(hit.address, hit.title, hit.snippet, is_snippet=True))
    return used


def statements_on(texts: Iterable[str]) -> dict[str, list[str]]:
    """Return the sentences of several texts that cite each address."""
    statements: dict[str, list[str]] = {}
    for text in texts:
        for address, sentences in statements_by_address(text).items():
            unique = statements.setdefault(address, [])
            unique += [sentence for sentence in sentences if sentence not in unique]
    return statements
