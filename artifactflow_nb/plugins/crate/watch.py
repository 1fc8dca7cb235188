"""The sources of runs today: which have changed, moved, are gone or were retracted, and which claims rest on them."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag

import orjson

from artifactflow_nb.analysis.frames.computed import frame_from_rows
from artifactflow_nb.recording.rows import RunRows
from artifactflow_nb.sources.changes import sources_of_run, statements_on
from artifactflow_nb.store.frames import ENUM, TEXT

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = {
    "run_id": TEXT, "address": TEXT, "title": TEXT, "state": ENUM, "reason": TEXT, "claim": TEXT, "status": ENUM
}  # fmt: skip


def watch(thread: Any, runs: Iterable[RunRows], works: "pd.DataFrame", *, web: bool) -> "pd.DataFrame":
    """Compare the sources of runs with the current texts; see `Crate.watch`. `works` has the works of the sources."""
    engine = thread.engine
    withdrawn = set(" ".join(works.loc[works["is_retracted"].fillna(False).astype(bool), "addresses"]).split())
    rows: list[tuple[object, ...]] = []
    with_pages = web and engine.settings.cassette_mode not in {"replay", "verify"}
    for run in runs:
        texts = [run.message["response"] or "", *(row["content"] for row in run["artifact_versions"])]
        used = sources_of_run(run["tool_calls"], "\n\n".join(texts))
        review = thread.call(engine.review_sources(used, with_pages=with_pages))
        before = urls_of(run)
        moves = {address: f"The page is now at {url}" for address, url in review.urls.items()
                 if place(url) not in {place(address), place(before.get(address, address))}}  # fmt: skip
        states: dict[str, tuple[str, str | None]] = {address: ("moved", reason) for address, reason in moves.items()}
        states |= {each.address: (each.kind, moves.get(each.address)) for each in review.changes}
        states |= {each.address: ("unchecked", each.reason) for each in review.unchecked if each.address not in states}
        states |= {each.address: ("retracted", None) for each in used if each.address in withdrawn}
        for source in used:
            resting = {row["text"]: row["status"] for row in run["claims"] if row["address"] == source.address}
            resting = resting or dict.fromkeys(statements_on(texts).get(source.address, ())) or {None: None}
            if (state := states.get(source.address)) is not None:
                rows += [(run.run_id, source.address, source.title, *state, *pair) for pair in resting.items()]
    return frame_from_rows("watch", _COLUMNS, rows)


def urls_of(run: RunRows) -> Mapping[str, str]:
    """Return the addresses after redirects of the pages that a run read, by the address of the source."""
    rows = (orjson.loads(row["metadata_json"] or "{}") for row in run["tool_calls"] if row["tool_name"] == "web_fetch")
    return {each["address"]: each["url"] for row in rows for each in row.get("results", ()) if "url" in each}


def place(url: str) -> str:
    """Return an address in the form in which equal pages have equal addresses."""
    return urldefrag(url).url.rstrip("/").lower()
