"""Saved output of the conversation panel: the tree, and below it collapsible questions and answers.

Answers are long and notebooks are loaded over the network, so only the newest answers are saved in full, up to 60,000
characters in total; older answers are truncated.
"""

from collections.abc import Iterator, Mapping

from artifactflow_nb.core.language import status_label, translate
from artifactflow_nb.core.text.format import capitalized
from artifactflow_nb.core.text.markdown import MarkdownRenderer, escape, escape_with_language
from artifactflow_nb.store.conversation_tree import TreeEntry
from artifactflow_nb.store.conversations import Conversation
from artifactflow_nb.widgets.conversations.layout import TreeLayout, TreeRow
from artifactflow_nb.widgets.conversations.text import question_line, tree_text, turn_facts
from artifactflow_nb.widgets.conversations.tree import tree_html
from artifactflow_nb.widgets.page.elements import STATUS_MARKS
from artifactflow_nb.widgets.page.nodes import Node

ANSWER_CHARS = 60_000


def saved_tree(
    conversation: Conversation | None,
    layout: TreeLayout,
    turn_texts: Mapping[str, tuple[str, str]],
    renderer: MarkdownRenderer,
    *,
    with_metrics: bool = True,
) -> tuple[Node, ...]:
    """Build the nodes of the saved output.

    `turn_texts` are the whole question and answer of each message that has a row, by message id. The renderer caches
    answers, because the output is saved again after each change. Tokens, costs and times are metrics.
    """
    if conversation is None:
        nothing = translate("No conversations yet.")
        return (Node("nothing", f"<p>{nothing}</p>", css="af-quiet", text=nothing),)
    title = f"<strong>{escape_with_language(conversation.title)}</strong>"
    tree = tree_html(layout, with_metrics=with_metrics)
    folds = tuple(_folds(layout, turn_texts, renderer))
    return (
        Node("title", title, css="af-question", text=conversation.title),
        Node("drawing", tree, css="af-branches-box", text=tree_text(layout)),
        Node("answers", kind="box", css="af-written", children=folds),
    )


def _folds(layout: TreeLayout, turn_texts: Mapping[str, tuple[str, str]], renderer: MarkdownRenderer) -> Iterator[Node]:
    """Yield the messages that have a row, from top to bottom; the newest messages get whole answers first."""
    rows = [(row, row.content) for row in layout.rows if isinstance(row.content, TreeEntry)]
    n_chars = ANSWER_CHARS
    whole = set()
    for _, entry in sorted(rows, key=lambda pair: pair[1].created_at, reverse=True):
        _, answer = turn_texts.get(entry.message_id, ("", entry.response or ""))
        if len(answer) <= n_chars:
            whole.add(entry.message_id)
            n_chars -= len(answer)
    for row, entry in rows:
        question, answer = turn_texts.get(entry.message_id, (entry.question, entry.response or ""))
        is_whole = entry.message_id in whole
        if not is_whole:  # the entry has the beginning of the answer
            answer = f"{(entry.response or '').rstrip()} …"
        yield _fold(
            row,
            entry,
            question,
            renderer.html(answer),
            "" if is_whole else translate("Shortened: the rest of the answer is left out here; wb.tree() shows it."),
        )


def _fold(row: TreeRow, entry: TreeEntry, question: str, answer: str, note: str) -> Node:
    line = question_line(question)
    facts = " · ".join(turn_facts(row, entry, with_metrics=False))
    summary = (
        f'{STATUS_MARKS[entry.status]} <span class="af-title">{escape_with_language(line)}</span> '
        f'<span class="af-out">{escape(facts)}</span>'
    )
    no_answer = (
        entry.error or "" or translate("{status}; there is no answer.", status=capitalized(status_label(entry.status)))
    )
    html = answer or f"<p><em>{escape(no_answer)}</em></p>"
    whole = f'<p class="af-quiet">{escape_with_language(question)}</p>' if line != question else ""
    end = f'<p class="af-quiet">{note}</p>' if note else ""
    content = Node("answer", whole + html + end, css="af-md")
    return Node(entry.message_id, summary, "fold", "af-artifact", children=(content,))
