"""The block tree: document order, lookup by name, and staleness."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import composite

import artifactflow_nb as af
from artifactflow_nb.plugins.projects.project import PROJECT_ID
from artifactflow_nb.plugins.projects.tree import (
    RESERVED_IDS,
    Block,
    BlockTree,
    check_block_metadata,
    parse_block,
    text_hash,
    unused_id,
    validate_block_name,
)
from artifactflow_nb.store.artifact_versions import TASK_PLAN_ID

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
    """The tree after these blocks are written, in order."""
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


def test_blocks_are_in_document_order() -> None:
    """Phases come in order, blocks after their group, siblings by their order."""
    block_tree = tree(
        text("z", phase="write", order=-5),
        text("b", order=2),
        group("g", order=1),
        text("y", parent="g", order=9),
        group("h", "g", order=3),
        text("x", parent="h"),
    )
    assert [block.block_id for block in block_tree] == ["g", "h", "x", "y", "b", "z"]
    assert block_tree.path("x") == "G / H / X"
    assert [block.block_id for block in block_tree.descendants("g")] == ["h", "x", "y"]
    assert [block.block_id for block in block_tree.children()] == ["g", "b", "z"]
    assert [block.block_id for block in block_tree.blocks_in_phase("write")] == ["z"]
    assert (len(block_tree), "x" in block_tree, "nothing" in block_tree) == (6, True, False)
    assert block_tree.get("nothing") is None


@composite
def any_blocks(draw: st.DrawFn) -> list[Block]:
    """Blocks with arbitrary relations, as independent changes of branches may leave them."""
    keys = [f"k{n}" for n in range(draw(st.integers(1, 8)))]
    any_key = st.sampled_from(keys)
    return [
        Block(
            key,
            draw(st.sampled_from("AB")),
            draw(st.sampled_from([*PHASES, "unknown"])),
            draw(st.sampled_from(["", "gone", *keys])),
            draw(st.floats(-2, 2)),
            tuple(draw(st.lists(any_key, max_size=2))),
            is_group=draw(st.booleans()),
            is_deleted=draw(st.integers(0, 5)) == 0,
            content="x",
            sha256=draw(st.sampled_from(["", "1"])),
            basis=draw(st.dictionaries(any_key, st.sampled_from(["", "1", "2"]), max_size=3)),
        )
        for key in keys
    ]


@given(any_blocks())
def test_every_block_appears_once_in_any_state(blocks: list[Block]) -> None:
    """Containment cycles, missing groups and dependency cycles hide nothing, and every query works."""
    block_tree = tree(*blocks)
    ids = [block.block_id for block in block_tree]
    assert sorted(ids) == sorted(block.block_id for block in blocks if not block.is_deleted)
    assert len(block_tree) == len(ids)
    for block in block_tree:
        assert block_tree.path(block.block_id).endswith(block.name)
        assert block_tree.dependents(block.block_id) is not None
        assert block_tree.blockers(block.block_id) is not None
        assert block_tree.status(block.block_id)
        assert block.parent in ("", "gone") or block.parent in block_tree or block.parent in block_tree.deleted
    assert set(block_tree.stale) <= set(ids)


# --- names -----------------------------------------------------------------------------------------------------------


def test_block_is_found_by_path_name_and_id() -> None:
    """A path precedes a name, a name an id; letter case is ignored unless it distinguishes blocks."""
    block_tree = tree(
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
        assert block_tree.find(name).block_id == key, name


def test_accents_are_normalized() -> None:
    """A composed and a decomposed accent are the same in names."""
    assert validate_block_name("  Cafe\u0301 ") == "Café"
    block_tree = tree(group("g", name="Café"), text("x", name="E\u0301tude", parent="g"))
    for name in ("Cafe\u0301/Étude", "CAFÉ / e\u0301tude", "étude", "E\u0301tude"):
        assert block_tree.find(name).block_id == "x", name


def test_ambiguous_name_lists_the_paths() -> None:
    """No block is guessed."""
    block_tree = tree(group("g"), group("h"), text("x", name="Sum", parent="g"), text("y", name="Sum", parent="h"))
    with pytest.raises(
        af.errors.UsageError, match="2 blocks are called 'Sum'. Name one by its path: 'G / Sum', 'H / Sum'"
    ):
        block_tree.find("Sum")
    assert block_tree.find("H / Sum").block_id == "y"


def test_unknown_name_lists_similar_names() -> None:
    """The error lists all names if none is similar."""
    block_tree = tree(text("method"), text("summary"))
    with pytest.raises(af.errors.UsageError, match=r"no block 'Metod'. There are: Method\.$"):
        block_tree.find("Metod")
    with pytest.raises(af.errors.UsageError, match="There are: Method, Summary"):
        block_tree.find("完全不同")
    with pytest.raises(af.errors.UsageError, match="There are: none yet"):
        tree().find("Any")


@pytest.mark.parametrize("name", ["", " \n ", "a/b", "@a", "x" * 121])
def test_invalid_name_is_reported(name: str) -> None:
    """A name is invalid if it is empty, very long, or looks like a path or a reference."""
    with pytest.raises(af.errors.UsageError, match="A block cannot be called"):
        validate_block_name(name)


def test_ids_are_derived_from_names() -> None:
    """An id is in lower case, with a number if the id is used; `block` if the name has no letters or digits."""
    assert unused_id("研究 方法", ()) == "研究_方法"
    assert unused_id("Method!", ["method", "method_2"]) == "method_3"
    assert unused_id("...", ()) == "block"
    assert len(unused_id("x" * 100, ())) == 60


def test_reserved_ids_are_not_used() -> None:
    """A block named like the task plan or the project gets another id."""
    assert {PROJECT_ID, TASK_PLAN_ID} == RESERVED_IDS
    assert unused_id("Task plan", ()) == "task_plan_2"
    assert unused_id("Project", ()) == "project_2"


@pytest.mark.parametrize(
    ("content", "line"),
    [("", ""), ("\n \n", ""), ("## *Title* \r\nMore", "Title*"), ("- one\n- two", "one"), ("---\n> #\n  a", "a"),
     ("# 方法\u2028x", "方法")],
)  # fmt: skip
def test_first_line_skips_markdown_marks(content: str, line: str) -> None:
    """The result is the first line with content, without the marks before it."""
    assert text("a", content).first_line(100) == line
    assert text("a", content).first_line(2) == line[:2].rstrip()


# --- staleness -------------------------------------------------------------------------------------------------------


def test_change_makes_a_chain_stale() -> None:
    """Restoring the old text makes all stale texts current again."""
    assert not CHAIN.stale
    now = changed(CHAIN, "a", "other")
    assert now.stale == {"b": ("A",), "c": ("B",)}
    assert changed(now, "a", "1").stale == {}


def test_rewriting_the_same_text_ends_staleness() -> None:
    """If an intermediate text stays the same, its dependents are current."""
    now = written(changed(CHAIN, "a", "other"), "b")
    assert not now.stale
    assert changed(now, "b", "new").stale == {"c": ("B",)}


def test_change_makes_both_sides_of_a_diamond_stale() -> None:
    """The last block names both causes while both are stale, and is stale until both are rewritten."""
    now = changed(DIAMOND, "a", "other")
    assert now.stale == {"b": ("A",), "c": ("A",), "d": ("B", "C")}
    assert written(now, "b").stale == {"c": ("A",), "d": ("C",)}
    assert written(now, "b", "c").stale == {}


def test_group_is_replaced_by_its_blocks() -> None:
    """A text added to or removed from a group makes the group's dependents stale, also if the text is empty."""
    start = written(tree(group("g"), text("x", "1", parent="g"), text("y", "2"), text("s", "3", "g")), "x", "y", "s")
    assert not start.stale
    assert start.dependencies("s") == ("x",)
    into = tree(*start, replace(start["y"], parent="g"))
    assert into.stale == {"s": ("Y",)}
    out = tree(*start, replace(start["x"], parent=""))
    assert out.stale == {"s": ("X",)}
    assert tree(*out, replace(out["x"], parent="g")).stale == {}
    assert tree(*start, text("new", parent="g")).stale == {"s": ("New",)}


def test_deleted_dependency_makes_stale_until_restored() -> None:
    """The cause is listed by its name."""
    gone = tree(*CHAIN, replace(CHAIN["a"], is_deleted=True))
    assert gone.stale == {"b": ("A",), "c": ("B",)}
    assert tree(*gone, replace(gone.deleted["a"], is_deleted=False)).stale == {}


def test_rename_makes_nothing_stale() -> None:
    """The text is the same under another name."""
    assert not tree(*CHAIN, replace(CHAIN["a"], name="Other")).stale


def test_cyclic_blocks_are_stale_and_reported() -> None:
    """A cycle from concurrent branches is named in the error, and can be removed."""
    circle = tree(text("a", "1", "b"), text("b", "2", "a"), text("c", "3", "b"), text("d", "4"))
    assert set(circle.stale) == {"a", "b", "c"}
    with pytest.raises(af.errors.UsageError, match="Blocks would depend on themselves: (A -> B -> A|B -> A -> B)"):
        _ = circle.topological_order


@composite
def sound_trees(draw: st.DrawFn) -> BlockTree:
    """Texts in up to two groups, each depending on earlier texts and groups; then some of them change."""
    n = draw(st.integers(2, 9))
    blocks = [group("g0"), group("g1")]
    for index in range(n):
        earlier = [f"t{k}" for k in range(index)] + (["g0"] if index > n // 2 else [])
        needs = draw(st.lists(st.sampled_from(earlier), max_size=3, unique=True)) if earlier else []
        parent = draw(st.sampled_from(["", "g0"] if index <= n // 2 else ["", "g1"]))
        blocks.append(text(f"t{index}", draw(st.sampled_from(["", "x", "y"])), *needs, parent=parent))
    block_tree = tree(*blocks)
    block_tree = written(block_tree, *draw(st.lists(st.sampled_from(block_tree.topological_order), max_size=12)))
    for key in draw(st.lists(st.sampled_from(block_tree.topological_order), max_size=3)):
        block_tree = changed(block_tree, key, draw(st.sampled_from(["x", "z"])))
    return block_tree


def naive(block_tree: BlockTree, key: str) -> bool:
    """The definition of staleness."""
    block = block_tree[key]
    stood_for = [entry for need in block.depends_on for entry in (block_tree[need], *block_tree.descendants(need))]
    needs = {entry.block_id for entry in stood_for if not entry.is_group}
    now = {need: block_tree[need].sha256 for need in needs}
    return bool(block.sha256) and (dict(block.basis) != now or any(naive(block_tree, need) for need in needs))


@given(sound_trees())
def test_staleness_follows_its_definition(block_tree: BlockTree) -> None:
    """A text is stale if a dependency is stale, or has changed since the text was written."""
    assert set(block_tree.stale) == {
        block.block_id for block in block_tree if not block.is_group and naive(block_tree, block.block_id)
    }


@given(sound_trees())
def test_rewriting_in_topological_order_leaves_nothing_stale(block_tree: BlockTree) -> None:
    """Each text comes after its dependencies."""
    turn = block_tree.topological_order
    assert all(turn.index(need) < turn.index(key) for key in turn for need in block_tree.dependencies(key))
    assert not written(block_tree, *turn).stale


def test_independent_texts_keep_document_order() -> None:
    """The first ready block of the document is next."""
    block_tree = tree(text("c", order=1), text("b", "", "z", order=2), text("a", order=3), text("z", order=4))
    assert block_tree.topological_order == ("c", "a", "z", "b")


# --- what is to be done ----------------------------------------------------------------------------------------------


def test_block_waits_for_missing_or_unapproved_dependencies() -> None:
    """Empty texts and drafts that need a review block the dependent block; deleted blocks do not."""
    block_tree = tree(
        text("a"), text("b", "1", need_review=True), text("c", "1", need_review=True, status="completed"),
        text("d", "1"), text("e", "", "a", "b", "c", "d", "gone"),
    )  # fmt: skip
    assert [block.block_id for block in block_tree.blockers("e")] == ["a", "b"]


def test_group_has_the_status_of_its_blocks() -> None:
    """A group has the common status of its blocks, else `in_progress`; without texts it is empty."""
    block_tree = tree(group("g"), text("a", "1", parent="g"), group("h", "g"), text("b", parent="h"), group("i"))
    assert [block_tree.status(key) for key in ("g", "h", "i", "a")] == ["in_progress", "empty", "empty", "draft"]
    assert block_tree.unfinished(["plan"]) == {block_tree.path("a"): "draft", block_tree.path("b"): "empty"}


# --- as JSON ---------------------------------------------------------------------------------------------------------


def test_metadata_restores_the_same_block() -> None:
    """The metadata of a version restores the same block."""
    block = text("a", "1", "b", prompt="方法", order=1.5, basis={"b": "7"}, auto_generate=True)
    again = parse_block(block.block_id, block.name, block.content, block.metadata_json, sha256=block.sha256)
    assert again == block
    check_block_metadata(block.metadata_json)
    gone = replace(block, is_deleted=True, deleted_with="g")
    check_block_metadata(gone.metadata_json)
    assert parse_block(gone.block_id, gone.name, "", gone.metadata_json, is_deleted=True).deleted_with == "g"
    assert replace(gone, is_deleted=False).metadata_json == block.metadata_json


@pytest.mark.parametrize(
    ("before", "after"),
    [('"order":0.0', '"order":"0"'), ('"depends_on":[]', '"depends_on":[7]'), ('"basis":{}', '"basis":{"a":1}'),
     ('"draft"', '"done"'), ('"need_review":false', '"need_review":0'), ('"prompt":"",', ""), ("{", "[")],
)  # fmt: skip
def test_invalid_metadata_is_rejected(before: str, after: str) -> None:
    """The metadata have a missing field, a wrong type, or an unknown status."""
    noted = text("a", "1").metadata_json
    assert before in noted
    with pytest.raises(ValueError, match=r"."):
        check_block_metadata(noted.replace(before, after, 1))
