"""A store that came with a folder gives no grants and continues nothing until the person allows it once."""

import shutil
from pathlib import Path

import pytest
from support.replies import call

import artifactflow_nb as af
from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.engine.folder_file import SETTINGS_FILE, STORE_FILE, TRUST_VARIABLE, permission_path
from artifactflow_nb.errors import UsageError
from artifactflow_nb.server.lifecycle import open_lifecycle

NOTE = call("create_artifact", id="note", title="Note", content="Text")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An account without permissions."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv(TRUST_VARIABLE)
    return tmp_path


def open_store(folder: Path, *replies: str) -> af.Workbench:
    approvals = {"create_artifact": "ask"}
    return af.Workbench(model=af.ScriptedModel(list(replies)), data_dir=folder, approvals=approvals, interactive=False)


@pytest.fixture
def foreign(here: Path) -> tuple[Path, str]:
    """A copy of a store with a standing decision, and the id of a run that waits in it."""
    with open_store(here / "made", NOTE, "Done.", NOTE) as wb:
        first = wb.ask("Write.").wait()
        first.approve(scope="conversation").wait()
        waiting = wb.ask("Write once more.").wait()
        assert waiting.status == "waiting"
    shutil.copytree(here / "made", here / "copy")
    return here / "copy", waiting.run_id


def test_own_store_continues(foreign: tuple[Path, str], here: Path) -> None:
    with open_store(here / "made", "Done.") as wb:
        assert wb.run(foreign[1]).approve().wait().status == "completed"


def test_foreign_store_is_read_and_continues_nothing_until_it_is_allowed(foreign: tuple[Path, str]) -> None:
    """The refusal is a sentence with the call that allows the store; nothing is decided before."""
    folder, run_id = foreign
    with open_store(folder, "Done.") as wb:
        run = wb.run(run_id)
        assert len(wb.runs_df()) == 2
        with pytest.raises(UsageError, match=r"did not make the store .*af\.trust_folder\('.*copy'\)"):
            run.approve()
        assert [request.id for request in wb.pending()] == [run.pending[0].id]
        assert "continue runs" in repr(af.trust_folder(folder))
        assert run.approve().wait().status == "completed"


def test_standing_decisions_of_a_foreign_store_do_not_count(foreign: tuple[Path, str]) -> None:
    """A new run asks; decisions on the new run count, and after the permission the earlier decisions count as well."""
    folder, _ = foreign
    with open_store(folder, NOTE, "Done.", NOTE, "Done.") as wb:
        conversation = wb.runs_df(columns="all")["conversation_id"].iloc[0]
        first = wb.run(wb.runs_df().query("status == 'completed'")["run_id"].iloc[0])
        run = wb.ask("And again.", conversation_id=conversation, parent_message_id=first.message_id).wait()
        assert run.status == "waiting"
        assert run.approve().wait().status == "completed"
        af.trust_folder(folder)
        assert wb.ask("Another.", conversation_id=conversation).wait().status == "completed"


async def test_server_continues_no_run_of_a_foreign_store(foreign: tuple[Path, str]) -> None:
    folder, run_id = foreign
    lifecycle = open_lifecycle(data_dir=folder, model=af.ScriptedModel([]))
    try:
        assert await lifecycle.continue_abandoned() == []
        (request,) = await lifecycle.call(lifecycle.thread.engine.approvals.open_requests(run_id))
        with pytest.raises(UsageError, match="did not make the store"):
            await lifecycle.call(lifecycle.thread.engine.controller.decide(request.id, Decision(True)))
    finally:
        lifecycle.close()


@pytest.mark.parametrize("name", ["", "store.db", "skills"])
def test_link_out_of_the_folder_is_refused(here: Path, name: str) -> None:
    """Nothing is written through a link to another place, neither the data folder as a link nor a link inside."""
    target, project = here / "target", here / "project"
    target.mkdir()
    link = project / ".artifactflow" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(target / name)
    with pytest.raises(UsageError, match=r"is a link that leads out of its folder, to .*target"):
        af.Workbench(data_dir=project / ".artifactflow", interactive=False)
    assert list(target.iterdir()) == []


def test_permission_of_the_settings_file_covers_the_programs_that_it_starts(here: Path) -> None:
    """A changed program needs a new permission, as a changed file does."""
    (here / "server.py").write_text("print('a')\n")
    (here / SETTINGS_FILE).write_text('[mcp.files]\ncommand = "python"\nargs = ["server.py", "--root=/"]\n')
    assert set(af.trust_folder().files) == {SETTINGS_FILE, "server.py"}
    assert list(af.Settings().mcp) == ["files"]
    (here / "server.py").write_text("print('b')\n")
    with pytest.raises(UsageError, match="it was changed since you allowed it"):
        af.Settings()


def test_permissions_of_folders_that_are_gone_are_dropped(here: Path) -> None:
    open_store(here / "gone").close()
    shutil.rmtree(here / "gone")
    open_store(here / "new").close()
    assert not permission_path(here / "gone" / STORE_FILE).exists()
    assert permission_path(here / "new" / STORE_FILE).exists()
