"""Claims: what a text states, checked offline against the sources that it cites or the outputs of its notebook.

`af.check_notebook` and `python -m artifactflow_nb check` start no engine: this folder imports no other room but
`core/text` and `errors`, except in the modules that have the claims of runs: `frame.py`, `versions.py`, `marks.py`,
`accessor.py` and `plugin.py`.
"""

NOUNS = frozenset({"claim", "misquote", "misquoted", "figure_check"})
"""Words that no identifier outside of this folder has; `tests/package/test_plugins.py` checks it."""
