"""One message of the tree as it is read: its run, followed while it goes on, or its texts where no run made it."""

from collections.abc import Callable

from artifactflow_nb.approvals import Decision
from artifactflow_nb.errors import Conflict, NotFound
from artifactflow_nb.store.conversations import StoredMessage
from artifactflow_nb.text.markdown import MarkdownRenderer, speak
from artifactflow_nb.widgets.ask_card import read_decision
from artifactflow_nb.widgets.base import ViewedRun
from artifactflow_nb.widgets.following import Follower
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
    """

    def __init__(self, message: StoredMessage, run: ViewedRun | None, changed: Callable[[], None]) -> None:
        self.message = message
        self._run = run
        self._transcript = Transcript(message.content)
        self._renderer = RunRenderer(run) if run else None
        self._follower = Follower(run, self._transcript, changed, lambda: None) if run else None

    async def start(self) -> None:
        """Take in what the run did so far, and what it will do."""
        if self._follower is not None:
            await self._follower.start()

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
        question = self._transcript.asked(str(act.args.get("request")))
        if question is None or self._run is None:
            raise NotFound("The run that is shown has no such request.")
        decision: Decision = read_decision(act.args, question, self._run.tool(question.tool))
        await self._run.decide(question.id, decision)

    async def go_on(self) -> None:
        """Go on with the run; `Conflict` if it cannot be."""
        if self._follower is None:
            raise Conflict("No run answers this question, so it cannot be resumed.")
        await self._follower.go_on()

    async def cancel(self) -> None:
        """End the run."""
        if self._run is None:
            raise Conflict("No run answers this question, so there is nothing to stop.")
        await self._run.cancel()

    def close(self) -> None:
        """Follow no more."""
        if self._follower is not None:
            self._follower.close()
