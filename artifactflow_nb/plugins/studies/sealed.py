"""Sealed studies: a zip file with the rows of a study and the sealed run of each attempt and of each judge."""

import os
import re
import sqlite3
import tempfile
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, PositiveInt, ValidationError, create_model

from artifactflow_nb.core.budget import Budget
from artifactflow_nb.core.local_files import absolute_path, read_at_most, reason, shown_path
from artifactflow_nb.errors import CassetteError, Conflict
from artifactflow_nb.plugins.rates import Rate
from artifactflow_nb.plugins.studies import tables
from artifactflow_nb.plugins.studies.grid import FACTORS, RESERVED
from artifactflow_nb.recording.files import Limits, pack, unpack
from artifactflow_nb.recording.rows import import_rows
from artifactflow_nb.recording.schema import row_model
from artifactflow_nb.recording.seal import SealedParts, load_parts, read_sealed, sealed_bytes
from artifactflow_nb.store.encoding import insert

if TYPE_CHECKING:
    from artifactflow_nb.core.redaction.redactor import Redactor

_STUDY, _CELL_ID = "study.json", re.compile(r"[\w-]+/[\w-]+")
_TABLES = (tables.STUDY_TABLE, tables.CELL_TABLE, tables.GRADE_TABLE)
_LIMITS = Limits(file_bytes=2**31 - 1, members=2**16 - 1, total_bytes=2**31 - 1)


class _Spec(BaseModel, strict=True, extra="forbid"):
    """The specification of a study, as `wb.studies.start` writes it."""

    vary: dict[str, list[Any]]
    options: dict[str, Any]
    values: dict[str, list[tuple[Any, Any]]]
    repeats: PositiveInt
    at_once: PositiveInt
    revision: int
    rates: dict[str, Rate]
    budget: Budget | None = None
    each: Budget | None = None
    decisions: dict[str, bool] = {}


def _checked(content: Any) -> list[tables.Cell]:
    """Return the cells of a sealed study, whose rows have the columns of the tables; `ValueError` for other content."""
    fields: dict[str, Any] = {"format": (Literal["artifactflow-nb sealed study 1"], ...)}
    with closing(sqlite3.connect(":memory:")) as db:
        db.row_factory = sqlite3.Row
        for table in _TABLES:
            db.execute(table.statements[0])
            row: Any = row_model(table.name, db.execute(f"PRAGMA table_info({table.name})").fetchall())
            fields[table.name] = (list[row], ...)
    create_model("Sealed", __config__=ConfigDict(extra="forbid", strict=True), **fields).model_validate(content)
    (study,), rows, grades = (content[table.name] for table in _TABLES)
    spec, study_id = _Spec.model_validate_json(study["spec"]), study["study_id"]
    cells = list(map(tables.Cell.from_row, rows))
    ended = {tables.PLANNED, tables.DONE, tables.FAILED, tables.CANCELLED}
    if study["owner"] or not ended.issuperset([study["state"], *(cell.state for cell in cells)]):
        raise CassetteError("The study has not ended.")
    cell_ids = {cell.cell_id for cell in cells if cell.study_id == study_id and _CELL_ID.fullmatch(cell.cell_id)}
    if {f"{study_id}/{cell.key}" for cell in cells} != cell_ids or len(cell_ids) < len(cells):
        raise CassetteError("A cell has the id of another.")
    if not all(isinstance(run_id, str) for cell in cells for run_id in cell.earlier_runs):
        raise CassetteError("The id of a run is no text.")
    is_known = {*spec.vary} == {*spec.values} and {*FACTORS} >= {*spec.vary, *spec.options}
    is_known &= all({type(cell.factors), type(cell.columns)} == {dict} for cell in cells)
    if not is_known or any({*cell.factors} != {*spec.vary} or RESERVED & {*cell.columns} for cell in cells):
        raise CassetteError("A factor, an option or a column is unknown.")
    good = [g for g in grades if g["study_id"] == study_id and g["cell_id"] in cell_ids and 0 <= (g["score"] or 0) <= 1]
    if [*{f"{grade['cell_id']}/{grade['grader']}": 0 for grade in good}] != [grade["grade_id"] for grade in grades]:
        raise CassetteError("A grade belongs to no cell, or its score is not between 0 and 1.")
    return cells


def seal_study(db: sqlite3.Connection, name: str, redactor: "Redactor") -> bytes:
    """Build the bytes of a sealed study, without secrets; `Conflict` for a study whose cells have not ended."""
    study = tables.load_study(db, name)
    if study.state == tables.RUNNING or tables.count_cells(db, study.study_id, {tables.RUNNING, tables.WAITING}):
        raise Conflict(f"The study {name!r} has not ended: wait for it, or cancel it.")
    content: dict[str, Any] = {"format": "artifactflow-nb sealed study 1"}
    for table in _TABLES:
        condition = "study_id = :study" if table is tables.STUDY_TABLE else tables.OF_STUDY
        statement = f"SELECT * FROM {table.name} WHERE {condition} ORDER BY rowid"  # noqa: S608 - constants
        content[table.name] = [dict(row) for row in db.execute(statement, {"study": study.study_id})]
    content = redactor.redact_value(content)
    run_ids = {run_id for cell in _checked(content) for run_id in (*cell.earlier_runs, cell.run_id or "")}
    run_ids |= {run_id for row in content[tables.GRADE_TABLE.name] for run_id in (row["judge_run_id"] or "").split()}
    stored = {row["run_id"] for row in db.execute("SELECT run_id FROM runs")}
    runs = {f"runs/{run_id}.afrun": sealed_bytes(load_parts(db, run_id, redactor)) for run_id in run_ids & stored}
    return pack({_STUDY: orjson.dumps(content, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2), **runs})


def read_study(path: str | os.PathLike[str]) -> tuple[Mapping[str, Any], list[SealedParts]]:
    """Read and check a sealed study: the rows, and the parts of the runs. `CassetteError` in one sentence."""
    file = absolute_path(path)
    try:
        members = unpack(read_at_most(file, _LIMITS.file_bytes), _LIMITS)
        content = orjson.loads(members.pop(_STUDY, b"{}"))
        _checked(content)
        runs = list(map(sealed_parts, members.values()))
        if {f"runs/{parts.rows.run_id}.afrun" for parts in runs} != members.keys():
            raise CassetteError("A run has another id than its file.")
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        problem = f"{'.'.join(map(str, detail['loc'])) or _STUDY}: {detail['msg']}"
    except OSError as error:
        raise CassetteError(f"The sealed study {shown_path(file)} cannot be read: {reason(error)}.") from error
    except (CassetteError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        problem = str(error)
    else:
        return content, runs
    raise CassetteError(
        f"The sealed study {shown_path(file)} cannot be used: {problem.rstrip('.'):.400}. Nothing was imported."
    )


def sealed_parts(data: bytes) -> SealedParts:
    """Return the parts of the bytes of a sealed run; `CassetteError` as `read_sealed`."""
    with tempfile.TemporaryDirectory(prefix="artifactflow-") as folder:
        path = Path(folder, "run.afrun")
        path.write_bytes(data)
        return read_sealed(path)[0]


def import_study(db: sqlite3.Connection, content: Mapping[str, Any], runs: list[SealedParts]) -> None:
    """Store a checked study with its runs; `Conflict` for another study of the same name, or another run of an id."""
    (study,) = content[tables.STUDY_TABLE.name]
    if study["name"] in tables.study_names(db):
        if tables.load_study(db, study["name"]).study_id == study["study_id"]:
            return
        raise Conflict(f"The store has another study {study['name']!r}, and nothing was imported.")
    for parts in runs:
        import_rows(db, parts.rows)
    for table in _TABLES:
        for row in content[table.name]:
            insert(db, table.name, row)
