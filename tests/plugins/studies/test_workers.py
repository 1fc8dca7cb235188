"""Studies on other processes: a pool, a cluster of Dask whose workers are killed, and an exchange folder."""

import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from support.chat_endpoint import Answer, ChatServer

import artifactflow_nb as af
from artifactflow_nb.core.approvals import ApprovalPolicy
from artifactflow_nb.engine.settings import ENVIRONMENT_VARIABLES
from artifactflow_nb.plugins.studies.workers import Task, WorkerCells, carry_out, worker_engine

OpenWorkbench = Callable[..., af.Workbench]


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(lambda _request: Answer("It is nine.", delay_s=0.02)) as endpoint:
        yield endpoint


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key that workers have in their environment; the workbench of the test has another one."""
    monkeypatch.setenv(ENVIRONMENT_VARIABLES["api_key"], "key-of-the-workers")


def open_workbench(workbench: OpenWorkbench, server: ChatServer) -> af.Workbench:
    return workbench(model=af.OpenAIModel(server.base_url, "own-key", "loopback-1"), interactive=False)


def test_cells_run_in_a_pool_of_processes(workbench: OpenWorkbench, server: ChatServer) -> None:
    """The rows are those of the same data folder; no run was made in this process."""
    wb = open_workbench(workbench, server)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        study = wb.studies.start(["When?", "Who?"], name="pool", on=pool).wait(120)
    assert study.df["answer"].tolist() == ["It is nine."] * 2
    assert study.df["state"].tolist() == ["done"] * 2
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer key-of-the-workers"] * 2


def test_workbench_with_own_tools_is_refused(workbench: OpenWorkbench, server: ChatServer) -> None:
    wb = open_workbench(workbench, server)

    @wb.tool
    def roll(_ctx: af.ToolContext) -> str:
        """Roll a die."""
        return "four"

    with pytest.raises(af.errors.UsageError, match="Workers cannot have roll"):
        wb.studies.start(["When?"], name="own", on=ProcessPoolExecutor(1))
    with pytest.raises(af.errors.UsageError, match="on is 3"):
        wb.studies.start(["When?"], name="own", on=3)
    with workbench(model=af.OpenAIModel(server.base_url, None, "x"), agent_models={"search_agent": "small"}) as other:  # noqa: SIM117
        with pytest.raises(af.errors.UsageError, match="Workers cannot have search_agent"):
            other.studies.start(["When?"], name="own", on=ProcessPoolExecutor(1))


class BrokenExecutor:
    """An executor none of whose workers can be reached."""

    def submit(self, *_args: object, **_options: object) -> None:
        raise OSError("no workers")


def test_cell_that_no_worker_carries_out_fails(workbench: OpenWorkbench, server: ChatServer) -> None:
    wb = open_workbench(workbench, server)
    study = wb.studies.start(["When?"], name="broken", on=BrokenExecutor()).wait(60)
    assert study.df["state"].tolist() == ["failed"]
    assert server.requests == []


def test_worker_sends_no_key_to_an_endpoint_without_one(tmp_path: Path, server: ChatServer) -> None:
    model = af.OpenAIModel(server.base_url, None, "loopback-1")
    engine = pickle.dumps(({}, tmp_path / "data", model, ApprovalPolicy("ask"), []))
    thread = worker_engine(engine)
    try:
        assert thread.engine.model.key is None
    finally:
        thread.close()


@pytest.mark.parametrize("exchange", [False, True], ids=["same folder", "exchange"])
def test_killed_workers_cost_a_run_each_at_most(
    exchange: bool, workbench: OpenWorkbench, server: ChatServer, tmp_path: Path
) -> None:
    """Both workers are killed while 24 cells run: each cell is done, with at most one further run for each kill."""
    distributed = pytest.importorskip("distributed", reason="make test runs it in an environment with Dask")
    wb = open_workbench(workbench, server)
    questions = [f"Question {n}?" for n in range(24)]
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        distributed.LocalCluster(**options, local_directory=str(tmp_path / "dask")) as cluster,
        distributed.Client(cluster) as client,
    ):
        where = {"exchange": f"file://{tmp_path / 'exchange'}"} if exchange else {}
        study = wb.studies.start(questions, name="killed", on=client, at_once=8, **where)
        for n_before in (4, 12):
            while len(server.requests) < n_before:
                time.sleep(0.01)
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        study.wait(300)
    df = study.df
    assert df["state"].tolist() == ["done"] * 24
    assert df["run_id"].nunique() == 24
    assert len(wb.runs_df()) <= 26
    assert len(server.requests) <= 26


@pytest.mark.parametrize("exchange", [False, True], ids=["same folder", "exchange"])
def test_cancellation_ends_the_runs_of_workers(
    exchange: bool, workbench: OpenWorkbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run that a worker has begun is cancelled; the cell that waits for the worker begins no run."""
    if exchange:
        pytest.importorskip("fsspec", reason="make test runs it in an environment with fsspec")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    delays = iter([600.0])
    with (
        ChatServer(lambda _request: Answer("It is nine.", delay_s=next(delays, 0.0))) as server,
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):
        wb = open_workbench(workbench, server)
        where = {"exchange": f"file://{tmp_path / 'exchange'}"} if exchange else {}
        study = wb.studies.start(["When?", "Who?"], name="stopped", on=pool, at_once=2, **where)
        while not server.requests and study.state == "running":
            time.sleep(0.01)
        study.cancel().wait(120)
        assert study.df["state"].tolist() == ["cancelled"] * 2
        assert study.df["run_id"].notna().sum() == len(server.requests) == 1
        assert study.retry("cancelled").wait(120).df["answer"].tolist() == ["It is nine."] * 2
        assert len(server.requests) == 3
    assert list(tmp_path.glob("artifactflow-*")) == []


def test_exchange_folder_that_fails_ends_in_a_sentence(
    workbench: OpenWorkbench, server: ChatServer, tmp_path: Path
) -> None:
    pytest.importorskip("fsspec", reason="make test runs it in an environment with fsspec")
    (tmp_path / "exchange").write_text("A file, not a folder.")
    wb = open_workbench(workbench, server)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        where = {"exchange": f"file://{tmp_path / 'exchange'}"}
        study = wb.studies.start(["When?"], name="lost", on=pool, **where).wait(120)
    assert study.state == "done"
    assert study.df["state"].tolist() == ["failed"]
    assert "NotADirectoryError" in study.df["error"][0]


def test_workers_get_the_rates_and_no_secrets(workbench: OpenWorkbench, server: ChatServer, tmp_path: Path) -> None:
    address = server.base_url.replace("://", "://ada:pa55word-x9@")
    wb = workbench(base_url=address, model="loopback-1", extra_body={"access_token": "tok-4f9a8b7c6d5e"})
    pickled = WorkerCells(wb._thread.engine, BrokenExecutor(), None)._pickled
    assert b"pa55word" not in pickled
    assert b"tok-4f9a" not in pickled
    model = af.OpenAIModel(server.base_url, None, "loopback-1")
    engine = pickle.dumps(({}, tmp_path / "data", model, ApprovalPolicy("ask"), []))
    rates = {"loopback-1": {"requests": 7, "tokens": None}}
    try:
        run_id, queue_ms = carry_out(Task(engine, "a-b-1", "When?", {}, rates, "a", 0))
        worker = worker_engine(engine).engine
        assert worker.model.limiter._rates["loopback-1"].requests == 7
        assert "plan" in worker.flows.specs
        assert queue_ms < 1_000
        assert run_id
    finally:
        worker_engine(engine).close()


def test_interrupt_of_the_process_group_leaves_the_pool_alive(workbench: OpenWorkbench, server: ChatServer) -> None:
    """The Stop button of a notebook interrupts the kernel's process group, to which the workers of a pool belong."""
    wb = open_workbench(workbench, server)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert wb.studies.start(["When?"], name="first", on=pool).wait(120).df["state"].tolist() == ["done"]
        os.kill(pool.submit(os.getpid).result(), signal.SIGINT)
        assert wb.studies.start(["Who?"], name="second", on=pool).wait(120).df["state"].tolist() == ["done"]
    assert len(server.requests) == 2
