"""The representations of a chart in each front end."""

import re
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from markdown_it import MarkdownIt
from support.charts import HOSTILE, llm_frame, tool_frame, xml

import artifactflow_nb as af
from artifactflow_nb.analysis.plots.chart import Chart
from artifactflow_nb.export.notebook import export_html


class Tags(HTMLParser):
    """Every tag that was opened, and the text outside of them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]


@pytest.fixture
def chart() -> Chart:
    return af.plot_timeline(llm_frame(), tool_frame())


def exported(folder: Path, chart: Chart) -> str:
    """The body of the page that nbconvert creates from a notebook with this chart."""
    data = {"text/html": chart._repr_html_(), "text/markdown": chart._repr_markdown_(), "text/plain": repr(chart)}
    output = nbformat.v4.new_output("execute_result", data=data, execution_count=1)
    cell = nbformat.v4.new_code_cell("chart", execution_count=1, outputs=[output])
    node = nbformat.v4.new_notebook(cells=[cell])
    nbformat.validate(node)
    nbformat.write(node, folder / "page.ipynb")
    return export_html(folder / "page.ipynb").read_text(encoding="utf-8").split("<body", 1)[1]


def test_ipython_finds_html_markdown_and_text(chart: Chart) -> None:
    """The output has HTML, Markdown and plain text."""
    from IPython.core.interactiveshell import InteractiveShell

    data, _ = InteractiveShell.instance().display_formatter.format(chart)
    InteractiveShell.clear_instance()
    assert data == {"text/html": chart.to_html(), "text/markdown": chart._repr_markdown_(), "text/plain": repr(chart)}


def test_exported_page_shows_the_drawing_once(tmp_path: Path, chart: Chart) -> None:
    """An exported page has the drawing, its fallback image with a description, and the table."""
    page = exported(tmp_path, chart)
    assert page.count("data:image/svg+xml;base64,") == 1
    table = page.index('<details class="af-rows"><summary>Table: Timeline (7 rows)')
    assert page.index("data:image/svg+xml") < table < page.index("<td")
    assert f'alt="Timeline. {chart.description}' in page
    assert page.count("<svg") == 1
    assert page.count(">web_search</td>") == 1
    assert "<script" not in page


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_text_in_markdown(name: str) -> None:
    """Names of models and tools open no tag in the Markdown of a chart."""
    tools = tool_frame(tool_name=[name] * 3, error_message=[name] * 3)
    markdown = af.plot_latency(llm_frame(), tools)._repr_markdown_()
    for page in (markdown, MarkdownIt("commonmark").render(markdown)):
        read = Tags(page)
        tags = {"div", "img", "details", "summary", "table", "thead", "tbody", "tr", "th", "td", "p", "span"}
        assert set(read.tags) <= tags
        assert set(read.attributes) <= {"class", "src", "alt", "scope", "tabindex", "role", "aria-label", "lang"}
        assert page.count("<table") == 1


def test_html_has_the_drawing_and_the_table(chart: Chart) -> None:
    """`to_html` contains the drawing in the colours of the page, and the table."""
    page = chart.to_html()
    assert chart.svg in page
    assert "var(--jp-" in page
    assert page.count("<tr>") == 1 + len(chart.table)


def test_chart_prints_as_a_table() -> None:
    """Columns are aligned, also with Chinese names; numbers are on the right, and unknown values are dashes."""
    llm = llm_frame(request_model=["通义千问", "small", "通义千问"], response_model=[None] * 3)
    assert str(af.plot_cost(llm)).splitlines() == [
        "Cost by model",
        "0.75 USD for 3 calls of 2 models.",
        "model     n_llm_calls  n_unknown  cost_usd",
        "────────  ───────────  ─────────  ────────",
        "通义千问            2          0      0.75",
        "small               1          1         –",
        "The cost of 1 call is unknown: no price is set for the model, or the call failed. No call of small has one.",
    ]


def test_long_table_is_truncated_for_display() -> None:
    """Plain text shows 30 rows and HTML 200; `table` has all of them."""
    frame = pd.concat([llm_frame(run_id=["run-1"] * 3)] * 100)
    chart = af.plot_timeline(frame)
    assert "… 270 rows more: chart.table" in str(chart)
    assert "… 100 rows more: chart.table" in chart.to_html()
    assert len(chart.table) == 300


def test_charts_contain_no_dollar_sign() -> None:
    """Pages render text between two dollar signs as a formula, so costs are in USD."""
    chart = af.plot_cost(llm_frame())
    assert "$" not in chart.svg + str(chart) + chart._repr_markdown_() + chart.to_html()


def test_chart_is_immutable(chart: Chart) -> None:
    """The attributes of a chart cannot be assigned."""
    with pytest.raises(AttributeError):
        chart.title = "Another"  # type: ignore[misc]
    assert re.match("Timeline\n", repr(chart))
    assert xml(chart.svg).tag.endswith("svg")
