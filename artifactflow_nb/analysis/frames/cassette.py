"""The frame of a cassette: one row per recorded model turn or tool call."""

import os
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from artifactflow_nb.analysis.frames.columns import (
    BOOL,
    ENUM,
    FLOAT,
    IDS,
    INT,
    TEXT,
    TIME,
    Frame,
    stored_columns,
)
from artifactflow_nb.analysis.frames.filters import ColumnSelection
from artifactflow_nb.analysis.frames.reading import schema_name
from artifactflow_nb.recording.listing import list_cassette

if TYPE_CHECKING:
    import pandas as pd

CASSETTE = Frame(
    "cassette",
    (
        *stored_columns(IDS, INT, "c", run_number="Number of the run in the cassette, from 1."),
        *stored_columns(
            IDS,
            TEXT,
            "c",
            run_id="Id of the run.",
            path="Path of the job: main, or main/2.1 for the job of a delegating call.",
        ),
        *stored_columns(IDS, INT, "c", step="Turn in the job, from 1.", attempt="Attempt at the turn, from 1."),
        *stored_columns(IDS, INT, "c", position="Number of the call in the turn, from 1; NA for the turn itself."),
        *stored_columns("what", TEXT, "c", question="Question of the run."),
        *stored_columns(
            "what", ENUM, "c", kind="model or tool.", agent_name="Calling agent.", name="Name of the model or tool."
        ),
        *stored_columns("size", INT, "c", asked_chars="Characters of the prompt, or of the parameters as JSON."),
        *stored_columns("size", INT, "c", answered_chars="Characters of reply and reasoning, or of the result."),
        *stored_columns("tokens", INT, "c", input_tokens="Tokens of the prompt.", output_tokens="Tokens of the reply."),
        *stored_columns("time", TIME, "c", started_at="When the call started."),
        *stored_columns("time", FLOAT, "c", duration_ms="Duration of the call."),
        *stored_columns("cost", FLOAT, "c", cost_usd="Cost of the call."),
        *stored_columns("results", BOOL, "c", success="Whether there is a reply, or the tool call succeeded."),
        *stored_columns("results", ENUM, "c", error_type="Type of the error of a turn."),
        *stored_columns("results", ENUM, "c", decision="approved, edited, denied or instructed; NA without a request."),
        *stored_columns("text", TEXT, "c", asked="Start of the last message, or of the parameters."),
        *stored_columns("text", TEXT, "c", answered="Start of the reply, of the result, or of the error message."),
    ),
    "cassette AS c",
    "c.rowid",
)


def cassette_df(path: str | os.PathLike[str], *, columns: ColumnSelection = None) -> "pd.DataFrame":
    """Load a cassette as a frame: one row per attempt of a model turn, each followed by its tool calls.

    Args:
        path: The cassette.
        columns: Columns and groups of columns: `what`, `size`, `tokens`, `time`, `cost`, `results`, `text`. The ids,
            which give run and position, are always included.

    Errors: `CassetteError` for a file that is not a cassette, is damaged or was changed; `UsageError` for an unknown
        column.
    """
    from artifactflow_nb.analysis.frames.packing import as_frame, pack

    selected = CASSETTE.select_columns(columns)
    names = [column.name for column in CASSETTE.columns]
    # A table in memory lets the frame use the same columns, selection and packing as the frames of a store.
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(f"CREATE TABLE cassette ({', '.join(names)})")
        placeholders = ", ".join("?" * len(names))
        rows = ([row.get(name) for name in names] for row in list_cassette(path))
        db.executemany(f"INSERT INTO cassette VALUES ({placeholders})", rows)  # noqa: S608 - only `?`
        rows_in_order = db.execute(f"{CASSETTE.select(selected)} ORDER BY {CASSETTE.order}")
        arrays = pack(rows_in_order, [column.dtype for column in selected])
    return as_frame([column.name for column in selected], arrays, schema_name(CASSETTE.name))
