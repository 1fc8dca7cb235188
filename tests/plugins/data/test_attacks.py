"""Statements of a hostile model: ways out of the shared tables, and ways to see rows of a protected frame.

`outside.sql` and `single_rows.sql` have a statement in each line. A statement about single rows is refused, or its
result has no planted value: groups of fewer than five rows are left out.
"""

import asyncio
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import artifactflow_nb as af
from artifactflow_nb.errors import ToolError
from artifactflow_nb.plugins.data.process import QueryProcess
from artifactflow_nb.plugins.data.snapshot import SharedFrame

HERE = Path(__file__).parent
OUTSIDE = (HERE / "outside.sql").read_text(encoding="utf-8").splitlines()
SINGLE_ROWS = (HERE / "single_rows.sql").read_text(encoding="utf-8").splitlines()
N = 40
CASTS = pd.DataFrame({"site": ["a", "b", "a"], "year": [1, 2, 3], "temp": [1.0, 2.0, 3.0]})
PEOPLE = pd.DataFrame(
    {
        "id": range(1, N + 1),
        "name": [f"zqname{n:03d}" for n in range(N)],
        "ward": ["north", "south"] * (N // 2),
        "age": [20 + 7 * n % 60 for n in range(N)],
        "salary": [7_301_000.0625 + 17.25 * n * n for n in range(N)],
        "bonus": [*[0.0] * (N - 1), 8_842_317.5],
        "note": [*[None] * (N - 3), "zqnote1", "zqnote2", "zqnote3"],
        "seen": pd.to_datetime([f"2031-07-{n % 28 + 1:02d} 03:04:05" for n in range(N)]),
        "rare": [*["common"] * (N - 4), *["zqrare"] * 4],
        "part": [*[np.nan] * (N - 4), 9_119_001.5, 9_119_002.5, 9_119_003.5, 9_119_004.5],
        "cat": pd.Categorical([f"zqcat{n % 13}" for n in range(N)]),
        "dept": pd.Categorical([*["a"] * 20, *["b"] * 17, *["zqdept"] * 3]),
        "email": [f"zqmail{n}@lake.example" for n in range(N)],
    }
)
PLANTED = ["zqname", "zqnote", "zqrare", "zqcat", "zqdept", "zqmail", "zqhidden", "2031-07-", "36476012"]
PLANTED += [str(value) for column in ("salary", "part") for value in PEOPLE[column].dropna()]
FRAMES = [
    SharedFrame.of("casts", CASTS, "rows"),
    SharedFrame.of("other", pd.DataFrame({"k": range(1, 12)}), "rows"),
    SharedFrame.of("people", PEOPLE, "aggregates"),
    SharedFrame.of("hidden", pd.DataFrame({"x": ["zqhidden"]}), "schema"),
]


@pytest.fixture(scope="module")
def shared_process() -> Iterator[QueryProcess]:
    process = QueryProcess()
    yield process
    process.close()


async def ask(process: QueryProcess, sql: str) -> str:
    """Return the rows of a result as text."""
    process._turn = asyncio.Lock()  # each test has an event loop of its own
    reply = await process.request(FRAMES, "query", sql, 100, timeout_s=60)
    return str(reply["rows"])


@pytest.mark.parametrize("sql", OUTSIDE)
async def test_statement_reads_and_changes_nothing_outside(
    shared_process: QueryProcess, tmp_path: Path, sql: str
) -> None:
    planted = tmp_path / "planted.csv"
    planted.write_text("content,n\nzqfile,7\n", encoding="utf-8")
    with pytest.raises(ToolError) as caught:
        await ask(shared_process, sql.replace("FILE", str(planted)).replace("OUT", str(tmp_path / "new")))
    assert "zqfile" not in str(caught.value)
    assert os.listdir(tmp_path) == ["planted.csv"]  # noqa: PTH208 - a blocking call of a test


@pytest.mark.parametrize("sql", SINGLE_ROWS)
async def test_statement_shows_no_single_row(shared_process: QueryProcess, sql: str) -> None:
    try:
        shown = await ask(shared_process, sql)
    except ToolError as error:
        shown = str(error)
    assert [value for value in PLANTED if value in shown.replace(sql, "")] == []


def test_no_attack_leaves_a_planted_value_anywhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither requests nor the cassette, events, logs, frames and the store have a value that no statement names."""
    caplog.set_level(logging.DEBUG)
    sets = [f"{sql} " for sql in [*OUTSIDE, *SINGLE_ROWS] if not any(value in sql for value in PLANTED)]
    calls = [af.ToolCall("query_data", {"sql": sql, "title": "Attack"}) for sql in sets]
    calls += [af.ToolCall("describe_data", {"table": name}) for name in ("people", "hidden")]
    model = af.ScriptedModel([calls, "Nothing."])
    folder = tmp_path / "run"
    wb = af.Workbench(
        model=model, data_dir=folder / "data", record=folder / "runs.jsonl", mode="record", interactive=False
    )
    for frame in FRAMES:
        wb.data.share(see=frame.see, **{frame.name: frame.frame})
    run = wb.ask("Who earns most?").wait()
    assert len(wb.tool_calls_df(run)) == len(calls)
    wb.data.evidence(run)
    files = [path.read_bytes().decode("utf-8", "replace") for path in folder.rglob("*") if path.is_file()]
    texts = [str(model.requests), str(run.events), caplog.text, wb.tool_calls_df(run).to_csv(), wb.data._card().html()]
    assert [value for value in PLANTED for text in [*texts, *files] if value in text] == []
    assert "north" in texts[0]
    wb.close()
