"""The agent loop with a scripted model, a real engine and a real store."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import pytest
from conftest import OpenEngine
from langgraph.config import get_config
from support.replies import by_agent, call, delegate, report

from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.core.toolcalls.xml import parse_results
from artifactflow_nb.engine.engine import CHECKPOINT_FILE, Engine
from artifactflow_nb.errors import ContextOverflow, ModelRejected, ModelUnavailable
from artifactflow_nb.models.base import ModelEvent, ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.tools.base import ToolContext, tool


def results_seen(model: ScriptedModel, request: int) -> list[tuple[str, bool, str]]:
    """The results in the last message of a request: name, success, text."""
    text = model.requests[request].messages[-1].content
    return [(name, result.success, result.data or result.error or "") for name, result in parse_results(text)]


async def events_of(engine: Engine, question: str) -> list[StreamEvent]:
    return [event async for event in engine.controller.stream_execute(question)]


async def test_reply_without_calls_is_the_answer(open_engine: OpenEngine) -> None:
    """The reply ends the run, and its text is the response of the message."""
    engine = await open_engine(["Forty-two."])
    result = await engine.controller.execute("What is six times seven?")
    assert (result.status, result.response) == ("completed", "Forty-two.")
    message = (await engine.conversations.path(result.conversation_id, result.message_id))[-1]
    assert (message.content, message.response, message.status) == (
        "What is six times seven?",
        "Forty-two.",
        "completed",
    )


async def test_first_turn_is_taken_before_the_graph_is_entered(open_engine: OpenEngine) -> None:
    """A run that ends with its first turn never enters a graph; further turns are taken in the graph, each once."""
    is_inside: list[bool] = []

    def script(_request: ModelRequest) -> str:
        try:
            is_inside.append(bool(get_config()))
        except RuntimeError:  # LangGraph: not called by a node
            is_inside.append(False)
        return call("read_artifact", id="none") if len(is_inside) == 2 else "Done."

    engine = await open_engine(script)
    assert (await engine.controller.execute("Answer at once.")).response == "Done."
    assert (await engine.controller.execute("Use a tool.")).response == "Done."
    assert is_inside == [False, False, True]


async def test_all_calls_of_a_reply_run_in_order(open_engine: OpenEngine) -> None:
    """Three calls of one reply run in order, and the next prompt has their results in that order."""
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


async def test_invalid_calls_return_errors_to_the_model(open_engine: OpenEngine) -> None:
    """An unknown tool, a missing parameter and an unreadable call return an error with advice."""
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


async def test_subagent_starts_fresh_and_reports_back(open_engine: OpenEngine) -> None:
    """The sub-agent gets its instruction and the task plan, not the conversation; its answer is the call's result."""
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


async def test_adjacent_jobs_run_in_parallel(open_engine: OpenEngine) -> None:
    """Neither job sees the calls of the other, and results are in the order of the calls."""
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


async def test_failed_job_is_reported_to_the_lead(open_engine: OpenEngine) -> None:
    """The failure is the result of the call, and the parallel job completes."""

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


async def test_unknown_agent_lists_known_agents(open_engine: OpenEngine) -> None:
    """Delegating to an unknown agent returns an error that lists the known agents."""
    engine = await open_engine([delegate("oracle", "Tell."), "No oracle."])
    await engine.controller.execute("Ask the oracle.")
    assert results_seen(engine.model, 1)[0][2] == (
        "There is no agent 'oracle'. You can delegate to: search_agent, crawl_agent."
    )


async def test_round_limit_ends_in_a_concluding_turn(open_engine: OpenEngine) -> None:
    """After the last round an agent gets one turn without tools; calls in this turn do not run."""
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


async def test_events_are_numbered_and_end_once(open_engine: OpenEngine) -> None:
    """Numbers increase, chunks included; the chunks make up the text; the only terminal event is the last."""
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
    """The stored events are the streamed events without chunks."""
    engine = await open_engine([report(), "Done."])
    events = await events_of(engine, "Write.")
    stored = await engine.runs.events(events[0].run_id)
    expected = [event for event in events if event.type is not StreamEventType.LLM_CHUNK]
    assert [(event.seq, event.type, event.data) for event in stored] == [
        (event.seq, event.type, event.data) for event in expected
    ]


async def test_failed_model_fails_the_run(open_engine: OpenEngine) -> None:
    """The run ends with one error event, and the next turn's history does not contain its text."""
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


async def test_failed_model_call_has_a_row_with_its_partial_text(open_engine: OpenEngine) -> None:
    """The row has the text received before the stream broke."""
    engine = await open_engine([ModelUnavailable("The stream broke.", partial="Half an ans")])
    await engine.controller.execute("First?")
    with closing(sqlite3.connect(engine.database.path)) as db:
        rows = db.execute("SELECT content, error_type FROM llm_calls").fetchall()
    assert rows == [("Half an ans", "ModelUnavailable")]


async def test_only_the_lead_gets_the_history(open_engine: OpenEngine) -> None:
    """The lead of a follow-up gets the conversation; a sub-agent does not get it."""
    script = by_agent(lead=["Noted.", delegate("search_agent", "look"), "Found."], search=["here"])
    engine = await open_engine(script)
    first = await engine.controller.execute("My name is Ada.")
    await engine.controller.execute("Look me up.", conversation_id=first.conversation_id)
    lead, search = engine.model.requests[1].messages, engine.model.requests[2].messages
    assert [message.content for message in lead[1:]] == ["My name is Ada.", "Noted.", "Look me up."]
    assert all("Ada" not in message.content for message in search)


async def test_finished_run_leaves_no_checkpoint(open_engine: OpenEngine) -> None:
    """Checkpoints are deleted at the end of a run, whatever its status."""
    engine = await open_engine([report(), "Done.", ModelRejected("no")])
    await engine.controller.execute("One.")
    await engine.controller.execute("Two.")
    with closing(sqlite3.connect(engine.folder / CHECKPOINT_FILE)) as db:
        remaining = db.execute("SELECT (SELECT count(*) FROM checkpoints), (SELECT count(*) FROM writes)").fetchone()
    assert remaining == (0, 0)


async def test_metrics_count_each_turn_and_call_once(open_engine: OpenEngine) -> None:
    """The final metrics have an entry for each turn and each tool call."""
    script = by_agent(lead=[delegate("search_agent", "look"), "Found."], search=["here"])
    engine = await open_engine(script)
    result = await engine.controller.execute("Look.")
    assert Counter(turn.agent_name for turn in result.metrics.agent_executions) == {"lead_agent": 2, "search_agent": 1}
    assert [tool_call.tool_name for tool_call in result.metrics.tool_calls] == ["call_subagent"]
    assert result.metrics.wait_ms == 0
    assert all(turn.token_usage.total_tokens > 0 for turn in result.metrics.agent_executions)


@pytest.mark.parametrize("seconds", [0.05])
async def test_slow_tool_is_stopped(open_engine: OpenEngine, seconds: float) -> None:
    """A tool is stopped at its time limit, and the model gets the error."""

    @tool(timeout_s=seconds)
    async def sleep_long(ctx: ToolContext) -> str:
        """Sleep."""
        await asyncio.sleep(30)
        return "never"

    engine = await open_engine([call("sleep_long"), "Too slow."])
    engine.register_tool(sleep_long)
    await engine.controller.execute("Sleep.")
    assert results_seen(engine.model, 1)[0][2] == "sleep_long took longer than 0.05 s and was stopped."


async def test_model_stream_is_closed_in_its_task(open_engine: OpenEngine) -> None:
    """The stream is closed with the reply, in the task that read it."""
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
    started, ended = tasks
    assert ended is started


async def test_too_long_prompt_is_compressed_once(open_engine: OpenEngine) -> None:
    """After an overflow the call is repeated with a shorter prompt; both have rows, and later prompts stay short."""
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


async def test_second_overflow_fails_the_run(open_engine: OpenEngine) -> None:
    """There is no third attempt."""
    engine = await open_engine(lambda _request: ContextOverflow("1,000 tokens are too many for a context of 500."))
    result = await engine.controller.execute("long " * 12_000)
    assert (result.status, result.error_type) == ("failed", "ContextOverflow")
    assert "context of 500" in (result.error_message or "")
    assert len(engine.model.requests) == 2
