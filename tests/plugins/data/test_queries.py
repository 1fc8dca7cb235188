"""Queries of models: what is refused, what aggregates show, and the process that runs them."""

import asyncio
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from artifactflow_nb.errors import ToolError
from artifactflow_nb.plugins.data.process import QueryProcess
from artifactflow_nb.plugins.data.snapshot import SharedFrame

N = 60
CASTS = pd.DataFrame({"site": ["a", "b", "c"] * 20, "temp": [1.0, 2.0, None] * 20})
PATIENTS = pd.DataFrame(
    {
        "id": range(N),
        "name": [f"Zebulon{i}" for i in range(N)],
        "salary": [71234.5 + i for i in range(N)],
        "bonus": [83456.75, *[None] * (N - 1)],
        "early": [*range(6, 11), *[None] * (N - 5)],
        "late": [*[None] * 4, *range(6, 11), *[None] * (N - 9)],
        "ward": ["north", "south"] * (N // 2),
        "rare": pd.Categorical(["common"] * (N - 2) + ["Quagmire"] * 2),
    }
)
HIDDEN = pd.DataFrame({"secret": ["Xanadu77"] * N})
FRAMES = [
    SharedFrame.of("casts", CASTS, "rows"),
    SharedFrame.of("patients", PATIENTS, "aggregates"),
    SharedFrame.of("hidden", HIDDEN, "schema"),
]
LONG = "SELECT sum(sqrt(a.range * b.range)) FROM range(1000000) a, range(1000000) b"


@pytest.fixture(scope="module")
def shared_process() -> Iterator[QueryProcess]:
    process = QueryProcess()
    yield process
    process.close()


@pytest.fixture
def process(shared_process: QueryProcess) -> QueryProcess:
    """A process of all tests of this module; each test has an event loop of its own."""
    shared_process._turn = asyncio.Lock()
    return shared_process


async def rows(process: QueryProcess, sql: str) -> list[list[object]]:
    reply = await process.request(FRAMES, "query", sql, 100, timeout_s=60)
    return [list(row) for row in reply["rows"]]


OUTSIDE = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('/etc/passwd')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM read_parquet('https://lake.example/a.parquet')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "COPY casts TO 'casts.csv'",
    "EXPORT DATABASE 'folder'",
    "IMPORT DATABASE 'folder'",
    "ATTACH 'other.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET threads = 8",
    "RESET lock_configuration",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "SELECT * FROM pragma_table_info('casts')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM duckdb_secrets()",
    "SELECT current_setting('temp_directory')",
    "SELECT getenv('HOME')",
    "SELECT write_log('x')",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM query_table('patients')",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM patients'))",
    "SELECT * FROM pandas_scan(1, 2, 3)",
    "SELECT * FROM python_map_function(1)",
    "SELECT * FROM frame",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM information_schema.tables",
    "SELECT 1; DROP VIEW casts",
    "SELECT * FROM casts; SELECT * FROM casts",
    "CREATE TABLE t AS SELECT 1",
    "DELETE FROM casts",
    "PREPARE p AS SELECT 1",
    "EXPLAIN ANALYZE SELECT 1",
    "PIVOT casts ON site USING avg(temp)",
    "SELECT",
    "",
]


@pytest.mark.parametrize("sql", OUTSIDE)
async def test_way_out_of_the_shared_tables_is_refused(process: QueryProcess, sql: str) -> None:
    with pytest.raises(ToolError):
        await rows(process, sql)


async def test_connection_is_locked_even_without_the_check() -> None:
    """The connection itself refuses files, settings and extensions, should the check of the syntax tree fail."""
    import duckdb

    from artifactflow_nb.plugins.data.child import QueryServer

    connection = QueryServer()._connection
    frame = CASTS
    assert len(frame) == N
    for sql in [
        "SELECT * FROM read_csv('/etc/passwd')",
        "COPY (SELECT 1) TO 'x.csv'",
        "ATTACH 'other.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads = 8",
        "SET lock_configuration = false",
        "SET enable_external_access = true",
        "SELECT * FROM frame",
    ]:
        with pytest.raises(duckdb.Error):
            connection.execute(sql)
    connection.close()


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT site, sum(temp) FROM casts GROUP BY site ORDER BY site", [["a", 20], ["b", 40], ["c", None]]),
        ("WITH m AS (SELECT max(temp) t FROM Casts) SELECT t FROM m", [[2]]),
        ("SELECT count(*) FROM casts a JOIN casts b USING (site)", [[1200]]),
        ("SELECT DISTINCT max(temp) OVER () FROM casts -- a comment", [[2]]),
        ("SELECT a FROM (PIVOT casts ON site IN ('a', 'b') USING avg(temp))", [[1]]),
        ("SELECT 'nan'::DOUBLE, 1.50::DECIMAL(5, 2), DATE '2020-01-02', 9::HUGEINT", [[None, 1.5, "2020-01-02", 9]]),
    ],
)
async def test_select_statement_is_executed(process: QueryProcess, sql: str, expected: list[list[object]]) -> None:
    assert await rows(process, sql) == expected


async def test_rows_are_fetched_up_to_the_limit(process: QueryProcess) -> None:
    reply = await process.request(FRAMES, "query", "SELECT * FROM casts LIMIT 50 -- x", 7, timeout_s=60)
    assert (len(reply["rows"]), reply["is_cut"]) == (7, True)


async def test_error_names_the_columns_of_the_table(process: QueryProcess) -> None:
    with pytest.raises(ToolError, match='"temp"'):
        await rows(process, "SELECT tempp FROM casts")


SINGLE_ROWS = [
    "SELECT name FROM patients",
    "SELECT * FROM patients",
    "FROM patients",
    "SUMMARIZE patients",
    "DESCRIBE patients",
    "SELECT DISTINCT name FROM patients",
    "SELECT max(salary) FROM patients",
    "SELECT median(salary) FROM patients",
    "SELECT approx_quantile(salary, 0.5) FROM patients",
    "SELECT first(name) FROM patients",
    "SELECT x.name.max() FROM patients x",
    "SELECT bonus.sum() FROM patients",
    "SELECT list(name) FROM patients",
    "SELECT string_agg(name, ',') FROM patients",
    "SELECT arg_max(name, salary) FROM patients",
    "SELECT histogram(name) FROM patients",
    "SELECT mode(name) FROM patients",
    "SELECT sum(salary) FILTER (WHERE id = 3) FROM patients",
    "SELECT sum(CASE WHEN id = 3 THEN salary END) FROM patients",
    "SELECT weighted_avg(salary, CASE WHEN id = 3 THEN 1 ELSE 0 END) FROM patients",
    "SELECT count(*) FROM patients HAVING any_value(name) > 'A'",
    "SELECT ward, count(*) FROM patients GROUP BY ward ORDER BY max(name)",
    "SELECT name, row_number() OVER () FROM patients",
    "SELECT COLUMNS(*) FROM patients GROUP BY ALL",
    "SELECT name FROM patients UNION ALL SELECT site FROM casts",
    "SELECT count(*) FROM patients TABLESAMPLE 1 ROWS",
    "SELECT sum(salary) FROM patients p, range(10)",
    "SELECT patients.name, count(*) FROM patients JOIN casts ON true GROUP BY 1",
    "SELECT * FROM (SELECT * FROM patients)",
    "WITH patients AS (SELECT * FROM patients) SELECT * FROM patients",
    "SELECT (SELECT name FROM patients LIMIT 1) FROM casts",
    "SELECT site FROM casts WHERE site < (SELECT max(name) FROM patients)",
    "SELECT CAST(name AS INT), count(*) FROM patients GROUP BY 1",
    "SELECT count(*) FROM patients WHERE CAST(name AS INT) > 1",
    "SELECT count(*) FROM patients WHERE error(name) IS NULL",
    "SELECT count(*) FROM patients WHERE rare = 3",
    "SELECT unnest([1, 2, 3, 4, 5]), salary FROM patients WHERE id = 3 GROUP BY ALL",
    "SELECT * FROM hidden",
    "SELECT count(*) FROM HIDDEN",
    "SELECT CAST(secret AS INT) FROM hidden",
    "SELECT count(*) FROM casts, hidden",
]
PLANTED = ("Zebulon", "7123", "7124", "7125", "7126", "7127", "7128", "7129", "83456", "Quagmire", "Xanadu")


@pytest.mark.parametrize("sql", SINGLE_ROWS)
async def test_single_row_is_refused_and_the_error_quotes_no_value(process: QueryProcess, sql: str) -> None:
    with pytest.raises(ToolError) as caught:
        await rows(process, sql)
    assert not [value for value in PLANTED if value in str(caught.value)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT ward, count(*) n FROM patients GROUP BY ward ORDER BY ward", [["north", 30], ["south", 30]]),
        ("SELECT round(avg(id), 1) FROM patients p WHERE p.ward LIKE 'n%'", [[29]]),
        ("SELECT id // 20 * 20 band, count(DISTINCT ward) FROM patients GROUP BY band ORDER BY band LIMIT 1", [[0, 2]]),
        ("SELECT ward, sum(id) / count(*) FROM patients GROUP BY ALL HAVING avg(id) > 29.5", [["south", 30]]),
        ("SELECT name, count(*) FROM patients GROUP BY name", []),
        ("SELECT rare, count(*) FROM patients GROUP BY rare", [["common", 58]]),
        ("SELECT sum(salary) FROM patients WHERE id = 3", []),
        ("SELECT sum(bonus) FROM patients", []),
        ("SELECT sum(early), sum(late) FROM patients", [[40, 40]]),
        ("SELECT regr_avgx(early, late), regr_avgy(early, late) FROM patients", []),
        ("SELECT regr_count(salary, id), corr(p.salary, id) FROM patients p", [[60, 1]]),
        ("SELECT typeof(rare), count(*) FROM patients GROUP BY 1", [["VARCHAR", 60]]),
    ],
)
async def test_aggregates_leave_out_small_groups(process: QueryProcess, sql: str, expected: list[list[object]]) -> None:
    """A group has at least five rows, each aggregated column five values, and each pair of columns five rows."""
    assert await rows(process, sql) == expected


async def test_description_of_aggregates_has_no_ranges_and_rare_values(process: QueryProcess) -> None:
    described = await process.request(FRAMES, "describe", "patients", FRAMES[1].columns, timeout_s=60)
    by_name = {column[0]: column for column in described}
    assert (by_name["ward"][-1], by_name["rare"][-1], by_name["name"][-1]) == (
        "north (30), south (30)",
        "common (58)",
        None,
    )
    assert by_name["id"][4:6] == [None, None]
    assert by_name["bonus"][4:8] == [None] * 4
    open_table = await process.request(FRAMES, "describe", "casts", FRAMES[0].columns, timeout_s=60)
    assert open_table[1][:7] == ["temp", "number", 20, 2, 1.0, 2.0, 1.5]


async def test_query_beyond_the_time_limit_is_stopped_and_the_process_replaced() -> None:
    process = QueryProcess()
    await rows(process, "SELECT 1")
    stopped = process._process
    with pytest.raises(ToolError, match=r"longer than 0.2 s and was stopped"):
        await process.request(FRAMES, "query", LONG, 10, timeout_s=0.2)
    assert stopped is not None
    assert stopped.returncode is not None
    assert await rows(process, "SELECT count(*) FROM casts") == [[N]]
    process.close()


async def test_cancelled_query_ends_its_process() -> None:
    process = QueryProcess()
    await rows(process, "SELECT 1")
    stopped = process._process
    query = asyncio.create_task(rows(process, LONG))
    await asyncio.sleep(0.1)
    query.cancel()
    with pytest.raises(asyncio.CancelledError):
        await query
    assert stopped is not None
    assert stopped.returncode is not None
    process.close()


async def test_killed_process_is_replaced() -> None:
    process = QueryProcess()
    assert await rows(process, "SELECT count(*) FROM casts") == [[N]]
    assert process._process is not None
    process._process.kill()
    with pytest.raises(ToolError, match="may have needed too much memory"):
        await rows(process, "SELECT 1")
    assert await rows(process, "SELECT count(*) FROM casts") == [[N]]
    process.close()


async def test_single_call_cannot_take_all_memory(process: QueryProcess) -> None:
    with pytest.raises(ToolError):
        await rows(process, "SELECT length(repeat('x', 3000000000)) + length(repeat('y', 3000000000))")
    assert await rows(process, "SELECT 1") == [[1]]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="reads the environment of a process")
async def test_process_has_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    process = QueryProcess()
    await rows(process, "SELECT 1")
    assert process._process is not None
    entries = Path(f"/proc/{process._process.pid}/environ").read_bytes().split(b"\0")  # noqa: ASYNC240 - no file
    variables = {entry.partition(b"=")[0].decode() for entry in entries if entry}
    assert "PYTHONPATH" in variables
    assert "OPENAI_API_KEY" not in variables
    process.close()


async def test_frame_that_was_shared_again_is_read_again() -> None:
    process = QueryProcess()
    first, second = (SharedFrame.of("casts", CASTS.head(n), "rows") for n in (3, 9))
    for frame, n_rows in ((first, 3), (second, 9)):
        reply = await process.request([frame], "query", "SELECT count(*) FROM casts", 10, timeout_s=60)
        assert reply["rows"] == [[n_rows]]
    with pytest.raises(ToolError, match="no shared table 'casts'"):
        await process.request([], "query", "SELECT count(*) FROM casts", 10, timeout_s=60)
    process.close()


@pytest.mark.parametrize("see", ["rows", "aggregates"])
async def test_table_without_rows_is_read(process: QueryProcess, see: Any) -> None:
    empty = SharedFrame.of("empty", CASTS.head(0), see)
    reply = await process.request([empty], "query", "SELECT count(*) n FROM empty HAVING true", 10, timeout_s=60)
    assert reply["rows"] == ([[0]] if see == "rows" else [])
    described = await process.request([empty], "describe", "empty", empty.columns, timeout_s=60)
    assert [column[:4] for column in described] == [["site", "text", 0, 0], ["temp", "number", 0, 0]]


@pytest.mark.parametrize("name", ["Ärzte", "straße", "İzmir", "order"])
async def test_name_of_a_table_may_have_any_letters(process: QueryProcess, name: str) -> None:
    frame = SharedFrame.of(name, CASTS, "aggregates")
    reply = await process.request([frame], "query", f'SELECT sum(temp) FROM "{name}"', 10, timeout_s=60)  # noqa: S608 - a name of the test
    assert (reply["rows"], reply["tables"]) == ([[60]], [name])


COLUMNS = [
    (pd.Series([1, 300], dtype=">i4"), [1, 300]),
    (pd.Series([1.5, None], dtype="float16"), [1.5, None]),
    (pd.Series(pd.arrays.SparseArray([0, 1.5])), [0, 1.5]),
    (pd.Series([Decimal("1.25"), Decimal("NaN")]), [1.25, None]),
    (pd.Series([Decimal("1.25"), Decimal("12345678901234567.89")]), [1.25, "12345678901234567.89"]),
    (pd.Series([*[Decimal("1.1")] * 2000, Decimal("123456.123456")]), [*[1.1] * 2000, 123456.123456]),
    (pd.Series([2**64 - 1, 2**53 + 1], dtype="uint64"), [str(2**64 - 1), 2**53 + 1]),
    (pd.Series(pd.to_datetime(["2020-01-02", None])).astype("category"), ["2020-01-02T00:00:00", None]),
    (pd.Series([float("inf"), -0.5]), ["inf", -0.5]),
]


@pytest.mark.parametrize(("column", "expected"), COLUMNS, ids=lambda value: str(getattr(value, "dtype", "")))
async def test_column_of_an_unusual_type_keeps_its_values(process: QueryProcess, column: Any, expected: Any) -> None:
    frame = SharedFrame.of("t", pd.DataFrame({"x": column}), "rows")
    reply = await process.request([frame], "query", "SELECT x FROM t", 5_000, timeout_s=60)
    assert [value for (value,) in reply["rows"]] == expected


async def test_column_is_described_alone(process: QueryProcess) -> None:
    """Registering a frame takes time for each column, so a wide frame is not registered again for each column."""
    wide = SharedFrame.of("wide", pd.DataFrame({f"c{n}": [n, n + 2] for n in range(300)}), "rows")
    described = await process.request([wide], "describe", "wide", wide.columns, timeout_s=60)
    assert described[-1][:7] == ["c299", "integer", 0, 2, 299, 301, 300.0]


async def test_size_of_a_result_is_bounded(process: QueryProcess) -> None:
    """A result goes into the process of the notebook and into the store, so all its cells together have a limit."""
    sql = f"SELECT {', '.join(['repeat(chr(120), 9000)'] * 100)} FROM range(100)"  # noqa: S608 - no data in it
    reply = await process.request([], "query", sql, 1_000, timeout_s=60)
    assert (len(reply["rows"]), len(reply["rows"][0]), reply["is_cut"]) == (24, 100, True)


async def test_decimals_of_a_class_of_the_notebook_are_read(process: QueryProcess) -> None:
    class Money(Decimal):
        """A class that another process does not know."""

    frame = SharedFrame.of("prices", pd.DataFrame({"x": [Money("1.5"), None]}), "rows")
    reply = await process.request([*FRAMES, frame], "query", "SELECT x FROM prices", 10, timeout_s=60)
    assert reply["rows"] == [[1.5], [None]]
