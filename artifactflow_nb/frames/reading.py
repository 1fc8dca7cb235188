"""Frames read with the plain sqlite3 module, in the caller's thread: they work while the engine is busy."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.frames.catalog import FRAMES
from artifactflow_nb.frames.columns import SCHEMA_VERSION, Frame
from artifactflow_nb.frames.filters import Columns, Conversations, Projects, Runs, Statuses, When, bound
from artifactflow_nb.plans import Plan
from artifactflow_nb.projects import ProjectHead
from artifactflow_nb.store.block_rows import told_blocks
from artifactflow_nb.store.blocks import list_projects
from artifactflow_nb.store.database import connect, reading
from artifactflow_nb.store.ownership import is_gone
from artifactflow_nb.store.storable import to_json

if TYPE_CHECKING:
    import pandas as pd


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that reads a store and knows the functions of the frames' SQL.

    `owner_is_gone` tells of an interrupted run, `plan_id_of` which plan a text is (NULL for none), `step_text` reads a
    field of a step of a plan, or of another object in JSON; `project_name` gives the name of a project by what
    its artifact holds (NULL for none), `project_blocks` its blocks, `block_field` reads one of them.
    Who is gone is looked at before the rows are: a run that ends meanwhile is never taken for interrupted.
    """
    with reading(path), closing(connect(path, read_only=True)) as db:
        db.row_factory = None
        owners = db.execute("SELECT DISTINCT owner FROM runs WHERE status = 'running'")
        gone = {owner for (owner,) in owners if is_gone(path.parent, owner)}
        db.create_function("owner_is_gone", 1, gone.__contains__)
        db.create_function("plan_id_of", 1, _plan_id_of, deterministic=True)
        db.create_function("step_text", 2, _step_text, deterministic=True)
        db.create_function("project_name", 1, _project_name, deterministic=True)
        db.create_function("project_blocks", 2, partial(_project_blocks, db))
        db.create_function("block_field", 2, _block_field, deterministic=True)
        yield db


def _project_name(text: str) -> str | None:
    """The name of the project that an artifact holds; None for a text that is none."""
    try:
        return ProjectHead.from_json(text).name
    except UsageError:
        return None


def _project_blocks(db: sqlite3.Connection, conversation_id: str, message_id: str | None) -> str:
    """The blocks of a project as JSON, as the statement sees the store that asks for them."""
    db.row_factory = sqlite3.Row  # of the statements below; the one that goes on has its own
    try:
        return to_json(told_blocks(db, conversation_id, message_id))
    finally:
        db.row_factory = None


def _block_field(block: str, name: str) -> str | int | None:
    """A field of a block, as JSON."""
    value: str | int | None = _block_of(block)[name]
    return value


@lru_cache(maxsize=1)
def _block_of(block: str) -> dict[str, Any]:
    """A block of which all columns are asked for, one after the other."""
    told: dict[str, Any] = json.loads(block)
    return told


def _plan_id_of(text: str) -> str | None:
    """The id of the plan that an artifact holds; None for a text that is none."""
    try:
        return Plan.from_json(text).plan_id
    except UsageError:
        return None


def _step_text(step: str, name: str) -> str:
    """A text of a step, as JSON, of a plan; SQLite's own functions end it at a NUL."""
    return str(json.loads(step).get(name, "pending" if name == "status" else ""))


def load(
    path: Path,
    frame: Frame,
    run: Runs = None,
    *,
    conversation: Conversations = None,
    since: When = None,
    until: When = None,
    status: Statuses = None,
    project: Projects = None,
    is_active: bool | None = None,
    columns: Columns = None,
) -> "pd.DataFrame":
    """Read a frame from a store.

    Args:
        path: The store's file.
        frame: Which frame.
        run: Only rows of these runs: a run, its id, or several.
        conversation: Only rows of these conversations: an id, a run of it, or several.
        since: Only rows from this time on: aware, naive in UTC, in ISO format, or so long ago. Rows without a time,
            such as calls that have not begun, go too.
        until: Only rows before this time.
        status: Only rows of this status, or of one of these.
        project: Only rows of these projects: a project, its name, or several.
        is_active: Only rows that are on the active branch, or only those that are not; None for both.
        columns: Only these columns and groups of columns, and the ids; None for all.

    Errors: `UsageError` for what cannot be used, `NotFound` for an id or a project that the store does not hold.
    """
    from artifactflow_nb.frames.packing import as_frame, pack

    wanted = frame.pick(columns)
    times = {"since": since, "until": until}
    places = {"run": run, "conversation": conversation, "project": project, "is_active": is_active}
    given = {**places, **times, "status": status}
    values = bound(frame, given)
    with opened(path) as db:
        _require(db, values)
        rows = db.execute(f"{frame.select(wanted, values)} ORDER BY {frame.order}", values)
        arrays = pack(rows, [column.dtype for column in wanted])
    return as_frame([column.name for column in wanted], arrays, schema_of(frame.name))


def _require(db: sqlite3.Connection, values: Mapping[str, Any]) -> None:
    """Raise `NotFound` for ids that are not there: no rows would say that nothing happened."""
    for name in {"run", "conversation"}.intersection(values):
        unknown = f"SELECT value FROM json_each(?) WHERE value NOT IN (SELECT {name}_id FROM {name}s)"  # noqa: S608 - names
        if missing := [text for (text,) in db.execute(unknown, (values[name],))]:
            raise NotFound(f"There is no {name} {missing[0]!r} in this store. {_LISTED[name]}")
    names = set(json.loads(values.get("project", "[]")))
    if missing := sorted(names.difference(list_projects(db) if names else ())):
        raise NotFound(f"There is no project {missing[0]!r} in this store. projects() lists its projects.")


_LISTED = {"run": "runs_df() lists its runs.", "conversation": "conversations() lists its conversations."}


def describe() -> "pd.DataFrame":
    """What the frames hold: a row for each column with its frame, name, group, type and meaning."""
    import pandas as pd

    rows = [(frame.name, c.name, c.group, c.dtype, c.meaning) for frame in FRAMES for c in frame.columns]
    told = pd.DataFrame(rows, columns=["frame", "column", "group", "dtype", "meaning"], dtype="string")
    told.attrs["schema"] = schema_of("columns")
    return told


def schema_of(name: str) -> str:
    """What `attrs["schema"]` says of a frame: whose it is, its name and the version of its columns."""
    return f"artifactflow_nb/{name}/{SCHEMA_VERSION}"
