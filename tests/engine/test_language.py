"""The language of an engine concerns views: the store has the same texts in every language."""

import re
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import pytest
from support.replies import by_agent, call, decide, delegate, in_request_protocol, plan, report

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.language import Language, current_language
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel, ScriptedTurn
from artifactflow_nb.store.encoding import read_text
from artifactflow_nb.testing import FakeClock, FakeIds

RESEARCH = {
    "lead": [
        call("ask_person", question="Which tide?"),
        report("Ebb is low water [1].\n\n## Sources\n\n1. local:tides.md"),
        call("rewrite_artifact", id="research_report", content="Ebb is falling water."),
        delegate("search_agent", "Look.") + call("no_such_tool"),
        "Falling water.",
    ],
    "search": [call("web_search", query="ebb"), "Nothing."],
}
PLANNED = {
    "agent": [plan("Look", "Write"), "Done."],
    "executor": ["Looked.", call("report_failure", reason="No ink."), "Failed.", "Written."],
    "replanner": [decide("retry"), "Again."],
    "summarizer": ["Both steps are done."],
}
TABLES = ("messages", "events", "tool_calls", "artifact_versions", "approvals", "plan_jobs", "texts")
_NUMBER = re.compile(r"\d+(\.\d+)?(e-\d+)?")


def load_rows(db: Connection) -> list[str]:
    """The rows that a run wrote, as text, without times and durations."""
    rows = [(table, *row) for table in TABLES for row in db.execute(f"SELECT * FROM {table}")]  # noqa: S608 - the names above
    return [
        _NUMBER.sub("0", repr([read_text(db, value) if isinstance(value, bytes) else value for value in row]))
        for row in rows
    ]


def stored(folder: Path, language: Language, flow: str, turns: Any) -> list[str]:
    """Ask, deny the first request and approve the others; return what is stored."""
    script = in_request_protocol(by_agent(**turns))

    def next_turn(request: ModelRequest) -> ScriptedTurn:
        assert current_language() == language
        return script(request)

    settings = Settings.load(data_dir=folder / language, language=language)
    approvals = {"create_artifact": "ask", "rewrite_artifact": "ask"}
    fakes: dict[str, Any] = {"clock": FakeClock(), "ids": FakeIds()}
    thread = EngineThread(lambda: Engine(settings, model=ScriptedModel(next_turn), approvals=approvals, **fakes))
    controller = thread.engine.controller
    result = thread.call(controller.execute("What is ebb?", flow=flow))
    verdicts = iter([False])
    while result.status == "waiting":
        thread.call(controller.decide(result.pending[0].id, Decision(approved=next(verdicts, True))))
        thread.call(controller.join(result.run_id))
        result = thread.call(controller.result(result.run_id))
    assert result.status == "completed"
    rows = thread.call(thread.engine.database.read(load_rows))
    thread.close()
    return rows


@pytest.mark.parametrize(("flow", "turns"), [("research", RESEARCH), ("plan", PLANNED)])
def test_store_is_the_same_in_every_language(tmp_path: Path, flow: str, turns: Any) -> None:
    """Events, results, requests and reports are English in a Chinese interface; views translate these texts."""
    english = stored(tmp_path, "en", flow, turns)
    assert stored(tmp_path, "zh", flow, turns) == english
