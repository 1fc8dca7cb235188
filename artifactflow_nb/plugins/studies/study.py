"""`Study`: the handle of a study, as `wb.studies.start` returns it."""

import asyncio
import sqlite3
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import orjson

from artifactflow_nb.core.budget import Budget
from artifactflow_nb.core.language import in_language
from artifactflow_nb.errors import UsageError, brief, check_text
from artifactflow_nb.notebook.display import CellDisplay
from artifactflow_nb.notebook.run import HEARTBEAT_S
from artifactflow_nb.plugins.studies.driver import StudyDrivers
from artifactflow_nb.plugins.studies.graded import GradedStudy
from artifactflow_nb.plugins.studies.grid import plan_cells, question_rows
from artifactflow_nb.plugins.studies.tables import (
    CANCELLED,
    CELL_FRAME,
    FAILED,
    PLANNED,
    RUNNING,
    StudyRow,
    count_cells,
    insert_cells,
    load_cells,
    load_study,
    update_cell,
    update_study,
)
from artifactflow_nb.store.database import read_store

if TYPE_CHECKING:
    import pandas as pd

    from artifactflow_nb.plugins.studies.view import StudyView
    from artifactflow_nb.widgets.page.panel import Panel

_COLUMNS = {
    *("cell", "question_n", "question", "columns_json", "factors_json", "repeat", "state", "attempts", "run_id"),
    *("status", "outcome", "answer", "tokens", "cost_usd", "duration_ms", "queue_ms", "error"),
}


class Study(GradedStudy):
    """A study: questions asked with several values of factors, a run for each cell.

    Attributes:
        name: The name, unique in the store.
        study_id: The id in the store.
    """

    def __init__(
        self, workbench: Any, stored: StudyRow, objects: dict[Any, Any] | None = None, workers: Any = None
    ) -> None:
        self.name = stored.name
        self.study_id = stored.study_id
        self._workbench = workbench
        self._thread = workbench._thread  # noqa: SLF001 - a study is a part of its workbench
        self._display: CellDisplay = workbench._display  # noqa: SLF001
        self._objects = objects or {}
        self._workers = workers

    @property
    def _stored(self) -> StudyRow:  # type: ignore[override]  # nobody writes the attribute
        return read_store(self._thread.engine.database.path, lambda db: load_study(db, self.name))

    @property
    def state(self) -> str:
        """`running`, `done` or `cancelled`."""
        return self._stored.state

    def _resume(self) -> Self:
        """Drive the study here, unless it has ended or another kernel drives it; return at once."""
        drivers = self._thread.engine.service(StudyDrivers)
        self._thread.call(drivers.drive(self.name, self._objects, self._workers))
        return self

    # --- waiting -----------------------------------------------------------------------------------------------------

    def wait(self, timeout_s: float | None = None) -> Self:
        """Wait until no cell can go on without a decision; interrupting the cell ends the wait, not the study.

        Args:
            timeout_s: Seconds before `TimeoutError` ends the wait; the study goes on.

        Errors: `StoreError` if the store cannot be written; the study can go on later.
        """
        ended = self._thread.submit(self._ended())
        try:
            ended.result(timeout_s)
        except TimeoutError:
            raise TimeoutError(f"The study {self.name!r} has not ended after {timeout_s} s, and goes on.") from None
        finally:
            ended.cancel()
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        return self._wait_in_loop().__await__()

    async def _wait_in_loop(self) -> Self:
        """Wait without blocking the event loop of the kernel, which sees its Stop button between two steps."""
        ended = asyncio.wrap_future(self._thread.submit(self._ended()))
        try:
            while not ended.done():
                await asyncio.wait([ended], timeout=HEARTBEAT_S)
        finally:
            ended.cancel()
        ended.result()
        return self

    async def _ended(self) -> None:
        """Return when no cell can go on without a decision; called on the engine's loop.

        Another kernel may drive the study, and die.
        """
        engine = self._thread.engine
        drivers = engine.service(StudyDrivers)
        while True:
            driver = await drivers.drive(self.name, self._objects, self._workers)
            if driver is not None:
                waiting = asyncio.ensure_future(driver.settled.wait())
                await asyncio.wait([driver.task, waiting], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if driver.task.done() and not driver.task.cancelled():
                    driver.task.result()
                return
            state = (await engine.database.read(lambda db: load_study(db, self.name))).state
            if state != RUNNING or not await engine.database.read(self._count_active):
                return
            await asyncio.sleep(HEARTBEAT_S)

    def _count_active(self, db: sqlite3.Connection) -> int:
        return count_cells(db, self.study_id, (PLANNED, RUNNING))

    # --- changes -----------------------------------------------------------------------------------------------------

    def retry(self, states: str | Iterable[str] = FAILED) -> Self:
        """Do the failed cells again; the runs of earlier attempts stay. Return at once.

        Args:
            states: `failed`, `cancelled`, or a list of both.

        Errors: `UsageError` for another state.
        """
        chosen = [states] if isinstance(states, str) else list(states)
        if not chosen or not {FAILED, CANCELLED}.issuperset(chosen):
            raise UsageError(f"states is {brief(chosen)}; cells that are 'failed' or 'cancelled' can be done again.")

        def plan(db: sqlite3.Connection) -> None:
            for cell in load_cells(db, self.study_id, chosen):
                update_cell(db, cell.next_attempt())

        return self._change(plan)

    def extend(
        self, *, questions: Any = None, repeats: int | None = None, budget: Budget | Mapping[str, Any] | None = None
    ) -> Self:
        """Add cells: further questions with all factors and repeats, or further repeats; or raise the budget.

        Args:
            questions: Further questions, as for `wb.studies.start`.
            repeats: The new number of repeats, at least the number so far.
            budget: The new limits of the whole study.

        Errors: `UsageError` as for `wb.studies.start`, and for fewer repeats.
        """
        spec = self._stored.spec
        repeats = spec["repeats"] if repeats is None else repeats
        if not isinstance(repeats, int) or isinstance(repeats, bool) or repeats < spec["repeats"]:
            raise UsageError(f"repeats is {brief(repeats)}; it must be a whole number from {spec['repeats']}.")
        further = [] if questions is None else question_rows(questions)
        limits: dict[str, Any] = (
            {} if budget is None else {"budget": Budget.from_limits(budget).model_dump(exclude_none=True)}
        )
        factors = {name: dict(spec["values"][name]) for name in spec["vary"]}

        def plan(db: sqlite3.Connection) -> None:
            cells = load_cells(db, self.study_id)
            rows = {cell.question_n: (cell.question, cell.columns) for cell in cells}
            rows |= dict(enumerate((row for row in further if row not in rows.values()), len(rows)))
            keys = {cell.key for cell in cells}
            planned = plan_cells(self.study_id, list(rows.values()), factors, repeats)
            new = [cell for cell in planned if cell.key not in keys]
            insert_cells(db, (replace(cell, n=n) for n, cell in enumerate(new, len(cells))))

        return self._change(plan, repeats=repeats, **limits)

    def cancel(self) -> Self:
        """Cancel the runs and the planned cells; `retry("cancelled")` does the cells again."""
        return self._change(lambda _db: None, CANCELLED)

    def decide(self, tool: str, *, approved: bool) -> Self:
        """Decide all requests of the study for a tool, also of cells that start later; return at once."""
        check_text("tool", tool)
        decisions = {**self._stored.spec.get("decisions", {}), tool: bool(approved)}
        return self._change(lambda _db: None, decisions=decisions)

    def _change(self, plan: Callable[[sqlite3.Connection], None], state: str = RUNNING, **changes: Any) -> Self:
        """Change cells and the specification in one transaction, and let the study go on."""
        engine = self._thread.engine

        def write(db: sqlite3.Connection) -> None:
            plan(db)
            revision = load_study(db, self.name).spec["revision"] + 1
            update_study(db, self.study_id, state, revision=revision, **changes)

        async def change() -> None:
            await engine.database.write(write)
            driver = await engine.service(StudyDrivers).drive(self.name, self._objects, self._workers)
            if driver is not None:
                driver.refresh()

        self._thread.call(change())
        return self

    # --- results -----------------------------------------------------------------------------------------------------

    @property
    def df(self) -> "pd.DataFrame":  # type: ignore[override]  # as above
        """One row per cell: the columns of the question, the factors, the run, and the result."""
        import pandas as pd

        frame: pd.DataFrame = self._workbench._load(CELL_FRAME, study=self.name, columns=sorted(_COLUMNS))  # noqa: SLF001
        rows = zip(frame.pop("columns_json"), frame.pop("factors_json"), strict=True)
        values = [orjson.loads(columns) | orjson.loads(factors) for columns, factors in rows]
        further = pd.DataFrame(values, index=frame.index)
        first = ["cell", "question_n", "question"]
        frame = frame[[name for name in frame.columns if name in _COLUMNS]]
        return pd.concat([frame[first], further, frame.drop(columns=first)], axis=1)

    def answers(self) -> "pd.DataFrame":
        """The answers: a row per question, a column per combination of factors, and of repeats if there are several."""
        frame, spec = self.df, self._stored.spec
        columns = [*spec["vary"], *(["repeat"] if spec["repeats"] > 1 else [])]
        if not columns:
            return frame.set_index("question")[["answer"]]
        questions = frame.groupby("question_n")["question"].first()
        answers: pd.DataFrame = frame.pivot_table(
            index="question_n", columns=columns, values="answer", aggfunc="first", dropna=False
        )
        return answers.set_axis(questions.reindex(answers.index), axis="index")

    # --- display -----------------------------------------------------------------------------------------------------

    @property
    def panel(self) -> "Panel":
        """The live card of the study."""
        view = self._view()
        return self._display.panel(lambda _is_live: view)

    def _view(self) -> "StudyView":
        from artifactflow_nb.plugins.studies.view import StudyView, load_progress

        progress = read_store(self._thread.engine.database.path, lambda db: load_progress(db, self.name))
        return StudyView(self, progress)

    def _saved_output(self) -> dict[str, str]:
        with in_language(self._thread.language):
            return self._view().saved_output()

    def _ipython_display_(self) -> None:
        from artifactflow_nb.widgets.page.display import show_saved

        if self._display.is_live and self.state == RUNNING:
            self._display.show(self._view())
        else:
            show_saved(self._saved_output())

    def _display_(self) -> object:
        return self.panel  # marimo displays the returned value

    def _repr_html_(self) -> str:
        return self._saved_output()["text/html"]

    def __repr__(self) -> str:
        return f"Study({self.name!r}, state={self.state!r})"
