"""The picture of a cited page of a PDF, on a reader's click."""

import asyncio
import base64
from pathlib import Path

from artifactflow_nb.sources.cited_pages import cited_section
from artifactflow_nb.store.database import read_store
from artifactflow_nb.widgets.page.view import PageAction, Screen


async def show_cited_page(screen: Screen, act: PageAction, store: Path) -> None:
    """Open the picture on the page of the reader; `NotFound` and `UsageError` as for `CitedSection.picture`."""
    address, passage = str(act.args.get("address", "")), str(act.args.get("passage", ""))

    def draw() -> bytes:
        return read_store(store, lambda db: cited_section(db, address)).picture(passage)

    picture = await asyncio.to_thread(draw)
    screen.effect(act.page, "picture", text=address, base64=base64.b64encode(picture).decode())
