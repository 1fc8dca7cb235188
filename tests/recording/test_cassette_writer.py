"""Recording into a file: one process at a time, atomically, without losing other recordings."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from support.sample_recordings import recording, with_row

import artifactflow_nb as af
from artifactflow_nb.errors import CassetteError
from artifactflow_nb.recording.cassette import Cassette, CassetteWriter, Head, one_recording
from artifactflow_nb.recording.rows import RunRows
from artifactflow_nb.store.locks import lock

SCRIPT = Path(__file__).parents[1] / "support" / "cassette_recorder.py"


def record(path: Path, *recordings: tuple[Head, RunRows]) -> None:
    with closing(CassetteWriter(path)) as writer:
        for head, rows in recordings:
            writer.put(head, rows)


def questions(path: Path) -> list[str]:
    return [head.question for head in Cassette.open(path).heads]


@contextmanager
def recorder(path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that records into the cassette."""
    command = [sys.executable, str(SCRIPT), str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        if process.poll() is None:
            process.communicate()


# --- replacing -------------------------------------------------------------------------------------------------------


def test_recording_replaces_a_recording_of_the_same_question_only(tmp_path: Path) -> None:
    path = tmp_path / "data" / "x.jsonl"
    record(path, recording("1", "One?"), recording("2", "Two?"))
    before = Cassette.open(path)
    record(path, recording("other", "One?"))
    after = Cassette.open(path)
    assert sorted(head.run_id[-5:] for head in after.heads) == sorted(["other", before.heads[1].run_id[-5:]])
    assert after.lines(before.heads[1]) == before.lines(before.heads[1])


def test_recording_replaces_an_earlier_state_of_the_same_run(tmp_path: Path) -> None:
    """A run that waited is recorded again with its end, also by a later process."""
    path = tmp_path / "x.jsonl"
    head, rows = recording("1", "One?")
    waiting = with_row(with_row(rows, "runs", status="waiting"), "messages", status="waiting")
    record(path, (head, waiting), recording("2", "Two?"))
    assert Cassette.open(path).rows(head).run["status"] == "waiting"
    record(path, (Head("another key", *[getattr(head, name) for name in head.__slots__[1:]]), rows))
    (found,) = [entry for entry in Cassette.open(path).heads if entry.run_id == head.run_id]
    assert found.key == "another key"
    assert Cassette.open(path).rows(found).run["status"] == "completed"


def test_recording_again_gives_the_same_file_and_drops_unused_texts(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    head, rows = recording("1", "One?")
    with_text = with_row(rows, "messages", response="Only here. " * 40)
    record(path, (head, with_text), recording("2", "Two?"))
    before = path.read_bytes()
    record(path, (head, with_text), recording("2", "Two?"))
    assert path.read_bytes() == before
    assert b"Only here" in before
    record(path, (head, rows))
    assert b"Only here" not in path.read_bytes()


def test_file_that_changed_meanwhile_is_read_again(tmp_path: Path) -> None:
    """Recordings of other writers stay in the file; an unreadable file is not overwritten."""
    path = tmp_path / "x.jsonl"
    with closing(CassetteWriter(path)) as writer:
        writer.put(*recording("1", "One?"))
        path.write_bytes(one_recording(*recording("2", "Two?")))
        writer.put(*recording("3", "Three?"))
        assert sorted(questions(path)) == ["Three?", "Two?"]
        path.write_bytes(b"<<<<<<< HEAD\n")
        with pytest.raises(CassetteError, match="is not a cassette"):
            writer.put(*recording("4", "Four?"))
        assert path.read_bytes() == b"<<<<<<< HEAD\n"


# --- places ----------------------------------------------------------------------------------------------------------


def test_link_stays_a_link_and_rights_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real" / "x.jsonl", tmp_path / "x.jsonl"
    record(real, recording("1", "One?"))
    real.chmod(0o640)
    link.symlink_to(real)
    record(link, recording("2", "Two?"))
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert sorted(questions(real)) == ["One?", "Two?"]


@pytest.mark.parametrize("name", ["", "file/x.jsonl", "x\0.jsonl", "n" * 300, "\ud800.jsonl", "loop/x.jsonl"])
def test_path_that_cannot_be_written_is_an_error_of_the_cassette(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("Not a folder.")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(CassetteError, match=r"cannot be (read|written)"):
        record(tmp_path / name, recording())


def test_file_that_is_protected_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says that the file is protected; the file and its folder stay unchanged."""
    path = tmp_path / "x.jsonl"
    record(path, recording("1", "One?"))
    before = path.read_bytes()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with closing(CassetteWriter(path)) as writer:
        monkeypatch.setattr("artifactflow_nb.recording.files.os.fsync", refuse)
        with pytest.raises(CassetteError, match=r"x\.jsonl cannot be written: Permission denied\. Choose another path"):
            writer.put(*recording("2", "Two?"))
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.jsonl"]


# --- one process at a time -------------------------------------------------------------------------------------------


def test_second_process_is_refused_with_the_number_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    record(path, recording("1", "One?"))
    before = path.read_bytes()
    with recorder(path) as process:
        with pytest.raises(CassetteError, match=rf"The process {process.pid} records into .*x\.jsonl already.*Wait"):
            CassetteWriter(path)
        assert path.read_bytes() == before
        assert questions(path) == ["One?"]
    record(path, recording("2", "Two?"))
    assert sorted(questions(path)) == ["One?", "Two?"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.jsonl"]


def test_killed_process_leaves_the_file_free(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    with recorder(path) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    record(path, recording())
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.jsonl"]


def test_unusable_file_leaves_no_lock_behind(tmp_path: Path) -> None:
    """Any process can delete the file and record again."""
    path = tmp_path / "x.jsonl"
    path.write_text("# Notes\n")
    with pytest.raises(CassetteError, match="is not a cassette"):
        CassetteWriter(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.jsonl"]


def test_two_workbenches_of_one_process_record_into_one_file(tmp_path: Path) -> None:
    """A cell that is executed twice makes two workbenches; nothing is lost, and the lock stays until both end."""
    path = tmp_path / "x.jsonl"
    (tmp_path / "link.jsonl").symlink_to(path)
    first, second = CassetteWriter(path), CassetteWriter(tmp_path / "link.jsonl")
    recordings = [recording(str(number), f"Question {number}?") for number in range(12)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda pair: pair[0].put(*pair[1]), zip([first, second] * 6, recordings, strict=True)))
    first.close()
    with pytest.raises(CassetteError, match="was closed"):
        first.put(*recording("again", "Again?"))
    second.put(*recording("more", "More?"))
    other = subprocess.run(
        [sys.executable, str(SCRIPT), str(path)], input="", capture_output=True, text=True, check=False
    )
    assert "records into" in other.stderr
    second.close()
    assert len(questions(path)) == 13
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["link.jsonl", "x.jsonl"]


def test_writer_that_lost_the_lock_to_another_process_writes_nothing(tmp_path: Path) -> None:
    """The lock was shared with another writer and released when that writer was closed."""
    path = tmp_path / "x.jsonl"
    first, second = CassetteWriter(path), CassetteWriter(path)
    first.close()
    with recorder(path), pytest.raises(CassetteError, match=r"The process \d+ records into"):
        second.put(*recording())
    second.put(*recording())
    second.close()
    assert len(questions(path)) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="there are no forks")
def test_forked_process_records_nothing(tmp_path: Path) -> None:
    """The forked process does not release the lock of its parent either."""
    head, rows = recording()
    with closing(CassetteWriter(tmp_path / "x.jsonl")) as writer:
        pid = os.fork()
        if pid == 0:
            try:
                writer.put(head, rows)
            except CassetteError:
                writer.close()
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        assert lock(tmp_path / ".x.jsonl.lock") is None
    assert not (tmp_path / "x.jsonl").exists()


def test_accepting_an_edit_needs_no_lock(tmp_path: Path) -> None:
    """A workbench that records does not keep a person from accepting an edit in the same process."""
    path = tmp_path / "x.jsonl"
    with closing(CassetteWriter(path)) as writer:
        writer.put(*recording("1", "One?"))
        before = path.read_bytes()
        af.accept_cassette(path)
        assert path.read_bytes() == before
        writer.put(*recording("2", "Two?"))
    assert sorted(questions(path)) == ["One?", "Two?"]


@pytest.mark.parametrize("n", range(8))
def test_run_that_has_just_ended_is_recorded_before_the_workbench_closes(tmp_path: Path, n: int) -> None:
    """The status in the store is `completed` before the cassette has the run; closing waits for the recording."""
    path = tmp_path / "c.jsonl"
    model = af.ScriptedModel(f"Answer {n}. " * 20)
    with af.Workbench(model=model, data_dir=tmp_path / "data", record=path, interactive=False) as wb:
        run = wb.ask("One?")
        while run.status != "completed":
            pass
    assert questions(path) == ["One?"]
