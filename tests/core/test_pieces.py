"""Packing of streamed text for the store."""

from datetime import UTC, datetime, timedelta

import pytest

from artifactflow_nb.core.pieces import MAX_PIECES, Piece, pack, unpack

START = datetime(2026, 1, 1, tzinfo=UTC)
TEXTS = {"answer": "One two", "reasoning": "Hm"}


def pieces() -> list[Piece]:
    parts = [("reasoning", "Hm"), ("answer", "One "), ("answer", "two"), ("call", "{}")]
    return [
        Piece(kind, "", text, START + n // 2 * timedelta(milliseconds=7), 3 + n) for n, (kind, text) in enumerate(parts)
    ]


def test_packed_pieces_are_restored() -> None:
    assert unpack(pack(pieces(), START, TEXTS), START, TEXTS) == pieces()
    assert (pack([], START, TEXTS), unpack(None, START, TEXTS)) == (None, [])


def test_text_is_stored_only_where_it_differs_from_the_reply() -> None:
    packed = pack(pieces(), START, TEXTS)
    assert packed is not None
    assert packed["said"] == {"call": "{}"}
    elsewhere = {**TEXTS, "answer": "Other"}
    assert unpack(pack(pieces(), START, elsewhere), START, elsewhere) == pieces()


def test_calls_of_the_text_protocol_are_stored_only_in_the_reply() -> None:
    """The pieces of a reply are divided where its calls begin."""
    parts = [("answer", "One "), ("answer", "two "), ("call", "<tool_call>"), ("call", "</tool_call>")]
    noted = [Piece(kind, "", text, START, n) for n, (kind, text) in enumerate(parts)]
    texts = {"answer": "One two <tool_call></tool_call>", "reasoning": ""}
    packed = pack(noted, START, texts)
    assert packed is not None
    assert "said" not in packed
    assert unpack(packed, START, texts) == noted
    with pytest.raises(ValueError, match="not as long as"):
        unpack(packed, START, {**texts, "answer": "One two <tool_call>"})


def test_many_equal_pieces_take_little_space() -> None:
    noted = [Piece("answer", "", "x", START + n * timedelta(milliseconds=16), n) for n in range(1_000)]
    packed = pack(noted, START, {"answer": "x" * 1_000})
    assert packed is not None
    assert (packed["chars"], packed["ms"]) == ("1*1000", "0 16*999")


@pytest.mark.parametrize(
    "damage",
    [
        {"chars": "1*9999999"},
        {"chars": "2 4 3"},
        {"ms": "0 x"},
        {"seq": None},
        {"kinds": [["answer", "", MAX_PIECES + 1]]},
        {"kinds": [["answer", "", 4]]},
        {"said": {"call": "{}{}"}},
    ],
    ids=str,
)
def test_damaged_lists_are_refused(damage: dict[str, object]) -> None:
    packed = pack(pieces(), START, TEXTS)
    assert packed is not None
    with pytest.raises(ValueError, match=r"run-length encoded|more than|not as long as|zip\(\)"):
        unpack({**packed, **damage}, START, TEXTS)
