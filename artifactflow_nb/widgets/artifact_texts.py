"""The texts of artifacts as a page and a notebook take them: each version is rendered once, beside the loop.

A megabyte takes seconds, in which no run could go on and no panel follow.
"""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.text.markdown import MarkdownRenderer, portable


class Rendered(NamedTuple):
    """A text in both forms."""

    html: str
    markdown: str


class ArtifactTexts:
    """Remembers what it has rendered; the artifacts are those of one conversation."""

    def __init__(self) -> None:
        self._renderer = MarkdownRenderer()
        self._known: dict[tuple[str, int], Rendered] = {}

    async def prepare(self, artifacts: Iterable[Artifact]) -> None:
        """Render these versions as far as they are not yet; of the others nothing is remembered any more."""
        wanted = {(one.artifact_id, one.version): one for one in artifacts}
        missing = [one for key, one in wanted.items() if key not in self._known]
        made = await asyncio.to_thread(self._render_all, missing) if missing else {}
        self._known = {key: known for key, known in self._known.items() if key in wanted} | made

    def of(self, one: Artifact) -> Rendered:
        """A version, rendered here and now if it was not prepared."""
        return self._known.get((one.artifact_id, one.version)) or self._render(one)

    def _render_all(self, artifacts: Iterable[Artifact]) -> dict[tuple[str, int], Rendered]:
        return {(one.artifact_id, one.version): self._render(one) for one in artifacts}

    def _render(self, one: Artifact) -> Rendered:
        return Rendered(self._renderer.html(one.markdown), portable(one.markdown))
