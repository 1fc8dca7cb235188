"""Artifacts: versions, branches, locks."""

import asyncio
from pathlib import Path

import pytest
from store.conftest import AddTurn

from artifactflow_nb.core.clock_ids import SystemClock
from artifactflow_nb.errors import Conflict, NotFound, UsageError
from artifactflow_nb.store.artifact_versions import TASK_PLAN_ID
from artifactflow_nb.store.artifacts import USER, ArtifactManager, Authorship
from artifactflow_nb.store.conversations import ConversationManager
from artifactflow_nb.store.database import Database
from artifactflow_nb.testing import FakeIds


@pytest.fixture
def artifacts(database: Database) -> ArtifactManager:
    return ArtifactManager(database, SystemClock())


def by(message_id: str, call: str | None = None) -> Authorship:
    return Authorship("conv-1", message_id, "lead_agent", None, call)


async def test_every_version_is_kept(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """Versions are numbered from 1 and can all be read; without a number the newest version is read."""
    message = await add_turn("write")
    await artifacts.create(by(message), "report", "Report", "one\n")
    await artifacts.revise(by(message), "report", "one\ntwo\n", update_type="update")
    newest = await artifacts.read("conv-1", "report", message_id=message)
    first = await artifacts.read("conv-1", "report", 1, message_id=message)
    assert (newest.version, newest.content, first.content) == (2, "one\ntwo\n", "one\n")
    assert await artifacts.diff("conv-1", "report", 1, 2) == "--- report v1\n+++ report v2\n@@ -1 +1,2 @@\n one\n+two\n"


async def test_each_branch_sees_its_own_state(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """A version that is written on a branch is not on another branch; versions before the fork are on both branches."""
    first = await add_turn("write")
    await artifacts.create(by(first), "report", "Report", "base")
    left = await add_turn("left")
    await artifacts.revise(by(left), "report", "left", update_type="rewrite")
    right = await add_turn("right", first)
    assert (await artifacts.read("conv-1", "report", message_id=right)).content == "base"
    await artifacts.revise(by(right), "report", "right", update_type="rewrite")
    assert (await artifacts.read("conv-1", "report", message_id=left)).content == "left"
    assert (await artifacts.read("conv-1", "report", message_id=right)).version == 3
    with pytest.raises(NotFound, match="no version 2 of the artifact 'report' on this branch; it has: 1."):
        await artifacts.read("conv-1", "report", 2, message_id=right)


async def test_plan_belongs_to_its_turn(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """The next turn does not see the plan of a turn and makes another plan."""
    first = await add_turn("one")
    await artifacts.create(by(first), TASK_PLAN_ID, "Plan", "first plan")
    second = await add_turn("two")
    assert await artifacts.list_artifacts("conv-1", message_id=second) == []
    await artifacts.create(by(second), TASK_PLAN_ID, "Plan", "second plan")
    assert (await artifacts.read("conv-1", TASK_PLAN_ID, message_id=first)).content == "first plan"


async def test_creating_an_existing_artifact_is_a_conflict(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """The error names the existing version and says what to do."""
    message = await add_turn("write")
    await artifacts.create(by(message), "report", "Report", "one")
    with pytest.raises(Conflict, match=r"exists \(version 1\). Change it with update_artifact"):
        await artifacts.create(by(message), "report", "Report", "two")


async def test_change_of_an_outdated_version_is_a_conflict(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """The error advises to read the artifact again."""
    message = await add_turn("write")
    await artifacts.create(by(message), "report", "Report", "one")
    await artifacts.revise(by(message), "report", "two", update_type="update", expected_version=1)
    with pytest.raises(Conflict, match="now at version 2, not 1"):
        await artifacts.revise(by(message), "report", "three", update_type="update", expected_version=1)


async def test_repeated_call_writes_once(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """The second write of a tool call returns the version of the first write."""
    message = await add_turn("write")
    first = await artifacts.create(by(message, "tool-1"), "report", "Report", "one")
    again = await artifacts.create(by(message, "tool-1"), "report", "Report", "one")
    assert again == first
    assert len(await artifacts.versions("conv-1", "report")) == 1


async def test_unknown_artifact_lists_existing_ones(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """The error lists the artifacts of the branch; an empty id is refused."""
    message = await add_turn("write")
    await artifacts.create(by(message), "report", "Report", "one")
    with pytest.raises(NotFound, match="no artifact 'reprot' on this branch. It has: report"):
        await artifacts.read("conv-1", "reprot", message_id=message)
    with pytest.raises(UsageError, match="needs an id"):
        await artifacts.create(by(message), " ", "Report", "one")


async def test_later_change_of_an_earlier_turn_is_not_on_its_descendants(
    artifacts: ArtifactManager, add_turn: AddTurn
) -> None:
    """A branch has the version of its newest message, although an earlier message was changed later."""
    first = await add_turn("write")
    await artifacts.create(by(first), "report", "Report", "base")
    second = await add_turn("change")
    await artifacts.revise(by(second), "report", "changed", update_type="rewrite")
    await artifacts.revise(by(first), "report", "base, corrected", update_type="rewrite")
    assert (await artifacts.read("conv-1", "report", message_id=second)).content == "changed"
    assert (await artifacts.read("conv-1", "report", message_id=first)).content == "base, corrected"
    history = await artifacts.history("conv-1", "report", message_id=second)
    assert [(version.version, version.content) for version in history] == [
        (1, "base"),
        (3, "base, corrected"),
        (2, "changed"),
    ]
    (listed,) = await artifacts.list_artifacts("conv-1", message_id=second)
    assert listed == history[-1]


async def test_versions_without_a_message_are_visible_on_all_branches(
    artifacts: ArtifactManager, add_turn: AddTurn
) -> None:
    """Such a version is visible until a branch has a version of its own."""
    await add_turn("one")
    await artifacts.create(Authorship("conv-1", None, "user"), "notes", "Notes", "for all")
    left, right = await add_turn("left", None), await add_turn("right", None)
    await artifacts.revise(by(left), "notes", "left", update_type="rewrite")
    assert (await artifacts.read("conv-1", "notes", message_id=left)).content == "left"
    assert (await artifacts.read("conv-1", "notes", message_id=right)).content == "for all"


async def test_concurrent_change_of_one_version_is_a_conflict(
    artifacts: ArtifactManager, add_turn: AddTurn, tmp_path: Path
) -> None:
    """One of two writers succeeds; the error of the other writer names the newest version."""
    message = await add_turn("write")
    await artifacts.create(by(message), "report", "Report", "base")
    other_database = Database(tmp_path / "store.db")
    await other_database.open()
    other = ArtifactManager(other_database, SystemClock())
    outcomes = await asyncio.gather(
        artifacts.revise(by(message), "report", "mine", update_type="rewrite", expected_version=1),
        other.revise(by(message), "report", "theirs", update_type="rewrite", expected_version=1),
        return_exceptions=True,
    )
    newest = await artifacts.read("conv-1", "report", message_id=message)
    await other_database.close()
    (refused,) = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert isinstance(refused, Conflict)
    assert "is now at version 2, not 1: lead_agent changed it. Read it again" in str(refused)
    assert newest in outcomes


async def test_edit_function_gets_the_current_version(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """Concurrent changes by functions are all applied."""
    message = await add_turn("write")
    await artifacts.create(by(message), "report", "Report", "")
    await asyncio.gather(
        *(
            artifacts.revise(by(message), "report", lambda old, n=n: f"{old.content}{n} ", update_type="update")
            for n in range(20)
        )
    )
    newest = await artifacts.read("conv-1", "report", message_id=message)
    assert sorted(map(int, newest.content.split())) == list(range(20))
    assert newest.version == 21


async def test_version_can_be_restored(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """The earlier text becomes a new version by the person; the versions between stay."""
    message = await add_turn("write")
    await artifacts.create(by(message), "report", "Report", "one")
    await artifacts.revise(by(message), "report", "two", update_type="rewrite")
    user = Authorship("conv-1", message, USER)
    with pytest.raises(Conflict, match="now at version 2, not 1"):
        await artifacts.restore(user, "report", 1, expected_version=1)
    restored = await artifacts.restore(user, "report", 1, expected_version=2)
    assert (restored.version, restored.content, restored.update_type) == (3, "one", "restore")
    assert (restored.created_by, restored.message_id) == ("user", message)
    with pytest.raises(NotFound, match="no version 9 in 'conv-1'; it has: 1, 2, 3"):
        await artifacts.restore(user, "report", 9)


async def test_version_of_another_branch_can_be_restored(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """The text becomes a version of this branch, also if this branch did not have the artifact."""
    left = await add_turn("left")
    await artifacts.create(by(left), "report", "Report", "of the left")
    right = await add_turn("right", None)
    restored = await artifacts.restore(Authorship("conv-1", right, "user"), "report", 1)
    assert restored == await artifacts.read("conv-1", "report", message_id=right)
    assert (restored.version, restored.title, restored.content) == (2, "Report", "of the left")


async def test_new_title_is_a_version(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """The text of the new version is the same."""
    message = await add_turn("write")
    await artifacts.create(by(message), "report", "Report", "one")
    renamed = await artifacts.rename(by(message), "report", "  The final\nreport ", expected_version=1)
    assert (renamed.version, renamed.title, renamed.content) == (2, "The final report", "one")
    with pytest.raises(UsageError, match="title is empty"):
        await artifacts.rename(by(message), "report", " ")


async def test_lone_surrogates_are_replaced(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """Half a surrogate pair, which a page may send, becomes a question mark."""
    message = await add_turn("write")
    await artifacts.create(by(message), "report", "Half \ud800", "one \udc00 two")
    edited = await artifacts.revise(by(message), "report", "three \ud83d four", update_type="update")
    renamed = await artifacts.rename(by(message), "report", "A \ud83d title")
    first = await artifacts.read("conv-1", "report", 1, message_id=message)
    assert (first.title, first.content) == ("Half ?", "one ? two")
    assert (edited.content, renamed.title, renamed.content) == ("three ? four", "A ? title", "three ? four")


async def test_unknown_conversations_and_messages_are_errors(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """A message outside of the conversation can neither read nor write the artifacts of the conversation."""
    message = await add_turn("write")
    await artifacts.create(by(message), "report", "Report", "one")
    foreign = await add_turn("other", conversation="conv-2")
    with pytest.raises(NotFound, match=f"no message '{foreign}' in the conversation 'conv-1'"):
        await artifacts.list_artifacts("conv-1", message_id=foreign)
    with pytest.raises(NotFound, match="no message 'msg-x' in this store"):
        await artifacts.create(by("msg-x"), "notes", "Notes", "one")
    with pytest.raises(NotFound, match="no conversation 'conv-x'"):
        await artifacts.list_artifacts("conv-x", message_id=None)


async def test_deleting_a_branch_deletes_its_versions(
    artifacts: ArtifactManager, database: Database, add_turn: AddTurn
) -> None:
    """Other branches do not change, and no version number is used again."""
    conversations = ConversationManager(database, SystemClock(), FakeIds())
    first = await add_turn("write")
    await artifacts.create(by(first), "report", "Report", "base")
    gone = await add_turn("gone")
    await artifacts.revise(by(gone), "report", "gone", update_type="rewrite")
    await artifacts.create(by(gone), "draft", "Draft", "gone")
    other = await add_turn("kept", first)
    await conversations.delete_branch(gone)
    assert [artifact.content for artifact in await artifacts.list_artifacts("conv-1", message_id=other)] == ["base"]
    revised = await artifacts.revise(by(other), "report", "kept", update_type="rewrite", expected_version=1)
    drafted = await artifacts.create(by(other), "draft", "Draft", "kept")
    assert (revised.version, drafted.version) == (3, 2)
    assert (await conversations.get("conv-1")).n_artifacts == 2
    with pytest.raises(NotFound, match=f"no message '{gone}'"):
        await artifacts.revise(by(gone), "report", "late", update_type="rewrite", expected_version=2)


async def test_any_two_versions_can_be_compared(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """Versions are compared forward, backward and across branches; equal texts have an empty difference."""
    left = await add_turn("left")
    await artifacts.create(by(left), "report", "Report", "one\n")
    right = await add_turn("right", None)
    await artifacts.create(by(right), "report", "Report", "two")
    assert await artifacts.diff("conv-1", "report", 2, 1) == (
        "--- report v2\n+++ report v1\n@@ -1 +1 @@\n-two\n\\ No newline at end of file\n+one\n"
    )
    assert await artifacts.diff("conv-1", "report", 1, 1) == ""
    with pytest.raises(NotFound, match="no version 3 in 'conv-1'; it has: 1, 2"):
        await artifacts.diff("conv-1", "report", 1, 3)


async def test_artifact_changed_by_a_person_is_not_the_runs_own(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """A run may change its own artifact until a person has changed the artifact on that branch."""
    message = await add_turn("write")
    run = Authorship("conv-1", message, "lead_agent", "run-1")
    await artifacts.create(run, "report", "Report", "one")
    await artifacts.revise(run, "report", "two", update_type="update")
    assert await artifacts.written_by_run("run-1", "report")
    assert not await artifacts.written_by_run("run-2", "report")
    await artifacts.revise(Authorship("conv-1", message, USER), "report", "three", update_type="update")
    assert not await artifacts.written_by_run("run-1", "report")
