"""Results of queries as evidence: as DataFrames, as cells that compute them, and computed again."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isclose
from typing import TYPE_CHECKING, Any, Literal

from artifactflow_nb.core.text.cards import Card, CardMixin, CardTable, Code, Details, DisplayList
from artifactflow_nb.core.text.format import did_you_mean
from artifactflow_nb.errors import NotFound, brief
from artifactflow_nb.plugins.data.shared import QueryResult

if TYPE_CHECKING:
    import pandas as pd

_DTYPES: dict[str, Any] = {
    "integer": "Int64", "number": "Float64", "boolean": "boolean", "text": "string", "duration": "Float64",
}  # fmt: skip
_TOLERANCE = 1e-9  # the order of a parallel sum changes its last digits


@dataclass(frozen=True, slots=True)
class Recomputed:
    """A result that was computed again, with the first value that differs; a failed query has the status `no data`."""

    evidence_id: str
    status: Literal["same", "differs", "no data"]
    was: str = ""
    now: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class ComputedEvidence(CardMixin):
    """A result of a query, whose figures an answer cites as `[data:c-…]`; `result` is its stored form."""

    result: QueryResult
    _compute: Callable[[QueryResult], QueryResult | None] = field(compare=False)

    @property
    def df(self) -> "pd.DataFrame":
        """The stored rows; durations are in seconds, and values for which pandas has no type are unchanged."""
        import pandas as pd

        frame = pd.DataFrame(self.result.rows, columns=[name for name, _ in self.result.columns], dtype=object)
        for position, (_, kind) in enumerate(self.result.columns):
            values = frame.iloc[:, position]
            try:
                if kind in {"date", "time", "time in UTC"}:
                    times = pd.to_datetime(values, utc=kind == "time in UTC", format="ISO8601")
                    frame.isetitem(position, times.array)
                elif kind in _DTYPES:
                    frame.isetitem(position, values.astype(_DTYPES[kind]).array)
            except (ValueError, TypeError, OverflowError):
                continue  # a year that pandas has not, for example
        return frame

    @property
    def cell(self) -> str:
        """The source of a cell that computes the result from the variables of the notebook."""
        title = " ".join(self.result.title.split())
        sql = self.result.sql.strip()
        literal = repr(sql) if '"""' in sql else f'r"""\n{sql}\n"""'
        return f"# {title} ({self.result.evidence_id})\nimport duckdb\n\nduckdb.sql({literal}).df()\n"

    def to_cell(self) -> str | None:
        """Insert the cell below the current cell; outside of IPython, return the source of the cell instead."""
        from IPython.core.getipython import get_ipython

        if (shell := get_ipython()) is None:
            return self.cell
        shell.set_next_input(self.cell)
        return None

    def recompute(self) -> Recomputed:
        """Run the SQL on the frames that are shared now, and compare the rows, in any order, with the stored rows."""
        now = self._compute(self.result)
        differing = now and first_difference(self.result, now)
        status: Literal["same", "differs", "no data"] = "no data" if now is None else "differs" if differing else "same"
        return Recomputed(self.result.evidence_id, status, *(differing or ()))

    def _card(self) -> Card:
        result = self.result
        n_rows = f"more than {len(result.rows):,}" if result.is_cut else len(result.rows)
        table = CardTable.from_rows([name for name, _ in result.columns], result.rows)
        folds = [Details("Result", table, is_open=True), Details("SQL", Code(result.sql))]
        rows = [("title", result.title), ("tables", ", ".join(result.tables)), ("rows", n_rows)]
        return Card("Evidence", result.evidence_id, rows, folds)


class EvidenceList(DisplayList[ComputedEvidence]):
    """Results in the order of their queries; `evidence["data:c-1a2b3c"]` is the newest result with this id."""

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        ids = self._ipython_key_completions_()
        if key not in ids:
            shown_ids = ", ".join(dict.fromkeys(ids)) or "none"
            raise NotFound(f"There is no evidence {brief(key)}.{did_you_mean(key, ids)} Known: {shown_ids}.")
        return next(evidence for evidence in reversed(self) if evidence.result.evidence_id == key)

    def _ipython_key_completions_(self) -> list[str]:
        return [evidence.result.evidence_id for evidence in self]

    def _columns(self) -> list[str]:
        return ["evidence", "title", "tables", "rows"]

    def _cells(self, value: ComputedEvidence, /) -> list[Any]:
        result = value.result
        return [Code(result.evidence_id), result.title, ", ".join(result.tables), len(result.rows)]


def first_difference(was: QueryResult, now: QueryResult) -> tuple[str, str] | None:
    """Compare two results as sets of rows; return the first values that differ, with their column."""
    if len(was.rows) != len(now.rows):
        return f"{len(was.rows):,} rows", f"{len(now.rows):,} rows"
    old_rows, new_rows = (
        sorted(rows, key=lambda row: [f"{value:.6g}" if isinstance(value, float) else str(value) for value in row])
        for rows in (was.rows, now.rows)
    )
    for old, new in zip(old_rows, new_rows, strict=True):
        for (name, _), before, after in zip(was.columns, old, new, strict=False):
            are_numbers = {type(before), type(after)} <= {int, float}
            if before != after and not (are_numbers and isclose(before, after, rel_tol=_TOLERANCE)):  # type: ignore[arg-type]
                return f"{name}: {before}", f"{name}: {after}"
    return None
