"""Data: agents compute on the DataFrames that a person has shared, and their results are evidence.

::

    wb.data.share ── snapshot ──> SharedData ── a process without keys ──> DuckDB, one SELECT
    query_data    ── SQL ────────────┘                                        │
    evidence_df, evidence(run) <── table data_results <── rows of the result ─┘
"""

NOUNS = frozenset({"duckdb", "recompute", "unshare"})
"""Words that no identifier outside of this folder has; `tests/package/test_plugins.py` checks it."""
