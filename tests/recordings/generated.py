"""Runs that nobody ran: any values that a recorded run can have, and a plain one to change."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from artifactflow_nb.approvals import SCOPES, Decision
from artifactflow_nb.messages import Message, ToolCall, ToolResult, Usage
from artifactflow_nb.models.base import ModelReply
from artifactflow_nb.recordings.pieces import Piece
from artifactflow_nb.recordings.values import (
    Failure,
    HandWritten,
    Prompt,
    RecordedAsk,
    RecordedCall,
    RecordedRun,
    RecordedTurn,
)

START = datetime(2026, 1, 1, 9, 30, 0, 123000, tzinfo=UTC)
LONG = "What was found is told here at some length. " * 10
ODD = (
    "\u2028",
    "\u2029\x85",
    "\r\n",
    "]]>",
    "<![CDATA[x]]>",
    '{"$": "0123456789abcdef"}',
    "\x00",
    "\ufeff",
    "😀",
    "\\u2028",
)

characters = st.characters(exclude_categories=["Cs"])
texts = (
    st.text(characters, max_size=30)
    | st.sampled_from(ODD)
    | st.builds(lambda text: text + LONG, st.text(characters, max_size=5))
)
short = st.text(characters, max_size=10)
floats = st.floats(allow_nan=False, allow_infinity=False)
names = short | st.sampled_from(["$", "$$", "$ref", "text", "is"])
leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | floats | texts
jsons = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=8
)
objects = st.dictionaries(names, jsons, max_size=3)
times = st.builds(lambda ms: START + timedelta(milliseconds=ms), st.integers(-1000, 10**9))
fine_times = st.builds(lambda us: START + timedelta(microseconds=us), st.integers(-1000, 10**14))
some_ms = st.floats(0, 1e9) | st.integers(0, 10**9).map(float)

by_hand = st.builds(HandWritten, short, short, short, times)
calls = st.builds(ToolCall, short, objects, st.none() | texts)
messages = st.builds(
    Message, st.sampled_from(["system", "user", "assistant", "tool"]), texts, st.lists(calls, max_size=2).map(tuple)
)
usages = st.builds(
    Usage,
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(0, 9),
    st.booleans(),
)
replies = st.builds(
    ModelReply,
    content=texts,
    usage=usages,
    finish_reason=short,
    model=short,
    calls=st.lists(calls, max_size=2).map(tuple),
    reasoning=texts,
    ttft_ms=st.none() | some_ms,
    attempts=st.integers(1, 5),
)
prompts = st.builds(
    Prompt,
    st.lists(messages, max_size=4).map(tuple),
    short,
    st.none() | floats,
    st.sampled_from(["xml", "native"]),
    st.sampled_from(["auto", "none"]),
    st.lists(objects, max_size=2).map(tuple),
)


@st.composite
def decisions(draw: st.DrawFn) -> Decision:
    approved = draw(st.booleans())
    instruction = draw(texts)
    instead = not approved and bool(instruction.strip()) and draw(st.booleans())
    params = draw(st.none() | objects) if approved else None
    return Decision(approved, instruction, draw(short), params, draw(st.sampled_from(SCOPES)), instead)


asks = st.builds(
    RecordedAsk, short, texts, fine_times, st.none() | fine_times, st.none() | decisions(), st.booleans(), st.booleans()
)
results = st.builds(ToolResult, st.booleans(), texts, st.none() | texts, objects)
tool_calls = st.builds(
    RecordedCall,
    short,
    objects,
    st.none() | texts,
    st.none() | results,
    st.none() | fine_times,
    st.none() | fine_times,
    some_ms,
    st.none() | asks,
)
failures = st.builds(Failure, short, texts, texts, st.none() | some_ms)


@st.composite
def turns(draw: st.DrawFn, place: tuple[str, int, int], n_jobs: int = 0) -> RecordedTurn:
    reply = draw(st.none() | replies)
    turn = RecordedTurn(
        *place,
        agent=draw(short),
        provider=draw(short),
        prompt=draw(prompts),
        started_at=draw(times),
        completed_at=draw(fine_times),
        duration_ms=draw(some_ms),
        reply=reply,
        failure=None if reply else draw(st.none() | failures),
        cost_usd=draw(st.none() | floats),
        calls=tuple(draw(st.lists(tool_calls, min_size=n_jobs, max_size=2))),
    )
    return replace(
        turn, pieces=tuple(draw(st.lists(pieces(turn.started_at), max_size=5))) or said(turn, draw(st.integers(0, 40)))
    )


def pieces(started_at: datetime) -> st.SearchStrategy[Piece]:
    at = st.builds(lambda ms: started_at + timedelta(milliseconds=ms), st.integers(-5, 10**6))
    return st.builds(Piece, st.sampled_from(["answer", "reasoning", "call"]), short, texts, at, st.integers(1, 10**6))


def said(turn: RecordedTurn, size: int) -> tuple[Piece, ...]:
    """The answer of a turn in pieces of this size; none for size 0."""
    content = turn.reply.content if turn.reply and size else ""
    parts = [content[at : at + size] for at in range(0, len(content), size or 1)]
    return tuple(
        Piece("answer", "", part, turn.started_at + timedelta(milliseconds=300 + 20 * number), 3 + number)
        for number, part in enumerate(parts)
    )


paths = st.sampled_from(["main", "main/1.1", "main/1.2", "main/2.1", "main/10.1", "main/2.1/1.1"])


def delegating(paths: Iterable[str]) -> dict[tuple[str, int], int]:
    """The turns that these jobs and those above them come from, each by its job and step, with how many calls."""
    found: dict[tuple[str, int], int] = {}
    for path in paths:
        while "/" in path:
            path, _, call = path.rpartition("/")  # noqa: PLW2901 - up to the job above
            step, _, number = call.partition(".")
            found[path, int(step)] = max(found.get((path, int(step)), 0), int(number))
    return found


@st.composite
def runs(draw: st.DrawFn, run_id: str = "run-1") -> RecordedRun:
    places = draw(st.lists(st.tuples(paths, st.integers(1, 3), st.integers(0, 1)), max_size=4, unique=True))
    above = delegating(path for path, _, _ in places)
    places += [(*at, 0) for at in above if all(place[:2] != at for place in places)]
    return RecordedRun(
        run_id=run_id,
        conversation_id=draw(short),
        message_id=f"msg-{run_id}",
        thread_id=draw(short),
        parent_message_id=draw(st.none() | short),
        is_new_conversation=draw(st.booleans()),
        question=draw(texts),
        flow=draw(short),
        settings=draw(objects),
        status=draw(short),
        started_at=draw(fine_times.map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000))),
        ends=tuple(draw(st.lists(fine_times, max_size=3))),
        turns=tuple(draw(turns(place, above.get(place[:2], 0))) for place in places),
        budget_asks=tuple(draw(st.lists(asks, max_size=2))),
        order=tuple(draw(st.lists(paths | st.just("run"), max_size=8))),
        was_stopped=draw(st.booleans()),
        response=draw(st.none() | texts),
        error_type=draw(st.none() | short),
        error_message=draw(st.none() | texts),
        package_version=draw(short),
        by_hand=tuple(draw(st.lists(by_hand, max_size=2))),
        beforehand=tuple(draw(st.lists(by_hand, max_size=2))),
        manifest=draw(objects),
    )


# --- a plain one -----------------------------------------------------------------------------------------------------


def a_turn(path: str = "main", step: int = 1, content: str = "Short.", **more: Any) -> RecordedTurn:
    prompt = Prompt((Message("system", LONG), Message("user", f"Step {step} of {path}")), "m", 0.5)
    reply = ModelReply(content, Usage(100, 20), "stop", "m-2026", ttft_ms=310.5)
    turn = RecordedTurn(
        path, step, 0, "lead_agent", "test", prompt, START, START + timedelta(seconds=2), 2000.25, reply
    )
    return replace(turn, **{"pieces": said(turn, 7), **more})


def a_call(tool: str = "web_search", **more: Any) -> RecordedCall:
    result = ToolResult(success=True, data=f"Found: {LONG}")
    plain = RecordedCall(tool, {"query": "managers"}, result=result, called_at=START, completed_at=START)
    return replace(plain, **more)


def a_run(
    name: str = "1",
    question: str = "Why?",
    parent: str | None = None,
    turns: Sequence[RecordedTurn] | None = None,
    **more: Any,
) -> RecordedRun:
    plain = RecordedRun(
        run_id=f"run-{name}",
        conversation_id="conv-1",
        message_id=f"msg-{name}",
        thread_id=f"thd-{name}",
        parent_message_id=parent,
        is_new_conversation=parent is None,
        question=question,
        flow="research",
        settings={"sources": [], "budget": {"tokens": 1000}},
        status="completed",
        started_at=START,
        ends=(START + timedelta(seconds=5),),
        turns=tuple(turns)
        if turns is not None
        else (a_turn(calls=(a_call(),)), a_turn(step=2, content=f"Because: {LONG}")),
        order=("run", *["main"] * 8, "run"),
        response=f"Because: {LONG}",
        package_version="0.1.0",
        manifest={"python": "3.11"},
    )
    return replace(plain, **more)
