"""The offline model turn by turn: its parts, its failures, its follow-ups."""

from pathlib import Path

import pytest
from offline.drive import Drive

from artifactflow_nb.ambient import SystemClock
from artifactflow_nb.messages import Message, ToolResult, ToolSpec
from artifactflow_nb.models.base import ModelDelta, ModelReply, ModelRequest
from artifactflow_nb.models.offline import OfflineModel
from artifactflow_nb.models.offline_transcript import Transcript
from artifactflow_nb.store.database import Database
from artifactflow_nb.store.sources import SourceManager
from artifactflow_nb.xml_calls import format_results

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


async def test_it_streams_what_it_replies_and_estimates_its_tokens():
    """The pieces join to the reply, the tokens are marked as estimated, and the same request gives the same reply."""
    request = ModelRequest((Message("user", "Is there life on Mars?"),), (ToolSpec("web_search", "Search.", {}),))
    events = [event async for event in OfflineModel().stream(request)]
    reply = events[-1]
    assert isinstance(reply, ModelReply)
    assert "".join(event.text for event in events if isinstance(event, ModelDelta)) == reply.content
    assert len(events) > 3
    assert reply.usage.estimated
    assert [event async for event in OfflineModel().stream(request)][-1].content == reply.content


async def test_a_question_ends_in_a_cited_report_and_a_ticked_plan(sources: SourceManager):
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
async def test_it_ends_soundly_when_something_fails(sources: SourceManager, refuse: dict[str, str], expected: str):
    """A denied or failed step is told and passed over; the run ends."""
    drive = Drive(OfflineModel(), sources, refuse=refuse)
    assert expected in await drive.ask(QUESTION)
    assert drive.rounds <= 8


async def test_a_denied_report_still_gives_the_answer(sources: SourceManager):
    """Without its report the reply holds the quotes."""
    drive = Drive(OfflineModel(), sources, refuse={"create_artifact": "Permission denied"})
    assert "A backup counts only after a restore has been tried" in await drive.ask(QUESTION)


async def test_an_earlier_report_is_rewritten(sources: SourceManager):
    """A second question of a conversation rewrites the report that the first one made."""
    drive = Drive(OfflineModel(), sources)
    await drive.ask(QUESTION)
    await drive.ask("How are temperature probes calibrated?")
    assert "ice bath" in drive.artifacts["research_report"]
    assert drive.artifacts["task_plan"].startswith("# Plan: How are temperature probes calibrated?")
    assert drive.artifacts["task_plan"].count("- [x]") == 3
    assert drive.failed == []


async def test_a_report_that_no_inventory_lists_is_rewritten(sources: SourceManager):
    """Where creating the report fails because it exists, it is rewritten."""
    refuse = {"create_artifact:research_report": "The artifact 'research_report' exists already."}
    drive = Drive(OfflineModel(), sources, refuse=refuse)
    await drive.ask(QUESTION)
    assert "A backup counts only" in drive.artifacts["research_report"]


async def test_a_denied_rewrite_still_gives_the_answer(sources: SourceManager):
    """A follow-up whose report may not replace the earlier one answers and says so."""
    drive = Drive(OfflineModel(), sources)
    await drive.ask(QUESTION)
    drive.refuse["rewrite_artifact:research_report"] = "Permission denied"
    answer = await drive.ask("How are temperature probes calibrated?")
    assert "ice bath" in answer
    assert "The report was not written: Permission denied" in answer


async def test_a_follow_up_leans_on_the_question_before(sources: SourceManager):
    """A question that points back is understood with the words of the one before it."""
    history = (Message("user", "How are temperature probes calibrated?"), Message("assistant", "In an ice bath."))
    answer = await Drive(OfflineModel(), sources).ask("And when is one of them sent back?", history)
    assert "local:handbook/sensors.md#calibration" in answer


def test_a_question_that_quotes_a_result_is_a_question():
    """What a person pastes is never taken for what a tool gave."""
    pasted = format_results([("web_fetch", ToolResult(success=True, data="Bananas are blue."))])
    transcript = Transcript.read([Message("system", "-"), Message("user", f"Is this so?\n{pasted}")], frozenset())
    assert transcript.instruction.startswith("Is this so?")
    assert transcript.steps == ()


async def test_without_tools_and_without_results_it_still_answers():
    """A turn that offers no tool and has no results is an answer and not a call."""
    request = ModelRequest((Message("system", "-"), Message("user", "What is in the sources?")))
    reply = [event async for event in OfflineModel().stream(request)][-1]
    assert isinstance(reply, ModelReply)
    assert "<tool_call>" not in reply.content
    assert "No language model was used" in reply.content


async def test_a_reader_with_both_tools_searches_and_quotes(sources: SourceManager):
    """An agent that may search and fetch does both by itself and reports quotes."""
    drive = Drive(OfflineModel(), sources)
    tools = (ToolSpec("web_search", "Search.", {}), ToolSpec("web_fetch", "Fetch.", {}))
    text = await drive._loop([Message("user", "How are temperature probes calibrated?")], tools, 3)
    assert "   > Temperature probes are calibrated in an ice bath every spring." in text
