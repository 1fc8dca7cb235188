"""Public values of local sources: sources, results of indexing, hits and sections."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from artifactflow_nb.core.text.cards import Card, CardMixin, CardRows, CardTable, Code, Details
from artifactflow_nb.core.text.format import count

ProgressCallback = Callable[[int, int, str], object]
"""Called while files are indexed with the number of finished files, the total and the path of the last file."""

_MAX_SKIPPED_IN_MESSAGE = 3
_MAX_KINDS_IN_MESSAGE = 6


@dataclass(frozen=True, slots=True)
class Source:
    """An indexed file, or the language reference.

    Attributes:
        source_id: The part of the source's addresses before `#`.
        uri: The address of the file.
        title: Title of the source.
        fetched_at: Time of indexing, in UTC.
        media_type: `text/markdown`, `text/plain`, `text/html`, `application/pdf`, ...
        n_chars: Length of the text in characters.
        omitted: The parts of the file that are not indexed, such as `2 pictures`, or an empty string.
    """

    source_id: str
    uri: str
    title: str
    fetched_at: datetime
    media_type: str
    n_chars: int
    omitted: str = ""


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that was not read; path and reason form a sentence: `a.md is empty`."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path} {self.reason}"


@dataclass(frozen=True, slots=True, repr=False)
class IndexingResult(CardMixin):
    """The result of indexing a folder.

    Attributes:
        folder: Absolute path of the folder.
        sources: The current sources of the folder, by id; `omitted` of a source lists the parts that are left out.
        added: Number of new sources.
        changed: Number of changed sources.
        unchanged: Number of unchanged sources.
        removed: Number of sources whose files are missing or no longer readable.
        skipped: Files that were not read, by path.
        scope: The scope that limits a search to this folder: `<name>/` for an id prefix, and single ids.
        unsupported: Number of files that are not read because of their kind, by suffix, which may be "".
    """

    folder: str
    sources: tuple[Source, ...]
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    skipped: tuple[SkippedFile, ...] = ()
    scope: tuple[str, ...] = ()
    unsupported: Mapping[str, int] = field(default_factory=dict)

    @property
    def source_ids(self) -> tuple[str, ...]:
        """The ids of the sources."""
        return tuple(source.source_id for source in self.sources)

    @property
    def omitted(self) -> dict[str, str]:
        """The parts of files that are not indexed, by source id: `{"notes/a.docx": "2 pictures"}`."""
        return {source.source_id: source.omitted for source in self.sources if source.omitted}

    def __repr__(self) -> str:
        counts = [f"{getattr(self, name):,} {name}" for name in ("added", "changed", "unchanged", "removed")]
        skipped = f", {len(self.skipped):,} skipped ({summarize_skipped(self.skipped)})" if self.skipped else ""
        lines = [f"{source_id}: {parts}" for source_id, parts in self.omitted.items()]
        omitted = f", {len(lines):,} incomplete ({_summarize(lines)})" if lines else ""
        others = f", {summarize_unsupported(self.unsupported)}" if self.unsupported else ""
        return f"{count(len(self.sources), 'file')} of {self.folder}: {', '.join(counts)}{skipped}{omitted}{others}"

    def _card(self) -> Card:
        rows: CardRows = [(name, getattr(self, name)) for name in ("added", "changed", "unchanged", "removed")]
        if self.unsupported:
            rows.append(("other files", f"{summarize_unsupported(self.unsupported)}. {_SAVE_AS_TEXT}"))
        sources = [(source.title, Code(source.source_id), source.n_chars) for source in self.sources]
        skipped = [(Code(file.path), file.reason) for file in self.skipped]
        folds = [Details(count(len(sources), "source"), CardTable.from_rows(("title", "id", "characters"), sources))]
        if skipped:
            folds.append(Details(f"{len(skipped):,} skipped", CardTable.from_rows(("path", "reason"), skipped)))
        if self.omitted:
            omitted = [(Code(source_id), text) for source_id, text in self.omitted.items()]
            folds.append(Details(f"{len(omitted):,} incomplete", CardTable.from_rows(("id", "left out"), omitted)))
        return Card("Sources", self.folder, rows, folds)


_SAVE_AS_TEXT = "To search in a table or another file, save its text as .md, .txt, .html, .docx or .pdf."


def summarize_skipped(skipped: Sequence[SkippedFile]) -> str:
    """List the first skipped files with their reasons."""
    return _summarize([str(file) for file in skipped])


def _summarize(lines: Sequence[str]) -> str:
    rest = ["..."] if len(lines) > _MAX_SKIPPED_IN_MESSAGE else []
    return "; ".join([*lines[:_MAX_SKIPPED_IN_MESSAGE], *rest])


def summarize_unsupported(unsupported: Mapping[str, int]) -> str:
    """Describe the number of files by suffix: `12 files of kinds that are not read (9 .csv, 3 .png)`."""
    kinds = [f"{n:,} {suffix or 'without suffix'}" for suffix, n in unsupported.items()]
    rest = ["..."] if len(kinds) > _MAX_KINDS_IN_MESSAGE else []
    counts = ", ".join([*kinds[:_MAX_KINDS_IN_MESSAGE], *rest])
    return f"{count(sum(unsupported.values()), 'file')} of kinds that are not read ({counts})"


@dataclass(frozen=True, slots=True)
class SectionHit:
    """A section found by a search.

    Attributes:
        address: Address of the section.
        title: Title of the section and of the source.
        snippet: Best passage, verbatim.
        score: The score of the best passage in the full-text index (bm25); higher is better, comparable within one
            search only. None if a vector found the section.
        passage_id: The number of the passage.
        similarity: Cosine similarity of the vectors of query and passage, at most 1; None if vectors are not used.
    """

    address: str
    title: str
    snippet: str
    score: float | None
    passage_id: int = 0
    similarity: float | None = None


@dataclass(frozen=True, slots=True)
class SourceSection:
    """An indexed section: its address, title and verbatim text."""

    address: str
    title: str
    text: str


NOT_READ = "This run has not read this source."

_INSIGNIFICANT = re.compile(r"^https?://(?:www\.)?|/?(?:#.*)?$")
"""Scheme, fragment and slash at the end of a web address, which do not change the page."""


class TextMarks:
    """Marks at statements of rendered texts. A plugin extends the class; this class marks nothing."""

    def head(self, artifact_id: str = "", version: int = 0) -> str:
        """Return the HTML above a version, or above the only version with marks, which counts the marks."""
        del artifact_id, version
        return ""

    def apply(self, markup: str) -> str:
        """Return a block of sanitised HTML, in which citations are converted already, with marks."""
        return markup


NO_MARKS = TextMarks()


@dataclass(frozen=True, slots=True)
class Evidence:
    """The texts of sources that a run has read or found.

    Attributes:
        texts: The texts of the sources that the run read, by address.
        snippets: Excerpts of sources in search results, by address.
        named: Addresses in the question, or in results of tools other than search and fetch.
        is_complete: Whether `texts` has every source that the run read.
        marks: The marks at the statements of the run's texts.
    """

    texts: Mapping[str, str] = field(default_factory=dict)
    snippets: Mapping[str, str] = field(default_factory=dict)
    named: frozenset[str] = frozenset()
    is_complete: bool = False
    marks: TextMarks = NO_MARKS

    def text(self, address: str) -> str:
        """Return the text of a source, or the part that was read, or an empty string."""
        return _text_of(address, self.texts)

    def snippet(self, address: str) -> str:
        """Return the excerpt of a source in search results, or an empty string."""
        return _text_of(address, self.snippets)

    def is_unread(self, address: str) -> bool:
        """Return whether the run has certainly not read a source."""
        addresses = (*self.texts, *self.named)
        return self.is_complete and not any(is_same_source(read, address) for read in addresses)


def _text_of(address: str, texts: Mapping[str, str]) -> str:
    if address in texts:
        return texts[address]
    return next((text for read, text in texts.items() if is_same_source(read, address)), "")


def is_same_source(read: str, cited: str) -> bool:
    """Return whether two addresses name the same web page, or a file and a section of that file."""
    if read == cited:
        return True
    if read.startswith("local:"):
        return read.partition("#")[0] == cited.partition("#")[0] and not ("#" in read and "#" in cited)
    return _INSIGNIFICANT.sub("", read).lower() == _INSIGNIFICANT.sub("", cited).lower()
