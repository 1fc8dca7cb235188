"""Runs with tools of real servers, by stdio and HTTP: approvals, failures, time limits and hostile servers."""

import json
import os
import signal
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from package.test_reprs import check
from support.graphs import ai_message, react_agent
from support.mcp_config import TOKEN, alive, by_stdio, over_http, pids, until
from support.replies import by_agent, call, delegate
from tools.mcp.conftest import OpenWorkbench, calls

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel

WAIT_S = 40
ASKS = {"create_artifact": "ask"}
EVERYTHING = {
    "text": " 2024 ",
    "whole": "7",
    "real": "1.5",
    "flag": "true",
    "words": ["True", "2"],
    "numbers": ["1", "2"],
    "place": '{"city": "Ulm"}',
    "places": ['{"city": "Ulm", "zip_code": "1"}'],
    "kind": "b",
    "anything": "5",
    "maybe": "3",
}
MEANT = {
    "text": " 2024 ",
    "whole": 7,
    "real": 1.5,
    "flag": True,
    "words": ["True", "2"],
    "numbers": [1, 2],
    "place": {"city": "Ulm", "zip_code": ""},
    "places": [{"city": "Ulm", "zip_code": "1"}],
    "kind": "b",
    "anything": "5",
    "maybe": 3,
}


def files(folder: Path, *options: str, **more: Any) -> dict[str, Any]:
    return {"files": by_stdio(folder, *options, **{"permission": "auto", **more})}


def test_every_type_of_parameter_reaches_a_stdio_server(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Texts of the text protocol get the declared types; omitted parameters have the server's defaults."""
    wb = open_workbench(call("echo", **EVERYTHING) + call("echo", text="x"), "Done.", mcp=files(tmp_path))
    assert pids(tmp_path) == []  # nothing is started before it is needed
    assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    full, short = (json.loads(call_.output) for call_ in calls(wb))
    assert full == MEANT
    assert (short["text"], short["whole"], short["kind"], short["maybe"]) == ("x", 1, "A", None)
    assert len(pids(tmp_path)) == 1


def test_every_type_of_parameter_reaches_an_http_server(
    open_workbench: OpenWorkbench, tmp_path: Path, monkeypatch
) -> None:
    """A header has a token from the environment."""
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    with over_http(tmp_path, env={"SERVER_TOKEN": TOKEN}) as port:
        far = {"url": f"http://127.0.0.1:{port}/mcp", "headers": {"Authorization": "Bearer ${MY_TOKEN}"}}
        wb = open_workbench(call("echo", **EVERYTHING), "Done.", mcp={"far": {**far, "permission": "auto"}})
        assert wb.ask("Go.").wait(WAIT_S).response == "Done."
        assert json.loads(calls(wb)[0].output) == MEANT
        wb.close()


def test_unreachable_http_server_is_used_when_it_is_back(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """While the server is unreachable, runs fail at once."""
    with over_http(tmp_path) as port:
        far = {"far": {"url": f"http://127.0.0.1:{port}/mcp", "permission": "auto"}}
        wb = open_workbench(
            call("echo", text="a"), "one", call("echo", text="b") + call("echo", text="c"), "two", mcp=far
        )
        assert wb.ask("Go.").wait(WAIT_S).response == "one"
    with over_http(tmp_path, port=port):
        assert wb.ask("Go.").wait(WAIT_S).response == "two"
    assert [call_.success for call_ in calls(wb)] == [True, True, True]
    away = open_workbench("never", mcp=far, data_dir="other")
    with pytest.raises(
        af.errors.UsageError, match=r"The MCP server far \(127\.0\.0\.1:\d+\) could not be reached: All"
    ):
        away.ask("Go.")


@pytest.fixture
def away(tmp_path: Path) -> dict[str, Any]:
    """A server that was stopped."""
    with over_http(tmp_path) as port:
        return {"url": f"http://127.0.0.1:{port}/mcp", "permission": "auto", "start_timeout_s": 5}


SMALL = {"agent": {"tools": ["core"]}, "executor": {"tools": ["core"]}}


@pytest.mark.parametrize(
    ("flow", "agents", "config"),
    [
        ("research", ["executor"], {}),
        ("research", ["agent"], {"executor": {"tools": ["mcp"]}}),
        ("plan", [], SMALL),
        ("plan", ["lead_agent"], SMALL),
    ],
)
def test_unreachable_server_does_not_affect_other_flows(
    open_workbench: OpenWorkbench, away: dict[str, Any], flow: str, agents: list[str], config: dict[str, Any]
) -> None:
    """Runs of agents without a tool of the server start, repeat and resume."""
    options = {"mcp": {"far": {**away, "agents": agents}}, "graph_config": config, "approvals": {"echo": "approve"}}
    wb = open_workbench("Done.", "Again.", **options)
    run = wb.ask("Go.", flow=flow).wait(WAIT_S)
    assert run.response == "Done."
    assert wb.conversation(run).regenerate().wait(WAIT_S).response == "Again."
    assert wb._thread.engine.mcp.server_state("far") == "not started"


@pytest.mark.parametrize(
    ("flow", "agents", "config"),
    [
        ("research", [], {}),
        ("research", ["search_agent"], {}),
        ("research", ["executor"], {"lead_agent": {"tools": ["all"]}}),
        ("research", ["executor"], {"lead_agent": {"tools": ["echo"]}}),
        ("plan", ["executor"], SMALL),
        ("plan", [], {**SMALL, "executor": {"tools": ["mcp"]}}),
        ("plan", [], {}),
    ],
)
def test_unreachable_server_fails_runs_of_its_agents(
    open_workbench: OpenWorkbench, away: dict[str, Any], flow: str, agents: list[str], config: dict[str, Any]
) -> None:
    """Agents get the tools by `mcp`, by `all` or by name."""
    wb = open_workbench("never", mcp={"far": {**away, "agents": agents}}, graph_config=config)
    with pytest.raises(af.errors.UsageError, match=r"The MCP server far \(.*\) could not be reached"):
        wb.ask("Go.", flow=flow)
    assert len(wb.runs()) == 0


def test_adapted_graph_starts_no_server(open_workbench: OpenWorkbench, away: dict[str, Any]) -> None:
    """An adapted graph has its own tools and runs while a server is unreachable."""
    wb = open_workbench("never", mcp={"far": away})
    run = wb.ask("Go.", flow=af.adapt(react_agent([ai_message("Done."), ai_message("Again.")]), name="own")).wait(
        WAIT_S
    )
    assert run.response == "Done."
    assert wb.conversation(run).regenerate().wait(WAIT_S).response == "Again."


def test_waiting_run_needs_only_its_own_servers(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The run resumes although servers that were configured later are unreachable."""
    with over_http(tmp_path) as port:
        url = {"url": f"http://127.0.0.1:{port}/mcp", "agents": ["executor"]}
    wb = open_workbench(call("create_artifact", id="a", title="A", content="x"), mcp={"far": url}, approvals=ASKS)
    waiting = wb.ask("Go.").wait(WAIT_S)
    assert waiting.status == "waiting"
    wb.close()
    later = open_workbench("Done.", mcp={"far": url}, approvals=ASKS, graph_config={"lead_agent": {"tools": ["all"]}})
    assert later.run(waiting.run_id).approve().wait(WAIT_S).response == "Done."


def test_servers_are_started_when_they_are_needed(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """A server starts for the first run that needs the server; its known tools stay offered."""
    options = {"graph_config": SMALL, "mcp": {
        "first": by_stdio(tmp_path / "a", permission="auto"),
        "second": by_stdio(tmp_path / "b", permission="auto", agents=["agent"]),
    }}  # fmt: skip
    for name in "ab":
        (tmp_path / name).mkdir()
    wb = open_workbench(call("note", text="1"), "one", call("second_note", text="2"), "two", **options)
    assert wb.ask("Go.").wait(WAIT_S).response == "one"
    assert (len(pids(tmp_path / "a")), len(pids(tmp_path / "b"))) == (1, 0)
    assert wb.ask("Go.", flow="plan").wait(WAIT_S).response == "two"
    assert (len(pids(tmp_path / "a")), len(pids(tmp_path / "b"))) == (1, 1)
    assert [call_.success for call_ in calls(wb)] == [True, True]


def test_http_server_that_ends_in_a_call_is_an_error_for_the_model(
    open_workbench: OpenWorkbench, tmp_path: Path
) -> None:
    """The next call cannot reach the server, and the run continues."""
    with over_http(tmp_path) as port:
        far = {"far": {"url": f"http://127.0.0.1:{port}/mcp", "permission": "auto", "timeout_s": 5}}
        wb = open_workbench(call("die") + call("echo", text="x"), "Done.", mcp=far)
        assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    died, echo = calls(wb)
    is_first_sdk = version("mcp").startswith("1.")  # it continues to wait for the answer
    reason = "did not answer within 5 s" if is_first_sdk else "ended while it was called"
    assert f"{reason}, and it is unknown whether the call took effect" in died.output
    assert "could not be reached" in echo.output


def test_error_for_a_wrong_token_does_not_contain_the_token(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The error has the server's message and status but not the token."""
    with over_http(tmp_path, env={"SERVER_TOKEN": TOKEN}) as port:
        address = f"http://ada:{TOKEN}@127.0.0.1:{port}/mcp?key={TOKEN}"
        wb = open_workbench("never", mcp={"far": {"url": address, "headers": {"X-Key": TOKEN}}})
        with pytest.raises(af.errors.UsageError) as caught:
            wb.ask("Go.")
    assert "status 401 Unauthorized" in str(caught.value)
    assert 'Check mcp.far, or leave it out with "disabled": true.' in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_log_has_no_secret(open_workbench: OpenWorkbench, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The logs of the libraries have the address of a server, but not its key."""
    caplog.set_level("DEBUG")
    dies = by_stdio(tmp_path, "--say", f"It is {TOKEN}.", env={"SERVER_TOKEN": TOKEN}, permission="auto")
    with over_http(tmp_path) as port:
        far = {"url": f"http://127.0.0.1:{port}/mcp?api_key={TOKEN}", "permission": "auto", "tools": ["echo"]}
        wb = open_workbench(call("far_echo", text="x"), "Done.", mcp={"far": far, "near": dies})
        assert wb.ask("Go.").wait(WAIT_S).response == "Done."
        wb.close()
    assert f"http://127.0.0.1:{port}/mcp?api_key=[secret]" in caplog.text
    assert "Failed to parse JSONRPC message" in caplog.text
    assert "It is [secret]." in caplog.text
    assert TOKEN not in caplog.text


def test_call_needs_an_approval_by_default(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """A denied call has no effect; an approved call has an effect."""
    turns = [call("echo", text="free") + call("note", text="first"), call("note", text="second"), "Done."]
    wb = open_workbench(*turns, mcp=files(tmp_path, permission={"echo": "auto"}))
    run = wb.ask("Go.").wait(WAIT_S)
    [request] = run.pending
    assert (run.status, request.tool, request.params) == ("waiting", "note", {"text": "first"})
    assert request.preview == "The call goes to the MCP server files."
    run.deny("not that")
    run.wait(WAIT_S)
    run.approve(params={"text": "third"})
    assert run.wait(WAIT_S).response == "Done."
    assert (tmp_path / "notes").read_text() == "third\n"
    echo, denied, noted = calls(wb)
    assert (echo.success, denied.success, noted.success) == (True, False, True)
    assert denied.output == "Permission denied. The person says: not that"


def test_policies_apply_to_mcp_tools(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """A policy for a name that no server offers is an error."""
    wb = open_workbench(
        call("note", text="x"), "Done.", mcp={"files": by_stdio(tmp_path)}, approvals={"note": "approve"}
    )
    assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    assert (tmp_path / "notes").read_text() == "x\n"
    other = open_workbench("never", mcp={"files": by_stdio(tmp_path)}, approvals={"noet": "approve"}, data_dir="other")
    with pytest.raises(af.errors.UsageError, match="noet"):
        other.ask("Go.")


def test_server_results_become_text(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Texts are unchanged; images, sounds and files are described with type and size; long results are stored whole."""
    turns = [call("picture", name="<b>") + call("long", n="30000") + call("fail", text="now"), "Done."]
    model = ScriptedModel(turns)
    wb = open_workbench(model=model, mcp=files(tmp_path))
    wb.ask("Go.").wait(WAIT_S)
    picture, long, failed = calls(wb)
    assert picture.output.splitlines()[::2] == [
        "Here is <b>.",
        "[image, image/png, 100 bytes; it cannot be shown here]",
        "[audio, audio/wav, 4 bytes; it cannot be shown here]",
        "[file file:///a.bin, application/x-bin, 3 bytes; it cannot be shown here]",
        "[file file:///b.txt: b, text/plain]",
    ]
    assert long.output == "x" * 30_000
    assert len(model.requests[1].messages[-1].content) < 25_000
    assert (failed.success, failed.output) == (False, "Error executing tool fail: it does not work: now")


def test_server_that_ends_in_a_call_is_an_error_for_the_model(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The error has the last output of the server without secrets; the next call starts the server again."""
    turns = [call("die", word=f"hunger {TOKEN}") + call("note", text="after"), "Done."]
    wb = open_workbench(*turns, mcp=files(tmp_path, env={"SERVER_TOKEN": TOKEN}))
    assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    died, noted = calls(wb)
    assert not died.success
    assert "ended while it was called, and it is unknown whether the call took effect" in died.output
    assert 'Its last output: "I am dying of hunger [secret]".' in died.output
    assert noted.success
    assert len(pids(tmp_path)) == 2


def test_killed_server_is_restarted_for_the_next_call(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """A server that ended between calls fails no call."""
    wb = open_workbench(call("note", text="1"), "one", call("note", text="2"), "two", mcp=files(tmp_path))
    assert wb.ask("Go.").wait(WAIT_S).response == "one"
    os.kill(pids(tmp_path)[0], signal.SIGKILL)
    until(lambda: wb._thread.engine.mcp.server_state("files") == "ended")
    assert wb.ask("Go.").wait(WAIT_S).response == "two"
    assert [call_.success for call_ in calls(wb)] == [True, True]
    assert len(pids(tmp_path)) == 2


def test_server_that_ends_repeatedly_is_not_restarted_in_this_run(
    open_workbench: OpenWorkbench, tmp_path: Path
) -> None:
    """After three starts, calls of the server fail at once; a new run starts the server again."""
    dying = call("die") * 5
    wb = open_workbench(dying, "one", call("note", text="2"), "two", mcp=files(tmp_path))
    assert wb.ask("Go.").wait(WAIT_S).response == "one"
    assert len(pids(tmp_path)) == 3
    assert "was started 3 times and ended each time" in calls(wb)[-1].output
    assert wb.ask("Go.").wait(WAIT_S).response == "two"
    assert calls(wb)[-1].success


def test_call_beyond_its_time_limit_stops_the_server(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The model gets the error, and the next call starts the server again."""
    wb = open_workbench(call("hang") + call("note", text="after"), "Done.", mcp=files(tmp_path, timeout_s=2))
    assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    hung, noted = calls(wb)
    message = "The MCP server files did not answer within 2 s, and it is unknown whether the call took effect."
    assert (hung.success, hung.output) == (False, message)
    assert noted.success
    assert len(pids(tmp_path)) == 2
    until(lambda: alive(tmp_path) == pids(tmp_path)[1:])


def test_cancelled_run_leaves_the_server_running(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The next run uses the same process."""
    wb = open_workbench(call("hang"), call("note", text="x"), "Done.", mcp=files(tmp_path))
    run = wb.ask("Go.")
    until(lambda: any(event.type == "tool_start" for event in run.events))
    run.cancel()
    assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    assert len(pids(tmp_path)) == 1


GARBAGE = "print('{{\"no\": 1}}\\nhello', flush=True); import time; time.sleep({})"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"command": "no-such-program"}, "could not be started: there is no such program or folder; install it"),
        ({"command": "python", "cwd": "/no/such/folder"}, "there is no such program or folder"),
        ({"args": ["-c", "import sys; sys.exit('No licence.')"]}, 'Connection closed. Its last output: "No licence.".'),
        ({"command": "false"}, "could not be started: Connection closed. Check mcp.bad"),
        (
            {"args": ["-c", GARBAGE.format(0)]},
            "It writes text to its standard output that is not a message",
        ),
        ({"args": ["-c", GARBAGE.format(60)], "start_timeout_s": 1}, "it did not answer within 1 s. It writes text to"),
        ({"args": ["-c", "while True: print('x' * 1000)"], "start_timeout_s": 1}, "it did not answer within 1 s."),
        ({"args": ["-c", "import time; time.sleep(60)"], "start_timeout_s": 1}, "it did not answer within 1 s."),
        ({"env": {"T": "${NO_SUCH_VARIABLE}"}}, "mcp.bad refers to the variable ${NO_SUCH_VARIABLE}"),
        ({"agents": ["nobody"]}, "mcp.bad.agents names 'nobody'; the agents are: lead_agent, search_agent"),
        ({"tools": ["nothing"]}, "mcp.bad.tools names 'nothing'; the server's tools are: die, echo, "),
    ],
)
def test_unusable_server_is_one_clear_error(
    open_workbench: OpenWorkbench, tmp_path: Path, config: dict[str, Any], message: str
) -> None:
    """The error has the server's name, the reason and advice; no run starts."""
    wb = open_workbench("never", mcp={"bad": {**by_stdio(tmp_path), **config}})
    with pytest.raises(af.errors.UsageError) as caught:
        wb.ask("Go.")
    assert message in str(caught.value)
    assert "bad" in str(caught.value)
    assert str(caught.value).count("\n") == 0
    assert len(wb.runs()) == 0


ODD = """
import json, sys
tools = [
    {"name": "say", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}},
    {"name": "list", "inputSchema": {"type": "object", "properties": []}},
    {"name": "text", "inputSchema": "string"},
    {"name": "scalar", "description": 3, "inputSchema": {"type": "string"}},
    {"name": "bare"},
    {"name": "loose", "inputSchema": {"properties": {"text": {"type": "string"}}, "required": "text"}},
    {"name": 3, "inputSchema": {"type": "object"}},
    "nothing",
]
for line in sys.stdin:
    asked = json.loads(line)
    params = asked.get("params") or {}
    answers = {
        "initialize": lambda: {
            "protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "odd", "version": "1"},
        },
        "tools/list": lambda: {"tools": tools},
        "tools/call": lambda: {"content": [{"type": "text", "text": json.dumps(list(params.values())[:2])}]},
    }
    if "id" in asked:
        answer = answers.get(asked["method"])
        reply = {"result": answer()} if answer else {"error": {"code": -32601, "message": "no"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **reply}), flush=True)
"""


def test_invalid_schema_does_not_disable_the_server(open_workbench: OpenWorkbench) -> None:
    """A tool with an invalid schema is offered as far as it can be read; other tools are unaffected."""
    script = call("say", text="a") + call("loose", text="b") + call("text") + call("list")
    wb = open_workbench(
        script, "Done.", mcp={"odd": {"command": sys.executable, "args": ["-c", ODD], "permission": "auto"}}
    )
    assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    assert [(call_.success, call_.output) for call_ in calls(wb)] == [
        (True, '["say", {"text": "a"}]'),
        (True, '["loose", {"text": "b"}]'),
        (True, '["text", {}]'),
        (True, '["list", {}]'),
    ]
    offered = [entry.name for entry in wb._thread.engine.tools if entry.category == "mcp"]
    assert offered == ["say", "list", "text", "scalar", "bare", "loose"]


def test_hostile_names_are_harmless(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Names become identifiers, texts are escaped in every view, and the server is called by its own names."""
    turns = [call("files_read_artifact", name="n", model_dump="m", odd="o") + call("read_artifact", id="none"), "Done."]
    wb = open_workbench(*turns, mcp=files(tmp_path, "--hostile"))
    run = wb.ask("Go.").wait(WAIT_S)
    assert run.response == "Done."
    ours, built_in = calls(wb)
    received, _ = json.JSONDecoder().raw_decode(ours.output)
    assert received == ["read_artifact", {"model_dump": "m", "name": "n", "odd": "o"}]
    assert "There is no artifact" in built_in.output
    offered = wb._thread.engine.mcp.offers
    assert [offer.name.isidentifier() and len(offer.name) <= 64 for offer in offered] == [True] * 5
    assert len({offer.name for offer in offered}) == 5
    for saved_output in (wb, run, *wb._thread.engine.mcp._tools, wb.settings, *wb.settings.mcp.values()):
        check(saved_output)


def test_two_hundred_tools_are_created_once(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """A second run uses the tools of the first run."""
    wb = open_workbench(call("tool_199", text="x"), "one", "two", mcp=files(tmp_path, "--tools", "200"))
    assert wb.ask("Go.").wait(WAIT_S).response == "one"
    assert calls(wb)[0].success
    assert "208 tools, running" in wb._card().plain()
    tools = wb._thread.engine.mcp._tools
    assert wb.ask("Again.").wait(WAIT_S).response == "two"
    again = wb._thread.engine.mcp._tools
    assert len(tools) >= 200
    assert [id(tool) for tool in again] == [id(tool) for tool in tools]


def test_only_configured_agents_have_the_tools(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Without configured agents, the lead agent has the tools."""
    turns = by_agent(
        lead=[delegate("search_agent", "Note it.") + call("note", text="lead"), "Done."],
        search=[call("note", text="search"), "Noted."],
    )
    wb = open_workbench(model=ScriptedModel(turns), mcp=files(tmp_path, agents=["search_agent"]))
    assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    assert (tmp_path / "notes").read_text() == "search\n"
    assert {call_.output for call_ in calls(wb) if "You have no tool 'note'" in call_.output}


def test_server_has_its_own_environment_only(open_workbench: OpenWorkbench, tmp_path: Path, monkeypatch) -> None:
    """A server does not get the kernel's keys, and its own token is masked in results."""
    monkeypatch.setenv("OPENAI_KEY_OF_SOMEBODY", "sk-very-secret")
    wb = open_workbench(call("environment"), "Done.", mcp=files(tmp_path, env={"SERVER_TOKEN": TOKEN}))
    wb.ask("Go.").wait(WAIT_S)
    output = calls(wb)[0].output
    assert "OPENAI_KEY_OF_SOMEBODY" not in output
    assert '"PATH"' in output
    assert '"SERVER_TOKEN"' in output
    assert output.endswith("[secret]")
    stored = (wb.data_dir / "store.db").read_bytes() + (wb.data_dir / "store.db-wal").read_bytes()
    assert TOKEN.encode() not in stored


def test_two_workbenches_have_separate_servers(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Closing one workbench does not end the servers of the other."""
    first = open_workbench(call("note", text="1"), "one", mcp=files(tmp_path))
    second = open_workbench(
        call("note", text="2"), "two", call("note", text="3"), "three", mcp=files(tmp_path), data_dir="other"
    )
    runs = [first.ask("Go."), second.ask("Go.")]
    assert [run.wait(WAIT_S).response for run in runs] == ["one", "two"]
    assert len(alive(tmp_path)) == 2
    first.close()
    until(lambda: len(alive(tmp_path)) == 1)
    assert second.ask("Go.").wait(WAIT_S).response == "three"


def test_user_tool_keeps_its_name_next_to_a_server_tool(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Whenever it is registered, the server's tool gets the server's name as a prefix."""
    wb = open_workbench(call("note", text="1"), "one", call("note", text="2") + call("files_note", text="3"), "two",
               mcp=files(tmp_path))  # fmt: skip
    assert wb.ask("Go.").wait(WAIT_S).response == "one"

    @wb.tool
    async def note(ctx: af.ToolContext, text: str) -> str:
        """Note it in the head."""
        return f"in the head: {text}"

    assert wb.ask("Go.").wait(WAIT_S).response == "two"
    assert [call_.output.split(" (")[0] for call_ in calls(wb)] == ["noted 1", "in the head: 2", "noted 3"]


def test_disabled_server_is_ignored(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """A disabled server is not started, and the card lists it as disabled."""
    wb = open_workbench("Done.", mcp=files(tmp_path, disabled=True))
    assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    assert pids(tmp_path) == []
    assert "disabled" in wb._card().plain()


def test_card_lists_servers_and_their_tools(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Before the first run the tools are unknown; then they are listed with their permissions."""
    wb = open_workbench("Done.", mcp=files(tmp_path, permission={"echo": "auto"}))
    assert "not started" in wb._card().plain()
    wb.ask("Go.").wait(WAIT_S)
    assert "8 tools, running" in wb._card().plain()
    page = wb._repr_html_()
    assert "Tools of MCP servers" in page
    assert "<code>echo</code></td><td>auto" in page
    assert "<code>note</code></td><td>confirm" in page


# --- questions of servers --------------------------------------------------------------------------------------------


def booked(folder: Path) -> list[str]:
    """Return the effects of the tools that ask."""
    file = folder / "booked"
    return file.read_text().split() if file.exists() else []


def test_question_of_a_server_is_a_request_with_its_fields(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The run waits, longer than the server's limit; the person is asked again after an answer that does not fit."""
    server = files(tmp_path, "--asks", timeout_s=1.0)
    wb = open_workbench(call("book", hotel="Adler"), "Done.", mcp=server)
    run = wb.ask("Go.").wait(WAIT_S)
    (request,) = run.pending
    assert (run.status, request.title, request.tool) == (
        "waiting",
        "The MCP server files asks: Who comes to Adler?",
        "MCP server files",
    )
    empty = {"name": "", "guests": "", "room": "garden", "breakfast": False, "note": ""}
    assert (request.params, request.allowed) == (empty, ("approved", "edited", "denied"))
    assert "- **guests** (integer): How many come" in request.preview
    assert "- **room** (string, optional): one of garden, street" in request.preview
    time.sleep(1.2)  # the time of the person is not part of the limit
    for params, problem in (
        (None, "The answer did not fit. name: Field required; guests: Field required"),
        ({**empty, "name": "Ada", "guests": "many"}, "guests: Input should be a valid integer"),
        ({**empty, "name": "Ada", "guests": 9}, "9 is greater than the maximum of 8"),
        ({**empty, "name": "Ada", "guests": 2, "room": "roof"}, "it must be one of"),
    ):
        run.approve(params=params)
        assert run.wait(WAIT_S).status == "waiting"
        (request,) = run.pending
        assert problem in request.message
        assert request.params == (params or empty)
    run.approve(params={**empty, "name": "Ada", "guests": "2", "breakfast": True})
    assert run.wait(WAIT_S).status == "waiting"
    (request,) = run.pending
    assert (request.title, request.params) == ("The MCP server files asks: Book at Adler for good?", {"sure": False})
    run.approve(params={"sure": True})
    assert run.wait(WAIT_S).response == "Done."
    ((_, success, output),) = calls(wb)
    assert (success, booked(tmp_path)) == (True, ["Adler"])
    assert output == 'Adler: {"name":"Ada","guests":2,"room":"garden","breakfast":true,"note":""}, True'
    approved = wb.approvals_df(run=run)
    assert approved["decision"].tolist() == ["approved", *["edited"] * 5]


def test_declined_question_is_declined_at_the_server(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The person denies both questions; the tool reports the denial."""
    wb = open_workbench(call("book", hotel="Adler"), "Done.", mcp=files(tmp_path, "--asks"))
    run = wb.ask("Go.").wait(WAIT_S)
    run.deny()
    assert run.wait(WAIT_S).status == "waiting"
    run.deny()
    assert run.wait(WAIT_S).response == "Done."
    assert [call_.output for call_ in calls(wb)] == ["not booked: decline, decline"]


@pytest.mark.parametrize("policy", ["approve", "deny"])
def test_rule_cannot_answer_a_question(open_workbench: OpenWorkbench, tmp_path: Path, policy: str) -> None:
    """An unattended run declines, and does not wait."""
    wb = open_workbench(call("book", hotel="Adler"), "Done.", mcp=files(tmp_path, "--asks"), approvals=policy)
    assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    assert [call_.output for call_ in calls(wb)] == ["not booked: decline, decline"]


def test_call_that_is_approved_may_ask(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """An approval of all calls of the tool in the run does not answer the questions of the server."""
    wb = open_workbench(
        call("book", hotel="A") + call("book", hotel="B"), "Done.", mcp=files(tmp_path, "--asks", permission="confirm")
    )
    run = wb.ask("Go.").wait(WAIT_S)
    run.approve(run.pending[0].id, scope="run")
    for _ in range(4):
        assert run.wait(WAIT_S).status == "waiting"
        (request,) = run.pending
        assert request.tool == "MCP server files"
        run.approve(request.id, params={"name": "Ada", "guests": 1} if "guests" in request.params else {"sure": True})
    assert run.wait(WAIT_S).response == "Done."
    assert booked(tmp_path) == ["A", "B"]


def test_address_to_open_is_a_request(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The card has the address; an approval means that the person opened the address."""
    with over_http(tmp_path, "--asks") as port:
        far = {"url": f"http://127.0.0.1:{port}/mcp", "permission": "auto"}
        wb = open_workbench(call("log_in"), "Done.", mcp={"far": far})
        run = wb.ask("Go.").wait(WAIT_S)
        (request,) = run.pending
        assert (request.params, request.allowed) == ({}, ("approved", "denied"))
        assert "https://hotel.example/login?id=7" in request.preview
        run.approve()
        assert run.wait(WAIT_S).response == "Done."
        ((_, success, output),) = calls(wb)
        assert (success, output) == (True, "login: accept")
        wb.close()


def test_cancelled_run_ends_its_waiting_call(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The server serves the next run, and the cancelled call has had no effect."""
    wb = open_workbench(call("book", hotel="A"), call("note", text="x"), "Done.", mcp=files(tmp_path, "--asks"))
    run = wb.ask("Go.").wait(WAIT_S)
    assert run.status == "waiting"
    run.cancel()
    assert wb.ask("Go on.").wait(WAIT_S).response == "Done."
    assert (booked(tmp_path), len(pids(tmp_path))) == ([], 1)


def test_answer_after_a_restart_does_not_repeat_the_call(open_workbench: OpenWorkbench, tmp_path: Path) -> None:
    """The call was lost with its process; the model is told that the outcome is unknown."""
    wb = open_workbench(call("book", hotel="A"), mcp=files(tmp_path, "--asks"))
    run_id = wb.ask("Go.").wait(WAIT_S).run_id
    wb.close()
    again = open_workbench("Done.", mcp=files(tmp_path, "--asks"))
    run = again.run(run_id)
    assert run.status == "waiting"
    run.approve(params={"name": "Ada", "guests": 1})
    assert run.wait(WAIT_S).response == "Done."
    assert "nobody knows whether it took effect" in calls(again)[0].output
    assert booked(tmp_path) == []
