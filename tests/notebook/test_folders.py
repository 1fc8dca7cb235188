"""Paths belong to the working directory at the time of the call, whatever `os.chdir` does afterwards."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from IPython.core.formatters import PlainTextFormatter

import artifactflow_nb as af
from artifactflow_nb.core.local_files import shown_path
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.errors import UsageError
from artifactflow_nb.tools.mcp.config import read_servers
from artifactflow_nb.tools.mcp.servers import McpServerPool


@pytest.fixture
def move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path]:
    """Start in the folder `first`; the function changes to an empty folder `second` and returns the folder."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    monkeypatch.chdir(first)

    def change() -> Path:
        os.chdir(second)
        return second

    return change


def test_workbench_keeps_its_store_prompts_and_cassette(move: Callable[[], Path]) -> None:
    """Frames, answers, sources, prompt files, the cassette, seals and exports belong to the first folder."""
    first = Path.cwd()
    Path("sources").mkdir()
    Path("sources/herons.md").write_text("# Herons\n\nHerons wait for fish at the shore.\n", encoding="utf-8")
    Path("prompts").mkdir()
    model = af.ScriptedModel(lambda _: "They wait at the shore.")
    with af.Workbench(model=model, interactive=False, prompts="prompts", record="runs.jsonl") as wb:
        wb.sources.add("sources")
        run = wb.ask("Where do herons wait?").wait()
        (first / "prompts" / "lead_agent.md").write_text("You know herons.\n", encoding="utf-8")
        second = move()
        assert wb.data_dir == first / ".artifactflow"
        assert run.response == "They wait at the shore."
        assert wb.ask("What do herons eat?").wait().status == "completed"
        assert (len(wb.runs_df()), len(wb.sources.search_df("herons")), len(wb.conversations())) == (2, 1, 2)
        assert (first / "runs.jsonl").read_bytes().count(b'{"recording":') == 2
        assert list(second.iterdir()) == []
        sealed = run.seal("run.afrun")
        assert sealed == second / "run.afrun"
        os.chdir(first)
        with af.open_run(os.path.relpath(sealed)) as opened:
            os.chdir(second)
            assert opened.path == sealed or opened.path.samefile(sealed)
            assert opened.to_notebook("report.ipynb") == second / "report.ipynb"
        assert wb.conversation(run).to_markdown("answer.md") == second / "answer.md"
        assert wb.store.backup("copy.db") == second / "copy.db"
    assert not (second / ".artifactflow").exists()


def rows_of(value: Any, *names: str) -> list[str]:
    """The texts of these rows of the card that a cell shows."""
    lines = (line.split(maxsplit=1) for line in PlainTextFormatter()(value).splitlines())
    return [line[1].split(" (")[0] for line in lines if line and line[0] in names]


def test_outputs_show_paths_as_seen_from_the_working_directory(move: Callable[[], Path]) -> None:
    """A notebook saves the same outputs in whatever folder; a path far away is shown whole."""
    with af.Workbench(model=af.ScriptedModel(["Yes."]), interactive=False, record="runs.jsonl") as wb:
        sealed = wb.ask("Is it?").wait().seal("run.afrun")
        assert repr(wb) == "Workbench(model='scripted (scripted)', data_dir='.artifactflow')"
        assert rows_of(wb, "data") == [".artifactflow"]
        assert rows_of(wb.repro(), "cassette") == ["runs.jsonl"]
    with af.Workbench(replay="runs.jsonl", interactive=False) as wb:
        move()
        with pytest.raises(af.errors.CassetteMiss, match=r"asked, and \.\./first/runs\.jsonl has no"):
            wb.ask("And this?")
        assert Path(shown_path(wb.data_dir)).is_absolute()
    with af.open_run(sealed) as run:
        assert rows_of(run, "file") == ["../first/run.afrun"]
        assert "path='../first/run.afrun'" in repr(run)
    sealed.write_bytes(b"changed")
    with pytest.raises(af.errors.CassetteError, match=r"The sealed file \.\./first/run\.afrun cannot be used"):
        af.open_run(sealed)


def test_prompt_file_that_is_read_later_is_found(move: Callable[[], Path]) -> None:
    Path("prompts").mkdir()
    Path("prompts/critic.md").write_text("You name the weakest sentence.\n", encoding="utf-8")
    model = af.ScriptedModel(lambda _: "Done.")
    with af.Workbench(model=model, interactive=False, prompts="prompts") as wb:
        move()
        wb.register_agent(af.AgentConfig(name="critic", description="Judges."))
        assert wb.ask("Anything?").wait().status == "completed"


def test_replay_plays_the_cassette_after_a_change_of_folder(move: Callable[[], Path]) -> None:
    with af.Workbench(model=af.ScriptedModel(["Yes."]), interactive=False, record="runs.jsonl") as wb:
        wb.ask("Is it?").wait()
    with af.Workbench(replay="runs.jsonl", interactive=False) as wb:
        move()
        assert wb.ask("Is it?").wait().response == "Yes."


def test_server_program_starts_in_the_folder_of_its_configuration(move: Callable[[], Path]) -> None:
    first = Path.cwd()
    servers = read_servers({"files": {"command": sys.executable, "args": ["server.py"]}, "web": {"url": "http://a"}})
    pool = McpServerPool(servers)
    move()
    folders = [managed.server.cwd for managed in pool._servers.values()]
    assert folders == [first, None]


@pytest.mark.parametrize("name", ["data_dir", "record", "replay", "graph_config"])
def test_paths_of_settings_are_absolute(move: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    first = Path.cwd()
    monkeypatch.setenv(f"AF_{name.upper()}", "here/x")
    settings = Settings.load()
    move()
    assert getattr(settings, name) == first / "here" / "x"


def test_path_of_an_unknown_user_is_refused() -> None:
    with pytest.raises(UsageError, match=r"data_dir .*~nobody-of-this-name"):
        af.Workbench(data_dir="~nobody-of-this-name/x", interactive=False)
    with pytest.raises(UsageError, match=r"~nobody-of-this-name.*Pass an absolute path"):
        af.open_run("~nobody-of-this-name/x.afrun")
