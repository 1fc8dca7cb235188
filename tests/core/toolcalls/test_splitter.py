"""Streamed replies of the text protocol are split into prose and calls."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artifactflow_nb.core.toolcalls.splitter import ReplyPart, ReplySplitter

CALL = "<tool_call><name>create_artifact</name><params><content><![CDATA[# Secret]]></content></params></tool_call>"


def split(text: str, size: int) -> list[ReplyPart]:
    """The parts of a text that arrives in pieces of this size."""
    splitter = ReplySplitter()
    parts = [part for at in range(0, len(text), size) for part in splitter.feed(text[at : at + size])]
    return [*parts, *splitter.finish()]


def joined(parts: list[ReplyPart], kind: str) -> str:
    return "".join(part.text for part in parts if part.kind == kind)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 11, 1000])
def test_prose_contains_no_part_of_a_call_for_any_chunking(size: int) -> None:
    parts = split(f"I will write it.\n\n{CALL}", size)
    assert joined(parts, "answer") == "I will write it.\n\n"
    assert joined(parts, "call") == CALL
    assert parts[-1].tool == "create_artifact"


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_prose_has_no_fence_around_a_call(size: int) -> None:
    parts = split(f"Now.\n\n```xml\n{CALL}\n```", size)
    assert joined(parts, "answer") == "Now.\n\n"


@pytest.mark.parametrize("text", ["a < b, t <tools", "a <tool", "```python\nx\n```\nend", "x\n```xml\n", "end \n"])
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_text_similar_to_a_call_is_prose(text: str, size: int) -> None:
    assert joined(split(text, size), "answer") == text


@pytest.mark.parametrize("size", [1, 5, 1000])
def test_last_of_several_calls_is_named(size: int) -> None:
    second = CALL.replace("create_artifact", "call_subagent")
    assert split(CALL + second, size)[-1].tool == "call_subagent"


@given(
    st.lists(st.sampled_from(["<tool_call", "<tool", ">", "`", "```", "xml", "\n", "  ", "text", CALL]), max_size=12),
    st.integers(1, 30),
)
def test_parts_add_up_to_the_reply_and_prose_has_no_tag(words: list[str], size: int) -> None:
    text = "".join(words)
    parts = split(text, size)
    assert "".join(part.text for part in parts) == text
    assert all(part.text for part in parts)
    assert "<tool_call" not in joined(parts, "answer")
    kinds = [part.kind for part in parts]
    assert kinds == sorted(kinds)  # no prose after a call: what follows is known at the end only


def test_cost_of_a_piece_does_not_grow_with_the_reply() -> None:
    """This holds even if the whole reply could be withheld, such as white space."""

    def seconds(text: str) -> float:
        began = time.process_time()
        split(text, 4)
        return time.process_time() - began

    for unit in (" \n", "word ", "`", f"{CALL[:20]}x"):
        short, long = (min(seconds(unit * n) for _ in range(3)) for n in (2_000, 20_000))
        assert long < 30 * max(short, 0.002)
