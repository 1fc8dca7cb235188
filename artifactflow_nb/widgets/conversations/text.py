"""Texts of a conversation's tree: the labels of its nodes, and the whole tree as plain text."""

import re
from collections.abc import Iterator

from artifactflow_nb.core.text.format import clip, count, duration, format_time
from artifactflow_nb.engine.flow_registry import DEFAULT_FLOW
from artifactflow_nb.store.conversation_tree import TreeEntry
from artifactflow_nb.widgets.conversations.folding import FoldedMessages
from artifactflow_nb.widgets.conversations.layout import TreeLayout, TreeRow
from artifactflow_nb.widgets.language import ENGLISH
from artifactflow_nb.widgets.page.elements import STATUS_MARKS
from artifactflow_nb.widgets.run import labels

NO_QUESTIONS = "No questions yet."
QUESTION_COLUMNS = 200
_LINE_COLUMNS = 100
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def question_line(text: str, columns: int = QUESTION_COLUMNS) -> str:
    """The beginning of a text on one line, without control characters."""
    return clip(_CONTROLS.sub(" ", text), columns)


def fold_text(fold: FoldedMessages) -> str:
    """`14 questions`, `30 questions on 4 branches`."""
    questions = count(len(fold.message_ids), "question")
    return f"{questions} on {fold.n_branches} branches" if fold.n_branches > 1 else questions


def turn_facts(row: TreeRow, entry: TreeEntry, *, with_metrics: bool = True) -> Iterator[str]:
    """Yield facts about a turn, the most important first.

    Args:
        row: The row of the tree.
        entry: The message of the row.
        with_metrics: Include tokens, costs and times; without them the facts do not differ between equal runs.
    """
    if entry.is_active:
        yield "active"
    if entry.status != "completed":
        yield ENGLISH(f"label_{entry.status}")
    if with_metrics and entry.total_tokens is not None:
        yield count(entry.total_tokens, "token")
    if with_metrics and entry.total_ms is not None:
        yield duration(entry.total_ms)
    if entry.n_artifacts:
        yield count(entry.n_artifacts, "artifact")
    if row.n_siblings > 1:
        yield f"variant {row.sibling} of {row.n_siblings}"
    if with_metrics:
        yield from labels.cost_label(entry.cost_usd)
        yield format_time(entry.created_at)


def turn_label(row: TreeRow, *, with_metrics: bool = True) -> str:
    """The whole label of a node, for screen readers."""
    entry = row.content
    if isinstance(entry, FoldedMessages):
        return f"{fold_text(entry)} not shown" + (", on the active branch" if entry.is_on_active_branch else "")
    status = ENGLISH(f"label_{entry.status}")
    facts = [status]
    facts += [entry.flow] if entry.flow not in {None, DEFAULT_FLOW} else []
    facts += [question_line(entry.error)] if entry.error else []
    facts += [fact for fact in turn_facts(row, entry, with_metrics=with_metrics) if fact not in {"active", status}]
    if entry.is_on_active_branch:
        facts.append("the next question continues here" if entry.is_active else "on the active branch")
    return f"Question {row.depth}: {question_line(entry.question)} ({', '.join(facts)})"


def tree_text(layout: TreeLayout) -> str:
    """The tree as lines of text, indented by column, without metrics; an arrow marks the first message of a branch."""
    start = ["Start"] if layout.has_start else []
    lines = ("  " * row.column + "↳ " * row.starts_branch + _line(row) for row in layout.rows)
    return "\n".join([*start, *lines]) or NO_QUESTIONS


def _line(row: TreeRow) -> str:
    if isinstance(row.content, FoldedMessages):
        return f"… {fold_text(row.content)}"
    question = f"{STATUS_MARKS[row.content.status]} {question_line(row.content.question, _LINE_COLUMNS)}"
    return " · ".join([question, *turn_facts(row, row.content, with_metrics=False)])
