"""Recording into a file: runs take their places, one process at a time, and nothing is lost that was there."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from recordings.generated import LONG, a_run, a_turn

from artifactflow_nb.errors import CassetteError
from artifactflow_nb.recordings.cassette import Cassette
from artifactflow_nb.recordings.cassette_file import CassetteFile, cassette_bytes
from artifactflow_nb.recordings.identity import run_key
from artifactflow_nb.recordings.secrets import Masker
from artifactflow_nb.recordings.values import RecordedRun
from artifactflow_nb.recordings.whole_file import OnlyWriter

SCRIPT = Path(__file__).with_name("recorder.py")


def record(path: Path, *recorded: RecordedRun) -> None:
    with CassetteFile(path) as file:
        for run in recorded:
            file.add(run)


def ids(path: Path) -> list[str]:
    return [head.run_id for head in Cassette.open(path).runs]


@contextmanager
def recorder(path: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, str(SCRIPT), str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        if process.poll() is None:
            process.communicate()


# --- places ----------------------------------------------------------------------------------------------------------


def test_a_run_recorded_again_takes_the_place_of_the_earlier_one(tmp_path: Path) -> None:
    """A notebook executed again changes the run that changed, and leaves the lines of the others to the byte."""
    path = tmp_path / "data" / "x.jsonl"
    record(path, a_run("1"), a_run("2", "And?", "msg-1"), a_run("3", "Else?"))
    before = path.read_bytes().split(b"\n")
    with CassetteFile(path) as file:
        file.skip(a_run("1"))
        file.add(a_run("b", "And?", "msg-1", response="Now.", turns=[a_turn()]))
    assert ids(path) == ["run-1", "run-b", "run-3"]
    after = path.read_bytes().split(b"\n")
    third = next(at for at, line in enumerate(before) if line.startswith(b'{"run": 3'))
    assert after[-(len(before) - third) : -2] == before[third:-2]


def test_what_is_asked_twice_is_recorded_twice(tmp_path: Path) -> None:
    """The first and the second time are told apart by counting, replayed ones included."""
    path = tmp_path / "x.jsonl"
    record(path, a_run("1"), a_run("2"))
    assert ids(path) == ["run-1", "run-2"]
    with CassetteFile(path) as file:
        file.skip(a_run("1"))
        file.add(a_run("b"))
    assert ids(path) == ["run-1", "run-b"]
    record(path, a_run("c"))
    assert ids(path) == ["run-c", "run-b"]


def test_runs_at_the_same_time_are_told_apart_by_when_they_were_asked(tmp_path: Path) -> None:
    """The second of two equal questions may end first; noting a run twice counts it once."""
    path = tmp_path / "x.jsonl"
    record(path, a_run("1"), a_run("2"))
    with CassetteFile(path) as file:
        for run in (a_run("a"), a_run("b"), a_run("a")):
            file.skip(run)
        file.add(a_run("b"))
        assert ids(path) == ["run-1", "run-b"]
        file.add(a_run("a"))
    assert ids(path) == ["run-a", "run-b"]


def test_a_masked_question_has_the_key_of_its_recording(tmp_path: Path) -> None:
    """What is asked with a secret in it is found under what it is recorded as."""
    path, masker = tmp_path / "x.jsonl", Masker(["a-secret-of-mine"])
    run = a_run("1", "Who knows a-secret-of-mine?")
    with CassetteFile(path, masker) as file:
        file.add(run)
    found = Cassette.open(path).find(run_key(masker.ask(run)))
    assert found is not None
    assert found.question == "Who knows [secret]?"


def test_a_run_that_goes_on_is_recorded_in_its_own_place(tmp_path: Path) -> None:
    """A run that waited and is added again with its end is there once, in this process and in a later one."""
    path = tmp_path / "x.jsonl"
    with CassetteFile(path) as file:
        file.add(a_run("1", status="waiting", response=None))
        file.add(a_run("2"))
        file.add(a_run("1", status="cancelled"))
        file.add(a_run("3"))
    record(path, a_run("2", status="failed"))
    assert [(head.run_id, head.status) for head in Cassette.open(path).runs] == [
        ("run-1", "cancelled"),
        ("run-2", "failed"),
        ("run-3", "completed"),
    ]


def test_a_whole_notebook_recorded_again_gives_the_same_file(tmp_path: Path) -> None:
    """The same runs under the same ids leave the file as it is; texts that nobody uses any more go."""
    path = tmp_path / "x.jsonl"
    recorded = [a_run("1"), a_run("2", "And?", "msg-1", response=f"Only here. {LONG}"), a_run("3")]
    record(path, *recorded)
    before = path.read_bytes()
    record(path, *recorded)
    assert path.read_bytes() == before == cassette_bytes(recorded)
    record(path, recorded[0], a_run("2", "And?", "msg-1"))
    assert b"Only here" not in path.read_bytes()


def test_a_later_process_continues_a_recorded_message(tmp_path: Path) -> None:
    """A run after a message that an earlier process recorded comes after that run."""
    path = tmp_path / "x.jsonl"
    record(path, a_run("1"))
    record(path, a_run("2", "And?", "msg-1"))
    together = cassette_bytes([a_run("1"), a_run("2", "And?", "msg-1")])
    assert path.read_bytes() == together


# --- what is there stays ---------------------------------------------------------------------------------------------


def test_a_file_that_changed_meanwhile_is_read_again(tmp_path: Path) -> None:
    """Runs that came into the file from elsewhere stay; what cannot be read any more is not overwritten."""
    path = tmp_path / "x.jsonl"
    with CassetteFile(path) as file:
        file.add(a_run("1"))
        path.write_bytes(cassette_bytes([a_run("1"), a_run("2", "Else?")]))
        file.add(a_run("3", "Third?"))
        assert ids(path) == ["run-1", "run-2", "run-3"]
        path.write_bytes(b"<<<<<<< HEAD\n")
        with pytest.raises(CassetteError, match="conflict"):
            file.add(a_run("4", "Fourth?"))
        assert path.read_bytes() == b"<<<<<<< HEAD\n"


def test_a_run_that_cannot_be_written_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    """Its id and what of it cannot be written are told, and the next run is recorded."""
    path = tmp_path / "x.jsonl"
    with CassetteFile(path) as file:
        file.add(a_run("1"))
        before = path.read_bytes()
        with pytest.raises(CassetteError, match=r"run-2 cannot be recorded into .*: settings holds nan"):
            file.add(a_run("2", "Else?", settings={"x": float("nan")}))
        assert path.read_bytes() == before
        file.add(a_run("3", "Else?"))
    assert ids(path) == ["run-1", "run-3"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.jsonl"]


def test_a_link_stays_one_and_a_mode_too(tmp_path: Path) -> None:
    """Recording through a link changes the file that it leads to, and nobody gets more rights."""
    real, link = tmp_path / "real" / "x.jsonl", tmp_path / "x.jsonl"
    record(real, a_run("1"))
    real.chmod(0o640)
    link.symlink_to(real)
    record(link, a_run("2"))
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert ids(real) == ["run-2"]


@pytest.mark.parametrize("name", ["", "file/x.jsonl", "x\0.jsonl", "n" * 300])
def test_a_path_that_cannot_be_written_is_told(tmp_path: Path, name: str) -> None:
    """A folder, a file for a folder, and names that no disk takes are errors of the cassette."""
    (tmp_path / "file").write_text("Not a folder.")
    with pytest.raises(CassetteError, match="cannot be"), CassetteFile(tmp_path / name) as file:
        file.add(a_run())


# --- one process at a time -------------------------------------------------------------------------------------------


def test_a_second_process_is_told_who_records(tmp_path: Path) -> None:
    """It is refused with the pid of the first and what to do; when that ends, the file is free."""
    path = tmp_path / "x.jsonl"
    record(path, a_run("1"))
    before = path.read_bytes()
    with recorder(path) as process:
        with pytest.raises(CassetteError, match=rf"The process {process.pid} records into .*x\.jsonl already.*Wait"):
            CassetteFile(path)
        assert path.read_bytes() == before
        assert ids(path) == ["run-1"]
    record(path, a_run("2", "Else?"))
    assert ids(path) == ["run-1", "run-2"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.jsonl"]


def test_a_killed_process_leaves_the_file_free(tmp_path: Path) -> None:
    """What it leaves behind keeps nobody from recording."""
    path = tmp_path / "x.jsonl"
    with recorder(path) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    record(path, a_run("1"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.jsonl"]


def test_a_cell_that_makes_a_workbench_is_executed_again(tmp_path: Path) -> None:
    """Several of one process record into a file, through a link too, and lose nothing; the last keeps others out."""
    path = tmp_path / "x.jsonl"
    (tmp_path / "link.jsonl").symlink_to(path)
    first, second = CassetteFile(path), CassetteFile(tmp_path / "link.jsonl")
    runs = [a_run(str(number), question=f"Question {number}?") for number in range(12)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda pair: pair[0].add(pair[1]), zip([first, second] * 6, runs, strict=True)))
    first.close()
    with pytest.raises(CassetteError, match="was closed"):
        first.add(a_run("again"))
    second.add(a_run("more", question="More?"))
    other = subprocess.run(
        [sys.executable, str(SCRIPT), str(path)], input="", capture_output=True, text=True, check=False
    )
    assert "records into" in other.stderr
    second.close()
    assert len(Cassette.open(path).runs) == 13
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["link.jsonl", "x.jsonl"]


def test_what_another_process_took_meanwhile_is_left_to_it(tmp_path: Path) -> None:
    """Whoever shared the lock of one that let it go finds another process there, and writes nothing."""
    path = tmp_path / "x.jsonl"
    first, second = CassetteFile(path), CassetteFile(path)
    first.close()
    with recorder(path), pytest.raises(CassetteError, match=r"The process \d+ records into"):
        second.add(a_run())
    second.add(a_run())
    second.close()
    assert len(Cassette.open(path).runs) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="there are no forks")
def test_a_forked_process_records_nothing(tmp_path: Path) -> None:
    """What a child inherits is not its own to write into."""
    with CassetteFile(tmp_path / "x.jsonl") as file:
        pid = os.fork()
        if pid == 0:
            try:
                file.add(a_run())
            except CassetteError:
                file.close()
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        with pytest.raises(CassetteError, match="This process"):  # nor does it let go of its parent's lock
            OnlyWriter(tmp_path / "x.jsonl")
    assert not (tmp_path / "x.jsonl").exists()
