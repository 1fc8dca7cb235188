"""The value of the plugin, and `wb.data`: what a person shares, and what the agents computed from it."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from artifactflow_nb.analysis.frames.api import Frames
from artifactflow_nb.core.text.cards import Card, CardCell, CardMixin, CardTable, Code, Details
from artifactflow_nb.engine.plugin import Plugin
from artifactflow_nb.errors import ToolError, UsageError, brief
from artifactflow_nb.plugins.data.shared import DATA_RESULTS as RESULTS
from artifactflow_nb.plugins.data.shared import ComputedEvidence, EvidenceList, QueryResult, SharedData, load_results
from artifactflow_nb.plugins.data.snapshot import See, SharedFrame
from artifactflow_nb.plugins.data.tools import tools_for
from artifactflow_nb.store import frames as declared
from artifactflow_nb.store.database import read_store
from artifactflow_nb.store.frames import HasRunId, RunFilter
from artifactflow_nb.store.runs import load_full_id

if TYPE_CHECKING:
    import pandas as pd

    from artifactflow_nb.engine.engine import Engine

EVIDENCE = declared.Frame(
    "evidence",
    (
        *declared.stored_columns("what", declared.TEXT, "e", evidence_id="Id of the result, which sentences cite."),
        *declared.stored_columns("what", declared.TEXT, "e", title="What the result shows.", sql="SQL that was run."),
        *declared.stored_columns("what", declared.TEXT, "e", tables="Names of the tables, separated by commas."),
        *declared.stored_columns("size", declared.INT, "e", n_rows="Stored rows of the result."),
        *declared.stored_columns("time", declared.FLOAT, "e", duration_ms="Time of the query in milliseconds."),
        *declared.stored_columns("time", declared.TIME, "e", created_at="Start of the call."),
        *declared.stored_columns(declared.IDS, declared.TEXT, "e", tool_call_id="Call of the tool.", run_id="Its run."),
    ),
    f"main.{RESULTS.name} AS e",
    "e.rowid",
    declared.run_filters("e", "created_at"),
)


class DataResults:
    """The results of queries in a store: `wb.data`, and `run.data` of a sealed run."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames

    def evidence_df(self, run: RunFilter = None, **filters: Any) -> "pd.DataFrame":
        """Return one row per result of a query on shared data; arguments and errors are those of `wb.tool_calls_df`."""
        return self._frames._load(EVIDENCE, run, **filters)  # noqa: SLF001 - an accessor is a part of its workbench

    def evidence(self, run: HasRunId | str | None = None) -> EvidenceList:
        """Return the results of a run, or of all runs, by id: `wb.data.evidence(run)["data:c-1a2b3c"].df`."""
        run_id = run if isinstance(run, str) or run is None else run.run_id
        store = self._frames._store  # noqa: SLF001 - an accessor is a part of its workbench
        results = read_store(store, lambda db: load_results(db, run_id and load_full_id(db, run_id)))
        return EvidenceList(ComputedEvidence(result, self._compute) for result in results)

    def _compute(self, _result: QueryResult) -> QueryResult | None:
        return None  # a sealed run has no tables


class Data(DataResults, CardMixin):
    """The DataFrames that are shared with the agents of a workbench; agents see no other object of the kernel."""

    def __init__(self, workbench: Any) -> None:
        super().__init__(workbench)
        self._thread = workbench._thread  # noqa: SLF001 - an accessor is a part of its workbench
        self._shared: SharedData = self._thread.engine.service(SharedData)

    def share(self, *unnamed: Any, see: See = "rows", **frames: "pd.DataFrame") -> None:
        """Share snapshots of DataFrames under their names: `wb.data.share(casts=casts, stations=stations)`.

        From now on, agents have the tools of this plugin; sharing is the consent for their queries. A name that is
        shared already gets the new snapshot.

        Args:
            unnamed: Nothing; each frame needs a name.
            see: What models may see: results of any query (`rows`), of at least 5 rows (`aggregates`), or names and
                types of columns (`schema`).
            frames: The DataFrames by the names that SQL gives them.

        Errors: `UsageError` with advice for a frame that SQL cannot read, and if DuckDB is not installed; no frame is
        shared then.
        """
        if find_spec("duckdb") is None:
            raise UsageError("Queries need DuckDB, which is not installed: pip install 'artifactflow-nb[data]'")
        if unnamed or not frames:
            raise UsageError("Pass DataFrames by name: wb.data.share(casts=casts).")
        names = {name.casefold(): name for name in self._shared.frames}
        for name in frames:
            if names.setdefault(name.casefold(), name) != name or not name.isidentifier():
                raise UsageError(f"{brief(name)} is in use in another case, or cannot name a variable. Rename it.")
        self._change(self._shared.frames | {name: SharedFrame.of(name, frame, see) for name, frame in frames.items()})

    def unshare(self, *names: str) -> None:
        """Withdraw frames by name, or all frames; computed results stay. `UsageError` for an unknown name."""
        shared = self._shared.frames
        if missing := [name for name in names if name not in shared]:
            raise UsageError(f"{brief(missing[0])} is not shared. Shared: {', '.join(shared) or 'nothing'}.")
        self._change({name: frame for name, frame in shared.items() if names and name not in names})

    def _change(self, frames: dict[str, SharedFrame]) -> None:
        async def change() -> None:
            self._shared.frames = frames
            for entry in tools_for(frames.values()):
                self._thread.engine.register_tool(entry)

        self._thread.call(change())

    def _compute(self, result: QueryResult) -> QueryResult | None:
        with suppress(ToolError):
            computed: QueryResult = self._thread.call(self._shared.query(result.sql, result.title))
            return computed
        return None

    def _card(self) -> Card:
        from IPython.core.getipython import get_ipython

        names = getattr(get_ipython(), "user_ns", {})
        results = [evidence.result for evidence in self.evidence()]
        rows: list[Sequence[CardCell]] = []
        note = "" if self._shared.frames else "Nothing is shared. Share a DataFrame with wb.data.share(name=frame)."
        for name, frame in self._shared.frames.items():
            rows.append((name, *frame.frame.shape, frame.see, sum(name in result.tables for result in results)))
            if names.get(name, frame.source()) is not frame.source():
                note = f"The variable {name} is another frame now: to use it, share it again."
        queries = [(Code(each.evidence_id), each.title, each.sql, len(each.rows)) for each in reversed(results)]
        tables = {
            "Shared": CardTable(("table", "rows", "columns", "models see", "queries"), rows),
            "What was asked": CardTable.from_rows(("evidence", "title", "SQL", "rows"), queries),
        }
        folds = [Details(summary, table, is_open=True) for summary, table in tables.items() if table.rows]
        return Card("Shared data", str(len(rows)), [], folds, note)

    def __repr__(self) -> str:
        return f"Data({', '.join(self._shared.frames)})"


def _services(engine: "Engine") -> Mapping[type, Any]:
    return {SharedData: SharedData(engine.database, engine.secrets.mask, engine.clock.monotonic)}


def _check_row(table: str, row: Mapping[str, Any]) -> None:
    if table == RESULTS.name:
        QueryResult.from_row(row)


_NAMES = {
    "list_data": "list shared data",
    "describe_data": "describe shared data",
    "query_data": "query shared data",
    "plot_data": "plot shared data",
}
DATA = Plugin(
    "data",
    tables=(RESULTS,),
    frames=(EVIDENCE,),
    services=_services,
    labels={"tool": _NAMES, "activity": dict.fromkeys(_NAMES, "Computing")},
    check_row=_check_row,
)
