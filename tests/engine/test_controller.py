"""The controller: invalid input, cancellation, resumption after a crash, closing."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenEngine
from support.replies import by_agent, call, delegate, report

from artifactflow_nb.agents.base import AgentConfig
from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.engine.engine import CHECKPOINT_FILE, Engine
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.errors import Conflict, NotFound, StoreError, UsageError
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.store.database import connect
from artifactflow_nb.tools.base import ToolContext, tool


@pytest.mark.parametrize("question", ["", "   \n"])
async def test_empty_question_is_an_error(open_engine: OpenEngine, question: str) -> None:
    """No conversation is created."""
    engine = await open_engine(["unused"])
    with pytest.raises(UsageError, match="question is empty"):
        await engine.controller.execute(question)
    assert await engine.conversations.list_conversations() == []


async def test_unknown_flow_conversation_or_parent_is_an_error(open_engine: OpenEngine) -> None:
    """The error names the unknown value; the conversation does not change."""
    engine = await open_engine(["One.", "Two."])
    first = await engine.controller.execute("First?")
    with pytest.raises(UsageError, match="no flow 'dance'. Known: research"):
        await engine.controller.execute("q", flow="dance")
    with pytest.raises(NotFound, match="no conversation 'conv-x'"):
        await engine.controller.execute("q", conversation_id="conv-x")
    with pytest.raises(NotFound, match="no message 'msg-x'"):
        await engine.controller.execute("q", conversation_id=first.conversation_id, parent_message_id="msg-x")
    with pytest.raises(UsageError, match="exists already"):
        await engine.controller.execute("q", message_id=first.message_id)
    assert len(await engine.conversations.messages(first.conversation_id)) == 1
    assert len(await engine.conversations.list_conversations()) == 1


async def test_ids_have_prefixes_and_can_be_passed(open_engine: OpenEngine) -> None:
    """Ids that the caller passes are used."""
    engine = await open_engine(["One.", "Two."])
    first = await engine.controller.execute("First?")
    kinds = [key.split("-")[0] for key in (first.run_id, first.conversation_id, first.message_id, first.thread_id)]
    assert kinds == ["run", "conv", "msg", "thd"]
    second = await engine.controller.execute("Second?", message_id="msg-mine", thread_id="thd-mine")
    assert (second.message_id, second.thread_id) == ("msg-mine", "thd-mine")


async def test_branch_with_a_waiting_run_takes_no_question(open_engine: OpenEngine) -> None:
    """Questions on other branches are accepted."""
    engine = await open_engine(["Root.", report(), "Side."], approvals={"create_artifact": "ask"})
    root = await engine.controller.execute("Root?")
    waiting = await engine.controller.execute("Write.", conversation_id=root.conversation_id)
    with pytest.raises(Conflict, match=f"'{waiting.message_id}' is still waiting"):
        await engine.controller.execute("And?", conversation_id=root.conversation_id)
    side = await engine.controller.execute(
        "Beside?", conversation_id=root.conversation_id, parent_message_id=root.message_id
    )
    assert side.response == "Side."


async def until_chunks(engine: Engine, run: Any, text: str) -> None:
    arrived = asyncio.Event()
    listener = lambda event: arrived.set() if text in event.content else None  # noqa: E731
    await engine.controller.subscribe(run.run_id, listener)
    await asyncio.wait_for(arrived.wait(), 5)


async def test_cancelled_run_keeps_its_partial_answer(open_engine: OpenEngine) -> None:
    """The run ends once, as cancelled, and the partial text is marked."""
    slow = ScriptedModel(["A long answer that never ends. " * 200], delay_s=0.005)
    engine = await open_engine(model=slow)
    run = await engine.controller.begin("Tell.")
    task = await engine.controller.start(run)
    await until_chunks(engine, run, "never ends")
    await engine.controller.cancel(run.run_id)
    assert task.done()
    stored, events = await engine.runs.get(run.run_id), await engine.runs.events(run.run_id)
    assert stored.status == "cancelled"
    assert (stored.response or "").startswith("A long answer that never ends.")
    assert [event.type for event in events if event.is_terminal] == [StreamEventType.CANCELLED]
    assert (await engine.controller.result(run.run_id)).response is None
    with pytest.raises(Conflict, match="ended already: cancelled"):
        await engine.controller.cancel(run.run_id)


async def test_waiting_run_can_be_cancelled(open_engine: OpenEngine) -> None:
    """The requested call does not run, and a later decision has no effect."""
    engine = await open_engine([report(), "Next."], approvals={"create_artifact": "ask"})
    waiting = await engine.controller.execute("Write.")
    await engine.controller.cancel(waiting.run_id)
    assert (await engine.controller.result(waiting.run_id)).pending == ()
    with pytest.raises(Conflict):
        await engine.controller.resume(waiting.thread_id, decisions={waiting.pending[0].id: True})
    assert await engine.artifacts.versions(waiting.conversation_id, "research_report") == []
    after = await engine.controller.execute("And now?", conversation_id=waiting.conversation_id)
    assert after.response == "Next."


async def test_run_of_a_closed_engine_can_be_resumed(open_engine: OpenEngine, tmp_path: Path) -> None:
    """An engine is closed in the middle of a turn; another engine completes the run and repeats nothing."""
    ran: list[str] = []

    @tool(idempotent=True)
    async def note(ctx: ToolContext) -> str:
        """Take a note."""
        ran.append(ctx.tool_call_id)
        return "noted"

    def engine_with(model: ScriptedModel) -> Engine:
        engine = Engine(Settings.load(data_dir=tmp_path / "data"), model=model)
        engine.register_tool(note)
        return engine

    first = engine_with(ScriptedModel([call("note"), "An answer that takes long. " * 200], delay_s=0.005))
    async with first:
        run = await first.controller.begin("Note.")
        await first.controller.start(run)
        await until_chunks(first, run, "takes long")
    async with engine_with(ScriptedModel(["Done."])) as second:
        stored = await second.runs.get(run.run_id)
        assert stored.status == "running"
        await (await second.controller.start(stored))
        result = await second.controller.result(run.run_id)
        assert (result.status, result.response) == ("completed", "Done.")
        assert len(second.model.requests) == 1  # type: ignore[attr-defined]
    assert len(ran) == 1


async def test_run_of_another_live_engine_cannot_be_started(open_engine: OpenEngine, tmp_path: Path) -> None:
    """A second engine on the same store cannot claim the run."""
    slow = ScriptedModel(["A long answer. " * 200], delay_s=0.005)
    first = await open_engine(model=slow)
    second = await open_engine(["Mine."])
    run = await first.controller.begin("Tell.")
    await first.controller.start(run)
    with pytest.raises(Conflict, match="cannot be continued here"):
        await second.controller.start(await second.runs.get(run.run_id))
    await first.controller.cancel(run.run_id)


async def test_interrupted_tool_call_is_not_run_again(open_engine: OpenEngine, tmp_path: Path) -> None:
    """The model gets a result that says that the outcome is unknown."""
    ran: list[str] = []
    started = asyncio.Event()

    @tool()
    async def send(ctx: ToolContext) -> str:
        """Send a letter."""
        ran.append("sent")
        started.set()
        await asyncio.sleep(30)
        return "sent"

    def engine_with(model: ScriptedModel) -> Engine:
        engine = Engine(Settings.load(data_dir=tmp_path / "data"), model=model)
        engine.register_tool(send)
        return engine

    async with engine_with(ScriptedModel([call("send")])) as first:
        run = await first.controller.begin("Send.")
        await first.controller.start(run)
        await asyncio.wait_for(started.wait(), 5)
    async with engine_with(ScriptedModel(["I will ask."])) as second:
        await (await second.controller.start(await second.runs.get(run.run_id)))
        prompt = second.model.requests[0].messages[-1].content  # type: ignore[attr-defined]
    assert ran == ["sent"]
    assert "nobody knows whether it took effect" in prompt


async def test_failing_store_is_reported_as_an_error(open_engine: OpenEngine) -> None:
    """Listeners get an error event and no terminal event of success."""
    engine = await open_engine(["Fine."])
    run = await engine.controller.begin("Tell.")
    await engine.database.write(lambda db: db.execute("DROP TABLE llm_calls"))
    events: list[Any] = []
    await engine.controller.subscribe(run.run_id, events.append)
    await (await engine.controller.start(run))
    ends = [event for event in events if event.is_terminal]
    assert [event.type for event in ends] == [StreamEventType.ERROR]
    assert "llm_calls" in ends[0].data["message"]


@pytest.mark.parametrize("steps", range(6))
async def test_run_can_be_cancelled_at_its_start(open_engine: OpenEngine, steps: int) -> None:
    """The run ends once, and its conversation takes the next question."""
    engine = await open_engine(model=ScriptedModel(["An answer."] * 2, delay_s=0.01))
    run = await engine.controller.begin("Tell.")
    await engine.controller.start(run)
    for _ in range(steps):
        await asyncio.sleep(0)
    await engine.controller.cancel(run.run_id)
    stored = await engine.runs.get(run.run_id)
    assert stored.status == "cancelled"
    assert [event.is_terminal for event in await engine.runs.events(run.run_id)].count(True) == 1
    after = await engine.controller.execute("And?", conversation_id=run.conversation_id)
    assert after.status == "completed"


async def test_run_can_be_cancelled_during_a_job(open_engine: OpenEngine) -> None:
    """The lead is not called again."""
    script = by_agent(lead=[delegate("search_agent", "look"), "Never."], search=["Slowly. " * 500])
    engine = await open_engine(model=ScriptedModel(script, delay_s=0.005))
    run = await engine.controller.begin("Look.")
    await engine.controller.start(run)
    await until_chunks(engine, run, "Slowly.")
    await engine.controller.cancel(run.run_id)
    assert (await engine.runs.get(run.run_id)).status == "cancelled"
    assert len(engine.model.requests) == 2


async def test_second_cancellation_does_not_interrupt_the_end(open_engine: OpenEngine) -> None:
    """The run still ends once if it is cancelled twice while the store is busy."""
    engine = await open_engine(model=ScriptedModel(["Slowly. " * 500], delay_s=0.005))
    run = await engine.controller.begin("Tell.")
    await engine.controller.start(run)
    await until_chunks(engine, run, "Slowly.")
    busy = asyncio.create_task(engine.database.write(lambda _db: time.sleep(0.3)))
    await asyncio.sleep(0.05)
    await asyncio.gather(*(engine.controller.cancel(run.run_id) for _ in range(2)), return_exceptions=True)
    await busy
    assert (await engine.runs.get(run.run_id)).status == "cancelled"
    assert [event.is_terminal for event in await engine.runs.events(run.run_id)].count(True) == 1


async def test_empty_answer_fails_the_run(open_engine: OpenEngine) -> None:
    """The error says what to do."""
    engine = await open_engine(["  "])
    result = await engine.controller.execute("Tell.")
    assert (result.status, result.error_type) == ("failed", "RunFailed")
    assert "empty answer" in (result.error_message or "")


async def test_only_the_lead_delegates(open_engine: OpenEngine) -> None:
    """A sub-agent that calls call_subagent gets an error; an agent that is configured with this tool is refused."""
    script = by_agent(
        lead=[delegate("search_agent", "look") + delegate("lead_agent", "me"), "Done."],
        search=[delegate("crawl_agent", "read"), "I cannot."],
    )
    engine = await open_engine(script)
    result = await engine.controller.execute("Look.")
    prompts = [request.messages[-1].content for request in engine.model.requests]
    assert result.response == "Done."
    assert "You have no tool 'call_subagent'" in prompts[2]
    assert "There is no agent 'lead_agent'" in prompts[-1]
    with pytest.raises(UsageError, match="only the lead can delegate"):
        engine.register_agent(AgentConfig("boss", "Delegates.", required_tools=("call_subagent",)))
    with pytest.raises(UsageError, match="no prompt 'poet'"):
        engine.register_agent(AgentConfig("poet", "Rhymes."))


async def test_checkpoints_of_ended_runs_are_deleted(open_engine: OpenEngine, tmp_path: Path) -> None:
    """Opening the store deletes checkpoints that a killed process left; the checkpoint of a waiting run stays."""
    engine = await open_engine([report(), report()], approvals={"create_artifact": "ask"})
    over = await engine.controller.execute("One.")
    waiting = await engine.controller.execute("Two.")
    await engine.database.write(
        lambda db: db.execute("UPDATE runs SET status = 'failed' WHERE run_id = ?", (over.run_id,))
    )
    await engine.aclose()
    await open_engine([])
    db = connect(tmp_path / "data" / CHECKPOINT_FILE)
    threads = {row[0] for row in db.execute("SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM writes")}
    db.close()
    assert threads == {waiting.thread_id}


async def test_damaged_checkpoint_file_is_named(tmp_path: Path) -> None:
    """The error names the file and what is lost without the file."""
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / CHECKPOINT_FILE).write_bytes(b"not a database at all. " * 100)
    with pytest.raises(StoreError, match=r"checkpoints.db cannot be used.*move it away"):
        await Engine(Settings.load(data_dir=folder), model=ScriptedModel([])).open()


@pytest.mark.parametrize("text", ["nul \x00 byte", "emoji \U0001f600", "half \ud83d pair", "]]> </tool_call>"])
async def test_odd_characters_are_stored(open_engine: OpenEngine, text: str) -> None:
    """Questions, artifacts and answers with odd characters are read back unchanged."""
    engine = await open_engine([report(text, "odd"), f"Answer: {text}"])
    result = await engine.controller.execute(f"Question: {text}")
    assert result.status == "completed"
    assert (result.response or "").startswith("Answer: ")
    (artifact,) = await engine.artifacts.list_artifacts(result.conversation_id, message_id=result.message_id)
    assert artifact.content == text.encode("utf-8", "replace").decode()
