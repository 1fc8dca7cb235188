"""`wb.sources`: index, search and embed the documents of the person, and refresh a report about the documents."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from artifactflow_nb.analysis.frames.computed import (
    CheckFrame,
    SearchFrame,
    check_frame,
    search_frame,
)
from artifactflow_nb.core.budget import TOKENS_PER_PRICE, Budget
from artifactflow_nb.core.runs import DEPTH_SETTING
from artifactflow_nb.core.text.cards import Card, CardMixin, CardRows, CardTable, Code, Details
from artifactflow_nb.core.text.format import clip_words, count, with_context, without_context
from artifactflow_nb.errors import Conflict, UsageError, check_text
from artifactflow_nb.notebook.display import CellDisplay
from artifactflow_nb.notebook.run import Run, start_run
from artifactflow_nb.recording.engine import RecordingThread
from artifactflow_nb.recording.rows import ENDED
from artifactflow_nb.sources.changes import SourceChange, UncheckedSource, sources_of_run, statements_on
from artifactflow_nb.sources.retrieval.sentences import collapse_whitespace
from artifactflow_nb.sources.values import IndexingResult
from artifactflow_nb.sources.vector_search import EmbeddingForecast
from artifactflow_nb.store.artifact_versions import TASK_PLAN_ID
from artifactflow_nb.store.encoding import validate_row_count
from artifactflow_nb.tools.web.scoring import SNIPPET_COLUMNS

BudgetLike = Budget | Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, repr=False)
class RefreshedRun(CardMixin):
    """The comparison of a run's sources with the current texts.

    Attributes:
        run: The run.
        changes: The sources that have changed, each with the statements of the report that cite the source.
        n_unchanged: Number of sources that have not changed.
        unchecked: The sources that could not be compared.
        follow_up: The run that writes a new version of the report; None if no source has changed.
    """

    run: Run
    changes: tuple[SourceChange, ...]
    n_unchanged: int
    unchecked: tuple[UncheckedSource, ...]
    follow_up: Run | None

    @property
    def summary(self) -> str:
        """The numbers of changed sources, of unchanged sources and of statements to check, as a sentence."""
        unchecked = f", {len(self.unchecked)} could not be checked" if self.unchecked else ""
        if not self.changes:
            if not self.n_unchanged and not self.unchecked:
                return "Nothing to compare: the run read no source."
            return (
                f"Nothing has changed: {count(self.n_unchanged, 'source')} as before{unchecked}. No model was called."
            )
        n_statements = sum(len(change.statements) for change in self.changes)
        n_removed = sum(change.kind == "removed" for change in self.changes)
        changed = f"{count(len(self.changes) - n_removed, 'source')} changed, {n_removed} removed"
        return f"{changed}, {self.n_unchanged} as before{unchecked}; {count(n_statements, 'statement')} to check."

    def __repr__(self) -> str:
        return f"RefreshedRun({self.run.run_id!r}: {self.summary})"

    def _card(self) -> Card:
        rows: CardRows = [("run", Code(self.run.run_id))]
        rows += [("follow-up run", Code(self.follow_up.run_id))] if self.follow_up else []
        statements = [
            (change.kind, change.title, statement, Code(change.address))
            for change in self.changes
            for statement in change.statements or ("(the report does not cite this source)",)
        ]
        columns = ("is", "source", "statement that cites the source", "address")
        folds = [Details("Changes", CardTable.from_rows(columns, statements), is_open=True)] if statements else []
        if self.unchecked:
            lines = [(Code(source.address), source.reason) for source in self.unchecked]
            folds.append(Details("Not checked", CardTable.from_rows(("address", "reason"), lines)))
        note = "Display the attribute follow_up to watch the follow-up run." if self.follow_up else ""
        return Card("Refreshed run", self.summary, rows, folds, note)


class Sources:
    """The sources of a workbench: documents of the person, which runs search and read."""

    def __init__(self, thread: RecordingThread, display: CellDisplay, open_run: Callable[[str], Run]) -> None:
        self._thread = thread
        self._display = display
        self._open_run = open_run

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._thread.engine.search_scope()!r})"

    def add(self, path: str | Path) -> IndexingResult:
        """Index and select a folder or a file: runs of this workbench then search only selected folders and files.

        Without a selection, runs search all folders of the store or, if there are none, the language reference.

        Documents (md, rst, txt, html, pdf, docx, py, ipynb) and bibliographies (bib, ris, Zotero's database, a single
        `.json` file as CSL-JSON) are read; `wb.literature.works_df` lists the works of bibliographies.

        For an indexed folder only new and changed files are read, and the sources of missing files are removed. If a
        person may be looking, a line shows the progress. If the cell is interrupted, the indexed files remain and the
        next call continues with the other files.

        Errors: `UsageError` for a path that is missing or contains no readable file.
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

        Columns: `rank`, `title`, `snippet` (the text for an agent), `score` (of the full-text index, bm25; higher is
        better), `similarity` (of vectors, if vectors are used; `rank` then combines both), `address`. Scores are
        comparable within one search only.

        Errors: `UsageError` for an empty query or an invalid limit.
        """
        check_text("query", query)
        if not query.strip():
            raise UsageError("The query is empty. Pass the words to look for.")
        engine = self._thread.engine
        hits = self._thread.call(engine.search_sources(query, validate_row_count("limit", limit)))
        return search_frame(hits, [collapse_whitespace(clip_words(hit.snippet, SNIPPET_COLUMNS)) for hit in hits])

    def embed(self, *, dry_run: bool = False) -> EmbeddingForecast:
        """Embed the passages of the sources that have no vector yet, with the setting `embedding_model`.

        The number of passages, the tokens and the cost are displayed before the first request. After an interruption,
        the next call continues. Searches use the vectors only after `choose_ranking` has shown that vectors help.

        Returns:
            The number of passages that had no vector, with the estimated tokens and cost.

        Errors: `UsageError` without an embedding model, and for vectors of another length than the stored vectors;
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

    def choose_ranking(self, *, queries: int = 100) -> CheckFrame:
        """Measure on the person's own sources whether vectors improve searches; if so, searches use vectors afterwards.

        Each query has a few words of a known passage, without the rarest word. Vectors help if more of the passages
        are among the first 5 results, and no fewer are the first result. The choice applies until the next call.

        Args:
            queries: Number of queries; all queries are embedded in a few requests.

        Returns:
            A row for `words` and a row for `words and vectors`: `hit_at_1`, `hit_at_5`, `hit_at_10`, `queries`, and
            `is_used`, which marks the ranking that searches use.

        Errors: `UsageError` without an embedding model or vectors; `ModelError` if the endpoint fails.
        """
        return check_frame(
            self._thread.call(self._thread.engine.check_retrieval(validate_row_count("queries", queries)))
        )

    def refresh(
        self, run: Run | str, *, web: bool = True, budget: BudgetLike = None, model: str | None = None
    ) -> RefreshedRun:
        """Compare the sources of a run with the current texts, and update the report if sources have changed.

        After a change, a follow-up run on the branch asks the question again with the changes, and writes a new version
        of the report. Approvals, budgets and recordings apply to the follow-up run as to other runs. If nothing has
        changed, no model is called.

        Args:
            run: A run that has ended, or the id of the run.
            web: Whether to fetch the pages again that the run read; never done in a replay.
            budget: The limits of the follow-up run; None for the configured budget.
            model: The name of the model of the follow-up run; None for the configured model.

        Returns:
            The changed sources with the statements that cite the sources, and the follow-up run, which may still run.

        Errors: `NotFound` for an unknown run; `Conflict` for a run that has not ended.
        """
        handle = run if isinstance(run, Run) else self._open_run(run)
        if handle.status not in ENDED:
            raise Conflict(f"The run {handle.run_id} is {handle.status}. Refresh the sources when the run has ended.")
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
        statements = statements_on(texts)
        changes = tuple(replace(each, statements=tuple(statements.get(each.address, ()))) for each in review.changes)
        follow_up = None
        if changes:
            question = with_context(without_context(handle.question), [_changes_text(changes, list(written))])
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


def _changes_text(changes: Iterable[SourceChange], report_ids: Sequence[str]) -> str:
    """Format the changes as an instruction for the follow-up run."""
    lines = ["This question was answered above. Since then, sources of that answer have changed:"]
    for change in changes:
        lines.append(f"- {change.address} ({change.title}) was {change.kind}. Statements that rest on it:")
        lines += [f"  - {statement}" for statement in change.statements] or ["  - none that is marked"]
    reports = " and ".join(f"`{report_id}`" for report_id in report_ids)
    where = f"in the artifact {reports}, which gets a new version" if report_ids else "in a new answer"
    lines.append(
        f"Read the changed sources again. Correct the statements {where}, and leave the rest as it is. A removed "
        "source supports nothing any more. Say in your answer what is different, or that the statements still hold."
    )
    return "\n".join(lines)
