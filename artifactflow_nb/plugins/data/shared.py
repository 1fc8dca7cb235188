"""`SharedData`: the frames that a person has shared with the agents of an engine, and the results of queries."""

import hashlib
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from pydantic import BaseModel

from artifactflow_nb.core.text.format import did_you_mean
from artifactflow_nb.errors import ToolError
from artifactflow_nb.plugins.data.process import QueryProcess
from artifactflow_nb.plugins.data.snapshot import SharedFrame
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.encoding import insert
from artifactflow_nb.store.schema import Table, to_microseconds
from artifactflow_nb.tools.base import ToolContext
from artifactflow_nb.tools.threads import run_in_thread

DATA_RESULTS = Table(
    "data_results",
    "tool_call_id TEXT NOT NULL, evidence_id TEXT NOT NULL, title TEXT NOT NULL, sql TEXT NOT NULL, "
    "tables TEXT NOT NULL, result_json TEXT NOT NULL, n_rows INTEGER NOT NULL, duration_ms REAL NOT NULL, "
    "created_at INTEGER NOT NULL",
    key="tool_call_id",
)
QUERY_TIMEOUT_S = 30.0
MAX_ROWS = 1_000
"""Most rows of a result that are stored."""
NOTHING_SHARED = "The person shares no data now. Ask for wb.data.share(name=frame) if the question needs data."


class QueryResult(BaseModel, frozen=True):
    """A result of a query, as it is stored.

    Attributes:
        evidence_id: `data:c-` and a hash of the SQL and of the fingerprints of the tables.
        title: What the result shows, in the words of the model.
        sql: The SQL that was run: the model's SQL, with a condition on the size of groups if models see aggregates.
        tables: The names of the tables.
        columns: Names and kinds (`integer`, `text`, ...) of the columns.
        rows: The first `MAX_ROWS` rows, or fewer rows if these have more than 5,000,000 characters.
        is_cut: Whether the query has more rows.
        duration_ms: The time of the query and of the hand-over of new tables in milliseconds.
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
        """Call a method of `QueryServer` on the frames and return its value.

        Errors: `ToolError` for a request that is refused or fails; the message quotes values only of frames whose
        rows models may see.
        """
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
            "evidence_id": result.evidence_id,
            **{name: self._mask(text) for name, text in texts.items()},
            "tables": ", ".join(result.tables),
            "n_rows": len(result.rows),
            "duration_ms": result.duration_ms,
            "created_at": to_microseconds(ctx.now),
        }
        await self._database.write(lambda db: insert(db, DATA_RESULTS.name, row, or_ignore=True))

    async def aclose(self) -> None:
        """End the process of the queries; the engine calls it."""
        self._process.close()


def load_results(db: sqlite3.Connection, run_id: str | None = None) -> list[QueryResult]:
    """Load the results of a run, or of all runs if `run_id` is None, in the order of the calls."""
    if not db.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (DATA_RESULTS.name,)).fetchone():
        return []
    sql = f"SELECT * FROM {DATA_RESULTS.name} WHERE run_id = ?1 OR ?1 IS NULL ORDER BY rowid"  # noqa: S608 - a constant
    return [QueryResult.from_row(dict(row)) for row in db.execute(sql, (run_id,))]
