import dataclasses

import pytest

from artifactflow_nb.core.messages import Message, ToolCall, ToolResult, Usage


def test_messages_are_values():
    """Two messages of the same words are the same, and none can be changed."""
    assert Message("user", "hello") == Message("user", "hello")
    with pytest.raises(dataclasses.FrozenInstanceError):
        Message("user", "hello").content = "bye"


def test_total_tokens_are_input_and_output():
    """Cached and reasoning tokens are parts of the two and are not counted again."""
    assert Usage(10, 5, reasoning_tokens=3, cache_read_tokens=8).total_tokens == 15


def test_a_call_is_sound_unless_it_says_what_is_wrong():
    """A call without an error could be read; a result without data is still a result."""
    assert ToolCall("t", {}).error is None
    assert ToolResult(success=True).metadata == {}
