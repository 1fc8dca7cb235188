"""The metrics panel over rows with known figures: the table shows the frame of the offered call."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.metric_rows import CallRow, add_run, fill
from support.pages import ShownView, visible_text

import artifactflow_nb as af
from artifactflow_nb.widgets.metrics import MetricsView


@pytest.fixture
def wb(tmp_path: Path) -> Iterator[af.Workbench]:
    with af.Workbench(model=af.ScriptedModel(["It rises."]), data_dir=tmp_path, interactive=True) as wb:
        wb._thread.call(wb._thread.engine.database.write(fill))
        yield wb


def show(wb: af.Workbench, **filters: Any) -> ShownView:
    return ShownView(wb._thread, MetricsView(wb._thread, wb.metrics_df, "wb.metrics_df", filters))


def cells(html: str) -> list[list[str]]:
    """The texts of the rows of a table, without its head."""
    body = re.sub("<thead>.*</thead>", "", html)
    return [[visible_text(cell) for cell in re.findall("<t[hd].*?</t[hd]>", row)] for row in body.split("<tr>")[1:]]


def framed(page: ShownView, wb: af.Workbench) -> pd.DataFrame:
    """The frame of the cell that the panel adds."""
    page.press("As DataFrame: add a cell with this table")
    assert page.effects[-1]["name"] == "cell"
    frame = eval(page.effects[-1]["source"], {"wb": wb})  # noqa: S307 - the code of the package
    assert isinstance(frame, pd.DataFrame)
    return frame


def test_table_has_the_figures_of_the_frame(wb: af.Workbench) -> None:
    """Estimates are marked, unknown values are dashes, and times have bars in relation to the longest time."""
    page = show(wb)
    assert cells(page.html["table"]) == [
        ["Lead agent", "12", "12", "about 77,600", "20%", "538 ms", "711 ms", "3.6 s", "4.9 s", "about 0.23 USD", "5"],
        ["Search agent", "12", "24", "34,440", "–", "192 ms", "235 ms", "912 ms", "1.2 s", "0.0624 USD", "0"],
    ]
    assert 'style="width: 76%"' in page.html["table"]  # 537.5 of 710.75 ms
    frame = framed(page, wb)
    assert frame["total_tokens"].tolist() == [77_612, 34_440]
    assert frame["latency_p50_ms"].tolist() == [3590.0, 912.5]


def test_order_group_and_filter_are_those_of_the_call(wb: af.Workbench) -> None:
    """A heading sorts in both directions; another kind of group has its own order again."""
    page = show(wb)
    for direction in ("descending", "ascending"):
        page.press("cost")
        page.until(lambda direction=direction: f'aria-sort="{direction}"' in page.html["table"])
        assert framed(page, wb)["agent_name"].tolist() == [
            "lead_agent", "search_agent",
        ][:: 1 if direction == "descending" else -1]  # fmt: skip
    page.submit("show", by="run", search="gauges")
    page.until(lambda: len(cells(page.html["table"])) == 3)
    frame = framed(page, wb)
    assert page.effects[-1]["source"] == "wb.metrics_df(by='run', search='gauges')"
    assert frame["started_at"].is_monotonic_decreasing
    assert [f"{n:,}" for n in frame["total_tokens"]] == [row[3] for row in cells(page.html["table"])]
    assert page.announced == "3 rows, sorted by began, descending"
    assert page.submit("show", by="nothing", search="")["failed"]


@pytest.mark.parametrize("by", ["agent", "model", "flow", "conversation", "day"])
def test_group_opens_the_table_of_its_runs(wb: af.Workbench, by: str) -> None:
    """The table of the runs is a frame, too; the button of the group leads back."""
    page = show(wb)
    page.submit("show", by=by, search="")
    name = next(button for button in page.buttons if button.endswith(": show the runs"))
    n_runs = framed(page, wb)["n_runs"].tolist()[0]
    page.press(name)
    page.until(lambda: "within" in page.html)
    assert len(framed(page, wb)) == len(cells(page.html["table"])) == n_runs
    (back,) = [button for button in page.buttons if button.endswith(": show all groups again")]
    page.press(back)
    page.until(lambda: "within" not in page.html)
    assert framed(page, wb)["n_runs"].tolist()[0] == n_runs


def test_run_opens_its_conversation_and_leads_back_to_its_row(wb: af.Workbench) -> None:
    """The saved output stays the table."""
    page = show(wb)
    page.submit("show", by="run", search="up")
    page.until(lambda: "Write it up." in page.buttons)
    page.press("Write it up.")
    page.until(lambda: "composer" in page.kinds)
    assert "wb.metrics_df" in page.saved_output()["text/html"]
    page.press("‹ Metrics")
    page.until(lambda: "table" in page.kinds)
    assert page.effects[-1]["name"] == "focus"
    assert '"message":"msg-12"' in page.effects[-1]["text"]


def test_panel_follows_the_store(wb: af.Workbench) -> None:
    """A call of another kernel or cell appears, in the order that the reader chose."""
    page = show(wb)
    row = CallRow("writer", "small", (90_000, 5), latency=3.0)
    wb._thread.call(wb._thread.engine.database.write(lambda db: add_run(db, 99, [row])))
    page.until(lambda: [line[0] for line in cells(page.html["table"])] == ["Writer", "Lead agent", "Search agent"])


def test_subject_is_an_argument_of_the_call(wb: af.Workbench) -> None:
    """The subject is a run, several runs, or a conversation."""
    assert "wb.metrics_df(run=['run-1'], by='agent')" in repr(wb.metrics(wb.run("run-1")))
    assert "wb.metrics_df(run=['run-1', 'run-2'], by='agent')" in repr(wb.metrics(["run-1", wb.run("run-2")]))
    assert "wb.metrics_df(conversation='conv-1', by='agent')" in repr(wb.metrics(wb.conversation("conv-1")))
    with pytest.raises(af.errors.NotFound, match="There is no run 'run-x'"):
        wb.metrics("run-x")


def test_saved_output_reads_without_a_kernel(wb: af.Workbench) -> None:
    """HTML and text have the numbers and the call of `metrics_df`, and the HTML has no controls."""
    output = show(wb).saved_output()
    for form in ("text/html", "text/plain"):
        assert "about 77,600" in visible_text(output[form])
        assert "wb.metrics_df(by='agent')" in visible_text(output[form])
    assert "data-act" not in output["text/html"]
    assert "<select" not in output["text/html"]


def test_empty_panel_says_what_to_do(tmp_path: Path) -> None:
    """The hint has the language of the workbench."""
    for language, text in (("en", 'wb.ask("...") asks a question.'), ("zh", '用 wb.ask("...") 提问。')):
        with af.Workbench(model=af.ScriptedModel([]), data_dir=tmp_path / language, language=language) as wb:
            page = show(wb)
            assert text in page.text
            page.submit("show", by="agent", search="x")
            page.until(lambda page=page: "wb.ask" not in page.text)
