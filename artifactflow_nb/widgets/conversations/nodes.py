"""Parts of the conversation panel: the list of conversations, the drawing, and the controls for a message."""

from collections.abc import Callable, Sequence
from typing import Any

from artifactflow_nb.core.language import translate
from artifactflow_nb.core.text.markdown import MarkdownRenderer, escape, escape_with_language
from artifactflow_nb.core.text.shortened import ANSWER_LOCATION, shown_html
from artifactflow_nb.engine.run_client import RunReader
from artifactflow_nb.store.conversation_tree import TreeEntry
from artifactflow_nb.store.conversations import Conversation, StoredMessage
from artifactflow_nb.widgets.conversations.folding import FoldedMessages
from artifactflow_nb.widgets.conversations.layout import TreeLayout
from artifactflow_nb.widgets.conversations.text import question_line
from artifactflow_nb.widgets.conversations.tree import tree_html
from artifactflow_nb.widgets.forms.form import Field, form_node
from artifactflow_nb.widgets.page.elements import action_attributes, button
from artifactflow_nb.widgets.page.nodes import Node, prefixed
from artifactflow_nb.widgets.run import labels
from artifactflow_nb.widgets.run.follower import RunFollower
from artifactflow_nb.widgets.run.render import RunRenderer
from artifactflow_nb.widgets.run.transcript import RunTranscript
from artifactflow_nb.widgets.run.view import announcement

UNFINISHED_STATUSES = frozenset({"running", "waiting", "abandoned"})
"""Statuses of a message that no question can follow yet."""


def heading(conversation: Conversation) -> tuple[Node, ...]:
    """Build the title of the chosen conversation, with buttons to rename and to delete the conversation."""
    args: dict[str, Any] = {"conversation": conversation.conversation_id}
    buttons = button(translate("Rename"), "rename_ask", name=translate("Rename this conversation"), **args)
    buttons += button(translate("Delete"), "delete_ask", name=translate("Delete this conversation"), **args)
    title = f"<strong>{escape_with_language(conversation.title or translate('Untitled conversation'))}</strong>"
    return (Node("title", title, css="af-question"), Node("title-do", buttons, "controls", "af-controls"))


def rename_form(conversation: Conversation) -> Node:
    """Build a form to change the title of a conversation."""
    title = Field("title", "text", conversation.title, label=translate("Title"), autofocus=True)
    return form_node(
        f"rename-{conversation.conversation_id}",
        "rename",
        translate("Rename"),
        translate("Rename this conversation"),
        [title],
        css="af-tree-form",
        args={"conversation": conversation.conversation_id},
        cancel={"cancel": translate("Keep the title"), "cancelAct": "dismiss"},
    )


def confirmation(question: str, act: str, **args: Any) -> Node:
    """Build the dialog before a permanent deletion: the question, and buttons to confirm or cancel."""
    buttons = button(translate("Delete for good"), act, css="af-danger", **args)
    buttons += button(translate("Keep"), "dismiss")
    html = f'<div role="alertdialog" aria-label="{escape(question)}"><p>{escape(question)}</p>'
    return Node("confirm", f'{html}<div class="af-controls">{buttons}</div></div>', "controls", "af-tree-confirm")


def drawing(layout: TreeLayout, selected: str | None) -> Node:
    """Build the tree; its items can be clicked and reached with the arrow keys."""

    def attributes(content: TreeEntry | FoldedMessages) -> str:
        if isinstance(content, FoldedMessages):
            return action_attributes("unfold", first=content.message_ids[0])
        return (
            f'{action_attributes("read", message=content.message_id)} data-parent="{escape(content.parent_id or "")}"'
        )

    tree = tree_html(layout, selected=selected, attributes=attributes)
    # Without this attribute JupyterLab would use the arrow keys for shortcuts.
    return Node("drawing", f'<div data-lm-suppress-shortcuts="true">{tree}</div>', css="af-branches-box")


def actions(entry: TreeEntry, siblings: Sequence[str]) -> tuple[Node, ...]:
    """Build the controls for the displayed message: buttons, and a form for a follow-up question.

    The siblings are all messages with the same parent, including the message itself, the oldest first.
    """
    args: dict[str, Any] = {"message": entry.message_id}
    buttons: list[str] = []
    if not entry.is_on_active_branch:
        buttons.append(button(translate("Continue this branch"), "activate", **args))
    again = labels.again_label(entry.status)
    buttons.append(
        button(
            again,
            "regenerate",
            name=translate("{label}: ask this question once more, as a branch", label=again),
            **args,
        )
    )
    buttons.append(button(translate("Compare"), "compare", name=translate("Compare with another question"), **args))
    buttons += [
        button(translate("Compare with variant {number}", number=number), "compare_with", other=other, **args)
        for number, other in enumerate(siblings, 1)
        if other != entry.message_id
    ][:3]
    buttons.append(
        button(
            translate("Delete branch"),
            "prune_ask",
            name=translate("Delete branch: this question and all later questions"),
            **args,
        )
    )
    controls = Node("do", "".join(buttons), "controls", "af-controls af-tree-do")
    if entry.status in UNFINISHED_STATUSES:
        return (controls,)
    label = translate("Ask the next question" if entry.is_active else "Ask a question from here, on a new branch")
    question = Field("question", "multiline", label=label, placeholder=label, rows=2, hide_label=True)
    return controls, form_node(
        f"ask-{entry.message_id}", "ask", translate("Ask"), label, [question], css="af-tree-form", args=args
    )


def comparison_prompt(entry: TreeEntry) -> Node:
    """Build the prompt to choose the second message of a comparison, with a button to cancel."""
    prompt = translate("Press the question to compare with “{question}”.", question=question_line(entry.question, 60))
    html = f'<p role="status">{escape_with_language(prompt)}</p>{button(translate("Do not compare"), "compare_end")}'
    return Node("choosing", html, "controls", "af-tree-notice")


def comparison_view(nodes: tuple[Node, ...]) -> Node:
    """Build the comparison, with a button that closes the comparison."""
    title = Node("cmp-title", f'<div class="af-question">{translate("Comparison of two branches")}</div>')
    button_html = button(translate("Close"), "compare_end", name=translate("Close the comparison"))
    close = Node("cmp-do", button_html, "controls", "af-controls")
    heading_box = Node("cmp-head", kind="box", css="af-tree-head", children=(title, close))
    return Node("compared", kind="box", css="af-tree-read", children=(heading_box, *nodes))


class MessageReader:
    """Shows one message, and follows its run until the run ends.

    Args:
        run: The run that answers the message; None for a message that was added without a run.
        changed: Called when the display changes.

    Attributes:
        run: The run, or None.
        follower: Follows the run; None without a run.
    """

    def __init__(self, message: StoredMessage, run: RunReader | None, changed: Callable[[], None]) -> None:
        self.run = run
        self._message = message
        self._transcript = RunTranscript(message.content)
        self._renderer = RunRenderer(run) if run else None
        self.follower = RunFollower(run, self._transcript, changed, lambda: None) if run else None

    def nodes(self) -> tuple[Node, ...]:
        """Return the question, the steps of the run, open approval requests, the answer and the artifacts."""
        message_id = self._message.message_id
        if self._renderer is not None:
            nodes = self._renderer.nodes(self._transcript, message=message_id)
        else:
            answer = shown_html(self._message.response or "", MarkdownRenderer(), ANSWER_LOCATION)
            nodes = (
                Node("question", f"<strong>{escape_with_language(self._message.content)}</strong>", css="af-question"),
                Node("answer", answer, css="af-answer af-md"),
            )
        # The prefix keeps keys unique: the page must not confuse the nodes of this message and of the message before.
        return prefixed(nodes, f"{message_id}/")

    def announcement(self) -> str:
        """Announce a request that needs a decision, or the end of the run; empty without a run."""
        return announcement(self._transcript) if self._renderer else ""

    def close(self) -> None:
        """Stop following the run."""
        if self.follower is not None:
            self.follower.close()
