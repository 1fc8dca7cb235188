"""The middleware that shows every call: what it tells, how it grows, and that it stays small."""

import queue
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel
from recordings.replayed import Stage, Uneven, jobs, opened, searching, with_look
from scripts import by_agent, call, delegate, report

import artifactflow_nb as af
from artifactflow_nb.errors import UsageError
from artifactflow_nb.messages import Message, Usage
from artifactflow_nb.models.scripted import ScriptedModel

START = datetime(2026, 3, 4, tzinfo=UTC)


def a_call(n: int, text: str = "Well?") -> af.ModelCall:
    message = Message("user", text)
    at = START + timedelta(seconds=n)
    return af.ModelCall(f"run-{n}", "lead_agent", "main", n, 1, f"call-{n}", "p", f"m{n}", (message,), (), None, at)


def an_outcome(text: str = "Yes.") -> af.ModelOutcome:
    return af.ModelOutcome(text, "", (), Usage(10, 2), "stop", "m", 120.0, None, None)


def lines(debug: af.DebugMiddleware) -> list[list[str]]:
    return [line.split() for line in debug._card().plain().splitlines()]


def test_each_call_is_a_row_and_its_prompt_is_folded_away(tmp_path: Path) -> None:
    """Who, which step, model or tool, what came of it, time and tokens; what was sent and came back on a click."""
    debug = af.DebugMiddleware()
    assert debug._card().plain().startswith("Calls: none yet")
    script = by_agent(lead=[delegate("search_agent", "Search."), report(), "Done."], search=["Found it."])
    with af.Workbench(
        model=ScriptedModel(script),
        data_dir=tmp_path / "data",
        middleware=[debug],
        approvals={"create_artifact": "deny"},
    ) as wb:
        wb.ask("What is it?").wait(10)
        tokens = wb.llm_calls_df()["total_tokens"].sum()
    rows = lines(debug)
    assert rows[0] == ["Calls:", "4", "model", "calls,", "2", "tool", "calls"]
    assert ["tokens", f"{tokens:,}"] in rows
    table = [row for row in rows if row[0] in {"lead_agent", "search_agent"}]
    assert [row[:4] for row in table if "scripted" in row] == [
        ["lead_agent", "1", "scripted", "ok"],
        ["search_agent", "1", "scripted", "ok"],
        ["lead_agent", "2", "scripted", "ok"],
        ["lead_agent", "3", "scripted", "ok"],
    ]
    assert ["lead_agent", "create_artifact", "PermissionDenied"] in [row[:3] for row in table]
    page = debug._repr_html_()
    assert page.count("<details>") == 6
    assert "<summary>lead_agent, step 1: prompt of 2 messages, " in page
    assert "[user]\nWhat is it?\n\n[reply]\n" in page
    assert "[result]\nFound it." in page
    assert "agent_name: search_agent" in page
    assert "<details>" in debug._repr_markdown_()


async def test_the_last_calls_are_kept_however_they_come() -> None:
    """With more calls than it shows, of several runs, the latest stay, and it says how many there were before."""
    debug = af.DebugMiddleware(last=3)
    for n in (1, 4, 2, 5, 3):
        await debug.before_model(a_call(n))
    for n in (5, 1, 4):
        await debug.after_model(a_call(n), an_outcome())
    rows = lines(debug)
    assert [row[:4] for row in rows if row[0] == "lead_agent"] == [
        ["lead_agent", "3", "m3", "running"],
        ["lead_agent", "4", "m4", "ok"],
        ["lead_agent", "5", "m5", "ok"],
    ]
    assert ["earlier", "calls", "2"] in rows


async def test_long_texts_do_not_make_a_long_output() -> None:
    """A prompt of a megabyte is shown by its beginning and its end."""
    debug = af.DebugMiddleware()
    await debug.before_model(a_call(1, "begin " + "x" * 1_000_000 + " end"))
    await debug.after_model(a_call(1), an_outcome("y" * 1_000_000))
    page = debug._repr_html_()
    assert len(page) < 20_000
    assert "begin x" in page
    assert "x end" in page
    assert "prompt of 1 message, 1,000,017 characters" in page


def test_the_same_calls_are_shown_in_every_replay(tmp_path: Path) -> None:
    """Jobs that overtake each other stand in the same rows with the same figures, each time that the run is played."""

    def finding(request: Any) -> Any:
        if "lead agent" not in request.messages[0].content:
            return searching(request)
        return jobs("tea", "milk", "water") if len(request.messages) == 2 else "All are found."

    def faces(**options: Any) -> tuple[str, str]:
        debug = af.DebugMiddleware()
        with opened(tmp_path, setup=with_look, middleware=[debug], **options) as wb:
            Stage(wb, is_played=False).ask("Find all.").wait(30)
        return debug._repr_html_(), debug._repr_markdown_()

    recorded = faces(record=tmp_path / "c.jsonl", model=Uneven(finding))
    assert "3 tool calls" not in recorded[0]
    for _ in range(3):
        assert faces(replay=tmp_path / "c.jsonl") == recorded


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_its_display_grows_in_a_kernel(tmp_path: Path) -> None:
    """What is displayed before a run is replaced as its calls happen, in the cell where it stands; then it rests."""
    manager, client = start_new_kernel(cwd=str(tmp_path), extra_arguments=["--log-level=ERROR"])
    outputs: list[dict[str, Any]] = []

    def execute(code: str) -> str:
        msg_id = client.execute(code)
        client.get_shell_msg(timeout=30)
        return msg_id

    try:
        execute(
            "import artifactflow_nb as af\ndebug = af.DebugMiddleware()\n"
            'wb = af.Workbench(model=af.ScriptedModel(["Yes."]), middleware=[debug])'
        )
        cell = execute("debug")
        execute('wb.ask("Well?").wait(20)\nNone')
        with suppress(queue.Empty):
            while True:  # until nothing has come for a second
                message = client.get_iopub_msg(timeout=1)
                if "data" in message["content"]:
                    outputs.append(message)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert [message["msg_type"] for message in outputs][:2] == ["display_data", "update_display_data"]
    assert len(outputs) <= 4
    assert {message["parent_header"]["msg_id"] for message in outputs} == {cell}
    assert len({message["content"]["transient"]["display_id"] for message in outputs}) == 1
    first, last = outputs[0]["content"]["data"], outputs[-1]["content"]["data"]
    assert first["text/plain"].startswith("Calls: none yet")
    assert last["text/plain"].startswith("Calls: 1 model call, 0 tool calls")
    assert set(last) == {"text/plain", "text/markdown", "text/html"}
    assert "[reply]\nYes." in last["text/html"]


@pytest.mark.parametrize("last", [0, -1, 2.5, "3", True])
def test_how_many_calls_are_shown_is_a_count(last: Any) -> None:
    """Anything else is refused with its value."""
    with pytest.raises(UsageError, match=f"last is {last!r}; it must be a whole number from 1"):
        af.DebugMiddleware(last=last)


def test_a_call_of_a_tool_is_shown_while_it_runs(tmp_path: Path) -> None:
    """A call that has no outcome yet stands there as running."""
    debug, seen = af.DebugMiddleware(), []

    @af.tool
    def peek(ctx: af.ToolContext) -> str:
        """Look at what is shown."""
        seen.extend(row for row in lines(debug) if "peek" in row)
        return "seen"

    with af.Workbench(model=ScriptedModel([call("peek"), "Yes."]), data_dir=tmp_path / "d", middleware=[debug]) as wb:
        wb.register_tool(peek)
        wb.ask("Look.").wait(10)
    assert [row[:3] for row in seen] == [["lead_agent", "peek", "running"]]
