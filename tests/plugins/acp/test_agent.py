"""An editor asks the workbench over the Agent Client Protocol; the editor is the client of the official package."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema

import artifactflow_nb as af
from artifactflow_nb.plugins.acp.agent import ResearchAgent
from artifactflow_nb.server.lifecycle import RunLifecycle, open_lifecycle

NOTE = [
    af.ToolCall("create_artifact", {"id": "note", "title": "Note", "content": "One."}),
    "Written.",
    af.ToolCall("rewrite_artifact", {"id": "note", "content": "Two."}),
    "Rewritten.",
    "Now.",
]


class Editor:
    """A client that keeps the updates and answers each permission with an option, or closes the question."""

    def __init__(self, option: str | None = "once") -> None:
        self.option = option
        self.updates: list[Any] = []
        self.requests: list[tuple[Any, list[Any]]] = []
        self.on_request: Callable[[], Awaitable[None]] | None = None

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        del session_id
        self.updates.append(update)

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        del session_id
        self.requests.append((tool_call, options))
        if self.on_request is not None:
            await self.on_request()
        outcome = (
            schema.DeniedOutcome(outcome="cancelled")
            if self.option is None
            else schema.AllowedOutcome(outcome="selected", option_id=self.option)
        )
        return schema.RequestPermissionResponse(outcome=outcome)

    def on_connect(self, conn: Any) -> None:
        self.connection = conn

    def text(self, kind: str = "agent_message_chunk") -> str:
        """The texts of one kind of update."""
        return "".join(each.content.text for each in self.updates if each.session_update == kind)


@asynccontextmanager
async def connected(lifecycle: RunLifecycle, editor: Editor) -> AsyncIterator[Any]:
    """Connect an editor with an agent over a socket, and greet."""
    agent: Any = ResearchAgent(lifecycle)
    served: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(asyncio.current_task())  # type: ignore[arg-type]
        await acp.run_agent(agent, writer, reader)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
    client: Any = editor
    connection = acp.connect_to_agent(client, writer, reader)
    await connection.initialize(1, client_info=schema.Implementation(name="test-editor", version="1"))
    try:
        yield connection
    finally:
        await connection.close()
        writer.close()
        await asyncio.gather(*served)
        server.close()


async def write_and_rewrite(agent: Any, folder: Path) -> Any:
    """Write a note, then ask for another text, which needs an approval; return the session and the last reply."""
    session = await agent.new_session(str(folder))
    await agent.prompt(session.session_id, [acp.text_block("Write a note.")])
    return session, await agent.prompt(session.session_id, [acp.text_block("Write another one.")])


def opened(tmp_path: Path, turns: Sequence[Any], **options: Any) -> RunLifecycle:
    return open_lifecycle(data_dir=tmp_path / "data", model=af.ScriptedModel(turns), options=options)


async def test_question_is_answered_with_updates_for_text_calls_and_permissions(tmp_path: Path) -> None:
    editor = Editor()
    lifecycle = opened(tmp_path, NOTE)
    async with connected(lifecycle, editor) as agent:
        _, reply = await write_and_rewrite(agent, tmp_path)
    assert reply.stop_reason == "end_turn"
    assert reply.usage.total_tokens == reply.usage.input_tokens + reply.usage.output_tokens > 0
    assert editor.text().endswith("Rewritten.")
    calls = [each for each in editor.updates if each.session_update == "tool_call"]
    assert [(each.kind, each.raw_input["id"]) for each in calls] == [("edit", "note"), ("edit", "note")]
    ends = [each.status for each in editor.updates if each.session_update == "tool_call_update"]
    assert ends == ["completed", "completed"]
    [(call, options)] = editor.requests
    assert call.raw_input["content"] == "Two."
    assert [option.kind for option in options] == ["allow_once", "allow_always", "reject_once"]
    decided = lifecycle.frames.approvals_df()
    assert decided["decided_by"].tolist() == ["acp:test-editor"]
    lifecycle.close()


@pytest.mark.parametrize(("option", "success"), [("reject", False), ("run", True)])
async def test_decision_of_the_editor_is_stored(tmp_path: Path, option: str, success: bool) -> None:
    editor = Editor(option)
    lifecycle = opened(tmp_path, NOTE)
    async with connected(lifecycle, editor) as agent:
        await write_and_rewrite(agent, tmp_path)
    calls = lifecycle.frames.tool_calls_df()
    assert calls["success"].tolist() == [True, success]
    assert lifecycle.frames.approvals_df()["scope"].tolist() == ["run" if option == "run" else "once"]
    lifecycle.close()


async def test_turn_that_the_editor_cancels_cancels_the_run(tmp_path: Path) -> None:
    """An editor that cancels a turn answers its open questions with `cancelled`."""
    editor = Editor(option=None)
    lifecycle = opened(tmp_path, NOTE)
    async with connected(lifecycle, editor) as agent:
        _, reply = await write_and_rewrite(agent, tmp_path)
    assert reply.stop_reason == "cancelled"
    assert lifecycle.frames.runs_df()["status"].tolist() == ["completed", "cancelled"]
    lifecycle.close()


async def leave_waiting(lifecycle: RunLifecycle, folder: Path) -> str:
    """Close an editor while a request waits; return the session."""
    editor, is_asked = Editor(), asyncio.Event()

    async def never_answer() -> None:
        is_asked.set()
        await asyncio.Event().wait()

    editor.on_request = never_answer
    async with connected(lifecycle, editor) as agent:
        session_id: str = (await agent.new_session(str(folder))).session_id
        await agent.prompt(session_id, [acp.text_block("Write a note.")])
        prompt = asyncio.create_task(agent.prompt(session_id, [acp.text_block("Write another one.")]))
        await is_asked.wait()
    with pytest.raises(ConnectionError):
        await prompt
    [request] = await lifecycle.pending()
    assert request["tool"] == "rewrite_artifact"
    return session_id


async def test_request_of_a_closed_editor_is_asked_before_the_next_question(tmp_path: Path) -> None:
    lifecycle, editor = opened(tmp_path, NOTE), Editor()
    session_id = await leave_waiting(lifecycle, tmp_path)
    async with connected(lifecycle, editor) as agent:
        await agent.load_session(str(tmp_path), session_id)
        await agent.prompt(session_id, [acp.text_block("And now?")])
    assert len(editor.requests) == 1
    assert editor.text() == "Written.Rewritten.Now."
    lifecycle.close()


async def test_stop_at_an_earlier_request_starts_no_run(tmp_path: Path) -> None:
    lifecycle = opened(tmp_path, NOTE)
    session_id = await leave_waiting(lifecycle, tmp_path)
    async with connected(lifecycle, Editor(option=None)) as agent:
        await agent.load_session(str(tmp_path), session_id)
        stopped = await agent.prompt(session_id, [acp.text_block("And now?")])
    assert stopped.stop_reason == "cancelled"
    assert lifecycle.frames.runs_df()["status"].tolist() == ["completed", "cancelled"]
    lifecycle.close()


async def test_question_of_the_agent_is_answered_by_the_next_prompt(tmp_path: Path) -> None:
    question = af.ToolCall("ask_person", {"question": "Which York?", "choices": ["York", "New York"]})
    editor = Editor()
    lifecycle = opened(tmp_path, [question, "It is in England."])
    async with connected(lifecycle, editor) as agent:
        session = await agent.new_session(str(tmp_path))
        await agent.prompt(session.session_id, [acp.text_block("Where is York?")])
        assert "Which York?\n- York\n- New York" in editor.text()
        await agent.prompt(session.session_id, [acp.text_block("York")])
    assert editor.text().endswith("It is in England.")
    assert editor.requests == []
    assert len(lifecycle.frames.runs_df()) == 1
    lifecycle.close()


async def test_session_is_loaded_and_continued_by_another_process(tmp_path: Path) -> None:
    lifecycle = opened(tmp_path, ["First answer."])
    async with connected(lifecycle, Editor()) as agent:
        session = await agent.new_session(str(tmp_path))
        await agent.prompt(session.session_id, [acp.text_block("First?")])
    lifecycle.close()
    editor = Editor()
    lifecycle = opened(tmp_path, ["Second answer."])
    async with connected(lifecycle, editor) as agent:
        [listed] = (await agent.list_sessions()).sessions
        assert listed.title == "First?"
        for session_id in (session.session_id, listed.session_id):
            editor.updates.clear()
            await agent.load_session(str(tmp_path), session_id)
            assert (editor.text("user_message_chunk"), editor.text()) == ("First?", "First answer.")
        await agent.prompt(listed.session_id, [acp.text_block("Second?")])
        with pytest.raises(acp.RequestError, match="no session"):
            await agent.load_session(str(tmp_path), "thd-unknown")
        [conversation] = await lifecycle.conversations("", 10, 0)
    assert conversation["n_messages"] == 2
    lifecycle.close()


async def test_attached_text_is_part_of_the_question(tmp_path: Path) -> None:
    lifecycle = opened(tmp_path, ["Seen."])
    attached = acp.resource_block(acp.embedded_text_resource("file:///notes.md", "Otters sleep."))
    async with connected(lifecycle, Editor()) as agent:
        session = await agent.new_session(str(tmp_path))
        await agent.prompt(session.session_id, [acp.text_block("What do otters do?"), attached])
        empty = await agent.prompt(session.session_id, [acp.text_block("  ")])
    assert lifecycle.frames.runs_df()["question"].tolist() == [
        "What do otters do?\n\nfile:///notes.md:\n\nOtters sleep."
    ]
    assert empty.stop_reason == "refusal"
    lifecycle.close()


async def test_attached_file_is_a_source(tmp_path: Path) -> None:
    notes = tmp_path / "notes.md"
    notes.write_text("# Otters\n\nOtters sleep in kelp at night.\n", encoding="utf-8")
    search = af.ToolCall("call_subagent", {"agent_name": "search_agent", "instruction": "Where do otters sleep?"})
    turns = [search, af.ToolCall("web_search", {"query": "otters sleep"}), "Found.", "In kelp."]
    lifecycle = opened(tmp_path, turns)
    async with connected(lifecycle, Editor()) as agent:
        session = await agent.new_session(str(tmp_path))
        link = acp.resource_link_block("notes.md", notes.as_uri())
        await agent.prompt(session.session_id, [acp.text_block("Where do otters sleep?"), link])
        missing = acp.resource_link_block("gone.md", (tmp_path / "gone.md").as_uri())
        refused = await agent.prompt(session.session_id, [acp.text_block("And now?"), missing])
    assert lifecycle.frames.sources_df()["title"].tolist() == ["Otters"]
    assert lifecycle.frames.runs_df()["question"].tolist() == ["Where do otters sleep?"]
    assert refused.stop_reason == "refusal"
    lifecycle.close()


async def test_failed_run_is_told_in_the_chat(tmp_path: Path) -> None:
    def fail(_request: Any) -> str:
        raise af.errors.ModelError("The endpoint refused the request.")

    editor = Editor()
    lifecycle = open_lifecycle(data_dir=tmp_path / "data", model=af.ScriptedModel(fail))
    async with connected(lifecycle, editor) as agent:
        session = await agent.new_session(str(tmp_path))
        await agent.prompt(session.session_id, [acp.text_block("Why?")])
    assert "The endpoint refused the request." in editor.text()
    lifecycle.close()


async def test_command_answers_an_editor(tmp_path: Path) -> None:
    """`python -m artifactflow_nb acp` writes nothing but the protocol to standard output."""
    cassette = tmp_path / "runs.jsonl"
    model = af.ScriptedModel(["Recorded answer."])
    with af.Workbench(model=model, data_dir=tmp_path / "data", record=cassette, mode="record", interactive=False) as wb:
        wb.ask("Why?").wait()
    editor: Any = Editor()
    command = ["-m", "artifactflow_nb", "acp", "--replay", str(cassette), "--data-dir", str(tmp_path / "b")]
    async with acp.spawn_agent_process(editor, sys.executable, *command) as (agent, _):
        await agent.initialize(1)
        session = await agent.new_session(str(tmp_path))
        await agent.prompt(session.session_id, [acp.text_block("Why?")])
    assert editor.text() == "Recorded answer."
