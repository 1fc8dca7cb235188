"""Studies on a cluster of Dask that is started by hand, whose workers, scheduler and client are killed."""

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.chat_endpoint import Answer, ChatServer

import artifactflow_nb as af
from artifactflow_nb.engine.settings import ENVIRONMENT_VARIABLES

distributed = pytest.importorskip("distributed", reason="make test runs it in an environment with Dask")

OpenWorkbench = Callable[..., af.Workbench]

KERNEL = """
import sys
from distributed import Client
import artifactflow_nb as af

folder, url, scheduler, n = sys.argv[1:]
client = Client(scheduler_file=scheduler)
wb = af.Workbench(model=af.OpenAIModel(url, None, "loopback-1"), data_dir=folder, interactive=False)
study = wb.studies.start([f"Question {n}?" for n in range(int(n))], name="killed", on=client, at_once=8)
study.wait(300)
"""


class HandMadeCluster:
    """A scheduler and workers of one thread, each a process of `dask scheduler` and `dask worker`."""

    def __init__(self, folder: Path, n_workers: int) -> None:
        folder.mkdir()
        self.file = folder / "scheduler.json"
        options = ["--scheduler-file", str(self.file), "--no-dashboard"]
        self.scheduler = self._start("scheduler", *options, "--host", "127.0.0.1", "--port", "0")
        self._worker = ["worker", *options, "--nthreads", "1", "--no-nanny", "--local-directory", str(folder)]
        self.workers = [self.add_worker() for _ in range(n_workers)]

    def add_worker(self) -> "subprocess.Popen[bytes]":
        """Start a worker."""
        return self._start(*self._worker)

    def _start(self, kind: str, *options: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *options]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def close(self) -> None:
        """End what has not ended."""
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(lambda _request: Answer("It is nine.", delay_s=0.02)) as endpoint:
        yield endpoint


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Callable[[str, int], HandMadeCluster]]:
    """A function that starts a cluster; all are ended after the test."""
    clusters: list[HandMadeCluster] = []

    def start(name: str, n_workers: int) -> HandMadeCluster:
        clusters.append(HandMadeCluster(tmp_path / name, n_workers))
        return clusters[-1]

    yield start
    for started in clusters:
        started.close()


@pytest.fixture(autouse=True)
def quick_timeouts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The key of the workers, and a client that gives a dead scheduler up after two seconds."""
    monkeypatch.setenv(ENVIRONMENT_VARIABLES["api_key"], "key-of-the-workers")
    import dask

    with dask.config.set({"distributed.comm.timeouts.connect": "2s"}):
        yield


def open_workbench(workbench: OpenWorkbench, server: ChatServer) -> af.Workbench:
    return workbench(model=af.OpenAIModel(server.base_url, None, "loopback-1"), interactive=False)


def questions(n: int) -> list[str]:
    return [f"Question {number}?" for number in range(n)]


def wait_for_requests(server: ChatServer, n: int) -> None:
    while len(server.requests) < n:
        time.sleep(0.01)


def payments(server: ChatServer) -> Counter[str]:
    """The number of requests by question."""
    return Counter(request.body["messages"][-1]["content"] for request in server.requests)


def assert_paid_once(frame: Any, server: ChatServer) -> None:
    """The cells of this frame that were done were not paid for again."""
    paid = payments(server)
    done = frame.loc[frame["state"] == "done", "question"]
    assert len(done)
    assert {question: paid[question] for question in done} == dict.fromkeys(done, 1)


def test_workers_killed_in_100_cells(workbench: OpenWorkbench, server: ChatServer, cluster: Any) -> None:
    """Each worker is killed in the middle of a cell, and another one comes: at most a further run for each kill."""
    by_hand = cluster("dask", 2)
    wb = open_workbench(workbench, server)
    with distributed.Client(scheduler_file=str(by_hand.file)) as client:
        study = wb.studies.start(questions(100), name="killed", on=client, at_once=16)
        for number, n_before in enumerate((10, 40)):
            wait_for_requests(server, n_before)
            by_hand.workers[number].send_signal(signal.SIGKILL)
            by_hand.workers.append(by_hand.add_worker())
        study.wait(300)
    frame = study.df
    assert frame["state"].tolist() == ["done"] * 100
    assert frame["run_id"].nunique() == 100
    assert len(wb.runs_df()) <= 102
    assert len(server.requests) <= 102


def test_study_goes_on_with_another_client_after_the_death_of_the_scheduler(
    workbench: OpenWorkbench, server: ChatServer, cluster: Any
) -> None:
    """The study says why cells failed; with a new cluster the finished cells are not paid for again."""
    wb = open_workbench(workbench, server)
    first = cluster("first", 1)
    with distributed.Client(scheduler_file=str(first.file)) as client:
        study = wb.studies.start(questions(40), name="orphaned", on=client, at_once=8)
        wait_for_requests(server, 15)
        first.scheduler.send_signal(signal.SIGKILL)
        study.wait(300)
    frame = study.df
    lost = frame[frame["state"] == "failed"]
    assert len(lost)
    assert set(frame["state"]) == {"done", "failed"}
    assert lost["error"].str.contains("The worker was lost|The executor takes no tasks").all()
    n_paid = len(server.requests)
    second = cluster("second", 1)
    with distributed.Client(scheduler_file=str(second.file)) as client:
        wb.studies.start(questions(40), name="orphaned", on=client, at_once=8).retry("failed").wait(300)
    after = study.df
    assert after["state"].tolist() == ["done"] * 40
    assert after["run_id"].nunique() == 40
    assert_paid_once(frame, server)
    assert n_paid < len(server.requests) <= 40 + 1  # the call that was under way


def test_study_goes_on_in_another_kernel_after_the_death_of_the_client(
    workbench: OpenWorkbench, server: ChatServer, cluster: Any, tmp_path: Path
) -> None:
    """The kernel is killed while its cells run on the cluster; another kernel pays for no cell twice."""
    by_hand = cluster("dask", 1)
    wb = open_workbench(workbench, server)
    kernel = subprocess.Popen(
        [sys.executable, "-c", KERNEL, str(wb._thread.engine.folder), server.base_url, str(by_hand.file), "40"]
    )
    try:
        wait_for_requests(server, 15)
    finally:
        kernel.kill()
        kernel.wait()
    frame = wb.query("SELECT question, state FROM study_cells")
    with distributed.Client(scheduler_file=str(by_hand.file)) as client:
        study = wb.studies.start(questions(40), name="killed", on=client, at_once=8).wait()
    after = study.df
    assert after["state"].tolist() == ["done"] * 40
    assert after["run_id"].nunique() == 40
    assert_paid_once(frame, server)
    assert len(server.requests) <= 40 + 1
