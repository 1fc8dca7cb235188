"""`wb.conversation(...)`: the handle of a conversation and of a branch of the conversation."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from artifactflow_nb.core.language import in_language
from artifactflow_nb.core.local_files import AnyPath
from artifactflow_nb.errors import UsageError, check_text
from artifactflow_nb.export.conversation import conversation_document
from artifactflow_nb.export.files import ExportMixin, write_document
from artifactflow_nb.notebook.display import CellDisplay
from artifactflow_nb.notebook.run import Run, start_run
from artifactflow_nb.notebook.sources import BudgetLike
from artifactflow_nb.recording.engine import RecordingThread
from artifactflow_nb.store.conversations import Conversation, StoredMessage


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class ConversationHandle(ExportMixin, Conversation):
    """A `Conversation` and one of its branches: to export, to ask again, to activate, to delete.

    An exported file has the questions and answers of the branch, the sources, and the versions of the artifacts at the
    end of the branch.

    Attributes:
        thread: The engine's thread, which reads the store.
        display: Displays the runs that the handle starts.
        message_id: The last message of the branch; None for the branch that is active when a method is called.
    """

    thread: RecordingThread
    display: CellDisplay
    message_id: str | None = None

    @classmethod
    def from_conversation(
        cls, thread: RecordingThread, display: CellDisplay, conversation: Conversation, message_id: str | None = None
    ) -> Self:
        """Create the handle of a conversation, or of the branch that ends with a message."""
        values = {field.name: getattr(conversation, field.name) for field in fields(Conversation)}
        return cls(**values, thread=thread, display=display, message_id=message_id)

    def regenerate(self, *, budget: BudgetLike = None, model: str | None = None) -> Run:
        """Ask the last question again on a new branch; the new run does not see the earlier answer.

        Args:
            budget: The limits of the run; None for the limits of the earlier run.
            model: The name of the model; None for the model of the earlier run.

        Errors: `UsageError` for a conversation without a question.
        """
        return self._ask_sibling(None, budget, model)

    def edit(self, question: str, *, budget: BudgetLike = None, model: str | None = None) -> Run:
        """Ask another question instead of the last question, on a new branch; the earlier branch is unchanged.

        Arguments and errors as for `regenerate`; `UsageError` for an empty question.
        """
        check_text("question", question)
        return self._ask_sibling(question, budget, model)

    def activate(self) -> StoredMessage:
        """Activate the branch through the message, so that `ask` continues the branch; return its newest message."""
        manager, message_id = self.thread.engine.conversations, self._last_message()

        async def activate() -> StoredMessage:
            return await manager.message(await manager.activate(message_id))

        return self.thread.call(activate())

    def delete_branch(self) -> None:
        """Delete the last message and all messages after it, with runs and artifacts; `Conflict` while a run runs."""
        self.thread.call(self.thread.engine.conversations.delete_branch(self._last_message()))

    def rename(self, title: str) -> None:
        """Give the conversation another title."""
        self.thread.call(self.thread.engine.conversations.rename(self.conversation_id, title))

    def delete(self) -> None:
        """Delete the conversation with its messages, runs and artifacts; `Conflict` while a run is running."""
        self.thread.call(self.thread.engine.conversations.delete_conversation(self.conversation_id))

    def _last_message(self) -> str:
        """Return the id of the last message of the branch; `UsageError` for a conversation without messages."""
        manager = self.thread.engine.conversations
        message_id = self.message_id or self.thread.call(manager.get(self.conversation_id)).active_message_id
        if message_id is None:
            raise UsageError(f"The conversation {self.title!r} has no message yet. Ask a question in it first.")
        return message_id

    def _ask_sibling(self, question: str | None, budget: BudgetLike, model: str | None) -> Run:
        controller, message_id = self.thread.engine.controller, self._last_message()
        flow = self.thread.call(controller.flow_of_message(message_id))
        return start_run(
            self.thread,
            self.display,
            lambda: controller.begin_sibling(message_id, question, budget=budget, model=model),
            flow,
        )

    def _write(self, form: str, path: AnyPath | None, *, overwrite: bool) -> Path:
        document = self.thread.call(conversation_document(self.thread.engine, self.conversation_id, self.message_id))
        with in_language(self.thread.language):
            return write_document(document, form, path, overwrite=overwrite)
