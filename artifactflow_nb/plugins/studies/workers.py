"""Cells of a study on other processes: a pool of processes, a cluster of Dask, or anything with `submit`.

::

    driver ── submit(carry_out, task) ──> worker: an engine on the data folder of the study, or on a folder of its own
       ^                                     │ exchange/<study>/<cell>-<attempt>.afrun, before the task returns
       └───────── the id of the run ─────────┘

A task that is repeated, because its worker died after the run, finds the run by its thread or the file by its name, and
pays for nothing again. Keys of endpoints come from the environment of the worker, never through the executor.
"""

import asyncio
import atexit
import multiprocessing
import pickle
import shutil
import signal
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from threading import Lock
from typing import Any
from uuid import uuid4

from pydantic import SecretStr

from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.errors import ArtifactFlowError, Conflict, NotFound, UsageError, brief
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.plugins.library import INSTALL
from artifactflow_nb.plugins.studies.driver import RunCell, StudyDriver, StudyDrivers, WorkerLost, drive_run, thread_of
from artifactflow_nb.plugins.studies.sealed import sealed_parts
from artifactflow_nb.plugins.studies.tables import Cell
from artifactflow_nb.recording.engine import RecordingEngine, RecordingThread, make_engine
from artifactflow_nb.recording.rows import import_rows
from artifactflow_nb.recording.seal import load_parts, sealed_bytes
from artifactflow_nb.store.runs import WAITING

_POLL_S = 0.5
_OPENING = Lock()
_OF_THIS_KERNEL = {"data_dir", "record", "replay", "mode"}


@dataclass(frozen=True, slots=True)
class Task:
    """An attempt at a cell, as a worker gets it.

    Attributes:
        engine: The pickled settings, model, approvals and folders of sources of the workbench.
        thread_id: The thread of the run, which names the attempt.
        revision: The revision of the study; a cancellation has a later one.
        exchange: The address of the exchange folder; empty if the worker opens the data folder of the study.
    """

    engine: bytes
    thread_id: str
    question: str
    options: Mapping[str, Any]
    rates: Mapping[str, Mapping[str, Any]]
    study_id: str
    revision: int
    exchange: str = ""

    @property
    def place(self) -> str:
        """The address of the file for the sealed run."""
        return f"{self.exchange}/{self.thread_id}.afrun"


def carry_out(task: Task) -> tuple[str, float]:
    """Carry out an attempt at a cell in a worker; return the id of the run, which has ended or waits, and the wait."""
    if task.exchange and (data := read_file(task.place)) is not None:
        return str(sealed_parts(data).rows.run_id), 0.0
    with _OPENING:  # the threads of a worker share an engine
        thread = worker_engine(task.engine)
    run_id, queue_ms, parts = thread.call(_run(thread.engine, task))
    if parts is not None:
        files, path = file_system(task.place)
        files.makedirs(path.rpartition("/")[0], exist_ok=True)
        draft = f"{path}.{run_id}.part"  # a worker that dies while it writes leaves no half of a file
        files.pipe_file(draft, sealed_bytes(parts))
        files.mv(draft, path)
    return run_id, queue_ms


@cache
def worker_engine(engine: bytes) -> RecordingThread:
    """Return the engine of this process for a workbench; it is closed at the end of the process."""
    if multiprocessing.parent_process() and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the Stop button of the notebook reaches the workers of a pool
    import_module("artifactflow_nb.plugins.built_in")  # the tools and flows of every workbench
    settings, data_dir, model, policy, folders = pickle.loads(engine)  # noqa: S301 - see above
    if data_dir is None:
        data_dir = tempfile.mkdtemp(prefix="artifactflow-")
        atexit.register(shutil.rmtree, data_dir, ignore_errors=True)  # after the engine, which is opened later
    configured = Settings.load(**settings, data_dir=data_dir)
    lacks_key = isinstance(model, OpenAIModel) and model._lacks_key  # noqa: SLF001 - the key that pickling dropped
    if lacks_key and configured.api_key is not None:
        model.__setstate__({"_key": configured.api_key.get_secret_value(), "_lacks_key": False})
    thread = RecordingThread(lambda: make_engine(configured, model=model))
    thread.engine.policy = policy
    for folder in folders:
        thread.call(thread.engine.add_sources(folder))
    return thread


async def _run(engine: RecordingEngine, task: Task) -> tuple[str, float, Any]:
    """Ask the question of a task, or continue the run; return the id, the wait, and the parts for an exchange."""
    engine.service(StudyDrivers).limit(task.rates)
    try:
        run = await engine.runs.get_by_thread(task.thread_id)
    except NotFound:
        if await _is_cancelled(engine, task):
            raise Conflict("The study is cancelled.") from None
        run = await engine.controller.begin(task.question, **task.options, thread_id=task.thread_id)
    driving = asyncio.ensure_future(drive_run(engine, run))
    while not (await asyncio.wait([driving], timeout=_POLL_S))[0]:
        if await _is_cancelled(engine, task):
            with suppress(Conflict):  # the run has ended meanwhile
                await engine.controller.cancel(run.run_id)
    run, queue_ms = driving.result()
    if not task.exchange:
        return run.run_id, queue_ms, None
    if run.status == WAITING:
        await engine.controller.cancel(run.run_id)
        raise UsageError(
            "The run waits for a decision, which nobody makes on a worker. Pass approvals= to the workbench."
        )
    redactor, run_id = engine.secrets.refresh().redactor, run.run_id
    return run_id, queue_ms, await engine.database.read(lambda db: load_parts(db, run_id, redactor))


async def _is_cancelled(engine: RecordingEngine, task: Task) -> bool:
    """Return whether the study of a task was cancelled after the task was submitted."""
    if task.exchange:
        data = await asyncio.to_thread(read_file, f"{task.exchange}/{task.study_id}.cancelled")
        return data is not None and int(data) > task.revision
    is_cancelled = "SELECT 1 FROM studies WHERE study_id = ? AND state = 'cancelled'"
    return await engine.database.read(lambda db: bool(db.execute(is_cancelled, (task.study_id,)).fetchone()))


def file_system(address: str) -> tuple[Any, str]:
    """Return the file system and the path of an address of fsspec; `UsageError` if a package is not installed."""
    try:
        from fsspec.core import url_to_fs

        files, path = url_to_fs(address)
    except ImportError as error:
        raise UsageError(f"The exchange folder {brief(address)} needs {error.name}: {INSTALL}") from None
    return files, str(path)


def read_file(address: str) -> bytes | None:
    """Return the content of a file of the exchange folder; None if there is none."""
    files, path = file_system(address)
    files.invalidate_cache()
    with suppress(FileNotFoundError):
        return bytes(files.cat_file(path))
    return None


class WorkerCells:
    """Carries out the cells of studies on an executor, as `StudyDriver.run_cell`.

    Args:
        executor: A `concurrent.futures.Executor` of processes, a `distributed.Client`, or an object with `submit`.
        exchange: The folder through which workers on other machines return runs, as an address of fsspec.

    Errors: `UsageError` for another executor, and for a workbench with parts that workers cannot have.
    """

    def __init__(self, engine: RecordingEngine, executor: Any, exchange: str | None) -> None:
        if not hasattr(executor, "submit"):
            raise UsageError(f"on is {brief(executor)}; pass an Executor of processes, or a Client of Dask.")
        own = [entry.name for entry in engine.tools if not engine.tools.is_built_in(entry)]
        own += [agent.config.name for agent in engine.own_agents] + [flow.name for flow in engine.flows.own_specs]
        own += [*engine.agent_models, *(plugin.name for plugin in engine.own_plugins)]
        own += [type(observer).__name__ for observer in engine.middleware.middleware]
        own += ["the reviewer"] * (engine.reviewer is not None) + ["the MCP servers"] * bool(engine.settings.mcp)
        if own or engine.session.mode != "live":
            raise UsageError(
                f"Workers cannot have {', '.join(own) or 'a cassette'} of this notebook. Start the study without on=."
            )
        settings, redactor = {}, engine.secrets.refresh().redactor
        for name in engine.settings.model_fields_set - _OF_THIS_KERNEL:
            value = getattr(engine.settings, name)
            if not isinstance(value, SecretStr) and redactor.redact_value(value) == value:  # a field may be a token
                settings[name] = value
        data_dir = None if exchange else engine.folder
        self._engine, self._executor, self._exchange = engine, executor, (exchange or "").rstrip("/")
        try:
            self._pickled = pickle.dumps((settings, data_dir, engine.model, engine.policy, [*engine.searched_folders]))
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise UsageError(f"The model or the approvals cannot be pickled: {error!s:.300}") from None

    def __call__(self, driver: StudyDriver) -> RunCell:
        """Return the function that carries out the cells of a study."""

        async def run_cell(cell: Cell) -> tuple[str, float]:
            run = None if cell.run_id is None else await self._engine.runs.get(cell.run_id)  # begun before, or decided
            thread_id, spec = thread_of(cell) if run is None else run.thread_id, driver.study.spec
            about = spec["rates"], cell.study_id, spec["revision"], self._exchange
            task = Task(self._pickled, thread_id, cell.question, driver.options(cell), *about)
            data, queue_ms = await asyncio.to_thread(read_file, task.place) if self._exchange else None, 0.0
            if data is None:
                run_id, queue_ms = await self._result(task)
                if not self._exchange:
                    return run_id, queue_ms
                data = await asyncio.to_thread(read_file, task.place)
            rows = (await asyncio.to_thread(sealed_parts, data or b"")).rows
            await self._engine.database.write(lambda db: import_rows(db, rows))
            return str(rows.run_id), queue_ms

        async def tell_workers() -> None:
            files, path = file_system(f"{self._exchange}/{driver.study.study_id}.cancelled")
            with suppress(OSError):  # without the folder, no worker can return a run
                await asyncio.to_thread(files.makedirs, path.rpartition("/")[0], exist_ok=True)
                await asyncio.to_thread(files.pipe_file, path, b"%d" % driver.study.spec["revision"])

        driver.tell_workers = tell_workers if self._exchange else None
        return run_cell

    async def _result(self, task: Task) -> tuple[str, float]:
        """Submit a task and wait for its result; `WorkerLost` if the executor has no result."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        try:
            # A client of Dask that has lost its scheduler never ends a task with the key of an earlier task.
            key = {} if isinstance(self._executor, Executor) else {"key": f"{task.thread_id}-{uuid4().hex}"}
            future = self._executor.submit(carry_out, task, **key)
        except Exception as error:  # any error of the executor
            raise WorkerLost(f"The executor takes no tasks: {error!s:.300}") from error
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(ended.set))
        try:
            while not ended.is_set() and getattr(self._executor, "status", "") != "closed":
                with suppress(TimeoutError):
                    await asyncio.wait_for(ended.wait(), _POLL_S)
        except asyncio.CancelledError:
            future.cancel()
            raise
        if not ended.is_set():  # a closed client of Dask ends no task
            raise WorkerLost("The worker was lost: the client of the cluster is closed.")
        return await asyncio.to_thread(_outcome, future)


def _outcome(future: Any) -> tuple[str, float]:
    try:
        outcome: tuple[str, float] = future.result()
    except ArtifactFlowError:
        raise
    except BaseException as error:  # also a cancellation by the executor
        raise WorkerLost(f"The worker was lost: {type(error).__name__}: {error!s:.300}") from error
    return outcome
