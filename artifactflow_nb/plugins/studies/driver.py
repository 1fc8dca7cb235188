"""The driver of a study: a run for each cell, several at once, on the engine's loop.

::

    acquire the study ──> planned cells, in order ──> run_cell ──> done, or another attempt, or failed
                        a run of a dead kernel goes on       └──> waits for a decision: its place is free meanwhile

The thread of a run is named after its cell and attempt. So a kernel that dies between a run and the row of its cell
leaves no second run: the next driver finds the run by its thread.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.budget import Budget, BudgetUsage
from artifactflow_nb.errors import ArtifactFlowError, Conflict, ModelUnavailable, StoreError
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
    load_cells,
    load_study,
    update_cell,
)
from artifactflow_nb.store.approvals import load_open_requests
from artifactflow_nb.store.metrics import load_budget_usage
from artifactflow_nb.store.ownership import is_owner_gone

if TYPE_CHECKING:
    from artifactflow_nb.engine.engine import Engine

MAX_ATTEMPTS = 3
"""The number of attempts at a cell whose run fails for a reason outside of the cell."""

REPEATED_ERRORS = frozenset({ModelUnavailable.__name__, StoreError.__name__, "WorkerLost"})
"""Errors after which a cell is done again."""

_POLL_S = 0.5

RunCell = Callable[[Cell], Awaitable[str]]
"""Carries out an attempt at a cell and returns the id of the run, which has ended or waits."""


class StudyDrivers:
    """The studies that an engine drives, by id; closed with the engine."""

    def __init__(self, engine: "Engine") -> None:
        self.engine = engine
        self.drivers: dict[str, StudyDriver] = {}

    async def drive(self, name: str, objects: Mapping[Any, Any]) -> "StudyDriver | None":
        """Return the driver of a study, which is started if the study can go on; None if another engine drives it."""
        study = await self.engine.database.read(lambda db: load_study(db, name))
        driver = self.drivers.get(study.study_id)
        if driver is not None and not driver.task.done():
            return driver
        owner = self.engine.run_locks.acquire()
        if study.state != RUNNING or not await self.engine.database.write(lambda db: self._acquire(db, study, owner)):
            self.engine.run_locks.release(owner, is_over=True)
            return None
        driver = self.drivers[study.study_id] = StudyDriver(self.engine, study, owner, objects)
        return driver

    def _acquire(self, db: sqlite3.Connection, study: StudyRow, owner: str) -> bool:
        row = db.execute("SELECT owner, state FROM studies WHERE study_id = ?", (study.study_id,)).fetchone()
        if row["state"] != RUNNING or not is_owner_gone(self.engine.folder, row["owner"]):
            return False
        db.execute("UPDATE studies SET owner = ? WHERE study_id = ?", (owner, study.study_id))
        return True

    async def aclose(self) -> None:
        """Stop driving; another engine can go on."""
        for driver in self.drivers.values():
            driver.task.cancel()
        await asyncio.gather(*(driver.task for driver in self.drivers.values()), return_exceptions=True)


class StudyDriver:
    """Drives one study while this engine owns it.

    Attributes:
        task: Ends when no cell can be started or continued.
        run_cell: Carries out a cell; executors replace it.
    """

    def __init__(self, engine: "Engine", study: StudyRow, owner: str, objects: Mapping[Any, Any]) -> None:
        self._engine = engine
        self._study = study
        self._owner = owner
        self._objects = objects
        self._beginning = asyncio.Lock()
        self._planned: deque[Cell] = deque()
        self._running: dict[asyncio.Task[Cell], Cell] = {}
        self._waiting: dict[str, Cell] = {}
        self._is_cancelled = False
        self._spent = BudgetUsage()
        self.run_cell: RunCell = self._run_here
        self.task = asyncio.create_task(self._drive(), name=study.study_id)

    @property
    def spec(self) -> Mapping[str, Any]:
        """The specification of the study."""
        return self._study.spec

    async def _drive(self) -> None:
        is_over = False
        try:
            self._planned.extend(await self._engine.database.write(self._unfinished))
            while not self._is_cancelled:
                self._start_cells()
                if not self._running and not self._waiting:
                    break
                timeout = _POLL_S if self._waiting else None
                if self._running:
                    await asyncio.wait(self._running, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
                else:
                    await asyncio.sleep(_POLL_S)
                await self._settle()
                await self._look_after_waiting()
            is_over = True
            if not self._is_cancelled:
                statement = "UPDATE studies SET state = ?, owner = NULL WHERE study_id = ? AND owner = ?"
                values = DONE, self._study.study_id, self._owner
                await self._engine.database.write(lambda db: db.execute(statement, values).rowcount)
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            self._engine.run_locks.release(self._owner, is_over=is_over)

    def _unfinished(self, db: sqlite3.Connection) -> list[Cell]:
        """Return the unfinished cells, each with the run that a dead kernel has begun, if any."""
        cells = [cell for cell in load_cells(db, self._study.study_id) if cell.state in UNFINISHED]
        prefix = {"prefix": f"{self._study.study_id}-", "end": f"{self._study.study_id}."}
        threads = dict(
            db.execute("SELECT thread_id, run_id FROM runs WHERE thread_id > :prefix AND thread_id < :end", prefix)
        )
        resumed: list[Cell] = []
        for cell in cells:
            run_id = threads.get(_thread_id(cell, cell.attempts + 1))
            resumed.append(cell if run_id is None else _with_run(cell, run_id))
            if run_id is not None:
                update_cell(db, resumed[-1])
        return resumed

    # --- cells -------------------------------------------------------------------------------------------------------

    def _start_cells(self) -> None:
        while self._planned and len(self._running) < self.spec["at_once"] and self._can_pay():
            cell = self._planned.popleft()
            self._running[asyncio.create_task(self._carry_out(cell), name=cell.cell_id)] = cell

    def _can_pay(self) -> bool:
        """Return whether the budget of the study covers the running cells and another cell."""
        if (limits := self.spec.get("budget")) is None:
            return True
        each = Budget.from_limits(self.spec.get("each") or {}).limits
        budget, n_cells = Budget.from_limits(limits).limits, len(self._running) + len(self._waiting) + 1
        return all(
            getattr(self._spent, name) + n_cells * each.get(name, 0.0) <= limit and getattr(self._spent, name) < limit
            for name, limit in budget.items()
        )

    async def _carry_out(self, cell: Cell) -> Cell:
        """Carry out an attempt at a cell; return the cell after it."""
        try:
            run_id = await self.run_cell(cell)
        except StoreError as error:
            return await self._failed(cell, type(error).__name__, str(error))
        except ArtifactFlowError as error:
            return await self._stored(replace(cell, state=FAILED, error=str(error)))
        cell = replace(await self._engine.database.read(partial(load_cell, cell_id=cell.cell_id)), run_id=run_id)
        result = await self._engine.controller.result(run_id)
        match result.status:
            case "completed":
                return await self._stored(replace(cell, state=DONE, error=None))
            case "waiting":
                return await self._stored(replace(cell, state=WAITING))
            case "cancelled":
                return await self._stored(replace(cell, state=CANCELLED))
            case "failed":
                return await self._failed(cell, result.error_type or "", result.error_message or "")
        return cell  # the engine is being closed; the run goes on in another

    async def _failed(self, cell: Cell, error_type: str, message: str) -> Cell:
        """Plan another attempt at a cell, or let the cell fail."""
        if error_type in REPEATED_ERRORS and cell.attempts < MAX_ATTEMPTS:
            return await self._stored(cell.next_attempt())
        return await self._stored(replace(cell, state=FAILED, error=message))

    async def _stored(self, cell: Cell) -> Cell:
        await self._engine.database.write(lambda db: update_cell(db, cell))
        return cell

    async def _run_here(self, cell: Cell) -> str:
        """Ask the question of a cell on this engine, or continue its run; return when the run has ended or waits."""
        controller = self._engine.controller
        if cell.run_id is None:
            async with self._beginning:  # in the order of the cells, so that a recording plays in any order of ends
                run = await controller.begin(
                    cell.question, **self._options(cell), thread_id=_thread_id(cell, cell.attempts + 1)
                )
            await self._stored(_with_run(cell, run.run_id))
        else:
            run = await self._engine.runs.get(cell.run_id)
            if run.completed_at is not None or run.status == WAITING:
                return run.run_id
        with suppress(Conflict):  # another engine has ended the run meanwhile
            await controller.start(run)
        await controller.join(run.run_id)
        return run.run_id

    def _options(self, cell: Cell) -> dict[str, Any]:
        """Return the options of a cell's question: the fixed options, then the values of its factors."""
        options = {"clarify": "never", "budget": self.spec.get("each"), **self.spec["options"]}
        for name, label in cell.factors.items():
            value = next(value for known, value in self.spec["vary"][name] if known == label)
            options[name] = self._objects.get(label, value)
        return options

    async def _settle(self) -> None:
        """Take ended tasks out: count their usage, and plan further attempts."""
        for task in [task for task in self._running if task.done()]:
            del self._running[task]
            cell = task.result()
            run_id = cell.run_id or (cell.earlier_runs or [None])[-1]
            if cell.state == WAITING and run_id is not None:
                self._waiting[run_id] = cell
            elif run_id is not None:
                usage = await self._engine.database.read(partial(load_budget_usage, run_id=run_id, with_subruns=True))
                self._spent = self._spent.add(usage)
            if cell.state == PLANNED:
                self._planned.append(cell)

    async def _look_after_waiting(self) -> None:
        """Decide requests for tools that are decided for the study, and take up runs that have been decided."""
        for run_id, cell in list(self._waiting.items()):
            if (await self._engine.runs.get(run_id)).status == WAITING:
                await self._decide(run_id)
                continue
            del self._waiting[run_id]
            self._running[asyncio.create_task(self._carry_out(cell), name=cell.cell_id)] = cell

    async def _decide(self, run_id: str) -> None:
        spec = (await self._engine.database.read(lambda db: load_study(db, self._study.name))).spec
        decisions = spec.get("decisions", {})
        for request in await self._engine.database.read(lambda db: load_open_requests(db, run_id)):
            if request.tool in decisions:
                with suppress(Conflict):
                    await self._engine.controller.decide(request.id, Decision(decisions[request.tool], scope="run"))

    async def cancel(self) -> None:
        """Cancel the runs, and stop driving."""
        self._is_cancelled = True
        for cell in [*self._running.values(), *self._waiting.values()]:
            stored = await self._engine.database.read(partial(load_cell, cell_id=cell.cell_id))
            if stored.run_id is not None:
                with suppress(Conflict):
                    await self._engine.controller.cancel(stored.run_id)
        await asyncio.gather(*self._running, return_exceptions=True)
        self.task.cancel()


def load_cell(db: sqlite3.Connection, cell_id: str) -> Cell:
    """Return a cell by id."""
    return Cell.from_row(db.execute("SELECT * FROM study_cells WHERE cell_id = ?", (cell_id,)).fetchone())


def _thread_id(cell: Cell, attempt: int) -> str:
    return f"{cell.study_id}-{cell.key}-{attempt}"


def _with_run(cell: Cell, run_id: str) -> Cell:
    return replace(cell, state=RUNNING, run_id=run_id, attempts=cell.attempts + 1)
