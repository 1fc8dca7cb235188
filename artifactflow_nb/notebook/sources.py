"""The methods of a workbench that index and search the person's sources."""

from pathlib import Path

from artifactflow_nb.analysis.frames.search import SearchFrame, search_frame
from artifactflow_nb.core.text.format import clip_words
from artifactflow_nb.errors import UsageError
from artifactflow_nb.notebook.display import CellDisplay
from artifactflow_nb.notebook.storage import OpenStore
from artifactflow_nb.sources.retrieval.sentences import collapse_whitespace
from artifactflow_nb.sources.values import IndexingResult
from artifactflow_nb.store.encoding import validate_row_count
from artifactflow_nb.tools.web.tools import SNIPPET_COLUMNS


class OpenSources(OpenStore):
    """The sources of a workbench."""

    _display: CellDisplay

    def add_sources(self, path: str | Path) -> IndexingResult:
        """Index a folder or a file (md, txt, html, pdf, py, ipynb); runs then search it instead of the reference.

        For an indexed folder only new and changed files are read, and the sources of missing files are removed. If a
        person may be looking, a line shows the progress. If the cell is interrupted, the indexed files are kept and the
        next call continues with the others.

        Errors: `UsageError` with the path if it is missing or gives no source.
        """
        from artifactflow_nb.widgets.progress import IndexingLine

        line = IndexingLine(str(path), is_attended=self._display.is_attended)
        try:
            result = self._thread.call_interruptible(self._thread.engine.add_sources(path, line.note), line.draw)
        except BaseException:
            line.end("Not finished")
            raise
        line.end("Indexed")
        return result

    def search_df(self, query: str, *, limit: int = 20) -> SearchFrame:
        """Search the sources as an agent would, and show the score of each stage; an agent sees the first 5 rows.

        Columns: `rank`, `title`, `snippet` (as an agent sees it), `score` (of the ranking; higher is better), `bm25`
        and `bm25_rank` (of the full-text index, which selects the candidates), `address`. Scores are comparable within
        one search only. No model is called.

        Args:
            query: A question or words.
            limit: Most sections to return.

        Errors: `UsageError` for an empty query or an invalid limit.
        """
        if not query.strip():
            raise UsageError("The query is empty. Pass the words to look for.")
        engine = self._thread.engine
        hits = self._thread.call(engine.search_sources(query, validate_row_count("limit", limit)))
        return search_frame(hits, [collapse_whitespace(clip_words(hit.snippet, SNIPPET_COLUMNS)) for hit in hits])
