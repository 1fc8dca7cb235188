"""The debug middleware lists every call, updates one output and limits its size."""

import queue
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel
from support.replies import by_agent, call, delegate, plan, report

import artifactflow_nb as af
from artifactflow_nb.core.messages import Message, Usage
from artifactflow_nb.errors import UsageError
from artifactflow_nb.models.scripted import ScriptedModel

START = datetime(2026, 3, 4, tzinfo=UTC)


def a_call(n: int, text: str = "Well?") -> af.extend.ModelCall:
    message = Message("user", text)
    at = START + timedelta(seconds=n)
    return af.extend.ModelCall(
        f"run-{n}", "lead_agent", "main", n, 1, f"call-{n}", "p", f"m{n}", (message,), (), None, at
    )


def an_outcome(text: str = "Yes.") -> af.extend.ModelOutcome:
    return af.extend.ModelOutcome(text, "", (), Usage(10, 2), "stop", "m", 120.0, None, None)


def lines(debug: af.DebugMiddleware) -> list[list[str]]:
    return [line.split() for line in debug._card().plain().splitlines()]


def test_each_call_has_row_and_folded_prompt(tmp_path: Path) -> None:
    """A row has agent, step, model or tool, result, time and tokens; prompt and reply are folded below it."""
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


def test_calls_of_plan_follow_creating_call(tmp_path: Path) -> None:
    """The calls of the plan's agents follow `plan_create` in order; the agent's calls after the report come last."""
    debug = af.DebugMiddleware()
    script = by_agent(
        agent=[plan("One", "Two"), "Done."],
        executor=[call("read_artifact", id="x"), "1.", "2."],
        summarizer=["Both."],
    )
    with af.Workbench(model=ScriptedModel(script), data_dir=tmp_path / "data", middleware=[debug]) as wb:
        wb.ask("What?", flow="plan").wait(10)
    agents = ("agent", "executor", "summarizer")
    assert [row[:2] for row in lines(debug) if row[0] in agents] == [
        ["agent", "step"],
        ["agent", "1"],
        ["agent", "plan_create"],
        ["executor", "1"],
        ["executor", "read_artifact"],
        ["executor", "2"],
        ["executor", "1"],
        ["summarizer", "1"],
        ["agent", "2"],
    ]


async def test_latest_calls_are_kept_in_any_arrival_order() -> None:
    """If several runs have more calls than the limit, the latest calls stay, with the number of earlier calls."""
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


async def test_long_texts_are_cut() -> None:
    """A prompt of a megabyte is shown by its beginning and its end."""
    debug = af.DebugMiddleware()
    await debug.before_model(a_call(1, "begin " + "x" * 1_000_000 + " end"))
    await debug.after_model(a_call(1), an_outcome("y" * 1_000_000))
    page = debug._repr_html_()
    assert len(page) < 20_000
    assert "begin x" in page
    assert "x end" in page
    assert "prompt of 1 message, 1,000,017 characters" in page


@pytest.mark.usefixtures("fast_kernels")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_display_is_updated_in_kernel(tmp_path: Path) -> None:
    """A display before a run is updated in its cell with each call of the run, and not after its end."""
    manager, client = start_new_kernel(cwd=str(tmp_path), extra_arguments=["--log-level=ERROR"])
    outputs: list[dict[str, Any]] = []

    def execute(code: str) -> str:
        reply = client.execute(code, reply=True, timeout=60)  # a reply to an earlier request may still be in the queue
        return str(reply["parent_header"]["msg_id"])

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
    assert set(last) == {"text/plain", "text/html"}
    assert "[reply]\nYes." in last["text/html"]


@pytest.mark.parametrize("last", [0, -1, 2.5, "3", True])
def test_last_must_be_positive_integer(last: Any) -> None:
    """The error for any other value names the value."""
    with pytest.raises(UsageError, match=f"last is {last!r}; it must be the number of displayed calls"):
        af.DebugMiddleware(last=last)


def test_running_tool_call_is_displayed(tmp_path: Path) -> None:
    """A call without an outcome is listed as running."""
    debug, peek_rows = af.DebugMiddleware(), []

    @af.tool
    def peek(ctx: af.ToolContext) -> str:
        """Look at what is shown."""
        peek_rows.extend(row for row in lines(debug) if "peek" in row)
        return "seen"

    with af.Workbench(model=ScriptedModel([call("peek"), "Yes."]), data_dir=tmp_path / "d", middleware=[debug]) as wb:
        wb.tool(peek)
        wb.ask("Look.").wait(10)
    assert [row[:3] for row in peek_rows] == [["lead_agent", "peek", "running"]]
