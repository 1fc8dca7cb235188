"""The handle of a conversation, with exports of one of its branches."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.export import AnyPath, ExportMixin, conversation_document, write_document
from artifactflow_nb.store.conversations import Conversation


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class ConversationHandle(ExportMixin, Conversation):
    """A `Conversation` whose branch can be exported.

    An exported file has the questions and answers of the branch, the sources, and the artifacts in their versions at
    the end of the branch.

    Attributes:
        thread: The engine's thread, which reads the store.
        message_id: The last message of the branch; None for the branch that is active at the time of the export.
    """

    thread: EngineThread
    message_id: str | None = None

    @classmethod
    def from_conversation(cls, thread: EngineThread, conversation: Conversation, message_id: str | None = None) -> Self:
        """The handle of a conversation, or of the branch that ends with a message."""
        values = {field.name: getattr(conversation, field.name) for field in fields(Conversation)}
        return cls(**values, thread=thread, message_id=message_id)

    def _write(self, form: str, path: AnyPath | None, *, overwrite: bool) -> Path:
        document = self.thread.call(conversation_document(self.thread.engine, self.conversation_id, self.message_id))
        return write_document(document, form, path, overwrite=overwrite)
