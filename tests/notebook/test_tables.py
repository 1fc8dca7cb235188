"""The tables of an answer and of a report as frames."""

from pathlib import Path

import artifactflow_nb as af
from artifactflow_nb.core.toolcalls.xml import format_call

TABLE = "| place | share |\n|---|---:|\n| **North** | 1,200.5 |\n| South | 7 |\n"


def test_tables_of_a_run_are_frames(tmp_path: Path) -> None:
    """The answer's tables come first; numbers are numbers."""
    report = format_call("create_artifact", {"id": "report", "title": "Report", "content": f"# R\n\n{TABLE}"})
    answer = "See:\n\n| a |\n|---|\n| x |\n"
    with af.Workbench(model=af.ScriptedModel([report, answer]), data_dir=tmp_path, approvals="approve") as wb:
        first, second = wb.ask("Where?").wait(20).tables
    assert first.to_dict("list") == {"a": ["x"]}
    assert second.to_dict("list") == {"place": ["North", "South"], "share": [1200.5, 7.0]}
