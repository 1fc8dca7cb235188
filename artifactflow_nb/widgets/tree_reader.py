"""One message of the tree as it is read: its run, followed while it goes on, or its texts where no run made it."""

from collections.abc import Callable

from artifactflow_nb.approvals import Decision
from artifactflow_nb.errors import Conflict, NotFound
from artifactflow_nb.events import StreamEvent
from artifactflow_nb.store.conversations import StoredMessage
from artifactflow_nb.text.markdown import MarkdownRenderer, speak
from artifactflow_nb.widgets.ask_card import read_decision
from artifactflow_nb.widgets.base import ViewedRun
from artifactflow_nb.widgets.render import RunRenderer
from artifactflow_nb.widgets.run_view import announcement
from artifactflow_nb.widgets.transcript import Transcript
from artifactflow_nb.widgets.tree import Node, prefixed
from artifactflow_nb.widgets.view import Act


class Reading:
    """What is read.

    Args:
        message: The message.
        run: The run that answers it; None if none does.
        changed: Called when there is something new to show.

    Attributes:
        message: The message.
        close: Ends the following of the run; whoever has `take` called sets it.
    """

    def __init__(self, message: StoredMessage, run: ViewedRun | None, changed: Callable[[], None]) -> None:
        self.message = message
        self.close: Callable[[], None] = lambda: None
        self._changed = changed
        self._run = run
        self._transcript = Transcript(message.content)
        self._renderer = RunRenderer(run) if run else None

    def take(self, event: StreamEvent) -> None:
        """Take in an event of the run."""
        self._transcript.apply(event)
        self._changed()

    def observe(self, *, is_gone: bool) -> None:
        """Take in whether the process of the run is gone."""
        self._transcript.observe(is_gone=is_gone)

    def nodes(self) -> tuple[Node, ...]:
        """The question, the steps, what is asked of the person, the answer, the artifacts."""
        which = self.message.message_id
        made = self._renderer.nodes(self._transcript, message=which) if self._renderer else tuple(self._texts())
        return prefixed(made, f"{which}/")

    def _texts(self) -> list[Node]:
        answer = MarkdownRenderer().html(self.message.response or "")
        return [
            Node("question", f"<strong>{speak(self.message.content)}</strong>", css="af-question"),
            Node("answer", answer, css="af-answer af-md"),
        ]

    def announcement(self) -> str:
        """That a decision is needed, and how the run ended."""
        return announcement(self._transcript) if self._run else ""

    async def decide(self, act: Act) -> None:
        """Answer a request of the run."""
        question = self._transcript.questions.get(str(act.args.get("request")))
        if question is None or self._run is None:
            raise NotFound("The run that is shown has no such request.")
        decision: Decision = read_decision(act.args, question, self._run.tool(question.tool))
        await self._run.decide(question.id, decision)

    async def cancel(self) -> None:
        """End the run."""
        if self._run is None:
            raise Conflict("No run answers this question, so there is nothing to stop.")
        await self._run.cancel()
