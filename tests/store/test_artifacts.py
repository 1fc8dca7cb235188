"""Artifacts: versions, branches, locks."""

import pytest
from store.conftest import AddTurn

from artifactflow_nb.ambient import SystemClock
from artifactflow_nb.errors import Conflict, NotFound, UsageError
from artifactflow_nb.store.artifacts import TASK_PLAN, ArtifactManager, Authorship
from artifactflow_nb.store.database import Database


@pytest.fixture
def artifacts(database: Database) -> ArtifactManager:
    return ArtifactManager(database, SystemClock())


def by(message_id: str, call: str | None = None) -> Authorship:
    return Authorship("conv-1", message_id, "lead_agent", None, call)


async def test_every_version_is_kept(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """Versions count up, each can be read, and the newest is what is read without a number."""
    message = await add_turn("write")
    await artifacts.create(by(message), "report", "Report", "one\n")
    await artifacts.revise(by(message), "report", "one\ntwo\n", update_type="update")
    newest = await artifacts.read("conv-1", "report", message_id=message)
    first = await artifacts.read("conv-1", "report", 1, message_id=message)
    assert (newest.version, newest.content, first.content) == (2, "one\ntwo\n", "one\n")
    assert await artifacts.diff("conv-1", "report", 1, 2) == "--- report v1\n+++ report v2\n@@ -1 +1,2 @@\n one\n+two\n"


async def test_each_branch_sees_its_own_state(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """A version written on one branch is not seen on another; what came before both is seen on both."""
    first = await add_turn("write")
    await artifacts.create(by(first), "report", "Report", "base")
    left = await add_turn("left")
    await artifacts.revise(by(left), "report", "left", update_type="rewrite")
    right = await add_turn("right", first)
    assert (await artifacts.read("conv-1", "report", message_id=right)).content == "base"
    await artifacts.revise(by(right), "report", "right", update_type="rewrite")
    assert (await artifacts.read("conv-1", "report", message_id=left)).content == "left"
    assert (await artifacts.read("conv-1", "report", message_id=right)).version == 3
    with pytest.raises(NotFound, match="no version 2 of the artifact 'report'"):
        await artifacts.read("conv-1", "report", 2, message_id=right)


async def test_the_plan_belongs_to_its_turn(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """The plan of one turn is not seen by the next, which makes its own."""
    first = await add_turn("one")
    await artifacts.create(by(first), TASK_PLAN, "Plan", "first plan")
    second = await add_turn("two")
    assert await artifacts.list_artifacts("conv-1", message_id=second) == []
    await artifacts.create(by(second), TASK_PLAN, "Plan", "second plan")
    assert (await artifacts.read("conv-1", TASK_PLAN, message_id=first)).content == "first plan"


async def test_creating_what_exists_is_a_conflict(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """The error says which version there is and what to do."""
    message = await add_turn("write")
    await artifacts.create(by(message), "report", "Report", "one")
    with pytest.raises(Conflict, match=r"exists \(version 1\). Change it with update_artifact"):
        await artifacts.create(by(message), "report", "Report", "two")


async def test_a_change_of_an_old_version_is_a_conflict(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """Who changes what somebody else has changed meanwhile is told to read again."""
    message = await add_turn("write")
    await artifacts.create(by(message), "report", "Report", "one")
    await artifacts.revise(by(message), "report", "two", update_type="update", expected_version=1)
    with pytest.raises(Conflict, match="at version 2 by now, not 1"):
        await artifacts.revise(by(message), "report", "three", update_type="update", expected_version=1)


async def test_a_repeated_call_writes_once(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """The same tool call a second time gives back what it wrote the first time."""
    message = await add_turn("write")
    first = await artifacts.create(by(message, "tool-1"), "report", "Report", "one")
    again = await artifacts.create(by(message, "tool-1"), "report", "Report", "one")
    assert again == first
    assert len(await artifacts.versions("conv-1", "report")) == 1


async def test_unknown_artifacts_are_named_with_those_that_exist(artifacts: ArtifactManager, add_turn: AddTurn) -> None:
    """The error lists what the branch has; an empty id is refused."""
    message = await add_turn("write")
    await artifacts.create(by(message), "report", "Report", "one")
    with pytest.raises(NotFound, match="no artifact 'reprot' on this branch. It has: report"):
        await artifacts.read("conv-1", "reprot", message_id=message)
    with pytest.raises(UsageError, match="needs an id"):
        await artifacts.create(by(message), " ", "Report", "one")
