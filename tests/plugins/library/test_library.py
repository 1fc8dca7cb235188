"""`af.Library`: a folder, a bucket and a memory that several writers share."""

import json
import os
import pickle
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import artifactflow_nb as af

fsspec = pytest.importorskip("fsspec", reason="make test runs it in an environment with the library's packages")
OpenWorkbench = Callable[..., af.Workbench]


@pytest.fixture
def run(workbench: OpenWorkbench) -> af.Run:
    """A run with a tool call, whose answer names a ferry."""
    write = af.ToolCall("create_artifact", {"id": "note", "title": "Note", "content": "Nine."})
    wb = workbench([write, "The ferry leaves at nine."], approvals="approve", interactive=False)
    return wb.ask("When does the ferry leave?").wait()


@pytest.fixture(scope="module")
def bucket() -> Iterator[dict[str, object]]:
    """A server with the interface of S3 on loopback; the options of fsspec for it."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    where = {"endpoint_url": f"http://{host}:{port}", "key": "k", "secret": "s"}
    client = boto3.client(
        "s3",
        "us-east-1",
        endpoint_url=where["endpoint_url"],
        aws_access_key_id="k",
        aws_secret_access_key="s",  # noqa: S106 - of the test's server
    )
    client.create_bucket(Bucket="lab")
    client.close()
    yield where
    server.stop()


@pytest.mark.parametrize("place", ["folder", "bucket", "memory"])
def test_published_runs_are_found_queried_and_opened(
    place: str, run: af.Run, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A second library with the same address shows what the first one has published, whole."""
    options = request.getfixturevalue("bucket") if place == "bucket" else {}
    address = {"folder": str(tmp_path / "team"), "bucket": "s3://lab/research", "memory": "memory://lab"}[place]
    assert af.Library(address, by="Ada", **options).publish(run) == [run.run_id]

    team = af.Library(address, **options)
    runs = team.runs_df()
    assert runs[["run_id", "answer", "published_by"]].values.tolist() == [[run.run_id, run.response, "Ada"]]
    assert str(runs["started_at"].dtype) == "datetime64[us, UTC]"
    assert runs["started_at"][0].to_pydatetime() == run.started_at
    assert team.find("FERRY nine")["run_id"].tolist() == [run.run_id]
    assert team.find("ferry ten").empty
    counts = team.query("SELECT tool_name, r.started_at, count(*) AS n FROM tool_calls JOIN runs AS r USING (run_id)")
    assert counts["tool_name"].tolist() == ["create_artifact"]
    assert counts["n"].tolist() == [1]
    assert counts["started_at"][0].to_pydatetime() == run.started_at
    with team.open(run.run_id) as opened:
        assert (opened.response, opened.artifacts["note"].content) == (run.response, "Nine.")
    assert team.skipped == {}


def test_sealed_file_of_a_library_is_imported(run: af.Run, workbench: OpenWorkbench, tmp_path: Path) -> None:
    team = af.Library("memory://imported")
    team.publish(run.seal(tmp_path / "ferry.afrun"))
    own = workbench(data_dir=tmp_path / "own")
    assert own.store.import_run(team.file(run.run_id)).response == run.response


WRITER = """
import sys
from pathlib import Path
import artifactflow_nb as af

folder, name = Path(sys.argv[1]), sys.argv[2]
team = af.Library(folder / "team", by=name)
with af.Workbench(model=af.ScriptedModel(lambda _request: name), data_dir=folder / name, interactive=False) as wb:
    for number in range(5):
        team.publish(wb.ask(f"Question {number}").wait())
"""


def test_two_processes_publish_into_one_folder(tmp_path: Path) -> None:
    """Nothing is lost, and each writer has one index."""
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen([*command, name]) for name in ("Ada", "Ben")]
    team = af.Library(tmp_path / "team")
    while any(writer.poll() is None for writer in writers):
        team.runs_df()  # a reader meets no half-written file
    assert [writer.wait() for writer in writers] == [0, 0]
    assert sorted(team.runs_df()["published_by"]) == ["Ada"] * 5 + ["Ben"] * 5
    assert len(list((tmp_path / "team" / "index").iterdir())) == 2
    assert team.skipped == {}


def test_copies_of_a_library_are_writers_of_their_own(run: af.Run, tmp_path: Path) -> None:
    """A pickled copy, a forked process and a thread publish beside the original; no publication replaces another."""
    team = af.Library(tmp_path / "team", by="Ada")
    team.publish(run)
    sealed = run.seal(tmp_path / "ferry.afrun")
    pickle.loads(pickle.dumps(team)).publish(sealed)  # noqa: S301 - of this test
    thread = threading.Thread(target=team.publish, args=(sealed,))
    thread.start()
    thread.join()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork of a process with threads
        child = os.fork()
    if child == 0:
        status = 1
        try:
            team.publish(sealed)
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    team.publish(sealed)
    indexes = [json.loads(path.read_text()) for path in (tmp_path / "team" / "index").iterdir()]
    assert sorted(len(index["publications"]) for index in indexes) == [1, 1, 1, 2]
    assert {each["published_by"] for index in indexes for each in index["publications"]} == {"Ada"}


def test_run_that_is_published_again_has_one_row(run: af.Run) -> None:
    team = af.Library("memory://again")
    team.publish(run)
    af.Library("memory://again", by="Ben").publish([run])
    assert team.runs_df()["published_by"].tolist() == ["Ben"]
    assert team.query("SELECT count(*) AS n FROM tool_calls")["n"].tolist() == [1]


def spoiled_row_file(folder: Path) -> Path:
    """Publish rows that are no Parquet under the right hash."""
    import hashlib

    (index,) = (folder / "index").iterdir()
    data = b"PAR1 this is no table PAR1"
    digest = hashlib.sha256(data).hexdigest()
    publication = json.loads(index.read_text())["publications"][0] | {"owners": {"run-x": "run-x"}}
    publication["frames"]["runs"] = digest
    content = {"format": "artifactflow-nb library 1", "publications": [publication]}
    (folder / "index" / "spoiled.json").write_text(json.dumps(content))
    file = folder / "frames" / "runs" / f"{digest}.parquet"
    file.write_bytes(data)
    return file


def exchanged_row_file(folder: Path) -> Path:
    (file,) = (folder / "frames" / "runs").iterdir()
    other = folder / "frames" / "runs" / f"{'0' * 64}.parquet"
    shutil.copy(file, other)
    (index,) = (folder / "index").iterdir()
    text = index.read_text().replace(file.stem, other.stem).replace("run-", "run-x")
    (folder / "index" / "exchanged.json").write_text(text)
    return other


def half_an_index(folder: Path) -> Path:
    (index,) = (folder / "index").iterdir()
    half = folder / "index" / "half.json"
    half.write_text(index.read_text()[:200])
    return half


def index_with_a_path_out_of_the_folder(folder: Path) -> Path:
    (index,) = (folder / "index").iterdir()
    content = json.loads(index.read_text())
    content["publications"][0]["frames"]["runs"] = "../../secret"
    hostile = folder / "index" / "hostile.json"
    hostile.write_text(json.dumps(content))
    return hostile


@pytest.mark.parametrize(
    "spoil", [spoiled_row_file, exchanged_row_file, half_an_index, index_with_a_path_out_of_the_folder]
)
def test_hostile_file_is_said_and_left_out(spoil: Callable[[Path], Path], run: af.Run, tmp_path: Path) -> None:
    """The other runs are shown; the file is named once, with the reason."""
    team = af.Library(tmp_path / "team")
    team.publish(run)
    file = spoil(tmp_path / "team")
    with pytest.warns(UserWarning, match=f"left out 1 file.*{file.name}"):
        runs = team.runs_df()
    assert runs["run_id"].tolist() == [run.run_id]
    assert [*team.skipped] == [str(file)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        team.runs_df()


def test_changed_sealed_file_is_not_opened(run: af.Run, tmp_path: Path) -> None:
    team = af.Library(tmp_path / "team")
    team.publish(run)
    (file,) = (tmp_path / "team" / "runs").iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(af.errors.UsageError, match="another content than its name says"):
        team.open(run.run_id)


def test_sql_only_reads(run: af.Run, tmp_path: Path) -> None:
    team = af.Library(tmp_path / "team")
    team.publish(run)
    for sql in ("DELETE FROM runs", f"ATTACH '{tmp_path / 'x.db'}' AS x", "SELECT * FROM unknown_table"):
        with pytest.raises(af.errors.UsageError, match="The SQL cannot be run"):
            team.query(sql)
    assert not (tmp_path / "x.db").exists()


def test_unknown_run_and_address_are_refused(tmp_path: Path) -> None:
    with pytest.raises(af.errors.NotFound, match="has no run 'run-x'"):
        af.Library(tmp_path / "team").open("run-x")
    assert af.Library(tmp_path / "team").runs_df().empty
    with pytest.raises(af.errors.UsageError, match="cannot be used"):
        af.Library("nowhere://lab").runs_df()
