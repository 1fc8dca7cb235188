"""The tables and frames of studies, and the rows of cells."""

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import orjson

from artifactflow_nb.analysis.frames.runs import RUN_STATUS
from artifactflow_nb.core.messages import COMPUTED_PROVIDER
from artifactflow_nb.errors import NotFound, brief
from artifactflow_nb.store.encoding import insert
from artifactflow_nb.store.frames import (
    ENUM,
    FLOAT,
    IDS,
    INT,
    SCOPE_CONDITION,
    TEXT,
    TIME,
    Column,
    Frame,
    list_condition,
    reading_order,
    stored_columns,
)
from artifactflow_nb.store.schema import Table

STUDY_TABLE = Table(
    "studies",
    "study_id TEXT NOT NULL, name TEXT NOT NULL UNIQUE, created_at INTEGER NOT NULL, spec TEXT NOT NULL, "
    "state TEXT NOT NULL, owner TEXT",
    key="study_id",
    owner="store",
)
"""`owner` is the engine that drives the study, see `RunLocks`; NULL if no engine drives the study."""

CELL_TABLE = Table(
    "study_cells",
    "cell_id TEXT NOT NULL, study_id TEXT NOT NULL, key TEXT NOT NULL, n INTEGER NOT NULL, "
    "question_n INTEGER NOT NULL, question TEXT NOT NULL, columns TEXT NOT NULL, factors TEXT NOT NULL, "
    "repeat INTEGER NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL, run_id TEXT, earlier_runs TEXT NOT NULL, "
    "error TEXT, queue_ms REAL",
    key="cell_id",
    owner="store",
)
"""`cell_id` is the id of the study, a slash and the key, so that the cells of a study are neighbours."""

GRADE_TABLE = Table(
    "study_grades",
    "grade_id TEXT NOT NULL, study_id TEXT NOT NULL, cell_id TEXT NOT NULL, run_id TEXT, grader TEXT NOT NULL, "
    "grader_sha256 TEXT NOT NULL, outcome TEXT NOT NULL, score REAL, evidence TEXT, judge TEXT, judge_run_id TEXT, "
    "cost_usd REAL, graded_at INTEGER NOT NULL",
    key="grade_id",
    owner="store",
)
"""`grade_id` is the id of the cell, a slash and the grader."""

PLANNED, DONE, FAILED, CANCELLED, WAITING, RUNNING = "planned", "done", "failed", "cancelled", "waiting", "running"
UNFINISHED = (PLANNED, RUNNING, WAITING)

OF_STUDY = "cell_id > :study || '/' AND cell_id < :study || '0'"
"""SQL condition for rows whose `cell_id` belongs to a study; it reads the primary key, not the whole table."""

COST = f"iif(max(cost_usd IS NULL AND input_tokens > 0 AND provider != '{COMPUTED_PROVIDER}'), NULL, sum(cost_usd))"
"""SQL expression for the cost of some rows of `llm_calls`; NULL if a price is unknown."""

_CELL_RUNS = f"""
main.study_cells AS c JOIN main.studies AS s ON s.study_id = c.study_id
LEFT JOIN main.runs AS r ON r.run_id = c.run_id
LEFT JOIN (
    SELECT run_id, sum(input_tokens + output_tokens) AS tokens, {COST} AS cost_usd
    FROM main.llm_calls {SCOPE_CONDITION} GROUP BY run_id
) AS l ON l.run_id = c.run_id
"""  # noqa: S608 - constants only
_ANSWER = """CASE WHEN r.status = 'completed'
    THEN (SELECT response FROM main.messages WHERE message_id = r.message_id) END"""

_CELL_COLUMNS = (
    *stored_columns(IDS, TEXT, "c", cell_id="Id of the cell: the study and the key."),
    Column("cell", IDS, TEXT, "c.key", "Hash of the question's row, the factors and the repeat."),
    Column("study", "what", TEXT, "s.name", "Name of the study."),
    *stored_columns("what", INT, "c", question_n="Number of the question, from 0.", repeat="Number of the repeat."),
    *stored_columns("what", TEXT, "c", question="The question."),
    Column("factors_json", "what", TEXT, "c.factors", "Values of the factors by name, as an object."),
)

CELL_FRAME = Frame(
    "study_cells",
    reading_order(
        "study question factors_json repeat state status outcome answer tokens cost_usd",
        *_CELL_COLUMNS,
        *stored_columns(IDS, TEXT, "c", study_id="The study.", run_id="The run that counts; NA before the first."),
        Column("columns_json", "what", TEXT, "c.columns", "Other columns of the question's row, as an object."),
        *stored_columns("results", ENUM, "c", state="planned, running, waiting, done, failed or cancelled."),
        *stored_columns("results", INT, "c", attempts="Number of attempts."),
        Column("earlier_runs_json", "results", TEXT, "c.earlier_runs", "Runs of earlier attempts, as a list."),
        Column("status", "results", ENUM, RUN_STATUS, "Status of the run, as in `runs`."),
        *stored_columns("results", ENUM, "r", outcome="answered, partly or not_in_sources; NA if unknown."),
        Column("answer", "results", TEXT, _ANSWER, "The answer; NA if there is none."),
        *stored_columns("size", INT, "l", tokens="Input and output tokens of the run."),
        *stored_columns("cost", FLOAT, "l", cost_usd="Cost of the run; NA if a price is unknown."),
        Column("duration_ms", "time", FLOAT, "(r.completed_at - r.started_at) / 1000.0", "Time of the run."),
        *stored_columns("time", FLOAT, "c", queue_ms="The time in which requests waited for the rate limit."),
        *stored_columns("time", TIME, "r", started_at="Start of the run."),
        Column("seed", "what", INT, "json_extract(r.settings_json, '$.variation.seed')", "Seed of the run."),
        Column("error", "results", TEXT, "c.error", "Why the cell failed."),
    ),
    _CELL_RUNS,
    "s.rowid, c.n",
    {"study": list_condition("s.name", "study")},
    scope="SELECT c.run_id FROM main.study_cells AS c JOIN main.studies AS s ON s.study_id = c.study_id",
    scope_condition="WHERE run_id IN scope",
)

GRADE_FRAME = Frame(
    "study_grades",
    reading_order(
        "study question factors_json repeat grader outcome grade evidence judge cost_usd",
        *_CELL_COLUMNS,
        *stored_columns(IDS, TEXT, "g", grade_id="Id of the grade: the cell and the grader."),
        *stored_columns(IDS, TEXT, "g", run_id="The graded run.", judge_run_id="Run of the judge."),
        *stored_columns("what", ENUM, "g", grader="Name of the grader."),
        *stored_columns("results", ENUM, "g", outcome="graded, abstained or failed."),
        Column("grade", "results", FLOAT, "g.score", "Score from 0 to 1; NA unless graded."),
        Column("evidence", "results", TEXT, "g.evidence", "The reason of the grade."),
        *stored_columns("results", ENUM, "g", judge="Model of the judge; NA for a rule."),
        *stored_columns("what", TEXT, "g", grader_sha256="Hash of the grader's definition and the answer."),
        *stored_columns("cost", FLOAT, "g", cost_usd="Cost of the judge."),
        *stored_columns("time", TIME, "g", graded_at="Time of the grade."),
    ),
    "main.study_grades AS g JOIN main.study_cells AS c ON c.cell_id = g.cell_id AND c.run_id IS g.run_id "
    "JOIN main.studies AS s ON s.study_id = g.study_id",
    "s.rowid, c.n, g.rowid",
    {"study": list_condition("s.name", "study")},
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a study: one question with one value of each factor; see `CELL_FRAME`."""

    cell_id: str
    study_id: str
    key: str
    n: int
    question_n: int
    question: str
    columns: Mapping[str, Any]
    factors: Mapping[str, Any]
    repeat: int
    state: str = PLANNED
    attempts: int = 0
    run_id: str | None = None
    earlier_runs: tuple[str, ...] = ()
    error: str | None = None
    queue_ms: float | None = None

    @classmethod
    def from_row(cls, row: sqlite3.Row | Mapping[str, Any]) -> Self:
        """Read a stored cell."""
        values = {name: row[name] for name in _NAMES}
        for name in ("columns", "factors", "earlier_runs"):
            values[name] = orjson.loads(values[name])
        return cls(**values | {"earlier_runs": tuple(values["earlier_runs"])})

    def as_row(self) -> dict[str, Any]:
        """Return the row of the cell."""
        values = {name: getattr(self, name) for name in _NAMES}
        texts = {name: orjson.dumps(values[name]).decode() for name in ("columns", "factors")}
        return values | texts | {"earlier_runs": orjson.dumps(self.earlier_runs).decode()}

    def next_attempt(self) -> "Cell":
        """Return the cell before another attempt; the run of the last attempt becomes an earlier run."""
        earlier = () if self.run_id is None else (self.run_id,)
        return replace(self, state=PLANNED, run_id=None, error=None, earlier_runs=(*self.earlier_runs, *earlier))


_NAMES = tuple(Cell.__dataclass_fields__)
_UPDATED = ("state", "attempts", "run_id", "earlier_runs", "error", "queue_ms")
_UPDATE = f"UPDATE study_cells SET {', '.join(f'{name} = :{name}' for name in _UPDATED)} WHERE cell_id = :cell_id"  # noqa: S608 - constants


@dataclass(frozen=True, slots=True)
class StudyRow:
    """A stored study: name, specification, state (`running`, `done`, `cancelled`) and the engine that drives it."""

    study_id: str
    name: str
    created_at: int
    spec: Mapping[str, Any]
    state: str
    owner: str | None = None


def load_study(db: sqlite3.Connection, name: str) -> StudyRow:
    """Return a study by name; `NotFound` with the names of the stored studies."""
    row = db.execute("SELECT * FROM studies WHERE name = ?", (name,)).fetchone()
    if row is None:
        names = ", ".join(map(repr, study_names(db))) or "none"
        raise NotFound(f"There is no study {brief(name)} in this store. Studies: {names}.")
    return StudyRow(**{**dict(row), "spec": orjson.loads(row["spec"])})


def study_names(db: sqlite3.Connection) -> list[str]:
    """Return the names of the studies, in the order of their creation."""
    return [row["name"] for row in db.execute("SELECT name FROM studies ORDER BY rowid")]


def load_cells(db: sqlite3.Connection, study_id: str, states: Iterable[str] | None = None) -> list[Cell]:
    """Return the cells of a study, in order; all cells, or those in some states."""
    among = "" if states is None else f" AND {list_condition('state', 'states')}"
    values = {"study": study_id, "states": orjson.dumps(list(states or ())).decode()}
    rows = db.execute(f"SELECT * FROM study_cells WHERE {OF_STUDY}{among} ORDER BY n", values)  # noqa: S608 - constants
    return list(map(Cell.from_row, rows))


def count_cells(db: sqlite3.Connection, study_id: str, states: Iterable[str]) -> int:
    """Return the number of cells of a study in some states."""
    values = {"study": study_id, "states": orjson.dumps(list(states)).decode()}
    condition = f"{OF_STUDY} AND {list_condition('state', 'states')}"
    return int(db.execute(f"SELECT count(*) FROM study_cells WHERE {condition}", values).fetchone()[0])  # noqa: S608


def insert_study(db: sqlite3.Connection, study: StudyRow, cells: Iterable[Cell]) -> None:
    """Store a new study with its cells."""
    insert(db, STUDY_TABLE.name, {**asdict(study), "spec": orjson.dumps(study.spec).decode()})
    insert_cells(db, cells)


def insert_cells(db: sqlite3.Connection, cells: Iterable[Cell]) -> None:
    """Store cells, without those that are stored."""
    for row in map(Cell.as_row, cells):
        insert(db, CELL_TABLE.name, row, or_ignore=True)


def update_cell(db: sqlite3.Connection, cell: Cell) -> None:
    """Store the progress of a cell."""
    db.execute(_UPDATE, cell.as_row())


def update_study(db: sqlite3.Connection, study_id: str, state: str, **changes: Any) -> None:
    """Change the state and entries of the specification of a study."""
    (spec,) = db.execute("SELECT spec FROM studies WHERE study_id = ?", (study_id,)).fetchone()
    values = state, orjson.dumps({**orjson.loads(spec), **changes}).decode(), study_id
    db.execute("UPDATE studies SET state = ?, spec = ? WHERE study_id = ?", values)
