"""A text on its way into a file, as all its exported forms see it: Markdown, harmless HTML, and where it comes from."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.text.figures import moment
from artifactflow_nb.text.markdown import MarkdownRenderer


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a text that is a cell of its own in a notebook.

    Attributes:
        markdown: The part; harmless already.
        about: What its cell tells programs; JSON values.
    """

    markdown: str
    about: Mapping[str, Any]


@dataclass(frozen=True)
class Document:
    """What a file is made of.

    Attributes:
        name: What its file is called, but for the ending; made safe where it is written.
        title: Its title; plain text.
        content: The text as it is stored.
        markdown: The text as Markdown.
        author: Who wrote it.
        written_at: When.
        identifier: Which text it is, in a few words.
        origin: A line that says where it comes from.
        about: The same for programs; JSON values.
        parts: The text in the parts that it was put together from; empty for a text that was written as a whole.
    """

    name: str
    title: str
    content: str
    markdown: str
    author: str
    written_at: datetime
    identifier: str
    origin: str
    about: Mapping[str, Any]
    parts: Sequence[Part] = ()

    @cached_property
    def html(self) -> str:
        """The text as sanitised HTML: no images, no scripts."""
        return MarkdownRenderer().html(self.markdown)

    @property
    def has_title(self) -> bool:
        """Whether the text itself begins with a heading of the first level."""
        return self.html.lstrip().startswith("<h1")

    @property
    def sha256(self) -> str:
        """The hash of the stored text in hex, as the store has it too."""
        return hashlib.sha256(self.content.encode("utf-8", "surrogatepass")).hexdigest()


def artifact_document(artifact: Artifact) -> Document:
    """A version of an artifact."""
    known = ("artifact_id", "version", "title", "created_by", "run_id")
    return Document(
        artifact.artifact_id,
        artifact.title,
        artifact.content,
        artifact.markdown,
        artifact.created_by,
        artifact.created_at,
        f"{artifact.artifact_id} version {artifact.version}",
        f"{artifact.artifact_id} · version {artifact.version} · {artifact.created_by} · {moment(artifact.created_at)}",
        {**{name: getattr(artifact, name) for name in known}, "created_at": artifact.created_at.isoformat()},
    )
