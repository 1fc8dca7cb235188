"""The SQL that a model may run: one SELECT on shared tables, with the functions of SQL that read nothing else.

The check reads the syntax tree that DuckDB makes (`json_serialize_sql`), never the text; a statement without a tree is
refused. A query gets only the tables that its tree names, so a table that the check overlooks does not exist for it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from artifactflow_nb.plugins.data.snapshot import MIN_GROUP, quoted

TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest", "repeat_row"})
DENIED_FUNCTIONS = re.compile(
    r"(duckdb|pragma|pg|json_(de)?serialize|json_execute|read|write|scan|query|current_setting|getvariable|getenv)(_|$)"
)
# The result of these aggregates is the value of no single row, unlike `min`, `median` and `list`.
AGGREGATES = frozenset({
    "avg", "corr", "count", "count_star", "covar_pop", "covar_samp", "mean", "regr_avgx", "regr_avgy", "regr_count",
    "regr_intercept", "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy", "stddev", "stddev_pop",
    "stddev_samp", "sum", "var_pop", "var_samp", "variance", "approx_count_distinct",
})  # fmt: skip


class Refused(Exception):
    """A query that is not run; the message is for the model and has no value of a frame."""


class Statement:
    """The syntax tree of one SELECT, which a connection of DuckDB parses; `Refused` for anything else."""

    def __init__(self, connection: Any, sql: str) -> None:
        import duckdb

        self._connection = connection
        try:
            statements = connection.extract_statements(sql)
        except duckdb.Error as error:
            raise Refused(f"The SQL cannot be read: {first_lines(error)}") from None
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise Refused(f"Pass exactly one SELECT; the SQL is another statement, or several ({len(statements)}).")
        tree = self._tree(sql)
        if tree.get("error") or len(tree.get("statements", ())) != 1:
            raise Refused(f"The SQL cannot be checked, {tree.get('error_message', '')!r}; write it as one SELECT.")
        self._root = tree
        self.node: dict[str, Any] = tree["statements"][0]["node"]

    def _tree(self, sql: str) -> Any:
        return json.loads(self._connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()[0])

    @property
    def sql(self) -> str:
        """The SQL of the tree."""
        return str(self._connection.execute("SELECT json_deserialize_sql(?)", [json.dumps(self._root)]).fetchone()[0])

    def tables(self, shared: Mapping[str, str]) -> dict[str, str]:
        """Return the shared tables that the query reads; `Refused` if the query reads anything else."""
        common = {
            entry["key"].casefold() for node in _walk(self._root) for entry in node.get("map", ()) if "key" in entry
        }
        used: set[str] = set()
        for node in _walk(self._root):
            if node.get("type") == "BASE_TABLE":
                name, place = str(node["table_name"]).casefold(), node.get("schema_name") or node.get("catalog_name")
                if place or name not in {*map(str.casefold, shared), *common}:
                    raise Refused(f"There is no shared table {name!r}. Shared tables: {', '.join(shared)}.")
                used.add(name)
            function = _function(node.get("function", node))
            if node.get("type") == "TABLE_FUNCTION" and function not in TABLE_FUNCTIONS:
                raise Refused(f"The table function {function!r} is not allowed; read shared tables only.")
            if str(node.get("show_type")).startswith("SHOW"):
                raise Refused("SHOW is not allowed; list_data names the shared tables.")
            if DENIED_FUNCTIONS.match(function):
                raise Refused(f"The function {function!r} is not allowed.")
        return {name: see for name, see in shared.items() if name.casefold() in used}

    def require_aggregates(self, name: str, scalars: frozenset[str]) -> None:
        """Leave out groups that are too small; `Refused` for a query that shows more than aggregates of one table."""
        rule = f"models see aggregates of {name} only"
        node, table = self.node, self.node.get("from_table", {})
        if node.get("type") != "SELECT_NODE" or table.get("type") != "BASE_TABLE" or table.get("sample"):
            raise Refused(f"{rule}: read that table alone, without joins, subqueries and set operations.")
        if node["cte_map"]["map"] or node.get("qualify") or node.get("sample"):
            raise Refused(f"{rule}: write no WITH, QUALIFY and SAMPLE.")
        parts = [node.get(part) for part in ("select_list", "modifiers", "having", "where_clause", "group_expressions")]
        counts = ["count(*)", *sorted({*_counts(parts, rule, scalars)})]
        conditions = [f"{count} >= {MIN_GROUP}" for count in counts]
        having = self._tree(f"SELECT 1 HAVING {' AND '.join(conditions)}")["statements"][0]["node"]["having"]
        if before := node.get("having"):
            having = {**having, "class": "CONJUNCTION", "type": "CONJUNCTION_AND", "children": [before, having]}
        node["having"] = having


def first_lines(error: Exception) -> str:
    """Return the message of an error of DuckDB, without the drawing of the place."""
    return str(error).partition("\n\nLINE")[0].strip()[:600]


def _walk(value: Any) -> Iterator[dict[str, Any]]:
    """Yield all objects of a tree, the outer objects first."""
    if isinstance(value, dict):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(part, dict | list):
            yield from _walk(part)


def _function(node: Mapping[str, Any]) -> str:
    """Return the name of the function that a node calls; empty for other nodes."""
    return str(node.get("function_name", "")).lower()


def _counts(value: Any, rule: str, scalars: frozenset[str]) -> Iterator[str]:
    """Yield counts of the values that an expression's aggregates use; `Refused` if the expression can show one row."""
    for node in _walk(value):
        if node.get("class") in {"SUBQUERY", "WINDOW", "LAMBDA", "STAR"}:
            raise Refused(f"{rule}: write no {str(node['class']).lower()}.")
        name = _function(node)
        if not name or name in scalars:
            continue
        if name not in AGGREGATES:  # also a macro, which may be an aggregate of an expression
            names = ", ".join(sorted(AGGREGATES))
            raise Refused(f"{rule}: {name} could show the value of a single row. Use one of {names}.")
        if node.get("filter") or (node.get("order_bys") or {}).get("orders") or node.get("schema"):
            raise Refused(f"{rule}: write {name}(column), and the condition into WHERE.")
        columns = []
        for argument in node["arguments"]:  # an older DuckDB has no such field: its queries fail here
            expression = argument["expression"]
            if expression.get("class") != "COLUMN_REF":
                raise Refused(f"{rule}: pass a column to {name}, not an expression.")
            columns.append(".".join(map(quoted, expression["column_names"])))
        if columns and name not in {"count", "approx_count_distinct"}:  # two columns: rows that have both values
            yield f"{'count' if len(columns) == 1 else 'regr_count'}({', '.join(columns)})"
