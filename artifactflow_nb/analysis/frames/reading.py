"""Loading of frames with plain sqlite3 in the caller's thread, so that it works while the engine is busy."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from artifactflow_nb.analysis.frames.catalog import all_frames
from artifactflow_nb.errors import NotFound, brief
from artifactflow_nb.store.database import connect, store_errors
from artifactflow_nb.store.frames import FRAME_SCHEMA_VERSION, ColumnSelection, Frame, RunFilter, bind_filters
from artifactflow_nb.store.ownership import effective_status
from artifactflow_nb.store.runs import ABANDONED, START_LOCK

if TYPE_CHECKING:
    import pandas as pd


_UNFINISHED_RUNS = f"""
SELECT run_id, status, owner, {START_LOCK}
FROM runs r WHERE status IN ('running', 'waiting')
"""  # noqa: S608 - a constant


@contextmanager
def open_store(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a read-only connection to a store, with the SQL functions of the frames.

    All frames have `is_abandoned(run_id)`, which is true if a run is unfinished and no process owns it, and
    `json_text(json, name)` for a text field of a JSON object: SQLite's own functions cut a text at a NUL.
    """
    with store_errors(path), closing(connect(path, read_only=True)) as db:
        db.row_factory = None
        # The statuses are computed before any row is read: a run that ends in between must not appear as abandoned.
        unfinished = db.execute(_UNFINISHED_RUNS).fetchall()
        abandoned = {run_id for run_id, *state in unfinished if effective_status(path.parent, *state) == ABANDONED}
        db.create_function("is_abandoned", 1, abandoned.__contains__)
        db.create_function("json_text", 2, lambda text, name: str(json.loads(text).get(name, "")), deterministic=True)
        for frame in all_frames():
            frame.add_functions(db)
        yield db


def load_frame(
    path: Path,
    frame: Frame,
    run: RunFilter = None,
    *,
    columns: ColumnSelection = None,
    optional: Sequence[str] = (),
    **filters: object,
) -> "pd.DataFrame":
    """Load a frame from a store.

    Args:
        path: The store's file.
        frame: The frame to load.
        run: Filter by run: a run, its id, or a list of runs or ids.
        columns: Columns and groups of columns, in addition to the ids; None for all columns that are not optional.
        optional: Names of optional columns to load in addition.
        filters: Values of the frame's other filters by name, as in the methods of `Frames`; None for no filter. With a
            filter by time, rows without a time are dropped, such as calls that have not started.

    Errors: `UsageError` for an unknown filter or an invalid value, `NotFound` for an id or a project that is not in the
        store.
    """
    from artifactflow_nb.analysis.frames.packing import as_frame, pack

    selected = frame.select_columns(columns, *optional)
    values = bind_filters(frame, {"run": run, **filters})
    with open_store(path) as db:
        # An empty frame for an unknown id would suggest that nothing happened.
        for name in {"run", "conversation"}.intersection(values):
            unknown = f"SELECT value FROM json_each(?) WHERE value NOT IN (SELECT {name}_id FROM {name}s)"  # noqa: S608 - names
            if missing := [text for (text,) in db.execute(unknown, (values[name],))]:
                raise NotFound(f"There is no {name} {brief(missing[0])} in this store. {_LISTINGS[name]}")
        frame.check(db, values)
        rows = db.execute(f"{frame.select(selected, values)} ORDER BY {frame.order}", values)
        arrays = pack(rows, [column.dtype for column in selected])
    return as_frame([column.name for column in selected], arrays, schema_name(frame.name))


_LISTINGS = {"run": "runs_df() lists its runs.", "conversation": "conversations() lists its conversations."}


def describe_columns() -> "pd.DataFrame":
    """Describe all columns: one row each, with frame, name, group, type and meaning."""
    import pandas as pd

    rows = [(frame.name, c.name, c.group, c.dtype, c.meaning) for frame in all_frames() for c in frame.columns]
    columns = pd.DataFrame(rows, columns=["frame", "column", "group", "dtype", "meaning"], dtype="string")
    columns.attrs["schema"] = schema_name("columns")
    return columns


def schema_name(name: str) -> str:
    """Return the value of a frame's `attrs["schema"]`: package, frame, version of the columns."""
    return f"artifactflow_nb/{name}/{FRAME_SCHEMA_VERSION}"
