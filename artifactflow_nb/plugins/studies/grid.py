"""The plan of a study: questions, factors and repeats as cells, each with a key of its content."""

from collections.abc import Iterable, Mapping
from itertools import product
from math import isnan
from typing import Any

import orjson

from artifactflow_nb.core.budget import Budget
from artifactflow_nb.engine.run_config import RunConfigBuilder
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.flows.known_secrets import KnownSecrets
from artifactflow_nb.plugins.studies.tables import Cell
from artifactflow_nb.store.encoding import sha256, storable_json

VARIATION = ("seed", "graph_config", "prompts")
FACTORS = ("model", "flow", "depth", "budget", "clarify", *VARIATION)
"""The options of a question that can vary between cells."""

QUESTION = "question"
"""The column of the questions."""

_KEY_CHARS = 16
RESERVED = {"cell", "question_n", "repeat", "state", "attempts", "run_id", "status", "outcome", "answer", "tokens"} | {
    *("cost_usd", "duration_ms", "queue_ms", "error", "grader", "score", "evidence", "judge", "graded_at")
}


def plan_cells(
    study_id: str, rows: Iterable[tuple[str, Mapping[str, Any]]], factors: Mapping[str, Mapping[Any, Any]], repeats: int
) -> list[Cell]:
    """Plan the cells: all rows of `question_rows` with the first repeat of all values, then the next repeat."""
    cells: dict[str, Cell] = {}
    for repeat, (number, (question, columns)) in product(range(repeats), enumerate(rows)):
        for labels in product(*factors.values()):
            chosen = dict(zip(factors, labels, strict=True))
            key = cell_key(question, columns, {name: factors[name][label] for name, label in chosen.items()}, repeat)
            cell_id = f"{study_id}/{key}"
            cells.setdefault(key, Cell(cell_id, study_id, key, len(cells), number, question, columns, chosen, repeat))
    return list(cells.values())


def check_budget(run_config: RunConfigBuilder, spec: Mapping[str, Any]) -> None:
    """Raise `UsageError` if a study limits the cost, and a model of the study has no price."""
    if "budget" in spec:
        models = dict(spec["values"].get("model", [(None, spec["options"].get("model"))]))
        for model in models.values():
            run_config.check_budget(Budget.from_limits(spec["budget"]), model)


def cell_key(question: str, columns: Mapping[str, Any], values: Mapping[str, Any], repeat: int) -> str:
    """Return the key of a cell: a hash of the question's row, the values of the factors and the repeat."""
    content = orjson.dumps([question, columns, values, repeat], option=orjson.OPT_SORT_KEYS).decode()
    return sha256(content)[:_KEY_CHARS]


def question_rows(questions: Any, secrets: KnownSecrets) -> list[tuple[str, dict[str, Any]]]:
    """Read questions: a DataFrame or a list of mappings with the column `question`, or a list or Series of texts.

    Known secrets are masked, as in the question of each run.

    Errors: `UsageError` for another value, for a missing column, and for an empty or repeated question.
    """
    if isinstance(questions, str | Mapping) or not isinstance(questions, Iterable):
        raise UsageError(f"questions is {brief(questions)}; pass a DataFrame with the column 'question', or a list.")
    table: Any = questions
    records = table.to_dict("records") if hasattr(table, "columns") else list(table)
    rows: list[tuple[str, dict[str, Any]]] = []
    for record in records:
        row = {QUESTION: record} if isinstance(record, str) else record
        if not isinstance(row, Mapping) or not isinstance(row.get(QUESTION), str) or not row[QUESTION].strip():
            raise UsageError(f"The question {len(rows)} is {brief(record)}; each row needs a text in 'question'.")
        columns = {str(name): _plain(value) for name, value in row.items() if name != QUESTION}
        if reserved := sorted(RESERVED.union(FACTORS) & columns.keys()):
            raise UsageError(f"A column of the questions is called {reserved[0]!r}, as a column of results; rename it.")
        rows.append((secrets.text(row[QUESTION].strip()), secrets.value(columns)))
    if not rows:
        raise UsageError("There are no questions. Pass a DataFrame with the column 'question', or a list of texts.")
    texts = [orjson.dumps(row) for row in rows]
    if len({*texts}) < len(texts):
        double = next(row for row, text in zip(rows, texts, strict=True) if texts.count(text) > 1)
        raise UsageError(f"The question {brief(double[0])} occurs twice. To ask it more often, pass repeats=.")
    return rows


def _plain(value: Any) -> Any:
    """Return a value of a DataFrame or of NumPy as JSON; missing values are None."""
    value = value.tolist() if hasattr(value, "tolist") else value
    is_missing = type(value).__name__ in {"NAType", "NaTType"} or (isinstance(value, float) and isnan(value))
    return None if is_missing else storable_json(value)


def factor_values(vary: Mapping[str, Any]) -> dict[str, dict[Any, Any]]:
    """Return the values of the factors as JSON, by label.

    The values of a factor are a list, or a mapping of labels to values.

    Errors: `UsageError` as for `option_value`, for a factor without values, and for values with the same label.
    """
    if not isinstance(vary, Mapping):
        raise UsageError(f'vary is {brief(vary)}; pass the values by factor, as {{"model": ["small", "large"]}}.')
    factors: dict[str, dict[Any, Any]] = {}
    for name, values in vary.items():
        if isinstance(values, str) or not isinstance(values, Iterable) or not (entries := list(values)):
            raise UsageError(f"vary[{name!r}] is {brief(values)}; pass a list of values, or labels with values.")
        pairs = values.items() if isinstance(values, Mapping) else [(_label(name, value), value) for value in entries]
        factors[name] = {}
        for key, value in pairs:
            label = plain if isinstance(plain := _plain(key), str | int | float | None) else f"{plain}"
            if label in factors[name]:
                raise UsageError(f"vary[{name!r}] has {brief(label)} twice; pass labels: {{label: value}}.")
            factors[name][label] = option_value(name, value)
    return factors


def option_value(name: str, value: Any) -> Any:
    """Return the value of an option of a question as JSON; `UsageError` for an unknown option, and for an object."""
    if name not in FACTORS:
        raise UsageError(f"{brief(name)} cannot vary. Factors: {', '.join(FACTORS)}.")
    if isinstance(value, Budget):
        return value.model_dump(exclude_none=True)
    value = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(value, str | int | float | Mapping | None):
        raise UsageError(
            f"{name} is {brief(value)}, and a study is stored: pass the name of a model at the endpoint, or of a "
            "flow that wb.register_flow has registered."
        )
    return storable_json(value)


def _label(name: str, value: Any) -> Any:
    if isinstance(value, Budget):
        return ", ".join(f"{limit:,.10g} {unit}" for unit, limit in value.limits.items())
    if isinstance(value, Mapping):
        raise UsageError(f"vary[{name!r}] has {brief(value)}; pass labels with values: {{label: value}}.")
    return _plain(option_value(name, value))
