"""Projects in the store: versions by edits, concurrent edits, and branches."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

import artifactflow_nb as af
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.plugins.projects.agents import format_block_index
from artifactflow_nb.plugins.projects.edits import (
    BlockPosition,
    NewBlock,
    add_block,
    configure_block,
    delete_block,
    move_block,
    rename_block,
    restore_block,
    write_block,
)
from artifactflow_nb.plugins.projects.project import (
    PROJECT_ID,
    PROJECT_MEDIA_TYPE,
    ProjectTemplate,
    project_conversation_id,
)
from artifactflow_nb.plugins.projects.store import ProjectStore, list_projects
from artifactflow_nb.plugins.projects.tree import BlockTree
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.artifacts import USER, Authorship

OpenEngine = Callable[..., Awaitable[Engine]]
CONVERSATION = project_conversation_id("p")
BY = Authorship(CONVERSATION, None, USER, reason="Because.")


async def engine_with_project(open_engine: OpenEngine, **options: Any) -> Engine:
    engine = await open_engine(**options)
    await engine.service(ProjectStore).create("p", ProjectTemplate.load("paper"), USER)
    return engine


def new(name: str, text: str = "", **settings: Any) -> NewBlock:
    return NewBlock(name, BlockPosition("question"), settings, text)


async def add(engine: Engine, by: Authorship, block: NewBlock) -> list[Artifact]:
    return await engine.service(ProjectStore).change(by, lambda tree: add_block(tree, block))


async def tree_of(engine: Engine, message_id: str | None = None) -> BlockTree:
    return await engine.service(ProjectStore).tree(CONVERSATION, message_id)


async def kinds(engine: Engine, block_id: str) -> list[str]:
    return [version.update_type for version in await engine.artifacts.versions(CONVERSATION, block_id)]


# --- versions --------------------------------------------------------------------------------------------------------


async def test_every_change_is_a_version_with_author_and_reason(open_engine: OpenEngine) -> None:
    """The type of the change is one word; an edit without a change writes nothing."""
    engine = await engine_with_project(open_engine)
    await add(engine, BY, new("A", "1"))
    for edit in (
        lambda tree: write_block(tree, "a", "2", "user"),
        lambda tree: write_block(tree, "a", "2", "user"),
        lambda tree: rename_block(tree, "a", "方法"),
        lambda tree: configure_block(tree, "a", {"prompt": "?"}),
        lambda tree: delete_block(tree, "a"),
        lambda tree: restore_block(tree, "a"),
    ):
        await engine.service(ProjectStore).change(BY, edit)
    assert await kinds(engine, "a") == ["create", "rewrite", "rename", "arrange", "delete", "restore"]
    for version in await engine.artifacts.versions(CONVERSATION, "a"):
        assert (version.created_by, version.reason) == (USER, "Because.")
    block = (await tree_of(engine))["a"]
    assert (block.name, block.content, block.prompt, block.version) == ("方法", "2", "?", 6)


async def test_edit_is_stored_completely_or_not_at_all(open_engine: OpenEngine) -> None:
    """An edit that fails half-way, or is invalid, changes no block."""
    engine = await engine_with_project(open_engine)
    await add(engine, BY, new("A", "1"))

    def fails(tree: BlockTree) -> Any:
        yield write_block(tree, "a", "2", "user")[0]
        raise af.errors.UsageError("half-way")

    with pytest.raises(af.errors.UsageError, match="half-way"):
        await engine.service(ProjectStore).change(BY, fails)
    with pytest.raises(af.errors.UsageError, match="'project' is an artifact that is not a block"):
        await engine.service(ProjectStore).change(
            BY, lambda tree: [write_block(tree, "a", "2", "user")[0], _called(tree, PROJECT_ID)]
        )
    assert await kinds(engine, "a") == ["create"]


def _called(tree: BlockTree, block_id: str) -> Any:
    return replace(tree["a"], block_id=block_id)


async def test_repeated_call_changes_blocks_once(open_engine: OpenEngine) -> None:
    """A second change by the same call, after a resume, has no effect."""
    engine = await engine_with_project(open_engine)
    by = Authorship(CONVERSATION, None, "composer", tool_call_id="tool-1")
    assert len(await add(engine, by, new("A", "1"))) == 1
    assert [version.artifact_id for version in await add(engine, by, new("B", "1"))] == ["a"]
    assert [block.name for block in await tree_of(engine)] == ["A"]


async def test_project_is_created_once(open_engine: OpenEngine) -> None:
    """The project has the blocks of the template; a second creation has no effect, also with another template."""
    engine = await open_engine()
    mine = ProjectTemplate.load(
        {"name": "x", "phases": ["one"], "blocks": [{"name": "A"}, {"name": "B", "depends_on": ["A"]}]}
    )
    assert await engine.service(ProjectStore).create("p", mine, USER)
    assert not await engine.service(ProjectStore).create(" p ", ProjectTemplate.load(), USER)
    tree = await tree_of(engine)
    assert (tree.phases, tree["b"].depends_on) == (("one",), ("a",))
    for name in ("", " ", "x" * 81, None):
        with pytest.raises(af.errors.UsageError, match="A project cannot be called"):
            await engine.service(ProjectStore).create(name, mine, USER)  # type: ignore[arg-type]


# --- other ways to a block -------------------------------------------------------------------------------------------


async def test_edit_of_a_block_as_an_artifact_updates_its_basis(open_engine: OpenEngine) -> None:
    """A block that artifact tools or the artifact panel rewrite is current afterwards, and its dependents are stale."""
    engine = await engine_with_project(open_engine)
    for name, needs in (("A", []), ("B", ["A"]), ("C", ["B"])):
        await add(engine, BY, new(name, "1", depends_on=needs))
    await engine.artifacts.revise(BY, "a", "2", update_type="rewrite")
    assert set((await tree_of(engine)).stale) == {"b", "c"}
    await engine.artifacts.revise(BY, "b", "2", update_type="update")
    assert set((await tree_of(engine)).stale) == {"c"}
    await engine.artifacts.restore(BY, "a", 1)
    assert set((await tree_of(engine)).stale) == {"b", "c"}
    await engine.artifacts.restore(BY, "b", 1)
    assert not (await tree_of(engine)).stale


async def test_renaming_a_block_as_an_artifact_checks_the_name(open_engine: OpenEngine) -> None:
    """A name that is in use or invalid is refused, and nothing is written."""
    engine = await engine_with_project(open_engine)
    for name in ("A", "B"):
        await add(engine, BY, new(name))
    await engine.artifacts.rename(BY, "a", "C")
    with pytest.raises(af.errors.UsageError, match="already a block 'b' at the top level"):
        await engine.artifacts.rename(BY, "a", "b")
    with pytest.raises(af.errors.UsageError, match="A block cannot be called 'x/y'"):
        await engine.artifacts.rename(BY, "a", "x/y")
    assert await kinds(engine, "a") == ["create", "rename"]


async def test_deleted_blocks_are_not_listed_as_artifacts(open_engine: OpenEngine) -> None:
    """Lists, histories and reads omit a deleted block; restoring a version of the block brings the block back."""
    engine = await engine_with_project(open_engine)
    await add(engine, BY, new("A", "1"))
    await engine.service(ProjectStore).change(BY, lambda tree: delete_block(tree, "a"))
    listed = await engine.artifacts.list_artifacts(CONVERSATION, message_id=None)
    assert [artifact.artifact_id for artifact in listed] == [PROJECT_ID]
    assert list(await engine.artifacts.histories(CONVERSATION, message_id=None)) == [PROJECT_ID]
    with pytest.raises(af.errors.NotFound, match="no artifact 'a' on this branch. It has: project"):
        await engine.artifacts.read(CONVERSATION, "a", message_id=None)
    assert (await engine.artifacts.read(CONVERSATION, "a", 1, message_id=None)).content == "1"
    await engine.artifacts.restore(BY, "a", 1)
    assert [block.name for block in await tree_of(engine)] == ["A"]


async def test_restoring_a_group_leaves_earlier_deletions(open_engine: OpenEngine) -> None:
    """The blocks that were deleted with the group are stored, so only these blocks are restored."""
    engines = [await engine_with_project(open_engine), await engine_with_project(open_engine)]
    for name in ("G", "H"):
        await add(engines[0], BY, new(name, is_group=True))
    for name in ("A", "B"):
        await add(engines[0], BY, NewBlock(name, BlockPosition("", "g"), {}, "1"))
    await engines[0].service(ProjectStore).change(BY, lambda tree: delete_block(tree, "a"))
    await engines[1].service(ProjectStore).change(BY, lambda tree: delete_block(tree, "g"))
    await engines[0].service(ProjectStore).change(BY, lambda tree: restore_block(tree, "g"))
    tree = await tree_of(engines[1])
    assert [block.name for block in tree] == ["G", "B", "H"]
    assert list(tree.deleted) == ["a"]


# --- at the same time ------------------------------------------------------------------------------------------------


async def test_changes_of_two_engines_are_all_stored(open_engine: OpenEngine) -> None:
    """Each change is applied to the current blocks: no block is lost, and no position or name is used twice."""
    engines = [await engine_with_project(open_engine), await engine_with_project(open_engine)]
    await asyncio.gather(*(add(engines[n % 2], BY, new(f"N{n}", str(n))) for n in range(20)))
    trees = [await tree_of(engine) for engine in engines]
    assert list(trees[0]) == list(trees[1])
    assert {block.name for block in trees[0]} == {f"N{n}" for n in range(20)}
    assert len({block.order for block in trees[0]}) == 20
    outcomes = await asyncio.gather(*(add(engine, BY, new("Same")) for engine in engines), return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["UsageError", "list"]


async def test_project_is_read_as_another_engine_wrote_it(open_engine: OpenEngine) -> None:
    """A project and its blocks are read from one snapshot of the store."""
    engines = [await engine_with_project(open_engine), await engine_with_project(open_engine)]
    assert (
        format_block_index((await engines[1].service(ProjectStore).project(CONVERSATION, None))[1])
        == "There are no blocks yet."
    )
    await add(engines[0], BY, new("A", "# One\n\nMore."))
    await add(engines[0], BY, new("B", "Seven.", depends_on=["A"]))
    expected = ["- A [question, draft] One", "- B [question, draft] Seven."]
    assert (
        format_block_index((await engines[1].service(ProjectStore).project(CONVERSATION, None))[1]).splitlines()
        == expected
    )
    await engines[1].artifacts.restore(BY, "b", 1)
    await engines[1].artifacts.revise(BY, "a", "Two.", update_type="rewrite")
    await engines[1].service(ProjectStore).set_info(BY, lambda head: head.advanced("review"))
    head, tree = await engines[0].service(ProjectStore).project(CONVERSATION, None)
    assert head.phase == "review"
    assert format_block_index(tree).splitlines() == [
        "- A [question, draft] Two.",
        "- B [question, draft, STALE: A changed] Seven.",
    ]


async def test_second_edit_of_one_version_is_a_conflict(open_engine: OpenEngine) -> None:
    """The second edit may come from the same engine or from another engine."""
    engines = [await engine_with_project(open_engine), await engine_with_project(open_engine)]
    await add(engines[0], BY, new("A", "1"))
    edits = [
        engine.service(ProjectStore).change(
            BY, lambda tree, n=n: write_block(tree, "a", f"by {n}", "user", expected="1")
        )
        for n, engine in enumerate(engines)
    ]
    outcomes = await asyncio.gather(*edits, return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict", "list"]


async def test_two_edits_cannot_create_a_dependency_cycle(open_engine: OpenEngine) -> None:
    """The second of two dependencies that form a cycle is refused; the error names both blocks."""
    engines = [await engine_with_project(open_engine), await engine_with_project(open_engine)]
    for name in ("A", "B"):
        await add(engines[0], BY, new(name))
    outcomes = await asyncio.gather(
        engines[0].service(ProjectStore).change(BY, lambda tree: configure_block(tree, "a", {"depends_on": ["B"]})),
        engines[1].service(ProjectStore).change(BY, lambda tree: configure_block(tree, "b", {"depends_on": ["A"]})),
        return_exceptions=True,
    )
    messages = [str(outcome) for outcome in outcomes if isinstance(outcome, af.errors.UsageError)]
    assert len(messages) == 1
    assert "-> " in messages[0]
    _ = (await tree_of(engines[0])).topological_order


# --- branches --------------------------------------------------------------------------------------------------------


async def test_branches_have_their_own_blocks(open_engine: OpenEngine) -> None:
    """Texts, positions, deletions and the phase of one branch do not affect the other branch."""
    engine = await engine_with_project(open_engine)
    for name in ("A", "B"):
        await add(engine, BY, new(name, "1"))
    left = await engine.conversations.add(CONVERSATION, "Left?", "Yes.", parent=None)
    right = await engine.conversations.add(CONVERSATION, "Right?", "Yes.", parent=None)
    on_left = Authorship(CONVERSATION, left.message_id, USER)
    await engine.service(ProjectStore).change(on_left, lambda tree: write_block(tree, "a", "left", "user"))
    await engine.service(ProjectStore).change(on_left, lambda tree: delete_block(tree, "b"))
    await engine.service(ProjectStore).set_info(on_left, lambda head: head.advanced("review"))
    trees = {side: await tree_of(engine, message.message_id) for side, message in (("l", left), ("r", right))}
    assert [(block.block_id, block.content) for block in trees["l"]] == [("a", "left")]
    assert [(block.block_id, block.content) for block in trees["r"]] == [("a", "1"), ("b", "1")]
    heads = [await engine.service(ProjectStore).info(CONVERSATION, message.message_id) for message in (left, right)]
    assert [head.phase for head in heads] == ["review", "question"]


async def test_cycle_of_groups_hides_no_block(open_engine: OpenEngine) -> None:
    """Edits at two messages of one branch can make a cycle of groups; all blocks stay visible."""
    engine = await engine_with_project(open_engine)
    for name in ("G", "H"):
        await add(engine, BY, new(name, is_group=True))
    first = await engine.conversations.add(CONVERSATION, "One?", "Yes.", parent=None)
    second = await engine.conversations.add(CONVERSATION, "Two?", "Yes.", parent=first.message_id)
    for message, block, group in ((second, "g", "h"), (first, "h", "g")):
        by = Authorship(CONVERSATION, message.message_id, USER)
        await engine.service(ProjectStore).change(
            by, lambda tree, block=block, group=group: move_block(tree, block, BlockPosition("", group))
        )
    tree = await tree_of(engine, second.message_id)
    assert {block.block_id for block in tree} == {"g", "h"}


# --- what a store may hold -------------------------------------------------------------------------------------------


async def test_damaged_or_missing_project_is_an_error(open_engine: OpenEngine) -> None:
    """Only the other projects are listed."""
    engine = await engine_with_project(open_engine)
    await engine.service(ProjectStore).create("q", ProjectTemplate.load(), USER)
    await engine.database.write(
        lambda db: db.execute(
            "UPDATE artifact_versions SET content = '{}' WHERE conversation_id = ? AND content_type = ?",
            (CONVERSATION, PROJECT_MEDIA_TYPE),
        )
    )
    with pytest.raises(af.errors.UsageError, match="artifact 'project' is no longer a project"):
        await tree_of(engine)
    assert await engine.database.read(list_projects) == ["q"]
    other = await engine.conversations.start_conversation("Talk")
    with pytest.raises(af.errors.NotFound, match=r"belongs to no project. Create one with wb.projects.start\(name\)"):
        await engine.service(ProjectStore).tree(other, None)
