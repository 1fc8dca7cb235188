"""A question that agents answer by computing on shared data: asked, recorded, replayed, sealed and computed again."""

import ast
import asyncio
import logging
import re
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from conftest import OpenWorkbench
from support.mcp_config import until

import artifactflow_nb as af
from artifactflow_nb.errors import NotFound, ToolError, UsageError
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.plugins.data.shared import QueryResult, SharedData
from artifactflow_nb.plugins.data.snapshot import SharedFrame

CASTS = pd.DataFrame({"site": ["a", "b", "a", "b"], "temp": [1.0, 2.5, 2.0, 4.5]})
SQL = "SELECT site, avg(temp) AS mean FROM casts GROUP BY site ORDER BY site"
MEANS = pd.DataFrame({"site": pd.array(["a", "b"], "string"), "mean": pd.array([1.5, 3.5], "Float64")})


def query(sql: str, title: str = "Mean by site") -> af.ToolCall:
    return af.ToolCall("query_data", {"sql": sql, "title": title})


def test_result_is_recorded_replayed_and_sealed_without_data(tmp_path: Path) -> None:
    calls = [af.ToolCall("list_data", {}), af.ToolCall("describe_data", {"table": "casts"}), query(SQL)]
    model = af.ScriptedModel([*calls, "Site b is warmer."])
    cassette = tmp_path / "runs.jsonl"
    wb = af.Workbench(model=model, data_dir=tmp_path / "data", record=cassette, mode="record", interactive=False)
    wb.data.share(casts=CASTS)
    run = wb.ask("Which site is warmer?").wait()
    assert wb.tool_calls_df(run)["success"].tolist() == [True] * 3
    evidence = wb.data.evidence(run)[0]
    result_text = model.requests[3].messages[-1].content
    assert f"2 rows. Cite the figures as [{evidence.result.evidence_id}]." in result_text
    assert "| b | 3.5 |" in result_text
    assert "| temp | number | 0 | 4 | 1 | 4.5 | 2.5 |" in model.requests[2].messages[-1].content
    row = wb.data.evidence_df(run).iloc[0]
    assert (row["title"], row["tables"], row["sql"], row["n_rows"]) == ("Mean by site", "casts", SQL, 2)
    assert wb.query("SELECT evidence_id FROM evidence")["evidence_id"].tolist() == [row["evidence_id"]]
    assert wb.data.evidence(run)[row["evidence_id"]] == evidence
    pd.testing.assert_frame_equal(evidence.df, MEANS)
    assert "Mean by site" in wb.data._card().plain()
    assert run.verify().differences == ()
    with af.open_run(run.seal(tmp_path / "run.afrun")) as sealed:
        (copy,) = sealed.data.evidence()
        pd.testing.assert_frame_equal(copy.df, MEANS)
        assert copy.recompute().status == "no data"
        assert len(sealed.data.evidence_df()) == 1
    wb.close()
    with af.Workbench(replay=cassette, interactive=False) as replay:
        again = replay.ask("Which site is warmer?").wait()
        pd.testing.assert_frame_equal(replay.data.evidence(again)[0].df, MEANS)
        assert replay.data.evidence_df(again).iloc[0].to_dict() == {**row.to_dict(), "run_id": again.run_id}


def test_evidence_is_computed_again(workbench: OpenWorkbench) -> None:
    wb = workbench([query(SQL), "Done."])
    wb.data.share(casts=CASTS)
    evidence = wb.data.evidence(wb.ask("Which site is warmer?").wait())[0]
    assert evidence.recompute().status == "same"
    wb.data.share(casts=CASTS.assign(temp=[1.0, 2.5, 2.0, 5.5]))
    again = evidence.recompute()
    assert (again.status, again.was, again.now) == ("differs", "mean: 3.5", "mean: 4.0")
    wb.data.share(casts=CASTS.head(1))
    assert evidence.recompute().was == "2 rows"
    wb.data.unshare()
    assert evidence.recompute().status == "no data"


def test_cell_computes_the_evidence_from_variables(workbench: OpenWorkbench) -> None:
    wb = workbench([query(SQL, "Mean\nby site"), "Done."])
    wb.data.share(casts=CASTS)
    evidence = wb.data.evidence(wb.ask("Which site is warmer?").wait())[0]
    source = evidence.cell
    *setup, expression = source.rstrip().rpartition("\n\n")[::2]
    names = {"casts": CASTS}
    exec("\n".join(setup), names)  # noqa: S102 - the cell of the test
    assert eval(expression, names)["mean"].tolist() == [1.5, 3.5]  # noqa: S307 - the same
    with pytest.raises(NotFound, match="There is no evidence 'data:c-000000'"):
        wb.data.evidence()["data:c-000000"]
    assert evidence.result.evidence_id in repr(wb.data.evidence())
    assert "mean" in evidence._repr_html_()


HOSTILE = [
    'SELECT 1 AS x FROM casts /* """"") ; raise SystemExit # */',
    'SELECT 1 AS x FROM casts -- """ \\',
    'SELECT length(\'""""""\') AS x FROM casts',
]


@pytest.mark.parametrize("sql", HOSTILE)
def test_sql_cannot_leave_its_text_in_the_cell(workbench: OpenWorkbench, sql: str) -> None:
    wb = workbench([query(sql), "Done."])
    wb.data.share(casts=CASTS)
    tree = ast.parse(wb.data.evidence(wb.ask("How many?").wait())[0].cell)
    (text,) = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    assert (len(tree.body), text.strip()) == (2, sql)


def test_ids_tell_results_apart(workbench: OpenWorkbench) -> None:
    """White space within a text, the end of a comment and the order of the tables change a result."""
    texts = ["'a  b' AS x FROM a", "'a b' AS x FROM a", "1 AS x -- \n, 2 AS y\nFROM a", "1 AS x -- , 2 AS y\nFROM a"]
    difference = "SELECT max(a.temp) - max(b.temp) AS x FROM a, b"
    queries = [query(sql) for sql in [*(f"SELECT {text}" for text in texts), difference]]
    wb = workbench([queries, "Done.", queries[-1], "Done."])
    first, second = CASTS, CASTS.assign(temp=[1.0, 2.5, 2.0, 5.5])
    wb.data.share(a=first, b=second)
    wb.ask("What differs?").wait()
    wb.data.share(a=second, b=first)
    wb.ask("What differs now?").wait()
    evidence = wb.data.evidence()
    assert len({each.result.evidence_id for each in evidence}) == 6
    assert [each.result.rows for each in evidence][-2:] == [[[-1.0]], [[1.0]]]


@pytest.mark.parametrize("sql", ["SELECT 9340 AS casts", "WITH c AS (SELECT 9340 AS n) SELECT n FROM c"])
def test_figures_that_no_table_gives_are_no_evidence(workbench: OpenWorkbench, sql: str) -> None:
    model = af.ScriptedModel([query(sql), "Done."])
    wb = workbench(model=model)
    wb.data.share(casts=CASTS)
    run = wb.ask("How many casts were there?").wait()
    assert "The SQL reads no table: its result is no evidence. Tables: casts." in model.requests[1].messages[-1].content
    assert len(wb.data.evidence(run)) == 0


def test_figures_reach_the_model_with_all_their_digits(workbench: OpenWorkbench) -> None:
    sql = (
        "SELECT 12345678901.55::DOUBLE AS money, 0.1 + 0.2::DOUBLE AS tenths, "
        "18446744073709551615::UBIGINT AS id FROM casts"
    )
    model = af.ScriptedModel([query(sql), "Done."])
    wb = workbench(model=model)
    wb.data.share(casts=CASTS)
    wb.ask("How much?").wait()
    assert "| 12345678901.55 | 0.3 | 18446744073709551615 |" in model.requests[1].messages[-1].content


@pytest.mark.parametrize("changed", [{"casts": SharedFrame.of("casts", CASTS, "schema")}, {}])
async def test_result_of_a_table_that_was_changed_during_the_query_is_withheld(
    workbench: OpenWorkbench, changed: dict[str, SharedFrame]
) -> None:
    wb = workbench(["Fine."])
    wb.data.share(casts=CASTS)
    data = SharedData(wb._thread.engine.database, str, time.monotonic)
    data.frames = {"casts": SharedFrame.of("casts", CASTS, "rows")}
    waiting = asyncio.create_task(data.query(SQL, "Mean"))
    await asyncio.sleep(0)
    data.frames = changed
    with pytest.raises(ToolError, match="Run the query again"):
        await waiting
    await data.aclose()


def test_model_is_told_what_to_correct(workbench: OpenWorkbench) -> None:
    calls = [
        query("SELECT tempp FROM casts"),
        af.ToolCall("describe_data", {"table": "cast"}),
        query("DROP TABLE casts"),
    ]
    model = af.ScriptedModel([*calls, "Sorry."])
    wb = workbench(model=model)
    wb.data.share(casts=CASTS)
    run = wb.ask("Which site is warmer?").wait()
    for request, correction in zip(
        model.requests[1:], ('"temp"', "Did you mean casts?", "exactly one SELECT"), strict=True
    ):
        assert correction in request.messages[-1].content
    assert wb.data.evidence_df(run).empty


def test_withdrawn_data_is_told_in_a_sentence(workbench: OpenWorkbench) -> None:
    model = af.ScriptedModel([af.ToolCall("list_data", {}), query(SQL), "Nothing there."])
    wb = workbench(model=model)
    wb.data.share(casts=CASTS)
    wb.data.unshare()
    wb.ask("Which site is warmer?").wait()
    for request in model.requests[1:]:
        assert "shares no data now" in request.messages[-1].content


def test_stop_ends_a_running_query(workbench: OpenWorkbench) -> None:
    endless = "SELECT sum(sqrt(a.range * b.range)) FROM range(1000000) a, range(1000000) b"
    wb = workbench([query(endless), "Never."])
    wb.data.share(casts=CASTS)
    run = wb.ask("Which site is warmer?")
    process = wb.data._shared._process
    until(lambda: process._process is not None)
    child = process._process
    run.cancel()
    run.wait()
    assert run.status == "cancelled"
    assert child is not None
    until(lambda: child.poll() is not None)


def test_closed_workbench_ends_the_process(tmp_path: Path) -> None:
    wb = af.Workbench(model=af.ScriptedModel([query(SQL), "b"]), data_dir=tmp_path, interactive=False)
    wb.data.share(casts=CASTS)
    wb.ask("Which site is warmer?").wait()
    child = wb.data._shared._process._process
    wb.close()
    assert child is not None
    assert child.returncode is not None


ATTEMPTS = [
    "SELECT * FROM patients",
    "SELECT max(salary) FROM patients",
    "SELECT CAST(name AS INT), count(*) FROM patients GROUP BY 1",
    "SELECT ward, avg(salary) FROM patients GROUP BY ward",
    "SELECT name, count(*) FROM patients GROUP BY name",
    "SELECT secret FROM hidden",
    "SELECT CAST(secret AS INT) FROM hidden",
    "SELECT count(*) FROM patients, hidden WHERE name = secret",
]


def test_no_value_of_a_protected_frame_leaves_the_kernel(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither requests nor the cassette, events, logs, errors and the store have a planted value."""
    patients = pd.DataFrame(
        {
            "name": [f"Zebulon{i}" for i in range(20)],
            "salary": [71234.0625 + i * i for i in range(20)],
            "ward": ["n", "s"] * 10,
        }
    )
    hidden = pd.DataFrame({"secret": ["Xanadu77"] * 20, "kind": pd.Categorical(["Quagmire"] * 20)})
    tables = [af.ToolCall("describe_data", {"table": name}) for name in ("patients", "hidden")]
    model = af.ScriptedModel([[af.ToolCall("list_data", {}), *tables], [query(sql) for sql in ATTEMPTS], "Nothing."])
    cassette = tmp_path / "runs.jsonl"
    caplog.set_level(logging.DEBUG)
    wb = af.Workbench(model=model, data_dir=tmp_path / "data", record=cassette, mode="record", interactive=False)
    wb.data.share(patients=patients, see="aggregates")
    wb.data.share(hidden=hidden, see="schema")
    run = wb.ask("Who earns most?").wait()
    assert wb.tool_calls_df(run)["success"].tolist() == [True] * 3 + [False, False, False, True, True] + [False] * 3
    files = [path.read_bytes().decode("utf-8", "replace") for path in tmp_path.rglob("*") if path.is_file()]
    texts = [str(model.requests), str(run.events), caplog.text, wb.tool_calls_df(run).to_csv(), *files]
    assert "ward" in texts[0]
    planted = ["Zebulon", "Xanadu", "Quagmire", *(str(71234.0625 + i * i) for i in range(20))]
    assert [value for value in planted for text in texts if value in text] == []
    wb.close()


@pytest.mark.parametrize(
    "content", ['{"columns": [["x", "integer"]], "rows": [[1, 2]], "is_cut": false}', '{"rows": []}']
)
def test_damaged_result_of_a_file_is_refused(content: str) -> None:
    row = {"evidence_id": "data:c-1", "title": "", "sql": "", "tables": "", "duration_ms": 1.0, "result_json": content}
    with pytest.raises(ValueError, match=r"result_json|columns"):
        QueryResult.from_row(row)


@pytest.mark.parametrize(
    ("sql", "is_warned"),
    [
        ("SELECT * FROM casts\nlimit(1)", True),
        ("SELECT * FROM casts ORDER BY temp LIMIT 1", False),
        ("SELECT count(*) AS unlimited FROM casts", False),
    ],
)
def test_limit_without_order_is_told(workbench: OpenWorkbench, sql: str, is_warned: bool) -> None:
    model = af.ScriptedModel([query(sql), "Done."])
    wb = workbench(model=model)
    wb.data.share(casts=CASTS)
    wb.ask("Which?").wait()
    assert ("Without ORDER BY" in model.requests[1].messages[-1].content) is is_warned


def test_text_that_no_encoding_has_is_told_where_it_is_read(workbench: OpenWorkbench) -> None:
    model = af.ScriptedModel([[query("SELECT sum(n) AS n FROM texts"), query("SELECT x FROM texts")], "Done."])
    wb = workbench(model=model)
    wb.data.share(texts=pd.DataFrame({"x": ["a\ud800"], "n": [1]}))
    run = wb.ask("How many?").wait()
    assert wb.tool_calls_df(run)["success"].tolist() == [True, False]
    assert "surrogate" in wb.tool_calls_df(run)["error_message"][1]


TREND = pd.DataFrame(
    {"site": ["北", "北", "北", "S", "S"], "year": [2019, 2020, 2021, 2019, 2020], "temp": [1.5, 2.5, None, 4.0, 3.0]}
)


def test_chart_of_a_result_has_a_text_alternative_and_its_code(workbench: OpenWorkbench, figures: None) -> None:
    del figures
    sql = "SELECT * FROM trend ORDER BY year, site"

    def reply(request: ModelRequest) -> Any:
        if not (ids := re.findall(r"data:c-[0-9a-f]+", str(request.messages[-1].content))):
            return query(sql, "Temperature")
        if "chart of" in str(request.messages[-1].content):
            return "Done."
        charts = [("line", "temp", "site"), ("line", "temp", ""), ("bar", "site", ""), ("bar", "depth", "")]
        calls = [{"mark": mark, "x": "year", "y": y, "color": color} for mark, y, color in charts]
        return [af.ToolCall("plot_data", {"evidence_id": ids[0], **call}) for call in calls]

    model = af.ScriptedModel(reply)
    wb = workbench(model=model)
    wb.data.share(trend=TREND)
    run = wb.ask("How did it change?").wait()
    text = str(model.requests[-1].messages[-1].content)
    description = "Line chart of temp by year: S from 3 (2020) to 4 (2019); 北 from 1.5 (2019) to 2.5 (2020)."
    assert description in text
    assert "Draw one row with values for each year" in text
    assert text.count("Columns: site text, year integer, temp number") == 2
    assert run.verify().differences == ()
    (code,) = re.findall(r"```python\n(.*)\n```", text)
    axes = eval(code, {"wb": wb})  # noqa: S307 - the code of the chart
    assert af.plots.alt_text(axes) == f"Temperature. {description}"
    assert [line.get_label() for line in axes.lines] == ["S", "北"]


@pytest.mark.parametrize("mark", ["line", "bar", "point"])
def test_chart_of_every_mark_is_drawn(workbench: OpenWorkbench, figures: None, mark: Any) -> None:
    del figures
    sqls = [
        "SELECT day, n FROM days",
        "SELECT site, count(*) n FROM days GROUP BY site",
        "SELECT n, n FROM days WHERE n > 9",
    ]
    wb = workbench([[query(sql) for sql in sqls], "Done."])
    wb.data.share(
        days=pd.DataFrame({"day": pd.date_range("2024-01-01", periods=3), "n": [1, None, 3], "site": list("aab")})
    )
    by_day, by_site, twins = wb.data.evidence(wb.ask("How many?").wait())
    axes = by_day.plot(mark, "day", "n")
    assert "from 1 (2024-01-01 00:00:00) to 3 (2024-01-03 00:00:00)" in af.plots.alt_text(axes)
    assert af.plots.alt_text(by_site.plot(mark, "site", "n")).endswith("n from 1 (b) to 2 (a).")
    with pytest.raises(UsageError, match="Pass a mark"):
        twins.plot(mark, "n", "day")
