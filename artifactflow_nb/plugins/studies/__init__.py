"""Studies: questions asked with several models, settings and repeats, stored as one grid of cells.

::

    wb.studies.start ── grid.py ──> the cells, stored before the first run ──> driver.py ── a run for each cell
    study.df, study.answers() <── tables.py <── the cells and their runs
    study.grade ── af.graders ──> grading.py ──> study_grades ──> graded.py, statistics.py: study.compare
"""

NOUNS = frozenset({"study", "studie", "grade", "claim"})
"""Words that no identifier outside of this folder has; `tests/package/test_plugins.py` checks it."""
