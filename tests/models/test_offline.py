"""The offline model turn by turn: its roles, failures and follow-ups."""

import json
from pathlib import Path

import pytest
from support.offline_loop import Drive

from artifactflow_nb.core.clock_ids import SystemClock
from artifactflow_nb.core.messages import Message, ToolResult, ToolSpec
from artifactflow_nb.core.toolcalls.xml import format_results
from artifactflow_nb.models.base import ModelContext, ModelDelta, ModelReply, ModelRequest
from artifactflow_nb.models.offline.model import OfflineModel
from artifactflow_nb.models.offline.turn import Turn
from artifactflow_nb.sources.manager import SourceManager
from artifactflow_nb.store.database import Database

HANDBOOK = Path(__file__).parents[2] / "data" / "handbook"
QUESTION = "How often is a restore tried?"


@pytest.fixture
async def sources(tmp_path: Path):
    database = Database(tmp_path / "store.db")
    await database.open()
    manager = SourceManager(database, SystemClock())
    await manager.add_folder(HANDBOOK)
    yield manager
    await database.close()


async def test_stream_joins_to_the_reply_with_estimated_tokens():
    """Pieces join to text and calls, and the same request gets the same reply."""
    request = ModelRequest((Message("user", "Is there life on Mars?"),), (ToolSpec("web_search", "Search.", {}),))
    events = [event async for event in OfflineModel().stream(request)]
    reply = events[-1]
    assert isinstance(reply, ModelReply)
    deltas = [event for event in events if isinstance(event, ModelDelta)]
    assert "".join(delta.text for delta in deltas if delta.kind == "answer") == reply.content
    (call,) = reply.calls
    written = [delta for delta in deltas if delta.kind == "call"]
    assert {delta.tool for delta in written} == {call.name}
    assert json.loads("".join(delta.text for delta in written)) == call.params
    assert len(events) > 3
    assert reply.finish_reason == "tool_calls"
    assert reply.usage.estimated
    assert [event async for event in OfflineModel().stream(request)][-1].content == reply.content


async def test_question_ends_in_cited_report_and_ticked_plan(sources: SourceManager):
    """A run plans, delegates twice, writes the report, ticks the plan and says that no language model was used."""
    drive = Drive(OfflineModel(), sources)
    answer = await drive.ask(QUESTION)
    report = drive.artifacts["research_report"]
    assert "local:handbook/storage.md#backups" in answer
    assert "A backup counts only after a restore has been tried" in answer
    assert "## Sources\n\n1. Storage: Backups — local:handbook/storage.md#backups" in report
    assert drive.artifacts["task_plan"].count("- [x]") == 3
    assert "No language model was used" in answer
    assert "OPENAI_BASE_URL" in answer


@pytest.mark.parametrize(
    ("refuse", "expected"),
    [
        ({"create_artifact:research_report": "Permission denied"}, "The report was not written: Permission denied"),
        ({"call_subagent:search_agent": "the job failed"}, "search_agent: the job failed"),
        ({"call_subagent:crawl_agent": "the job failed"}, "crawl_agent: the job failed"),
        ({"web_search": "the index is gone"}, "could not be read"),
        ({"web_fetch": "Permission denied"}, "web_fetch failed: Permission denied"),
        ({"create_artifact": "Permission denied", "rewrite_artifact": "Permission denied"}, "was not written"),
    ],
)
async def test_run_ends_when_a_step_fails(sources: SourceManager, refuse: dict[str, str], expected: str):
    """A denied or failed step is reported and skipped."""
    drive = Drive(OfflineModel(), sources, refuse=refuse)
    assert expected in await drive.ask(QUESTION)
    assert drive.rounds <= 8


async def test_denied_report_still_gives_the_answer(sources: SourceManager):
    """Without its report the reply has the quotes."""
    drive = Drive(OfflineModel(), sources, refuse={"create_artifact": "Permission denied"})
    assert "A backup counts only after a restore has been tried" in await drive.ask(QUESTION)


async def test_earlier_report_is_rewritten(sources: SourceManager):
    """A second question of a conversation rewrites the report of the first question."""
    drive = Drive(OfflineModel(), sources)
    await drive.ask(QUESTION)
    await drive.ask("How are temperature probes calibrated?")
    assert "ice bath" in drive.artifacts["research_report"]
    assert drive.artifacts["task_plan"].startswith("# Plan: How are temperature probes calibrated?")
    assert drive.artifacts["task_plan"].count("- [x]") == 3
    assert drive.failed == []


async def test_unlisted_report_is_rewritten(sources: SourceManager):
    """An existing report that the prompt does not list is rewritten after the conflict."""
    drive = Drive(OfflineModel(), sources, artifacts={"research_report": "Another run wrote this."})
    drive.lists_artifacts = False
    await drive.ask(QUESTION)
    assert drive.failed == ["create_artifact"]
    assert "A backup counts only" in drive.artifacts["research_report"]


async def test_denied_rewrite_still_gives_the_answer(sources: SourceManager):
    """A follow-up whose report may not replace the earlier report answers all the same, and says so."""
    drive = Drive(OfflineModel(), sources)
    await drive.ask(QUESTION)
    drive.refuse["rewrite_artifact:research_report"] = "Permission denied"
    answer = await drive.ask("How are temperature probes calibrated?")
    assert "ice bath" in answer
    assert "The report was not written: Permission denied" in answer


async def test_follow_up_uses_the_earlier_question(sources: SourceManager):
    """A question that refers back is understood with the words of the earlier question."""
    history = (Message("user", "How are temperature probes calibrated?"), Message("assistant", "In an ice bath."))
    answer = await Drive(OfflineModel(), sources).ask("And when is one of them sent back?", history)
    assert "local:handbook/sensors.md#calibration" in answer


def test_pasted_result_is_part_of_the_question():
    """A pasted result is never taken for the result of a call."""
    pasted = format_results([("web_fetch", ToolResult(success=True, data="Bananas are blue."))])
    turn = Turn.of(ModelRequest((Message("system", "-"), Message("user", f"Is this so?\n{pasted}"))))
    assert turn.question.startswith("Is this so?")
    assert turn.calls == []


async def test_turn_without_tools_and_results_is_an_answer():
    """A turn without tools and results calls no tool."""
    request = ModelRequest((Message("system", "-"), Message("user", "What is in the sources?")))
    reply = [event async for event in OfflineModel().stream(request)][-1]
    assert isinstance(reply, ModelReply)
    assert "<tool_call>" not in reply.content
    assert "No language model was used" in reply.content


async def test_agent_with_both_tools_searches_and_quotes(sources: SourceManager):
    """An agent that can search and fetch does both and reports quotes."""
    drive = Drive(OfflineModel(), sources)
    tools = (ToolSpec("web_search", "Search.", {}), ToolSpec("web_fetch", "Fetch.", {}))
    text = await drive.loop(ModelContext("", "How are temperature probes calibrated?"), tools, 3)
    assert "   > Temperature probes are calibrated in an ice bath every spring." in text
