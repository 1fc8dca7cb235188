"""Literature: bibliographies as sources, the works behind sources, BibTeX and citation styles."""

from dataclasses import replace

from artifactflow_nb.engine.plugin import Plugin
from artifactflow_nb.plugins.literature.bibliographies import READERS
from artifactflow_nb.plugins.literature.cited_works import addresses_of_works
from artifactflow_nb.plugins.literature.papers import describe_paper
from artifactflow_nb.plugins.literature.references import as_bibtex, as_csl, in_style
from artifactflow_nb.sources.formats.pdf import PDF

NOUNS = frozenset({"bibliography", "citeproc", "doi", "retracted", "retraction", "zotero"})
"""Words that no identifier outside of this folder has; `tests/package/test_plugins.py` checks it."""

LITERATURE = Plugin(
    "literature",
    readers={**READERS, ".pdf": replace(PDF, describe=describe_paper)},
    exports={"BibTeX": as_bibtex, "CSL-JSON": as_csl, "a citation style": in_style},
    related_addresses=addresses_of_works,
)
