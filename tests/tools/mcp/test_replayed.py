"""Recorded runs with MCP tools: replayed, sealed and verified without a server, forked and resumed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.mcp_config import TOKEN, by_stdio, pids
from support.recorded_scenes import assert_same, rows
from support.replies import by_agent, call, delegate
from tools.mcp.conftest import OpenWorkbench, calls

import artifactflow_nb as af
from artifactflow_nb.core.messages import ToolCall
from artifactflow_nb.models.scripted import ScriptedModel

WAIT_S = 40
MISSING = {"files": {"command": "no-such-program", "permission": "auto", "env": {"SERVER_TOKEN": "${NO_SUCH}"}}}


def turns() -> list[Any]:
    first = call("echo", text=f"It is {TOKEN}.", place='{"city": "Ulm"}', odd="x") + call("echo", text="y", whole="3")
    return [first, call("note", text="a") + call("fail", text="b") + call("environment"), "Done."]


@pytest.fixture
def recorded(open_workbench: OpenWorkbench, tmp_path: Path) -> af.Workbench:
    """A recorded run: one tool is free, one waited for a person, one failed, one returned a secret."""
    config = by_stdio(tmp_path, env={"SERVER_TOKEN": TOKEN}, permission={"echo": "auto"})
    wb = open_workbench(*turns(), mcp={"files": config}, record=tmp_path / "c.jsonl")
    assert ask_and_approve(wb).response == "Done."
    wb.close()
    return wb


def ask_and_approve(wb: af.Workbench) -> Any:
    run = wb.ask("Go.").wait(WAIT_S)
    for request in run.pending:
        run.approve(request.id)
    return run.wait(WAIT_S)


@pytest.mark.parametrize("config", [{}, {"mcp": MISSING}, {"mcp": MISSING, "approvals": {"note": "ask"}}])
def test_replay_starts_no_server(
    recorded: af.Workbench, open_workbench: OpenWorkbench, tmp_path: Path, config: Any
) -> None:
    """With or without the servers' configuration the cassette gives the same prompts, requests and results."""
    started = pids(tmp_path)
    wb = open_workbench(replay=tmp_path / "c.jsonl", data_dir="again", **config)
    run = ask_and_approve(wb)
    assert (run.status, run.response, run.error) == ("completed", "Done.", None)
    assert wb.repro().runs[0].state == "replayed"
    assert wb.repro().runs[0].changes == ()
    assert pids(tmp_path) == started
    echo, repeated, noted, failed, environment = calls(wb)
    assert not echo.success
    assert "it has no parameter 'odd'" in echo.output
    assert (repeated.success, noted.success, failed.success) == (True, True, False)
    assert environment.output.endswith("[secret]")


def test_cassette_has_no_secret(recorded: af.Workbench, tmp_path: Path) -> None:
    """The model and the server repeated the token."""
    assert TOKEN not in (tmp_path / "c.jsonl").read_text()


def test_rows_of_a_replay_equal_the_rows_of_the_run(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The store of a replay equals the store of the recorded run."""
    config = {"files": by_stdio(tmp_path, permission="auto")}
    script = [call("echo", text="x", whole="3") + call("note", text="a") + call("long", n="25000"), "Done."]
    first = open_workbench(*script, mcp=config, record=tmp_path / "c.jsonl")
    first.ask("Go.").wait(WAIT_S)
    second = open_workbench(replay=tmp_path / "c.jsonl", data_dir="again")
    second.ask("Go.").wait(WAIT_S)
    assert_same(rows(second), rows(first))


def test_native_calls_of_mcp_tools_are_replayed(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The endpoint gets the servers' schemas, and the server gets typed values."""
    echo_call = ToolCall("echo", {"text": "x", "whole": 3, "place": {"city": "Ulm"}, "words": ["a"]})
    script = [[echo_call], "Done."]
    model = ScriptedModel(script)
    model.tool_protocols = ("native",)
    wb = open_workbench(model=model, mcp={"files": by_stdio(tmp_path, permission="auto")}, record=tmp_path / "c.jsonl")
    assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    assert json.loads(calls(wb)[0].output)["place"] == {"city": "Ulm", "zip_code": ""}
    spec = next(tool for tool in model.requests[0].tools if tool.name == "echo")
    assert spec.parameters["properties"]["whole"] == {"type": "integer", "default": 1}
    assert spec.parameters["properties"]["kind"] == {"type": "string", "enum": ["A", "b"], "default": "A"}
    repeated = open_workbench(replay=tmp_path / "c.jsonl", data_dir="again")
    assert repeated.ask("Go.").wait(WAIT_S).response == "Done."


def test_each_replay_has_the_tools_of_its_run(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """A cassette may have runs with different tools."""
    for n, tools in enumerate((["echo"], ["echo", "note"], None)):
        config = None if tools is None else {"files": by_stdio(tmp_path, permission="auto", tools=tools)}
        wb = open_workbench(
            call("echo", text="x"), f"Done {n}.", mcp=config, record=tmp_path / "c.jsonl", data_dir=f"d{n}"
        )
        wb.ask(f"Question {n}.").wait(WAIT_S)
        wb.close()
    wb = open_workbench(replay=tmp_path / "c.jsonl", data_dir="again")
    assert [wb.ask(f"Question {n}.").wait(WAIT_S).response for n in (2, 0, 1)] == ["Done 2.", "Done 0.", "Done 1."]


def test_sealed_run_is_repeated_without_its_server(
    recorded: af.Workbench, open_workbench: OpenWorkbench, tmp_path: Path
) -> None:
    """Prompts, requests and results are the same."""
    wb = open_workbench(replay=tmp_path / "c.jsonl", data_dir="again")
    sealed = ask_and_approve(wb).seal(tmp_path / "run.afrun")
    assert TOKEN.encode() not in sealed.read_bytes()
    script = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("mcp", "mcp_types"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
import artifactflow_nb as af
with af.open_run({str(sealed)!r}) as run:
    found = run.verify()
print(found.is_same, found.differences, found.prompts)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "True () ()\n"


def test_sealed_run_has_the_offers_of_each_agent(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """When the file is repeated, a tool is offered to the same agents as before."""
    turns = by_agent(
        lead=[call("note", text="lead") + delegate("search_agent", "Note it."), "Done."],
        search=[call("note", text="search"), "Noted."],
    )
    config = {"files": by_stdio(tmp_path, permission="auto", agents=["search_agent"])}
    run = open_workbench(model=ScriptedModel(turns), mcp=config).ask("Go.").wait(WAIT_S)
    with af.open_run(run.seal(tmp_path / "run.afrun")) as opened:
        found = opened.verify()
    assert (found.is_same, found.differences, found.prompts) == (True, (), ())


def test_waiting_run_is_decided_in_another_workbench(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The server is started again; if it is missing, the error says so and the run still waits."""
    config = {"files": by_stdio(tmp_path)}
    first = open_workbench(call("note", text="later"), mcp=config)
    waiting = first.ask("Go.").wait(WAIT_S)
    first.close()
    without = open_workbench("never", mcp={"files": {"command": "no-such-program"}})
    with pytest.raises(af.errors.UsageError, match=r"cannot continue here with its settings\. The MCP server files"):
        without.run(waiting.run_id).approve()
    without.close()
    later = open_workbench("Done.", mcp=config)
    run = later.run(waiting.run_id)
    run.approve() if run.pending else run.resume()
    assert run.wait(WAIT_S).response == "Done."
    assert (tmp_path / "notes").read_text() == "later\n"


def test_fork_calls_the_server(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Recorded steps are copied; new steps call the server."""
    script = [call("note", text="a"), "Done.", "Otherwise."]
    wb = open_workbench(*script, mcp={"files": by_stdio(tmp_path, permission="auto")})
    run = wb.ask("Go.").wait(WAIT_S)
    step = next(step.number for step in run.steps if step.name == "note")
    assert run.fork(step, tool_result="noted b").wait(WAIT_S).response == "Otherwise."
    assert (tmp_path / "notes").read_text() == "a\n"
