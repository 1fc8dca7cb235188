"""A conversation as a person holds it: what a list shows of it, and its branch as a file for others."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from artifactflow_nb.engine_thread import EngineThread
from artifactflow_nb.export import AnyPath, TakenAlong, conversation_document, write_document
from artifactflow_nb.store.conversation_list import Conversation


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class ConversationHandle(TakenAlong, Conversation):
    """A conversation, with all that a `Conversation` has, and the ways to take a branch of it along.

    Each file has the branch's questions with their answers, the sources that were read, and the artifacts as they are
    at its end.

    Attributes:
        thread: The engine's thread, which reads.
        message_id: The last message of the branch; None for the active branch, whichever that is by then.
    """

    thread: EngineThread
    message_id: str | None = None

    @classmethod
    def of(cls, thread: EngineThread, conversation: Conversation, message_id: str | None = None) -> Self:
        """The handle of a conversation, or of the branch that ends with a message."""
        values = {field.name: getattr(conversation, field.name) for field in fields(Conversation)}
        return cls(**values, thread=thread, message_id=message_id)

    def _write(self, form: str, path: AnyPath | None, *, overwrite: bool) -> Path:
        made = conversation_document(self.thread.engine, self.conversation_id, self.message_id)
        return write_document(self.thread.call(made), form, path, overwrite=overwrite)
