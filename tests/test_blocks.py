"""Blocks as values: a tree in the order of the document, names that find them, and what makes a text stale."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import composite

import artifactflow_nb as af
from artifactflow_nb.block_names import NEVER_BLOCKS, checked_name, free_id
from artifactflow_nb.blocks import Block, BlockTree, block_of, check_noted, text_hash
from artifactflow_nb.projects import PROJECT
from artifactflow_nb.store.artifact_versions import TASK_PLAN

PHASES = ("plan", "write")


def text(key: str, content: str = "", *needs: str, **more: Any) -> Block:
    status = "draft" if content else "empty"
    known = {"name": key.capitalize(), "phase": "plan", "status": status, **more}
    return Block(key, depends_on=needs, content=content, sha256=text_hash(content), **known)


def group(key: str, parent: str = "", **more: Any) -> Block:
    return Block(key, more.pop("name", key.capitalize()), "plan", parent, is_group=True, **more)


def tree(*blocks: Block) -> BlockTree:
    return BlockTree(blocks, PHASES)


def written(start: BlockTree, *keys: str) -> BlockTree:
    """Each of these as if it were written now, one after the other."""
    for key in keys:
        start = tree(*start, replace(start[key], basis=start.basis(key)))
    return start


def changed(start: BlockTree, key: str, content: str) -> BlockTree:
    return tree(*start, *start.deleted.values(), replace(start[key], content=content, sha256=text_hash(content)))


CHAIN = written(tree(text("a", "1"), text("b", "2", "a"), text("c", "3", "b")), "a", "b", "c")
DIAMOND = written(
    tree(text("a", "1"), text("b", "2", "a"), text("c", "3", "a"), text("d", "4", "b", "c")), "a", "b", "c", "d"
)


# --- the order of the document ---------------------------------------------------------------------------------------


def test_the_document_is_read_phase_by_phase_and_group_by_group() -> None:
    """Phases come in their order, what is in a group behind it, and each place by its numbers."""
    found = tree(
        text("z", phase="write", order=-5),
        text("b", order=2),
        group("g", order=1),
        text("y", parent="g", order=9),
        group("h", "g", order=3),
        text("x", parent="h"),
    )
    assert [block.block_id for block in found] == ["g", "h", "x", "y", "b", "z"]
    assert found.path("x") == "G / H / X"
    assert [block.block_id for block in found.below("g")] == ["h", "x", "y"]
    assert [block.block_id for block in found.children()] == ["g", "b", "z"]
    assert [block.block_id for block in found.of_phase("write")] == ["z"]
    assert (len(found), "x" in found, "nothing" in found, found.get("nothing")) == (6, True, False, None)


@composite
def any_blocks(draw: st.DrawFn) -> list[Block]:
    """Blocks that say anything of each other, as branches that were changed apart may leave them."""
    keys = [f"k{n}" for n in range(draw(st.integers(1, 8)))]
    one = st.sampled_from(keys)
    return [
        Block(
            key,
            draw(st.sampled_from("AB")),
            draw(st.sampled_from([*PHASES, "unknown"])),
            draw(st.sampled_from(["", "gone", *keys])),
            draw(st.floats(-2, 2)),
            tuple(draw(st.lists(one, max_size=2))),
            is_group=draw(st.booleans()),
            is_deleted=draw(st.integers(0, 5)) == 0,
            content="x",
            sha256=draw(st.sampled_from(["", "1"])),
            basis=draw(st.dictionaries(one, st.sampled_from(["", "1", "2"]), max_size=3)),
        )
        for key in keys
    ]


@given(any_blocks())
def test_every_block_is_there_once_whatever_they_say(blocks: list[Block]) -> None:
    """Groups in themselves, missing ones and circles hide nothing, and everything can be asked of the tree."""
    found = tree(*blocks)
    ids = [block.block_id for block in found]
    assert sorted(ids) == sorted(block.block_id for block in blocks if not block.is_deleted)
    assert len(found) == len(ids)
    for block in found:
        assert found.path(block.block_id).endswith(block.name)
        assert found.dependents(block.block_id) is not None
        assert found.waits_for(block.block_id) is not None
        assert found.status(block.block_id)
        assert block.parent in ("", "gone") or block.parent in found or block.parent in found.deleted
    assert set(found.stale) <= set(ids)


# --- names -----------------------------------------------------------------------------------------------------------


def test_a_block_is_found_by_path_name_and_id() -> None:
    """A path decides before a name, both before an id; letter case is passed over where nothing else is meant."""
    found = tree(
        group("g", name="Report"),
        text("x", name="Method", parent="g"),
        text("y", name="method"),
        text("method", name="方法"),
        text("z", name="Ålesund ß"),
    )
    expected = {
        "Method": "x", "method": "y", "Report/Method": "x", " @report /  METHOD ": "x", "方法": "method",
        "x": "x", "ålesund SS": "z",
    }  # fmt: skip
    for name, key in expected.items():
        assert found.find(name).block_id == key, name


def test_how_an_accent_was_typed_does_not_matter() -> None:
    """A letter with an accent is one character in a name, and is found as two as well."""
    assert checked_name("  Cafe\u0301 ") == "Café"
    found = tree(group("g", name="Café"), text("x", name="E\u0301tude", parent="g"))
    for name in ("Cafe\u0301/Étude", "CAFÉ / e\u0301tude", "étude", "E\u0301tude"):
        assert found.find(name).block_id == "x", name


def test_a_name_that_several_have_is_told_with_their_paths() -> None:
    """Nothing is guessed; the paths say which there are."""
    found = tree(group("g"), group("h"), text("x", name="Sum", parent="g"), text("y", name="Sum", parent="h"))
    with pytest.raises(af.UsageError, match="2 blocks are called 'Sum'. Say which by its path: 'G / Sum', 'H / Sum'"):
        found.find("Sum")
    assert found.find("H / Sum").block_id == "y"


def test_an_unknown_name_is_told_with_the_nearest() -> None:
    """The nearest names, else all of them, else that there are none."""
    found = tree(text("method"), text("summary"))
    with pytest.raises(af.UsageError, match=r"no block 'Metod'. There are: Method\.$"):
        found.find("Metod")
    with pytest.raises(af.UsageError, match="There are: Method, Summary"):
        found.find("完全不同")
    with pytest.raises(af.UsageError, match="There are: none yet"):
        tree().find("Any")


@pytest.mark.parametrize("name", ["", " \n ", "a/b", "@a", "x" * 121])
def test_a_name_that_cannot_be_is_told(name: str) -> None:
    """An empty name, a very long one, and one that would read as a path or a reference."""
    with pytest.raises(af.UsageError, match="A block cannot be called"):
        checked_name(name)


def test_ids_follow_from_names_and_are_free() -> None:
    """An id is the name in small letters; one that is taken gets a number, what is no word becomes `block`."""
    assert free_id("研究 方法", ()) == "研究_方法"
    assert free_id("Method!", ["method", "method_2"]) == "method_3"
    assert free_id("...", ()) == "block"
    assert len(free_id("x" * 100, ())) == 60


def test_what_is_something_else_is_never_a_block() -> None:
    """A block called as the plan of a turn or the project is gets another id."""
    assert {PROJECT, TASK_PLAN} == NEVER_BLOCKS
    assert free_id("Task plan", ()) == "task_plan_2"
    assert free_id("Project", ()) == "project_2"


@pytest.mark.parametrize(
    ("content", "line"),
    [("", ""), ("\n \n", ""), ("## *Title* \r\nMore", "Title*"), ("- one\n- two", "one"), ("---\n> #\n  a", "a"),
     ("# 方法\u2028x", "方法")],
)  # fmt: skip
def test_the_first_line_that_says_something(content: str, line: str) -> None:
    """Marks of Markdown before it are left out."""
    assert text("a", content).first_line(100) == line
    assert text("a", content).first_line(2) == line[:2].rstrip()


# --- staleness -------------------------------------------------------------------------------------------------------


def test_a_change_goes_down_a_chain() -> None:
    """What rests on a changed text is stale, and what rests on that; a text brought back makes all of it true again."""
    assert not CHAIN.stale
    now = changed(CHAIN, "a", "other")
    assert now.stale == {"b": ("A",), "c": ("B",)}
    assert changed(now, "a", "1").stale == {}


def test_a_rewritten_text_that_says_the_same_ends_it() -> None:
    """Where a text in between holds, what rests on it holds, too."""
    now = written(changed(CHAIN, "a", "other"), "b")
    assert not now.stale
    assert changed(now, "b", "new").stale == {"c": ("B",)}


def test_a_change_goes_down_both_ways_of_a_diamond() -> None:
    """The end names both ways as long as both are stale, and is stale until the last of them is written."""
    now = changed(DIAMOND, "a", "other")
    assert now.stale == {"b": ("A",), "c": ("A",), "d": ("B", "C")}
    assert written(now, "b").stale == {"c": ("A",), "d": ("C",)}
    assert written(now, "b", "c").stale == {}


def test_a_group_stands_for_what_is_in_it() -> None:
    """A text that comes into a group, or goes, makes stale what rests on the group; an empty one does so as well."""
    start = written(tree(group("g"), text("x", "1", parent="g"), text("y", "2"), text("s", "3", "g")), "x", "y", "s")
    assert not start.stale
    assert start.rests_on("s") == ("x",)
    into = tree(*start, replace(start["y"], parent="g"))
    assert into.stale == {"s": ("Y",)}
    out = tree(*start, replace(start["x"], parent=""))
    assert out.stale == {"s": ("X",)}
    assert tree(*out, replace(out["x"], parent="g")).stale == {}
    assert tree(*start, text("new", parent="g")).stale == {"s": ("New",)}


def test_what_is_deleted_is_missed_until_it_is_back() -> None:
    """Who rested on a deleted text is stale and told its name; one that is back makes it true again."""
    gone = tree(*CHAIN, replace(CHAIN["a"], is_deleted=True))
    assert gone.stale == {"b": ("A",), "c": ("B",)}
    assert tree(*gone, replace(gone.deleted["a"], is_deleted=False)).stale == {}


def test_a_name_makes_nothing_stale() -> None:
    """A block by another name is the same text."""
    assert not tree(*CHAIN, replace(CHAIN["a"], name="Other")).stale


def test_blocks_that_rest_on_themselves_are_stale_and_told() -> None:
    """Where branches brought a circle about it can be seen, and ended."""
    circle = tree(text("a", "1", "b"), text("b", "2", "a"), text("c", "3", "b"), text("d", "4"))
    assert set(circle.stale) == {"a", "b", "c"}
    with pytest.raises(af.UsageError, match="Blocks would rest on themselves: (A -> B -> A|B -> A -> B)"):
        _ = circle.in_turn


@composite
def sound_trees(draw: st.DrawFn) -> BlockTree:
    """Texts in up to two groups, each resting on earlier texts and on groups of earlier ones; then some are changed."""
    n = draw(st.integers(2, 9))
    blocks = [group("g0"), group("g1")]
    for index in range(n):
        earlier = [f"t{k}" for k in range(index)] + (["g0"] if index > n // 2 else [])
        needs = draw(st.lists(st.sampled_from(earlier), max_size=3, unique=True)) if earlier else []
        parent = draw(st.sampled_from(["", "g0"] if index <= n // 2 else ["", "g1"]))
        blocks.append(text(f"t{index}", draw(st.sampled_from(["", "x", "y"])), *needs, parent=parent))
    found = tree(*blocks)
    found = written(found, *draw(st.lists(st.sampled_from(found.in_turn), max_size=12)))
    for key in draw(st.lists(st.sampled_from(found.in_turn), max_size=3)):
        found = changed(found, key, draw(st.sampled_from(["x", "z"])))
    return found


def naive(found: BlockTree, key: str) -> bool:
    """The definition, word by word."""
    block = found[key]
    stood_for = [one for need in block.depends_on for one in (found[need], *found.below(need))]
    needs = {one.block_id for one in stood_for if not one.is_group}
    now = {need: found[need].sha256 for need in needs}
    return bool(block.sha256) and (dict(block.basis) != now or any(naive(found, need) for need in needs))


@given(sound_trees())
def test_staleness_is_what_its_definition_says(found: BlockTree) -> None:
    """A text is stale if what it rests on is not what it was written from, or is stale itself."""
    assert set(found.stale) == {
        block.block_id for block in found if not block.is_group and naive(found, block.block_id)
    }


@given(sound_trees())
def test_what_is_written_in_turn_makes_all_true(found: BlockTree) -> None:
    """Each text comes after those that it rests on; written so, none is stale."""
    turn = found.in_turn
    assert all(turn.index(need) < turn.index(key) for key in turn for need in found.rests_on(key))
    assert not written(found, *turn).stale


def test_texts_that_do_not_depend_come_in_the_order_of_the_document() -> None:
    """Of what is ready, the first of the document is the next."""
    found = tree(text("c", order=1), text("b", "", "z", order=2), text("a", order=3), text("z", order=4))
    assert found.in_turn == ("c", "a", "z", "b")


# --- what is to be done ----------------------------------------------------------------------------------------------


def test_a_block_waits_for_what_is_missing_or_not_approved() -> None:
    """An empty text and a draft that needs a review are waited for; what is gone is not."""
    found = tree(
        text("a"), text("b", "1", need_review=True), text("c", "1", need_review=True, status="completed"),
        text("d", "1"), text("e", "", "a", "b", "c", "d", "gone"),
    )  # fmt: skip
    assert [block.block_id for block in found.waits_for("e")] == ["a", "b"]


def test_a_group_has_the_status_of_what_is_in_it() -> None:
    """One status if all have it; else it is in progress, and without texts empty."""
    found = tree(group("g"), text("a", "1", parent="g"), group("h", "g"), text("b", parent="h"), group("i"))
    assert [found.status(key) for key in ("g", "h", "i", "a")] == ["in_progress", "empty", "empty", "draft"]
    assert found.left_open(["plan"]) == {found.path("a"): "draft", found.path("b"): "empty"}


# --- as JSON ---------------------------------------------------------------------------------------------------------


def test_a_version_notes_the_whole_block() -> None:
    """What is noted gives the same block again, and nothing else is taken for it."""
    block = text("a", "1", "b", prompt="方法", order=1.5, basis={"b": "7"}, auto_generate=True)
    again = block_of(block.block_id, block.name, block.content, block.noted, sha256=block.sha256)
    assert again == block
    check_noted(block.noted)
    gone = replace(block, is_deleted=True, deleted_with="g")
    check_noted(gone.noted)
    assert block_of(gone.block_id, gone.name, "", gone.noted, is_deleted=True).deleted_with == "g"
    assert replace(gone, is_deleted=False).noted == block.noted


@pytest.mark.parametrize(
    ("before", "after"),
    [('"order":0.0', '"order":"0"'), ('"depends_on":[]', '"depends_on":[7]'), ('"basis":{}', '"basis":{"a":1}'),
     ('"draft"', '"done"'), ('"need_review":false', '"need_review":0'), ('"prompt":"",', ""), ("{", "[")],
)  # fmt: skip
def test_what_no_version_can_note_is_refused(before: str, after: str) -> None:
    """A field too few, one of another kind, or a status that there is not."""
    noted = text("a", "1").noted
    assert before in noted
    with pytest.raises(ValueError, match=r"."):
        check_noted(noted.replace(before, after, 1))
