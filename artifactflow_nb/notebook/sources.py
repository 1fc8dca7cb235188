"""The methods of a workbench that index and search the person's sources."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from artifactflow_nb.analysis.frames.search import SearchFrame, search_frame
from artifactflow_nb.core.budget import Budget
from artifactflow_nb.core.runs import DEPTH_SETTING
from artifactflow_nb.core.text.format import clip_words, with_context, without_context
from artifactflow_nb.errors import Conflict, UsageError
from artifactflow_nb.notebook.display import CellDisplay
from artifactflow_nb.notebook.refreshed_run import RefreshedRun, changes_text
from artifactflow_nb.notebook.run import Run, start_run
from artifactflow_nb.notebook.storage import OpenStore
from artifactflow_nb.recording.rows import ENDED
from artifactflow_nb.sources.changes import claims_on, sources_of_run
from artifactflow_nb.sources.retrieval.sentences import collapse_whitespace
from artifactflow_nb.sources.values import IndexingResult
from artifactflow_nb.store.artifact_versions import TASK_PLAN_ID
from artifactflow_nb.store.encoding import validate_row_count
from artifactflow_nb.tools.web.local import SNIPPET_COLUMNS

BudgetLike = Budget | Mapping[str, Any] | None


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

    def refresh(
        self, run: Run | str, *, web: bool = True, budget: BudgetLike = None, model: str | None = None
    ) -> RefreshedRun:
        """Compare the sources of a run with what is there now, and bring its report up to date if they have changed.

        Then a follow-up run on the branch of the run asks the question again with the changes; it writes a new version
        of the report. It is a run like others: with approvals, a budget, and in a recording. If nothing has changed,
        no model is called.

        Args:
            run: A run that has ended, or its id.
            web: Whether to fetch the pages again that the run read; never done in a replay.
            budget: The limits of the follow-up run; None for the configured ones.
            model: The name of its model; None for the configured one.

        Returns:
            The changed sources with the claims that rest on them, and the follow-up run, which may still be running.

        Errors: `NotFound` for an unknown run; `Conflict` for one that has not ended.
        """
        handle = run if isinstance(run, Run) else self.run(run)
        if handle.status not in ENDED:
            raise Conflict(f"The run {handle.run_id} is {handle.status}. Refresh it when it has ended.")
        engine = self._thread.engine
        written = {
            name: artifact.content
            for name, artifact in handle.artifacts.items()
            if artifact.run_id == handle.run_id and name != TASK_PLAN_ID
        }
        texts = [*written.values(), handle.response]
        used = sources_of_run(handle.rows()["tool_calls"], "\n\n".join(texts))
        with_pages = web and engine.settings.cassette_mode not in {"replay", "verify"}
        review = self._thread.call(engine.review_sources(used, with_pages=with_pages))
        claims = claims_on(texts)
        changes = tuple(replace(each, claims=tuple(claims.get(each.address, ()))) for each in review.changes)
        follow_up = None
        if changes:
            question = with_context(without_context(handle.question), [changes_text(changes, list(written))])
            flow = self._thread.call(engine.controller.flow_of_message(handle.message_id))
            follow_up = start_run(
                self._thread,
                self._display,
                lambda: engine.controller.begin(
                    question,
                    conversation_id=handle.conversation_id,
                    parent_message_id=handle.message_id,
                    flow=flow,
                    budget=budget,
                    model=model,
                    depth=handle.settings.get(DEPTH_SETTING, "standard"),
                ),
                flow,
            )
        n_unchanged = len(used) - len(changes) - len(review.unchecked)
        return RefreshedRun(handle, changes, n_unchanged, review.unchecked, follow_up)
