"""An editor asks the workbench over the Agent Client Protocol; the editor is the client of the official package."""

import asyncio
import json
import re
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema
from support.chat_endpoint import Answer, ChatServer
from support.gated_model import GatedModel
from support.replies import by_agent, call, decide

import artifactflow_nb as af
from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.plugins.acp.agent import ResearchAgent
from artifactflow_nb.server.bodies import ChatBody
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
    assert call.title == "lead agent wants to run rewrite_artifact: note"
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


async def never() -> None:
    await asyncio.Event().wait()


async def test_request_that_is_decided_in_a_notebook_keeps_the_editor_no_longer(tmp_path: Path) -> None:
    lifecycle, editor = opened(tmp_path, NOTE), Editor()

    async def decide_elsewhere() -> None:
        [request] = await lifecycle.pending()
        await lifecycle.call(lifecycle.decide(request["id"], Decision(approved=True, decided_by="notebook")))
        await never()

    editor.on_request = decide_elsewhere
    async with connected(lifecycle, editor) as agent:
        _, reply = await write_and_rewrite(agent, tmp_path)
    assert reply.stop_reason == "end_turn"
    assert editor.text().endswith("Rewritten.")
    assert lifecycle.frames.approvals_df()["decided_by"].tolist() == ["notebook"]
    lifecycle.close()


async def test_editor_that_cancels_need_not_answer_its_question(tmp_path: Path) -> None:
    lifecycle, editor = opened(tmp_path, NOTE), Editor()
    async with connected(lifecycle, editor) as agent:
        session = await agent.new_session(str(tmp_path))

        async def cancel() -> None:
            await agent.cancel(session.session_id)
            await never()

        editor.on_request = cancel
        await agent.prompt(session.session_id, [acp.text_block("Write a note.")])
        reply = await agent.prompt(session.session_id, [acp.text_block("Write another one.")])
    assert reply.stop_reason == "cancelled"
    assert lifecycle.frames.runs_df()["status"].tolist() == ["completed", "cancelled"]
    lifecycle.close()


async def test_prompt_that_is_cancelled_at_once_is_cancelled(tmp_path: Path) -> None:
    """The editor may cancel before the run has begun."""
    lifecycle = open_lifecycle(data_dir=tmp_path / "data", model=GatedModel(["Never."]))
    async with connected(lifecycle, Editor()) as agent:
        session = await agent.new_session(str(tmp_path))
        prompt = asyncio.create_task(agent.prompt(session.session_id, [acp.text_block("Why?")]))
        await asyncio.sleep(0)  # the prompt is sent first
        await agent.cancel(session.session_id)
        reply = await prompt
    assert reply.stop_reason == "cancelled"
    lifecycle.close()


async def test_prompts_of_a_session_are_answered_one_after_the_other(tmp_path: Path) -> None:
    """An editor may send a prompt while the request of the prompt before waits for the person."""
    lifecycle, editor = opened(tmp_path, NOTE), Editor()
    later: list[asyncio.Task[Any]] = []
    async with connected(lifecycle, editor) as agent:

        async def ask_more() -> None:
            later.append(asyncio.create_task(agent.prompt(session.session_id, [acp.text_block("And now?")])))

        session = await agent.new_session(str(tmp_path))
        await agent.prompt(session.session_id, [acp.text_block("Write a note.")])
        editor.on_request = ask_more
        await agent.prompt(session.session_id, [acp.text_block("Write another one.")])
        await asyncio.gather(*later)
    assert len(editor.requests) == 1
    assert editor.text() == "Written.Rewritten.Now."
    lifecycle.close()


async def test_call_of_a_cancelled_run_runs_no_longer_in_the_editor(tmp_path: Path) -> None:
    @af.tool(permission="auto")
    async def wait_for_ever(_ctx: af.ToolContext) -> str:
        """Wait."""
        is_called.set()
        await never()
        return ""

    is_called = threading.Event()
    model = af.ScriptedModel([af.ToolCall("wait_for_ever", {}), "Never."])
    lifecycle, editor = open_lifecycle(data_dir=tmp_path / "data", model=model), Editor()
    lifecycle.thread.engine.register_tool(wait_for_ever)
    async with connected(lifecycle, editor) as agent:
        session = await agent.new_session(str(tmp_path))
        prompt = asyncio.create_task(agent.prompt(session.session_id, [acp.text_block("Wait.")]))
        await asyncio.to_thread(is_called.wait)
        await agent.cancel(session.session_id)
        assert (await prompt).stop_reason == "cancelled"
    states = [each.status for each in editor.updates if each.session_update.startswith("tool_call")]
    assert states == ["in_progress", "failed"]
    lifecycle.close()


async def leave_waiting(lifecycle: RunLifecycle, folder: Path) -> str:
    """Close an editor while a request waits; return the session."""
    editor, is_asked = Editor(), asyncio.Event()

    async def never_answer() -> None:
        is_asked.set()
        await never()

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


async def test_run_that_is_still_running_is_followed_before_the_next_question(tmp_path: Path) -> None:
    """An editor that was closed in the middle of an answer loads the session again and asks."""
    model, first, second = GatedModel(["First answer.", "Second answer."]), Editor(), Editor()
    lifecycle = open_lifecycle(data_dir=tmp_path / "data", model=model)
    async with connected(lifecycle, first) as agent:
        session_id = (await agent.new_session(str(tmp_path))).session_id
        prompt = asyncio.create_task(agent.prompt(session_id, [acp.text_block("First?")]))
        while lifecycle.frames.runs_df().empty:  # noqa: ASYNC110 - the store tells
            await asyncio.sleep(0.05)
    with pytest.raises(ConnectionError):
        await prompt
    async with connected(lifecycle, second) as agent:
        await agent.load_session(str(tmp_path), session_id)
        prompt = asyncio.create_task(agent.prompt(session_id, [acp.text_block("Second?")]))
        model.gate.set()
        await prompt
    assert second.text() == "First answer.Second answer."
    assert "First answer." in [message.content for message in model.requests[1].messages]
    lifecycle.close()


async def test_question_of_a_loaded_session_is_shown(tmp_path: Path) -> None:
    question = af.ToolCall("ask_person", {"question": "Which York?", "choices": ["York", "New York"]})
    lifecycle, editor = opened(tmp_path, [["I do not know which.", question], "It is in England."]), Editor()
    async with connected(lifecycle, Editor()) as agent:
        session_id = (await agent.new_session(str(tmp_path))).session_id
        await agent.prompt(session_id, [acp.text_block("Where is York?")])
    async with connected(lifecycle, editor) as agent:
        await agent.load_session(str(tmp_path), session_id)
        assert re.sub(r"\s+", " ", editor.text()) == "I do not know which. Which York? - York - New York"
        await agent.prompt(session_id, [acp.text_block("York")])
    assert editor.text().endswith("- New YorkIt is in England.")
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


async def test_attached_text_keeps_its_lines(tmp_path: Path) -> None:
    """The name of a text is at the place where the person attached it, the text below the question."""
    model = af.ScriptedModel(["Seen."])
    lifecycle = open_lifecycle(data_dir=tmp_path / "data", model=model)
    code = "def sleep():\n    if night:\n        return kelp"
    attached = acp.resource_block(acp.embedded_text_resource("file:///notes/otters.py", code))
    async with connected(lifecycle, Editor()) as agent:
        session = await agent.new_session(str(tmp_path))
        await agent.prompt(session.session_id, [acp.text_block("Explain "), attached, acp.text_block(" briefly.")])
        [listed] = (await agent.list_sessions()).sessions
    [question] = lifecycle.frames.runs_df()["question"]
    assert question == (f"Explain otters.py briefly.\n\n<context>\nfile:///notes/otters.py:\n\n{code}\n</context>")
    assert code in model.requests[0].messages[-1].content
    assert listed.title == "Explain otters.py briefly."
    lifecycle.close()


async def test_attachments_that_cannot_be_read_are_told_and_the_rest_is_asked(tmp_path: Path) -> None:
    long = "word " * 30_000
    blocks = [
        acp.text_block("Compare these:"),
        acp.resource_block(acp.embedded_text_resource("file:///long.txt", long)),
        acp.resource_block(acp.embedded_blob_resource("file:///table.bin", "AAAA")),
        acp.image_block("AAAA", "image/png"),
        acp.resource_link_block("gone.md", (tmp_path / "gone.md").as_uri()),
    ]
    editor, lifecycle = Editor(), opened(tmp_path, ["Compared."])
    async with connected(lifecycle, editor) as agent:
        session = await agent.new_session(str(tmp_path))
        reply = await agent.prompt(session.session_id, blocks)
    problems = editor.text().removesuffix("Compared.").split("\n\n")
    assert [line.partition(".")[0] for line in problems[:2]] == ["Of long", "The attachment table"]
    assert "only the first 100,000 characters" in problems[0]
    assert problems[2].startswith("The attachment (image) is not read")
    assert problems[3].startswith("The file gone.md is not searched: ")
    assert reply.stop_reason == "end_turn"
    [question] = lifecycle.frames.runs_df()["question"]
    assert question.startswith("Compare these: long.txt table.bin (image) gone.md\n\n<context>")
    assert long[:100_000] in question
    lifecycle.close()


async def test_prompt_without_words_is_told_in_the_chat(tmp_path: Path) -> None:
    """An editor removes the prompt and the message of a turn that ends with `refusal`."""
    editor, lifecycle = Editor(), opened(tmp_path, [])
    async with connected(lifecycle, editor) as agent:
        session = await agent.new_session(str(tmp_path))
        reply = await agent.prompt(session.session_id, [acp.text_block("  ")])
    assert editor.text() == "The question is empty. Write what you want to know."
    assert reply.stop_reason == "end_turn"
    assert lifecycle.frames.runs_df().empty
    lifecycle.close()


async def test_attached_file_is_a_source(tmp_path: Path) -> None:
    """A prompt of a link alone is a question, too."""
    notes = tmp_path / "notes.md"
    notes.write_text("# Otters\n\nOtters sleep in kelp at night.\n", encoding="utf-8")
    search = af.ToolCall("call_subagent", {"agent_name": "search_agent", "instruction": "Where do otters sleep?"})
    turns = [search, af.ToolCall("web_search", {"query": "otters sleep"}), "Found.", "In kelp.", "Read."]
    model = af.ScriptedModel(turns)
    lifecycle = open_lifecycle(data_dir=tmp_path / "data", model=model)
    async with connected(lifecycle, Editor()) as agent:
        session = await agent.new_session(str(tmp_path))
        link = acp.resource_link_block("notes.md", notes.as_uri())
        await agent.prompt(session.session_id, [acp.text_block("Where do otters sleep?"), link])
        await agent.prompt(session.session_id, [link])
        page = acp.resource_link_block("Otters", "https://otters.example/sleep")
        await agent.prompt(session.session_id, [page])
    assert lifecycle.frames.sources_df()["title"].tolist() == ["Otters"]
    assert "Otters sleep in kelp at night." in model.requests[2].messages[-1].content
    questions = lifecycle.frames.runs_df()["question"].tolist()
    assert questions == ["Where do otters sleep? notes.md", "notes.md", "https://otters.example/sleep"]
    lifecycle.close()


class BusyEditor(Editor):
    """An editor that takes nothing more after its first update until a run has ended."""

    def __init__(self, has_ended: Callable[[], bool]) -> None:
        super().__init__()
        self.has_ended = has_ended

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        while not self.has_ended():  # noqa: ASYNC110 - the store tells
            await asyncio.sleep(0.05)
        await super().session_update(session_id, update, **more)


async def test_busy_editor_gets_the_whole_text_once(tmp_path: Path) -> None:
    """If many pieces wait for a reader, the reader gets the text so far instead."""
    text = "".join(f"{i} " for i in range(3_000))
    lifecycle = open_lifecycle(data_dir=tmp_path / "data", model=af.ScriptedModel([text], chunk_chars=4))
    editor = BusyEditor(lambda: lifecycle.frames.runs_df()["status"].tolist() == ["completed"])
    agent = ResearchAgent(lifecycle)
    agent.on_connect(editor)  # no socket between, which would keep the pieces
    session = await agent.new_session(str(tmp_path))
    await agent.prompt(session.session_id, [acp.text_block("Count.")])
    assert editor.text() == text
    assert len(editor.updates) < 1_000
    lifecycle.close()


async def test_text_of_a_repeated_model_call_is_separated_from_the_first_try(tmp_path: Path) -> None:
    script = iter([Answer("Otters sleep in", cut_after=1), Answer("Otters sleep at night.")])
    with ChatServer(lambda _request: next(script)) as server:
        model = af.OpenAIModel(server.base_url, "k", "m")
        editor = Editor()
        lifecycle = open_lifecycle(data_dir=tmp_path / "data", model=model)
        async with connected(lifecycle, editor) as agent:
            session = await agent.new_session(str(tmp_path))
            await agent.prompt(session.session_id, [acp.text_block("When?")])
        lifecycle.close()
    assert editor.text() == "Otters sleep in\n\n(The reply broke off and begins again.)\n\nOtters sleep at night."


async def test_plan_stays_whole_when_another_editor_continues_its_run(tmp_path: Path) -> None:
    steps = {"title": "The plan", "steps": [{"title": "Write"}, {"title": "Check"}, {"title": "End"}]}
    turns = {
        "agent": [call("plan_create", **steps), "Done."],
        "executor": [call("rewrite_artifact", id="note", content="Two."), "1.", "2.", "3."],
        "replanner": [decide("continue")] * 2,
        "summarizer": ["Sum."],
    }
    lifecycle, editor = opened(tmp_path, NOTE[:2]), Editor()
    async with connected(lifecycle, Editor()) as agent:
        session_id = (await agent.new_session(str(tmp_path))).session_id
        await agent.prompt(session_id, [acp.text_block("Write a note.")])
        [listed] = (await agent.list_sessions()).sessions
    lifecycle.close()
    lifecycle = open_lifecycle(data_dir=tmp_path / "data", model=af.ScriptedModel(by_agent(**turns)))
    await lifecycle.ask(ChatBody(content="Plan.", conversation_id=listed.session_id, flow="plan"))
    while not await lifecycle.pending():  # noqa: ASYNC110 - the store tells
        await asyncio.sleep(0.05)
    async with connected(lifecycle, editor) as agent:
        await agent.load_session(str(tmp_path), listed.session_id)
        await agent.prompt(listed.session_id, [acp.text_block("And now?")])
    plans = [
        [(step.content, step.status) for step in each.entries]
        for each in editor.updates
        if each.session_update == "plan"
    ]
    assert {len(plan) for plan in plans} == {3}
    assert plans[-1] == [("Write", "completed"), ("Check", "completed"), ("End", "completed")]
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


@pytest.mark.parametrize("name", ["with space.md", "bug#42 &v=2+rev?.md", "食物.md", "100%.md"])
async def test_attached_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    """The name of the file may be before the words."""
    file = tmp_path / name
    file.write_text("# Food\n\nOtters eat clams.\n", encoding="utf-8")
    lifecycle = opened(tmp_path, ["Clams."])
    async with connected(lifecycle, Editor()) as agent:
        session = await agent.new_session(str(tmp_path))
        link = acp.resource_link_block(name, f"{file.as_uri()}#L1:3")
        await agent.prompt(session.session_id, [link, acp.text_block(" says what?")])
    assert lifecycle.frames.runs_df()["question"].tolist() == [f"{name} says what?"]
    assert lifecycle.frames.sources_df()["title"].tolist() == ["Food"]
    lifecycle.close()


async def test_session_without_a_question_is_loaded_by_another_process(tmp_path: Path) -> None:
    """An editor keeps the id of a session in which nothing was asked."""
    lifecycle = opened(tmp_path, [])
    async with connected(lifecycle, Editor()) as agent:
        session_id = (await agent.new_session(str(tmp_path))).session_id
    lifecycle.close()
    lifecycle, editor = opened(tmp_path, ["Answer."]), Editor()
    async with connected(lifecycle, editor) as agent:
        await agent.load_session(str(tmp_path), session_id)
        await agent.prompt(session_id, [acp.text_block("Why?")])
    assert editor.text() == "Answer."
    lifecycle.close()


PRINTING = """
import os, subprocess, sys
import artifactflow_nb as af
from artifactflow_nb.__main__ import main
from artifactflow_nb.server import lifecycle

@af.tool(permission="auto")
def print_much(_ctx: af.ToolContext) -> str:
    \"\"\"Print.\"\"\"
    print("printed by a tool")
    subprocess.run([sys.executable, "-c", "print('printed by a process')"], check=True)
    return "Printed."

real = lifecycle.open_lifecycle

def open_with_tool(**options):
    opened = real(**{**options, "model": af.ScriptedModel([af.ToolCall("print_much", {}), "Done."])})
    opened.thread.engine.register_tool(print_much)
    return opened

lifecycle.open_lifecycle = open_with_tool
sys.argv[0] = "artifactflow_nb"
main()
"""


async def test_what_a_tool_prints_is_no_message_to_the_editor(tmp_path: Path) -> None:
    """Every line of standard output is a message; the process ends when the editor closes its input."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PRINTING, "acp", "--data-dir", str(tmp_path / "data"),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    log = asyncio.create_task(process.stderr.read())

    async def send(number: int, method: str, **params: Any) -> list[Any]:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        process.stdin.write(json.dumps(message).encode() + b"\n")  # type: ignore[union-attr]
        messages: list[Any] = []
        while not messages or messages[-1].get("id") != number:
            messages.append(json.loads(await process.stdout.readline()))  # type: ignore[union-attr]
        return messages

    await send(1, "initialize", protocolVersion=1)
    session_id = (await send(2, "session/new", cwd=str(tmp_path), mcpServers=[]))[-1]["result"]["sessionId"]
    block = {"type": "text", "text": "Print."}
    messages = await send(3, "session/prompt", sessionId=session_id, prompt=[block])
    assert messages[-1]["result"]["stopReason"] == "end_turn"
    assert messages[-2]["params"]["update"]["content"]["text"] == "Done."
    process.stdin.close()
    assert await process.stdout.read() == b""
    assert await process.wait() == 0
    assert {b"printed by a tool", b"printed by a process"} <= set((await log).splitlines())


async def test_command_answers_an_editor(tmp_path: Path) -> None:
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
