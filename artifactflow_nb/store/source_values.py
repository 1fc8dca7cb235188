"""What local sources are to those who add, search and read them: plain values."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from artifactflow_nb.errors import UsageError
from artifactflow_nb.text.cards import Card, Code, Fold, Rows, Shown, Table
from artifactflow_nb.text.figures import count, moment

Progress = Callable[[int, int, str], object]
"""Told while files are indexed: how many are done, of how many, and the path of the last one."""

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Source(Shown):
    """An indexed file, or the language reference.

    Attributes:
        source_id: The part of its addresses before `#`.
        uri: Where it came from.
        title: Its title.
        fetched_at: When it was indexed, in UTC.
        media_type: `text/markdown`, `text/plain`, `text/html`, `application/pdf`, ...
        n_chars: Characters of its text.
    """

    source_id: str
    uri: str
    title: str
    fetched_at: datetime
    media_type: str
    n_chars: int

    def _card(self) -> Card:
        rows: Rows = [
            ("source_id", Code(self.source_id)),
            ("from", self.uri),
            ("kind", self.media_type),
            ("characters", self.n_chars),
            ("indexed", moment(self.fetched_at)),
        ]
        return Card("Source", self.title, rows)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that is not among the sources, or not all of it; the reason goes on after the path: `is empty`."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path} {self.reason}"


@dataclass(frozen=True, slots=True, repr=False)
class Added(Shown):
    """What adding a folder came to.

    Attributes:
        folder: Its absolute path.
        sources: All sources that the folder now has, by id.
        added: How many of them were new.
        changed: How many had changed.
        unchanged: How many were known as they are.
        removed: How many sources went because their files are gone or cannot be read any more.
        skipped: The files that were passed over, by path; of one that is too long, what was left out.
        scope: What limits a search to this folder: `<name>/` for all ids that begin so, and single ids.
    """

    folder: str
    sources: tuple[Source, ...]
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    skipped: tuple[Skipped, ...] = ()
    scope: tuple[str, ...] = ()

    @property
    def source_ids(self) -> tuple[str, ...]:
        """The ids of the sources."""
        return tuple(source.source_id for source in self.sources)

    def __repr__(self) -> str:
        told = [f"{getattr(self, name):,} {name}" for name in ("added", "changed", "unchanged", "removed")]
        skipped = f", {len(self.skipped):,} skipped ({first_few(self.skipped)})" if self.skipped else ""
        return f"{count(len(self.sources), 'file')} of {self.folder}: {', '.join(told)}{skipped}"

    def _card(self) -> Card:
        rows: Rows = [(name, getattr(self, name)) for name in ("added", "changed", "unchanged", "removed")]
        sources = [(source.title, Code(source.source_id), source.n_chars) for source in self.sources]
        skipped = [(Code(one.path), one.reason) for one in self.skipped]
        folds = [Fold(count(len(sources), "source"), Table.of(("title", "id", "characters"), sources))]
        if skipped:
            folds.append(Fold(f"{len(skipped):,} skipped", Table.of(("path", "reason"), skipped)))
        return Card("Sources", self.folder, rows, folds)


def first_few(skipped: Sequence[Skipped]) -> str:
    """The first of the skipped files with their reasons."""
    return "; ".join(map(str, skipped[:_NAMED])) + ("; ..." if len(skipped) > _NAMED else "")


def nothing_readable(folder: str, kinds: Sequence[str], skipped: Sequence[Skipped]) -> UsageError:
    """The error for a folder, or a single file, that gives no source."""
    reasons = f" {len(skipped):,} skipped: {first_few(skipped)}." if skipped else ""
    return UsageError(
        f"The folder {folder} holds no file that can be read.{reasons} Kinds that can: {', '.join(kinds)}."
    )


@dataclass(frozen=True, slots=True)
class Hit:
    """A section that a search found: its address, title, best passage (verbatim) and score (higher is better)."""

    address: str
    title: str
    snippet: str
    score: float


@dataclass(frozen=True, slots=True)
class Section:
    """A section as it was indexed: its address, title and verbatim text."""

    address: str
    title: str
    text: str
