"""Runs with tools of servers, recorded: replayed, sealed and audited without any server, forked and resumed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.mcp_config import TOKEN, by_stdio, pids
from support.recorded_scenes import assert_same, rows
from support.replies import by_agent, call, delegate
from tools.mcp.conftest import MakeBench, calls

import artifactflow_nb as af
from artifactflow_nb.core.messages import ToolCall
from artifactflow_nb.models.scripted import ScriptedModel

WAIT_S = 40
MISSING = {"files": {"command": "no-such-program", "permission": "auto", "env": {"SERVER_TOKEN": "${NO_SUCH}"}}}


def turns() -> list[Any]:
    first = call("echo", text=f"It is {TOKEN}.", place='{"city": "Ulm"}', odd="x") + call("echo", text="y", whole="3")
    return [first, call("note", text="a") + call("fail", text="b") + call("environment"), "Done."]


@pytest.fixture
def recorded(bench: MakeBench, tmp_path: Path) -> af.Workbench:
    """A run that was recorded: one tool is free, another waited for a person, one failed, one knows a secret."""
    config = by_stdio(tmp_path, env={"SERVER_TOKEN": TOKEN}, permission={"echo": "auto"})
    wb = bench(*turns(), mcp={"files": config}, record=tmp_path / "c.jsonl")
    assert asked_and_allowed(wb).response == "Done."
    wb.close()
    return wb


def asked_and_allowed(wb: af.Workbench) -> Any:
    run = wb.ask("Go.").wait(WAIT_S)
    for request in run.pending:
        run.approve(request.id)
    return run.wait(WAIT_S)


@pytest.mark.parametrize("config", [{}, {"mcp": MISSING}, {"mcp": MISSING, "approvals": {"note": "ask"}}])
def test_a_replay_starts_no_server(recorded: af.Workbench, bench: MakeBench, tmp_path: Path, config: Any) -> None:
    """With or without the servers' configuration the same prompts, questions and results come from the cassette."""
    started = pids(tmp_path)
    wb = bench(replay=tmp_path / "c.jsonl", data_dir="again", **config)
    run = asked_and_allowed(wb)
    assert (run.status, run.response, run.error) == ("completed", "Done.", None)
    assert wb.repro().runs[0].state == "replayed"
    assert wb.repro().runs[0].changes == ()
    assert pids(tmp_path) == started
    echo, again, noted, failed, environment = calls(wb)
    assert not echo.success
    assert "it has no parameter 'odd'" in echo.said
    assert (again.success, noted.success, failed.success) == (True, True, False)
    assert environment.said.endswith("[secret]")


def test_no_file_holds_the_secret(recorded: af.Workbench, tmp_path: Path) -> None:
    """The token is in no cassette, though the model wrote it and the server gave it back."""
    assert TOKEN not in (tmp_path / "c.jsonl").read_text()


def test_the_rows_of_a_replay_are_those_of_the_run(bench: MakeBench, tmp_path: Path) -> None:
    """Nothing in the store tells a replay from the run that was recorded with a server."""
    config = {"files": by_stdio(tmp_path, permission="auto")}
    script = [call("echo", text="x", whole="3") + call("note", text="a") + call("long", n="25000"), "Done."]
    first = bench(*script, mcp=config, record=tmp_path / "c.jsonl")
    first.ask("Go.").wait(WAIT_S)
    second = bench(replay=tmp_path / "c.jsonl", data_dir="again")
    second.ask("Go.").wait(WAIT_S)
    assert_same(rows(second), rows(first))


def test_native_calls_are_offered_and_replayed_too(bench: MakeBench, tmp_path: Path) -> None:
    """An endpoint that takes schemas is told the servers' own; values come typed, and reach the server so."""
    asked = ToolCall("echo", {"text": "x", "whole": 3, "place": {"city": "Ulm"}, "words": ["a"]})
    script = [[asked], "Done."]
    model = ScriptedModel(script)
    model.tool_protocols = ("native",)
    wb = bench(model=model, mcp={"files": by_stdio(tmp_path, permission="auto")}, record=tmp_path / "c.jsonl")
    assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    assert json.loads(calls(wb)[0].said)["place"] == {"city": "Ulm", "zip_code": ""}
    spec = next(tool for tool in model.requests[0].tools if tool.name == "echo")
    assert spec.parameters["properties"]["whole"] == {"type": "integer", "default": 1}
    assert spec.parameters["properties"]["kind"] == {"type": "string", "enum": ["A", "b"], "default": "A"}
    again = bench(replay=tmp_path / "c.jsonl", data_dir="again")
    assert again.ask("Go.").wait(WAIT_S).response == "Done."


def test_runs_with_other_tools_are_replayed_each_with_its_own(bench: MakeBench, tmp_path: Path) -> None:
    """A cassette may hold runs that were offered different tools: each replay has those of its run."""
    for n, tools in enumerate((["echo"], ["echo", "note"], None)):
        config = None if tools is None else {"files": by_stdio(tmp_path, permission="auto", tools=tools)}
        wb = bench(call("echo", text="x"), f"Done {n}.", mcp=config, record=tmp_path / "c.jsonl", data_dir=f"d{n}")
        wb.ask(f"Question {n}.").wait(WAIT_S)
        wb.close()
    wb = bench(replay=tmp_path / "c.jsonl", data_dir="again")
    assert [wb.ask(f"Question {n}.").wait(WAIT_S).response for n in (2, 0, 1)] == ["Done 2.", "Done 0.", "Done 1."]


def test_a_sealed_run_tells_the_same_without_its_server(
    recorded: af.Workbench, bench: MakeBench, tmp_path: Path
) -> None:
    """Who has nothing but the file runs it again: prompts, questions and what came of them are the same."""
    wb = bench(replay=tmp_path / "c.jsonl", data_dir="again")
    sealed = asked_and_allowed(wb).seal(tmp_path / "run.afrun")
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


def test_a_sealed_run_keeps_who_was_offered_what(bench: MakeBench, tmp_path: Path) -> None:
    """A tool that one agent had and another asked for in vain is had by the same one when the file is run again."""
    turns = by_agent(
        lead=[call("note", text="lead") + delegate("search_agent", "Note it."), "Done."],
        search=[call("note", text="search"), "Noted."],
    )
    config = {"files": by_stdio(tmp_path, permission="auto", agents=["search_agent"])}
    run = bench(model=ScriptedModel(turns), mcp=config).ask("Go.").wait(WAIT_S)
    with af.open_run(run.seal(tmp_path / "run.afrun")) as opened:
        found = opened.verify()
    assert (found.is_same, found.differences, found.prompts) == (True, (), ())


def test_a_question_is_decided_in_another_workbench(bench: MakeBench, tmp_path: Path) -> None:
    """A run that waited goes on where the server is started anew; without it, that is said and nothing is lost."""
    config = {"files": by_stdio(tmp_path)}
    first = bench(call("note", text="later"), mcp=config)
    waiting = first.ask("Go.").wait(WAIT_S)
    first.close()
    without = bench("never", mcp={"files": {"command": "no-such-program"}})
    with pytest.raises(af.UsageError, match=r"cannot continue here with its settings\. The MCP server files"):
        without.run(waiting.run_id).approve()
    without.close()
    later = bench("Done.", mcp=config)
    run = later.run(waiting.run_id)
    run.approve() if run.pending else run.resume()
    assert run.wait(WAIT_S).response == "Done."
    assert (tmp_path / "notes").read_text() == "later\n"


def test_fork_calls_the_server(bench: MakeBench, tmp_path: Path) -> None:
    """What is the same comes from the run that is forked; what is new calls the server."""
    script = [call("note", text="a"), "Done.", "Otherwise."]
    wb = bench(*script, mcp={"files": by_stdio(tmp_path, permission="auto")})
    run = wb.ask("Go.").wait(WAIT_S)
    step = next(step.number for step in run.steps if step.name == "note")
    assert run.fork(step, tool_result="noted b").wait(WAIT_S).response == "Otherwise."
    assert (tmp_path / "notes").read_text() == "a\n"
