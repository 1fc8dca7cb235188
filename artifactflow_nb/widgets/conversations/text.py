"""Texts of a conversation's tree: the labels of its nodes, and the whole tree as plain text."""

import re
from collections.abc import Iterator

from artifactflow_nb.core.language import Texts
from artifactflow_nb.core.text.format import clip, format_local_time
from artifactflow_nb.engine.flow_registry import DEFAULT_FLOW
from artifactflow_nb.store.conversation_tree import TreeEntry
from artifactflow_nb.widgets.conversations.folding import FoldedMessages
from artifactflow_nb.widgets.conversations.layout import TreeLayout, TreeRow
from artifactflow_nb.widgets.page.elements import STATUS_MARKS
from artifactflow_nb.widgets.run import labels

QUESTION_COLUMNS = 200
_LINE_COLUMNS = 100
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def question_line(text: str, columns: int = QUESTION_COLUMNS) -> str:
    """The beginning of a text on one line, without control characters."""
    return clip(_CONTROLS.sub(" ", text), columns)


def fold_text(fold: FoldedMessages, texts: Texts) -> str:
    """Describe a fold: `14 questions`, `30 questions on 4 branches`."""
    questions = texts.count(len(fold.message_ids), "n_questions")
    return texts("on_branches", questions=questions, n=fold.n_branches) if fold.n_branches > 1 else questions


def turn_facts(row: TreeRow, entry: TreeEntry, texts: Texts, *, with_metrics: bool = True) -> Iterator[str]:
    """Yield facts about a turn, the most important first; without metrics equal runs have equal facts."""
    if entry.is_active:
        yield texts("is_active")
    if entry.status != "completed":
        yield texts.status(entry.status)
    if with_metrics and entry.total_tokens is not None:
        yield texts.count(entry.total_tokens, "n_tokens")
    if with_metrics and entry.total_ms is not None:
        yield texts.duration(entry.total_ms)
    if entry.n_artifacts:
        yield texts.count(entry.n_artifacts, "n_artifacts")
    if row.n_siblings > 1:
        yield texts("variant", n=row.sibling, total=row.n_siblings)
    if with_metrics:
        yield from labels.cost_label(entry.cost_usd)
        yield format_local_time(entry.created_at)


def turn_label(row: TreeRow, texts: Texts, *, with_metrics: bool = True) -> str:
    """The whole label of a node, for screen readers."""
    entry = row.content
    if isinstance(entry, FoldedMessages):
        key = "not_shown_active" if entry.is_on_active_branch else "not_shown"
        return texts(key, questions=fold_text(entry, texts))
    status = texts.status(entry.status)
    facts = [status]
    facts += [entry.flow] if entry.flow not in {None, DEFAULT_FLOW} else []
    facts += [question_line(texts.notice(entry.error))] if entry.error else []
    others = {texts("is_active"), status}
    facts += [fact for fact in turn_facts(row, entry, texts, with_metrics=with_metrics) if fact not in others]
    if entry.is_on_active_branch:
        facts.append(texts("continues_here" if entry.is_active else "on_active_branch"))
    question = question_line(entry.question)
    return texts("question_label", depth=row.depth, question=question, facts=texts("between_parts").join(facts))


def tree_text(layout: TreeLayout, texts: Texts) -> str:
    """The tree as lines of text, indented by column, without metrics; an arrow marks the first message of a branch."""
    start = [texts("start")] if layout.has_start else []
    lines = ("  " * row.column + "↳ " * row.starts_branch + _line(row, texts) for row in layout.rows)
    return "\n".join([*start, *lines]) or texts("no_questions")


def _line(row: TreeRow, texts: Texts) -> str:
    if isinstance(row.content, FoldedMessages):
        return f"… {fold_text(row.content, texts)}"
    question = f"{STATUS_MARKS[row.content.status]} {question_line(row.content.question, _LINE_COLUMNS)}"
    return " · ".join([question, *turn_facts(row, row.content, texts, with_metrics=False)])
