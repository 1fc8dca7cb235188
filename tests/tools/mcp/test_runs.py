"""Tools of real servers in runs: by stdio and over HTTP, asked about, refused, failing, killed, hanging, hostile."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from package.test_reprs import check
from support.graphs import ai_message, react_agent
from support.mcp_config import TOKEN, alive, by_stdio, over_http, pids, until
from support.replies import by_agent, call, delegate
from tools.mcp.conftest import MakeBench, calls

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


def test_every_type_of_parameter_reaches_a_server_that_is_started(bench: MakeBench, tmp_path: Path) -> None:
    """Texts of the text protocol become what the server declares; what a call leaves out has the server's default."""
    wb = bench(call("echo", **EVERYTHING) + call("echo", text="x"), "Done.", mcp=files(tmp_path))
    assert pids(tmp_path) == []  # nothing is started before it is needed
    assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    full, short = (json.loads(one.said) for one in calls(wb))
    assert full == MEANT
    assert (short["text"], short["whole"], short["kind"], short["maybe"]) == ("x", 1, "A", None)
    assert len(pids(tmp_path)) == 1


def test_every_type_of_parameter_reaches_a_server_over_http(bench: MakeBench, tmp_path: Path, monkeypatch) -> None:
    """The same over HTTP, with a header whose token comes from the environment."""
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    with over_http(tmp_path, env={"SERVER_TOKEN": TOKEN}) as port:
        far = {"url": f"http://127.0.0.1:{port}/mcp", "headers": {"Authorization": "Bearer ${MY_TOKEN}"}}
        wb = bench(call("echo", **EVERYTHING), "Done.", mcp={"far": {**far, "permission": "auto"}})
        assert wb.ask("Go.").wait(WAIT_S).response == "Done."
        assert json.loads(calls(wb)[0].said) == MEANT
        wb.close()


def test_a_server_over_http_that_was_away_is_reached_again(bench: MakeBench, tmp_path: Path) -> None:
    """While it is away a run says so at once; when it is back the next run uses it."""
    with over_http(tmp_path) as port:
        far = {"far": {"url": f"http://127.0.0.1:{port}/mcp", "permission": "auto"}}
        wb = bench(call("echo", text="a"), "one", call("echo", text="b") + call("echo", text="c"), "two", mcp=far)
        assert wb.ask("Go.").wait(WAIT_S).response == "one"
    with over_http(tmp_path, port=port):
        assert wb.ask("Go.").wait(WAIT_S).response == "two"
    assert [one.success for one in calls(wb)] == [True, True, True]
    away = bench("never", mcp=far, data_dir="other")
    with pytest.raises(af.UsageError, match=r"The MCP server far \(127\.0\.0\.1:\d+\) could not be reached: All"):
        away.ask("Go.")


@pytest.fixture
def away(tmp_path: Path) -> dict[str, Any]:
    """A server that was there and is stopped."""
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
def test_a_server_that_is_away_does_not_matter_to_those_who_have_none_of_it(
    bench: MakeBench, away: dict[str, Any], flow: str, agents: list[str], config: dict[str, Any]
) -> None:
    """A run in whose flow no agent is offered its tools is asked as ever, and again, and goes on elsewhere."""
    options = {"mcp": {"far": {**away, "agents": agents}}, "graph_config": config, "approvals": {"echo": "approve"}}
    wb = bench("Done.", "Again.", **options)
    run = wb.ask("Go.", flow=flow).wait(WAIT_S)
    assert run.response == "Done."
    assert wb.regenerate(run).wait(WAIT_S).response == "Again."
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
def test_a_server_that_is_away_refuses_runs_whose_agents_have_its_tools(
    bench: MakeBench, away: dict[str, Any], flow: str, agents: list[str], config: dict[str, Any]
) -> None:
    """Whether they are named for it, or have it as `mcp`, as `all` or by a name that nothing else has."""
    wb = bench("never", mcp={"far": {**away, "agents": agents}}, graph_config=config)
    with pytest.raises(af.UsageError, match=r"The MCP server far \(.*\) could not be reached"):
        wb.ask("Go.", flow=flow)
    assert len(wb.runs()) == 0


def test_adapted_graph_starts_no_server(bench: MakeBench, away: dict[str, Any]) -> None:
    """An adapted graph is asked while a server is away: it has tools of its own."""
    wb = bench("never", mcp={"far": away})
    run = wb.ask("Go.", flow=af.adapt(react_agent([ai_message("Done."), ai_message("Again.")]), name="own")).wait(
        WAIT_S
    )
    assert run.response == "Done."
    assert wb.regenerate(run).wait(WAIT_S).response == "Again."


def test_a_run_that_waits_goes_on_while_a_server_of_others_is_away(bench: MakeBench, tmp_path: Path) -> None:
    """A run that was begun with other tools than are configured by now needs what it was begun with, and no more."""
    with over_http(tmp_path) as port:
        url = {"url": f"http://127.0.0.1:{port}/mcp", "agents": ["executor"]}
    wb = bench(call("create_artifact", id="a", title="A", content="x"), mcp={"far": url}, approvals=ASKS)
    waiting = wb.ask("Go.").wait(WAIT_S)
    assert waiting.status == "waiting"
    wb.close()
    later = bench("Done.", mcp={"far": url}, approvals=ASKS, graph_config={"lead_agent": {"tools": ["all"]}})
    assert later.run(waiting.run_id).approve().wait(WAIT_S).response == "Done."


def test_servers_of_two_flows_are_started_when_they_are_needed(bench: MakeBench, tmp_path: Path) -> None:
    """Each is started for the first run that needs it; what is known of it stays offered to its agents."""
    options = {"graph_config": SMALL, "mcp": {
        "first": by_stdio(tmp_path / "a", permission="auto"),
        "second": by_stdio(tmp_path / "b", permission="auto", agents=["agent"]),
    }}  # fmt: skip
    for name in "ab":
        (tmp_path / name).mkdir()
    wb = bench(call("note", text="1"), "one", call("second_note", text="2"), "two", **options)
    assert wb.ask("Go.").wait(WAIT_S).response == "one"
    assert (len(pids(tmp_path / "a")), len(pids(tmp_path / "b"))) == (1, 0)
    assert wb.ask("Go.", flow="plan").wait(WAIT_S).response == "two"
    assert (len(pids(tmp_path / "a")), len(pids(tmp_path / "b"))) == (1, 1)
    assert [one.success for one in calls(wb)] == [True, True]


def test_a_server_over_http_that_dies_in_a_call_is_an_error_for_the_model(bench: MakeBench, tmp_path: Path) -> None:
    """The model is told that it is gone, and the next call that it cannot be reached; the run goes on."""
    with over_http(tmp_path) as port:
        far = {"far": {"url": f"http://127.0.0.1:{port}/mcp", "permission": "auto"}}
        wb = bench(call("die") + call("echo", text="x"), "Done.", mcp=far)
        assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    died, echo = calls(wb)
    assert "ended while it was called, and it is unknown whether the call took effect" in died.said
    assert "could not be reached" in echo.said


def test_a_wrong_token_is_one_clear_error_without_it(bench: MakeBench, tmp_path: Path) -> None:
    """What the server says to a wrong key is told with its status, and the key is not."""
    with over_http(tmp_path, env={"SERVER_TOKEN": TOKEN}) as port:
        address = f"http://ada:{TOKEN}@127.0.0.1:{port}/mcp?key={TOKEN}"
        wb = bench("never", mcp={"far": {"url": address, "headers": {"X-Key": TOKEN}}})
        with pytest.raises(af.UsageError) as caught:
            wb.ask("Go.")
    assert "status 401 Unauthorized" in str(caught.value)
    assert 'Check mcp.far, or leave it out with "disabled": true.' in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_a_log_has_no_secret(bench: MakeBench, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Who logs all that the libraries say finds the address of a server, and not the key in it."""
    caplog.set_level("DEBUG")
    dies = by_stdio(tmp_path, "--say", f"It is {TOKEN}.", env={"SERVER_TOKEN": TOKEN}, permission="auto")
    with over_http(tmp_path) as port:
        far = {"url": f"http://127.0.0.1:{port}/mcp?api_key={TOKEN}", "permission": "auto", "tools": ["echo"]}
        wb = bench(call("far_echo", text="x"), "Done.", mcp={"far": far, "near": dies})
        assert wb.ask("Go.").wait(WAIT_S).response == "Done."
        wb.close()
    assert f"http://127.0.0.1:{port}/mcp?api_key=[secret]" in caplog.text
    assert "Failed to parse JSONRPC message" in caplog.text
    assert "It is [secret]." in caplog.text
    assert TOKEN not in caplog.text


def test_a_call_waits_for_a_person_unless_it_is_said_otherwise(bench: MakeBench, tmp_path: Path) -> None:
    """Without a word on it each tool asks; what a person denies has no effect; what is allowed has one."""
    turns = [call("echo", text="free") + call("note", text="first"), call("note", text="second"), "Done."]
    wb = bench(*turns, mcp=files(tmp_path, permission={"echo": "auto"}))
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
    assert denied.said == "Permission denied. The person says: not that"


def test_policies_name_tools_of_servers(bench: MakeBench, tmp_path: Path) -> None:
    """A verdict for a tool holds for a server's tool too; a name that no server offers is still a mistake."""
    wb = bench(call("note", text="x"), "Done.", mcp={"files": by_stdio(tmp_path)}, approvals={"note": "approve"})
    assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    assert (tmp_path / "notes").read_text() == "x\n"
    other = bench("never", mcp={"files": by_stdio(tmp_path)}, approvals={"noet": "approve"}, data_dir="other")
    with pytest.raises(af.UsageError, match="noet"):
        other.ask("Go.")


def test_server_results_become_text(bench: MakeBench, tmp_path: Path) -> None:
    """Texts come as they are; of pictures, sounds and files the model is told what and how much; long ones are kept."""
    turns = [call("picture", name="<b>") + call("long", n="30000") + call("fail", text="now"), "Done."]
    model = ScriptedModel(turns)
    wb = bench(model=model, mcp=files(tmp_path))
    wb.ask("Go.").wait(WAIT_S)
    picture, long, failed = calls(wb)
    assert picture.said.splitlines()[::2] == [
        "Here is <b>.",
        "[image, image/png, 100 bytes; it cannot be shown here]",
        "[audio, audio/wav, 4 bytes; it cannot be shown here]",
        "[file file:///a.bin, application/x-bin, 3 bytes; it cannot be shown here]",
        "[file file:///b.txt: b, text/plain]",
    ]
    assert long.said == "x" * 30_000
    assert len(model.requests[1].messages[-1].content) < 25_000
    assert (failed.success, failed.said) == (False, "Error executing tool fail: it does not work: now")


def test_a_server_that_dies_in_a_call_is_an_error_for_the_model(bench: MakeBench, tmp_path: Path) -> None:
    """The model is told that nobody knows, with the server's last words and no secret; the next call starts it anew."""
    turns = [call("die", word=f"hunger {TOKEN}") + call("note", text="after"), "Done."]
    wb = bench(*turns, mcp=files(tmp_path, env={"SERVER_TOKEN": TOKEN}))
    assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    died, noted = calls(wb)
    assert not died.success
    assert "ended while it was called, and it is unknown whether the call took effect" in died.said
    assert 'Its last output: "I am dying of hunger [secret]".' in died.said
    assert noted.success
    assert len(pids(tmp_path)) == 2


def test_killed_server_is_restarted_for_the_next_call(bench: MakeBench, tmp_path: Path) -> None:
    """A server that ended while nobody called it costs no call."""
    wb = bench(call("note", text="1"), "one", call("note", text="2"), "two", mcp=files(tmp_path))
    assert wb.ask("Go.").wait(WAIT_S).response == "one"
    os.kill(pids(tmp_path)[0], signal.SIGKILL)
    until(lambda: wb._thread.engine.mcp.server_state("files") == "ended")
    assert wb.ask("Go.").wait(WAIT_S).response == "two"
    assert [one.success for one in calls(wb)] == [True, True]
    assert len(pids(tmp_path)) == 2


def test_server_that_ends_repeatedly_is_not_restarted_in_this_run(bench: MakeBench, tmp_path: Path) -> None:
    """Starting it again and again is no help: after three times its calls fail at once; a new run tries again."""
    dying = call("die") * 5
    wb = bench(dying, "one", call("note", text="2"), "two", mcp=files(tmp_path))
    assert wb.ask("Go.").wait(WAIT_S).response == "one"
    assert len(pids(tmp_path)) == 3
    assert "was started 3 times and ended each time" in calls(wb)[-1].said
    assert wb.ask("Go.").wait(WAIT_S).response == "two"
    assert calls(wb)[-1].success


def test_a_call_that_hangs_is_stopped_and_the_server_with_it(bench: MakeBench, tmp_path: Path) -> None:
    """After its time the model is told; the next call has a fresh server, and the old one goes."""
    wb = bench(call("hang") + call("note", text="after"), "Done.", mcp=files(tmp_path, timeout_s=2))
    assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    hung, noted = calls(wb)
    told = "The MCP server files did not answer within 2 s, and it is unknown whether the call took effect."
    assert (hung.success, hung.said) == (False, told)
    assert noted.success
    assert len(pids(tmp_path)) == 2
    until(lambda: alive(tmp_path) == pids(tmp_path)[1:])


def test_a_run_that_is_cancelled_leaves_the_server_as_it_is(bench: MakeBench, tmp_path: Path) -> None:
    """Who cancels a run in a call has the same server in the next run."""
    wb = bench(call("hang"), call("note", text="x"), "Done.", mcp=files(tmp_path))
    run = wb.ask("Go.")
    until(lambda: any(event.type == "tool_start" for event in run.events))
    run.cancel()
    assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    assert len(pids(tmp_path)) == 1


GARBAGE = "print('{{\"no\": 1}}\\nhello', flush=True); import time; time.sleep({})"


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"command": "no-such-program"}, "could not be started: there is no such program or folder; install it"),
        ({"command": "python", "cwd": "/no/such/folder"}, "there is no such program or folder"),
        ({"args": ["-c", "import sys; sys.exit('No licence.')"]}, 'Connection closed. Its last output: "No licence.".'),
        (
            {"args": ["-c", GARBAGE.format(0)]},
            "It writes text to its standard output that is no message",
        ),
        ({"args": ["-c", GARBAGE.format(60)], "start_timeout_s": 1}, "it did not answer within 1 s. It writes text to"),
        ({"args": ["-c", "while True: print('x' * 1000)"], "start_timeout_s": 1}, "it did not answer within 1 s."),
        ({"args": ["-c", "import time; time.sleep(60)"], "start_timeout_s": 1}, "it did not answer within 1 s."),
        ({"env": {"T": "${NO_SUCH_VARIABLE}"}}, "mcp.bad names the variable ${NO_SUCH_VARIABLE}"),
        ({"agents": ["nobody"]}, "mcp.bad.agents names 'nobody'; the agents are: lead_agent, search_agent"),
        ({"tools": ["nothing"]}, "mcp.bad.tools names 'nothing'; the server's tools are: die, echo, "),
    ],
)
def test_a_server_that_cannot_be_used_is_one_clear_error(
    bench: MakeBench, tmp_path: Path, config: dict[str, Any], told: str
) -> None:
    """The question is refused with the server's name, what is wrong and what to do; no run begins."""
    wb = bench("never", mcp={"bad": {**by_stdio(tmp_path), **config}})
    with pytest.raises(af.UsageError) as caught:
        wb.ask("Go.")
    assert told in str(caught.value)
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
        told = {"result": answer()} if answer else {"error": {"code": -32601, "message": "no"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **told}), flush=True)
"""


def test_invalid_schema_does_not_disable_the_server(bench: MakeBench) -> None:
    """A tool whose schema the protocol does not allow is offered as far as it can be read, and so are the others."""
    script = call("say", text="a") + call("loose", text="b") + call("text") + call("list")
    wb = bench(script, "Done.", mcp={"odd": {"command": sys.executable, "args": ["-c", ODD], "permission": "auto"}})
    assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    assert [(one.success, one.said) for one in calls(wb)] == [
        (True, '["say", {"text": "a"}]'),
        (True, '["loose", {"text": "b"}]'),
        (True, '["text", {}]'),
        (True, '["list", {}]'),
    ]
    offered = [entry.name for entry in wb._thread.engine.tools if entry.category == "mcp"]
    assert offered == ["say", "list", "text", "scalar", "bare", "loose"]


def test_a_server_with_hostile_names_hurts_nothing(bench: MakeBench, tmp_path: Path) -> None:
    """Names become words, texts stay texts in every face, and the server is called by the names that it gave."""
    turns = [call("files_read_artifact", name="n", model_dump="m", odd="o") + call("read_artifact", id="none"), "Done."]
    wb = bench(*turns, mcp=files(tmp_path, "--hostile"))
    run = wb.ask("Go.").wait(WAIT_S)
    assert run.response == "Done."
    ours, built_in = calls(wb)
    said, _ = json.JSONDecoder().raw_decode(ours.said)
    assert said == ["read_artifact", {"model_dump": "m", "name": "n", "odd": "o"}]
    assert "There is no artifact" in built_in.said
    offered = wb._thread.engine.mcp.offers
    assert [offer.name.isidentifier() and len(offer.name) <= 64 for offer in offered] == [True] * 5
    assert len({offer.name for offer in offered}) == 5
    for face in (wb, run, *wb._thread.engine.mcp._tools, wb.settings, *wb.settings.mcp.values()):
        check(face)


def test_two_hundred_tools_are_offered_quickly(bench: MakeBench, tmp_path: Path) -> None:
    """Many tools are a long manual, and nothing else: they are made once, and a second run begins as ever."""
    wb = bench(call("tool_199", text="x"), "one", "two", mcp=files(tmp_path, "--tools", "200"))
    assert wb.ask("Go.").wait(WAIT_S).response == "one"
    assert calls(wb)[0].success
    assert "208 tools, running" in wb._card().plain()
    began = time.perf_counter()
    run = wb.ask("Again.")
    assert time.perf_counter() - began < 1
    assert run.wait(WAIT_S).response == "two"


def test_agents_that_are_named_have_the_tools_and_others_do_not(bench: MakeBench, tmp_path: Path) -> None:
    """Tools go to the agent that leads unless others are named."""
    turns = by_agent(
        lead=[delegate("search_agent", "Note it.") + call("note", text="lead"), "Done."],
        search=[call("note", text="search"), "Noted."],
    )
    wb = bench(model=ScriptedModel(turns), mcp=files(tmp_path, agents=["search_agent"]))
    assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    assert (tmp_path / "notes").read_text() == "search\n"
    assert {one.said for one in calls(wb) if "You have no tool 'note'" in one.said}


def test_a_server_has_its_own_environment_only(bench: MakeBench, tmp_path: Path, monkeypatch) -> None:
    """Keys that the kernel has do not reach a server, and the token that it was given does not come back."""
    monkeypatch.setenv("OPENAI_KEY_OF_SOMEBODY", "sk-very-secret")
    wb = bench(call("environment"), "Done.", mcp=files(tmp_path, env={"SERVER_TOKEN": TOKEN}))
    wb.ask("Go.").wait(WAIT_S)
    said = calls(wb)[0].said
    assert "OPENAI_KEY_OF_SOMEBODY" not in said
    assert '"PATH"' in said
    assert '"SERVER_TOKEN"' in said
    assert said.endswith("[secret]")
    stored = (wb.data_dir / "store.db").read_bytes() + (wb.data_dir / "store.db-wal").read_bytes()
    assert TOKEN.encode() not in stored


def test_two_workbenches_have_servers_of_their_own(bench: MakeBench, tmp_path: Path) -> None:
    """Each starts its own, and closing one leaves the other's."""
    first = bench(call("note", text="1"), "one", mcp=files(tmp_path))
    second = bench(
        call("note", text="2"), "two", call("note", text="3"), "three", mcp=files(tmp_path), data_dir="other"
    )
    runs = [first.ask("Go."), second.ask("Go.")]
    assert [run.wait(WAIT_S).response for run in runs] == ["one", "two"]
    assert len(alive(tmp_path)) == 2
    first.close()
    until(lambda: len(alive(tmp_path)) == 1)
    assert second.ask("Go.").wait(WAIT_S).response == "three"


def test_own_tool_keeps_its_name_beside_a_server_tool(bench: MakeBench, tmp_path: Path) -> None:
    """A tool that was registered keeps its name, whenever that was; the server's gets its server's name in front."""
    wb = bench(call("note", text="1"), "one", call("note", text="2") + call("files_note", text="3"), "two",
               mcp=files(tmp_path))  # fmt: skip
    assert wb.ask("Go.").wait(WAIT_S).response == "one"

    @wb.tool
    async def note(ctx: af.ToolContext, text: str) -> str:
        """Note it in the head."""
        return f"in the head: {text}"

    assert wb.ask("Go.").wait(WAIT_S).response == "two"
    assert [one.said.split(" (")[0] for one in calls(wb)] == ["noted 1", "in the head: 2", "noted 3"]


def test_disabled_server_is_ignored(bench: MakeBench, tmp_path: Path) -> None:
    """It is not started, and that it is there is told."""
    wb = bench("Done.", mcp=files(tmp_path, disabled=True))
    assert wb.ask("Go.").wait(WAIT_S).response == "Done."
    assert pids(tmp_path) == []
    assert "disabled" in wb._card().plain()


def test_the_card_tells_servers_and_their_tools(bench: MakeBench, tmp_path: Path) -> None:
    """Before the first run nothing is known of a server; then its tools with what they need, in every face."""
    wb = bench("Done.", mcp=files(tmp_path, permission={"echo": "auto"}))
    assert "not started" in wb._card().plain()
    wb.ask("Go.").wait(WAIT_S)
    assert "8 tools, running" in wb._card().plain()
    page = wb._repr_html_()
    assert "Tools of MCP servers" in page
    assert "<code>echo</code></td><td>auto" in page
    assert "<code>note</code></td><td>confirm" in page
