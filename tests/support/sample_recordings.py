"""Recordings of one small run under different names, without a workbench for each."""

import re
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from support.replies import report

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recording.cassette import Head
from artifactflow_nb.recording.rows import RunRows, load_run_rows

LONG = "What was found is described here at some length. " * 10
QUESTION = "Why?"

_ID = re.compile(r"\b((?:run|msg|thd|call|tool|req)-[0-9a-f]{16})\b")


@cache
def small_run() -> RunRows:
    """The rows of a run with a call, a decision and an artifact."""
    with (
        tempfile.TemporaryDirectory() as folder,
        af.Workbench(
            model=ScriptedModel([report(LONG), LONG]), approvals="approve", interactive=False, data_dir=Path(folder)
        ) as wb,
    ):
        run = wb.ask(QUESTION).wait(20)
        assert run.status == "completed"
        return wb._thread.call(wb._thread.engine.database.read(lambda db: load_run_rows(db, run.run_id)))


def recording(name: str = "1", question: str = QUESTION, **run: Any) -> tuple[Head, RunRows]:
    """Copy the run with ids that end in a name.

    Args:
        name: The end of the ids; two recordings of one name are the same run.
        question: The question, which is also the key under which it is recorded.
        run: Other values of columns of the run.
    """
    rows = small_run()
    texts = rows["texts"]
    tables = orjson.loads(_ID.sub(rf"\1-{name}", orjson.dumps({**rows.tables, "texts": []}).decode()))
    tables["texts"] = texts
    tables["runs"][0] |= {"question": question, **run}
    tables["messages"][0]["content"] = question
    named = RunRows(f"{rows.run_id}-{name}", {table: tuple(found) for table, found in tables.items()})
    return head_of(named), named


def head_of(rows: RunRows) -> Head:
    """The head of a recording with these rows."""
    return Head.of(f"key of {rows.run['question']}", rows)


def with_row(rows: RunRows, table: str, place: int = -1, **columns: Any) -> RunRows:
    """Copy the rows with changed values in one row; `...` removes a column."""
    changed = list(rows[table])
    row = {**changed[place], **columns}
    changed[place] = {name: value for name, value in row.items() if value is not ...}
    return RunRows(rows.run_id, {**rows.tables, table: tuple(changed)})
