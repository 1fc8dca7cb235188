"""A small run for the outlets of runs: a subagent reads a local source, and a document waits for an approval."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import artifactflow_nb as af

QUESTION = "How deep is the lake?"
NOTE = "The lake is 41 metres deep."
READ = [
    af.ToolCall("call_subagent", {"agent_name": "crawl_agent", "instruction": "Find the depth."}),
    af.ToolCall("web_fetch", {"urls": ["local:papers/lake.md#lake"]}),
]
ANSWER = "It is 41 metres deep."


def write(document: str) -> af.ToolCall:
    """The call that writes a document."""
    return af.ToolCall("create_artifact", {"id": "report", "title": "Depth", "content": document})


def lake_run(
    workbench: Callable[..., af.Workbench], folder: Path, document: str = NOTE, **options: Any
) -> tuple[af.Workbench, af.Run]:
    """A completed run that read `papers/lake.md` in a folder and wrote a document after an approval."""
    papers = folder / "papers"
    papers.mkdir()
    (papers / "lake.md").write_text(f"# Lake\n\n{NOTE}", encoding="utf-8")
    turns = [*READ, NOTE, write(document), ANSWER]
    wb = workbench(turns, interactive=False, approvals={"create_artifact": "ask"}, **options)
    wb.sources.add(papers)
    run = wb.ask(QUESTION).wait()
    run.approve().wait()
    assert run.status == "completed"
    return wb, run
