"""`ExportDocument`: the common input of all export formats."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from artifactflow_nb.core.language import ENGLISH, Texts
from artifactflow_nb.core.text.format import format_time
from artifactflow_nb.core.text.markdown import MarkdownRenderer
from artifactflow_nb.sources.citation_marks import Citations, addresses_of, listed_sources, unread_sentence
from artifactflow_nb.sources.evidence import Evidence
from artifactflow_nb.store.artifact_versions import Artifact


@dataclass(frozen=True, slots=True)
class DocumentPart:
    """A part of a document that becomes a cell of its own in a notebook."""

    markdown: str
    metadata: Mapping[str, Any]


@dataclass(frozen=True)
class ExportDocument:
    """A text with its title and provenance.

    Attributes:
        name: File name without extension; unsafe characters are replaced when the file is written.
        author: Author: an agent, or `user`.
        identifier: Short identifier for the file's metadata.
        metadata: Provenance as JSON values, for programs.
        evidence: The texts of the cited sources that its run read.
        texts: The texts that the export itself writes, in the language of the views.
        parts: Parts of a composed text, in order; empty for a text that is stored as a whole.
        chapters: Parts of the Markdown, in order, each with the text that lists the sources of its numbers; empty for a
            text with one list.
    """

    name: str
    title: str
    content: str
    markdown: str
    author: str
    written_at: datetime
    identifier: str
    origin: str
    metadata: Mapping[str, Any]
    parts: Sequence[DocumentPart] = ()
    evidence: Evidence = field(default_factory=Evidence)
    chapters: Sequence[tuple[str, str]] = ()
    texts: Texts = ENGLISH

    @cached_property
    def html(self) -> str:
        """Text as sanitised HTML, without images and scripts."""
        return MarkdownRenderer().html(self.markdown)

    @property
    def cited_html(self) -> str:
        """The HTML with citations, and a line about sources that were not read."""
        parts = [(MarkdownRenderer().html(text), listing) for text, listing in self.chapters]
        parts = parts or [(self.html, self.markdown)]
        cited = [
            Citations(listed_sources(listing), self.evidence, texts=self.texts).apply(html) for html, listing in parts
        ]
        # Each chapter of a conversation has such a line of its own.
        unread = "" if self.chapters else unread_sentence(set(addresses_of(self.markdown)), self.evidence, self.texts)
        return "\n".join([*cited, MarkdownRenderer().html(f"*{unread}*" if unread else "")])

    @property
    def has_title(self) -> bool:
        """True if the text starts with a heading of level 1, so that the formats add none."""
        return self.html.lstrip().startswith("<h1")

    @property
    def sha256(self) -> str:
        """SHA-256 of the stored text in hex, equal to the hash in the store."""
        return hashlib.sha256(self.content.encode("utf-8", "surrogatepass")).hexdigest()


def artifact_document(artifact: Artifact, evidence: Evidence | None = None, texts: Texts = ENGLISH) -> ExportDocument:
    """Build the document of a version of an artifact."""
    names = ("artifact_id", "version", "title", "created_by", "run_id")
    version, author = texts("version", number=artifact.version), texts.agent(artifact.created_by)
    return ExportDocument(
        artifact.artifact_id,
        artifact.title,
        artifact.content,
        artifact.markdown,
        artifact.created_by,
        artifact.created_at,
        f"{artifact.artifact_id} version {artifact.version}",
        f"{artifact.artifact_id} · {version} · {author} · {format_time(artifact.created_at)}",
        {**{name: getattr(artifact, name) for name in names}, "created_at": artifact.created_at.isoformat()},
        evidence=evidence or Evidence(),
        texts=texts,
    )
