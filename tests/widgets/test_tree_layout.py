"""Where the nodes of a tree stand, and what a long one folds away."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spent import within
from widgets.grown import chain, grow, shape

from artifactflow_nb.widgets.tree_folding import Fold
from artifactflow_nb.widgets.tree_layout import Line, TreeLayout, lay_out


@st.composite
def parents(draw: st.DrawFn, most: int = 40) -> list[int | None]:
    n = draw(st.integers(1, most))
    return [draw(st.none() | st.integers(0, number - 1)) if number else None for number in range(n)]


def ids(layout: TreeLayout) -> list[str]:
    """The messages of all rows, those in folds too."""
    return [one for row in layout.rows for one in getattr(row.what, "message_ids", None) or (row.what.message_id,)]


def test_the_active_branch_has_the_first_column() -> None:
    """What was asked beside it stands where it left, in the column beside."""
    layout = lay_out(grow([None, 0, 1, 0, 3]))
    assert shape(layout) == [("m0", 0), ("m1", 1), ("m2", 1), ("m3", 0), ("m4", 0)]
    assert [(row.turn, row.sibling, row.n_siblings) for row in layout.rows] == [
        (1, 1, 1), (2, 1, 2), (3, 1, 1), (2, 2, 2), (3, 1, 1),
    ]  # fmt: skip
    assert layout.lines == (
        Line(0, 1, 0, 1, False), Line(1, 2, 1, 1, False), Line(0, 3, 0, 0, True), Line(3, 4, 0, 0, True),
    )  # fmt: skip


def test_another_active_branch_takes_the_first_column() -> None:
    """Activating the older branch gives it the column, and the younger one stands beside it."""
    assert shape(lay_out(grow([None, 0, 1, 0, 3], active=2))) == [
        ("m0", 0), ("m3", 1), ("m4", 1), ("m1", 0), ("m2", 0),
    ]  # fmt: skip


def test_away_from_the_active_branch_the_newest_keeps_the_column() -> None:
    """Of two branches of a branch the one that was asked last goes straight on."""
    layout = lay_out(grow([None, 0, 1, 1, 0]))
    assert shape(layout) == [("m0", 0), ("m1", 1), ("m2", 2), ("m3", 1), ("m4", 0)]


def test_several_first_questions_begin_at_one_start() -> None:
    """A first question that was asked again is joined with the other at a start above both."""
    layout = lay_out(grow([None, None]))
    assert layout.has_start
    assert layout.lines == (Line(-1, 0, 0, 1, False), Line(-1, 1, 0, 0, True))
    assert not lay_out(grow([None, 0])).has_start
    assert lay_out([]) == TreeLayout((), (), False)


@given(parents(), st.data())
def test_a_tree_is_drawn_whole(grown: list[int | None], data: st.DataObject) -> None:
    """Every message has a row below its parent's, joined to it; the active branch is in the first column, alone."""
    entries = grow(grown, active=data.draw(st.integers(0, len(grown) - 1)))
    layout = lay_out(entries)
    rows = {row.what.message_id: place for place, row in enumerate(layout.rows)}
    assert sorted(rows) == sorted(entry.message_id for entry in entries)
    upper = {line.lower: line.upper for line in layout.lines}
    for entry in entries:
        place = rows[entry.message_id]
        if entry.parent_id is not None:
            assert upper[place] == rows[entry.parent_id] < place
        assert not entry.is_on_active_branch or layout.rows[place].lane == 0
    lines = [line for line in layout.lines if line.from_lane == line.to_lane]
    for line in lines:
        between = layout.rows[line.upper + 1 : line.lower]
        assert all(row.lane > line.from_lane for row in between), "a line goes through a node"


def test_a_long_conversation_is_folded() -> None:
    """Of 1,000 questions in a row the first and the last are shown, and one row stands for those between them."""
    layout = lay_out(chain(1_000))
    assert [name for name, _ in shape(layout)][:3] == ["m0", "+940", "m941"]
    assert len(layout.rows) == 61
    assert layout.rows[1].what.is_on_active_branch
    assert shape(lay_out(chain(60))) == [(f"m{number}", 0) for number in range(60)]


def test_a_selected_message_is_never_folded_away() -> None:
    """It is shown with those around it, and the folds before and behind it say how many are left."""
    names = [name for name, _ in shape(lay_out(chain(1_000), selected="m500"))]
    assert names[:6] == ["m0", "+498", "m499", "m500", "m501", "+442"]


def test_a_fold_is_opened_from_both_ends() -> None:
    """Opening shows twenty messages at each end of a fold; a short one is opened at once."""
    fold = lay_out(chain(1_000)).rows[1].what
    assert isinstance(fold, Fold)
    opened = lay_out(chain(1_000), opened=fold.first_to_open)
    assert shape(opened)[:22][-2:] == [("m20", 0), ("+900", 0)]
    assert len(opened.rows) == 101
    assert Fold(("a", "b", "c")).first_to_open == ("a", "b", "c")


def test_what_hangs_beside_is_folded_together() -> None:
    """Hundreds of answers to one question become one row that counts them and the branches that end there."""
    layout = lay_out(grow([0 if number else None for number in range(500)]))
    folds = [row for row in layout.rows if isinstance(row.what, Fold)]
    assert [(len(row.what.message_ids), row.what.n_branches, row.lane) for row in folds] == [(440, 440, 1)]


@given(parents(120), st.data())
def test_folding_loses_nothing(grown: list[int | None], data: st.DataObject) -> None:
    """Shown or counted, each message is there once, and the selected and the active one are shown."""
    number = st.integers(0, len(grown) - 1)
    active, selected = data.draw(number), data.draw(number)
    entries = grow(grown, active=active)
    layout = lay_out(entries, selected=f"m{selected}", limit=12)
    assert sorted(ids(layout)) == sorted(entry.message_id for entry in entries)
    shown = {row.what.message_id for row in layout.rows if not isinstance(row.what, Fold)}
    assert {f"m{active}", f"m{selected}"} <= shown
    assert [row.what.message_id for row in layout.rows if getattr(row.what, "is_active", False)] == [f"m{active}"]
    assert all(row.lane == 0 for row in layout.rows if row.what.is_on_active_branch)
    assert len(layout.lines) == len(layout.rows) - (0 if layout.has_start else 1)
    children = [line.upper for line in layout.lines]
    for place, row in enumerate(layout.rows):
        assert not isinstance(row.what, Fold) or children.count(place) <= 1


@pytest.mark.parametrize("kind", ["chain", "bushy", "alternating"])
def test_a_thousand_messages_are_arranged_at_once(kind: str) -> None:
    """It takes a few milliseconds, and leaves a number of rows that a person can look through."""
    chance = random.Random(1)  # noqa: S311 - a tree, not a secret
    rule = {
        "chain": lambda number: number - 1,
        "bushy": chance.randrange,
        "alternating": lambda number: max(number - 2, 0),
    }[kind]
    entries = grow([rule(number) if number else None for number in range(1_000)])
    for attempt in within(0.05):
        with attempt:
            layout = lay_out(entries)
    assert len(layout.rows) < 200
