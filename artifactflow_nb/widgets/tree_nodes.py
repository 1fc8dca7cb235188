"""The parts of the tree's panel: the list of conversations, the drawing, and what can be done with a message."""

from collections.abc import Sequence
from typing import Any

from artifactflow_nb.store.conversation_list import Conversation
from artifactflow_nb.store.tree_reading import TreeEntry
from artifactflow_nb.text.figures import count, moment
from artifactflow_nb.text.markdown import escape, speak
from artifactflow_nb.tools.forms import Field
from artifactflow_nb.widgets.controls import acting, button
from artifactflow_nb.widgets.tree import Node
from artifactflow_nb.widgets.tree_drawing import tree_svg
from artifactflow_nb.widgets.tree_folding import Fold
from artifactflow_nb.widgets.tree_layout import TreeLayout
from artifactflow_nb.widgets.tree_text import one_line

_SEARCH = "Search conversations"
_UNTITLED = "Untitled conversation"
UNENDED = frozenset({"running", "waiting", "interrupted"})
"""States of a message that nothing can be asked behind yet."""


def search_form() -> Node:
    """The field that searches conversations; an empty one shows all."""
    words = Field("words", "text", label=_SEARCH, placeholder="Search", hide_label=True, keep=True)
    data = {"act": "search", "submit": "Search", "label": _SEARCH, "fields": [words.as_json()]}
    return Node("search", kind="form", css="af-tree-search", data=data)


def conversation_list(listed: Sequence[Conversation], chosen: str | None, words: str, *, has_more: bool) -> Node:
    """The conversations, each a button that shows its tree."""
    nothing = f"No conversation holds {words!r}." if words else "No conversations yet."
    items = "".join(_item(entry, is_chosen=entry.conversation_id == chosen) for entry in listed)
    html = f'<ul class="af-tree-list">{items}</ul>' if listed else f'<p class="af-quiet">{escape(nothing)}</p>'
    more = button("Show more", "more") if has_more else ""
    return Node("list", html + more)


def _item(entry: Conversation, *, is_chosen: bool) -> str:
    current = ' aria-current="true"' if is_chosen else ""
    found = f'<span class="af-tree-found">{speak(entry.hit.excerpt)}</span>' if entry.hit and entry.hit.excerpt else ""
    counts = [count(entry.n_messages, "question"), count(entry.n_branches, "branch")]
    return (
        f'<li><button type="button" class="af-tree-item"{current} '
        f"{acting('choose', conversation=entry.conversation_id, message=entry.hit and entry.hit.message_id)}>"
        f'<span class="af-tree-title">{speak(entry.title or _UNTITLED)}</span>{found}'
        f'<span class="af-tree-counts">{" · ".join(counts)}<br>{moment(entry.updated_at)}</span></button></li>'
    )


def heading(conversation: Conversation) -> tuple[Node, ...]:
    """The title of the chosen conversation, and what can be done with it."""
    chosen: dict[str, Any] = {"conversation": conversation.conversation_id}
    buttons = button("Rename", "rename_ask", name="Rename this conversation", **chosen)
    buttons += button("Delete", "delete_ask", name="Delete this conversation", **chosen)
    title = f"<strong>{speak(conversation.title or _UNTITLED)}</strong>"
    return (Node("title", title, css="af-question"), Node("title-do", buttons, "controls", "af-controls"))


def rename_form(conversation: Conversation) -> Node:
    """A field with the title to change."""
    title = Field("title", "text", conversation.title, label="Title", autofocus=True)
    data = {
        "act": "rename",
        "args": {"conversation": conversation.conversation_id},
        "submit": "Rename",
        "cancel": "Keep the title",
        "cancelAct": "dismiss",
        "label": "Rename this conversation",
        "fields": [title.as_json()],
    }
    return Node(f"rename-{conversation.conversation_id}", kind="form", css="af-tree-form", data=data)


def confirmation(question: str, act: str, **args: Any) -> Node:
    """A question before something is deleted for good, with the two answers."""
    buttons = button("Delete for good", act, css="af-danger", **args) + button("Keep", "dismiss")
    html = f'<div role="alertdialog" aria-label="{escape(question)}"><p>{escape(question)}</p>'
    return Node("confirm", f'{html}<div class="af-controls">{buttons}</div></div>', "controls", "af-tree-confirm")


def drawing(layout: TreeLayout, selected: str | None, *, measured: bool) -> Node:
    """The tree, each node of which can be pressed; arrow keys walk through it."""

    def attributes(what: TreeEntry | Fold) -> str:
        if isinstance(what, Fold):
            return acting("unfold", first=what.message_ids[0])
        return f'{acting("read", message=what.message_id)} data-place="{escape(what.parent_id or "")}"'

    svg = tree_svg(layout, selected=selected, attributes=attributes, measured=measured)
    return Node("drawing", f'<div data-lm-suppress-shortcuts="true">{svg}</div>', css="af-branches-box")


def actions(entry: TreeEntry, siblings: Sequence[str]) -> tuple[Node, ...]:
    """What can be done with the message that is read: buttons, and a form to ask from there."""
    here: dict[str, Any] = {"message": entry.message_id}
    made: list[str] = []
    if not entry.is_on_active_branch:
        made.append(button("Continue this branch", "activate", **here))
    made.append(button("Regenerate", "regenerate", name="Regenerate: ask this question once more, as a branch", **here))
    made.append(button("Compare", "compare", name="Compare with another question", **here))
    made += [
        button(f"Compare with variant {place}", "compare_with", other=other, **here)
        for place, other in enumerate(siblings, 1)
        if other != entry.message_id
    ][:3]
    made.append(
        button("Delete branch", "prune_ask", name="Delete branch: this question and all that follow it", **here)
    )
    controls = Node("do", "".join(made), "controls", "af-controls af-tree-do")
    return (controls,) if entry.status in UNENDED else (controls, _ask_form(entry))


def _ask_form(entry: TreeEntry) -> Node:
    where = "Ask the next question" if entry.is_active else "Ask from here, on a branch of its own"
    question = Field("question", "multiline", label=where, placeholder=where, rows=2, hide_label=True)
    data = {
        "act": "ask",
        "args": {"message": entry.message_id},
        "submit": "Ask",
        "label": where,
        "fields": [question.as_json()],
    }
    return Node(f"ask-{entry.message_id}", kind="form", css="af-tree-form", data=data)


def choosing(entry: TreeEntry) -> Node:
    """While the second message of a comparison is chosen: what to do, and how not to."""
    said = f"Press the question to compare with “{one_line(entry.question, 60)}”."
    html = f'<p role="status">{speak(said)}</p>{button("Do not compare", "compare_end")}'
    return Node("choosing", html, "controls", "af-tree-notice")


def compared(nodes: tuple[Node, ...]) -> Node:
    """The comparison, with a way back to reading."""
    title = Node("cmp-title", "<strong>Two branches compared</strong>", css="af-question")
    close = Node("cmp-do", button("Close", "compare_end", name="Close the comparison"), "controls", "af-controls")
    head = Node("cmp-head", kind="box", css="af-tree-head", children=(title, close))
    return Node("compared", kind="box", css="af-tree-read", children=(head, *nodes))
