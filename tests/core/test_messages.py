import dataclasses

import pytest

from artifactflow_nb.core.messages import Message, ToolCall, ToolResult, Usage


def test_messages_are_values():
    """Messages with the same text are equal, and cannot be changed."""
    assert Message("user", "hello") == Message("user", "hello")
    with pytest.raises(dataclasses.FrozenInstanceError):
        Message("user", "hello").content = "bye"


def test_total_tokens_are_input_and_output():
    """Cached tokens are part of the input, reasoning tokens of the output; neither counts twice."""
    assert Usage(10, 5, reasoning_tokens=3, cache_read_tokens=8).total_tokens == 15


def test_call_has_no_error_by_default():
    """A call without an error was parsed; a result without data is valid."""
    assert ToolCall("t", {}).error is None
    assert ToolResult(success=True).metadata == {}
