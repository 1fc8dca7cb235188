"""A question of a conversation with all that came of it, as one element of the chat."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from artifactflow_nb.events import StreamEvent
from artifactflow_nb.run_port import RunPort
from artifactflow_nb.store.conversations import StoredMessage
from artifactflow_nb.text.cards import visible
from artifactflow_nb.text.markdown import MarkdownRenderer, escape, portable, portable_line, speak
from artifactflow_nb.text.markdown_blocks import TextBlocks
from artifactflow_nb.text.width import clip, cut
from artifactflow_nb.tools.forms import Field
from artifactflow_nb.widgets import frozen, labels
from artifactflow_nb.widgets.ask_card import read_decision
from artifactflow_nb.widgets.controls import button
from artifactflow_nb.widgets.following import Follower
from artifactflow_nb.widgets.pieces import mark
from artifactflow_nb.widgets.render import RunRenderer
from artifactflow_nb.widgets.transcript import Transcript
from artifactflow_nb.widgets.tree import Node, prefixed, static_html
from artifactflow_nb.widgets.view import Face

OnChange = Callable[[bool], None]
_BRIEF = "Shortened: the steps, the artifacts and the rest of the answer are left out here."
_BRIEF_COLUMNS = 400


class ChatTurn:
    """Follows the run of one message.

    Args:
        message: The message.
        run: Its run; None for a turn that no run made.
        on_change: Called when it has changed, with whether that is worth saving.
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
        told = partial(self._changed, keep=False), partial(self._changed, keep=True)
        self._follower = None if run is None else Follower(run, self.transcript, *told)
        self._node: Node | None = None
        self._face: Face | None = None
        self._brief_face: Face | None = None

    async def follow(self) -> None:
        """Take in what happened so far, and what will."""
        if self._follower is not None:
            await self._follower.start()

    async def take_all(self, events: list[StreamEvent]) -> None:
        """Take in what happened, of a run that has ended."""
        for event in events:
            self.transcript.apply(event)
        if self._follower is not None:
            await self._follower.follow_below()

    def _changed(self, *, keep: bool) -> None:
        self._forget()
        self._on_change(keep)

    def _forget(self) -> None:
        """What was made of it is to be made anew."""
        self._node = self._face = self._brief_face = None

    def change(self, *, message: StoredMessage | None = None, editing: bool | None = None) -> None:
        """Take over what is new about it."""
        if message is not None and message != self.message:
            self.message = message
            self._forget()
        if editing is not None and editing != self.editing:
            self.editing = editing
            self._forget()

    @property
    def is_complete(self) -> bool:
        """Whether all that there will be to it was taken in."""
        return self.run is None or self.transcript.ended

    @property
    def answer(self) -> str:
        """The answer as it was given, in Markdown."""
        return self.transcript.response or self.message.response or ""

    @property
    def node(self) -> Node:
        """What the chat shows of it; the same object for as long as nothing changes."""
        if self._node is None:
            self._node = self._made(editing=self.editing)
        return self._node

    def _made(self, *, editing: bool) -> Node:
        key = self.message.message_id
        inside = (self._question(editing=editing), *self._came_of_it(), self._foot())
        return Node(f"turn-{key}", kind="box", css="af-turn", children=prefixed(inside, f"{key}/"))

    def _question(self, *, editing: bool) -> Node:
        message = self.message
        children: list[Node] = []
        if editing:
            text = Field(
                "text", "multiline", message.content, "Question", required=True, rows=2, hide_label=True, autofocus=True
            )
            children.append(
                Node("edit", kind="form", css="af-edit", data={
                    "act": "resend", "args": {"message": message.message_id}, "submit": "Ask this instead",
                    "cancel": "Cancel", "cancelAct": "cancel_edit", "label": "Edit the question",
                    "fields": [text.as_json()],
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
            name = "Regenerate: ask this once more, beside it"
            buttons.append(button("Regenerate", "regenerate", css="af-small", name=name, message=which))
        controls = Node("foot-controls", " ".join(buttons), "controls", "af-controls")
        return Node("foot", kind="box", css="af-foot", children=(state, controls))

    def face(self) -> Face:
        """What was asked and what came of it, to be read without a kernel; made once for as long as nothing changes."""
        if self._face is None:
            html = static_html((self._made(editing=False) if self.editing else self.node,))
            self._face = {"text/plain": self._plain(), "text/markdown": self._markdown(), "text/html": html}
        return self._face

    def brief_face(self) -> Face:
        """What was asked and how the answer begins, for a notebook that has no room for the whole; made once too."""
        if self._brief_face is None:
            question = clip(self.message.content, _BRIEF_COLUMNS)
            said = self.answer or self.transcript.problem
            begun = cut(said, _BRIEF_COLUMNS).rstrip()
            begun += " …" if len(begun) < len(said.rstrip()) else ""
            nodes = (
                Node("asked", f"<p>{speak(question)}</p>", css="af-asked"),
                Node("answer", MarkdownRenderer().html(begun), css="af-answer af-md"),
                Node("brief", f"<p>{_BRIEF}</p>", css="af-quiet"),
                self._foot(),
            )
            self._brief_face = {
                "text/plain": visible(f"{question}\n\n{begun}\n\n{_BRIEF}"),
                "text/markdown": f"**{portable_line(question)}**\n\n{portable(begun)}\n\n*{_BRIEF}*",
                "text/html": static_html((Node("turn", kind="box", css="af-turn", children=nodes),)),
            }
        return self._brief_face

    def _plain(self) -> str:
        if self.run is None:
            return visible(f"{self.message.content}\n\n{self.answer}")
        return frozen.plain(self.transcript)

    def _markdown(self) -> str:
        if self.run is None or self._renderer is None:
            return f"**{portable_line(self.message.content)}**\n\n{portable(self.answer)}"
        return frozen.markdown(self.transcript, self.run, measured=self._renderer.measured)

    async def decide(self, args: Mapping[str, Any]) -> None:
        """Answer a question of the run, with what its card sends."""
        question = self.transcript.asked(str(args.get("request")))
        if self.run is not None and question is not None:
            await self.run.decide(question.id, read_decision(args, question, self.run.tool(question.tool)))

    async def go_on(self) -> None:
        """Go on with the run, whose process is gone."""
        if self._follower is not None:
            await self._follower.go_on()

    def close(self) -> None:
        """Follow no more."""
        if self._follower is not None:
            self._follower.close()
