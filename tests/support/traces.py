"""All results of a run as bytes: files, frames, events, exports and saved outputs."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import artifactflow_nb as af
from artifactflow_nb.core.events import StreamEvent
from artifactflow_nb.widgets.run.saved import saved_run

FRAMES = [
    "runs_df", "llm_calls_df", "tool_calls_df", "plan_steps_df", "blocks_df", "events_df", "messages_df",
    "artifacts_df", "approvals_df", "conversations_df",
]  # fmt: skip


def traces(wb: af.Workbench, folder: Path, *runs: af.Run) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each result; closes the workbench, so that the store's file contains its log."""
    data_dir = wb.settings.data_dir
    out = folder / "out"
    out.mkdir()
    for run in runs:
        yield "response", (stored(wb, "SELECT group_concat(response) FROM messages") + str(run.error)).encode()
        yield "repr", f"{run!r}{run._repr_html_()}{run._repr_markdown_()}".encode()
        yield "saved output", "".join(saved_run(run._client).values()).encode()
        yield "artifacts", repr({key: one.content for key, one in run.artifacts.items()}).encode()
        yield "events", b"".join(map(_event_bytes, run.events))
    for conversation in wb.conversations():
        for form in ("to_markdown", "to_html", "to_ipynb"):
            getattr(conversation, form)(out, overwrite=True)
    for name in FRAMES:
        if hasattr(wb, name):
            yield name, getattr(wb, name)().to_json(date_format="iso").encode()
    yield from _files(data_dir, "open")
    wb.close()
    yield from _files(data_dir, "closed")
    yield from _files(out, "exported")


def _event_bytes(event: StreamEvent) -> bytes:
    return json.dumps([event.agent, event.tool, dict(event.data)], default=str, ensure_ascii=False).encode()


def _files(folder: Path, state: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield f"{path.name} ({state})", path.read_bytes()


def stored(wb: af.Workbench, sql: str) -> str:
    """The first value of a query of the store."""
    with closing(sqlite3.connect(wb._store)) as db:
        return str(db.execute(sql).fetchone()[0])
