"""The citations of an artifact in a view, and the picture of a cited PDF page, which a click opens."""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from artifactflow_nb.core.language import Texts
from artifactflow_nb.core.text.markdown import MarkdownRenderer
from artifactflow_nb.core.text.shortened import shown_html
from artifactflow_nb.engine.cited_sources import artifact_citations
from artifactflow_nb.engine.run_client import RunReader
from artifactflow_nb.sources.citation_marks import Citations, ListedSource, listed_sources
from artifactflow_nb.sources.cited_pages import cited_section
from artifactflow_nb.sources.evidence import Evidence
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.database import read_store
from artifactflow_nb.widgets.page.elements import button
from artifactflow_nb.widgets.page.saved import LIVE_BUTTON
from artifactflow_nb.widgets.page.view import PageAction, Screen
from artifactflow_nb.widgets.run.protocol import ViewedRun


def stored_citations(store: Path, texts: Texts, artifact: Artifact) -> Citations:
    """Load the citations of a version of an artifact from the store's file."""
    citations = read_store(store, lambda db: artifact_citations(db, artifact, partial(cited_page_button, texts)))
    return replace(citations, texts=texts)


def run_citations(run: RunReader | ViewedRun, listed: Mapping[int, ListedSource], texts: Texts) -> Citations:
    """Create the citations of listed sources, with the texts that a run read of them; this reads the store."""
    evidence = run.evidence([source.address for source in listed.values()]) if listed else Evidence()
    return Citations(listed, evidence, run.source_link, partial(cited_page_button, texts), texts)


def cited_text(run: RunReader | ViewedRun, texts: Texts, text: str) -> str:
    """HTML of a text of a run, such as the preview of a request, with the citations of its own list of sources."""
    return shown_html(text, MarkdownRenderer(), cite=run_citations(run, listed_sources(text), texts).apply)


def cited_page_button(texts: Texts, address: str, passage: str) -> str:
    """Build the button in a citation that shows its page; saved outputs do not have it."""
    css = f"{LIVE_BUTTON} af-page-button"
    return button(texts("cited_show_page"), "cited_page", css=css, address=address, passage=passage)


async def show_cited_page(screen: Screen, act: PageAction, store: Path) -> None:
    """Open the picture on the page of the reader; `NotFound` and `UsageError` as for `CitedSection.picture`."""
    address, passage = str(act.args.get("address", "")), str(act.args.get("passage", ""))

    def draw() -> bytes:
        return read_store(store, lambda db: cited_section(db, address)).picture(passage)

    picture = await asyncio.to_thread(draw)
    screen.effect(act.page, "picture", text=address, base64=base64.b64encode(picture).decode())
