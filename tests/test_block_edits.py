"""Edits of a tree of blocks: what each changes and refuses, and that no row of them leaves a tree that cannot be."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import artifactflow_nb as af
from artifactflow_nb.block_edits import (
    NewBlock,
    Place,
    added,
    configured,
    copied,
    deleted,
    kept,
    moved,
    renamed,
    restored,
    written,
)
from artifactflow_nb.block_names import folded
from artifactflow_nb.blocks import Block, BlockTree

PHASES = ("plan", "write")


def applied(tree: BlockTree, changed: Sequence[Block]) -> BlockTree:
    return BlockTree((*tree, *tree.deleted.values(), *changed), tree.phases)


def add(
    tree: BlockTree, name: str, content: str = "", *, phase: str = "plan", parent: str = "", **more: Any
) -> BlockTree:
    place = Place("" if parent else phase, parent, more.pop("before", ""))
    return applied(tree, added(tree, NewBlock(name, place, more, content)))


def names(tree: BlockTree) -> list[str]:
    return [tree.path(block.block_id) for block in tree]


@pytest.fixture
def report() -> BlockTree:
    """A group with a method and an analysis that rests on it, and a summary of the group."""
    tree = add(BlockTree((), PHASES), "Report", is_group=True)
    tree = add(tree, "Method", "By counting.", parent="report")
    tree = add(tree, "Analysis", "Seven.", parent="report", depends_on=["Method"])
    return add(tree, "Summary", "Seven were counted.", phase="write", depends_on=["Report"])


# --- adding ----------------------------------------------------------------------------------------------------------


def test_a_block_goes_to_the_end_or_before_another(report: BlockTree) -> None:
    """It has the phase of its group, and the last place unless another one is named."""
    tree = add(report, "Question", parent="report", before="method")
    tree = add(tree, "End", parent="report", need_review=True, prompt="Say it.")
    assert names(tree)[:5] == ["Report", "Report / Question", "Report / Method", "Report / Analysis", "Report / End"]
    assert (tree["end"].phase, tree["end"].status, tree["end"].need_review) == ("plan", "empty", True)


def test_a_block_with_a_text_is_a_draft_of_what_is_there(report: BlockTree) -> None:
    """It counts as written in view of what it depends on, and is no version behind."""
    assert report["analysis"].status == "draft"
    assert report["analysis"].basis == {"method": report["method"].sha256}
    assert not report.stale


@pytest.mark.parametrize(
    ("name", "place", "settings", "told"),
    [
        ("method", Place("", "report"), {}, "is a block 'method' in 'Report' already"),
        ("Report", Place("write"), {}, "is a block 'Report' at the top already"),
        ("X", Place("later"), {}, "no phase 'later'. There are: plan, write"),
        ("X", Place("", "method"), {}, "'Method' is no group: nothing can be put into it"),
        ("X", Place("", "gone"), {}, "'gone' is gone: nothing can be put into it"),
        ("X", Place("write", "report"), {}, "go into 'Report', which is of the phase 'plan': it cannot be of 'write'"),
        ("X", Place("plan", "", "method"), {}, "'Method' does not stand where 'X' is to go"),
        ("X", Place("plan"), {"is_group": True, "prompt": "?"}, "no text of its own: leave prompt out"),
        ("X", Place("plan"), {"colour": "red"}, "no setting 'colour'. There are: status, need_review"),
        ("X", Place("plan"), {"need_review": "yes"}, "need_review of 'X' is 'yes'; it must be a bool"),
        ("X", Place("plan"), {"status": "completed"}, "'X' has no text: it cannot be completed"),
        ("X", Place("plan"), {"depends_on": ["Methud"]}, "no block 'Methud'. There are: Method"),
        ("X", Place("plan"), {"depends_on": 7}, "depends_on of 'X' is 7; it must be a list of blocks"),
        ("X", Place("", "report"), {"depends_on": ["Report"]}, "'X' cannot depend on|rest on themselves: X -> X"),
    ],
)
def test_a_block_that_cannot_be_is_refused(
    report: BlockTree, name: str, place: Place, settings: dict[str, Any], told: str
) -> None:
    """The error names what is wrong, with what there is instead."""
    with pytest.raises(af.UsageError, match=told):
        added(report, NewBlock(name, place, settings))


def test_there_is_always_room_between_two_blocks(report: BlockTree) -> None:
    """However often something is put in between, the order stays as it was made."""
    tree, placed = report, list[str]()
    for n in range(60):
        tree = add(tree, f"New {n}", parent="report", before="analysis")
        placed.append(f"Report / New {n}")
        assert [name for name in names(tree) if "New" in name] == placed
    orders = [block.order for block in tree.children("report")]
    assert orders == sorted(set(orders))


# --- moving, naming, copying -----------------------------------------------------------------------------------------


def test_the_phase_of_its_group_can_be_said_of_a_block(report: BlockTree) -> None:
    """It says no more than the group does."""
    assert add(report, "X", parent="report")["x"].phase == "plan"
    tree = applied(report, added(report, NewBlock("X", Place("plan", "report"), {})))
    assert (tree["x"].phase, tree.path("x")) == ("plan", "Report / X")


def test_a_group_moves_with_what_is_in_it(report: BlockTree) -> None:
    """All of it has the phase of where it goes."""
    tree = applied(report, moved(report, "report", Place("write", "", "summary")))
    assert names(tree) == ["Report", "Report / Method", "Report / Analysis", "Summary"]
    assert {block.phase for block in tree} == {"write"}
    assert not tree.stale


@pytest.mark.parametrize(
    ("block_id", "place", "told"),
    [
        ("report", Place("", "report"), "'Report' cannot go into itself"),
        ("summary", Place("", "report"), "rest on themselves: Summary -> Summary"),
        ("method", Place("write", "report"), "'Method' is to go into 'Report', which is of the phase 'plan'"),
        ("method", Place("plan", "", "analysis"), "'Analysis' does not stand where 'Method' is to go"),
        ("nothing", Place("plan"), "no block with the id 'nothing' any more"),
    ],
)
def test_a_place_that_cannot_be_is_refused(report: BlockTree, block_id: str, place: Place, told: str) -> None:
    """A group in itself, a text in a group that it rests on, a place beside what is not there."""
    with pytest.raises(af.UsageError, match=told):
        moved(report, block_id, place)


def test_a_group_cannot_go_into_what_is_in_it(report: BlockTree) -> None:
    """At whatever depth."""
    tree = add(add(report, "Inner", parent="report", is_group=True), "Innermost", parent="inner", is_group=True)
    with pytest.raises(af.UsageError, match="'Report' cannot go into itself"):
        moved(tree, "report", Place("", "innermost"))


def test_a_name_changes_nothing_else(report: BlockTree) -> None:
    """What rests on a renamed block does so still; a name that is taken in its place is refused."""
    tree = applied(report, renamed(report, "method", "  How \n it was done "))
    assert tree["method"].name == "How it was done"
    assert tree["analysis"].depends_on == ("method",)
    assert not tree.stale
    assert applied(report, renamed(report, "method", "METHOD"))["method"].name == "METHOD"
    with pytest.raises(af.UsageError, match="is a block 'analysis' in 'Report' already"):
        renamed(report, "method", "analysis")


def test_a_copy_rests_on_copies(report: BlockTree) -> None:
    """What depends on each other in a group does so in its copy; the copy is as true as what was copied."""
    tree = applied(report, copied(BlockTree([*report], report.phases, ["second"]), "report", "Second"))
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
    with pytest.raises(af.UsageError, match="already"):
        copied(report, "method", "Analysis")


# --- deleting and bringing back --------------------------------------------------------------------------------------


def test_what_others_depend_on_is_not_deleted_unasked(report: BlockTree) -> None:
    """Those that depend on it, at second hand too, are named first; anyway, they are stale."""
    with pytest.raises(af.UsageError, match=r"'Method' is what 'Analysis', 'Summary' depend on. Nothing was deleted"):
        deleted(report, "method")
    with pytest.raises(af.UsageError, match=r"'Report' is what 'Summary' depends on"):
        deleted(report, "report")
    tree = applied(report, deleted(report, "method", anyway=True))
    assert list(tree.deleted) == ["method"]
    assert set(tree.stale) == {"analysis", "summary"}
    assert names(applied(report, deleted(report, "summary"))) == ["Report", "Report / Method", "Report / Analysis"]


def test_a_deleted_group_comes_back_with_what_was_in_it(report: BlockTree) -> None:
    """In its place, and nothing is stale any more."""
    gone = applied(report, deleted(report, "report", anyway=True))
    assert names(gone) == ["Summary"]
    back = applied(gone, restored(gone, "report"))
    assert (names(back), dict(back.stale)) == (names(report), {})


def test_what_had_been_deleted_before_stays_deleted(report: BlockTree) -> None:
    """A group brings back what went with it, at any depth; a group within it also what went with that one."""
    tree = add(add(report, "Inner", parent="report", is_group=True), "Deep", "1", parent="inner")
    tree = applied(tree, deleted(tree, "analysis", anyway=True))
    gone = applied(tree, deleted(tree, "report", anyway=True))
    back = applied(gone, restored(gone, "report"))
    assert names(back)[:4] == ["Report", "Report / Method", "Report / Inner", "Report / Inner / Deep"]
    assert {key: block.deleted_with for key, block in back.deleted.items()} == {"analysis": ""}
    assert not any(block.deleted_with for block in back)
    within = applied(gone, restored(gone, "inner"))
    assert names(within) == ["Inner", "Inner / Deep", "Summary"]
    assert set(within.deleted) == {"report", "method", "analysis"}
    both = applied(within, restored(within, "report"))
    assert names(both) == ["Report", "Report / Method", "Inner", "Inner / Deep", "Summary"]


def test_a_block_comes_back_where_its_group_is_now(report: BlockTree) -> None:
    """It has the phase that its group has by now; without its group, it stands at the top."""
    gone = applied(report, deleted(report, "analysis", anyway=True))
    elsewhere = applied(gone, moved(gone, "report", Place("write")))
    assert applied(elsewhere, restored(elsewhere, "analysis"))["analysis"].phase == "write"
    without = applied(gone, deleted(gone, "report", anyway=True))
    back = applied(without, restored(without, "analysis"))
    assert back.path("analysis") == "Analysis"


def test_a_block_does_not_come_back_beside_its_namesake(report: BlockTree) -> None:
    """Its name was given to another meanwhile: that is told; as it is for a block that was never deleted."""
    gone = add(applied(report, deleted(report, "summary")), "Summary", phase="write")
    with pytest.raises(af.UsageError, match="is a block 'Summary' at the top already"):
        restored(gone, "summary")
    with pytest.raises(af.UsageError, match="'report' is no deleted block. Deleted are: none"):
        restored(report, "report")


# --- settings and texts ----------------------------------------------------------------------------------------------


def test_settings_change_what_they_name(report: BlockTree) -> None:
    """A block that is held stands for itself, whatever others are called; one alone is a list of one."""
    tree = applied(report, configured(report, "summary", {"depends_on": report["method"], "prompt": "Short."}))
    assert (tree["summary"].depends_on, tree["summary"].prompt) == (("method",), "Short.")
    assert tree["summary"].content == report["summary"].content


@pytest.mark.parametrize(
    ("block_id", "settings", "told"),
    [
        ("method", {"depends_on": ["Summary"]}, "rest on themselves: Method -> Summary -> Method|Summary -> Method"),
        ("method", {"depends_on": ["Method"]}, "'Method' cannot depend on itself"),
        ("method", {"depends_on": ["Report"]}, "cannot depend on itself, or on a group that it is in"),
        ("method", {"status": "empty"}, "'Method' has a text: it is not empty"),
        ("method", {"status": "done"}, "status of 'Method' is 'done'; it must be one of empty, draft"),
        ("report", {"prompt": "?"}, "group 'Report' has no text of its own: prompt cannot be set"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(
    report: BlockTree, block_id: str, settings: dict[str, Any], told: str
) -> None:
    """Circles are told by names, values with what they must be."""
    with pytest.raises(af.UsageError, match=told):
        configured(report, block_id, settings)


def test_what_is_no_longer_depended_on_makes_nothing_stale(report: BlockTree) -> None:
    """And what is depended on from now on was not there when the text was written."""
    tree = applied(report, written(report, "method", "By weighing.", "user"))
    free = applied(tree, configured(tree, "analysis", {"depends_on": []}))
    assert "analysis" not in free.stale
    again = applied(free, configured(free, "analysis", {"depends_on": ["Method"]}))
    assert again.stale["analysis"] == ("Method",)


def test_a_text_is_written_in_view_of_what_is_there(report: BlockTree) -> None:
    """It is true then; one that was written from something older is stale at once."""
    tree = applied(report, written(report, "method", "By weighing.", "user"))
    assert set(tree.stale) == {"analysis", "summary"}
    assert set(applied(tree, written(tree, "analysis", "Eight.", "user")).stale) == {"summary"}
    older = applied(tree, written(tree, "analysis", "Eight.", "user", basis=report.basis("analysis")))
    assert "analysis" in older.stale
    assert applied(older, kept(older, "analysis")).stale.keys() == {"summary"}


def test_who_was_faster_is_told(report: BlockTree) -> None:
    """A text that was seen before another was written is not written over it."""
    with pytest.raises(af.Conflict, match=r"text of 'Method' is another by now .* Read it again and repeat the change"):
        written(report, "method", "By weighing.", "user", expected="Something else.")


def test_a_reviewed_text_is_a_draft_again_once_it_is_written(report: BlockTree) -> None:
    """A completed one that needs no review stays so; without a text it is empty."""
    for need_review, status in ((True, "draft"), (False, "completed")):
        tree = applied(report, configured(report, "method", {"need_review": need_review, "status": "completed"}))
        assert written(tree, "method", "Other.", "user")[0].status == status
        assert written(tree, "method", " \n ", "user")[0].status == "empty"
        assert written(tree, "method", " \n ", "user")[0].sha256 == ""


def test_what_has_no_text_cannot_be_written(report: BlockTree) -> None:
    """A group, and what is no text."""
    with pytest.raises(af.UsageError, match="group 'Report' has no text of its own. Write one of the blocks in it"):
        written(report, "report", "Text.", "user")
    with pytest.raises(af.UsageError, match="text of 'Method' is int, not text"):
        written(report, "method", 7, "user")  # type: ignore[arg-type]


# --- any row of edits ------------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["A", "a", "方法", "B", "C", "É", "e\u0301", "Q. 1 (new)?", "Task plan", "x/y"])


def is_stale(tree: BlockTree, block: Block) -> bool:
    """Whether a text is stale, said plainly: it, or one that it rests on, was written from other texts."""
    if not block.sha256:
        return False
    needs = {key for one in block.depends_on for key in tree.texts_in(one)}
    texts = [tree[key] for key in needs if key in tree]
    now = {**dict.fromkeys(needs, ""), **{one.block_id: one.sha256 for one in texts}}
    return dict(block.basis) != now or any(is_stale(tree, one) for one in texts)


class Edits(RuleBasedStateMachine):
    """Any edits of any blocks: each is made whole, or refused with a usage error and nothing changed."""

    def __init__(self) -> None:
        super().__init__()
        self.tree = BlockTree((), PHASES)
        self.gone: dict[str, str] = {}

    def make(self, edit: Callable[[], Sequence[Block]]) -> None:
        try:
            self.tree = applied(self.tree, edit())
        except (af.UsageError, af.Conflict):
            return

    def some(self, data: st.DataObject, *, deleted: bool = False) -> str:
        found = self.tree.deleted if deleted else [block.block_id for block in self.tree]
        return data.draw(st.sampled_from(sorted(found) or ["none"]))

    @rule(data=st.data(), name=NAMES, is_group=st.booleans(), phase=st.sampled_from([*PHASES, ""]))
    def add(self, data: st.DataObject, name: str, is_group: bool, phase: str) -> None:
        parent = data.draw(st.sampled_from(["", self.some(data)]))
        more = {"is_group": True} if is_group else {"depends_on": [self.some(data)] if data.draw(st.booleans()) else []}
        self.make(lambda: added(self.tree, NewBlock(name, Place(phase, parent), more, "" if is_group else "x")))

    @rule(data=st.data(), phase=st.sampled_from([*PHASES, ""]))
    def move(self, data: st.DataObject, phase: str) -> None:
        key, parent = self.some(data), data.draw(st.sampled_from(["", self.some(data)]))
        before = data.draw(st.sampled_from(["", self.some(data)]))
        self.make(lambda: moved(self.tree, key, Place(phase, parent, before)))

    @rule(data=st.data(), name=NAMES)
    def rename_or_copy(self, data: st.DataObject, name: str) -> None:
        key = self.some(data)
        self.make(lambda: renamed(self.tree, key, name))
        if len(self.tree) < 30:
            self.make(lambda: copied(self.tree, key, f"{name} {len(self.tree)}"))

    @rule(data=st.data(), anyway=st.booleans())
    def delete(self, data: st.DataObject, anyway: bool) -> None:
        key = self.some(data)
        before = self.tree
        self.make(lambda: deleted(self.tree, key, anyway=anyway))
        self.gone |= dict.fromkeys(self.tree.deleted.keys() - before.deleted.keys(), key)

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        key = self.some(data, deleted=True)
        before = self.tree
        self.make(lambda: restored(self.tree, key))
        back = before.deleted.keys() - self.tree.deleted.keys()
        assert self.tree is before or back == {
            one for one in before.deleted if self.gone[one] == self.gone[key] and self.is_in(before.deleted, one, key)
        }

    @staticmethod
    def is_in(deleted: Mapping[str, Block], one: str, key: str) -> bool:
        """Whether a deleted block is another one, or in it."""
        while one != key and one in deleted:
            one = deleted[one].parent
        return one == key

    @rule(data=st.data(), content=st.sampled_from(["", "x", "y", " "]))
    def write(self, data: st.DataObject, content: str) -> None:
        key = self.some(data)
        self.make(lambda: written(self.tree, key, content, "user"))
        if key in self.tree and not self.tree[key].is_group:
            own = {name for need in self.tree.stale.get(key, ()) for name in [need]}
            assert own <= {self.tree.name(need) for need in self.tree.rests_on(key) if need in self.tree.stale}

    @rule(data=st.data(), needs=st.integers(0, 2))
    def depend(self, data: st.DataObject, needs: int) -> None:
        key, others = self.some(data), [self.some(data) for _ in range(needs)]
        self.make(lambda: configured(self.tree, key, {"depends_on": others}))

    @invariant()
    def the_tree_is_sound(self) -> None:
        """Nothing rests on itself or stands in itself; groups are groups, phases theirs, names differ in a place."""
        turn = self.tree.in_turn
        assert len(turn) == sum(not block.is_group for block in self.tree)
        for block in self.tree:
            group = self.tree.get(block.parent)
            assert (group is None) == (block.parent == "")
            assert group is None or (group.is_group and group.phase == block.phase)
            beside = [folded(one.name) for one in self.tree.children(block.parent)]
            assert beside.count(folded(block.name)) == 1
            assert self.tree.find(self.tree.path(block.block_id)) == block
            assert (block.block_id in self.tree.stale) == is_stale(self.tree, block)
            assert block.block_id not in {"project", "task_plan"}
            assert (block.status == "empty") == (not block.sha256)
            assert not block.is_group or not block.content


TestEdits = Edits.TestCase


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=25))
def test_any_order_can_be_made_by_moving(moves: list[tuple[int, int]]) -> None:
    """Blocks stand where a list stands in which the same was done."""
    tree, expected = BlockTree((), PHASES), [f"n{n}" for n in range(10)]
    for name in expected:
        tree = add(tree, name)
    for what, before in moves:
        if what != before:
            tree = applied(tree, moved(tree, f"n{what}", Place("plan", "", f"n{before}")))
            expected.remove(f"n{what}")
            expected.insert(expected.index(f"n{before}"), f"n{what}")
    assert [block.name for block in tree] == expected
