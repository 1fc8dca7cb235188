"""Studies: questions asked with several models, settings and repeats, stored as one grid of cells.

::

    wb.studies.start ── grid.py ──> the cells, stored before the first run ──> driver.py ── a run for each cell
    study.df, study.answers() <── tables.py <── the cells and their runs        │
                                                rates.py: requests and tokens a minute
"""

NOUNS = frozenset({"study", "studie", "grade"})
"""Words that no identifier outside of this folder has; `tests/package/test_plugins.py` checks it."""
