"""A version of an artifact as all its exported forms see it: Markdown, harmless HTML, and where it comes from."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.text.figures import moment
from artifactflow_nb.text.markdown import MarkdownRenderer


@dataclass(frozen=True)
class Document:
    """A version on its way into a file.

    Args:
        artifact: The version.
    """

    artifact: Artifact

    @cached_property
    def html(self) -> str:
        """The text as sanitised HTML: no images, no scripts."""
        return MarkdownRenderer().html(self.artifact.markdown)

    @property
    def has_title(self) -> bool:
        """Whether the text itself begins with a heading of the first level."""
        return self.html.lstrip().startswith("<h1")

    @property
    def origin(self) -> str:
        """`research_report · version 2 · user · 2026-11-22 04:37 UTC`."""
        one = self.artifact
        return f"{one.artifact_id} · version {one.version} · {one.created_by} · {moment(one.created_at)}"

    @property
    def sha256(self) -> str:
        """The hash of the text in hex, as the store has it too."""
        return hashlib.sha256(self.artifact.content.encode("utf-8", "surrogatepass")).hexdigest()
