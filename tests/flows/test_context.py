"""Compression of prompts: which messages are cut or left out if a prompt is too long."""

import re
from dataclasses import replace
from itertools import pairwise, takewhile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cpu_time import within

from artifactflow_nb.agents.protocols import PROTOCOLS
from artifactflow_nb.core.messages import Message, ToolCall, ToolResult
from artifactflow_nb.flows.compression import (
    COMPRESSION_LEVELS,
    OMITTED_NOTE,
    TurnMessages,
    compress_messages,
    message_chars,
    should_compress,
)
from artifactflow_nb.flows.limits import RoundNotes
from artifactflow_nb.flows.turn import ContextManager
from artifactflow_nb.store.calls import StoredCall, StoredTurn


def conversation(n_history: int, n_rounds: int, chars: int, protocol: str = "xml", n_calls: int = 1) -> list[Message]:
    history = [Message("user" if i % 2 == 0 else "assistant", f"h{i} " + "x" * chars) for i in range(2 * n_history)]
    rounds = [
        message
        for i in range(n_rounds)
        for message in PROTOCOLS[protocol].write(
            StoredTurn("", i, f"call {i}"),
            [
                (
                    ToolCall("tool", {"text": "z" * chars}),
                    ToolResult(success=True, data=f"r{i}.{call} " + "y" * chars),
                )
                for call in range(n_calls)
            ],
        )
    ]
    return [Message("system", "You are brief."), *history, Message("user", "The question."), *rounds]


def test_short_prompt_is_unchanged() -> None:
    """Below the limit nothing is compressed."""
    messages = conversation(2, 2, 10)
    assert not should_compress(messages, "minimal")
    assert compress_messages(messages, "minimal") == messages


@pytest.mark.timed
def test_many_short_messages_are_compressed_fast() -> None:
    """If only the marker exceeds the limit, compression time stays linear in the number of messages."""
    rounds = [Message("tool" if n % 2 else "assistant", "x" * 40) for n in range(5_000)]
    messages = [Message("system", "s" * 1_000), Message("user", "Why?"), *rounds]
    for attempt in within(0.5):
        with attempt:
            fitted = compress_messages(messages, "full")
    assert len(fitted) > 3_000
    assert not should_compress(fitted, "full")


def test_oldest_messages_are_left_out_first() -> None:
    """The newest messages stay, and a marker tells the model that other messages are missing."""
    messages = conversation(40, 0, 1_500)
    compressed = compress_messages(messages, "minimal")
    assert message_chars(compressed) <= COMPRESSION_LEVELS["minimal"]
    assert compressed[0] == messages[0]
    assert compressed[-4:] == messages[-4:]
    assert sum(OMITTED_NOTE in message.content for message in compressed) == 1


def test_oversized_message_is_cut_in_the_middle() -> None:
    """A question longer than the whole limit stays in the prompt, cut and marked."""
    question = Message("user", "begin " + "z" * 200_000 + " end")
    compressed = compress_messages([Message("system", "You are brief."), question], "minimal")
    assert message_chars(compressed) <= COMPRESSION_LEVELS["minimal"]
    assert compressed[-1].content.startswith("begin ")
    assert compressed[-1].content.endswith(" end")
    assert "characters left out" in compressed[-1].content


def test_oversized_system_message_is_cut() -> None:
    """If the system message alone is too long, only its beginning and end stay."""
    messages = [Message("system", "You are " + "s" * 50_000 + " brief."), *conversation(3, 3, 5_000)[1:]]
    compressed = compress_messages(messages, "minimal")
    assert message_chars(compressed) <= COMPRESSION_LEVELS["minimal"]
    assert compressed[0].content.startswith("You are ")
    assert compressed[0].content.endswith(" brief.")
    assert any("The question." in message.content for message in compressed)


@given(
    n_history=st.integers(0, 12),
    n_rounds=st.integers(0, 12),
    chars=st.sampled_from([10, 900, 4_000, 30_000]),
    level=st.sampled_from(sorted(COMPRESSION_LEVELS)),
    preserve=st.integers(0, 8),
    protocol=st.sampled_from(sorted(PROTOCOLS)),
    n_calls=st.integers(1, 3),
)
def test_compression_keeps_required_messages(
    n_history: int, n_rounds: int, chars: int, level: str, preserve: int, protocol: str, n_calls: int
) -> None:
    """The prompt fits, has the system message and the question, pairs calls with results, and keeps the roles apart."""
    messages = conversation(n_history, n_rounds, chars, protocol, n_calls)
    compressed = compress_messages(messages, level, preserve)
    assert message_chars(compressed) <= COMPRESSION_LEVELS[level]
    assert compressed[0] == messages[0]
    assert any("The question." in message.content for message in compressed)
    for before, message in pairwise(compressed):
        assert before.role != message.role or (message.role == "tool" and protocol == "native")
        assert message.role != "tool" or before.role != "user"
    for index, message in enumerate(compressed):
        results = list(takewhile(lambda answer: answer.role == "tool", compressed[index + 1 :]))
        if message.calls:
            assert len(results) == len(message.calls)
        elif results and message.role == "assistant":
            assert message.content.startswith("call")


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_old_tool_results_are_cut_first(protocol: str) -> None:
    """If cutting old results is enough, all other messages and the newest results stay whole."""
    messages = conversation(3, 6, 3_000, protocol)
    excess = message_chars(messages) - COMPRESSION_LEVELS["minimal"]
    messages = [m if m.role == "tool" else replace(m, calls=(), content=m.content[:400]) for m in messages]
    assert excess > 0
    compressed = compress_messages(messages, "minimal")
    assert message_chars(compressed) <= COMPRESSION_LEVELS["minimal"]
    assert [m for m in compressed if m.role != "tool"] == [m for m in messages if m.role != "tool"]
    shortened = [before != after for before, after in zip(messages, compressed, strict=True) if before.role == "tool"]
    assert shortened == sorted(shortened, reverse=True)
    assert any(shortened)
    assert not all(shortened)


def looked(n: int, chars: int) -> StoredTurn:
    result = ToolResult(success=True, data=f"r{n} " + "y" * chars)
    call = StoredCall(f"tool-{n}", ToolCall("look", {"at": "z" * (chars // 3)}), "finished", result)
    return StoredTurn(f"call-{n}", n, f"Round {n}. " + "w" * (chars // 2), (call,))


@given(
    n_history=st.integers(0, 4),
    sizes=st.lists(st.sampled_from([1, 300, 1_990, 2_010, 2_100, 9_000, 30_000]), max_size=30),
    n_times=st.sampled_from([1, 4, 20]),
    level=st.sampled_from(sorted(COMPRESSION_LEVELS)),
    protocol=st.sampled_from(sorted(PROTOCOLS)),
    note=st.sampled_from(["", "One round is left."]),
)
def test_reading_only_the_newest_turns_gives_the_same_prompt(
    n_history: int, sizes: list[int], n_times: int, level: str, protocol: Any, note: str
) -> None:
    """The prompt of a long run from the newest turns equals the prompt from all turns."""
    turns = [looked(n, chars) for n, chars in enumerate(sizes * n_times, 1)]
    history = conversation(n_history, 0, 1_500)[1:-1]
    mode: Any = {"protocol": PROTOCOLS[protocol], "note": note}
    whole = TurnMessages(PROTOCOLS[protocol], turns)
    messages = [Message("system", "s" * 900), *history, Message("user", "q"), *whole.messages]
    if note:
        messages[-1] = replace(messages[-1], content=f"{messages[-1].content}\n\n{note}")
    expected = compress_messages(messages, level) if should_compress(messages, level) else messages
    prompt = ContextManager.build_agent_messages("s" * 900, history, "q", turns, level=level, **mode)
    assert list(prompt) == expected


def test_cut_result_has_the_number_of_missing_characters() -> None:
    """A message is cut once; its marker counts the characters of the original result."""
    turns = [looked(n, 9_000) for n in range(1, 60)]
    prompt = ContextManager.build_agent_messages("s", [], "q", turns, level="normal")
    cut = [
        message.content
        for message in prompt
        if message.role == "tool" and "characters left out ...]" in message.content
    ]
    assert len(cut) > 5
    assert all(re.search(r"\n\[\.\.\. 7\d\d\d characters left out \.\.\.\]\n", content) for content in cut)


def test_system_message_stays_whole_in_a_long_run() -> None:
    """The marker for missing messages takes the place of old turns, not of the system message."""
    system = "You are brief. " * 200
    turns = [looked(n, 10 + n % 7) for n in range(1, 900)]
    for n in range(600, 900, 7):
        prompt = ContextManager.build_agent_messages(system, [], "q", turns[:n], level="normal")
        assert prompt[0].content == system
        assert message_chars(prompt) <= COMPRESSION_LEVELS["normal"]


@pytest.mark.parametrize(("success", "start"), [(True, "r"), (False, "it failed")])
def test_long_result_is_cut_with_a_marker(success: bool, start: str) -> None:
    """The model gets the beginning and end of the result, the number of missing characters, and how to read more."""
    text = start + "m" * 5_000 + "the end"
    result = ToolResult(success, text if success else "", None if success else text)
    call = StoredCall("tool-1", ToolCall("read", {}), "finished", result, shown_chars=400)
    turn = StoredTurn("call-1", 1, "I read.", (call,))
    displayed = ContextManager.build_agent_messages("s", [], "q", [turn])[-1].content
    assert start in displayed
    assert "the end" in displayed
    assert f"[... {len(text) - 400} characters left out of this result; ask for less" in displayed
    assert len(displayed) < 700


def test_prompt_warns_before_the_last_round() -> None:
    """The prompt has no note at first, a warning before the last round, and another note when all rounds are used."""
    notes = RoundNotes(3)
    assert [bool(notes.note(used)) for used in range(4)] == [False, False, True, True]
    assert "One round" in notes.note(2)
    assert "answer now" in notes.note(3)
