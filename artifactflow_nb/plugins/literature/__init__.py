"""Literature: the works behind sources, as references of a text, as BibTeX and in citation styles."""

from artifactflow_nb.engine.plugin import Plugin
from artifactflow_nb.plugins.literature.cited_works import addresses_of_works
from artifactflow_nb.plugins.literature.references import as_bibtex, as_csl, in_style

NOUNS = frozenset({"citeproc"})
"""Words that no identifier outside of this folder has; `tests/package/test_plugins.py` checks it."""

LITERATURE = Plugin(
    "literature",
    exports={"BibTeX": as_bibtex, "CSL-JSON": as_csl, "a citation style": in_style},
    related_addresses=addresses_of_works,
)
