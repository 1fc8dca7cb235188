"""The positions of the nodes of a tree, and the messages that a long tree folds."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.conversation_trees import chain, grow, shape
from support.cpu_time import within

from artifactflow_nb.widgets.conversations.folding import FoldedMessages
from artifactflow_nb.widgets.conversations.layout import TreeLayout, layout_tree


@st.composite
def parents(draw: st.DrawFn, most: int = 40) -> list[int | None]:
    n = draw(st.integers(1, most))
    return [draw(st.none() | st.integers(0, number - 1)) if number else None for number in range(n)]


def ids(layout: TreeLayout) -> list[str]:
    """The messages of all rows and folds."""
    return [
        entry for row in layout.rows for entry in getattr(row.content, "message_ids", None) or (row.content.message_id,)
    ]


def test_active_branch_has_first_column() -> None:
    """Another branch is placed after the question that it follows, one column to the right."""
    layout = layout_tree(grow([None, 0, 1, 0, 3]))
    assert shape(layout) == [("m0", 0), ("m1", 1), ("m2", 1), ("m3", 0), ("m4", 0)]
    assert [(row.depth, row.sibling, row.n_siblings) for row in layout.rows] == [
        (1, 1, 1), (2, 1, 2), (3, 1, 1), (2, 2, 2), (3, 1, 1),
    ]  # fmt: skip
    assert [(row.parent, row.starts_branch) for row in layout.rows] == [
        (-1, False), (0, True), (1, False), (0, False), (3, False),
    ]  # fmt: skip


def test_activated_branch_takes_first_column() -> None:
    """After the older branch is activated, the newer branch moves to the second column."""
    assert shape(layout_tree(grow([None, 0, 1, 0, 3], active=2))) == [
        ("m0", 0), ("m3", 1), ("m4", 1), ("m1", 0), ("m2", 0),
    ]  # fmt: skip


def test_newest_inactive_branch_keeps_column() -> None:
    """Where an inactive branch splits, the part with the latest question continues in its column."""
    layout = layout_tree(grow([None, 0, 1, 1, 0]))
    assert shape(layout) == [("m0", 0), ("m1", 1), ("m2", 2), ("m3", 1), ("m4", 0)]


def test_several_first_questions_share_a_start_node() -> None:
    """Each first question follows the start above the rows; all but the active question begin a branch."""
    layout = layout_tree(grow([None, None]))
    assert layout.has_start
    assert [(row.column, row.parent, row.starts_branch) for row in layout.rows] == [(1, -1, True), (0, -1, False)]
    assert not layout_tree(grow([None, 0])).has_start
    assert layout_tree([]) == TreeLayout((), has_start=False)


@given(parents(), st.data())
def test_layout_contains_every_message(grown: list[int | None], data: st.DataObject) -> None:
    """Every message has a row below its parent's row; only the active branch is in the first column."""
    entries = grow(grown, active=data.draw(st.integers(0, len(grown) - 1)))
    layout = layout_tree(entries)
    rows = {row.content.message_id: place for place, row in enumerate(layout.rows)}
    assert sorted(rows) == sorted(entry.message_id for entry in entries)
    for entry in entries:
        place = rows[entry.message_id]
        if entry.parent_id is not None:
            assert layout.rows[place].parent == rows[entry.parent_id] < place
        assert not entry.is_on_active_branch or layout.rows[place].column == 0
    for place, row in enumerate(layout.rows):
        if row.parent >= 0 and not row.starts_branch:
            between = layout.rows[row.parent + 1 : place]
            assert all(other.column > row.column for other in between), "a line goes through a node"


def test_long_conversation_is_folded() -> None:
    """The first and the last of 1,000 questions in succession are shown; one row counts the questions between."""
    layout = layout_tree(chain(1_000))
    assert [name for name, _ in shape(layout)][:3] == ["m0", "+940", "m941"]
    assert len(layout.rows) == 61
    assert layout.rows[1].content.is_on_active_branch
    assert shape(layout_tree(chain(60))) == [(f"m{number}", 0) for number in range(60)]


def test_selected_message_is_never_folded() -> None:
    """The selected message is shown with its neighbours, between folds that count the other messages."""
    names = [name for name, _ in shape(layout_tree(chain(1_000), selected="m500"))]
    assert names[:6] == ["m0", "+498", "m499", "m500", "m501", "+442"]


def test_fold_is_opened_from_both_ends() -> None:
    """Opening shows twenty messages at each end of a fold, or all messages of a short fold."""
    fold = layout_tree(chain(1_000)).rows[1].content
    assert isinstance(fold, FoldedMessages)
    opened = layout_tree(chain(1_000), open_message_ids=fold.next_to_open)
    assert shape(opened)[:22][-2:] == [("m20", 0), ("+900", 0)]
    assert len(opened.rows) == 101
    assert FoldedMessages(("a", "b", "c")).next_to_open == ("a", "b", "c")


def test_hidden_siblings_share_a_fold() -> None:
    """Hundreds of answers to one question become one row that counts them and their branches."""
    layout = layout_tree(grow([0 if number else None for number in range(500)]))
    folds = [row for row in layout.rows if isinstance(row.content, FoldedMessages)]
    assert [(len(row.content.message_ids), row.content.n_branches, row.column) for row in folds] == [(440, 440, 1)]


@given(parents(120), st.data())
def test_folding_keeps_every_message(grown: list[int | None], data: st.DataObject) -> None:
    """Each message is shown or counted exactly once; the selected and the active message are shown."""
    number = st.integers(0, len(grown) - 1)
    active, selected = data.draw(number), data.draw(number)
    entries = grow(grown, active=active)
    layout = layout_tree(entries, selected=f"m{selected}", limit=12)
    assert sorted(ids(layout)) == sorted(entry.message_id for entry in entries)
    shown = {row.content.message_id for row in layout.rows if not isinstance(row.content, FoldedMessages)}
    assert {f"m{active}", f"m{selected}"} <= shown
    assert [row.content.message_id for row in layout.rows if getattr(row.content, "is_active", False)] == [f"m{active}"]
    assert all(row.column == 0 for row in layout.rows if row.content.is_on_active_branch)
    parents = [row.parent for row in layout.rows]
    assert parents.count(-1) == 1 or layout.has_start
    for place, row in enumerate(layout.rows):
        assert not isinstance(row.content, FoldedMessages) or parents.count(place) <= 1


@pytest.mark.timed
@pytest.mark.parametrize("kind", ["chain", "bushy", "alternating"])
def test_thousand_messages_are_laid_out_within_50_ms(kind: str) -> None:
    """The layout has fewer than 200 rows."""
    chance = random.Random(1)  # noqa: S311 - a tree, not a secret
    rule = {
        "chain": lambda number: number - 1,
        "bushy": chance.randrange,
        "alternating": lambda number: max(number - 2, 0),
    }[kind]
    entries = grow([rule(number) if number else None for number in range(1_000)])
    for attempt in within(0.05):
        with attempt:
            layout = layout_tree(entries)
    assert len(layout.rows) < 200
