"""`SharedData`: the frames that a person has shared with the agents of an engine, and the results as evidence."""

import hashlib
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isclose
from typing import TYPE_CHECKING, Any, Literal, get_args

import orjson
from pydantic import BaseModel

from artifactflow_nb.analysis.plots.canvas import BLUE, GREEN, PURPLE, VERMILLION, canvas, finish
from artifactflow_nb.core.text.cards import Card, CardMixin, CardTable, Code, Details, DisplayList
from artifactflow_nb.core.text.format import did_you_mean
from artifactflow_nb.errors import NotFound, ToolError, UsageError, brief
from artifactflow_nb.plugins.data.process import QueryProcess
from artifactflow_nb.plugins.data.snapshot import SharedFrame
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.encoding import insert
from artifactflow_nb.store.schema import Table, to_microseconds
from artifactflow_nb.tools.base import ToolContext
from artifactflow_nb.tools.threads import run_in_thread

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

DATA_RESULTS = Table(
    "data_results",
    "tool_call_id TEXT NOT NULL, evidence_id TEXT NOT NULL, title TEXT NOT NULL, sql TEXT NOT NULL, "
    "tables TEXT NOT NULL, result_json TEXT NOT NULL, n_rows INTEGER NOT NULL, duration_ms REAL NOT NULL, "
    "created_at INTEGER NOT NULL",
    key="tool_call_id",
)
QUERY_TIMEOUT_S = 30.0
MAX_ROWS = 1_000  # of a stored result
NOTHING_SHARED = "The person shares no data now. Ask for wb.data.share(name=frame) if the question needs data."
Mark = Literal["line", "bar", "point"]
_COLOURS = (BLUE, VERMILLION, GREEN, PURPLE)
_DTYPES: dict[str, Any] = {
    "integer": "Int64", "number": "Float64", "boolean": "boolean", "text": "string", "duration": "Float64",
}  # fmt: skip
_TOLERANCE = 1e-9  # the order of a parallel sum changes its last digits


class QueryResult(BaseModel, frozen=True):
    """A result of a query, as it is stored: `columns` are names and kinds, and `title` is in the words of the model.

    `evidence_id` is `data:c-` and a hash of the SQL and of the fingerprints of the tables. `sql` has a condition on the
    size of groups if models see aggregates. `rows` are the first `MAX_ROWS` rows with at most 5,000,000 characters, and
    `is_cut` says that there are more. `duration_ms` includes the hand-over of new tables.
    """

    evidence_id: str
    title: str
    sql: str
    tables: list[str]
    columns: list[tuple[str, str]]
    rows: list[list[bool | int | float | str | None]]
    is_cut: bool
    duration_ms: float

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "QueryResult":
        """Read a row of `DATA_RESULTS`; `ValueError` for a row that has no result."""
        tables = row["tables"].split(", ") if row["tables"] else []
        result = cls.model_validate({**row, **orjson.loads(row["result_json"]), "tables": tables})
        if {len(values) for values in result.rows} - {len(result.columns)}:
            raise ValueError("result_json has rows of another length than its columns")
        return result


@dataclass(frozen=True, slots=True)
class Recomputed:
    """A result that was computed again, with the first value that differs; a failed query has the status `no data`."""

    evidence_id: str
    status: Literal["same", "differs", "no data"]
    was: str = ""
    now: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class ComputedEvidence(CardMixin):
    """A result of a query, whose figures an answer cites as `[data:c-…]`; `result` is its stored form."""

    result: QueryResult
    _compute: Callable[[QueryResult], QueryResult | None] = field(compare=False)

    @property
    def df(self) -> "pd.DataFrame":
        """The stored rows; durations are in seconds, and values for which pandas has no type are unchanged."""
        import pandas as pd

        frame = pd.DataFrame(self.result.rows, columns=[name for name, _ in self.result.columns], dtype=object)
        for position, (_, kind) in enumerate(self.result.columns):
            values = frame.iloc[:, position]
            try:
                if kind in {"date", "time", "time in UTC"}:
                    times = pd.to_datetime(values, utc=kind == "time in UTC", format="ISO8601")
                    frame.isetitem(position, times.array)
                elif kind in _DTYPES:
                    frame.isetitem(position, values.astype(_DTYPES[kind]).array)
            except (ValueError, TypeError, OverflowError):
                continue  # a year that pandas has not, for example
        return frame

    def series(self, mark: Mark, x: str, y: str, color: str = "") -> "tuple[pd.DataFrame, str]":
        """Return the numbers of a plot, with a row for each `x` and a column for each `color`, and a text alternative.

        Errors: `UsageError` for unknown names, a `y` without numbers, many colors, and rows with equal `x` and color.
        """
        kinds, keys = dict(self.result.columns), [x, color] if color else [x]
        is_known = mark in get_args(Mark) and len(kinds.keys() & {*keys, y}) > len(keys)
        if not is_known or kinds[y] not in {"integer", "number"}:
            columns = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
            raise UsageError(
                f"Pass a mark ({', '.join(get_args(Mark))}), columns, and y as numbers. Columns: {columns}."
            )
        frame = self.df[[*keys, y]].dropna()
        if frame.empty or frame.duplicated(keys).any() or (color and frame[color].nunique() > len(_COLOURS)):
            raise UsageError(
                f"Draw one row with values for each {' and '.join(keys)}, and at most 4 colors: aggregate."
            )
        wide = frame.set_index(keys)[y].unstack(color) if color else frame.set_index(x)  # noqa: PD010 - the keys are unique
        wide = wide.loc[frame[x].unique()].astype(float)
        parts = [
            f"{name} from {values.min():g} ({values.idxmin()}) to {values.max():g} ({values.idxmax()})"
            for name, values in wide.items()
        ]
        return wide, f"{mark.title()} chart of {y} by {x}: {'; '.join(parts)}."

    def plot(self, mark: Mark, x: str, y: str, color: str = "", *, ax: "Axes | None" = None) -> "Axes":
        """Plot the columns `x` and `y`, with a series for each value of `color`; errors as for `series`."""
        wide, description = self.series(mark, x, y, color)
        style: dict[str, Any] = {"line": {"marker": "o"}, "bar": {"kind": "bar", "rot": 0}, "point": {"style": "o"}}
        with canvas(ax, 12) as axes:
            wide.plot(ax=axes, color=list(_COLOURS[: len(wide.columns)]), legend=bool(color), **style[mark])
            return finish(axes, self.result.title, description, unit=x)

    @property
    def cell(self) -> str:
        """The source of a cell that computes the result from the variables of the notebook."""
        title = " ".join(self.result.title.split())
        sql = self.result.sql.strip()
        literal = repr(sql) if '"""' in sql else f'r"""\n{sql}\n"""'
        return f"# {title} ({self.result.evidence_id})\nimport duckdb\n\nduckdb.sql({literal}).df()\n"

    def to_cell(self) -> str | None:
        """Insert the cell below the current cell; outside of IPython, return the source of the cell instead."""
        from IPython.core.getipython import get_ipython

        if (shell := get_ipython()) is None:
            return self.cell
        shell.set_next_input(self.cell)
        return None

    def recompute(self) -> Recomputed:
        """Run the SQL on the frames that are shared now, and compare the rows, in any order, with the stored rows."""
        now = self._compute(self.result)
        differing = now and first_difference(self.result, now)
        status: Literal["same", "differs", "no data"] = "no data" if now is None else "differs" if differing else "same"
        return Recomputed(self.result.evidence_id, status, *(differing or ()))

    def _card(self) -> Card:
        result = self.result
        n_rows = f"more than {len(result.rows):,}" if result.is_cut else len(result.rows)
        table = CardTable.from_rows([name for name, _ in result.columns], result.rows)
        folds = [Details("Result", table, is_open=True), Details("SQL", Code(result.sql))]
        rows = [("title", result.title), ("tables", ", ".join(result.tables)), ("rows", n_rows)]
        return Card("Evidence", result.evidence_id, rows, folds)


class EvidenceList(DisplayList[ComputedEvidence]):
    """Results in the order of their queries; `evidence["data:c-1a2b3c"]` is the newest result with this id."""

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        ids = self._ipython_key_completions_()
        if key not in ids:
            shown_ids = ", ".join(dict.fromkeys(ids)) or "none"
            raise NotFound(f"There is no evidence {brief(key)}.{did_you_mean(key, ids)} Known: {shown_ids}.")
        return next(evidence for evidence in reversed(self) if evidence.result.evidence_id == key)

    def _ipython_key_completions_(self) -> list[str]:
        return [evidence.result.evidence_id for evidence in self]

    def _columns(self) -> list[str]:
        return ["evidence", "title", "tables", "rows"]

    def _cells(self, value: ComputedEvidence, /) -> list[Any]:
        result = value.result
        return [Code(result.evidence_id), result.title, ", ".join(result.tables), len(result.rows)]


def first_difference(was: QueryResult, now: QueryResult) -> tuple[str, str] | None:
    """Compare two results as sets of rows; return the first values that differ, with their column."""
    if len(was.rows) != len(now.rows):
        return f"{len(was.rows):,} rows", f"{len(now.rows):,} rows"
    old_rows, new_rows = (
        sorted(rows, key=lambda row: [f"{value:.6g}" if isinstance(value, float) else str(value) for value in row])
        for rows in (was.rows, now.rows)
    )
    for old, new in zip(old_rows, new_rows, strict=True):
        for (name, _), before, after in zip(was.columns, old, new, strict=False):
            are_numbers = {type(before), type(after)} <= {int, float}
            if before != after and not (are_numbers and isclose(before, after, rel_tol=_TOLERANCE)):  # type: ignore[arg-type]
                return f"{name}: {before}", f"{name}: {after}"
    return None


class SharedData:
    """The shared frames of an engine, by name; `mask` masks secrets, `monotonic` returns a time in seconds."""

    def __init__(self, database: Database, mask: Callable[[str], str], monotonic: Callable[[], float]) -> None:
        self.frames: dict[str, SharedFrame] = {}
        self._database = database
        self._mask = mask
        self._monotonic = monotonic
        self._process = QueryProcess()

    def frame(self, name: str) -> SharedFrame:
        """Return a frame by its name in any case; `ToolError` with the known names."""
        if not self.frames:
            raise ToolError(NOTHING_SHARED)
        by_name = {shared_name.casefold(): frame for shared_name, frame in self.frames.items()}
        if (frame := by_name.get(name.strip().casefold())) is None:
            hint = did_you_mean(name, self.frames)
            raise ToolError(f"There is no shared table {name!r}.{hint} Shared tables: {', '.join(self.frames)}.")
        return frame

    async def request(self, method: str, *arguments: Any) -> Any:
        """Call a method of `QueryServer` on the frames; a `ToolError` quotes no value that models may not see."""
        shared = self.frames
        value = await self._process.request(tuple(shared.values()), method, *arguments, timeout_s=QUERY_TIMEOUT_S)
        if any(self.frames.get(name) is not frame for name, frame in shared.items()):
            raise ToolError("The person shared a table anew or withdrew one during the query. Run the query again.")
        return value

    async def query(self, sql: str, title: str) -> QueryResult:
        """Run a SELECT and return its result, which is not stored; errors as for `request`."""
        if not self.frames:
            raise ToolError(NOTHING_SHARED)
        started = self._monotonic()
        reply = await self.request("query", sql, MAX_ROWS)
        duration_ms = round(1000 * (self._monotonic() - started), 3)
        if not reply["tables"]:
            raise ToolError(f"The SQL reads no table: its result is no evidence. Tables: {', '.join(self.frames)}.")
        frames = [self.frame(name) for name in reply["tables"]]
        fingerprints = await run_in_thread(lambda: [frame.fingerprint for frame in frames], "data")
        about = "\0".join([reply["sql"].strip(), *fingerprints]).encode("utf-8", "replace")
        evidence_id = f"data:c-{hashlib.blake2b(about, digest_size=3).hexdigest()}"
        return QueryResult(evidence_id=evidence_id, title=title, duration_ms=duration_ms, **reply)

    async def record(self, ctx: ToolContext, result: QueryResult) -> None:
        """Store the result of a call, with secrets masked."""
        parts = result.model_dump_json(include={"columns", "rows", "is_cut"})
        texts = {"title": result.title, "sql": result.sql, "result_json": parts}
        row = {
            "tool_call_id": ctx.tool_call_id,
            "run_id": ctx.run_id,
            "tables": ", ".join(result.tables),
            "n_rows": len(result.rows),
            "created_at": to_microseconds(ctx.now),
            **result.model_dump(include={"evidence_id", "duration_ms"}),
            **{name: self._mask(text) for name, text in texts.items()},
        }
        await self._database.write(lambda db: insert(db, DATA_RESULTS.name, row, or_ignore=True))

    async def evidence(self, run_id: str) -> EvidenceList:
        """Load the results of a run."""
        results = await self._database.read(lambda db: load_results(db, run_id))
        return EvidenceList(ComputedEvidence(result, lambda _: None) for result in results)

    async def aclose(self) -> None:
        """End the process of the queries; the engine calls it."""
        self._process.close()


def load_results(db: sqlite3.Connection, run_id: str | None = None) -> list[QueryResult]:
    """Load the results of a run, or of all runs if `run_id` is None, in the order of the calls."""
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (DATA_RESULTS.name,)).fetchone():
        return []
    sql = f"SELECT * FROM {DATA_RESULTS.name} WHERE run_id = ?1 OR ?1 IS NULL ORDER BY rowid"  # noqa: S608 - a constant
    return [QueryResult.from_row(dict(row)) for row in db.execute(sql, (run_id,))]
