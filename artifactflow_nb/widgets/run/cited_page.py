"""The citations of an artifact in a view, and the picture of a cited PDF page, which a click opens."""

import asyncio
import base64
from collections.abc import Mapping
from pathlib import Path

from artifactflow_nb.core.language import translate
from artifactflow_nb.core.text.markdown import MarkdownRenderer
from artifactflow_nb.core.text.shortened import shown_html
from artifactflow_nb.engine.cited_sources import artifact_citations
from artifactflow_nb.engine.run_client import RunReader
from artifactflow_nb.sources.citation_marks import Citations, ListedSource, listed_sources
from artifactflow_nb.sources.cited_pages import cited_section
from artifactflow_nb.sources.values import Evidence
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.database import read_store
from artifactflow_nb.widgets.page.elements import button
from artifactflow_nb.widgets.page.saved import LIVE_BUTTON
from artifactflow_nb.widgets.page.view import PageAction, Screen


def stored_citations(store: Path, artifact: Artifact) -> Citations:
    """Load the citations of a version of an artifact from the store's file."""
    return read_store(store, lambda db: artifact_citations(db, artifact, cited_page_button))


def run_citations(run: RunReader, sources: Mapping[int, ListedSource]) -> Citations:
    """Create the citations of listed sources, with the texts of the sources that a run read; this reads the store."""
    evidence = run.evidence([source.address for source in sources.values()]) if sources else Evidence()
    return Citations(sources, evidence, run.source_link, cited_page_button)


def cited_text(run: RunReader, text: str) -> str:
    """Render a text of a run, such as the preview of a request, with citations of the sources that the text lists."""
    return shown_html(text, MarkdownRenderer(), cite=run_citations(run, listed_sources(text)).apply)


def cited_page_button(address: str, passage: str) -> str:
    """Build the button in a citation that shows the cited page; saved outputs have no such button."""
    css = f"{LIVE_BUTTON} af-page-button"
    return button(translate("Show the page"), "cited_page", css=css, address=address, passage=passage)


async def show_cited_page(screen: Screen, act: PageAction, store: Path) -> None:
    """Open the picture on the page of the reader; `NotFound` and `UsageError` as for `CitedSection.picture`."""
    address, passage = str(act.args.get("address", "")), str(act.args.get("passage", ""))

    def draw() -> bytes:
        return read_store(store, lambda db: cited_section(db, address)).picture(passage)

    picture = await asyncio.to_thread(draw)
    screen.effect(act.page, "picture", text=address, base64=base64.b64encode(picture).decode())
