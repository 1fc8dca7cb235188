"""The agent loop, driven by a scripted model through a real engine and a real store."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import pytest
from conftest import OpenEngine
from support.replies import by_agent, call, delegate, report

from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.core.toolcalls.xml import parse_results
from artifactflow_nb.engine.engine import CHECKPOINT_FILE, Engine
from artifactflow_nb.errors import ContextOverflow, ModelRejected, ModelUnavailable
from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.tools.base import ToolContext, tool


def results_seen(model: ScriptedModel, request: int) -> list[tuple[str, bool, str]]:
    """What the last message of a request says came of the calls: name, success, text."""
    text = model.requests[request].messages[-1].content
    return [(name, result.success, result.data or result.error or "") for name, result in parse_results(text)]


async def events_of(engine: Engine, question: str) -> list[StreamEvent]:
    return [event async for event in engine.controller.stream_execute(question)]


async def test_a_reply_without_calls_is_the_answer(open_engine: OpenEngine) -> None:
    """A reply without calls ends the run, and its text is the response of the message."""
    engine = await open_engine(["Forty-two."])
    result = await engine.controller.execute("What is six times seven?")
    assert (result.status, result.response) == ("completed", "Forty-two.")
    message = (await engine.conversations.path(result.conversation_id, result.message_id))[-1]
    assert (message.content, message.response, message.status) == (
        "What is six times seven?",
        "Forty-two.",
        "completed",
    )


async def test_all_calls_of_a_reply_run_in_order(open_engine: OpenEngine) -> None:
    """Three calls in one reply all run, in the order written, and their results come back together in that order."""
    turns = [
        "First." + report("one", "a") + "Then." + report("two", "b") + call("read_artifact", id="a"),
        "Done.",
    ]
    engine = await open_engine(turns)
    await engine.controller.execute("Write two things.")
    seen = results_seen(engine.model, 1)
    assert [(name, ok) for name, ok, _ in seen] == [
        ("create_artifact", True),
        ("create_artifact", True),
        ("read_artifact", True),
    ]
    assert seen[2][2] == "one"


async def test_what_goes_wrong_with_a_call_is_told_to_the_model(open_engine: OpenEngine) -> None:
    """An unknown tool, a missing parameter and an unreadable call each come back as an error that says what to do."""
    turns = [
        call("creat_artifact", id="x") + call("create_artifact", id="x") + "<tool_call><params></params></tool_call>",
        "I give up.",
    ]
    engine = await open_engine(turns)
    result = await engine.controller.execute("Try.")
    unknown, missing, unreadable = results_seen(engine.model, 1)
    assert result.response == "I give up."
    assert "Did you mean create_artifact?" in unknown[2]
    assert "'title' is missing" in missing[2]
    assert "could not be read" in unreadable[2]


async def test_a_subagent_starts_fresh_and_reports_back(open_engine: OpenEngine) -> None:
    """A sub-agent sees its instruction and the plan, not the conversation; its answer is the result of the call."""
    script = by_agent(
        lead=[
            report("- [ ] look", "task_plan") + delegate("search_agent", "Find the storage rules."),
            "The rules are in storage.md.",
        ],
        search=["They are in storage.md."],
    )
    engine = await open_engine(script)
    await engine.controller.execute("What are the storage rules?")
    search = next(request for request in engine.model.requests if "search agent" in request.messages[0].content)
    assert [message.role for message in search.messages] == ["system", "user"]
    assert search.messages[1].content == "Find the storage rules."
    assert "- [ ] look" in search.messages[0].content
    assert results_seen(engine.model, -1)[1] == ("call_subagent", True, "They are in storage.md.")


async def test_adjacent_jobs_run_at_the_same_time_and_results_keep_their_order(open_engine: OpenEngine) -> None:
    """Two jobs of one reply work at the same time, the second does not see the first's calls, results are in order."""
    both_started = asyncio.Barrier(2)

    @tool(category="test")
    async def meet(ctx: ToolContext, name: str) -> str:
        """Wait for the other job."""
        await asyncio.wait_for(both_started.wait(), 5)
        return f"met by {name}"

    def script(request: Any) -> str:
        system, *rest = request.messages
        if "lead agent" in system.content:
            jobs = delegate("search_agent", "one") + delegate("search_agent", "two")
            return jobs if len(rest) == 1 else "Both are back."
        name = rest[0].content
        return f"{name} is done" if len(rest) > 1 else call("meet", name=name)

    engine = await open_engine(script)
    engine.register_tool(meet, agent="search_agent")
    result = await engine.controller.execute("Two things at once.")
    assert (result.status, result.error_message) == ("completed", None)
    assert results_seen(engine.model, -1) == [
        ("call_subagent", True, "one is done"),
        ("call_subagent", True, "two is done"),
    ]
    jobs = [request.messages for request in engine.model.requests if "search agent" in request.messages[0].content]
    assert all(
        "met by one" not in message.content for messages in jobs if messages[1].content == "two" for message in messages
    )


async def test_a_failing_job_is_told_to_the_lead(open_engine: OpenEngine) -> None:
    """When a sub-agent's model fails, the lead hears it as the result of its call, and the other job is not lost."""

    def script(request: Any) -> Any:
        system, *rest = request.messages
        if "lead agent" in system.content:
            jobs = delegate("search_agent", "break") + delegate("search_agent", "work")
            return jobs if len(rest) == 1 else "One of two."
        return ModelRejected("The model is gone.") if rest[0].content == "break" else "worked"

    engine = await open_engine(script)
    result = await engine.controller.execute("Two jobs.")
    first, second = results_seen(engine.model, -1)
    assert result.response == "One of two."
    assert (first[1], "The model is gone." in first[2]) == (False, True)
    assert second[1:] == (True, "worked")


async def test_an_unknown_agent_is_told_to_the_lead(open_engine: OpenEngine) -> None:
    """Delegating to an agent that does not exist is an error that lists those that do."""
    engine = await open_engine([delegate("oracle", "Tell."), "No oracle."])
    await engine.controller.execute("Ask the oracle.")
    assert results_seen(engine.model, 1)[0][2] == (
        "There is no agent 'oracle'. You can delegate to: search_agent, crawl_agent."
    )


async def test_the_round_limit_ends_in_one_concluding_turn(open_engine: OpenEngine) -> None:
    """An agent that never stops calling gets its rounds, then one turn without tools; its calls there do not run."""
    turns = [f"Round {i}." + report("x", f"a{i}") for i in range(20)]
    engine = await open_engine(turns)
    result = await engine.controller.execute("Go on for ever.")
    assert len(engine.model.requests) == 6
    assert engine.model.requests[-1].tool_choice == "none"
    assert "answer now" in engine.model.requests[-1].messages[-1].content
    assert result.response == "Round 5."
    assert set(await artifact_ids(engine, result)) == {"a0", "a1", "a2", "a3", "a4"}


async def artifact_ids(engine: Engine, result: Any) -> list[str]:
    seen = await engine.artifacts.list_artifacts(result.conversation_id, message_id=result.message_id)
    return [artifact.artifact_id for artifact in seen]


async def test_events_tell_the_run_in_order_with_one_end(open_engine: OpenEngine) -> None:
    """Events are numbered upwards, chunks included; the pieces make the text; one terminal event comes last."""
    engine = await open_engine(["A rather long answer, in several pieces."])
    events = await events_of(engine, "Say something.")
    numbers = [event.seq for event in events]
    chunks = [event for event in events if event.type is StreamEventType.LLM_CHUNK]
    assert numbers == sorted(set(numbers))
    assert "".join(event.data["delta"] for event in chunks) == "A rather long answer, in several pieces."
    assert chunks[-1].content == "A rather long answer, in several pieces."
    assert [event.is_terminal for event in events].count(True) == 1
    assert events[-1].data["response"] == "A rather long answer, in several pieces."
    assert events[0].type is StreamEventType.METADATA
    assert all(event.timestamp.tzinfo is not None for event in events)


async def test_all_events_but_chunks_are_stored(open_engine: OpenEngine) -> None:
    """What was streamed can be read again from the store, except for chunks."""
    engine = await open_engine([report(), "Done."])
    events = await events_of(engine, "Write.")
    stored = await engine.runs.events(events[0].run_id)
    wanted = [event for event in events if event.type is not StreamEventType.LLM_CHUNK]
    assert [(event.seq, event.type, event.data) for event in stored] == [
        (event.seq, event.type, event.data) for event in wanted
    ]


async def test_a_failure_is_never_a_success(open_engine: OpenEngine) -> None:
    """A model that fails ends the run with one error event, and the next turn's history does not hold its text."""
    engine = await open_engine([ModelUnavailable("The stream broke.", partial="Half an ans"), "All well."])
    events = await events_of(engine, "First?")
    ends = [event for event in events if event.type in {StreamEventType.ERROR, StreamEventType.COMPLETE}]
    assert [event.type for event in ends] == [StreamEventType.ERROR]
    assert ends[0].data == {"error_type": "ModelUnavailable", "message": "The stream broke."}
    await engine.controller.execute("Second?", conversation_id=events[0].data["conversation_id"])
    history = engine.model.requests[-1].messages
    assert [message.role for message in history] == ["system", "user", "assistant", "user"]
    assert "Half an ans" not in history[2].content
    assert "stream broke" not in history[2].content


async def test_a_failed_model_call_is_a_row_with_its_partial_text(open_engine: OpenEngine) -> None:
    """What had arrived of a broken reply is kept with the call."""
    engine = await open_engine([ModelUnavailable("The stream broke.", partial="Half an ans")])
    await engine.controller.execute("First?")
    with closing(sqlite3.connect(engine.database.path)) as db:
        rows = db.execute("SELECT content, error_type FROM llm_calls").fetchall()
    assert rows == [("Half an ans", "ModelUnavailable")]


async def test_the_history_goes_to_the_lead_only(open_engine: OpenEngine) -> None:
    """A follow-up shows the lead what was said before; a sub-agent sees none of it."""
    script = by_agent(lead=["Noted.", delegate("search_agent", "look"), "Found."], search=["here"])
    engine = await open_engine(script)
    first = await engine.controller.execute("My name is Ada.")
    await engine.controller.execute("Look me up.", conversation_id=first.conversation_id)
    lead, search = engine.model.requests[1].messages, engine.model.requests[2].messages
    assert [message.content for message in lead[1:]] == ["My name is Ada.", "Noted.", "Look me up."]
    assert all("Ada" not in message.content for message in search)


async def test_a_finished_run_leaves_no_checkpoint(open_engine: OpenEngine) -> None:
    """Checkpoints are gone when a run is over, however it ended."""
    engine = await open_engine([report(), "Done.", ModelRejected("no")])
    await engine.controller.execute("One.")
    await engine.controller.execute("Two.")
    with closing(sqlite3.connect(engine.folder / CHECKPOINT_FILE)) as db:
        left = db.execute("SELECT (SELECT count(*) FROM checkpoints), (SELECT count(*) FROM writes)").fetchone()
    assert left == (0, 0)


async def test_metrics_count_each_turn_and_call_once(open_engine: OpenEngine) -> None:
    """The metrics of the end have an entry for each turn and each tool call."""
    script = by_agent(lead=[delegate("search_agent", "look"), "Found."], search=["here"])
    engine = await open_engine(script)
    result = await engine.controller.execute("Look.")
    assert Counter(turn.agent_name for turn in result.metrics.agent_executions) == {"lead_agent": 2, "search_agent": 1}
    assert [tool_call.tool_name for tool_call in result.metrics.tool_calls] == ["call_subagent"]
    assert result.metrics.wait_ms == 0
    assert all(turn.token_usage.total_tokens > 0 for turn in result.metrics.agent_executions)


@pytest.mark.parametrize("seconds", [0.05])
async def test_a_tool_that_takes_too_long_is_stopped(open_engine: OpenEngine, seconds: float) -> None:
    """A tool is stopped at its time limit, and the model is told."""

    @tool(timeout_s=seconds)
    async def sleep_long(ctx: ToolContext) -> str:
        """Sleep."""
        await asyncio.sleep(30)
        return "never"

    engine = await open_engine([call("sleep_long"), "Too slow."])
    engine.register_tool(sleep_long)
    await engine.controller.execute("Sleep.")
    assert results_seen(engine.model, 1)[0][2] == "sleep_long took longer than 0.05 s and was stopped."


async def test_a_models_stream_is_ended_by_who_listened(open_engine: OpenEngine) -> None:
    """With its reply a model's stream is closed, in the same task: what it holds is not left for later."""
    tasks: list[Any] = []

    class Noting(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            tasks.append(asyncio.current_task())
            try:
                async for event in super().stream(request):
                    yield event
            finally:
                tasks.append(asyncio.current_task())

    engine = await open_engine(model=Noting(["Done."]))
    assert (await engine.controller.execute("Go.")).response == "Done."
    asked, ended = tasks
    assert ended is asked


async def test_a_prompt_that_is_too_long_is_compressed_once(open_engine: OpenEngine) -> None:
    """An overflow leads to one more try with a shorter prompt; both tries are rows, and the next turn stays short."""
    seen: list[int] = []

    def script(request: Any) -> Any:
        size = sum(len(message.content) for message in request.messages)
        seen.append(size)
        if size > 30_000:
            return ContextOverflow("too long")
        return call("read_artifact", id="none") if len(seen) == 2 else "Short enough."

    engine = await open_engine(script)
    result = await engine.controller.execute("long " * 12_000)
    assert (result.status, result.response) == ("completed", "Short enough.")
    assert len(seen) == 3
    assert seen[0] > 60_000
    assert max(seen[1:]) <= 30_000
    with closing(sqlite3.connect(engine.database.path)) as db:
        rows = db.execute("SELECT attempt, error_type FROM llm_calls ORDER BY rowid").fetchall()
    assert rows == [(1, "ContextOverflow"), (2, None), (1, None)]


async def test_a_prompt_that_stays_too_long_is_a_clear_failure(open_engine: OpenEngine) -> None:
    """The second overflow ends the run; there is no third try."""
    engine = await open_engine(lambda _request: ContextOverflow("1,000 tokens are too many for a context of 500."))
    result = await engine.controller.execute("long " * 12_000)
    assert (result.status, result.error_type) == ("failed", "ContextOverflow")
    assert "context of 500" in (result.error_message or "")
    assert len(engine.model.requests) == 2
