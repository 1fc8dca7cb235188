"""Long texts are stored once and compressed, and every form is read back exactly."""

import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artifactflow_nb.errors import StoreError
from artifactflow_nb.store.encoding import (
    LONG_BYTES,
    add_functions,
    pack_text,
    put_texts,
    read_text,
    sha256,
    share_text,
    unpack_text,
)
from artifactflow_nb.store.schema import create_schema

RESULT = "".join(f"Line {n}: the ferry costs {n * n} crowns.\n" for n in range(400))


@pytest.fixture
def db() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    add_functions(connection)
    create_schema(connection)
    yield connection
    connection.close()


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=2_000), st.integers(1, 3))
def test_packed_text_is_read_back(text: str, n: int) -> None:
    packed = pack_text(text * n)
    assert unpack_text(packed) == text * n
    assert isinstance(packed, bytes) == (len((text * n).encode()) >= LONG_BYTES)


def stored(db: sqlite3.Connection, text: str, *results: str) -> int:
    """Store a text that may contain results; check that the store returns the text; return the size in bytes."""
    others = [(sha256(result), result) for result in results]
    put_texts(db, others)
    put_texts(db, [(sha256(text), text)], others)
    ((content, shown),) = db.execute("SELECT content, stored_text(content) FROM texts WHERE sha256 = ?", [sha256(text)])
    assert read_text(db, content) == shown == text
    return len(content)


@pytest.mark.parametrize(
    "text",
    [
        f"<tool_result><data><![CDATA[{RESULT}]]></data></tool_result>",
        f"{RESULT}\n\nOne round of tool calls is left.",
        f"{RESULT[:9_000]}\n[... 2,000 characters left out ...]\n{RESULT[11_000:]}",
        f"Result 1: {RESULT} Result 2: {RESULT[::-1]}",
    ],
    ids=["wrapped", "note", "cut", "two"],
)
def test_text_with_a_result_takes_little_besides_the_result(db: sqlite3.Connection, text: str) -> None:
    assert stored(db, text, RESULT, RESULT[::-1]) < len(pack_text(text)) / 2


@given(st.data())
def test_text_of_any_slices_is_read_back(data: st.DataObject) -> None:
    """The slices may overlap, change their order, or be edited."""
    results = (RESULT, RESULT[5_000:] + RESULT[:700], RESULT[:LONG_BYTES] * 3)
    pieces = st.one_of(
        st.text(max_size=20),
        st.tuples(st.sampled_from(results), st.integers(0, 9_000), st.integers(0, 9_000)).map(
            lambda drawn: drawn[0][drawn[1] : drawn[1] + drawn[2]]
        ),
    )
    text = "".join(data.draw(st.lists(pieces, max_size=6)))
    connection = sqlite3.connect(":memory:", isolation_level=None)
    add_functions(connection)
    create_schema(connection)
    stored(connection, text, *results)
    connection.close()


def test_missing_text_and_unknown_form_are_errors_of_the_store(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA foreign_keys = ON")
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        share_text(db, "run-1", RESULT)
    with pytest.raises(StoreError, match="is missing in this store"):
        read_text(db, b"R" + bytes(32))
    with pytest.raises(StoreError, match="unknown form"):
        read_text(db, b"?")
