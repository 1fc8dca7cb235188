"""LangGraph graphs of other people as flows: `af.adapt`."""

from artifactflow_nb.engine.plugin import Plugin

NOUNS = frozenset({"adapted", "breakpoint", "superstep"})
"""Words that no identifier outside of this folder has; `tests/package/test_plugins.py` checks it."""

GRAPHS = Plugin("graphs")
