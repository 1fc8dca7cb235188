"""Texts of a conversation's tree: the labels of its nodes, and the whole tree as plain text."""

import re
from collections.abc import Iterator

from artifactflow_nb.core.language import status_label, translate
from artifactflow_nb.core.text.format import capitalized, clip, format_local_time, translate_count, translate_duration
from artifactflow_nb.engine.flow_registry import DEFAULT_FLOW
from artifactflow_nb.store.conversation_tree import TreeEntry
from artifactflow_nb.widgets.conversations.folding import FoldedMessages
from artifactflow_nb.widgets.conversations.layout import TreeLayout, TreeRow
from artifactflow_nb.widgets.page.elements import STATUS_MARKS
from artifactflow_nb.widgets.run import labels
from artifactflow_nb.widgets.run.parts import TranscriptTokens, TranscriptTotals

QUESTION_COLUMNS = 200
_LINE_COLUMNS = 100
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def question_line(text: str, columns: int = QUESTION_COLUMNS) -> str:
    """Return the beginning of a text on one line, without control characters."""
    return clip(_CONTROLS.sub(" ", text), columns)


def fold_text(fold: FoldedMessages) -> str:
    """Describe a fold: `14 questions`, `30 questions on 4 branches`."""
    questions = translate_count(len(fold.message_ids), "question")
    if fold.n_branches <= 1:
        return questions
    return translate("{questions} on {n} branches", questions=questions, n=fold.n_branches)


def turn_facts(row: TreeRow, entry: TreeEntry, *, with_metrics: bool = True) -> Iterator[str]:
    """Yield facts about a turn, the most important first; without metrics equal runs have equal facts."""
    if entry.is_active:
        yield translate("active")
    if entry.status != "completed":
        yield capitalized(status_label(entry.status))
    tokens = TranscriptTokens(entry.total_tokens or 0, entry.is_estimated)
    if with_metrics and entry.total_tokens is not None:
        yield labels.tokens_label(tokens)
    if with_metrics and entry.total_ms is not None:
        yield translate_duration(entry.total_ms)
    if entry.n_artifacts:
        yield translate_count(entry.n_artifacts, "artifact")
    if row.n_siblings > 1:
        yield translate("variant {n} of {total}", n=row.sibling, total=row.n_siblings)
    if with_metrics:
        yield from labels.cost_label(TranscriptTotals(tokens, cost_usd=entry.cost_usd))
        yield format_local_time(entry.created_at)


def turn_label(row: TreeRow, *, with_metrics: bool = True) -> str:
    """Return the whole label of a node, for screen readers."""
    entry = row.content
    if isinstance(entry, FoldedMessages):
        if entry.is_on_active_branch:
            return translate("{questions} not shown, on the active branch", questions=fold_text(entry))
        return translate("{questions} not shown", questions=fold_text(entry))
    status = capitalized(status_label(entry.status))
    facts = [status]
    facts += [entry.flow] if entry.flow not in {None, DEFAULT_FLOW} else []
    facts += [question_line(entry.error)] if entry.error else []
    others = {translate("active"), status}
    facts += [fact for fact in turn_facts(row, entry, with_metrics=with_metrics) if fact not in others]
    if entry.is_on_active_branch:
        facts.append(translate("the next question continues here" if entry.is_active else "on the active branch"))
    question = question_line(entry.question)
    return translate(
        "Question {depth}: {question} ({facts})",
        depth=row.depth,
        question=question,
        facts=translate(", ", context="parts").join(facts),
    )


def tree_text(layout: TreeLayout) -> str:
    """Format the tree as text without metrics, indented by column; an arrow marks the first message of a branch."""
    start = [translate("Start")] if layout.has_start else []
    lines = ("  " * row.column + "↳ " * row.starts_branch + _line(row) for row in layout.rows)
    return "\n".join([*start, *lines]) or translate("No questions yet.")


def _line(row: TreeRow) -> str:
    if isinstance(row.content, FoldedMessages):
        return f"… {fold_text(row.content)}"
    question = f"{STATUS_MARKS[row.content.status]} {question_line(row.content.question, _LINE_COLUMNS)}"
    return " · ".join([question, *turn_facts(row, row.content, with_metrics=False)])
