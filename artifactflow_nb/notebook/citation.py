"""A citation of a report as a value: the source with the cited passage, and the picture of the page."""

import base64
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from artifactflow_nb.core.text.cards import Card, CardMixin, CardRows, Code, Details, MarkdownText
from artifactflow_nb.core.text.markdown import escape, safe_markdown_line
from artifactflow_nb.engine.cited_sources import CitedTexts, export_references
from artifactflow_nb.errors import NotFound, UsageError, brief
from artifactflow_nb.sources.citation_marks import addresses_of, cited_statement, find_passage, listed_sources
from artifactflow_nb.sources.cited_pages import CitedSection, cited_section
from artifactflow_nb.sources.rows import SCHEME
from artifactflow_nb.sources.values import NOT_READ, Evidence


@dataclass(frozen=True, slots=True)
class Citation(CardMixin):
    """A cited source; a cell shows the passage and, for a page of a PDF, the picture of the page.

    Attributes:
        number: The number of the citation in the report.
        title: Title of the source.
        address: Address of the source.
        passage: The cited sentence of the source; the beginning of the source if no sentence matches the report.
        section: The section in the index; None for a web page and for a source that is not in the index.
        is_unread: Whether the run has not read the source, so that the passage is from the index or from a search.
    """

    number: int
    title: str
    address: str
    passage: str
    section: CitedSection | None
    is_unread: bool = False

    def picture(self) -> bytes:
        """Return the page of the PDF as PNG, with the passage marked.

        Errors: `UsageError` if the source is not a page of a PDF; `NotFound` if the file is missing.
        """
        if self.section is None:
            raise UsageError(
                f"{self.address} is not a page of an indexed PDF and has no picture. Read the passage instead."
            )
        return self.section.picture(self.passage)

    def _card(self) -> Card:
        rows: CardRows = [("address", Code(self.address))]
        if self.section is not None and self.section.page:
            rows.append(("page", self.section.page))
        passage = MarkdownText(f"> {safe_markdown_line(self.passage)}") if self.passage else MarkdownText("")
        details = [Details("Passage", passage, is_open=True)] if self.passage else []
        return Card(f"Citation {self.number}", self.title, rows, details, NOT_READ if self.is_unread else "")

    def _repr_html_(self) -> str:
        card = self._card().html()
        if self.section is None or not self.section.page:
            return card
        try:
            data = base64.b64encode(self.picture()).decode()
        except (NotFound, UsageError) as error:
            return f"{card}<p>{escape(str(error))}</p>"
        name = escape(f"Page {self.section.page} of {self.title}")
        style = "max-width: 100%; border: 1px solid rgba(128, 128, 128, 0.4)"
        return f'{card}<img alt="{name}" src="data:image/png;base64,{data}" style="{style}">'


def find_citation(db: sqlite3.Connection, texts: Sequence[str], number: int, evidence: Evidence) -> Citation:
    """Find the source that texts of one run cite by a number, in the lists of sources at the end of the texts.

    Errors: `NotFound` if no text lists a source with this number.
    """
    sources = listed_sources(*texts)
    if not isinstance(number, int) or number not in sources:
        numbers = f"It lists {', '.join(map(str, sorted(sources)))}." if sources else "It lists no sources."
        raise NotFound(f"The text has no source with the number {brief(number)}. {numbers}")
    source = sources[number]
    section = None
    if source.address.startswith(SCHEME):
        try:
            section = cited_section(db, source.address)
        except NotFound:  # the section was removed since, but the run may have read its text
            section = None
    text = evidence.text(source.address) or (section.text if section else "")
    text = text or evidence.snippet(source.address)
    statement = next(filter(None, (cited_statement(each, number) for each in texts)), "")
    beginning, passage, _ = find_passage(statement, text)
    is_unread = evidence.is_unread(source.address)
    return Citation(number, source.title, source.address, passage or beginning, section, is_unread=is_unread)


class CitesSources(ABC):
    """Adds `citation`, `to_bibtex` and `to_csl` to a run or an artifact; subclasses implement `_cited_texts`."""

    __slots__ = ()

    @abstractmethod
    def _cited_texts(self) -> CitedTexts:
        """Return the texts; some texts may list sources."""

    def citation(self, number: int) -> Citation:
        """Return the source that `[number]` cites; for a run, in the answer and in the artifacts that the run wrote.

        A cell shows the passage and, for a PDF, the picture of the page with the passage marked.

        Errors: `NotFound` for a number that no text lists.
        """
        cited = self._cited_texts()
        addresses = addresses_of(*cited.texts)
        return cited.read(lambda db: find_citation(db, cited.texts, number, cited.load_evidence(db, addresses)))

    def to_bibtex(self) -> str:
        """Return the works in the lists of sources as BibTeX; for a run, the lists of the answer and the artifacts.

        A source without a known work, such as a note, has a title and an address. The note of a work says if the run
        has not read the work.
        """
        return str(export_references("BibTeX", self._cited_texts()))

    def to_csl(self) -> list[dict[str, Any]]:
        """Return the works of `to_bibtex` as items of CSL-JSON."""
        return list(export_references("CSL-JSON", self._cited_texts()))
