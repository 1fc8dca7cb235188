"""The frame of all works, and the works that the texts of a run or of an artifact cite, as references."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from artifactflow_nb.analysis.frames.api import Frames
from artifactflow_nb.analysis.frames.computed import frame_from_rows
from artifactflow_nb.core.local_files import AnyPath
from artifactflow_nb.engine.cited_sources import CitedTexts
from artifactflow_nb.export.document import ExportDocument
from artifactflow_nb.plugins.literature.citation_style import in_citation_style
from artifactflow_nb.plugins.literature.cited_works import all_works, cited_works
from artifactflow_nb.plugins.literature.works import Work, to_bibtex
from artifactflow_nb.sources.citation_marks import listed_sources
from artifactflow_nb.store.database import read_store
from artifactflow_nb.store.frames import BOOL, ENUM, INT, TEXT

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = {
    "title": TEXT, "authors": TEXT, "year": INT, "venue": TEXT, "type": ENUM, "doi": TEXT, "arxiv_id": TEXT,
    "is_retracted": BOOL, "key": TEXT, "n_sources": INT, "addresses": TEXT, "abstract": TEXT,
}  # fmt: skip


class Literature:
    """`wb.literature`: the publications among the sources of a workbench, or of a sealed run."""

    def __init__(self, frames: Frames) -> None:
        self._store = frames._store  # noqa: SLF001 - an accessor is a part of its workbench

    def works_df(self) -> "pd.DataFrame":
        """Load a row for each publication: the PDF files among the sources, and the entries of bibliographies.

        A publication that several sources describe is one row. Columns: `title`, `authors` (separated by `; `), `year`,
        `venue`, `type` (of CSL), `doi`, `arxiv_id`, `is_retracted`, `key` (of the bibliography), `n_sources`,
        `addresses` (of the sources, separated by spaces) and `abstract`. Unknown values are NA.
        """
        works = read_store(self._store, all_works)
        return frame_from_rows("works", _COLUMNS, [_row(addresses, work) for addresses, work in works])


def _row(addresses: list[str], work: Work) -> tuple[object, ...]:
    """Return the values of `_COLUMNS`."""
    authors, kind = "; ".join(work.authors), work.item.get("type")
    about = work.title, authors, work.year, work.venue, kind, work.doi, work.arxiv_id, work.is_retracted, work.key
    values = *about, len(addresses), " ".join(addresses), work.abstract
    return tuple(None if value == "" else value for value in values)


def _works_by_number(cited: CitedTexts) -> Mapping[int, Work]:
    sources = listed_sources(*cited.texts)
    return cited.read(lambda db: cited_works(db, sources, lambda addresses: cited.load_evidence(db, addresses)))


def _works(cited: CitedTexts) -> list[Work]:
    return list({work.key: work for work in _works_by_number(cited).values()}.values())  # a key for each work


def as_bibtex(cited: CitedTexts) -> str:
    """Return the works that texts cite as BibTeX."""
    return to_bibtex(_works(cited))


def as_csl(cited: CitedTexts) -> list[dict[str, Any]]:
    """Return the works that texts cite as items of CSL-JSON."""
    return [dict(work.item) for work in _works(cited)]


def in_style(cited: CitedTexts, document: ExportDocument, style: AnyPath) -> ExportDocument:
    """Return a document with the citations and the list of sources in a citation style."""
    return in_citation_style(document, _works_by_number(cited), style)
