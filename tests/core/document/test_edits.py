"""Edits of a block tree: their effects and errors, and that no sequence of edits makes the tree invalid."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import artifactflow_nb as af
from artifactflow_nb.plugins.projects.edits import (
    BlockPosition,
    NewBlock,
    add_block,
    configure_block,
    copy_block,
    delete_block,
    mark_block_current,
    move_block,
    rename_block,
    restore_block,
    write_block,
)
from artifactflow_nb.plugins.projects.tree import Block, BlockTree, fold_name

PHASES = ("plan", "write")


def applied(tree: BlockTree, changed: Sequence[Block]) -> BlockTree:
    return BlockTree((*tree, *tree.deleted.values(), *changed), tree.phases)


def add(
    tree: BlockTree, name: str, content: str = "", *, phase: str = "plan", parent: str = "", **more: Any
) -> BlockTree:
    place = BlockPosition("" if parent else phase, parent, more.pop("before", ""))
    return applied(tree, add_block(tree, NewBlock(name, place, more, content)))


def names(tree: BlockTree) -> list[str]:
    return [tree.path(block.block_id) for block in tree]


@pytest.fixture
def report() -> BlockTree:
    """A group with a method and an analysis that depends on it, and a summary of the group."""
    tree = add(BlockTree((), PHASES), "Report", is_group=True)
    tree = add(tree, "Method", "By counting.", parent="report")
    tree = add(tree, "Analysis", "Seven.", parent="report", depends_on=["Method"])
    return add(tree, "Summary", "Seven were counted.", phase="write", depends_on=["Report"])


# --- adding ----------------------------------------------------------------------------------------------------------


def test_new_block_is_last_in_its_group_by_default(report: BlockTree) -> None:
    """A new block gets the phase of its group, and the last place by default."""
    tree = add(report, "Question", parent="report", before="method")
    tree = add(tree, "End", parent="report", need_review=True, prompt="Say it.")
    assert names(tree)[:5] == ["Report", "Report / Question", "Report / Method", "Report / Analysis", "Report / End"]
    assert (tree["end"].phase, tree["end"].status, tree["end"].need_review) == ("plan", "empty", True)


def test_new_block_with_text_is_a_current_draft(report: BlockTree) -> None:
    """The text counts as written from the current dependencies."""
    assert report["analysis"].status == "draft"
    assert report["analysis"].basis == {"method": report["method"].sha256}
    assert not report.stale


@pytest.mark.parametrize(
    ("name", "place", "settings", "message"),
    [
        ("method", BlockPosition("", "report"), {}, "already a block 'method' in 'Report'"),
        ("Report", BlockPosition("write"), {}, "already a block 'Report' at the top level"),
        ("X", BlockPosition("later"), {}, "no phase 'later'. There are: plan, write"),
        ("X", BlockPosition("", "method"), {}, "'Method' is not a group; it cannot contain blocks"),
        ("X", BlockPosition("", "gone"), {}, "'gone' was deleted; it cannot contain blocks"),
        (
            "X",
            BlockPosition("write", "report"),
            {},
            "'Report' is in the phase 'plan', so 'X' cannot be in 'write'",
        ),
        ("X", BlockPosition("plan", "", "method"), {}, "'X' cannot be placed before 'Method'"),
        ("X", BlockPosition("plan"), {"is_group": True, "prompt": "?"}, "no text of its own: leave prompt out"),
        ("X", BlockPosition("plan"), {"colour": "red"}, "no setting 'colour'. Settings: status, need_review"),
        ("X", BlockPosition("plan"), {"need_review": "yes"}, "need_review of 'X' is 'yes'; it must be a bool"),
        ("X", BlockPosition("plan"), {"status": "completed"}, "'X' has no text: it cannot be completed"),
        ("X", BlockPosition("plan"), {"depends_on": ["Methud"]}, "no block 'Methud'. There are: Method"),
        ("X", BlockPosition("plan"), {"depends_on": 7}, "depends_on of 'X' is 7; it must be a list of blocks"),
        (
            "X",
            BlockPosition("", "report"),
            {"depends_on": ["Report"]},
            "'X' cannot depend on|depend on themselves: X -> X",
        ),
    ],
)
def test_invalid_new_block_is_rejected(
    report: BlockTree, name: str, place: BlockPosition, settings: dict[str, Any], message: str
) -> None:
    """The error names the problem and the alternatives."""
    with pytest.raises(af.errors.UsageError, match=message):
        add_block(report, NewBlock(name, place, settings))


def test_repeated_insertion_keeps_the_order(report: BlockTree) -> None:
    """Blocks can be inserted between two others without limit."""
    tree, placed = report, list[str]()
    for n in range(60):
        tree = add(tree, f"New {n}", parent="report", before="analysis")
        placed.append(f"Report / New {n}")
        assert [name for name in names(tree) if "New" in name] == placed
    orders = [block.order for block in tree.children("report")]
    assert orders == sorted(set(orders))


# --- moving, naming, copying -----------------------------------------------------------------------------------------


def test_phase_of_the_group_is_accepted(report: BlockTree) -> None:
    """A block in a group may name the phase of the group."""
    assert add(report, "X", parent="report")["x"].phase == "plan"
    tree = applied(report, add_block(report, NewBlock("X", BlockPosition("plan", "report"), {})))
    assert (tree["x"].phase, tree.path("x")) == ("plan", "Report / X")


def test_group_moves_with_its_descendants(report: BlockTree) -> None:
    """All descendants get the phase of the new place."""
    tree = applied(report, move_block(report, "report", BlockPosition("write", "", "summary")))
    assert names(tree) == ["Report", "Report / Method", "Report / Analysis", "Summary"]
    assert {block.phase for block in tree} == {"write"}
    assert not tree.stale


@pytest.mark.parametrize(
    ("block_id", "place", "message"),
    [
        ("report", BlockPosition("", "report"), "'Report' cannot be moved into itself"),
        ("summary", BlockPosition("", "report"), "depend on themselves: Summary -> Summary"),
        ("method", BlockPosition("write", "report"), "'Report' is in the phase 'plan', so 'Method' cannot be"),
        ("method", BlockPosition("plan", "", "analysis"), "'Method' cannot be placed before 'Analysis'"),
        ("nothing", BlockPosition("plan"), "no block with the id 'nothing'"),
    ],
)
def test_invalid_position_is_rejected(report: BlockTree, block_id: str, place: BlockPosition, message: str) -> None:
    """A group cannot be in itself, nor a text in a group on which the text depends; a sibling must exist."""
    with pytest.raises(af.errors.UsageError, match=message):
        move_block(report, block_id, place)


def test_group_cannot_move_into_its_descendant(report: BlockTree) -> None:
    """The depth of the descendant does not matter."""
    tree = add(add(report, "Inner", parent="report", is_group=True), "Innermost", parent="inner", is_group=True)
    with pytest.raises(af.errors.UsageError, match="'Report' cannot be moved into itself"):
        move_block(tree, "report", BlockPosition("", "innermost"))


def test_rename_keeps_dependents(report: BlockTree) -> None:
    """Dependents refer to the id of a block; a name that a sibling has is rejected."""
    tree = applied(report, rename_block(report, "method", "  How \n it was done "))
    assert tree["method"].name == "How it was done"
    assert tree["analysis"].depends_on == ("method",)
    assert not tree.stale
    assert applied(report, rename_block(report, "method", "METHOD"))["method"].name == "METHOD"
    with pytest.raises(af.errors.UsageError, match="already a block 'analysis' in 'Report'"):
        rename_block(report, "method", "analysis")


def test_copy_depends_on_copies(report: BlockTree) -> None:
    """Dependencies within a group become dependencies within its copy; nothing becomes stale."""
    tree = applied(report, copy_block(BlockTree([*report], report.phases, ["second"]), "report", "Second"))
    assert names(tree)[:6] == [
        "Report",
        "Report / Method",
        "Report / Analysis",
        "Second",
        "Second / Method",
        "Second / Analysis",
    ]
    copy = tree.find("Second / Analysis")
    assert tree.find("Second").block_id == "second_2"
    assert copy.depends_on == (tree.find("Second / Method").block_id,)
    assert not tree.stale
    with pytest.raises(af.errors.UsageError, match="already"):
        copy_block(report, "method", "Analysis")


# --- deleting and bringing back --------------------------------------------------------------------------------------


def test_block_with_dependents_is_not_deleted_by_default(report: BlockTree) -> None:
    """The error names direct and indirect dependents; with `anyway` the dependents become stale."""
    with pytest.raises(af.errors.UsageError, match=r"'Analysis', 'Summary' depend on 'Method'. Nothing was deleted"):
        delete_block(report, "method")
    with pytest.raises(af.errors.UsageError, match=r"'Summary' depends on 'Report'"):
        delete_block(report, "report")
    tree = applied(report, delete_block(report, "method", anyway=True))
    assert list(tree.deleted) == ["method"]
    assert set(tree.stale) == {"analysis", "summary"}
    assert names(applied(report, delete_block(report, "summary"))) == ["Report", "Report / Method", "Report / Analysis"]


def test_deleted_group_is_restored_with_its_blocks(report: BlockTree) -> None:
    """The group gets its former place, and nothing is stale."""
    gone = applied(report, delete_block(report, "report", anyway=True))
    assert names(gone) == ["Summary"]
    back = applied(gone, restore_block(gone, "report"))
    assert (names(back), dict(back.stale)) == (names(report), {})


def test_restore_leaves_earlier_deletions(report: BlockTree) -> None:
    """A group is restored with the blocks that were deleted with it, at any depth."""
    tree = add(add(report, "Inner", parent="report", is_group=True), "Deep", "1", parent="inner")
    tree = applied(tree, delete_block(tree, "analysis", anyway=True))
    gone = applied(tree, delete_block(tree, "report", anyway=True))
    back = applied(gone, restore_block(gone, "report"))
    assert names(back)[:4] == ["Report", "Report / Method", "Report / Inner", "Report / Inner / Deep"]
    assert {key: block.deleted_with for key, block in back.deleted.items()} == {"analysis": ""}
    assert not any(block.deleted_with for block in back)
    within = applied(gone, restore_block(gone, "inner"))
    assert names(within) == ["Inner", "Inner / Deep", "Summary"]
    assert set(within.deleted) == {"report", "method", "analysis"}
    both = applied(within, restore_block(within, "report"))
    assert names(both) == ["Report", "Report / Method", "Inner", "Inner / Deep", "Summary"]


def test_block_is_restored_into_the_current_place_of_its_group(report: BlockTree) -> None:
    """The block gets the group's current phase; without its group it is at the top level."""
    gone = applied(report, delete_block(report, "analysis", anyway=True))
    elsewhere = applied(gone, move_block(gone, "report", BlockPosition("write")))
    assert applied(elsewhere, restore_block(elsewhere, "analysis"))["analysis"].phase == "write"
    without = applied(gone, delete_block(gone, "report", anyway=True))
    back = applied(without, restore_block(without, "analysis"))
    assert back.path("analysis") == "Analysis"


def test_restore_rejects_a_used_name(report: BlockTree) -> None:
    """The name may be in use by a new block; a block that was not deleted cannot be restored."""
    gone = add(applied(report, delete_block(report, "summary")), "Summary", phase="write")
    with pytest.raises(af.errors.UsageError, match="already a block 'Summary' at the top level"):
        restore_block(gone, "summary")
    with pytest.raises(af.errors.UsageError, match="'report' is not a deleted block. Deleted blocks: none"):
        restore_block(report, "report")


# --- settings and texts ----------------------------------------------------------------------------------------------


def test_configure_changes_only_the_named_settings(report: BlockTree) -> None:
    """A dependency may be a block or a name; a single dependency is accepted instead of a list."""
    tree = applied(report, configure_block(report, "summary", {"depends_on": report["method"], "prompt": "Short."}))
    assert (tree["summary"].depends_on, tree["summary"].prompt) == (("method",), "Short.")
    assert tree["summary"].content == report["summary"].content


@pytest.mark.parametrize(
    ("block_id", "settings", "message"),
    [
        ("method", {"depends_on": ["Summary"]}, "depend on themselves: Method -> Summary -> Method|Summary -> Method"),
        ("method", {"depends_on": ["Method"]}, "'Method' cannot depend on itself"),
        ("method", {"depends_on": ["Report"]}, "cannot depend on itself, or on a group that contains it"),
        ("method", {"status": "empty"}, "'Method' has a text: it is not empty"),
        ("method", {"status": "done"}, "status of 'Method' is 'done'; it must be one of empty, draft"),
        ("report", {"prompt": "?"}, "group 'Report' has no text of its own, so prompt cannot be set"),
    ],
)
def test_invalid_setting_is_rejected(report: BlockTree, block_id: str, settings: dict[str, Any], message: str) -> None:
    """The error names a cycle by its blocks, and the allowed values."""
    with pytest.raises(af.errors.UsageError, match=message):
        configure_block(report, block_id, settings)


def test_removed_dependency_makes_nothing_stale(report: BlockTree) -> None:
    """An added dependency makes a text stale, since the text was not written from the dependency."""
    tree = applied(report, write_block(report, "method", "By weighing.", "user"))
    free = applied(tree, configure_block(tree, "analysis", {"depends_on": []}))
    assert "analysis" not in free.stale
    again = applied(free, configure_block(free, "analysis", {"depends_on": ["Method"]}))
    assert again.stale["analysis"] == ("Method",)


def test_written_text_is_current(report: BlockTree) -> None:
    """A text that was written from an older version is stale at once."""
    tree = applied(report, write_block(report, "method", "By weighing.", "user"))
    assert set(tree.stale) == {"analysis", "summary"}
    assert set(applied(tree, write_block(tree, "analysis", "Eight.", "user")).stale) == {"summary"}
    older = applied(tree, write_block(tree, "analysis", "Eight.", "user", basis=report.basis("analysis")))
    assert "analysis" in older.stale
    assert applied(older, mark_block_current(older, "analysis")).stale.keys() == {"summary"}


def test_concurrent_change_is_a_conflict(report: BlockTree) -> None:
    """A writer that read an older text does not overwrite the newer text."""
    with pytest.raises(af.errors.Conflict, match=r"text of 'Method' was changed meanwhile .* Read it again and repeat"):
        write_block(report, "method", "By weighing.", "user", expected="Something else.")


def test_status_after_writing(report: BlockTree) -> None:
    """A completed text becomes a draft if the block needs review, and stays completed if not; a blank text is empty."""
    for need_review, status in ((True, "draft"), (False, "completed")):
        tree = applied(report, configure_block(report, "method", {"need_review": need_review, "status": "completed"}))
        assert write_block(tree, "method", "Other.", "user")[0].status == status
        assert write_block(tree, "method", " \n ", "user")[0].status == "empty"
        assert write_block(tree, "method", " \n ", "user")[0].sha256 == ""


def test_group_cannot_be_written(report: BlockTree) -> None:
    """The error advises to write a block in the group; a value that is not a string is rejected too."""
    with pytest.raises(
        af.errors.UsageError, match="group 'Report' has no text of its own. Write one of the blocks in it"
    ):
        write_block(report, "report", "Text.", "user")
    with pytest.raises(af.errors.UsageError, match="text of 'Method' is of type int"):
        write_block(report, "method", 7, "user")  # type: ignore[arg-type]


# --- any row of edits ------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["A", "a", "方法", "B", "C", "É", "e\u0301", "Q. 1 (new)?", "Task plan", "x/y"])


def is_stale(tree: BlockTree, block: Block) -> bool:
    """Return whether a text, or a dependency of the text, was written from other texts."""
    if not block.sha256:
        return False
    needs = {key for entry in block.depends_on for key in tree.text_ids(entry)}
    texts = [tree[key] for key in needs if key in tree]
    now = {**dict.fromkeys(needs, ""), **{text.block_id: text.sha256 for text in texts}}
    return dict(block.basis) != now or any(is_stale(tree, text) for text in texts)


class Edits(RuleBasedStateMachine):
    """Any edits of any blocks: each edit is made whole, or refused with a usage error and nothing changed."""

    def __init__(self) -> None:
        super().__init__()
        self.tree = BlockTree((), PHASES)
        self.gone: dict[str, str] = {}

    def make(self, edit: Callable[[], Sequence[Block]]) -> None:
        try:
            self.tree = applied(self.tree, edit())
        except (af.errors.UsageError, af.errors.Conflict):
            return

    def some(self, data: st.DataObject, *, deleted: bool = False) -> str:
        found = self.tree.deleted if deleted else [block.block_id for block in self.tree]
        return data.draw(st.sampled_from(sorted(found) or ["none"]))

    @rule(data=st.data(), name=NAMES, is_group=st.booleans(), phase=st.sampled_from([*PHASES, ""]))
    def add(self, data: st.DataObject, name: str, is_group: bool, phase: str) -> None:
        parent = data.draw(st.sampled_from(["", self.some(data)]))
        more = {"is_group": True} if is_group else {"depends_on": [self.some(data)] if data.draw(st.booleans()) else []}
        self.make(
            lambda: add_block(self.tree, NewBlock(name, BlockPosition(phase, parent), more, "" if is_group else "x"))
        )

    @rule(data=st.data(), phase=st.sampled_from([*PHASES, ""]))
    def move(self, data: st.DataObject, phase: str) -> None:
        key, parent = self.some(data), data.draw(st.sampled_from(["", self.some(data)]))
        before = data.draw(st.sampled_from(["", self.some(data)]))
        self.make(lambda: move_block(self.tree, key, BlockPosition(phase, parent, before)))

    @rule(data=st.data(), name=NAMES)
    def rename_or_copy(self, data: st.DataObject, name: str) -> None:
        key = self.some(data)
        self.make(lambda: rename_block(self.tree, key, name))
        if len(self.tree) < 30:
            self.make(lambda: copy_block(self.tree, key, f"{name} {len(self.tree)}"))

    @rule(data=st.data(), anyway=st.booleans())
    def delete(self, data: st.DataObject, anyway: bool) -> None:
        key = self.some(data)
        before = self.tree
        self.make(lambda: delete_block(self.tree, key, anyway=anyway))
        self.gone |= dict.fromkeys(self.tree.deleted.keys() - before.deleted.keys(), key)

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        key = self.some(data, deleted=True)
        before = self.tree
        self.make(lambda: restore_block(self.tree, key))
        back = before.deleted.keys() - self.tree.deleted.keys()
        assert self.tree is before or back == {
            block
            for block in before.deleted
            if self.gone[block] == self.gone[key] and self.is_in(before.deleted, block, key)
        }

    @staticmethod
    def is_in(deleted: Mapping[str, Block], block_id: str, key: str) -> bool:
        """Return whether a deleted block is the other block, or is in the other block."""
        while block_id != key and block_id in deleted:
            block_id = deleted[block_id].parent
        return block_id == key

    @rule(data=st.data(), content=st.sampled_from(["", "x", "y", " "]))
    def write(self, data: st.DataObject, content: str) -> None:
        key = self.some(data)
        self.make(lambda: write_block(self.tree, key, content, "user"))
        if key in self.tree and not self.tree[key].is_group:
            own = {name for need in self.tree.stale.get(key, ()) for name in [need]}
            assert own <= {
                self.tree.block_name(need) for need in self.tree.dependencies(key) if need in self.tree.stale
            }

    @rule(data=st.data(), needs=st.integers(0, 2))
    def depend(self, data: st.DataObject, needs: int) -> None:
        key, others = self.some(data), [self.some(data) for _ in range(needs)]
        self.make(lambda: configure_block(self.tree, key, {"depends_on": others}))

    @invariant()
    def the_tree_is_sound(self) -> None:
        """No cycles, groups and phases are consistent, and the names of siblings differ."""
        turn = self.tree.topological_order
        assert len(turn) == sum(not block.is_group for block in self.tree)
        for block in self.tree:
            group = self.tree.get(block.parent)
            assert (group is None) == (block.parent == "")
            assert group is None or (group.is_group and group.phase == block.phase)
            siblings = [fold_name(sibling.name) for sibling in self.tree.children(block.parent)]
            assert siblings.count(fold_name(block.name)) == 1
            assert self.tree.find(self.tree.path(block.block_id)) == block
            assert (block.block_id in self.tree.stale) == is_stale(self.tree, block)
            assert block.block_id not in {"project", "task_plan"}
            assert (block.status == "empty") == (not block.sha256)
            assert not block.is_group or not block.content


TestEdits = Edits.TestCase


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=25))
def test_moves_give_the_same_order_as_in_a_list(moves: list[tuple[int, int]]) -> None:
    """The blocks have the order of a list with the same moves."""
    tree, expected = BlockTree((), PHASES), [f"n{n}" for n in range(10)]
    for name in expected:
        tree = add(tree, name)
    for name, before in moves:
        if name != before:
            tree = applied(tree, move_block(tree, f"n{name}", BlockPosition("plan", "", f"n{before}")))
            expected.remove(f"n{name}")
            expected.insert(expected.index(f"n{before}"), f"n{name}")
    assert [block.name for block in tree] == expected
