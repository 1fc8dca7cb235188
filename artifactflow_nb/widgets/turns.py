"""A question of a conversation with all that came of it, as one element of the chat."""

from collections.abc import Callable, Mapping
from typing import Any

from artifactflow_nb.events import StreamEvent
from artifactflow_nb.run_port import RunPort
from artifactflow_nb.store.conversations import StoredMessage
from artifactflow_nb.text.markdown import MarkdownRenderer, escape, portable, speak
from artifactflow_nb.text.markdown_blocks import TextBlocks
from artifactflow_nb.widgets import frozen, labels
from artifactflow_nb.widgets.ask_card import read_decision
from artifactflow_nb.widgets.controls import button
from artifactflow_nb.widgets.pieces import mark
from artifactflow_nb.widgets.render import RunRenderer
from artifactflow_nb.widgets.transcript import Transcript
from artifactflow_nb.widgets.tree import Node, prefixed

OnChange = Callable[["ChatTurn", bool], None]


class ChatTurn:
    """Follows the run of one message.

    Args:
        message: The message.
        run: Its run; None for a turn that no run made.
        on_change: Called with the turn when it has changed, and whether it came to rest: ended, or waits.
        measured: Show times and tokens.

    Attributes:
        message: The message.
        transcript: What happened.
        editing: Whether its question is being edited.
    """

    def __init__(
        self, message: StoredMessage, run: RunPort | None, on_change: OnChange, *, measured: bool = True
    ) -> None:
        self.message = message
        self.run = run
        self.transcript = Transcript(message.content)
        self.editing = False
        self._renderer = None if run is None else RunRenderer(run, measured=measured, opened=False)
        self._on_change = on_change
        self._stop: Callable[[], None] = lambda: None
        self._node: Node | None = None

    def follow(self) -> None:
        """Take in what happened so far, and what will."""
        if self.run is not None:
            self._stop = self.run.subscribe(self._take)

    def take_all(self, events: list[StreamEvent]) -> None:
        """Take in what happened, of a run that has ended."""
        for event in events:
            self.transcript.apply(event)

    def _take(self, event: StreamEvent) -> None:
        self.transcript.apply(event)
        self._node = None
        at_rest = self.transcript.ended or self.transcript.status == "waiting"
        self._on_change(self, at_rest)
        if self.transcript.ended:
            self.close()

    def change(self, *, message: StoredMessage | None = None, editing: bool | None = None) -> None:
        """Take over what is new about it."""
        if message is not None and message != self.message:
            self.message, self._node = message, None
        if editing is not None and editing != self.editing:
            self.editing, self._node = editing, None

    @property
    def answer(self) -> str:
        """The answer as it was given, in Markdown."""
        return self.transcript.response or self.message.response or ""

    @property
    def node(self) -> Node:
        """What the chat shows of it; the same object for as long as nothing changes."""
        if self._node is None:
            key = self.message.message_id
            inside = (self._question(), *self._came_of_it(), self._foot())
            self._node = Node(f"turn-{key}", kind="box", css="af-turn", children=prefixed(inside, f"{key}/"))
        return self._node

    def _question(self) -> Node:
        message = self.message
        children: list[Node] = []
        if self.editing:
            fields = [
                {"name": "text", "kind": "multiline", "label": "Question", "hideLabel": True, "value": message.content,
                 "rows": 2, "autofocus": True, "required": True}
            ]  # fmt: skip
            children.append(
                Node("edit", kind="form", css="af-edit", data={
                    "act": "resend", "args": {"message": message.message_id}, "submit": "Ask this instead",
                    "cancel": "Cancel", "cancelAct": "cancel_edit", "label": "Edit the question", "fields": fields,
                })
            )  # fmt: skip
        else:
            children.append(Node("asked", f"<p>{speak(message.content)}</p>", css="af-asked"))
        children.append(Node("asked-controls", self._question_controls(), "controls", "af-controls af-on-question"))
        return Node("question", kind="box", css="af-mine", children=tuple(children))

    def _question_controls(self) -> str:
        message = self.message
        which = message.message_id
        parts = []
        if message.n_siblings > 1:
            at = message.sibling_index + 1
            parts += [
                button("‹", "sibling", css="af-small", name="The version before this one", step=-1, message=which),
                f'<span class="af-quiet">{at} / {message.n_siblings}</span>',
                button("›", "sibling", css="af-small", name="The version after this one", step=1, message=which),
            ]
        if not self.editing:
            parts.append(button("Edit", "edit", css="af-small", name="Edit this question and ask again", message=which))
        return " ".join(parts)

    def _came_of_it(self) -> tuple[Node, ...]:
        if self._renderer is not None:
            return self._renderer.parts(self.transcript)
        html = MarkdownRenderer()
        blocks = [html.block(block.markdown) for block in TextBlocks(self.message.response or "").blocks]
        return (Node("answer", "".join(blocks), css="af-answer af-md"),)

    def _foot(self) -> Node:
        which = self.message.message_id
        if self._renderer is None:
            state = Node(
                "state", f"{mark('completed')} <span>{escape(labels.STATUS_LABELS['completed'])}</span>", css="af-meta"
            )
            ended = True
        else:
            state, ended = self._renderer.state(self.transcript, message=which), self.transcript.ended
        buttons = (
            [button("Copy", "copy", css="af-small", name="Copy the answer as Markdown", message=which)]
            if self.answer
            else []
        )
        if ended:
            buttons.append(
                button("Regenerate", "regenerate", css="af-small", name="Ask this once more, beside it", message=which)
            )
        controls = Node("foot-controls", " ".join(buttons), "controls", "af-controls")
        return Node("foot", kind="box", css="af-foot", children=(state, controls))

    def plain(self) -> str:
        """What was asked and what came of it, as text."""
        if self.run is None:
            return f"{self.message.content}\n\n{self.answer}"
        return frozen.plain(self.transcript)

    def markdown(self) -> str:
        """The same in Markdown that can be shown anywhere."""
        if self.run is None or self._renderer is None:
            return f"**{portable(self.message.content)}**\n\n{portable(self.answer)}"
        return frozen.markdown(self.transcript, self.run, measured=self._renderer.measured)

    async def decide(self, args: Mapping[str, Any]) -> None:
        """Answer a question of the run, with what its card sends."""
        question = self.transcript.questions[str(args["request"])]
        if self.run is not None:
            await self.run.decide(question.id, read_decision(args, question, self.run.tool(question.tool)))

    def close(self) -> None:
        """Follow no more."""
        self._stop()
        self._stop = lambda: None
