"""A run that wrote a report about a survey, for the marks and verdicts of claims."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import artifactflow_nb as af


@contextmanager
def survey_run(folder: Path, notes: str, report: str, answer: str) -> Iterator[tuple[af.Workbench, af.Run]]:
    """Open a workbench whose agents read the notes about the survey, write the report and answer."""
    (folder / "notes").mkdir()
    (folder / "notes" / "survey.md").write_text(notes, encoding="utf-8")
    turns = [
        af.ToolCall("call_subagent", {"agent_name": "crawl_agent", "instruction": "Find the casts."}),
        af.ToolCall("web_fetch", {"urls": ["local:notes/survey.md#survey"]}),
        "The survey has them.",
        af.ToolCall("create_artifact", {"id": "report", "title": "Survey", "content": report}),
        answer,
    ]
    model = af.ScriptedModel(turns)
    with af.Workbench(model=model, data_dir=folder / "data", approvals="approve", interactive=False) as wb:
        wb.sources.add(folder / "notes")
        yield wb, wb.ask("How many casts were there?").wait()
