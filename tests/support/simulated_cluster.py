"""A study on simulated workers, with a clock that jumps: no process, no network, no waiting.

::

    Studies.start ──> StudyDriver ──> WorkerCells ──> SimulatedCluster ──> SimulatedModel ──> SimulatedEndpoint
    plan, rows and retries of the package             workers that die     turn and rate limiter of the package

Simulated are the processes with their deaths, the endpoint with its times, and the clock. A dead worker loses its task,
which another worker repeats, as in a cluster of Dask; the fourth death with the same task is an error of the task.
"""

import asyncio
import random
import selectors
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import artifactflow_nb as af
from artifactflow_nb.core.messages import Message
from artifactflow_nb.errors import ModelUnavailable
from artifactflow_nb.models.base import ModelDelta, ModelRequest
from artifactflow_nb.models.openai.client import OpenAIModel, StreamedReply
from artifactflow_nb.models.openai.errors import Endpoint
from artifactflow_nb.plugins.rates import WINDOW_S, Rate, RateLimiter
from artifactflow_nb.plugins.studies.driver import StudyDrivers
from artifactflow_nb.plugins.studies.plugin import Studies
from artifactflow_nb.plugins.studies.study import Study
from artifactflow_nb.store.database import connect
from artifactflow_nb.store.runs import COMPLETED, FAILED, RUNNING

ADDRESS = "https://simulated.example/v1"
RETURN_S = 0.2
"""The time between the end of a run and the return of its task."""

RESTART_S = 20.0
"""The time until a worker is there again."""

ALLOWED_DEATHS = 3
"""The default of Dask: the next death of a worker with the task is an error of the task."""

_REPLY = b'data: {"choices":[{"index":0,"delta":{"content":"It is so."},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


class _JumpingSelector(selectors.SelectSelector):
    """Instead of waiting, the clock jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("The simulation waits for something that cannot happen any more.")
        self.now += max(timeout, 0.0)
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop with a simulated clock; what belongs into a thread runs at once."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def call_soon_threadsafe(self, callback: Callable[..., object], *args: Any, context: Any = None) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(self, _executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - the caller gets any error
            future.set_exception(error)
        return future


@dataclass
class SimulatedEndpoint:
    """An endpoint with a limit of its own.

    Attributes:
        limit: The most requests of the model `large` in any 60 s; the endpoint refuses others (429).
        away: The share of requests that end with an error.
        n_requests: The requests that were paid for.
        n_large: Those of the model `large`.
        n_refused: The requests that were refused because of the limit.
        most: The most requests of `large` in any 60 s.
        work_s: The time of the requests that were answered.
    """

    random: random.Random
    limit: int
    away: float
    n_requests: int = 0
    n_large: int = 0
    n_refused: int = 0
    most: int = 0
    work_s: float = 0.0
    _window: deque[float] = field(default_factory=deque)

    async def answer(self, model: str) -> None:
        """Take a time around 4 s for an answer."""
        now = asyncio.get_running_loop().time()
        if model == "large":
            while self._window and self._window[0] <= now - WINDOW_S:
                self._window.popleft()
            if len(self._window) >= self.limit:
                self.n_refused += 1
                error = ModelUnavailable("Too many requests.", retry_after_s=5.0)
                error.status = 429
                raise error
            self._window.append(now)
            self.n_large += 1
            self.most = max(self.most, len(self._window))
        duration_s = min(60.0, self.random.lognormvariate(1.25, 0.5))
        self.n_requests += 1
        await asyncio.sleep(duration_s)
        if self.random.random() < self.away:
            raise ModelUnavailable("The endpoint is away.")
        self.work_s += duration_s


class SimulatedModel(OpenAIModel):
    """The package's turn of a model, with its retries and its limiter, over a simulated endpoint."""

    def __init__(self, endpoint: SimulatedEndpoint, limiter: RateLimiter) -> None:
        super().__init__(ADDRESS, None, "small")
        self.has_answered = True
        self.limiter = limiter
        self._simulated = endpoint

    def _endpoint(self, request: ModelRequest | None = None, *, path: str = "chat/completions") -> Endpoint:
        return Endpoint(f"{ADDRESS}/{path}", "", False, ())

    async def _attempt(self, request: ModelRequest, turn: StreamedReply) -> AsyncGenerator[ModelDelta]:
        await self._simulated.answer(request.model or "small")
        for delta in (*turn.feed(_REPLY), *turn.finish()):
            yield delta


@dataclass(slots=True)
class SimulatedRun:
    """A run as the store has it; the turns that ended are not repeated."""

    run_id: str
    thread_id: str
    n_turns: int
    n_done: int = 0
    status: str = RUNNING
    error_type: str | None = None
    error_message: str | None = None


@dataclass(order=True, slots=True)
class _Entry:
    number: int
    task: Any = field(compare=False)
    future: "Future[Any]" = field(compare=False)
    n_deaths: int = field(compare=False, default=0)


class SimulatedCluster:
    """An executor whose workers die: `submit` is all that a study needs.

    Args:
        loop: The loop with the simulated clock.
        endpoint: The endpoint of all workers.
        n_workers: The number of workers.
        deaths_per_hour: The deaths of workers, at random moments.

    Attributes:
        runs: The runs by thread, until their task has returned.
        runs_by_id: The same runs by id.
        n_runs: The runs that were begun.
        n_turns: The turns that have ended.
        n_deaths: The deaths so far.
        n_lost: The tasks that died with their worker.
    """

    def __init__(
        self, loop: SimulatedLoop, endpoint: SimulatedEndpoint, n_workers: int, deaths_per_hour: float
    ) -> None:
        self.runs: dict[str, SimulatedRun] = {}
        self.runs_by_id: dict[str, SimulatedRun] = {}
        self.n_deaths = self.n_lost = self.n_runs = self.n_turns = 0
        self._loop, self._endpoint = loop, endpoint
        self._random = random.Random(3)  # noqa: S311 - a simulation
        self._queue: asyncio.PriorityQueue[_Entry] = asyncio.PriorityQueue()
        self._n_submitted = 0
        self._workers = [loop.create_task(self._work()) for _ in range(n_workers)]
        self._reaper = loop.create_task(self._kill(deaths_per_hour / 3_600)) if deaths_per_hour else None

    def submit(self, _function: Callable[..., Any], task: Any, *, key: str) -> "Future[Any]":
        """Queue a task."""
        future: Future[Any] = Future()
        self._n_submitted += 1
        self._queue.put_nowait(_Entry(self._n_submitted, task, future))
        return future

    async def aclose(self) -> None:
        """End the workers."""
        tasks = [*self._workers, *([self._reaper] if self._reaper else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _kill(self, deaths_per_s: float) -> None:
        while True:
            await asyncio.sleep(self._random.expovariate(deaths_per_s))
            place = self._random.randrange(len(self._workers))
            self._workers[place].cancel()
            self.n_deaths += 1
            self._workers[place] = self._loop.create_task(self._work(RESTART_S))

    async def _work(self, delay_s: float = 0.0) -> None:
        await asyncio.sleep(delay_s)
        limiter = RateLimiter(self._loop.time, asyncio.sleep)
        model = SimulatedModel(self._endpoint, limiter)
        while True:
            entry = await self._queue.get()
            try:
                limiter.limit({name: Rate(**limits) for name, limits in entry.task.rates.items()})
                run_id = await self._carry_out(entry.task, model)
            except asyncio.CancelledError:
                self._lose(entry)
                raise
            entry.future.set_result((run_id, 0.0))

    def _lose(self, entry: _Entry) -> None:
        entry.n_deaths += 1
        self.n_lost += 1
        if entry.n_deaths > ALLOWED_DEATHS:
            entry.future.set_exception(RuntimeError("KilledWorker"))
        else:
            self._queue.put_nowait(entry)

    async def _carry_out(self, task: Any, model: SimulatedModel) -> str:
        """Go on with the run of the thread, as a real worker does; each turn is stored when it has ended."""
        if task.thread_id not in self.runs:
            n_turns = self._random.choice((1, 1, 2))
            self.n_runs += 1
            run = SimulatedRun(f"run-{self.n_runs}", task.thread_id, n_turns)
            self.runs[task.thread_id] = self.runs_by_id[run.run_id] = run
        run = self.runs[task.thread_id]
        request = ModelRequest((Message("user", task.question),), model=task.options["model"])
        while run.status == RUNNING:
            try:
                async for _ in model.stream(request):
                    pass
            except ModelUnavailable as error:
                run.status, run.error_type, run.error_message = FAILED, type(error).__name__, str(error)
            else:
                run.n_done += 1
                self.n_turns += 1
                if run.n_done == run.n_turns:
                    run.status = COMPLETED
        await asyncio.sleep(RETURN_S)
        return run.run_id


class _Database:
    """The store of the engine, without threads; everything is one transaction, which `commit` ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = connect(path)
        self._connection.execute("BEGIN IMMEDIATE")

    async def read(self, work: Callable[[Any], Any]) -> Any:
        return work(self._connection)

    write = read

    def commit(self) -> None:
        self._connection.execute("COMMIT")
        self._connection.close()


class _Engine:
    """A real engine; its database is used without threads, and its runs are those of the simulated workers."""

    def __init__(self, engine: Any, cluster: SimulatedCluster) -> None:
        self._engine, self._cluster = engine, cluster
        self.database = _Database(engine.database.path)
        self.runs = self
        self._drivers = StudyDrivers(self)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def service(self, _kind: type) -> StudyDrivers:
        return self._drivers

    async def get(self, run_id: str) -> SimulatedRun:
        run = self._cluster.runs_by_id[run_id]
        if run.status == COMPLETED:  # the task has returned, so nobody asks for the run again
            del self._cluster.runs[run.thread_id], self._cluster.runs_by_id[run_id]
        return run


@dataclass(slots=True)
class Simulation:
    """A simulated study.

    Attributes:
        makespan_s: The simulated time from the start of the study until its end.
    """

    study: Study
    cluster: SimulatedCluster
    endpoint: SimulatedEndpoint
    n_workers: int
    makespan_s: float

    @property
    def bound_s(self) -> float:
        """The shortest possible time: all answers on all workers, or the requests of `large` at its limit."""
        n_windows = self.endpoint.n_large / self.endpoint.limit - 1
        return max(self.endpoint.work_s / self.n_workers, n_windows * WINDOW_S)


@contextmanager
def simulated_study(
    folder: Path,
    n_cells: int,
    n_workers: int,
    *,
    limit: int,
    rate: Rate,
    deaths_per_hour: float,
    away: float = 0.002,
    watch: Callable[[], object] = lambda: None,
) -> Iterator[Simulation]:
    """Plan a study of two models and drive it on simulated workers.

    Args:
        folder: The data folder.
        n_cells: The number of cells, half of them for each model.
        n_workers: The number of workers; the study has twice as many cells at once.
        limit: The limit of the endpoint for the model `large`.
        rate: The rate of the model `large` in each worker.
        deaths_per_hour: The deaths of workers.
        away: The share of requests that end with an error.
        watch: Is called before the plan and after it.
    """
    loop = SimulatedLoop()
    endpoint = SimulatedEndpoint(random.Random(4), limit, away)  # noqa: S311 - a simulation
    model = af.OpenAIModel(ADDRESS, None, "small")
    with af.Workbench(model=model, data_dir=folder, interactive=False) as wb:
        cluster = SimulatedCluster(loop, endpoint, n_workers, deaths_per_hour)
        engine = _Engine(wb._thread.engine, cluster)
        thread = SimpleNamespace(engine=engine, call=loop.run_until_complete, language="en")
        stand_in = SimpleNamespace(_thread=thread, _display=None, _load=wb._load)
        questions = [f"Question {n}?" for n in range(n_cells // 2)]
        vary = {"model": ["small", "large"]}
        watch()
        study = Studies(stand_in).start(
            questions, name="simulated", vary=vary, rates={"large": rate}, at_once=2 * n_workers, on=cluster
        )
        watch()
        started = loop.time()
        loop.run_until_complete(study._ended())
        makespan_s = loop.time() - started
        loop.run_until_complete(cluster.aclose())
        loop.close()
        engine.database.commit()
        yield Simulation(study, cluster, endpoint, n_workers, makespan_s)
