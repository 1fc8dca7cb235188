"""Arguments that refer to a conversation, a branch or a message: handles and ids."""

from collections.abc import Iterable
from typing import Any

from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.notebook.run import Run
from artifactflow_nb.store.conversations import Conversation, StoredMessage
from artifactflow_nb.store.frames import HasConversationId

ConversationReference = Run | Conversation | StoredMessage | str
"""A conversation, a run or a message of the conversation, or the id of the conversation."""

ConversationLike = Run | Conversation | StoredMessage | str
"""A run, a conversation, a message, or an id of a run, conversation or message; each value identifies a branch."""

MetricsSubject = Run | HasConversationId | Iterable[Run | str] | None
"""A run, an object of a conversation, or runs; None for everything."""


def conversation_id(reference: ConversationReference) -> str:
    """Return the id of a conversation; `UsageError` for a value of another type."""
    if isinstance(reference, Run | Conversation | StoredMessage):
        return reference.conversation_id
    if not isinstance(reference, str):
        raise UsageError(f"{brief(reference)} is not a conversation. Pass a conversation, a run, a message or an id.")
    return reference


async def branch_ids(engine: Engine, reference: ConversationLike | None) -> tuple[str | None, str | None]:
    """Return the ids of the conversation and of the last message of a branch.

    The message id is None for the active branch of a conversation. Without a reference, the result is the active branch
    of the conversation with the latest question, or None and None if there is no conversation.

    Errors: `NotFound` for an unknown id; `UsageError` for a value of another type.
    """
    if reference is None:
        newest = await engine.conversations.list_conversations(limit=1)
        return (newest[0].conversation_id if newest else None), None
    if isinstance(reference, Run | StoredMessage):
        reference = reference.message_id
    elif isinstance(reference, Conversation):
        reference = reference.conversation_id
    elif not isinstance(reference, str):
        raise UsageError(f"A {type(reference).__name__} is not a conversation. Pass a run, a conversation, or an id.")
    # Ids have the type as a prefix; any other text is tried as the id of a conversation.
    if reference.startswith("run-"):
        reference = (await engine.runs.get(reference)).message_id
    if reference.startswith("msg-"):
        return (await engine.conversations.message(reference)).conversation_id, reference
    return (await engine.conversations.get(reference)).conversation_id, None


def metrics_filters(of: MetricsSubject) -> dict[str, Any]:
    """Return the arguments of `metrics_df` that select a subject, as plain values."""
    if of is None:
        return {}
    if isinstance(of, HasConversationId) and not isinstance(of, Run):
        return {"conversation": of.conversation_id}
    runs = [of] if isinstance(of, Run | str) else of
    return {"run": [run.run_id if isinstance(run, Run) else run for run in runs]}
