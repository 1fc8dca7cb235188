"""Streamed replies of the text protocol: prose and calls, and a text parameter of an unfinished call."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artifactflow_nb.core.toolcalls.streamed import PartialParameter, ReplyPart, ReplySplitter
from artifactflow_nb.core.toolcalls.xml import format_call

CALL = "<tool_call><name>create_artifact</name><params><content><![CDATA[# Secret]]></content></params></tool_call>"


def split(text: str, size: int) -> list[ReplyPart]:
    """Return the parts of a text that arrives in pieces of this size."""
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


@pytest.mark.parametrize("size", [1, 3, 8, 1000])
@pytest.mark.parametrize(
    "call",
    [
        '<|python_tag|>{"name": "t"}',
        '[TOOL_CALLS]t[ARGS]{"p": 1}',
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>t",
        '<｜DSML｜invoke name="t">',
        '<minimax:tool_call>\n<invoke name="t">',
        "<function=t>",
        '```json\n{"name": "t"}\n```',
        "```tool_code\nt()\n```",
    ],
)
def test_prose_has_no_mark_of_another_family(call: str, size: int) -> None:
    parts = split(f"Now.\n{call}", size)
    assert joined(parts, "answer") == "Now.\n"
    assert joined(parts, "call") == call


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    "call",
    [
        '{"name": "t", "arguments": {}}',
        '[{"name": "t"}]',
        "assistantcommentary to=functions.t json{}",
        'functools[{"name": 1}]',
    ],
)
def test_call_without_a_mark_is_no_prose_at_the_start(call: str, size: int) -> None:
    assert joined(split(call, size), "answer") == ""


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    "text", ['{"title": "t", "name": "x"}', "[a link](x) and more text behind it", "can it be? ", "a [T] b"]
)
def test_beginning_similar_to_a_call_is_prose(text: str, size: int) -> None:
    assert joined(split(text, size), "answer") == text


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
    assert kinds == sorted(kinds)  # no prose after a call: the text after a call is known at the end only


def test_cost_of_a_piece_does_not_grow_with_the_reply() -> None:
    """The cost of a piece stays the same even while the whole reply is held back, as white space is."""

    def seconds(text: str) -> float:
        began = time.process_time()
        split(text, 4)
        return time.process_time() - began

    for unit in (" \n", "word ", "`", f"{CALL[:20]}x"):
        short, long = (min(seconds(unit * n) for _ in range(3)) for n in (2_000, 20_000))
        assert long < 30 * max(short, 0.002)


def read(call: str, size: int) -> list[str]:
    """Return the texts of the parameter `content` in calls that arrive in pieces of a size."""
    reader, texts = PartialParameter("content"), [""]
    for start in range(0, len(call), size):
        text, is_new = reader.read(call[start : start + size])
        if is_new:
            texts.append("")
        texts[-1] += text
    return texts[1:]


@given(content=st.text(), ascii_only=st.booleans(), size=st.integers(1, 40))
def test_json_text_is_read_in_any_pieces(content: str, ascii_only: bool, size: int) -> None:
    call = json.dumps({"id": 'a "content": "b', "content": content, "title": "<content>x"}, ensure_ascii=ascii_only)
    assert "".join(read(call, size)[:1]) == content


@given(content=st.text(), size=st.integers(1, 40))
def test_cdata_text_is_read_in_any_pieces(content: str, size: int) -> None:
    """A `]]>` in the text divides it into two sections; the text before the mark is displayed."""
    call = format_call("create_artifact", {"id": "a", "content": content, "title": "T"})
    assert "".join(read(call, size)[:1]) == content.partition("]]>")[0] + "]]" * ("]]>" in content)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_plain_xml_text_is_unescaped(size: int) -> None:
    assert read("<params><content> a &lt; b &amp; c</content></params>", size) == ["a < b & c"]


@pytest.mark.parametrize("size", [1, 7, 100])
def test_second_call_starts_a_new_text(size: int) -> None:
    """If a piece ends one call and starts another, the text of the second call is returned."""
    assert read('{"content": "one"}{"content":"two', size)[-1:] == ["two"]
