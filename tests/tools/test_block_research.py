"""What was researched for a project: how reports and their sources become blocks, and what an agent may write."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import artifactflow_nb as af
from artifactflow_nb.block_edits import (
    BlockEdit,
    NewBlock,
    Place,
    added,
    configured,
    copied,
    deleted,
    moved,
    renamed,
    written,
)
from artifactflow_nb.block_names import checked_name
from artifactflow_nb.blocks import Block, BlockTree
from artifactflow_nb.project_template import ProjectTemplate
from artifactflow_nb.projects import ProjectHead
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.tools.block_research import RESEARCH, grounded, is_researched, phase_of, researched, title_of

PHASES = ("plan", "research", "write")
REPORT, SOURCES = "X is a letter [1].", "- **The book** — local:book"


def applied(tree: BlockTree, changed: Sequence[Block]) -> BlockTree:
    return BlockTree((*tree, *tree.deleted.values(), *changed), tree.phases)


def add(tree: BlockTree, name: str, content: str = "", *, phase: str = "research", writer: str = USER, **more: Any):
    return applied(tree, added(tree, NewBlock(name, Place(phase), more, content, writer if content else "")))


def found(tree: BlockTree, into: str = "", name: str = "What is X?", text: str = REPORT) -> BlockTree:
    """The tree with what was researched, for a new block or for one that is there."""
    new = NewBlock(name, Place("research"), {"prompt": name}, text)
    return applied(tree, researched(tree, into, new, SOURCES))


EMPTY = BlockTree((), PHASES)


def agreed(tree: BlockTree, edit: BlockEdit, phases: Sequence[str] = ("research",)) -> BlockTree:
    """The tree after an agent's edit, if it may be."""
    return applied(tree, grounded(edit, phases)(tree))


# --- names and phases ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("What is X?", "What is X?"),
        ("  What\n is\tX? ", "What is X?"),
        ("@Facts and / or more", "Facts and or more"),
        ("@ @@x", "x"),
        ("/", RESEARCH),
        ("@", RESEARCH),
        ("word " * 1000, "word " * 12 + "…"),
        ("字" * 5000, "字" * 30 + " …"),
    ],
)
def test_a_block_is_called_as_the_question_begins(query: str, title: str) -> None:
    """On one line of about 60 columns, without what has a meaning in names."""
    assert title_of(query) == title


@given(st.text(min_size=1, max_size=300))
@example("a" + "\u0301" * 300)
@example("\ud800?")
def test_whatever_is_asked_there_is_a_name_for_it(query: str) -> None:
    """A block can be called so, and its sources behind it."""
    assert checked_name(title_of(query))
    assert checked_name(f"{title_of(query)}: sources")


@pytest.mark.parametrize(
    ("phases", "now", "where"),
    [
        (["a", "b"], "b", "b"),
        (["a", {"name": "b", "research": True}, "c"], "a", "b"),
        (["a", {"name": "b", "research": True}, "c"], "c", "b"),
        ([{"name": "a", "research": True}, {"name": "b", "research": True}], "b", "b"),
    ],
)
def test_what_is_researched_goes_into_a_phase_of_research(phases: list[Any], now: str, where: str) -> None:
    """The present one if it is such, or if there is none; else the first."""
    head = ProjectHead.begun("P", ProjectTemplate.model_validate({"name": "t", "phases": phases})).in_phase(now)
    assert phase_of(head) == where


# --- reports ---------------------------------------------------------------------------------------------------------


def test_a_report_is_a_new_block_that_rests_on_its_sources() -> None:
    """Both are completed and of research; what was asked is the prompt, and nothing is stale."""
    tree = found(EMPTY)
    report, sources = tree.find("What is X?"), tree.find("What is X?: sources")
    assert [(b.content, b.writer, b.status, b.phase) for b in (report, sources)] == [
        (REPORT, RESEARCH, "completed", "research"),
        (SOURCES, RESEARCH, "completed", "research"),
    ]
    assert (report.depends_on, report.prompt) == ((sources.block_id,), "What is X?")
    assert not tree.stale


def test_the_report_of_a_new_block_comes_first() -> None:
    """Who applies the edit finds the report as the first block of it."""
    new = NewBlock("What is X?", Place("research"), {}, REPORT)
    changed = researched(EMPTY, "", new, SOURCES)
    assert [block.content for block in changed] == [REPORT, SOURCES]


def test_a_report_can_become_the_text_of_a_block_that_is_there() -> None:
    """In its place, with its prompt and what it depends on besides; the sources stand beside it in its group."""
    tree = add(add(EMPTY, "Goal", "G."), "Part", is_group=True)
    place = Place("", "part")
    tree = applied(tree, added(tree, NewBlock("Facts", place, {"depends_on": ["Goal"], "prompt": "Why?"})))
    tree = found(tree, "facts")
    facts = tree.find("Facts")
    assert (facts.content, facts.prompt, facts.depends_on) == (REPORT, "Why?", ("goal", "facts_sources"))
    assert tree.path("facts_sources") == "Part / Facts: sources"
    assert not tree.stale


def test_researched_again_a_report_keeps_its_sources_block() -> None:
    """The block of its sources gets the new text; what rests on the report is stale, the report is not."""
    tree = add(found(EMPTY), "Text", "T.", phase="write", depends_on=["What is X?"])
    report = tree.find("What is X?")
    again = found(tree, report.block_id, text="X is the 24th letter.")
    assert len(again) == len(tree)
    assert again[report.block_id].depends_on == report.depends_on
    assert set(again.stale) == {"text"}


def test_another_report_below_is_not_taken_for_sources() -> None:
    """What a block rests on besides stays as it is: another report, and what was read for that."""
    tree = found(EMPTY)
    tree = add(tree, "Further", depends_on=["What is X?", "What is X?: sources"])
    tree = found(tree, "further", text="Further.")
    assert tree.find("What is X?").content == REPORT
    assert tree["further"].depends_on == ("what_is_x", "what_is_x_sources", "further_sources")
    assert tree["further_sources"].content == SOURCES


def test_sources_that_a_person_wrote_or_removed_are_not_written_over() -> None:
    """A further block holds what was read then."""
    tree = found(EMPTY)
    key = tree.find("What is X?").block_id
    by_hand = applied(tree, written(tree, f"{key}_sources", "My own.", USER))
    again = found(by_hand, key)
    assert again[f"{key}_sources"].content == "My own."
    assert again.find("What is X?: sources 2").content == SOURCES
    gone = applied(tree, deleted(tree, f"{key}_sources", anyway=True))
    assert found(gone, key).find("What is X?: sources").content == SOURCES


def test_a_name_that_is_taken_gets_a_number() -> None:
    """For the report and for its sources, in whatever case and phase."""
    tree = add(add(EMPTY, "what is x?", "Mine.", phase="plan"), "What is X? 2: sources", phase="write")
    tree = found(tree)
    assert tree.find("What is X? 2").content == REPORT
    assert tree.find("What is X? 2: sources 2").content == SOURCES
    assert tree["what_is_x"].content == "Mine."


def test_a_report_that_has_to_be_reviewed_is_a_draft() -> None:
    """Its sources are not."""
    tree = found(add(EMPTY, "Facts", need_review=True), "facts")
    assert (tree["facts"].status, tree["facts_sources"].status) == ("draft", "completed")


def test_a_block_that_is_gone_takes_no_report() -> None:
    """The error names it."""
    tree = add(EMPTY, "Facts")
    with pytest.raises(af.UsageError, match="'Facts' was deleted while the research went on"):
        found(applied(tree, deleted(tree, "facts")), "facts")


@given(st.lists(st.tuples(st.sampled_from(["A", "a", "B", "A: sources"]), st.integers(0, 9)), min_size=1, max_size=6))
def test_however_often_something_is_researched_the_document_holds(asked: list[tuple[str, int]]) -> None:
    """Into new blocks and into those that are there: every report rests on sources that are there, nothing is lost."""
    tree, texts = EMPTY, set[str]()
    for n, (name, at) in enumerate(asked):
        reports = [block for block in tree if block.depends_on]
        into = reports[at].block_id if at < len(reports) else ""
        texts = texts - ({tree[into].content} if into else set()) | {f"Report {n}."}
        tree = found(tree, into, name, f"Report {n}.")
        assert tree.in_turn
    assert {block.content for block in tree if block.depends_on} == texts
    assert all(is_researched(tree, block) for block in tree)
    assert not tree.stale


# --- what an agent may write -----------------------------------------------------------------------------------------


def facts(writer: str = "") -> BlockTree:
    """A report, an empty block of research, and a text by somebody in another phase."""
    tree = add(found(EMPTY, name="Facts"), "Open")
    return add(tree, "Text", "T.", phase="write", writer=writer or "writer")


def say(key: str, text: str = "Said.", writer: str = "writer") -> BlockEdit:
    return partial(written, block_id=key, text=text, writer=writer)


REFUSED: dict[str, BlockEdit] = {
    "write": say("open"),
    "add": partial(added, new=NewBlock("New", Place("research"), {}, "N.", "composer")),
    "move": partial(moved, block_id="text", place=Place("research")),
}


@pytest.mark.parametrize("edit", REFUSED.values(), ids=REFUSED)
def test_nothing_of_an_agents_own_comes_into_a_phase_of_research(edit: BlockEdit) -> None:
    """The error names the block and tells to research, into it, or to let it rest on what was."""
    with pytest.raises(af.UsageError, match=r"nothing was researched for it\. Call run_research with field_name="):
        agreed(facts(), edit)


def test_in_a_group_of_the_phase_the_error_says_where() -> None:
    """The field name is the path, as a call has to give it."""
    tree = add(EMPTY, "Part", is_group=True)
    tree = applied(tree, added(tree, NewBlock("Facts", Place("", "part"), {})))
    with pytest.raises(af.UsageError, match='field_name="Part / Facts"'):
        agreed(tree, say("facts"))


ALLOWED: dict[str, BlockEdit] = {
    "add an empty one": partial(added, new=NewBlock("New", Place("research"), {})),
    "add one that rests on it": partial(added, new=NewBlock("N", Place("research"), {"depends_on": ["Facts"]}, "N.")),
    "edit the report": say("facts", writer="editor"),
    "empty it": say("facts", ""),
    "rename it": partial(renamed, block_id="facts", name="What is known"),
    "copy it": partial(copied, block_id="facts", name="Copy"),
    "move it out": partial(moved, block_id="facts", place=Place("write")),
    "move an empty one in": partial(moved, block_id="open", place=Place("research", "", "facts")),
    "write elsewhere": say("text"),
    "delete it": partial(deleted, block_id="facts"),
    "let it depend on more": partial(configured, block_id="facts", settings={"depends_on": ["Facts: sources", "Text"]}),
    "write by a person": say("open", writer=USER),
}


@pytest.mark.parametrize("edit", ALLOWED.values(), ids=ALLOWED)
def test_what_rests_on_research_or_says_nothing_new_may_be(edit: BlockEdit) -> None:
    """The edit is made as it is."""
    tree = facts()
    assert list(grounded(edit, ("research",))(tree)) == list(edit(tree))


def test_what_rests_on_research_at_second_hand_may_be_written() -> None:
    """Through a block of another phase, and through a group that holds a report."""
    tree = add(found(EMPTY, name="Facts"), "Between", "B.", phase="write", depends_on=["Facts"])
    tree = add(tree, "Far", depends_on=["Between"])
    assert agreed(tree, say("far"))["far"].content == "Said."
    tree = add(tree, "Part", is_group=True)
    tree = applied(tree, moved(tree, "facts", Place("", "part")))
    tree = add(tree, "Of the part", depends_on=["Part"])
    assert agreed(tree, say("of_the_part"))["of_the_part"].content == "Said."


def test_a_persons_text_in_the_phase_is_theirs_to_move_and_an_agents_to_leave() -> None:
    """An agent may move and rename what a person wrote, and may not write over it."""
    tree = facts(writer=USER)
    tree = agreed(tree, REFUSED["move"])
    assert tree["text"].phase == "research"
    tree = agreed(tree, partial(renamed, block_id="text", name="Mine"))
    with pytest.raises(af.UsageError, match="nothing was researched"):
        agreed(tree, say("text"))


@pytest.mark.parametrize("edit", REFUSED.values(), ids=REFUSED)
def test_without_phases_of_research_everything_may_be(edit: BlockEdit) -> None:
    """A template that has none asks for nothing."""
    tree = facts()
    assert list(grounded(edit, ())(tree)) == list(edit(tree))
