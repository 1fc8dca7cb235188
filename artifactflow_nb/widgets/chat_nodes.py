"""Small pieces of the chat: what stands around the questions, and the notes of its face."""

from collections.abc import Mapping, Sequence
from typing import Any

from artifactflow_nb.errors import UsageError
from artifactflow_nb.export import FORMS
from artifactflow_nb.text.markdown import speak
from artifactflow_nb.text.width import clip
from artifactflow_nb.tools.forms import Field
from artifactflow_nb.widgets.controls import button
from artifactflow_nb.widgets.gauges import context_gauge
from artifactflow_nb.widgets.tree import Node
from artifactflow_nb.widgets.view import Act

TITLE_COLUMNS = 60
_QUESTION = Field(
    "text",
    "multiline",
    label="Question",
    placeholder="What do you want to know? Shift+Enter asks.",
    rows=2,
    hide_label=True,
)
# Always the same: a form whose data change is made anew, without the focus and what was written in it.
COMPOSER = Node(
    "composer", kind="form", css="af-composer",
    data={
        "act": "send", "args": {}, "submit": "Ask", "label": "The next question", "draft": True,
        "fields": [_QUESTION.as_json()],
    },
)  # fmt: skip


def noted(notes: Sequence[str]) -> str:
    """Notes that stand before the questions; they are ours, and hold no markup."""
    return "".join(f'<p class="af-empty af-quiet">{note}</p>' for note in notes)


def bar(title: str, context: Mapping[str, int], *, is_begun: bool, opened: str) -> Node:
    """The title, how full the context is, and what can be done with the whole.

    Args:
        title: The conversation's; empty for a new one.
        context: As for `context_gauge`.
        is_begun: Whether there is a conversation.
        opened: Which of `list` and `export` is open below; empty for neither.
    """
    buttons = [button("Conversations", "list", css="af-small", pressed=opened == "list")]
    if is_begun:
        name = "Export: download this conversation"
        buttons.append(button("Export", "export", css="af-small", name=name, pressed=opened == "export"))
        buttons.append(button("New", "new", css="af-small", name="New: begin a new conversation"))
    children = (
        Node("title", speak(clip(title, TITLE_COLUMNS)) or "New conversation", css="af-chat-title"),
        Node("gauge", context_gauge(context), css="af-gauge-line af-quiet"),
        Node("bar-controls", " ".join(buttons), "controls", "af-controls"),
    )
    return Node("bar", kind="box", css="af-bar", children=children)


def downloads() -> Node:
    """The forms in which the conversation can be taken along."""
    buttons = [
        button(form, "download", name=f"Download {form}: {made.label}", form=form) for form, made in FORMS.items()
    ]
    html = f'<span class="af-quiet">Download this branch as</span> {" ".join(buttons)}'
    return Node("downloads", html, "controls", "af-controls af-list")


def form_text(act: Act, name: str) -> str:
    """What stands in a field of the form that was sent; empty if it is no text."""
    values: Any = act.args.get("values")
    text = values.get(name) if isinstance(values, Mapping) else None
    return text if isinstance(text, str) else ""


def written(act: Act) -> str:
    """The question that stands in a form; `UsageError` if there is none."""
    text = form_text(act, "text")
    if not text.strip():
        raise UsageError("The question is empty. Write what you want to know.")
    return text
