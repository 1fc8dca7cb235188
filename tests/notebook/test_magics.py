"""`%%ask` and `%af` in a shell of IPython, and in a real kernel."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from jupyter_client.manager import start_new_kernel
from support.chat_endpoint import Answer, ChatServer
from support.replies import report
from traitlets.config import Config

import artifactflow_nb as af
from artifactflow_nb.engine.flow_registry import BUILT_IN_FLOWS
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.notebook.magics import COMMANDS, MagicHelp
from artifactflow_nb.plugins import MAGICS


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """A shell with the extension loaded; its workbenches are closed."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()  # another test may have left one
    shell = InteractiveShell.instance(config=config)
    shell.run_line_magic("load_ext", "artifactflow_nb")
    yield shell
    for value in list(shell.user_ns.values()):
        if isinstance(value, af.Workbench):
            value.close()
    InteractiveShell.clear_instance()


@pytest.fixture
def wb(shell: InteractiveShell, tmp_path: Path) -> af.Workbench:
    """A workbench with three scripted replies in the variable `wb`."""
    turns = [report("A report."), "It is found.", "Again."]
    workbench = af.Workbench(
        model=ScriptedModel(turns), data_dir=tmp_path / "data", approvals={"create_artifact": "ask"}, interactive=False
    )
    shell.user_ns["wb"] = workbench
    return workbench


def cell_error(shell: InteractiveShell, capsys: pytest.CaptureFixture[str], cell: str) -> str:
    """The error message of a cell."""
    assert not shell.run_cell(cell).success
    printed = capsys.readouterr()
    assert "Traceback" not in printed.out + printed.err
    return (printed.err or printed.out).strip()


def run_cell(shell: InteractiveShell, cell: str) -> Any:
    done = shell.run_cell(cell)
    done.raise_error()
    return done.result


def completions(shell: InteractiveShell, line: str) -> list[str]:
    with provisionalcompleter():
        return [
            completion.text for completion in shell.Completer.completions(line, len(line.split("\n", maxsplit=1)[0]))
        ]


def test_cell_asks_and_binds_its_run(shell: InteractiveShell, wb: af.Workbench, capsys: Any) -> None:
    """The text of the cell is not changed, braces and dollars included; the run is displayed."""
    shell.user_ns["x"] = "not this"
    run_cell(shell, "%%ask\nWhat is {x} and $x;")
    run = shell.user_ns["run"]
    assert run.question == "What is {x} and $x;"
    assert "Run: What is {x} and $x;" in capsys.readouterr().out
    assert run.wait(10).status == "waiting"
    run_cell(shell, "%%ask mine --budget 50_000 --flow research --model scripted\nAnd now?")
    mine = shell.user_ns["mine"]
    assert mine.question == "And now?"
    settings = json.loads(wb.query("SELECT settings_json FROM main.runs ORDER BY rowid DESC").iloc[0, 0])
    assert settings["budget"] == {"tokens": 50_000, "when_spent": "stop"}
    assert settings["model"] == "scripted"
    mine.wait(10)


def test_cell_overwrites_no_name_of_the_person(shell: InteractiveShell, tmp_path: Path, capsys: Any) -> None:
    """The default name is unset or has an earlier run of the magic; a name with another value is an error."""
    shell.user_ns["wb"] = af.Workbench(model=ScriptedModel(["1.", "2.", "3."]), data_dir=tmp_path / "data")
    shell.user_ns |= {"run": "mine", "df": [1]}
    run_cell(shell, "%%ask\nOne?")
    assert shell.user_ns["run"] == "mine"
    assert "run is a variable of yours, so the run is bound to run2." in capsys.readouterr().out
    shell.user_ns["run2"].wait(10)
    run_cell(shell, "%%ask\nTwo?")
    assert shell.user_ns["run2"].question == "Two?"
    assert "run3" not in shell.user_ns
    error = cell_error(shell, capsys, "%%ask df\nThree?")
    assert "df is a variable of yours (list) and is not replaced. Choose another name." in error
    assert shell.user_ns["df"] == [1]
    shell.user_ns["run2"].wait(10)


def test_cell_continues_a_conversation(shell: InteractiveShell, tmp_path: Path, capsys: Any) -> None:
    """The conversation is an id, a variable, or `continue` for the newest; otherwise a new conversation starts."""
    shell.user_ns["wb"] = af.Workbench(model=ScriptedModel(["1.", "2.", "3.", "4."]), data_dir=tmp_path / "data")
    assert "no conversation to continue yet" in cell_error(shell, capsys, "%%ask --conversation continue\nGo on.")
    run_cell(shell, "%%ask one\nOne?")
    first = shell.user_ns["one"].wait(10)
    run_cell(shell, "%%ask two --conversation continue\nTwo?")
    two = shell.user_ns["two"].wait(10)
    run_cell(shell, "%%ask three --conversation {one.conversation_id}\nThree?")
    three = shell.user_ns["three"].wait(10)
    assert {first.conversation_id} == {two.conversation_id, three.conversation_id}
    run_cell(shell, "%%ask four\nFour?")
    assert shell.user_ns["four"].wait(10).conversation_id != first.conversation_id


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("%%ask --flwo x\nq", "unrecognized arguments: --flwo. Known: --flow, --model, --budget, --conversation"),
        ("%%ask one two\nq", "unrecognized arguments: two. Known: --flow"),
        ("%%ask --budget\nq", "argument --budget: expected one argument. Known:"),
        ("%%ask --budget much\nq", "--budget is 'much'; it must be a number of tokens"),
        ("%%ask --budget 0\nq", "budget {'tokens': 0} is invalid: tokens"),
        ("%%ask 'one\nq", "No closing quotation. Known: --flow"),
        ("%%ask class\nq", "'class' is not a name for a variable"),
        ("%%ask wb\nq", "the run would be bound to wb, which is a workbench. Choose another name."),
        ("%%ask get_ipython\nq", "the run would be bound to get_ipython, which is IPython's own."),
        ("%%ask --flow nope\nq", "no flow 'nope'. Known: research"),
        ("%%ask --model nope\nq", "no model 'nope'. Known: scripted"),
        ("%%ask --model 'my model'\nq", "no model 'my model'. Known: scripted"),
        ('%%ask --budget="5"0\nq', "--budget is '\"5\"0'; it must be a number"),
        ("%%ask --conversation conv-x\nq", "no conversation 'conv-x'"),
        ("%%ask --conversation=\nq", "no conversation ''"),
        ("%af rnus", "There is no %af rnus. Did you mean runs? Known: runs, tree, artifacts, metrics, pending"),
        ("%af metrics run-x", "no run 'run-x'"),
        ("%af metrics", "There is no run to which this command applies."),
        ("%af cancel", "There is no run to which this command applies."),
        ("%af approve", "There is no request to which this command applies."),
        ("%af deny req-x", "No request 'req-x' waits for a decision."),
        ("%af runs 5", "%af runs takes no arguments. Remove '5'."),
        ("%af tree conv-x", "no conversation 'conv-x'"),
        ("%af artifacts wb", "A Workbench is not a conversation. Pass a run, a conversation, or an id."),
    ],
)
def test_invalid_line_is_an_error_of_one_sentence(
    shell: InteractiveShell, wb: af.Workbench, capsys: Any, cell: str, message: str
) -> None:
    """The error says what is wrong and lists the known values, without a traceback."""
    lines = cell_error(shell, capsys, cell).splitlines()
    assert message in " ".join(lines)
    assert len(lines) <= len(" ".join(lines)) // 60 + 1  # wrapped at words


def test_newest_workbench_is_used(shell: InteractiveShell, tmp_path: Path, capsys: Any) -> None:
    """Without a workbench, `%af` is an error and `%%ask` creates a workbench."""
    assert "There is no workbench yet" in cell_error(shell, capsys, "%af runs")
    shell.user_ns["wb"] = "my own"
    run_cell(shell, "%%ask\nWhat is a pass statement?")
    assert "There was no workbench, so one was made: wb2 = Workbench(model='offline" in capsys.readouterr().out
    assert shell.user_ns["wb"] == "my own"
    shell.user_ns["run"].wait(60)
    questions = []
    for name in ("later", "wb"):
        shell.user_ns[name] = af.Workbench(model=ScriptedModel(["Yes."]), data_dir=tmp_path / name)
        run_cell(shell, "%%ask\nIs it you?")
        questions.append(len(shell.user_ns[name].runs()))
        shell.user_ns["run"].wait(10)
    assert questions == [1, 1]
    assert len(shell.user_ns["wb2"].runs()) == 1


def test_newest_of_several_workbenches_is_used_and_named(
    shell: InteractiveShell, wb: af.Workbench, tmp_path: Path, capsys: Any
) -> None:
    """The cell prints which workbench is used; `--wb` names another in both magics; closed workbenches do not count."""
    shell.user_ns["other"] = other = af.Workbench(model=ScriptedModel(["Here."]), data_dir=tmp_path / "other")
    shell.user_ns["again"] = other
    run_cell(shell, "%%ask\nWho?")
    assert "Of 2 workbenches, the newest is used: other. --wb can name wb." in capsys.readouterr().out
    shell.user_ns["run"].wait(10)
    run_cell(shell, "%%ask --wb wb mine\nWho?")
    shell.user_ns["mine"].wait(10)
    run_cell(shell, "%af runs")
    assert "the newest is used: other" in capsys.readouterr().out
    for line in ("%af --wb wb runs", "%af runs --wb wb"):
        assert [run.run_id for run in run_cell(shell, line)] == [shell.user_ns["mine"].run_id]
    assert "is meant" not in capsys.readouterr().out
    assert completions(shell, "%af --wb ") == completions(shell, "%%ask --wb ") == ["wb", "other"]
    assert completions(shell, "%af --wb wb metrics ") == [shell.user_ns["mine"].run_id]
    assert shell.user_ns["mine"].run_id not in completions(shell, "%af --wb nobody metrics ")
    message = cell_error(shell, capsys, "%af --wb nobody runs")
    assert "--wb is 'nobody', which is not a variable with a workbench. Workbenches: wb, other." in message
    assert "must follow" in cell_error(shell, capsys, "%af runs --wb")
    other.close()
    assert [run.run_id for run in run_cell(shell, "%af runs")] == [shell.user_ns["mine"].run_id]
    assert "is meant" not in capsys.readouterr().out


def test_created_workbench_is_bound_to_wb(shell: InteractiveShell, capsys: Any) -> None:
    """The cell prints that a workbench was created, and the data folder."""
    run_cell(shell, "%%ask\nWhat is a pass statement?")
    assert isinstance(shell.user_ns["wb"], af.Workbench)
    assert "wb = Workbench(model='offline-extractive (offline)', data_dir=" in capsys.readouterr().out
    shell.user_ns["run"].wait(60)


def test_requests_are_listed_and_decided(shell: InteractiveShell, wb: af.Workbench, capsys: Any) -> None:
    """A request is identified by its id, which is not needed for a single request."""
    first = wb.ask("Write.").wait(10)
    (request,) = run_cell(shell, "%af pending")
    assert request.run_id == first.run_id
    assert run_cell(shell, "%af approve").run_id == first.run_id
    assert first.wait(10).response == "It is found."
    assert run_cell(shell, "%af pending") == []
    assert run_cell(shell, "%af runs")[0].run_id == first.run_id


def test_deny_sends_a_reason(shell: InteractiveShell, wb: af.Workbench, capsys: Any) -> None:
    """The words after the id are the reason."""
    run = wb.ask("Write.").wait(10)
    request = run.pending[0]
    run_cell(shell, f"%af deny {request.id} not today, it's late")
    run.wait(10)
    assert "not today, it's late" in str(wb.tool_calls_df(run)["error_message"].iloc[0])


def test_several_open_requests_need_an_id(shell: InteractiveShell, tmp_path: Path, capsys: Any) -> None:
    """The error lists the ids of the requests."""
    shell.user_ns["wb"] = wb = af.Workbench(
        model=ScriptedModel([report("a", "a") + report("b", "b")]),
        data_dir=tmp_path / "data",
        approvals={"create_artifact": "ask"},
        interactive=False,
    )
    run = wb.ask("Write.").wait(10)
    line = cell_error(shell, capsys, "%af approve")
    assert line.startswith("UsageError: 2 requests match; pass the id of one request: req-")
    assert all(request.id in line for request in run.pending)


def test_metrics_and_cancel_select_a_run(shell: InteractiveShell, wb: af.Workbench, capsys: Any) -> None:
    """A run is selected by id or variable; the default is the newest run, or the only unfinished run."""
    run = wb.ask("Write.").wait(10)
    shell.user_ns["mine"] = run
    for named in ("", run.run_id, "mine"):
        assert run_cell(shell, f"%af metrics {named}").total_tokens > 0
    assert run_cell(shell, "%af cancel").status == "cancelled"
    assert "cancelled" in repr(run_cell(shell, "%af runs"))


def test_panel_commands_call_the_workbench(shell: InteractiveShell, tmp_path: Path) -> None:
    """`%af tree`, `artifacts`, `chat` and `timeline` show the panels of the workbench."""

    class Seen(af.Workbench):
        def tree(self, of: Any = None) -> str:
            return f"tree of {of}"

        def artifact_panel(self, of: Any = None) -> str:
            return f"panel of {of}"

        def chat(self, of: Any = None) -> str:
            return f"chat of {of}"

        def timeline(self, run: af.Run) -> str:
            return f"timeline of {run.run_id}"

    shell.user_ns["wb"] = wb = Seen(model=ScriptedModel(["One.", "Two."]), data_dir=tmp_path / "data")
    first, second = wb.ask("One?").wait(10), wb.ask("Two?").wait(10)
    panels = [run_cell(shell, f"%af {word}") for word in ("tree", "artifacts", "chat", "timeline")]
    assert panels == ["tree of None", "panel of None", "chat of None", f"timeline of {second.run_id}"]
    assert run_cell(shell, f"%af timeline {first.run_id}") == f"timeline of {first.run_id}"
    shell.user_ns["mine"] = first
    assert run_cell(shell, "%af tree mine") == f"tree of {first}"
    assert run_cell(shell, "%af artifacts conv-1") == "panel of conv-1"
    assert run_cell(shell, "%af chat conv-1") == "chat of conv-1"


def test_repro_reports_recorded_runs(shell: InteractiveShell, wb: af.Workbench, tmp_path: Path, capsys: Any) -> None:
    """`%af repro` reports the runs of the workbench, `%af repro all` the runs of the store."""
    run = wb.ask("Write.").wait(10)
    assert [(entry.run_id, entry.state) for entry in run_cell(shell, "%af repro").runs] == [(run.run_id, "live")]
    shell.user_ns["later"] = af.Workbench(model=ScriptedModel([]), data_dir=wb.data_dir)
    assert run_cell(shell, "%af repro").runs == ()
    assert [entry.run_id for entry in run_cell(shell, "%af repro all").runs] == [run.run_id]
    assert completions(shell, "%af repro ") == ["all"]
    assert "%af repro accepts only the argument all, not 'everything'." in cell_error(
        shell, capsys, "%af repro everything"
    )


def test_extension_loads_no_engine() -> None:
    """The engine and its libraries are loaded with the first question."""
    heavy = ["openai", "langgraph", "pandas", "pydantic", "ipywidgets", "anywidget", "aiosqlite", "markdown_it"]
    code = (
        "import sys; from IPython.core.interactiveshell import InteractiveShell; import artifactflow_nb as af; "
        "af.load_ipython_extension(InteractiveShell.instance()); "
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_help_lists_every_command(shell: InteractiveShell, capsys: Any) -> None:
    """`%af` and `%af help` list the commands, `%%ask?` the options with their meaning."""
    for line in ("%af", "%af help"):
        text = run_cell(shell, line)
        assert isinstance(text, MagicHelp)
        assert all(f"%af {word}" in repr(text) for word in COMMANDS)
        assert all(f"%af {word}" in text._repr_html_() for word in COMMANDS)
    shell.run_cell("%%ask?")
    output = capsys.readouterr().out
    assert "%%ask [--flow FLOW] [--model MODEL] [--budget TOKENS]" in output
    assert "--conversation ID  the conversation to continue" in output


def test_completion_offers_commands_options_and_ids(shell: InteractiveShell, wb: af.Workbench) -> None:
    """A line of Python and the text of a question get no completions."""
    run = wb.ask("Write.").wait(10)
    request = run.pending[0]
    assert completions(shell, "%af ") == [*COMMANDS, *MAGICS]
    assert completions(shell, "%af a") == ["artifacts", "approve", "answer"]
    assert completions(shell, "%af approve ") == [request.id]
    assert completions(shell, "%af deny req") == [request.id]
    assert completions(shell, "%af tree ") == completions(shell, "%af chat conv") == [run.conversation_id]
    assert completions(shell, "%af cancel ") == completions(shell, "%af metrics ") == [run.run_id]
    assert request.id not in completions(shell, f"%af deny {request.id} ")
    assert completions(shell, "%%ask --") == ["--flow", "--model", "--budget", "--conversation", "--wb"]
    assert completions(shell, "%%ask --flow ") == [*BUILT_IN_FLOWS, "compose", "judge"]
    assert "scripted" in completions(shell, "%%ask --model ")
    assert completions(shell, "%%ask --conversation ") == ["continue", run.conversation_id]
    assert "--flow" not in completions(shell, "ask --")
    assert "approve" not in completions(shell, "af a")


def test_completion_calls_no_endpoint(shell: InteractiveShell, tmp_path: Path, capsys: Any) -> None:
    """A closed workbench offers no ids; the names of models are known without the endpoint."""
    with ChatServer([Answer("Yes.")]) as server:
        shell.user_ns["wb"] = wb = af.Workbench(model="m", base_url=server.base_url, data_dir=tmp_path / "data")
        assert "m" in completions(shell, "%%ask --model ")
        wb.close()
        completions(shell, "%%ask --conversation ")
        assert server.requests == []
    assert "Traceback" not in capsys.readouterr().err


def test_unloading_removes_magics_and_completion(shell: InteractiveShell, capsys: Any) -> None:
    """Loading again adds both once."""
    shell.run_line_magic("unload_ext", "artifactflow_nb")
    assert "`%af` not found" in cell_error(shell, capsys, "%af runs")
    assert "runs" not in completions(shell, "%af ru")
    for _ in range(2):
        af.load_ipython_extension(shell)
    assert completions(shell, "%af ru") == ["runs"]
    assert len(shell.Completer.custom_matchers) == 1


@pytest.mark.usefixtures("fast_kernels")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_real_kernel_asks_completes_and_explains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is displayed in its cell, Tab offers commands and ids, Shift+Tab shows the help."""
    monkeypatch.setenv("AF_APPROVALS", "approve")
    manager, client = start_new_kernel(cwd=str(tmp_path), extra_arguments=["--log-level=ERROR"])
    outputs: list[dict[str, Any]] = []

    def execute(cell: str) -> str:
        def note(message: Any) -> None:
            if message["msg_type"] in {"display_data", "execute_result"}:
                outputs.append(message["content"]["data"])

        return str(client.execute_interactive(cell, timeout=60, output_hook=note)["content"]["status"])

    def complete(line: str) -> list[str]:
        return list(client.complete(line, len(line), reply=True, timeout=30)["content"]["matches"])

    try:
        assert execute("%load_ext artifactflow_nb") == "ok"
        assert complete("%af me") == ["metrics"]
        make = 'import artifactflow_nb as af\nwb = af.Workbench(model=af.ScriptedModel(["It is found."]))'
        assert execute(make) == "ok"
        assert execute("%%ask found\nWhere is it?") == "ok"
        assert outputs[-1]["text/plain"].splitlines()[0].endswith(": Where is it?")
        assert execute("(await found).response") == "ok"
        assert "<p>It is found.</p>" in outputs[-1]["text/html"]
        assert execute("%af runs") == "ok"
        assert "Where is it?" in outputs[-1]["text/html"]
        (run_id,) = complete("%af metrics run-")
        assert execute(f"%af metrics {run_id}") == "ok"
        assert "model call" in outputs[-1]["text/html"]
        assert complete("%%ask --mo") == ["--model"]
        assert "scripted" in complete("%%ask --model s")
        help_text = client.inspect("%%ask", 5, reply=True, timeout=30)["content"]["data"]["text/plain"]
        assert "--budget TOKENS" in help_text
        assert execute("%af nothing") == "error"
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
