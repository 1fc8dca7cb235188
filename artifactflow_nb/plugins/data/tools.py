"""The tools with which agents find, describe, query and plot the shared frames, from the first `wb.data.share` on.

The descriptions name the tables and columns, so that a model need not guess; a run keeps those that it started with.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any

from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.core.text.format import clip, count
from artifactflow_nb.errors import NotFound, ToolError, UsageError
from artifactflow_nb.plugins.data.shared import NOTHING_SHARED, QUERY_TIMEOUT_S, Mark, QueryResult, SharedData
from artifactflow_nb.plugins.data.snapshot import DESCRIBED, MIN_GROUP, SharedFrame
from artifactflow_nb.tools.base import Tool, ToolContext, tool
from artifactflow_nb.tools.registry import CORE

SHOWN_ROWS = 50  # in a prompt; the person gets all stored rows
_CELL_CHARS = 200
_LIMIT, _ORDER = re.compile(r"\blimit\b", re.IGNORECASE), re.compile(r"\border\s+by\b", re.IGNORECASE)
_MAX_TABLES = 5  # in descriptions of tools
_MAX_SCHEMA_CHARS = 2_000
_TIMEOUT_S = 4 * QUERY_TIMEOUT_S  # queries of agents that work at the same time wait for each other
_SIGHT = {
    "rows": "any query",
    "aggregates": f"aggregates of at least {MIN_GROUP} rows of this table alone",
    "schema": "no query: you see its columns only",
}


@tool(category=CORE, idempotent=True)
async def list_data(ctx: ToolContext) -> str:
    """List the tables that the person has shared, with their columns and what you may ask of them."""
    frames = ctx.service(SharedData).frames.values()
    return "\n".join(f"- {_line(frame)}" for frame in frames) or NOTHING_SHARED


@tool(category=CORE, idempotent=True, timeout_s=_TIMEOUT_S)
async def describe_data(ctx: ToolContext, table: Annotated[str, "The name of a shared table."]) -> str:
    """Describe a shared table: for each column its type, missing values, range, mean and categories. Use it first."""
    frame = ctx.service(SharedData).frame(table)
    if frame.see == "schema":
        return _line(frame)
    described = await ctx.service(SharedData).request("describe", frame.name, dict(frame.columns))
    return f"{_line(frame)}\n\n{markdown_table(DESCRIBED, described)}"


@tool(category=CORE, idempotent=True, timeout_s=_TIMEOUT_S)
async def query_data(
    ctx: ToolContext,
    sql: Annotated[str, "One SELECT in the SQL of DuckDB. Missing values are NULL. Round and order in the SQL."],
    title: Annotated[str, "What the result shows, in a few words."],
) -> ToolResult:
    """Compute figures from the shared tables with one SELECT. Cite the id of the result behind each figure."""
    data = ctx.service(SharedData)
    result = await data.query(sql, title)
    await data.record(ctx, result)
    metadata = {"evidence_id": result.evidence_id, "tables": result.tables, "n_rows": len(result.rows)}
    return ToolResult(success=True, data=result_text(result), metadata=metadata)


@tool(category=CORE, idempotent=True)
async def plot_data(
    ctx: ToolContext,
    evidence_id: Annotated[str, "The id of a result of query_data in this run."],
    mark: Annotated[Mark, "The marks of the chart."],
    x: Annotated[str, "The column of the horizontal axis."],
    y: Annotated[str, "The column of numbers."],
    color: Annotated[str, "The column whose values are series, at most 4; empty for one series."] = "",
) -> str:
    """Make a chart of a result of query_data: a text alternative, and code that draws it. Put both into an artifact."""
    try:
        evidence = (await ctx.service(SharedData).evidence(ctx.run_id))[evidence_id]
        _, description = evidence.series(mark, x, y, color)
    except (NotFound, UsageError) as error:
        raise ToolError(str(error)) from None
    call = f'wb.data.evidence()["{evidence_id}"].plot({mark!r}, {x!r}, {y!r}, {color!r})'
    return f"{description} [{evidence_id}]\n\n```python\n{call}\n```"


def tools_for(frames: Iterable[SharedFrame]) -> list[Tool]:
    """Return the tools with the tables in their descriptions."""
    shared = list(frames)
    schemas = "\n".join(f"- {_line(frame)}" for frame in shared)
    if len(shared) > _MAX_TABLES or len(schemas) > _MAX_SCHEMA_CHARS:
        schemas = f"Tables: {clip(', '.join(frame.name for frame in shared), _MAX_SCHEMA_CHARS)}. See list_data."
    query = replace(query_data, description=f"{query_data.description}\n\nShared tables:\n{schemas}")
    return [list_data, describe_data, query, plot_data]


def _line(frame: SharedFrame) -> str:
    return f"{frame.schema}. Allowed: {_SIGHT[frame.see]}."


def result_text(result: QueryResult) -> str:
    """Return a result for the model: how to cite it, its size, its rows, and what to mind."""
    n_rows = len(result.rows)
    size = f"more than {n_rows:,} rows" if result.is_cut else count(n_rows, "row")
    table = markdown_table([name for name, _ in result.columns], result.rows[:SHOWN_ROWS])
    lines = [f"{size}. Cite the figures as [{result.evidence_id}].\n", table]
    if n_rows > SHOWN_ROWS:
        lines.append(f"\nOnly the first {SHOWN_ROWS} rows are shown. Aggregate, or select fewer rows.")
    if _LIMIT.search(result.sql) and not _ORDER.search(result.sql):
        lines.append("\nWithout ORDER BY, any rows may be among those that LIMIT keeps.")
    return "\n".join(lines)


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(_text, line))} |" for line in lines)


def _text(value: Any) -> str:
    """Return a value of a result in one line."""
    text = "NULL" if value is None else f"{value:.15g}" if isinstance(value, float) else str(value)
    return clip(" ".join(text.replace("|", "\\|").split()), _CELL_CHARS)
