"""The value of the plugin, and `wb.studies`: starts studies, and opens stored ones."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from artifactflow_nb.core.budget import Budget
from artifactflow_nb.core.clock_ids import whole_ms
from artifactflow_nb.core.text.cards import Card, CardMixin
from artifactflow_nb.engine.plugin import Plugin
from artifactflow_nb.errors import UsageError, brief, check_text
from artifactflow_nb.plugins.rates import Rate, rates_by_model
from artifactflow_nb.plugins.studies import tables
from artifactflow_nb.plugins.studies.driver import StudyDrivers
from artifactflow_nb.plugins.studies.grid import check_budget, factor_values, option_value, plan_cells, question_rows
from artifactflow_nb.plugins.studies.study import Study
from artifactflow_nb.plugins.studies.tables import StudyRow
from artifactflow_nb.store.database import read_store
from artifactflow_nb.store.schema import to_microseconds

if TYPE_CHECKING:
    import sqlite3

    from artifactflow_nb.engine.engine import Engine
    from artifactflow_nb.flows.base import FlowSpec
    from artifactflow_nb.plugins.ablation import Ablation

BudgetLike = Budget | Mapping[str, Any] | None
MAX_CELLS = 100_000


class Studies(CardMixin):
    """The studies of a workbench, by name and in the order of their creation: `wb.studies["depths"]`."""

    def __init__(self, workbench: Any) -> None:
        self._workbench = workbench
        self._thread = workbench._thread  # noqa: SLF001 - an accessor is a part of its workbench

    def start(
        self,
        questions: Any,
        *,
        name: str,
        vary: Mapping[str, Any] | None = None,
        repeats: int = 1,
        budget: BudgetLike = None,
        each: BudgetLike = None,
        at_once: int = 16,
        rates: Mapping[str, Rate | Mapping[str, int]] | None = None,
        on: Any = None,
        exchange: str | None = None,
        **options: Any,
    ) -> Study:
        """Store a study and start it; return at once. A stored study of the same plan goes on, with its own budget.

        Args:
            questions: A DataFrame with the column `question`, whose other columns are kept, or a list of texts.
            name: The name of the study.
            vary: The factors: names of options of `wb.ask`, each with a list of values, or with values by label.
            repeats: The number of runs with equal factors.
            budget: The limits of the whole study; a cell is started only if the limits cover the cell.
            each: The limits of each run.
            at_once: The number of cells that run at the same time.
            rates: The most requests and tokens a minute by name of model, for all runs of the workbench from now on.
            on: The processes that run the cells: an `Executor` of processes, a `distributed.Client`, or an object with
                `submit`; None for this kernel. Rates hold for each process.
            exchange: A folder that all machines can reach, as an address of fsspec, for workers on other machines.
            options: Options of `wb.ask` for all cells.

        Errors: `UsageError` for an invalid plan, and for the name of a study with another plan.
        """
        check_text("name", name)
        for label, number in (("repeats", repeats), ("at_once", at_once)):
            if not isinstance(number, int) or isinstance(number, bool) or number < 1:
                raise UsageError(f"{label} is {brief(number)}; it must be a whole number from 1.")
        engine = self._thread.engine
        secrets = engine.secrets.refresh()
        factors = secrets.value(factor_values(vary or {}))
        fixed = secrets.value({option: option_value(option, value) for option, value in options.items()})
        if repeated := sorted(factors.keys() & fixed.keys()):
            raise UsageError(f"{repeated[0]} is a factor and an option for all cells; pass one of both.")
        spec = {
            "vary": {name: list(values) for name, values in factors.items()},
            "options": fixed,
            "values": {name: list(map(list, values.items())) for name, values in factors.items()},
            "repeats": repeats,
            "at_once": at_once,
            "revision": 0,
            "rates": rates_by_model(rates or {}),
        }
        for limit, value in (("budget", budget), ("each", each)):
            spec |= {} if value is None else {limit: option_value("budget", Budget.from_limits(value))}
        check_budget(engine.run_config, spec)
        rows = question_rows(questions, secrets)
        created_at = to_microseconds(whole_ms(engine.clock.now()))
        stored = StudyRow(engine.ids.new("study"), name, created_at, spec, tables.RUNNING)
        cells = plan_cells(stored.study_id, rows, factors, repeats)
        if len(cells) > MAX_CELLS:
            raise UsageError(f"The study would have {len(cells):,} cells; at most {MAX_CELLS:,} are possible.")

        def store(db: "sqlite3.Connection") -> StudyRow:
            if name not in tables.study_names(db):
                tables.insert_study(db, stored, cells)
                return stored
            present = tables.load_study(db, name)
            is_planned = {cell.key for cell in cells} <= {cell.key for cell in tables.load_cells(db, present.study_id)}
            if not is_planned or any(present.spec.get(name) != spec.get(name) for name in ("options", "each")):
                raise UsageError(
                    f"There is a study {name!r} with other questions, factors, options or limits of a run. Choose "
                    f"another name, or add to the study: wb.studies[{name!r}].extend(...)."
                )
            tables.update_study(db, present.study_id, present.state, at_once=at_once, rates=spec["rates"])
            return present

        workers = None
        if on is not None:
            from artifactflow_nb.plugins.studies.workers import WorkerCells

            workers = WorkerCells(engine, on, exchange)
        started = self._thread.call(engine.database.write(store))
        return Study(self._workbench, started, workers)._resume()  # noqa: SLF001 - the handle is new

    def ablate(
        self, run: Any, by: Literal["sources", "steps"] = "sources", repeats: int = 5, grade: Any = None
    ) -> "Ablation":
        """Measure what an answer rests on; return at once. The same call goes on after a restart of the kernel.

        Each source that the run has read is withheld in forks that begin where the run first found it; or each model
        step is sampled again. The steps before a fork cost nothing. `await` the result, or look at its `df` meanwhile.

        Args:
            run: A run that has ended, or its id.
            by: `sources` or `steps`.
            repeats: The number of forks for each source or step.
            grade: A function of the answer that returns a number, or a grader; None to compare figures or texts.

        Errors: `UsageError` for an invalid argument or a workbench with a cassette; `Conflict` for a run that goes on.
        """
        from artifactflow_nb.plugins.ablation import ablate

        return ablate(self._workbench, run, by, repeats, grade)

    def import_study(self, path: str | os.PathLike[str]) -> Study:
        """Import a study that `study.seal` wrote, with its runs and grades.

        Errors: `CassetteError` for a file that cannot be used, `Conflict` for the name of another study.
        """
        from artifactflow_nb.plugins.studies.sealed import import_study, read_study

        content, runs = read_study(path)
        self._thread.call(self._thread.engine.database.write(lambda db: import_study(db, content, runs)))
        return self[content[tables.STUDY_TABLE.name][0]["name"]]

    def __getitem__(self, name: str) -> Study:
        """Open a stored study; a study that no kernel drives goes on here."""
        stored = read_store(self._thread.engine.database.path, lambda db: tables.load_study(db, name))
        return Study(self._workbench, stored)._resume()  # noqa: SLF001 - the handle is new

    def _ipython_key_completions_(self) -> list[str]:
        """Return the names of the studies, for completion after `[`."""
        return read_store(self._thread.engine.database.path, tables.study_names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._ipython_key_completions_())

    def __len__(self) -> int:
        return len(self._ipython_key_completions_())

    def _card(self) -> Card:
        note = "" if len(self) else 'No studies yet. Start one with wb.studies.start(questions, name="...").'
        return Card("Studies", str(len(self)), [("names", ", ".join(self))], note=note)

    def __repr__(self) -> str:
        return f"Studies({', '.join(map(repr, self))})"


def _services(engine: "Engine") -> Mapping[type, Any]:
    return {StudyDrivers: StudyDrivers(engine)}


def _flows() -> "Sequence[FlowSpec]":
    from artifactflow_nb.plugins.studies.grading import judge_flows

    return judge_flows()


STUDIES = Plugin(
    "studies",
    flows=_flows,
    tables=(tables.STUDY_TABLE, tables.CELL_TABLE, tables.GRADE_TABLE),
    frames=(tables.CELL_FRAME, tables.GRADE_FRAME),
    services=_services,
    labels={"status": {"planned": "planned", "done": "done"}},
)
