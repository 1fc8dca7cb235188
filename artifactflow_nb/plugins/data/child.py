"""The process that runs queries: it has the shared frames, DuckDB without files and network, and no keys.

A request on standard input has the name of a method of `QueryServer` and its arguments; a reply on standard output has
an error text, which is empty after success, and the value. The process ends when its standard input is closed.
"""

import os
import pickle
import queue
import re
import signal
import sys
import threading
from collections.abc import Mapping
from contextlib import closing, suppress
from datetime import date, time, timedelta
from decimal import Decimal
from itertools import accumulate
from math import isfinite, isnan
from typing import Any

from artifactflow_nb.plugins.data.snapshot import MAX_CATEGORIES, MIN_GROUP, quoted
from artifactflow_nb.plugins.data.statements import Refused, Statement, first_lines

MAX_CELL_CHARS = 2_000
MAX_RESULT_CHARS = 5_000_000
_MEMORY_BYTES = 2_000_000_000
_LOCKS = (
    "SET GLOBAL pandas_analyze_sample = 1000000000000; SET GLOBAL TimeZone = 'UTC'; "
    "SET enable_external_access = false; SET lock_configuration = true"
)
_KINDS = {
    "VARCHAR": "text", "ENUM": "text", "UUID": "text", "DOUBLE": "number", "FLOAT": "number", "DECIMAL": "number",
    "BOOLEAN": "boolean", "DATE": "date", "TIMESTAMP WITH TIME ZONE": "time in UTC", "INTERVAL": "duration",
    "TIMESTAMP": "time",
}  # fmt: skip
_HIDDEN_ERROR = "The query failed ({}) on values of {}, which you cannot see: avoid what fails, e.g. use try_cast."


class QueryServer:
    """The frames and the connection of the process."""

    def __init__(self) -> None:
        import duckdb

        options: dict[str, Any] = {
            "threads": 2, "memory_limit": f"{_MEMORY_BYTES}B", "python_enable_replacements": False,
            "autoinstall_known_extensions": False, "autoload_known_extensions": False, "temp_directory": "",
        }  # fmt: skip
        self._connection = duckdb.connect(":memory:", config=options)
        listing = "SELECT function_name FROM duckdb_functions() GROUP BY ALL HAVING bool_and(function_type = 'scalar')"
        self._scalars = frozenset(name.lower() for (name,) in self._connection.execute(listing).fetchall())
        self._connection.execute(_LOCKS)
        self._frames: dict[str, Any] = {}
        self._see: dict[str, str] = {}

    def add(self, name: str, see: str, frame: Any) -> None:
        """Take a shared frame."""
        if see != "rows":  # a type of DuckDB would name the categories, also in error messages
            frame = frame.astype({name: "string" for name, dtype in frame.dtypes.items() if dtype.name == "category"})
        self._frames[name], self._see[name] = frame, see

    def query(self, sql: str, max_rows: int) -> dict[str, Any]:
        """Run a SELECT of a model and return its columns, first rows, tables and SQL; `Refused` for other queries."""
        import duckdb

        statement = Statement(self._connection, sql)
        used = statement.tables(self._see)
        frames = {name: self._frames[name] for name in used}
        if hidden := [name for name, see in used.items() if see == "schema"]:
            raise Refused(f"Models see the columns of {', '.join(hidden)} only: write the SQL for the person to run.")
        if guarded := [name for name, see in used.items() if see == "aggregates"]:
            statement.require_aggregates(guarded[0], self._scalars)
            sql = statement.sql
            self._run(f"EXPLAIN {sql}", frames, 1)  # reads no rows: its errors quote no value
        try:
            columns, rows = self._run(sql, frames, max_rows + 1)
        except (Refused, duckdb.Error, MemoryError) as error:
            if guarded:
                raise Refused(_HIDDEN_ERROR.format(type(error.__cause__ or error).__name__, guarded[0])) from None
            raise
        sizes = accumulate(sum(len(str(value)) for value in row) for row in rows[:max_rows])
        first = rows[: sum(size <= MAX_RESULT_CHARS for size in sizes)]
        return {"columns": columns, "rows": first, "is_cut": len(first) < len(rows), "sql": sql, "tables": sorted(used)}

    def _run(self, sql: str, frames: Mapping[str, Any], n_rows: int) -> tuple[list[tuple[str, str]], list[list[Any]]]:
        """Run SQL in a connection that has these tables only, and fetch `n_rows`."""
        import duckdb

        with closing(self._connection.cursor()) as cursor:
            for name, frame in frames.items():
                cursor.register(name, frame)
            try:
                result = cursor.execute(sql)
                columns = [(str(column[0]), kind_of(str(column[1]))) for column in result.description]
                rows = result.fetchmany(n_rows)
            except duckdb.Error as error:
                raise Refused(first_lines(error)) from error
        return columns, [[cell(value) for value in row] for row in rows]

    def describe(self, name: str, kinds: Mapping[str, str]) -> list[list[Any]]:
        """Return a row for each column of a frame, `DESCRIBED`, without what models may not see of the frame."""
        n_least = 1 if self._see[name] == "rows" else MIN_GROUP
        described = []
        for column, kind in kinds.items():
            frame = {name: self._frames[name][[column]]}  # the time to register a frame grows with its columns
            text, table, is_number = quoted(column), quoted(name), kind in {"integer", "number"}
            facts = [f"{bound}({text})" if n_least == 1 else "NULL" for bound in ("min", "max")]
            facts += [f"{moment}(CAST({text} AS DOUBLE))" if is_number else "NULL" for moment in ("avg", "stddev_samp")]
            shown = ", ".join(f"CASE WHEN count({text}) >= {n_least} THEN {fact} END" for fact in facts)
            counts = f"count(*) - count({text}), approx_count_distinct({text})"
            _, (values,) = self._run(f"SELECT {counts}, {shown} FROM {table}", frame, 1)  # noqa: S608 - quoted
            rows: list[list[Any]] = []
            if kind in {"text", "boolean"} and values[1] <= 2 * MAX_CATEGORIES:  # the number is an estimate
                listing = f"SELECT {text}, count(*) FROM {table} WHERE {text} IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1"  # noqa: S608 - quoted
                _, rows = self._run(listing, frame, MAX_CATEGORIES + 1)
            categories = [f"{value} ({n:,})" for value, n in rows if n >= n_least and len(rows) <= MAX_CATEGORIES]
            described.append([column, kind, *values, ", ".join(categories) or None])
        return described


def kind_of(duckdb_type: str) -> str:
    """Return the kind of a column from its type in DuckDB."""
    name = re.split(r"\(|_", duckdb_type)[0]
    return "other" if "[" in duckdb_type else _KINDS.get(name, "integer" if "INT" in name else "other")


def cell(value: Any) -> Any:
    """Convert a value of a result to JSON: ISO times, seconds, and text for other objects and huge integers."""
    match value:
        case int() | None if value is None or abs(value) < 2**63:
            return value
        case int():
            return str(value)
        case Decimal() if value.is_finite() and Decimal(f"{value:.15g}") != value:  # more digits than a float has
            return str(value)
        case float() | Decimal():
            number = float(value)
            return number if isfinite(number) else None if isnan(number) else str(number)
        case date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case _:
            text = str(value)
            return text if len(text) <= MAX_CELL_CHARS else text[:MAX_CELL_CHARS] + "…"


def serve(n_bytes: int) -> None:
    """Answer the requests on standard input, as the main function of a process for frames of this size."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the process of the notebook, which ends this one
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_DATA, (n_most := 2 * (_MEMORY_BYTES + n_bytes), n_most))
    requests: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # output of a library is no reply

    def work() -> None:
        server = QueryServer()
        while True:
            method, *arguments = requests.get()
            try:
                reply = "", getattr(server, method)(*arguments)
            except Refused as error:
                reply = str(error), None
            except Exception as error:  # noqa: BLE001 - its message may quote a value
                reply = f"The query could not be run ({type(error).__name__}).", None
            pickle.dump(reply, replies, pickle.HIGHEST_PROTOCOL)
            replies.flush()

    threading.Thread(target=work, daemon=True).start()
    try:
        while True:
            requests.put(pickle.load(sys.stdin.buffer))  # noqa: S301 - from the process of the notebook
    finally:
        os._exit(0)
