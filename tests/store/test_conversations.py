"""Conversations: the tree of messages."""

import sqlite3

import pytest
from store.conftest import AddTurn
from support.cpu_time import within

from artifactflow_nb.core.clock_ids import SystemClock
from artifactflow_nb.errors import Conflict, NotFound, UsageError
from artifactflow_nb.store.conversations import NO_ANSWER_TEXT, ConversationManager
from artifactflow_nb.store.database import Database
from artifactflow_nb.testing import FakeIds


@pytest.fixture
def conversations(database: Database) -> ConversationManager:
    return ConversationManager(database, SystemClock(), FakeIds())


async def test_message_continues_the_active_branch(conversations: ConversationManager, add_turn: AddTurn) -> None:
    """Without a parent a message follows the newest message of the active branch."""
    first = await add_turn("one")
    second = await add_turn("two")
    path = await conversations.path("conv-1", second)
    assert [(message.message_id, message.parent_id) for message in path] == [(first, None), (second, first)]


async def test_branch_does_not_see_its_sibling(conversations: ConversationManager, add_turn: AddTurn) -> None:
    """Two answers to one message are siblings; each history contains only its own branch."""
    first = await add_turn("one", answer="1")
    await add_turn("left", answer="L")
    right = await add_turn("right", first, answer="R")
    history = await conversations.format_conversation_history("conv-1", right)
    assert [message.content for message in history] == ["one", "1", "right", "R"]


async def test_parent_none_starts_a_second_root(conversations: ConversationManager, add_turn: AddTurn) -> None:
    """The first message can have a sibling."""
    await add_turn("one")
    again = await add_turn("one, again", None)
    assert [message.content for message in await conversations.path("conv-1", again)] == ["one, again"]


async def test_unknown_or_foreign_parent_is_an_error(add_turn: AddTurn) -> None:
    """The error names a parent that is not in the conversation, and nothing is stored."""
    foreign = await add_turn("one", conversation="conv-2")
    await add_turn("one")
    with pytest.raises(NotFound, match="no message 'msg-x' in this store"):
        await add_turn("two", "msg-x")
    with pytest.raises(NotFound, match=f"no message '{foreign}' in the conversation 'conv-1'"):
        await add_turn("two", foreign)


async def test_branch_with_a_running_run_takes_no_question(add_turn: AddTurn) -> None:
    """The branch does not fork."""
    running = await add_turn("one", answer=None)
    with pytest.raises(Conflict, match=f"'{running}' is still running"):
        await add_turn("two")


async def test_history_alternates_after_an_unanswered_turn(
    conversations: ConversationManager, add_turn: AddTurn
) -> None:
    """Messages of user and assistant alternate."""
    first = await add_turn("one", answer="")
    history = await conversations.format_conversation_history("conv-1", first)
    assert [(message.role, message.content) for message in history] == [("user", "one"), ("assistant", NO_ANSWER_TEXT)]


async def test_list_has_titles_and_counts(conversations: ConversationManager, add_turn: AddTurn) -> None:
    """The title is the first question; the newest conversation is first."""
    await add_turn("What   is\nthis?")
    await add_turn("two")
    await add_turn("Other.", conversation="conv-2")
    listed = await conversations.list_conversations()
    assert [(entry.title, entry.n_messages) for entry in listed] == [("Other.", 1), ("What is this?", 2)]
    assert [entry.title for entry in await conversations.list_conversations(limit=1, offset=1)] == ["What is this?"]


async def test_title_names_sources_by_their_titles(conversations: ConversationManager, add_turn: AddTurn) -> None:
    """An address in the first question is replaced by the title of its source, or else by its file name."""
    insert = (
        "INSERT INTO sources (source_id, uri, title, fetched_at, media_type, sha256, n_chars, extractor) "
        "VALUES (?, 'file:///north.md', ?, 0, '', '', 0, '')"
    )
    await conversations._database.write(lambda db: db.execute(insert, ("seas/north.md", "The North Sea")))
    await add_turn("Is local:seas/north.md#tides deeper than local:seas/baltic.md?")
    assert (await conversations.list_conversations())[0].title == "Is The North Sea deeper than baltic.md?"


async def test_deleting_a_conversation_deletes_its_messages(
    conversations: ConversationManager, add_turn: AddTurn
) -> None:
    """Other conversations do not change."""
    await add_turn("one")
    await add_turn("two")
    await add_turn("other", conversation="conv-2")
    await conversations.delete_conversation("conv-1")
    assert [entry.conversation_id for entry in await conversations.list_conversations()] == ["conv-2"]
    with pytest.raises(NotFound, match="no conversation 'conv-1'"):
        await conversations.messages("conv-1")


async def test_empty_conversation_is_listed(conversations: ConversationManager) -> None:
    """An empty conversation has no messages."""
    started = await conversations.start_conversation("Plans")
    assert await conversations.messages(started) == []
    assert (await conversations.list_conversations())[0].title == "Plans"


async def test_turn_without_a_run_can_be_added(conversations: ConversationManager) -> None:
    """A question with its answer becomes a turn; after an unanswered message the question is refused."""
    started = await conversations.start_conversation()
    first = await conversations.add(started, "  One? ", "1.")
    second = await conversations.add(started, "Two?", "2.")
    assert (first.content, first.status, first.run_id, second.parent_id) == (
        "One?",
        "completed",
        None,
        first.message_id,
    )
    history = await conversations.format_conversation_history(started, second.message_id)
    assert [message.content for message in history] == ["One?", "1.", "Two?", "2."]
    with pytest.raises(UsageError, match="question is empty"):
        await conversations.add(started, " ", "3.")


async def test_retry_and_edit_are_siblings(conversations: ConversationManager) -> None:
    """Siblings have the parent of the message; no history contains another attempt."""
    started = await conversations.start_conversation()
    root = await conversations.add(started, "One?", "1.")
    first = await conversations.add(started, "Two?", "2.")
    again = await conversations.regenerate(first.message_id, "II.")
    other = await conversations.edit(first.message_id, "Three?", "3.")
    assert {entry.parent_id for entry in (first, again, other)} == {root.message_id}
    assert [(entry.sibling_index, entry.n_siblings) for entry in (again, other)] == [(1, 2), (2, 3)]
    history = await conversations.format_conversation_history(started, again.message_id)
    assert [message.content for message in history] == ["One?", "1.", "Two?", "II."]
    assert (await conversations.message(first.message_id)).n_siblings == 3


async def test_sibling_of_a_root_is_a_root(conversations: ConversationManager) -> None:
    started = await conversations.start_conversation()
    root = await conversations.add(started, "One?", "1.")
    again = await conversations.regenerate(root.message_id, "I.")
    assert (again.parent_id, again.sibling_index, again.n_siblings) == (None, 1, 2)


async def test_branch_can_start_after_any_message(conversations: ConversationManager) -> None:
    """A turn after an earlier message becomes the active branch."""
    started = await conversations.start_conversation()
    root = await conversations.add(started, "One?", "1.")
    await conversations.add(started, "Two?", "2.")
    side = await conversations.branch(root.message_id, "Side?", "S.")
    assert side.parent_id == root.message_id
    assert [turn.content for turn in await conversations.path(started)] == ["One?", "Side?"]


async def test_activating_a_message_activates_its_newest_descendant(
    conversations: ConversationManager, add_turn: AddTurn
) -> None:
    """The next question continues that message."""
    root = await add_turn("root")
    left = await add_turn("left")
    await add_turn("left, old end")
    newest = await add_turn("left, new end", left)
    await add_turn("right", root)
    assert await conversations.activate(left) == newest
    assert (await conversations.get("conv-1")).active_message_id == newest
    assert [turn.message_id for turn in await conversations.path("conv-1")] == [root, left, newest]
    following = await add_turn("on")
    assert (await conversations.message(following)).parent_id == newest
    with pytest.raises(NotFound, match="no message 'msg-x' in this store"):
        await conversations.activate("msg-x")


async def test_message_has_the_id_of_its_run(conversations: ConversationManager, add_turn: AddTurn) -> None:
    """The id is the id of the newest run that answers the message."""
    await add_turn("one")
    (message,) = await conversations.messages("conv-1")
    assert message.run_id == "run-0001"


async def test_list_counts_branches(conversations: ConversationManager, add_turn: AddTurn) -> None:
    """A message without a reply is a branch; the conversation with the newest question is first."""
    root = await add_turn("root")
    await add_turn("left")
    await add_turn("right", root)
    await add_turn("other", conversation="conv-2")
    await add_turn("left, on", root)
    listed = await conversations.list_conversations()
    assert [(entry.title, entry.n_messages, entry.n_branches) for entry in listed] == [("root", 4, 3), ("other", 1, 1)]
    assert listed[0].updated_at > listed[0].created_at


async def test_conversation_can_be_renamed(conversations: ConversationManager, add_turn: AddTurn) -> None:
    """Later questions do not change the title; an empty title is refused."""
    await add_turn("one")
    await conversations.rename("conv-1", "  Tea \n and  coffee ")
    await add_turn("two")
    assert (await conversations.get("conv-1")).title == "Tea and coffee"
    with pytest.raises(UsageError, match="title is empty"):
        await conversations.rename("conv-1", " ")
    with pytest.raises(NotFound, match="no conversation 'conv-x'"):
        await conversations.rename("conv-x", "Tea")


@pytest.mark.parametrize(
    ("words", "titles", "excerpt"),
    [
        ("GREEN tea", ["conv-1"], "Which tea is best?"),
        ("tea", ["conv-2", "conv-1"], "Which tea is best?"),
        ("straße", ["conv-2"], None),
        ("STRASSE", ["conv-2"], None),
        ("绿茶", ["conv-3"], "我喜欢绿茶。"),
        ("plan", ["conv-3"], ""),
        ("plan 绿茶", ["conv-3"], "我喜欢绿茶。"),
        ("green 绿茶", [], None),
        ("%", [], None),
    ],
)
async def test_words_are_searched_in_titles_questions_and_answers(
    conversations: ConversationManager, add_turn: AddTurn, words: str, titles: list[str], excerpt: str | None
) -> None:
    """A message and the title must together contain all words, ignoring case; Chinese needs no spaces."""
    await add_turn("Which tea is best?", answer="Green, they say.", conversation="conv-1")
    await add_turn("Where is the tea house?", answer="In the Teestraße.", conversation="conv-2")
    await add_turn("我喜欢绿茶。", conversation="conv-3")
    await conversations.rename("conv-3", "Plans")
    hits = await conversations.search(words)
    assert sorted(hit.conversation_id for hit in hits) == sorted(titles)
    if excerpt is not None:
        assert hits[-1].hit
        assert hits[-1].hit.excerpt.startswith(excerpt)


async def test_hit_has_an_excerpt_around_the_word(conversations: ConversationManager, add_turn: AddTurn) -> None:
    """The excerpt is one line of the newest hit, with an ellipsis where the text continues."""
    await add_turn("needle")
    message = await add_turn("q", answer="hay " * 500 + "the\n needle " + "hay " * 500)
    (conversation,) = await conversations.search("needle")
    assert conversation.hit
    assert conversation.hit.message_id == message
    assert conversation.hit.excerpt.startswith("…")
    assert "hay the needle hay" in conversation.hit.excerpt
    assert conversation.hit.excerpt.endswith("…")
    assert len(conversation.hit.excerpt) <= 170
    with pytest.raises(UsageError, match="no word to search for"):
        await conversations.search("  ")


@pytest.mark.timed
async def test_search_of_a_large_store_is_quick(conversations: ConversationManager, database: Database) -> None:
    """A thousand messages of 5 KB take less than 50 ms of CPU time."""
    started = await conversations.start_conversation("All of it")

    def fill(db: sqlite3.Connection) -> None:
        for number in range(1_000):
            question, answer = "Why so? " * 60, f"Because of {number}. " * 280
            db.execute(
                "INSERT INTO messages VALUES (?, ?, NULL, ?, ?, 'completed', 0)",
                (f"msg-{number}", started, question, answer),
            )

    await database.write(fill)

    for attempt in within(0.05):
        with attempt:
            assert [entry.title for entry in await conversations.search("because 999.")] == ["All of it"]


async def test_deleting_a_branch_leaves_the_others(conversations: ConversationManager, add_turn: AddTurn) -> None:
    """A message is deleted with its descendants; the sibling branch becomes active, or else the parent's branch."""
    root = await add_turn("root")
    left = await add_turn("left")
    left_end = await add_turn("left end")
    right = await add_turn("right", root)
    await add_turn("right end")
    await conversations.delete_branch(right)
    assert [message.message_id for message in await conversations.messages("conv-1")] == [root, left, left_end]
    assert (await conversations.get("conv-1")).active_message_id == left_end
    await conversations.delete_branch(left)
    assert (await conversations.get("conv-1")).active_message_id == root
    await conversations.delete_branch(root)
    assert (await conversations.get("conv-1")).active_message_id is None
    assert await conversations.path("conv-1") == []
    following = await add_turn("anew")
    assert (await conversations.message(following)).parent_id is None


async def test_deleting_another_branch_leaves_the_active_one(
    conversations: ConversationManager, add_turn: AddTurn
) -> None:
    """The active branch changes only if the active branch is deleted."""
    root = await add_turn("root")
    left = await add_turn("left")
    right = await add_turn("right", root)
    await conversations.delete_branch(left)
    assert (await conversations.get("conv-1")).active_message_id == right
    assert (await conversations.message(right)).n_siblings == 1


async def test_messages_of_a_running_run_cannot_be_deleted(
    conversations: ConversationManager, add_turn: AddTurn
) -> None:
    """Neither the run's branch nor its conversation can be deleted; another branch can be deleted."""
    root = await add_turn("root")
    await add_turn("running", answer=None)
    other = await add_turn("other", root)
    with pytest.raises(Conflict, match="run 'run-0002' of this conversation is running; cancel it first"):
        await conversations.delete_branch(root)
    with pytest.raises(Conflict, match="cancel it first"):
        await conversations.delete_conversation("conv-1")
    await conversations.delete_branch(other)
    assert len(await conversations.messages("conv-1")) == 2


@pytest.mark.timed
async def test_deleting_a_large_tree_is_quick(conversations: ConversationManager, database: Database) -> None:
    """A branch of 2,000 messages and another conversation of 2,000 messages take less than 0.5 s."""
    started, other = await conversations.start_conversation(), await conversations.start_conversation()

    def fill(db: sqlite3.Connection) -> None:
        for conversation, n in ((started, 2_000), (other, 2_000)):
            rows = (
                (f"{conversation}-{k}", conversation, f"{conversation}-{k - 1}" if k else None, "q" * 2_000)
                for k in range(n)
            )
            db.executemany("INSERT INTO messages VALUES (?, ?, ?, ?, 'a', 'completed', 0)", rows)

    await database.write(fill)
    for attempt in within(0.5, tries=1):  # deleted messages do not return
        with attempt:
            await conversations.delete_branch(f"{started}-1")
            await conversations.delete_conversation(other)
    assert [message.message_id for message in await conversations.messages(started)] == [f"{started}-0"]
