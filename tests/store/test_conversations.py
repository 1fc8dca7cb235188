"""The tree of messages."""

import pytest
from store.conftest import AddTurn

from artifactflow_nb.ambient import CountingIds, SystemClock
from artifactflow_nb.errors import Conflict, NotFound
from artifactflow_nb.store.conversations import UNANSWERED, ConversationManager
from artifactflow_nb.store.database import Database


@pytest.fixture
def conversations(database: Database) -> ConversationManager:
    return ConversationManager(database, SystemClock(), CountingIds())


async def test_a_message_continues_the_active_branch(conversations: ConversationManager, add_turn: AddTurn) -> None:
    """Without a parent a message follows the newest one of the active branch."""
    first = await add_turn("one")
    second = await add_turn("two")
    path = await conversations.path("conv-1", second)
    assert [(message.message_id, message.parent_id) for message in path] == [(first, None), (second, first)]


async def test_a_branch_does_not_see_its_sibling(conversations: ConversationManager, add_turn: AddTurn) -> None:
    """Two answers to one message are siblings; each history holds only its own branch."""
    first = await add_turn("one", answer="1")
    await add_turn("left", answer="L")
    right = await add_turn("right", first, answer="R")
    history = await conversations.format_conversation_history("conv-1", right)
    assert [message.content for message in history] == ["one", "1", "right", "R"]


async def test_none_starts_a_second_root(conversations: ConversationManager, add_turn: AddTurn) -> None:
    """With None as parent a new root begins, so that the first message too can be asked again."""
    await add_turn("one")
    again = await add_turn("one, again", None)
    assert [message.content for message in await conversations.path("conv-1", again)] == ["one, again"]


async def test_an_unknown_or_foreign_parent_is_an_error(add_turn: AddTurn) -> None:
    """A parent that is not in the conversation is named in the error, and nothing is stored."""
    foreign = await add_turn("one", conversation="conv-2")
    await add_turn("one")
    with pytest.raises(NotFound, match="no message 'msg-x' in this store"):
        await add_turn("two", "msg-x")
    with pytest.raises(NotFound, match=f"no message '{foreign}' in the conversation 'conv-1'"):
        await add_turn("two", foreign)


async def test_a_branch_that_still_runs_takes_no_second_turn(add_turn: AddTurn) -> None:
    """Two turns at once on one branch are refused instead of forking it in silence."""
    running = await add_turn("one", answer=None)
    with pytest.raises(Conflict, match=f"'{running}' is still running"):
        await add_turn("two")


async def test_an_unanswered_turn_keeps_the_alternation(conversations: ConversationManager, add_turn: AddTurn) -> None:
    """User and assistant alternate also where a turn got no answer."""
    first = await add_turn("one", answer="")
    history = await conversations.format_conversation_history("conv-1", first)
    assert [(message.role, message.content) for message in history] == [("user", "one"), ("assistant", UNANSWERED)]


async def test_the_list_has_titles_and_counts(conversations: ConversationManager, add_turn: AddTurn) -> None:
    """A conversation is titled by its first question; the newest comes first."""
    await add_turn("What   is\nthis?")
    await add_turn("two")
    await add_turn("Other.", conversation="conv-2")
    listed = await conversations.list_conversations()
    assert [(entry.title, entry.n_messages) for entry in listed] == [("Other.", 1), ("What is this?", 2)]
    assert [entry.title for entry in await conversations.list_conversations(limit=1, offset=1)] == ["What is this?"]


async def test_deleting_takes_all_messages_along(conversations: ConversationManager, add_turn: AddTurn) -> None:
    """A deleted conversation is gone with everything in it; others stay."""
    await add_turn("one")
    await add_turn("two")
    await add_turn("other", conversation="conv-2")
    await conversations.delete_conversation("conv-1")
    assert [entry.conversation_id for entry in await conversations.list_conversations()] == ["conv-2"]
    with pytest.raises(NotFound, match="no conversation 'conv-1'"):
        await conversations.messages("conv-1")


async def test_a_conversation_can_be_started_empty(conversations: ConversationManager) -> None:
    """An empty conversation is listed and has no messages."""
    started = await conversations.start_conversation("Plans")
    assert await conversations.messages(started) == []
    assert (await conversations.list_conversations())[0].title == "Plans"
