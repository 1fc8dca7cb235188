"""Approvals of changes to artifacts of earlier runs: the request shows a diff, and nothing is written before."""

import pytest
from conftest import OpenEngine
from support.replies import by_agent, call, delegate, report

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.store.artifacts import USER, Authorship
from artifactflow_nb.tools.artifacts import rewrite_artifact

REWRITE = call("rewrite_artifact", id="research_report", content="Another report.")
UPDATE = call("update_artifact", id="research_report", old="The", new="Another")


async def texts(engine: Engine, conversation_id: str) -> list[str]:
    """The text of each version of the report, oldest first."""
    return [version.content for version in await engine.artifacts.versions(conversation_id, "research_report")]


@pytest.mark.parametrize("protocol", ["xml", "native"])
@pytest.mark.parametrize("approved", [True, False])
@pytest.mark.parametrize("change", [REWRITE, UPDATE])
async def test_change_waits_with_its_diff(open_engine: OpenEngine, change: str, approved: bool, protocol: str) -> None:
    """A later run's change writes nothing before the approval, nor after a denial."""
    engine = await open_engine([report(), "Written.", change, "Over."], settings={"tool_protocol": protocol})
    first = await engine.controller.execute("Write.")
    waiting = await engine.controller.execute("Change it.", conversation_id=first.conversation_id)
    (preview,) = [request.preview for request in waiting.pending]
    assert preview.startswith("```diff\n--- Report (version 1)\n+++ Report as proposed\n")
    assert "\n-The report.\n" in preview
    assert "\n+Another report.\n" in preview
    assert await texts(engine, first.conversation_id) == ["The report."]
    result = await engine.controller.resume(waiting.thread_id, approved=approved)
    assert result.status == "completed"
    assert await texts(engine, first.conversation_id) == ["The report.", *(["Another report."] if approved else [])]


async def test_sub_agent_needs_an_approval_too(open_engine: OpenEngine) -> None:
    """A sub-agent that changes an artifact of an earlier run needs an approval, as the lead does."""
    script = by_agent(
        lead=[report(), "Written.", delegate("search_agent", "Change it."), "Over."], search=[REWRITE, "Not changed."]
    )
    engine = await open_engine(script)
    engine.register_tool(rewrite_artifact, agent="search_agent")
    first = await engine.controller.execute("Write.")
    waiting = await engine.controller.execute("Have it changed.", conversation_id=first.conversation_id)
    assert [(request.agent, request.tool) for request in waiting.pending] == [("search_agent", "rewrite_artifact")]
    assert (await engine.controller.resume(waiting.thread_id, approved=False)).status == "completed"
    assert await texts(engine, first.conversation_id) == ["The report."]


async def test_diff_of_a_document_with_fences_is_fenced(open_engine: OpenEngine) -> None:
    """The fence around the diff is longer than any fence in the text; an absent passage is shown alone."""
    change = call("update_artifact", id="research_report", old="nowhere", new="````python")
    engine = await open_engine([report("```\ncode\n```"), "Written.", change, "Over."])
    first = await engine.controller.execute("Write.")
    waiting = await engine.controller.execute("Change it.", conversation_id=first.conversation_id)
    preview = waiting.pending[0].preview
    assert preview.startswith("`````diff\n")
    assert "\n-nowhere\n" in preview
    assert preview.endswith("\n`````")


async def test_text_changed_after_the_request_is_not_overwritten(open_engine: OpenEngine) -> None:
    """An approval covers the version in its diff; a newer text stays, and the next request shows a new diff."""
    engine = await open_engine([report(), "Written.", REWRITE, REWRITE, "Over."])
    first = await engine.controller.execute("Write.")
    waiting = await engine.controller.execute("Change it.", conversation_id=first.conversation_id)
    by = Authorship(first.conversation_id, waiting.message_id, USER)
    await engine.artifacts.revise(by, "research_report", "By hand.", update_type="rewrite")
    resumed = await engine.controller.resume(waiting.thread_id, approved=True)
    assert (await texts(engine, first.conversation_id))[-1] == "By hand."
    (preview,) = [request.preview for request in resumed.pending]
    assert preview.startswith("```diff\n--- Report (version 2)\n")
    assert "\n-By hand.\n" in preview
    events = await engine.runs.events(waiting.run_id)
    published = [event.data["error"] for event in events if event.data.get("error")]
    assert "is now at version 2, not 1: user changed it. Read it again" in published[0]
    assert (await engine.controller.resume(waiting.thread_id, approved=True)).status == "completed"
    assert (await texts(engine, first.conversation_id))[-1] == "Another report."


async def test_person_may_change_the_target(open_engine: OpenEngine) -> None:
    """If the person edits the id in the call, the version in the diff is not required."""
    notes = [call("create_artifact", id="notes", title="Notes", content="1")]
    notes.append(call("update_artifact", id="notes", old="1", new="2"))
    engine = await open_engine([report(), *notes, "Written.", REWRITE, "Over."])
    first = await engine.controller.execute("Write.")
    waiting = await engine.controller.execute("Change it.", conversation_id=first.conversation_id)
    agreed = Decision(approved=True, params={"id": "notes", "content": "3"})
    done = await engine.controller.resume(waiting.thread_id, decisions={waiting.pending[0].id: agreed})
    assert done.status == "completed"
    written = await engine.artifacts.versions(first.conversation_id, "notes")
    assert [version.content for version in written] == ["1", "2", "3"]
