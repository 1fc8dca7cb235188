"""The reading pane of the conversation panel: one message with its run, or with its texts if it has no run."""

from collections.abc import Callable

from artifactflow_nb.core.text.markdown import MarkdownRenderer, escape_with_language
from artifactflow_nb.core.text.shortened import ANSWER_LOCATION, shown_html
from artifactflow_nb.store.conversations import StoredMessage
from artifactflow_nb.widgets.page.nodes import Node, prefixed
from artifactflow_nb.widgets.run.follower import RunFollower
from artifactflow_nb.widgets.run.protocol import ViewedRun
from artifactflow_nb.widgets.run.render import RunRenderer
from artifactflow_nb.widgets.run.transcript import RunTranscript
from artifactflow_nb.widgets.run.view import announcement


class MessageReader:
    """Shows one message and follows its run while that is unfinished.

    Args:
        message: The message.
        run: The run that answers it; None for a message that was added without a run.
        changed: Called when there is something new to show.

    Attributes:
        run: The run; None if there is none.
        follower: Follows the run; None if there is none.
    """

    def __init__(self, message: StoredMessage, run: ViewedRun | None, changed: Callable[[], None]) -> None:
        self.run = run
        self._message = message
        self._transcript = RunTranscript(message.content)
        self._renderer = RunRenderer(run) if run else None
        self.follower = RunFollower(run, self._transcript, changed, lambda: None) if run else None

    def nodes(self) -> tuple[Node, ...]:
        """The question, the steps of the run, open approval requests, the answer and the artifacts."""
        message_id = self._message.message_id
        if self._renderer is not None:
            nodes = self._renderer.nodes(self._transcript, message=message_id)
        else:
            answer = shown_html(self._message.response or "", MarkdownRenderer(), ANSWER_LOCATION)
            nodes = (
                Node("question", f"<strong>{escape_with_language(self._message.content)}</strong>", css="af-question"),
                Node("answer", answer, css="af-answer af-md"),
            )
        # The prefix keeps keys unique: the page must not take this message's parts for those of the one read before.
        return prefixed(nodes, f"{message_id}/")

    def announcement(self) -> str:
        """Announce a request that needs a decision, or the end of the run; empty without a run."""
        return announcement(self._transcript, self._renderer.texts) if self._renderer else ""

    def close(self) -> None:
        """Stop following the run."""
        if self.follower is not None:
            self.follower.close()
