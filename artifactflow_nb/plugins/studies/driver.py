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
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.budget import Budget, BudgetUsage
from artifactflow_nb.errors import ArtifactFlowError, Conflict, ModelUnavailable, NotFound, StoreError
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.plugins.studies.grid import VARIATION
from artifactflow_nb.plugins.studies.rates import Rate, RateLimiter, queue_times
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
from artifactflow_nb.store.metrics import load_budget_usage
from artifactflow_nb.store.ownership import is_owner_gone
from artifactflow_nb.store.runs import COMPLETED

if TYPE_CHECKING:
    from artifactflow_nb.engine.engine import Engine

MAX_ATTEMPTS = 3
"""The number of attempts at a cell whose run fails for a reason outside of the cell."""

REPEATED_ERRORS = frozenset({ModelUnavailable.__name__, StoreError.__name__, "WorkerLost"})
"""Errors after which a cell is done again."""

_POLL_S = 0.5
_REFRESH_S = 1.0

RunCell = Callable[[Cell], Awaitable[str]]
"""Carries out an attempt at a cell and returns the id of the run, which has ended or waits."""

MakeRunCell = Callable[["StudyDriver"], RunCell]


class WorkerLost(ArtifactFlowError):
    """The worker of a cell died; the cell is done again."""


class StudyDrivers:
    """The studies that an engine drives, by id; closed with the engine."""

    def __init__(self, engine: "Engine") -> None:
        self.engine = engine
        self.drivers: dict[str, StudyDriver] = {}
        self.limiter = RateLimiter()

    async def drive(
        self, name: str, objects: Mapping[Any, Any], make_run_cell: "MakeRunCell | None" = None
    ) -> "StudyDriver | None":
        """Return the driver of a study, which starts if cells can go on; None if no cell can go on here.

        Args:
            name: The name of the study.
            objects: The model objects and flows of the factors, by factor and label.
            make_run_cell: Returns the function that carries out cells, for a driver; None for runs on this engine.
        """
        study = await self.engine.database.read(lambda db: load_study(db, name))
        driver = self.drivers.get(study.study_id)
        if driver is not None and not driver.task.done():
            return driver
        owner = self.engine.run_locks.acquire()
        if not await self.engine.database.write(lambda db: self._acquire(db, study.study_id, owner)):
            self.engine.run_locks.release(owner, is_over=True)
            return None
        self.limiter.limit({name: Rate(**limits) for name, limits in study.spec.get("rates", {}).items()})
        for agent in self.engine.agents.values():
            if isinstance(agent.model, OpenAIModel):
                agent.model.limiter = self.limiter
        driver = self.drivers[study.study_id] = StudyDriver(self.engine, study, owner, objects)
        if make_run_cell is not None:
            driver.run_cell = make_run_cell(driver)
        return driver

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
    """

    def __init__(self, engine: "Engine", study: StudyRow, owner: str, objects: Mapping[Any, Any]) -> None:
        self.study = study
        self.settled = asyncio.Event()
        self.run_cell: RunCell = self._run_here
        self._engine = engine
        self._owner = owner
        self._objects = objects
        self._beginning = asyncio.Lock()
        self._wake = asyncio.Event()
        self._cells: dict[str, Cell] = {}
        self._planned: deque[Cell] = deque()
        self._running: dict[asyncio.Task[Cell], str] = {}
        self._waiting: dict[str, Cell] = {}
        self._n_lost: Counter[str] = Counter()
        self._refreshed_at = 0.0
        self._is_loaded = False
        self._spent = BudgetUsage()
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
                if self.study.state != RUNNING:
                    await self._cancel_runs()
                    if await self._engine.database.write(partial(self._end, state=self.study.state)):
                        break
                    self._refreshed_at = 0.0  # the study goes on after all
                    continue
                while self._planned and len(self._running) < self.study.spec["at_once"] and self._can_pay():
                    self._start(self._planned.popleft())
                if not self._running and not self._waiting:
                    if await self._engine.database.write(partial(self._end, state=DONE)):
                        break
                    self._refreshed_at = 0.0
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
        is_first, revision = not self._is_loaded, self.study.spec["revision"]
        self._refreshed_at, self._is_loaded = time.monotonic(), True
        self.study = await self._engine.database.read(lambda db: load_study(db, self.study.name))
        if not is_first and self.study.spec["revision"] == revision:
            return
        read = self._engine.database.write if is_first else self._engine.database.read
        for cell in await read(self._find_runs if is_first else self._load_new):
            self._cells[cell.cell_id] = cell
            self._planned.append(cell)
        if is_first and self.study.spec.get("budget"):
            self._spent = await self._engine.database.read(partial(load_usage, study_id=self.study.study_id))

    def _load_new(self, db: sqlite3.Connection) -> list[Cell]:
        """Return the cells that were planned by others: a new cell, or another attempt at an ended cell."""
        planned = load_cells(db, self.study.study_id, (PLANNED,))
        ended = {DONE, FAILED, CANCELLED}
        return [cell for cell in planned if getattr(self._cells.get(cell.cell_id), "state", DONE) in ended]

    def _find_runs(self, db: sqlite3.Connection) -> list[Cell]:
        """Return the unfinished cells, each with the run that a dead kernel has stored for it, if any."""
        prefix = {"first": f"{self.study.study_id}-", "end": f"{self.study.study_id}."}
        threads = dict(
            db.execute("SELECT thread_id, run_id FROM runs WHERE thread_id > :first AND thread_id < :end", prefix)
        )
        cells: list[Cell] = []
        for cell in load_cells(db, self.study.study_id, UNFINISHED):
            run_id = threads.get(thread_of(cell))
            cells.append(cell if run_id is None else _with_run(cell, run_id))
            if run_id is not None:
                update_cell(db, cells[-1])
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

    async def _carry_out(self, cell: Cell) -> Cell:
        """Carry out an attempt at a cell; return the cell after the attempt."""
        try:
            run_id = await self.run_cell(cell)
        except WorkerLost as error:  # without a run, the number of attempts stays
            self._n_lost[cell.cell_id] += 1
            is_last = self._n_lost[cell.cell_id] % MAX_ATTEMPTS == 0
            return await self._failed(cell, "" if is_last else type(error).__name__, str(error))
        except StoreError as error:
            return await self._failed(self._cells[cell.cell_id], type(error).__name__, str(error))
        except ArtifactFlowError as error:
            return await self._stored(replace(self._cells[cell.cell_id], state=FAILED, error=str(error)))
        cell = self._cells[cell.cell_id]
        cell = cell if cell.run_id == run_id else _with_run(cell, run_id)
        run = await self._engine.runs.get(run_id)
        if run.status == FAILED:
            return await self._failed(cell, run.error_type or "", run.error_message or "")
        state = {COMPLETED: DONE, WAITING: WAITING, CANCELLED: CANCELLED}.get(run.status)
        # A run that is still running goes on in another engine, because this one is being closed.
        return cell if state is None else await self._stored(replace(cell, state=state, error=None))

    async def _failed(self, cell: Cell, error_type: str, message: str) -> Cell:
        """Plan another attempt at a cell, or let the cell fail.

        After an error of the store, the run of the cell goes on where it was abandoned.
        """
        if error_type not in REPEATED_ERRORS or (cell.attempts and cell.attempts % MAX_ATTEMPTS == 0):
            return await self._stored(replace(cell, state=FAILED, error=message))
        if error_type == StoreError.__name__ and cell.run_id is not None:
            return await self._stored(replace(cell, state=PLANNED, attempts=cell.attempts + 1))
        return await self._stored(cell.next_attempt())

    async def _stored(self, cell: Cell) -> Cell:
        self._cells[cell.cell_id] = cell
        await self._engine.database.write(lambda db: update_cell(db, cell))
        return cell

    async def _run_here(self, cell: Cell) -> str:
        """Ask the question of a cell on this engine, or continue its run; return when the run has ended or waits."""
        controller = self._engine.controller
        if cell.run_id is None:
            async with self._beginning:  # in the order of the cells, so that a recording plays in any order of ends
                run = await controller.begin(cell.question, **self.options(cell), thread_id=thread_of(cell))
            await self._stored(_with_run(cell, run.run_id))
        else:
            run = await self._engine.runs.get(cell.run_id)
            if run.completed_at is not None:
                return run.run_id
        times: list[float] = []
        queue_times.set(times)  # the task of the run inherits it
        if run.status != WAITING or await self._engine.services.approvals.can_resume(run.run_id):
            with suppress(Conflict):  # another engine has ended the run meanwhile
                await controller.start(run)
        await controller.join(run.run_id)
        cell = self._cells[cell.cell_id]
        self._cells[cell.cell_id] = replace(cell, queue_ms=(cell.queue_ms or 0.0) + sum(times))
        return run.run_id

    def options(self, cell: Cell) -> dict[str, Any]:
        """Return the options of a cell's question: the fixed options, then the values of its factors."""
        spec = self.study.spec
        options = {"clarify": "never", "budget": spec.get("each")}
        for name, label in {**spec["options"], **cell.factors}.items():
            value = next(value for known, value in spec["values"][name] if known == label)
            options[name] = self._objects.get((name, label), value)
        variation = {name: options.pop(name) for name in VARIATION if name in options}
        return {**options, "variation": variation}

    async def _settle(self) -> None:
        """Take ended tasks out, plan further attempts, and look after the cells that wait."""
        for task in [task for task in self._running if task.done()]:
            del self._running[task]
            cell = task.result()
            if cell.state == WAITING:
                self._waiting[cell.cell_id] = cell
            elif self.study.spec.get("budget") and (run_id := cell.run_id or next(reversed(cell.earlier_runs), None)):
                usage = await self._engine.database.read(partial(load_budget_usage, run_id=run_id, with_subruns=True))
                self._spent = self._spent.add(usage)
            if cell.state == PLANNED:
                self._planned.append(cell)
        decisions = self.study.spec.get("decisions", {})
        for cell_id, cell in list(self._waiting.items()):
            if (await self._engine.runs.get(str(cell.run_id))).status != WAITING:
                del self._waiting[cell_id]
                self._start(cell)
                continue
            for request in await self._engine.services.approvals.open_requests(cell.run_id):
                if request.tool in decisions:
                    with suppress(Conflict):  # a person has decided meanwhile
                        await self._engine.controller.decide(request.id, Decision(decisions[request.tool], scope="run"))

    async def _cancel_runs(self) -> None:
        """Cancel the runs of the cells that have not ended."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for cell in await self._engine.database.read(
            partial(load_cells, study_id=self.study.study_id, states=UNFINISHED)
        ):
            if cell.run_id is not None:
                with suppress(Conflict, NotFound):  # the run has ended meanwhile, or was deleted
                    await self._engine.controller.cancel(cell.run_id)
            await self._stored(replace(cell, state=CANCELLED))


def load_usage(db: sqlite3.Connection, study_id: str) -> BudgetUsage:
    """Sum the usage of all attempts at the cells of a study."""
    cells = load_cells(db, study_id)
    run_ids = [run_id for cell in cells for run_id in (*cell.earlier_runs, cell.run_id) if run_id is not None]
    return reduce(
        BudgetUsage.add, (load_budget_usage(db, run_id, with_subruns=True) for run_id in run_ids), BudgetUsage()
    )


def thread_of(cell: Cell) -> str:
    """Return the thread of the next attempt at a cell."""
    return f"{cell.study_id}-{cell.key}-{cell.attempts + 1}"


def _with_run(cell: Cell, run_id: str) -> Cell:
    return replace(cell, state=RUNNING, run_id=run_id, attempts=cell.attempts + 1)
