"""Workbenches with MCP servers, and their stored calls."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.mcp_config import alive, until

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel

OpenWorkbench = Callable[..., af.Workbench]


class Called(NamedTuple):
    """A stored tool call."""

    tool: str
    success: bool
    output: str


def calls(wb: af.Workbench) -> list[Called]:
    """All calls of a workbench in order, with their results or errors."""
    sql = """
        SELECT tool_name, success, coalesce(nullif(error_message, ''), stored_text(result)) FROM main.tool_calls
        ORDER BY rowid
    """
    return [Called(tool, bool(success), output) for tool, success, output in wb.query(sql).itertuples(index=False)]


@pytest.fixture
def open_workbench(tmp_path: Path) -> Iterator[OpenWorkbench]:
    """Open workbenches; after the test close them with their servers."""
    opened: list[af.Workbench] = []

    def make(*turns: Any, data_dir: str = "data", **options: Any) -> af.Workbench:
        model = options.pop("model", None) or ScriptedModel(turns)
        opened.append(af.Workbench(model=model, data_dir=tmp_path / data_dir, **options))
        return opened[-1]

    yield make
    for wb in opened:
        wb.close()
    until(lambda: not alive(tmp_path), 10)
