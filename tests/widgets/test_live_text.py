"""The displayed part of a streamed reply."""

import pytest

from artifactflow_nb.widgets.run.streaming_text import StreamingText

CALL = "<tool_call><name>create_artifact</name><params><content><![CDATA[# Secret]]></content></params></tool_call>"


def stream(text: str, size: int) -> StreamingText:
    live = StreamingText()
    for i in range(0, len(text), size):
        live.append(text[i : i + size])
        assert "<tool" not in live.prose.text
        assert "Secret" not in live.prose.text
    return live


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_tool_call_is_hidden_for_every_chunking(size: int) -> None:
    """No part of a call is displayed; its length and its tool are known."""
    live = stream(f"I will write it.\n\n{CALL}", size)
    assert live.prose.text.strip() == "I will write it."
    assert live.call_chars == len(CALL)
    assert live.call_name == "create_artifact"


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_fence_around_call_is_hidden(size: int) -> None:
    """A code fence around a call is hidden, too."""
    live = stream(f"Now.\n\n```xml\n{CALL}\n```", size)
    assert live.prose.text.strip() == "Now."


@pytest.mark.parametrize("text", ["if a < b and t <tools", "a <tool", "```python\nx\n```\nend"])
def test_text_similar_to_call_is_displayed(text: str) -> None:
    """Text that starts like the tag is buffered until it differs; the final text is complete."""
    live = StreamingText()
    for char in text:
        live.append(char)
    live.settle(text)
    assert live.prose.text == text
    assert live.call_chars == 0


def test_native_call_is_counted_and_named() -> None:
    """A native call is displayed with its tool and length; the prose is unchanged."""
    text = StreamingText()
    text.append("I write it.")
    for piece in ("", '{"id": "a', '"}'):
        text.append_call("create_artifact", piece)
    assert (text.prose.text, text.call_name, text.call_chars) == ("I write it.", "create_artifact", 12)
    text.settle("I write it.")
    assert (text.call_name, text.call_chars) == ("", 0)


def test_final_text_replaces_only_different_prose() -> None:
    """If the final text equals the streamed one, the rendered blocks are reused."""
    live = stream("Same text.", 3)
    before = live.prose
    live.settle("Same text.")
    assert live.prose is before


def test_last_of_several_calls_is_named() -> None:
    """Of several calls in a reply, the current one is named."""
    second = CALL.replace("create_artifact", "call_subagent")
    assert stream(CALL + second, 5).call_name == "call_subagent"
