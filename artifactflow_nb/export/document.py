"""`ExportDocument`: the common input of all export formats."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from markdown_it import MarkdownIt

from artifactflow_nb.core.language import translate
from artifactflow_nb.core.text.format import format_local_time
from artifactflow_nb.core.text.markdown import MarkdownRenderer
from artifactflow_nb.sources.citation_marks import (
    Citations,
    addresses_of,
    entry_address,
    listed_sources,
    source_entries,
    unread_sentence,
)
from artifactflow_nb.sources.values import Evidence
from artifactflow_nb.store.artifact_versions import Artifact

MAX_LEVEL = 6
_HASHES = re.compile("#{1,6}")
_LAST_HASH = re.compile(r"(?<!\\)#$")


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
        evidence: The texts of the cited sources that the run read.
        parts: Parts of a composed text, in order; empty for a text that is stored as a whole.
        chapters: Parts of the Markdown, in order, each with the text that lists the cited sources; empty for a
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

    @cached_property
    def html(self) -> str:
        """The text as sanitised HTML, without images and scripts."""
        return MarkdownRenderer().html(self.markdown)

    @cached_property
    def marked_markdown(self) -> str:
        """The Markdown, in which the list of sources marks sources that the run has not read."""
        lines = self.markdown.split("\n")
        for entry in source_entries(self.markdown):
            if self.evidence.is_unread(entry_address(entry)):
                n = self.markdown.count("\n", 0, entry.end())
                row = lines[n].rstrip("| ")  # a row of a table
                note = translate("This run has not read this source.")
                lines[n] = f"{row} *{note}*{lines[n][len(row) :].rstrip()}"
        return "\n".join(lines)

    @property
    def cited_html(self) -> str:
        """The HTML with citations, and a line about sources that were not read."""
        parts = [(MarkdownRenderer().html(text), listing) for text, listing in self.chapters]
        parts = parts or [(self.html, self.markdown)]
        cited = [Citations(listed_sources(listing), self.evidence).apply(html) for html, listing in parts]
        # Each chapter of a conversation has its own line about unread sources.
        unread = "" if self.chapters else unread_sentence(set(addresses_of(self.markdown)), self.evidence)
        head = "" if self.chapters else self.evidence.marks.head()
        return head + "\n".join([*cited, MarkdownRenderer().html(f"*{unread}*" if unread else "")])

    @property
    def has_title(self) -> bool:
        """Whether the text starts with a heading of level 1, so that the formats add no title."""
        return self.html.lstrip().startswith("<h1")

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the stored text in hex, equal to the hash in the store."""
        return hashlib.sha256(self.content.encode("utf-8", "surrogatepass")).hexdigest()


def artifact_document(artifact: Artifact, evidence: Evidence | None = None) -> ExportDocument:
    """Build the document of a version of an artifact."""
    names = ("artifact_id", "version", "title", "created_by", "run_id")
    version, author = translate("version {number}", number=artifact.version), artifact.author_label
    return ExportDocument(
        artifact.artifact_id,
        artifact.title,
        artifact.content,
        artifact.markdown,
        artifact.created_by,
        artifact.created_at,
        f"{artifact.artifact_id} version {artifact.version}",
        f"{artifact.artifact_id} · {version} · {author} · {format_local_time(artifact.created_at)}",
        {**{name: getattr(artifact, name) for name in names}, "created_at": artifact.created_at.isoformat()},
        evidence=evidence or Evidence(),
    )


def as_document_part(markdown: str, name: str, level: int) -> str:
    """Shift the headings of a text below the heading of its part, and remove a first heading that repeats the name.

    Args:
        markdown: The text, sanitised by `safe_markdown`.
        name: Name of the part, as plain text.
        level: Level of the part's heading. The highest heading of the text becomes one level lower, and the other
            headings follow, down to level 6.
    """
    lines = markdown.split("\n")
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)  # headings in lists and quotations, too
    headings = [
        (token, tokens[n + 1], token.map[0], token.map[1])
        for n, token in enumerate(tokens)
        if token.type == "heading_open" and token.map
    ]
    if headings:
        token, inline, start, end = headings[0]
        words = "".join(child.content or " " for child in inline.children or () if child.nesting == 0).split()
        is_first = token.level == 0 and not "".join(lines[:start]).strip()
        if is_first and " ".join(words).casefold() == " ".join(name.split()).casefold():
            return as_document_part("\n".join(lines[end:]).strip("\n"), "", level)  # "" equals no heading
    highest = min((int(token.tag[1]) for token, *_ in headings), default=0)
    for token, inline, start, end in reversed(headings):  # from the end: a heading may become shorter by some lines
        hashes = "#" * min(int(token.tag[1]) - highest + level + 1, MAX_LEVEL)
        if token.markup.startswith("#"):
            lines[start] = _HASHES.sub(hashes, lines[start], count=1)
            continue
        # An underlined heading gets hashes, because underlines have two levels only.
        before, has_text, _ = lines[start].partition(inline.content.split("\n")[0])
        prefix = before if has_text else ""  # of a list or quotation
        text = _LAST_HASH.sub(r"\#", " ".join(inline.content.split()))  # a last hash would read as a closing one
        lines[start:end] = [f"{prefix}{hashes} {text}"]
    return "\n".join(lines)
