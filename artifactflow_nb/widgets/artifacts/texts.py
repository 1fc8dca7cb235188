"""Rendered texts of artifacts.

Each version is rendered once, in a thread: a long text would block the engine's loop, and with it runs and panels.
"""

import asyncio
from collections.abc import Callable, Iterable

from artifactflow_nb.core.text.markdown import MarkdownRenderer
from artifactflow_nb.core.text.shortened import shown_html
from artifactflow_nb.sources.citation_marks import Citations
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.widgets.page.markdown import html_to_markdown


class ArtifactTexts:
    """Cache of rendered versions; the artifacts belong to one conversation, so their ids are unique.

    Args:
        citations: Returns the citations of a version; it may read the store.
    """

    def __init__(self, citations: Callable[[Artifact], Citations]) -> None:
        self._citations = citations
        self._renderer = MarkdownRenderer()
        self._rendered: dict[tuple[str, int], str] = {}

    async def prepare(self, artifacts: Iterable[Artifact]) -> None:
        """Render the missing ones of these versions, and drop all other versions from the cache."""
        versions = {(artifact.artifact_id, artifact.version): artifact for artifact in artifacts}
        missing = {key: artifact for key, artifact in versions.items() if key not in self._rendered}

        def render_missing() -> dict[tuple[str, int], str]:
            return {key: self._render(artifact) for key, artifact in missing.items()}

        new = await asyncio.to_thread(render_missing) if missing else {}
        self._rendered = {key: text for key, text in self._rendered.items() if key in versions} | new

    def html(self, artifact: Artifact) -> str:
        """The text of a version; rendered in the calling thread if it was not prepared."""
        text = self._rendered.get((artifact.artifact_id, artifact.version))
        return self._render(artifact) if text is None else text

    def _render(self, artifact: Artifact) -> str:
        html = shown_html(artifact.markdown, self._renderer, cite=self._citations(artifact).apply)
        html_to_markdown(html)  # the saved output needs it; here it does not block the loop
        return html
