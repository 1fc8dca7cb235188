"""A conversation's tree as nested lists; `tree_view.css` draws the dots and lines.

A branch is a list within the item of its parent question. With attributes from a view, the lists form an
interactive tree (ARIA role `tree`). Without the style sheet the lists show text.
"""

from collections.abc import Callable

from artifactflow_nb.core.language import translate
from artifactflow_nb.core.text.markdown import escape, escape_with_language
from artifactflow_nb.store.conversation_tree import TreeEntry
from artifactflow_nb.widgets.conversations.folding import FoldedMessages
from artifactflow_nb.widgets.conversations.layout import TreeLayout, TreeRow
from artifactflow_nb.widgets.conversations.text import fold_text, question_line, turn_facts, turn_label
from artifactflow_nb.widgets.page.elements import STATUS_MARKS

Attributes = Callable[[TreeEntry | FoldedMessages], str]
"""Returns the HTML attributes that make an item clickable."""

_SEPARATOR = '<span class="af-plain-only"> · </span>'
_ARROW = '<span class="af-plain-only">↳ </span>'
_START_DOT = '<span class="af-dot" aria-hidden="true"></span>'


def tree_html(
    layout: TreeLayout, *, selected: str | None = None, attributes: Attributes | None = None, with_metrics: bool = True
) -> str:
    """Render the tree with escaped texts. Tokens, costs and times are metrics.

    The `selected` message is marked and gets the tab stop. `attributes` returns the attributes of an interactive item.
    """
    if not layout.rows:
        return f"<p><em>{translate('No questions yet.')}</em></p>"
    # The tab stop is the selected message, or else the active message, or else the first row.
    indexes = {_id(row): index for index, row in enumerate(layout.rows)}
    active = (_id(row) for row in layout.rows if isinstance(row.content, TreeEntry) and row.content.is_active)
    focus = indexes.get(selected or "", indexes.get(next(active, ""), 0))
    tree, group, no_role = (f' role="{role}"' if attributes else "" for role in ("tree", "group", "none"))
    pieces = [f'<ul class="af-branches" aria-label="{translate("Questions")}"{tree}>']
    level = -1  # of the innermost open list item
    if layout.has_start:
        pieces.append(f'<li class="af-node af-start af-on"{no_role}>')
        pieces.append(f'<div class="af-node-row">{_START_DOT}<em>{translate("Start")}</em></div>')
        level = 0
    for index, row in enumerate(layout.rows):
        n_ended = level - row.column + row.starts_branch
        pieces.append("</li></ul>" * n_ended)
        if row.starts_branch:
            pieces.append(f"<ul{group}>")
        elif level >= 0:
            pieces.append("</li>")
        level = row.column
        content = _content(row, with_metrics=with_metrics)
        if attributes is None:
            content = f'<div class="af-node-row">{content}</div>'
        else:
            # The tree has one tab stop, which the page moves with the arrow keys (a roving tabindex). The row is the
            # item, since the name of an item with nested items would be the text of all items.
            label = escape_with_language(turn_label(row, with_metrics=with_metrics))
            content = (
                f'<div class="af-node-row" role="treeitem" aria-level="{row.column + 1}" '
                f'tabindex="{0 if index == focus else -1}" aria-selected="{str(_id(row) == selected).lower()}" '
                f'{attributes(row.content)}><span class="af-announcer">{label}</span>'
                f'<span aria-hidden="true">{content}</span></div>'
            )
        pieces.append(f'<li class="{_classes(row, selected)}"{no_role}>{content}')
    return "".join([*pieces, "</li></ul>" * (level + 1)])


def _id(row: TreeRow) -> str:
    return row.content.message_ids[0] if isinstance(row.content, FoldedMessages) else row.content.message_id


def _classes(row: TreeRow, selected: str | None) -> str:
    content = row.content
    names = ["af-node", "af-fold" if isinstance(content, FoldedMessages) else f"af-{content.status}"]
    names += ["af-on"] if content.is_on_active_branch else []
    names += ["af-active"] if isinstance(content, TreeEntry) and content.is_active else []
    names += ["af-selected"] if _id(row) == selected else []
    return " ".join(names)


def _content(row: TreeRow, *, with_metrics: bool) -> str:
    content = row.content
    arrow = _ARROW if row.starts_branch else ""
    if isinstance(content, FoldedMessages):
        text = f'<span class="af-node-facts">{fold_text(content)}</span>'
        return f"{arrow}{_dot('…')} {text}"
    facts = escape(" · ".join(turn_facts(row, content, with_metrics=with_metrics)))
    return (
        f"{arrow}{_dot(STATUS_MARKS[content.status])} "
        f'<span class="af-node-question">{escape_with_language(question_line(content.question))}</span>'
        f'{_SEPARATOR if facts else ""}<span class="af-node-facts">{facts}</span>'
    )


def _dot(mark: str) -> str:
    return f'<span class="af-dot" aria-hidden="true">{mark}</span>'
