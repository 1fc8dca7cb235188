"""What a model is shown, and what is left out when it grows too long."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from artifactflow_nb.flows.context import (
    COMPRESSION_LEVELS,
    LEFT_OUT,
    RoundNotes,
    compress_messages,
    should_compress,
)
from artifactflow_nb.messages import Message, ToolResult
from artifactflow_nb.xml_calls import format_results, is_results


def conversation(n_history: int, n_rounds: int, chars: int) -> list[Message]:
    history = [Message("user" if i % 2 == 0 else "assistant", f"h{i} " + "x" * chars) for i in range(2 * n_history)]
    rounds = [
        message
        for i in range(n_rounds)
        for message in (
            Message("assistant", f"call {i}"),
            Message("user", format_results([("tool", ToolResult(success=True, data=f"r{i} " + "y" * chars))])),
        )
    ]
    return [Message("system", "You are brief."), *history, Message("user", "The question."), *rounds]


def size(messages: list[Message]) -> int:
    return sum(len(message.content) for message in messages)


def test_what_fits_is_not_touched() -> None:
    """Below the level nothing is compressed."""
    messages = conversation(2, 2, 10)
    assert not should_compress(messages, "minimal")
    assert compress_messages(messages, "minimal") == messages


def test_old_messages_go_first_and_a_marker_says_so() -> None:
    """The newest stay, the oldest are left out, and the model is told that something is missing."""
    messages = conversation(40, 0, 1_500)
    kept = compress_messages(messages, "minimal")
    assert size(kept) <= COMPRESSION_LEVELS["minimal"]
    assert kept[0] == messages[0]
    assert kept[-4:] == messages[-4:]
    assert sum(LEFT_OUT in message.content for message in kept) == 1


def test_one_oversized_message_is_cut_and_not_lost() -> None:
    """A question longer than the whole budget is cut in the middle, marked, and still there."""
    question = Message("user", "begin " + "z" * 200_000 + " end")
    kept = compress_messages([Message("system", "You are brief."), question], "minimal")
    assert size(kept) <= COMPRESSION_LEVELS["minimal"]
    assert kept[-1].content.startswith("begin ")
    assert kept[-1].content.endswith(" end")
    assert "characters left out" in kept[-1].content


@given(
    n_history=st.integers(0, 12),
    n_rounds=st.integers(0, 12),
    chars=st.sampled_from([10, 900, 4_000, 30_000]),
    level=st.sampled_from(sorted(COMPRESSION_LEVELS)),
    preserve=st.integers(0, 8),
)
def test_compression_keeps_what_it_must(n_history: int, n_rounds: int, chars: int, level: str, preserve: int) -> None:
    """It fits, keeps the system message and the question, never orphans a result, and keeps the roles apart."""
    messages = conversation(n_history, n_rounds, chars)
    kept = compress_messages(messages, level, preserve)
    assert size(kept) <= COMPRESSION_LEVELS[level]
    assert kept[0] == messages[0]
    assert any("The question." in message.content for message in kept)
    for before, message in pairwise(kept):
        assert before.role != message.role
        if is_results(message.content.removeprefix(LEFT_OUT).lstrip()):
            assert before.role == "assistant"
            assert before.content.startswith("call")


def test_an_agent_is_told_when_its_rounds_run_out() -> None:
    """Nothing while there is room, a warning before the last round, and the end when all are used."""
    notes = RoundNotes(3)
    assert [bool(notes.note(used)) for used in range(4)] == [False, False, True, True]
    assert "One round" in notes.note(2)
    assert "answer now" in notes.note(3)
