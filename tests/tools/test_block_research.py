"""Research results as blocks, and the texts that agents may write in research phases."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import artifactflow_nb as af
from artifactflow_nb.plugins.projects.access import (
    RESEARCH_AUTHOR,
    add_research_blocks,
    is_grounded,
    require_grounding,
    research_phase,
    title_from_query,
)
from artifactflow_nb.plugins.projects.edits import (
    BlockEdit,
    BlockPosition,
    NewBlock,
    add_block,
    configure_block,
    copy_block,
    delete_block,
    move_block,
    rename_block,
    write_block,
)
from artifactflow_nb.plugins.projects.project import ProjectInfo, ProjectTemplate
from artifactflow_nb.plugins.projects.tree import Block, BlockTree, validate_block_name
from artifactflow_nb.store.artifacts import USER

PHASES = ("plan", "research", "write")
REPORT, SOURCES = "X is a letter [1].", "- **The book** — local:book"


def applied(tree: BlockTree, changed: Sequence[Block]) -> BlockTree:
    return BlockTree((*tree, *tree.deleted.values(), *changed), tree.phases)


def add(tree: BlockTree, name: str, content: str = "", *, phase: str = "research", writer: str = USER, **more: Any):
    return applied(
        tree, add_block(tree, NewBlock(name, BlockPosition(phase), more, content, writer if content else ""))
    )


def found(tree: BlockTree, into: str = "", name: str = "What is X?", text: str = REPORT) -> BlockTree:
    """The tree after research for a new or an existing block."""
    new = NewBlock(name, BlockPosition("research"), {"prompt": name}, text)
    return applied(tree, add_research_blocks(tree, into, new, SOURCES))


EMPTY = BlockTree((), PHASES)


def agreed(tree: BlockTree, edit: BlockEdit, phases: Sequence[str] = ("research",)) -> BlockTree:
    """The tree after an agent's edit, if the edit is allowed."""
    return applied(tree, require_grounding(edit, phases)(tree))


# --- names and phases ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("What is X?", "What is X?"),
        ("  What\n is\tX? ", "What is X?"),
        ("@Facts and / or more", "Facts and or more"),
        ("@ @@x", "x"),
        ("/", RESEARCH_AUTHOR),
        ("@", RESEARCH_AUTHOR),
        ("word " * 1000, "word " * 12 + "…"),
        ("字" * 5000, "字" * 30 + " …"),
    ],
)
def test_title_is_the_start_of_the_query(query: str, title: str) -> None:
    """The title is one line of about 60 columns without special characters."""
    assert title_from_query(query) == title


@given(st.text(min_size=1, max_size=300))
@example("a" + "\u0301" * 300)
@example("\ud800?")
def test_every_query_gives_a_valid_name(query: str) -> None:
    """The name of the sources block is valid, too."""
    assert validate_block_name(title_from_query(query))
    assert validate_block_name(f"{title_from_query(query)}: sources")


@pytest.mark.parametrize(
    ("phases", "now", "where"),
    [
        (["a", "b"], "b", "b"),
        (["a", {"name": "b", "research": True}, "c"], "a", "b"),
        (["a", {"name": "b", "research": True}, "c"], "c", "b"),
        ([{"name": "a", "research": True}, {"name": "b", "research": True}], "b", "b"),
    ],
)
def test_phase_of_a_report(phases: list[Any], now: str, where: str) -> None:
    """A report is in the current phase if this or no phase is a research phase, or else in the first research phase."""
    head = ProjectInfo.create("P", ProjectTemplate.model_validate({"name": "t", "phases": phases})).advanced(now)
    assert research_phase(head) == where


# --- reports ---------------------------------------------------------------------------------------------------------


def test_new_report_depends_on_its_sources() -> None:
    """Report and sources are completed; the query is the prompt, and nothing is stale."""
    tree = found(EMPTY)
    report, sources = tree.find("What is X?"), tree.find("What is X?: sources")
    assert [(b.content, b.writer, b.status, b.phase) for b in (report, sources)] == [
        (REPORT, RESEARCH_AUTHOR, "completed", "research"),
        (SOURCES, RESEARCH_AUTHOR, "completed", "research"),
    ]
    assert (report.depends_on, report.prompt) == ((sources.block_id,), "What is X?")
    assert not tree.stale


def test_report_is_the_first_changed_block() -> None:
    """The caller finds the report's id in the first changed block."""
    new = NewBlock("What is X?", BlockPosition("research"), {}, REPORT)
    changed = add_research_blocks(EMPTY, "", new, SOURCES)
    assert [block.content for block in changed] == [REPORT, SOURCES]


def test_report_in_an_existing_block() -> None:
    """Place, prompt and dependencies stay; the sources block is in the same group."""
    tree = add(add(EMPTY, "Goal", "G."), "Part", is_group=True)
    place = BlockPosition("", "part")
    tree = applied(tree, add_block(tree, NewBlock("Facts", place, {"depends_on": ["Goal"], "prompt": "Why?"})))
    tree = found(tree, "facts")
    facts = tree.find("Facts")
    assert (facts.content, facts.prompt, facts.depends_on) == (REPORT, "Why?", ("goal", "facts_sources"))
    assert tree.path("facts_sources") == "Part / Facts: sources"
    assert not tree.stale


def test_repeated_research_reuses_the_sources_block() -> None:
    """Dependents of the report become stale; the report does not."""
    tree = add(found(EMPTY), "Text", "T.", phase="write", depends_on=["What is X?"])
    report = tree.find("What is X?")
    repeated = found(tree, report.block_id, text="X is the 24th letter.")
    assert len(repeated) == len(tree)
    assert repeated[report.block_id].depends_on == report.depends_on
    assert set(repeated.stale) == {"text"}


def test_other_report_is_not_a_sources_block() -> None:
    """Other dependencies stay unchanged: another report and its sources."""
    tree = found(EMPTY)
    tree = add(tree, "Further", depends_on=["What is X?", "What is X?: sources"])
    tree = found(tree, "further", text="Further.")
    assert tree.find("What is X?").content == REPORT
    assert tree["further"].depends_on == ("what_is_x", "what_is_x_sources", "further_sources")
    assert tree["further_sources"].content == SOURCES


def test_edited_or_deleted_sources_are_not_overwritten() -> None:
    """The new sources go into a new block."""
    tree = found(EMPTY)
    key = tree.find("What is X?").block_id
    by_hand = applied(tree, write_block(tree, f"{key}_sources", "My own.", USER))
    repeated = found(by_hand, key)
    assert repeated[f"{key}_sources"].content == "My own."
    assert repeated.find("What is X?: sources 2").content == SOURCES
    gone = applied(tree, delete_block(tree, f"{key}_sources", anyway=True))
    assert found(gone, key).find("What is X?: sources").content == SOURCES


def test_used_names_get_a_number() -> None:
    """The names of both blocks are compared with the names in all phases, ignoring case."""
    tree = add(add(EMPTY, "what is x?", "Mine.", phase="plan"), "What is X? 2: sources", phase="write")
    tree = found(tree)
    assert tree.find("What is X? 2").content == REPORT
    assert tree.find("What is X? 2: sources 2").content == SOURCES
    assert tree["what_is_x"].content == "Mine."


def test_report_that_needs_review_is_a_draft() -> None:
    """The report becomes a draft, and the block with the sources is completed without a review."""
    tree = found(add(EMPTY, "Facts", need_review=True), "facts")
    assert (tree["facts"].status, tree["facts_sources"].status) == ("draft", "completed")


def test_deleted_block_gets_no_report() -> None:
    """The error names the block."""
    tree = add(EMPTY, "Facts")
    with pytest.raises(af.errors.UsageError, match="'Facts' was deleted during the research"):
        found(applied(tree, delete_block(tree, "facts")), "facts")


@given(st.lists(st.tuples(st.sampled_from(["A", "a", "B", "A: sources"]), st.integers(0, 9)), min_size=1, max_size=6))
def test_repeated_research_keeps_the_tree_valid(queries: list[tuple[str, int]]) -> None:
    """Every report depends on existing sources, and no text is lost."""
    tree, texts = EMPTY, set[str]()
    for n, (name, at) in enumerate(queries):
        reports = [block for block in tree if block.depends_on]
        into = reports[at].block_id if at < len(reports) else ""
        texts = texts - ({tree[into].content} if into else set()) | {f"Report {n}."}
        tree = found(tree, into, name, f"Report {n}.")
        assert tree.topological_order
    assert {block.content for block in tree if block.depends_on} == texts
    assert all(is_grounded(tree, block) for block in tree)
    assert not tree.stale


# --- what an agent may write -----------------------------------------------------------------------------------------


def facts(writer: str = "") -> BlockTree:
    """A report, an empty block of research, and a text by somebody in another phase."""
    tree = add(found(EMPTY, name="Facts"), "Open")
    return add(tree, "Text", "T.", phase="write", writer=writer or "writer")


def say(key: str, text: str = "Said.", writer: str = "writer") -> BlockEdit:
    return partial(write_block, block_id=key, text=text, writer=writer)


REFUSED: dict[str, BlockEdit] = {
    "write": say("open"),
    "add": partial(add_block, new=NewBlock("New", BlockPosition("research"), {}, "N.", "composer")),
    "move": partial(move_block, block_id="text", position=BlockPosition("research")),
}


@pytest.mark.parametrize("edit", REFUSED.values(), ids=REFUSED)
def test_ungrounded_edits_are_rejected(edit: BlockEdit) -> None:
    """The error names the block, and the ways to make the edit valid."""
    with pytest.raises(af.errors.UsageError, match=r"it is not based on research\. Call run_research with field_name="):
        agreed(facts(), edit)


def test_error_has_the_path_of_a_block_in_a_group() -> None:
    """A call can use the path in the error as its field name."""
    tree = add(EMPTY, "Part", is_group=True)
    tree = applied(tree, add_block(tree, NewBlock("Facts", BlockPosition("", "part"), {})))
    with pytest.raises(af.errors.UsageError, match='field_name="Part / Facts"'):
        agreed(tree, say("facts"))


ALLOWED: dict[str, BlockEdit] = {
    "add an empty one": partial(add_block, new=NewBlock("New", BlockPosition("research"), {})),
    "add one that rests on it": partial(
        add_block, new=NewBlock("N", BlockPosition("research"), {"depends_on": ["Facts"]}, "N.")
    ),
    "edit the report": say("facts", writer="editor"),
    "empty it": say("facts", ""),
    "rename it": partial(rename_block, block_id="facts", name="What is known"),
    "copy it": partial(copy_block, block_id="facts", name="Copy"),
    "move it out": partial(move_block, block_id="facts", position=BlockPosition("write")),
    "move an empty one in": partial(move_block, block_id="open", position=BlockPosition("research", "", "facts")),
    "write elsewhere": say("text"),
    "delete it": partial(delete_block, block_id="facts"),
    "let it depend on more": partial(
        configure_block, block_id="facts", settings={"depends_on": ["Facts: sources", "Text"]}
    ),
    "write by a person": say("open", writer=USER),
}


@pytest.mark.parametrize("edit", ALLOWED.values(), ids=ALLOWED)
def test_grounded_or_unchanged_texts_are_accepted(edit: BlockEdit) -> None:
    """The edit is applied unchanged."""
    tree = facts()
    assert list(require_grounding(edit, ("research",))(tree)) == list(edit(tree))


def test_indirect_dependents_of_research_are_accepted() -> None:
    """Such blocks depend on research through a block of another phase or a group with a report."""
    tree = add(found(EMPTY, name="Facts"), "Between", "B.", phase="write", depends_on=["Facts"])
    tree = add(tree, "Far", depends_on=["Between"])
    assert agreed(tree, say("far"))["far"].content == "Said."
    tree = add(tree, "Part", is_group=True)
    tree = applied(tree, move_block(tree, "facts", BlockPosition("", "part")))
    tree = add(tree, "Of the part", depends_on=["Part"])
    assert agreed(tree, say("of_the_part"))["of_the_part"].content == "Said."


def test_agent_may_move_but_not_overwrite_a_persons_text() -> None:
    """In a research phase an agent may move and rename a person's text."""
    tree = facts(writer=USER)
    tree = agreed(tree, REFUSED["move"])
    assert tree["text"].phase == "research"
    tree = agreed(tree, partial(rename_block, block_id="text", name="Mine"))
    with pytest.raises(af.errors.UsageError, match="it is not based on research"):
        agreed(tree, say("text"))


@pytest.mark.parametrize("edit", REFUSED.values(), ids=REFUSED)
def test_projects_without_research_phases_accept_everything(edit: BlockEdit) -> None:
    """The template of such a project has no research phase."""
    tree = facts()
    assert list(require_grounding(edit, ())(tree)) == list(edit(tree))
