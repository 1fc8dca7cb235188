"""The methods of a workbench that prune and back up its store, and index and search the person's sources."""

import os
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from artifactflow_nb.analysis.frames.api import Frames
from artifactflow_nb.analysis.frames.computed import (
    CheckFrame,
    PrunedFrame,
    SearchFrame,
    check_frame,
    conversation_bytes,
    pruned_frame,
    search_frame,
)
from artifactflow_nb.core.budget import TOKENS_PER_PRICE, Budget
from artifactflow_nb.core.local_files import absolute_path
from artifactflow_nb.core.runs import DEPTH_SETTING
from artifactflow_nb.core.text.format import clip_words, with_context, without_context
from artifactflow_nb.errors import Conflict, UsageError, check_text
from artifactflow_nb.notebook.display import CellDisplay
from artifactflow_nb.notebook.refreshed_run import RefreshedRun, changes_text
from artifactflow_nb.notebook.run import Run, start_run
from artifactflow_nb.recording.engine import RecordingThread
from artifactflow_nb.recording.rows import ENDED
from artifactflow_nb.sources.changes import claims_on, sources_of_run
from artifactflow_nb.sources.retrieval.sentences import collapse_whitespace
from artifactflow_nb.sources.values import IndexingResult
from artifactflow_nb.sources.vector_search import EmbeddingForecast
from artifactflow_nb.store.artifact_versions import TASK_PLAN_ID
from artifactflow_nb.store.database import read_store
from artifactflow_nb.store.encoding import validate_row_count
from artifactflow_nb.store.frames import TimeFilter, parse_time
from artifactflow_nb.store.storage import copy_store, old_conversations
from artifactflow_nb.tools.web.scoring import SNIPPET_COLUMNS


class OpenStore(Frames):
    """The store of a workbench: its frames, pruning, standing decisions and backups."""

    _thread: RecordingThread

    @abstractmethod
    def run(self, run_id: str) -> Run:
        """Return the handle of a stored run."""
        ...

    def prune(
        self,
        before: TimeFilter = None,
        keep: int | None = None,
        *,
        seal_to: str | os.PathLike[str] | None = None,
        dry_run: bool = False,
    ) -> PrunedFrame:
        """Delete old conversations with their messages, runs and artifacts, and shrink the file.

        Projects, and conversations with an unfinished run, are not deleted.

        Args:
            before: Delete conversations without a question since this time: a datetime (naive means UTC), an ISO
                string, or a timedelta before now.
            keep: Number of the newest conversations that are never deleted.
            seal_to: A folder into which the ended runs are sealed first, each as `<run_id>.afrun`.
            dry_run: Delete nothing.

        Returns:
            One row per conversation that was deleted or, with `dry_run`, would be.

        Errors: `UsageError` if both `before` and `keep` are missing or one is invalid; `CassetteError` if a run cannot
        be sealed; its conversation and all older ones are not deleted.
        """
        if before is None and keep is None:
            raise UsageError("Pass before=, a time, or keep=, a number of conversations; nothing was deleted.")
        n_newest = 0 if keep is None else validate_row_count("keep", keep)
        until = None if before is None else parse_time("before", before)
        old = read_store(self._store, lambda db: list(old_conversations(db, until, n_newest)))
        n_bytes, n_sealed = conversation_bytes(self._store), dict[str, int]()
        if dry_run:
            return pruned_frame(old, n_bytes, n_sealed)
        engine = self._thread.engine
        for conversation in old:
            key = conversation.conversation_ids[0]
            if seal_to is not None:
                folder = absolute_path(seal_to)
                folder.mkdir(parents=True, exist_ok=True)
                for run_id in conversation.run_ids:
                    self.run(run_id).seal(folder / f"{run_id}.afrun", replace=True)
                    n_sealed[key] = n_sealed.get(key, 0) + 1
            for conversation_id in reversed(conversation.conversation_ids):
                self._thread.call(engine.conversations.delete_conversation(conversation_id))
        return pruned_frame(old, n_bytes, n_sealed)

    def withdraw(self, host: str) -> int:
        """Withdraw the decisions `always` on a host, so that its pages need an approval again; return their number."""
        check_text("host", host)
        return self._thread.call(self._thread.engine.approvals.withdraw(host.strip().lower()))

    def backup(self, path: str | os.PathLike[str]) -> Path:
        """Copy the current state of the store to a new file, while runs continue.

        To open the copy with `Workbench(data_dir=folder)`, name it `store.db` in a folder of its own. Unfinished runs
        are interrupted in the copy.

        Errors: `UsageError` if the file exists or cannot be written.
        """
        target = absolute_path(path)
        copy_store(self._store, target)
        return target


BudgetLike = Budget | Mapping[str, Any] | None


class OpenSources(OpenStore):
    """The methods of a workbench for sources, refreshed questions and old conversations."""

    _display: CellDisplay

    def add_sources(self, path: str | Path) -> IndexingResult:
        """Index a folder or a file and select it: runs of this workbench then search its selected sources only.

        Without a selection, runs search all folders of the store or, if there are none, the language reference.

        Documents are read (md, rst, txt, html, pdf, docx, py, ipynb) and bibliographies (bib, ris, Zotero's database; a
        `.json` file by itself as CSL-JSON), whose works `works_df` lists.

        For an indexed folder only new and changed files are read, and the sources of missing files are removed. If a
        person may be looking, a line shows the progress. If the cell is interrupted, the indexed files remain and the
        next call continues with the others.

        Errors: `UsageError` with the path if it is missing or contains no readable file.
        """
        from artifactflow_nb.widgets.progress import IndexingLine

        if not isinstance(path, str | os.PathLike):
            raise UsageError(
                f"The sources are of type {type(path).__name__}. Pass the path of a folder or a file; write a "
                'table to a file first, such as frame.to_html("table.html").'
            )
        line = IndexingLine(str(path), is_attended=self._display.is_attended)
        try:
            result = self._thread.call_interruptible(self._thread.engine.add_sources(path, line.note), line.draw)
        except BaseException:
            line.end("Not finished")
            raise
        line.end("Indexed")
        return result

    def search_df(self, query: str, *, limit: int = 20) -> SearchFrame:
        """Search the sources as an agent would, and show the scores; an agent sees the first 5 rows.

        Columns: `rank`, `title`, `snippet` (as an agent sees it), `score` (of the full-text index, bm25; higher is
        better), `similarity` (of vectors, if they are used; `rank` then combines both), `address`. Scores are
        comparable within one search only.

        Errors: `UsageError` for an empty query or an invalid limit.
        """
        check_text("query", query)
        if not query.strip():
            raise UsageError("The query is empty. Pass the words to look for.")
        engine = self._thread.engine
        hits = self._thread.call(engine.search_sources(query, validate_row_count("limit", limit)))
        return search_frame(hits, [collapse_whitespace(clip_words(hit.snippet, SNIPPET_COLUMNS)) for hit in hits])

    def embed_sources(self, *, dry_run: bool = False) -> EmbeddingForecast:
        """Embed the passages of the sources that have no vector yet, with the setting `embedding_model`.

        The number of passages, their tokens and the cost are displayed before the first request. After an interruption,
        the next call continues. Searches use the vectors only after `check_retrieval` has shown that they help.

        Returns:
            The number of passages that had no vector, with their estimated tokens and cost.

        Errors: `UsageError` without an embedding model, and for vectors of another length than the stored ones;
        `ModelError` if the endpoint fails. Finished batches remain stored.
        """
        from artifactflow_nb.widgets.progress import IndexingLine

        engine = self._thread.engine
        forecast = self._thread.call(engine.vectors.forecast())
        price = engine.prices.get(forecast.model)
        forecast = replace(forecast, usd=None if price is None else forecast.tokens * price.input / TOKENS_PER_PRICE)
        if dry_run or not forecast.passages:
            return forecast
        attended = self._display.is_attended
        line = IndexingLine(forecast.model, is_attended=attended, action="Embedding with", unit="passages")
        line.announce(str(forecast))
        self._thread.call_interruptible(engine.vectors.embed(line.note), line.draw)
        line.end("Embedded with")
        return forecast

    def check_retrieval(self, *, queries: int = 100) -> CheckFrame:
        """Check on the person's own sources whether vectors improve searches, and use them from now on if they do.

        Each query has a few words of a known passage, without the rarest one. Vectors help if more of these passages
        are among the first 5 results, and no fewer are the first result. It applies until the next check.

        Args:
            queries: Number of queries; all are embedded in a few requests.

        Returns:
            A row for `words` and one for `words and vectors`: `hit_at_1`, `hit_at_5`, `hit_at_10`, `queries`, and
            `is_used`, which marks the ranking that searches use.

        Errors: `UsageError` without an embedding model or vectors; `ModelError` if the endpoint fails.
        """
        return check_frame(
            self._thread.call(self._thread.engine.check_retrieval(validate_row_count("queries", queries)))
        )

    def refresh(
        self, run: Run | str, *, web: bool = True, budget: BudgetLike = None, model: str | None = None
    ) -> RefreshedRun:
        """Compare the sources of a run with their current texts, and bring its report up to date if they have changed.

        In that case a follow-up run on the branch asks the question again with the changes, and writes a new version of
        the report. Approvals, budgets and recordings apply to it as to other runs. If nothing has changed, no model is
        called.

        Args:
            run: A run that has ended, or its id.
            web: Whether to fetch the pages again that the run read; never done in a replay.
            budget: The limits of the follow-up run; None for the configured budget.
            model: The name of its model; None for the configured model.

        Returns:
            The changed sources with the claims that cite them, and the follow-up run, which may still be running.

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
