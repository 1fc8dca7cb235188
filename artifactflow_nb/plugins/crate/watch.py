"""The sources of runs today: which have changed, are gone or were retracted, and which claims rest on them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from artifactflow_nb.analysis.frames.computed import frame_from_rows
from artifactflow_nb.recording.rows import RunRows
from artifactflow_nb.sources.changes import sources_of_run, statements_on
from artifactflow_nb.store.database import read_store
from artifactflow_nb.store.frames import ENUM, TEXT

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = {
    "run_id": TEXT, "address": TEXT, "title": TEXT, "state": ENUM, "reason": TEXT, "claim": TEXT, "status": ENUM
}  # fmt: skip


def watch(thread: Any, runs: Iterable[RunRows], *, web: bool) -> "pd.DataFrame":
    """Compare the sources of runs with the current texts; see `Crate.watch`."""
    from artifactflow_nb.plugins.literature.cited_works import all_works

    engine = thread.engine
    works = read_store(engine.database.path, all_works)
    retracted = {address for addresses, work in works if work.is_retracted for address in addresses}
    rows: list[tuple[object, ...]] = []
    with_pages = web and engine.settings.cassette_mode not in {"replay", "verify"}
    for run in runs:
        texts = [run.message["response"] or "", *(row["content"] for row in run["artifact_versions"])]
        used = sources_of_run(run["tool_calls"], "\n\n".join(texts))
        review = thread.call(engine.review_sources(used, with_pages=with_pages))
        states = {each.address: (each.kind, None) for each in review.changes}
        states |= {each.address: ("unchecked", each.reason) for each in review.unchecked if each.address not in states}
        states |= {each.address: ("retracted", None) for each in used if each.address in retracted}
        for source in used:
            claims = {row["text"]: row["status"] for row in run["claims"] if row["address"] == source.address}
            claims = claims or dict.fromkeys(statements_on(texts).get(source.address, ())) or {None: None}
            if (state := states.get(source.address)) is not None:
                rows += [(run.run_id, source.address, source.title, *state, *claim) for claim in claims.items()]
    return frame_from_rows("watch", _COLUMNS, rows)
