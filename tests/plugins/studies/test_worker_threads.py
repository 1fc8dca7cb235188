"""A worker with several threads, which share an engine."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from conftest import OpenWorkbench
from support.chat_endpoint import Answer, ChatServer

import artifactflow_nb as af
from artifactflow_nb.plugins.studies.workers import Task, worker_engine


class ThreadedWorker:
    """An executor with the threads of one worker."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.tasks: list[Task] = []
        self._pool = pool

    def submit(self, function: Callable[[Task], Any], task: Task, *, key: str) -> "Future[Any]":
        """Carry out a task in a thread."""
        assert key
        self.tasks.append(task)
        return self._pool.submit(function, task)


def test_threads_of_a_worker_share_an_engine(workbench: OpenWorkbench) -> None:
    """So the rates of the worker hold for all its threads."""
    worker_engine.cache_clear()
    with ChatServer(lambda _request: Answer("It is nine.")) as server, ThreadPoolExecutor(4) as pool:
        wb = workbench(model=af.OpenAIModel(server.base_url, None, "loopback-1"), interactive=False)
        worker = ThreadedWorker(pool)
        study = wb.studies.start([f"Question {n}?" for n in range(12)], name="threads", on=worker, at_once=4).wait()
        n_engines = worker_engine.cache_info().misses
        worker_engine(worker.tasks[0].engine).close()
        worker_engine.cache_clear()
    assert study.df["state"].tolist() == ["done"] * 12
    assert len(server.requests) == 12
    assert n_engines == 1
