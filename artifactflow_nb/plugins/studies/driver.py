"""The driver of a study: a run for each cell, several at once, on the engine's loop.

::

    acquire the study ──> planned cells, in order ──> run_cell ──> done, or another attempt, or failed
                        a run of a dead kernel goes on       └──> waits for a decision: its place is free meanwhile

The thread of a run is named after its cell and attempt. So a kernel that dies between a run and the row of its cell
leaves no second run: the next driver finds the run by its thread.
"""

import asyncio
import sqlite3
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.budget import Budget, BudgetUsage
from artifactflow_nb.errors import ArtifactFlowError, Conflict, ModelUnavailable, NotFound, StoreError, describe_error
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.plugins.rates import Rate, RateLimiter, queue_times
from artifactflow_nb.plugins.studies.grid import VARIATION
from artifactflow_nb.plugins.studies.tables import (
    CANCELLED,
    DONE,
    FAILED,
    PLANNED,
    RUNNING,
    UNFINISHED,
    WAITING,
    Cell,
    StudyRow,
    count_cells,
    load_cells,
    load_study,
    update_cell,
)
from artifactflow_nb.store.encoding import to_json
from artifactflow_nb.store.metrics import load_budget_usage
from artifactflow_nb.store.ownership import is_owner_gone
from artifactflow_nb.store.runs import COMPLETED, StoredRun

if TYPE_CHECKING:
    from artifactflow_nb.engine.engine import Engine

MAX_ATTEMPTS = 3
"""The number of attempts at a cell whose run fails for a reason outside of the cell."""

REPEATED_ERRORS = frozenset({ModelUnavailable.__name__, StoreError.__name__, "WorkerLost"})
"""Errors after which a cell is done again."""

_POLL_S = 0.5
_REFRESH_S = 1.0

RunCell = Callable[[Cell], Awaitable[tuple[str, float]]]
"""Carries out an attempt at a cell; returns the id of the run, which has ended or waits, and `queue_ms`."""


class WorkerLost(ArtifactFlowError):
    """The worker of a cell died; the cell is done again."""


class StudyDrivers:
    """The studies that an engine drives, by id; closed with the engine."""

    def __init__(self, engine: "Engine") -> None:
        self.engine = engine
        self.drivers: dict[str, StudyDriver] = {}
        self.limiter = RateLimiter()

    async def drive(
        self, name: str, make_run_cell: "Callable[[StudyDriver], RunCell] | None" = None
    ) -> "StudyDriver | None":
        """Return the driver of a study, which starts if cells can go on; None if no cell can go on here.

        `make_run_cell` returns the function that carries out cells, for a driver; None for runs on this engine.
        """
        study = await self.engine.database.read(lambda db: load_study(db, name))
        driver = self.drivers.get(study.study_id)
        self.limit(study.spec["rates"])
        if driver is not None and not driver.task.done():
            return driver
        owner = self.engine.run_locks.acquire()
        if not await self.engine.database.write(lambda db: self._acquire(db, study.study_id, owner)):
            self.engine.run_locks.release(owner, is_over=True)
            return None
        driver = self.drivers[study.study_id] = StudyDriver(self.engine, study, owner)
        if make_run_cell is not None:
            driver.run_cell = make_run_cell(driver)
        return driver

    def limit(self, rates: Mapping[str, Mapping[str, Any]]) -> None:
        """Set the rates of models; a model that workbenches share has one limiter."""
        for agent in self.engine.agents.values():
            if isinstance(agent.model, OpenAIModel):
                agent.model.limiter = agent.model.limiter or self.limiter
                agent.model.limiter.limit({name: Rate(**limits) for name, limits in rates.items()})

    def _acquire(self, db: sqlite3.Connection, study_id: str, owner: str) -> bool:
        """Make this engine the owner of a study that no engine drives and that is running, or is to be cancelled."""
        row = db.execute("SELECT owner, state FROM studies WHERE study_id = ?", (study_id,)).fetchone()
        is_over = row["state"] == DONE or (row["state"] == CANCELLED and not count_cells(db, study_id, UNFINISHED))
        if is_over or not is_owner_gone(self.engine.folder, row["owner"]):
            return False
        db.execute("UPDATE studies SET owner = ? WHERE study_id = ?", (owner, study_id))
        return True

    async def aclose(self) -> None:
        """Stop driving; another engine can go on."""
        tasks = [driver.task for driver in self.drivers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class StudyDriver:
    """Drives one study while this engine owns it.

    Attributes:
        study: The stored study.
        task: Ends when the study has ended.
        settled: Set while no cell can go on without a decision.
        run_cell: Carries out a cell; executors replace it.
        tell_workers: Tells the workers of an executor that the study is cancelled; None without an executor.
    """

    def __init__(self, engine: "Engine", study: StudyRow, owner: str) -> None:
        self.study = study
        self.settled = asyncio.Event()
        self.run_cell: RunCell = self._run_here
        self.tell_workers: Callable[[], Awaitable[None]] | None = None
        self._engine = engine
        self._owner = owner
        self._beginning = asyncio.Lock()
        self._wake = asyncio.Event()
        self._cells: dict[str, Cell] = {}
        self._planned: deque[Cell] = deque()
        self._running: dict[asyncio.Task[Cell], str] = {}
        self._waiting: dict[str, Cell] = {}
        self._n_lost: Counter[str] = Counter()
        self._refreshed_at = 0.0
        self._revision = -1
        self._spent = BudgetUsage()
        self._counted: set[str] = set()
        self.task = asyncio.create_task(self._drive(), name=study.study_id)

    def refresh(self) -> None:
        """Read the study and the cells again soon, after a change."""
        self._refreshed_at = 0.0
        self.settled.clear()
        self._wake.set()

    async def _drive(self) -> None:
        is_over = False
        try:
            while True:
                await self._refresh()
                is_cancelled = self.study.state != RUNNING
                if is_cancelled:
                    await self._cancel_runs()
                while self._planned and len(self._running) < self.study.spec["at_once"] and self._can_pay():
                    self._start(self._planned.popleft())
                if not self._running and not self._waiting:
                    state = self.study.state if is_cancelled else DONE
                    if await self._engine.database.write(partial(self._end, state=state)):
                        break
                    self._refreshed_at = 0.0  # the study has changed meanwhile, and goes on
                    continue
                self.settled.clear() if self._running else self.settled.set()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_S):
                        await self._wake.wait()
                self._wake.clear()
                await self._settle()
            is_over = True
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            self._engine.run_locks.release(self._owner, is_over=is_over)

    def _end(self, db: sqlite3.Connection, state: str) -> bool:
        """Store the end of the study, unless the study has changed since the last refresh; return whether it ended."""
        condition = "study_id = ? AND owner = ? AND json_extract(spec, '$.revision') = ?"
        values = state, self.study.study_id, self._owner, self.study.spec["revision"]
        return bool(db.execute(f"UPDATE studies SET state = ?, owner = NULL WHERE {condition}", values).rowcount)  # noqa: S608 - a constant

    async def _refresh(self) -> None:
        """Read the study, the new cells, and the cells that are planned again; at most once a second."""
        if time.monotonic() < self._refreshed_at + _REFRESH_S:
            return
        self._refreshed_at = time.monotonic()
        self.study = await self._engine.database.read(lambda db: load_study(db, self.study.name))
        if self.study.spec["revision"] == self._revision:
            return
        self._revision = self.study.spec["revision"]
        unfinished = {cell_id for cell_id, cell in self._cells.items() if cell.state in UNFINISHED}
        for cell in await self._engine.database.write(self._find_runs):
            if cell.cell_id not in unfinished:  # what ended since then is not in this reading
                self._cells[cell.cell_id] = cell
                self._planned.append(cell)
        if "budget" in self.study.spec:
            await self._count(await self._engine.database.read(partial(load_cells, study_id=self.study.study_id)))

    def _find_runs(self, db: sqlite3.Connection) -> list[Cell]:
        """Return the unfinished cells, each with the run that a dead kernel or a worker has stored for it, if any."""
        prefix = f"{self.study.study_id}-", f"{self.study.study_id}."
        threads = dict(db.execute("SELECT thread_id, run_id FROM runs WHERE thread_id > ? AND thread_id < ?", prefix))
        cells = load_cells(db, self.study.study_id, UNFINISHED)
        for n, cell in enumerate(cells):
            if (run_id := threads.get(thread_of(cell))) is not None:
                cells[n] = _with_run(cell, run_id)
                update_cell(db, cells[n])
        return sorted(cells, key=lambda cell: cell.run_id is None)  # runs that were paid for end first

    # --- cells -------------------------------------------------------------------------------------------------------

    def _start(self, cell: Cell) -> None:
        task = asyncio.create_task(self._carry_out(cell), name=cell.cell_id)
        self._running[task] = cell.cell_id
        task.add_done_callback(lambda _: self._wake.set())

    def _can_pay(self) -> bool:
        """Return whether the budget of the study covers the cells that are not settled, and another cell."""
        if (limits := self.study.spec.get("budget")) is None:
            return True
        each = Budget.from_limits(self.study.spec.get("each") or {}).limits
        n_cells = len(self._running) + len(self._waiting) + 1
        return all(
            getattr(self._spent, name) + n_cells * each.get(name, 0.0) <= limit and getattr(self._spent, name) < limit
            for name, limit in Budget.from_limits(limits).limits.items()
        )

    async def _count(self, cells: Iterable[Cell]) -> None:
        """Add the usage of ended attempts, each once, if the study has a budget."""
        ended = [(*cell.earlier_runs, *([] if cell.state in UNFINISHED else [cell.run_id])) for cell in cells]
        run_ids = {run_id for runs in ended for run_id in runs if run_id is not None} - self._counted
        if "budget" in self.study.spec:
            self._counted |= run_ids
            for run_id in run_ids:
                usage = await self._engine.database.read(partial(load_budget_usage, run_id=run_id, with_subruns=True))
                self._spent = self._spent.add(usage)

    async def _carry_out(self, cell: Cell) -> Cell:
        """Carry out an attempt at a cell; return the cell after the attempt.

        After the loss of a worker and after an error of the store, the run of the cell goes on where it was left.
        """
        try:
            run_id, queue_ms = await self.run_cell(cell)
            run = await self._engine.runs.get(run_id)
        except Exception as error:  # noqa: BLE001 - of an executor, an exchange folder or a run: the study goes on
            cell = self._cells[cell.cell_id]
            self._n_lost[cell.cell_id] += 1
            is_repeated = type(error).__name__ in REPEATED_ERRORS and self._n_lost[cell.cell_id] % MAX_ATTEMPTS
            if is_repeated or self.study.state == CANCELLED:
                return await self._stored(replace(cell, state=PLANNED))
            message = self._engine.secrets.current.redactor.text(describe_error(error))
            return await self._stored(replace(cell, state=FAILED, error=message))
        cell = self._cells[cell.cell_id]
        cell = cell if cell.run_id == run_id else _with_run(cell, run_id)
        cell = replace(cell, queue_ms=(cell.queue_ms or 0.0) + queue_ms)
        if run.status != FAILED:
            state = {COMPLETED: DONE, WAITING: WAITING, CANCELLED: CANCELLED}[run.status]
            return await self._stored(replace(cell, state=state, error=None))
        if run.error_type in REPEATED_ERRORS and cell.attempts % MAX_ATTEMPTS:
            return await self._stored(cell.next_attempt())
        return await self._stored(replace(cell, state=FAILED, error=run.error_message))

    async def _stored(self, cell: Cell) -> Cell:
        self._cells[cell.cell_id] = cell
        await self._engine.database.write(lambda db: update_cell(db, cell))
        return cell

    async def _run_here(self, cell: Cell) -> tuple[str, float]:
        """Ask the question of a cell on this engine, or continue the run of the cell."""
        if cell.run_id is None:
            async with self._beginning:  # in the order of the cells, so that a recording plays in any order of ends
                if self.study.state == CANCELLED:
                    raise Conflict(f"The study {self.study.name!r} is cancelled.")
                options = {**self.options(cell), "thread_id": thread_of(cell)}
                run = await self._engine.controller.begin(cell.question, **options)
            await self._stored(_with_run(cell, run.run_id))
        else:
            run = await self._engine.runs.get(cell.run_id)
        run, queue_ms = await drive_run(self._engine, run)
        return run.run_id, queue_ms

    def options(self, cell: Cell) -> dict[str, Any]:
        """Return the options of a cell's question: the fixed options, then the values of its factors."""
        spec = self.study.spec
        options = {"clarify": "never", "budget": spec.get("each"), **spec["options"]}
        for name, label in cell.factors.items():
            options[name] = next(value for known, value in spec["values"][name] if known == label)
        variation = {name: options.pop(name) for name in VARIATION if name in options}
        return {**options, "variation": variation}

    async def _settle(self) -> None:
        """Take ended tasks out, plan further attempts, and look after the cells that wait."""
        ended = [task for task in self._running if task.done()]
        for task in ended:
            del self._running[task]
            cell = task.result()
            if cell.state == WAITING:
                self._waiting[cell.cell_id] = cell
            elif cell.state == PLANNED:
                self._planned.append(cell)
        await self._count([task.result() for task in ended])
        if not self._waiting:
            return
        decisions = self.study.spec.get("decisions", {})
        run_ids = {str(cell.run_id): cell for cell in self._waiting.values()}
        is_decidable = await self._engine.database.read(partial(load_waiting, run_ids=list(run_ids), tools=decisions))
        for run_id, cell in run_ids.items():
            if run_id not in is_decidable:
                del self._waiting[cell.cell_id]
                self._start(cell)
            requests = await self._engine.services.approvals.open_requests(run_id) if is_decidable.get(run_id) else ()
            for request in requests:
                if request.tool in decisions:
                    with suppress(Conflict):  # a person has decided meanwhile
                        await self._engine.controller.decide(request.id, Decision(decisions[request.tool], scope="run"))

    async def _cancel_runs(self) -> None:
        """Cancel the cells that have not ended; a worker learns that the study is cancelled, and cancels the run."""
        if self.tell_workers is not None:
            await self.tell_workers()
        unfinished = partial(load_cells, study_id=self.study.study_id, states=UNFINISHED)
        is_over = False
        while not is_over:
            is_over = not self._running
            for cell in await self._engine.database.read(unfinished):
                if cell.run_id is not None:
                    with suppress(Conflict, NotFound):  # the run has ended or was deleted, or a worker drives the run
                        await self._engine.controller.cancel(cell.run_id)
                if is_over:
                    await self._stored(replace(cell, state=CANCELLED))
            if not is_over:
                await asyncio.wait(self._running, timeout=_POLL_S)
                await self._settle()
        self._planned.clear()
        self._waiting.clear()


async def drive_run(engine: "Engine", run: StoredRun) -> tuple[StoredRun, float]:
    """Drive a run, or wait while another engine drives the run; return the run, which has ended or waits.

    The number is the time in milliseconds in which requests waited for the rate.
    """
    times: list[float] = []
    queue_times.set(times)  # the task of the run inherits it
    while run.status == RUNNING or (run.status == WAITING and await engine.services.approvals.can_resume(run.run_id)):
        with suppress(Conflict):  # another engine drives the run
            await engine.controller.start(run)
        await engine.controller.join(run.run_id)
        run = await engine.runs.get(run.run_id)
        if run.status == RUNNING:
            is_closing = engine.run_locks.owns(run.owner) and not engine.controller.scheduler.is_driving(run.run_id)
            await asyncio.sleep(inf if is_closing else _POLL_S)  # the end of the engine cancels this task
    return run, sum(times)


def load_waiting(db: sqlite3.Connection, run_ids: Iterable[str], tools: Iterable[str]) -> dict[str, bool]:
    """Return which of these runs wait, and whether a run waits for one of the tools."""
    waiting = """
        SELECT run_id, run_id IN (
            SELECT coalesce(r.parent_run_id, r.run_id) FROM approvals AS a JOIN runs AS r ON r.run_id = a.run_id
            WHERE a.decision IS NULL AND a.tool_name IN (SELECT value FROM json_each(:tools))
        ) FROM runs WHERE status = 'waiting' AND run_id IN (SELECT value FROM json_each(:runs))
    """
    return dict(map(tuple, db.execute(waiting, {"tools": to_json(list(tools)), "runs": to_json(list(run_ids))})))


def thread_of(cell: Cell) -> str:
    """Return the thread of the next attempt at a cell."""
    return f"{cell.study_id}-{cell.key}-{cell.attempts + 1}"


def _with_run(cell: Cell, run_id: str) -> Cell:
    return replace(cell, state=RUNNING, run_id=run_id, attempts=cell.attempts + 1)
