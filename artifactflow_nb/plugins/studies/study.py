"""`Study`: the handle of a study, as `wb.studies.start` returns it."""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import orjson

from artifactflow_nb.core.budget import Budget
from artifactflow_nb.core.language import in_language
from artifactflow_nb.core.local_files import absolute_path
from artifactflow_nb.errors import Conflict, UsageError, brief, check_text
from artifactflow_nb.notebook.display import CellDisplay
from artifactflow_nb.notebook.run import HEARTBEAT_S
from artifactflow_nb.plugins.studies import tables
from artifactflow_nb.plugins.studies.driver import StudyDrivers
from artifactflow_nb.plugins.studies.graded import GradedStudy
from artifactflow_nb.plugins.studies.grid import check_budget, option_value, plan_cells, question_rows
from artifactflow_nb.plugins.studies.tables import StudyRow
from artifactflow_nb.recording.files import write_bytes
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

    def __init__(self, workbench: Any, stored: StudyRow, workers: Any = None) -> None:
        self.name = stored.name
        self.study_id = stored.study_id
        self._workbench = workbench
        self._thread = workbench._thread  # noqa: SLF001 - a study is a part of its workbench
        self._display: CellDisplay = workbench._display  # noqa: SLF001
        self._workers = workers

    def _read(self, work: Callable[[sqlite3.Connection], Any]) -> Any:
        return read_store(self._thread.engine.database.path, work)

    @property
    def _stored(self) -> StudyRow:  # type: ignore[override]  # nobody writes the attribute
        stored: StudyRow = self._read(lambda db: tables.load_study(db, self.name))
        return stored

    @property
    def state(self) -> str:
        """`running`, `done` or `cancelled`."""
        return self._stored.state

    def _resume(self) -> Self:
        """Drive the study in this process, unless it has ended or another kernel drives it; return at once."""
        drivers = self._thread.engine.service(StudyDrivers)
        self._thread.call(drivers.drive(self.name, self._workers))
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
            while not (await asyncio.wait([ended], timeout=HEARTBEAT_S))[0]:
                pass
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
            driver = await drivers.drive(self.name, self._workers)
            if driver is not None:
                waiting = asyncio.ensure_future(driver.settled.wait())
                await asyncio.wait([driver.task, waiting], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if driver.task.done() and not driver.task.cancelled():
                    driver.task.result()
                return
            state = (await engine.database.read(lambda db: tables.load_study(db, self.name))).state
            active = partial(tables.count_cells, study_id=self.study_id, states=(tables.PLANNED, tables.RUNNING))
            if state != tables.RUNNING or not await engine.database.read(active):
                return
            await asyncio.sleep(HEARTBEAT_S)

    # --- changes -----------------------------------------------------------------------------------------------------

    def retry(self, states: str | Iterable[str] = tables.FAILED) -> Self:
        """Do the failed cells again, and cells whose run was deleted; earlier runs stay. Return at once.

        Args:
            states: `failed`, `cancelled`, or a list of both.

        Errors: `UsageError` for another state.
        """
        chosen = [states] if isinstance(states, str) else list(states)
        if not chosen or not {tables.FAILED, tables.CANCELLED}.issuperset(chosen):
            raise UsageError(f"states is {brief(chosen)}; cells that are 'failed' or 'cancelled' can be done again.")

        def plan(db: sqlite3.Connection) -> None:
            stored = {row["run_id"] for row in db.execute("SELECT run_id FROM runs")}
            for cell in tables.load_cells(db, self.study_id, {*chosen, tables.DONE}):
                if cell.state in chosen or cell.run_id not in stored:
                    tables.update_cell(db, cell.next_attempt())

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
        engine, spec = self._thread.engine, self._stored.spec
        repeats = spec["repeats"] if repeats is None else repeats
        if not isinstance(repeats, int) or isinstance(repeats, bool) or repeats < spec["repeats"]:
            raise UsageError(f"repeats is {brief(repeats)}; it must be a whole number from {spec['repeats']}.")
        further = [] if questions is None else question_rows(questions, engine.secrets.refresh())
        limits = {} if budget is None else {"budget": option_value("budget", Budget.from_limits(budget))}
        check_budget(engine.run_config, {**spec, **limits})
        factors = {name: dict(spec["values"][name]) for name in spec["vary"]}

        def plan(db: sqlite3.Connection) -> None:
            cells = tables.load_cells(db, self.study_id)
            rows = {cell.question_n: (cell.question, cell.columns) for cell in cells}
            rows |= dict(enumerate((row for row in further if row not in rows.values()), len(rows)))
            keys = {cell.key for cell in cells}
            planned = plan_cells(self.study_id, list(rows.values()), factors, repeats)
            new = [cell for cell in planned if cell.key not in keys]
            tables.insert_cells(db, (replace(cell, n=n) for n, cell in enumerate(new, len(cells))))

        return self._change(plan, repeats=repeats, **limits)

    def cancel(self) -> Self:
        """Cancel the runs and the planned cells; `retry("cancelled")` does the cells again."""
        n_unfinished = self._read(partial(tables.count_cells, study_id=self.study_id, states=tables.UNFINISHED))
        return self._change(lambda _db: None, tables.CANCELLED) if n_unfinished else self

    def decide(self, tool: str, *, approved: bool) -> Self:
        """Decide the requests for a tool, also of cells that start later; `Conflict` for a cancelled study."""
        check_text("tool", tool)
        if self.state == tables.CANCELLED:
            raise Conflict(f"The study {self.name!r} is cancelled, so nothing waits. Call study.retry('cancelled').")
        decisions = {**self._stored.spec.get("decisions", {}), tool: bool(approved)}
        return self._change(lambda _db: None, decisions=decisions)

    def _change(self, plan: Callable[[sqlite3.Connection], None], state: str = tables.RUNNING, **changes: Any) -> Self:
        """Change cells and the specification in one transaction, and let the study go on."""
        engine = self._thread.engine

        def write(db: sqlite3.Connection) -> None:
            plan(db)
            revision = tables.load_study(db, self.name).spec["revision"] + 1
            tables.update_study(db, self.study_id, state, revision=revision, **changes)

        async def change() -> None:
            await engine.database.write(write)
            driver = await engine.service(StudyDrivers).drive(self.name, self._workers)
            if driver is not None:
                driver.refresh()

        self._thread.call(change())
        return self

    # --- results -----------------------------------------------------------------------------------------------------

    @property
    def df(self) -> "pd.DataFrame":  # type: ignore[override]  # as above
        """One row per cell: the columns of the question, the factors, the run, and the result."""
        import pandas as pd

        frame: pd.DataFrame = self._workbench._load(tables.CELL_FRAME, study=self.name, columns=sorted(_COLUMNS))  # noqa: SLF001
        rows = zip(frame.pop("columns_json"), frame.pop("factors_json"), strict=True)
        values = [orjson.loads(columns) | orjson.loads(factors) for columns, factors in rows]
        further = pd.DataFrame(values, index=frame.index)
        first = ["cell", "question_n", "question"]
        frame = frame[[name for name in frame.columns if name in _COLUMNS]]
        return pd.concat([frame[first], further, frame.drop(columns=first)], axis=1)

    def answers(self) -> "pd.DataFrame":
        """Return the answers: a row per question, a column per combination of factors, and of repeats if several."""
        frame, spec = self.df, self._stored.spec
        columns = [*spec["vary"], *(["repeat"] if spec["repeats"] > 1 else [])]
        if not columns:
            return frame.set_index("question")[["answer"]]
        questions = frame.groupby("question_n")["question"].first()
        cells: dict[str, Any] = {"index": "question_n", "columns": columns, "values": "answer"}
        answers: pd.DataFrame = frame.pivot_table(**cells, aggfunc="first", dropna=False)
        return answers.set_axis(questions.reindex(answers.index), axis="index")

    def seal(self, path: str | os.PathLike[str], *, replace: bool = False) -> Path:
        """Write the study with its runs and grades to a file for `wb.studies.import_study`, without secrets.

        Errors: `Conflict` for a study that has not ended; `UsageError` for an existing file without `replace=True`.
        """
        from artifactflow_nb.plugins.studies.sealed import seal_study

        redactor = self._thread.engine.secrets.refresh().redactor
        data = self._read(lambda db: seal_study(db, self.name, redactor))
        return write_bytes(absolute_path(path), data, replace=replace)

    # --- display -----------------------------------------------------------------------------------------------------

    @property
    def panel(self) -> "Panel":
        """The live card of the study."""
        view = self._view()
        return self._display.panel(lambda _is_live: view)

    def _view(self) -> "StudyView":
        from artifactflow_nb.plugins.studies.view import StudyView, load_progress

        return StudyView(self, self._read(lambda db: load_progress(db, self.name)))

    def _saved_output(self) -> dict[str, str]:
        with in_language(self._thread.language):
            return self._view().saved_output()

    def _ipython_display_(self) -> None:
        from artifactflow_nb.widgets.page.display import show_saved

        if self._display.is_live and self.state == tables.RUNNING:
            self._display.show(self._view())
        else:
            show_saved(self._saved_output())

    def _display_(self) -> object:
        return self.panel  # marimo displays the returned value

    def _repr_html_(self) -> str:
        return self._saved_output()["text/html"]

    def __repr__(self) -> str:
        return f"Study({self.name!r}, state={self.state!r})"
