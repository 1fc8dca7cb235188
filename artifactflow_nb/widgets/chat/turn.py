"""`ChatTurn`: one question of a conversation with its run, as one element of the chat."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from artifactflow_nb.core.events import StreamEvent
from artifactflow_nb.core.language import status_label, translate
from artifactflow_nb.core.text.format import capitalized, clip, cut
from artifactflow_nb.core.text.markdown import MarkdownRenderer, escape_with_language
from artifactflow_nb.core.text.shortened import ANSWER_LOCATION, shown_html, shown_plain
from artifactflow_nb.engine.run_client import RunClient
from artifactflow_nb.store.conversations import StoredMessage
from artifactflow_nb.widgets.forms.form import Field, form_node
from artifactflow_nb.widgets.page.elements import button, status_mark
from artifactflow_nb.widgets.page.nodes import Node, prefixed
from artifactflow_nb.widgets.page.saved import SavedOutput, saved_fragment
from artifactflow_nb.widgets.run import labels
from artifactflow_nb.widgets.run.follower import RunFollower
from artifactflow_nb.widgets.run.render import RunRenderer, main_artifact
from artifactflow_nb.widgets.run.transcript import RunTranscript

OnChange = Callable[[bool], None]
"""Called after a change, with True if it is worth saving."""

_BRIEF_COLUMNS = 400


class ChatTurn:
    """Follows the run of one message.

    Args:
        run: The run that answers the message; None for a message without a run.
        on_change: Called after every change.
        with_metrics: Show times and tokens.
        with_stop: Show a button that cancels the run.

    Attributes:
        run: The run that answers the message, or None.
        transcript: State of the run.
        is_editing: True while the reader edits the question.
    """

    def __init__(
        self,
        message: StoredMessage,
        run: RunClient | None,
        on_change: OnChange,
        *,
        with_metrics: bool = True,
        with_stop: bool = True,
    ) -> None:
        self._with_stop = with_stop
        self.message = message
        self.run = run
        self.transcript = RunTranscript(message.content)
        self.is_editing = False
        self._renderer = None if run is None else RunRenderer(run, with_metrics=with_metrics, open_keys=False)
        self._on_change = on_change
        callbacks = partial(self._changed, is_worth_saving=False), partial(self._changed, is_worth_saving=True)
        self._follower = None if run is None else RunFollower(run, self.transcript, *callbacks)
        self._node: Node | None = None
        self._saved_output: SavedOutput | None = None
        self._brief_output: SavedOutput | None = None

    async def follow(self) -> None:
        """Load the stored events and follow the run."""
        if self._follower is not None:
            await self._follower.start()

    async def apply_all(self, events: list[StreamEvent]) -> None:
        """Apply the events of an ended run."""
        for event in events:
            self.transcript.apply(event)
        if self._follower is not None:
            await self._follower.follow_subruns()

    def _changed(self, *, is_worth_saving: bool) -> None:
        self._clear_cache()
        self._on_change(is_worth_saving)

    def _clear_cache(self) -> None:
        self._node = self._saved_output = self._brief_output = None

    def change(self, *, message: StoredMessage | None = None, editing: bool | None = None) -> None:
        """Replace the message or the editing state; None leaves a value unchanged."""
        if message is not None and message != self.message:
            self.message = message
            self._clear_cache()
        if editing is not None and editing != self.is_editing:
            self.is_editing = editing
            self._clear_cache()

    @property
    def is_complete(self) -> bool:
        """True if no more events can follow."""
        return self.run is None or self.transcript.is_ended

    @property
    def answer(self) -> str:
        """The answer, in Markdown."""
        return self.transcript.response or self.message.response or ""

    @property
    def node(self) -> Node:
        """Node of the turn; the same object until the turn changes, so that `TreeDiff` can skip it."""
        if self._node is None:
            self._node = self._render(editing=self.is_editing)
        return self._node

    def _render(self, *, editing: bool) -> Node:
        key = self.message.message_id
        children = (self._question(editing=editing), *self._body(), self._foot())
        return Node(f"turn-{key}", kind="box", css="af-turn", children=prefixed(children, f"{key}/"))

    def _question(self, *, editing: bool) -> Node:
        message = self.message
        children: list[Node] = []
        if editing:
            text = Field(
                "text",
                "multiline",
                message.content,
                translate("Question"),
                required=True,
                rows=2,
                hide_label=True,
                autofocus=True,
            )
            args, cancel = {"message": message.message_id}, {"cancel": translate("Cancel"), "cancelAct": "cancel_edit"}
            label = translate("Edit the question")
            children.append(
                form_node(
                    "edit",
                    "resend",
                    translate("Ask this instead"),
                    label,
                    [text],
                    css="af-edit",
                    args=args,
                    cancel=cancel,
                    is_sent_by_enter=True,
                )
            )
        else:
            status = status_label(self.transcript.status)
            line = (
                translate("Run {status}: {question}", status=status, question=message.content)
                if self.run
                else message.content
            )
            children.append(_question_node(message.content, line))
        message_id = message.message_id
        controls = []
        if message.n_siblings > 1:
            number = message.sibling_index + 1
            controls += [
                button(
                    "‹",
                    "sibling",
                    css="af-small",
                    name=translate("The previous version of this question"),
                    step=-1,
                    message=message_id,
                ),
                f'<span class="af-quiet">{number} / {message.n_siblings}</span>',
                button(
                    "›",
                    "sibling",
                    css="af-small",
                    name=translate("The next version of this question"),
                    step=1,
                    message=message_id,
                ),
            ]
        if not self.is_editing:
            name = translate("Edit this question and ask again")
            controls.append(button(translate("Edit"), "edit", css="af-small", name=name, message=message_id))
        children.append(Node("asked-controls", " ".join(controls), "controls", "af-controls af-on-question"))
        return Node("question", kind="box", css="af-mine", children=tuple(children))

    def _body(self) -> tuple[Node, ...]:
        if self._renderer is not None:
            return self._renderer.body(self.transcript)
        html = shown_html(self.message.response or "", MarkdownRenderer(), ANSWER_LOCATION)
        return (Node("answer", html, css="af-answer af-md", text=shown_plain(self.answer, ANSWER_LOCATION)),)

    def _foot(self) -> Node:
        message_id = self.message.message_id
        if self._renderer is None:
            html = f"{status_mark('completed')} <span>{capitalized(status_label('completed'))}</span>"
            state = Node("state", html, css="af-meta")
        else:
            state = self._renderer.status_line(self.transcript, with_stop=self._with_stop, message=message_id)
        buttons = (
            [
                button(
                    translate("Copy"),
                    "copy",
                    css="af-small",
                    name=translate("Copy the answer as Markdown"),
                    message=message_id,
                )
            ]
            if self.answer
            else []
        )
        if report := main_artifact(self.transcript):
            name = translate("Copy the report as Markdown")
            buttons.append(
                button(
                    translate("Copy the report"), "copy", css="af-small", name=name, message=message_id, report=report
                )
            )
        if self.is_complete:
            label = labels.again_label("completed" if self._renderer is None else self.transcript.status)
            name = translate("{label}: ask this again, as another version", label=label)
            buttons.append(button(label, "regenerate", css="af-small", name=name, message=message_id))
        controls = Node("foot-controls", " ".join(buttons), "controls", "af-controls")
        return Node("foot", kind="box", css="af-foot", children=(state, controls))

    def saved_output(self) -> SavedOutput:
        """Return the static output of the turn, cached until the turn changes."""
        if self._saved_output is None:
            self._saved_output = saved_fragment((self.saved_node,))
        return self._saved_output

    @property
    def saved_node(self) -> Node:
        """The node of the turn without the form for an edit."""
        return self._render(editing=False) if self.is_editing else self.node

    def brief_saved_output(self) -> SavedOutput:
        """Return the static output of `brief_node`, cached until the turn changes."""
        if self._brief_output is None:
            self._brief_output = saved_fragment((self.brief_node,))
        return self._brief_output

    @property
    def brief_node(self) -> Node:
        """Question and beginning of the answer, for large chats."""
        question = clip(self.message.content, _BRIEF_COLUMNS)
        answer = self.answer or self.transcript.error
        excerpt = cut(answer, _BRIEF_COLUMNS).rstrip()
        excerpt += " …" if len(excerpt) < len(answer.rstrip()) else ""
        note = translate("Shortened: the steps, the artifacts and the rest of the answer are left out here.")
        children = (
            _question_node(question, question),
            Node("answer", MarkdownRenderer().html(excerpt), css="af-answer af-md", text=excerpt),
            Node("brief", f"<p><em>{note}</em></p>", css="af-quiet", text=note),
            self._foot(),
        )
        return Node(f"turn-{self.message.message_id}", kind="box", css="af-turn", children=children)

    async def decide(self, args: Mapping[str, Any]) -> None:
        """Decide a permission request with the arguments that its card sends."""
        if self._follower is not None:
            await self._follower.decide(args)

    async def resume(self) -> None:
        """Resume the abandoned run."""
        if self._follower is not None:
            await self._follower.resume()

    def close(self) -> None:
        """Stop following the run."""
        if self._follower is not None:
            self._follower.close()


def _question_node(question: str, text: str) -> Node:
    html = f"<p><strong>{escape_with_language(question)}</strong></p>"
    return Node("asked", html, css="af-chat-question", text=text)
