"""The messages of a job's prompt, and their compression when they grow too long.

::

    system | history (lead only) | instruction | reply, results | reply, results | ...
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from artifactflow_nb.agents.protocols import CallProtocol
from artifactflow_nb.core.messages import Message, ToolResult
from artifactflow_nb.core.text.chinese import CJK_RUN
from artifactflow_nb.store.calls import StoredCall, StoredTurn
from artifactflow_nb.store.encoding import to_json

COMPRESSION_LEVELS = {"full": 160_000, "normal": 80_000, "compact": 40_000, "minimal": 20_000}
"""The largest number of characters of a whole prompt, by level, for a model whose context window is unknown."""

_WINDOW_SHARE = 0.75  # of the window for the prompt; the rest is for the reply, and for errors of the estimate
_CHARS_PER_TOKEN = 4.0  # of English; a Chinese, Japanese or Korean character is about a token
_SAMPLE_CHARS = 2_000

OMITTED_NOTE = "[Earlier messages were left out here to save space.]"
"""Replaces omitted older messages in a prompt."""

PRESERVED_HISTORY = 4
MAX_CUT_CHARS = 2_000
PRESERVE_RECENT = 5
_MARKER_CHARS = len(OMITTED_NOTE) + 2


class TurnMessages:
    """The turns of a job as messages of its prompts, with the sizes that compression needs.

    Args:
        protocol: Formats calls and their results.
        turns: The turns so far.
    """

    def __init__(self, protocol: CallProtocol, turns: Sequence[StoredTurn] = ()) -> None:
        self.protocol = protocol
        self.n_turns = 0
        self.messages: list[Message] = []
        self._n_chars = 0
        self._units: list[list[Message]] = []
        self._cut_units: list[list[Message]] = []
        self._cut_chars = [0]  # the lengths of the first 0, 1, 2, ... turns after a cut
        self._have_results = True
        for turn in turns:
            self.add(turn)

    def add(self, turn: StoredTurn) -> None:
        """Add the next turn."""
        unit = self.protocol.write(turn, [(call.call, result) for call, result in displayed_results(turn)])
        cut = [_cut(message, MAX_CUT_CHARS) for message in unit]
        self.n_turns += 1
        self.messages += unit
        self._n_chars += message_chars(unit)
        self._units.append(unit)
        self._cut_units.append(cut)
        self._cut_chars.append(self._cut_chars[-1] + message_chars(cut))
        self._have_results &= len(unit) > 1

    def n_chars(self, head: Sequence[Message]) -> int:
        """Count the characters of a whole uncompressed prompt with this head."""
        return message_chars(head) + self._n_chars

    def prompt(self, head: Sequence[Message], level: str, note: str = "", scale: float = 1.0) -> list[Message]:
        """Build the messages of a prompt, compressed to a level.

        `head` is the system message, the history and the instruction; `note` is added to the last message; `level` and
        `scale` set the largest length; see `COMPRESSION_LEVELS` and `window_scale`.
        """
        limit = level_chars(level, scale)
        is_too_long = self.n_chars(head) + (len(note) + 2 if note else 0) > limit
        if is_too_long and (fitted := self._without_oldest_turns(head, limit, note)) is not None:
            return fitted
        messages = _noted([*head, *self.messages], note)
        return compress_messages(messages, level, scale=scale) if is_too_long else messages

    def _without_oldest_turns(self, head: Sequence[Message], limit: int, note: str) -> list[Message] | None:
        """Compress like `compress_messages` if whole turns must be omitted, without visiting all turns.

        Return None if there are too few turns, or if cutting messages is enough.
        """
        n_recent = n_messages = 0
        while n_messages < PRESERVE_RECENT and n_recent < self.n_turns:
            n_recent += 1
            n_messages += len(self._units[-n_recent])
        if n_messages < PRESERVE_RECENT or not self._have_results:
            return None
        *earlier, question = _units(head[1:])
        history = [[_cut(message, MAX_CUT_CHARS) for message in unit] for unit in earlier]
        recent = [*self._units[-n_recent:-1], _noted(self._units[-1], note)]
        n_old = self.n_turns - n_recent
        excess = sum(map(message_chars, [head[:1], question, *recent, *history])) + self._cut_chars[n_old] - limit
        if excess <= 0:
            return None
        first, excess = _oldest_left_out(history, set(), excess)
        n_left_out = min(bisect_left(self._cut_chars, excess + _MARKER_CHARS), n_old) if excess > 0 else 0
        rest = [None] * (n_left_out > 0) + [*self._cut_units[n_left_out:n_old], *recent]
        return _cut_to_fit([head[0], *_joined([*first, question, *rest])], limit)


def _noted(messages: list[Message], note: str) -> list[Message]:
    """Append a note to the last message."""
    if not note:
        return messages
    return [*messages[:-1], replace(messages[-1], content=f"{messages[-1].content}\n\n{note}")]


def displayed_results(turn: StoredTurn) -> list[tuple[StoredCall, ToolResult]]:
    """Return the finished calls, with results cut to the length that the model sees."""
    note = " of this result; ask for less, or for this part alone"
    results: list[tuple[StoredCall, ToolResult]] = []
    for call in turn.calls:
        result, limit = call.result, call.shown_chars
        if result is not None and limit is not None:
            if result.success:
                result = replace(result, data=cut_text(result.data, limit, note))
            else:
                result = replace(result, error=cut_text(result.error or "", limit, note))
        if result is not None:
            results.append((call, result))
    return results


def level_chars(level: str, scale: float = 1.0) -> int:
    """Return the maximum number of characters of a prompt at a level."""
    return int(COMPRESSION_LEVELS[level] * scale)


def window_scale(window: int, messages: Sequence[Message]) -> float:
    """Return the factor by which the level `normal` fills three quarters of a model's context window.

    The number of characters per token depends on the language of the messages; `window` is in tokens.
    """
    texts = [message.content[:_SAMPLE_CHARS] for message in messages]
    n_dense = sum(len(run) for text in texts if not text.isascii() for run in CJK_RUN.findall(text))
    share = n_dense / max(sum(map(len, texts)), 1)
    chars_per_token = 1 / (share + (1 - share) / _CHARS_PER_TOKEN)
    return window * _WINDOW_SHARE * chars_per_token / COMPRESSION_LEVELS["normal"]


def should_compress(messages: Sequence[Message], level: str) -> bool:
    """Return whether the messages have more characters than the level allows."""
    return message_chars(messages) > COMPRESSION_LEVELS[level]


def stronger_level(messages: Sequence[Message], level: str, scale: float = 1.0) -> str | None:
    """Return the mildest level that at least halves a prompt; None if the strongest level is already in use."""
    stronger = [name for name, limit in COMPRESSION_LEVELS.items() if limit < COMPRESSION_LEVELS[level]]
    n_chars = message_chars(messages)
    halving = [name for name in stronger if level_chars(name, scale) * 2 <= n_chars]
    candidates = halving or stronger[-1:]
    return candidates[0] if candidates else None


def compress_messages(
    messages: Sequence[Message], level: str, preserve_recent: int = PRESERVE_RECENT, scale: float = 1.0
) -> list[Message]:
    """Compress messages to the limit of a level, the least important first and no more than necessary.

    1. old results of tools are cut, the oldest first;
    2. other old messages are cut, the oldest first;
    3. old messages are omitted, the oldest first;
    4. the longest of the remaining messages are cut.

    The system message, the newest `preserve_recent` messages (at least 4 of the history) and the newest question are
    never omitted; a result is omitted with its call; a marker replaces omitted text. All else is unchanged.
    """
    limit = level_chars(level, scale)
    system = list(messages[:1]) if messages and messages[0].role == "system" else []
    units = _units(messages[len(system) :])
    protected = _protected_units(units, preserve_recent)
    room = limit - message_chars(system)
    units = _cut_old(units, protected, room, lambda message: message.role == "tool")
    units = _cut_old(units, protected, room, lambda message: message.role != "tool")
    return _cut_to_fit(
        [*system, *_joined(_oldest_left_out(units, protected, sum(map(message_chars, units)) - room)[0])], limit
    )


def _units(messages: Sequence[Message]) -> list[list[Message]]:
    """Group messages that are omitted together: a reply with the results of its calls, a question with its answer."""
    units: list[list[Message]] = []
    for index, message in enumerate(messages):
        calls = index + 1 < len(messages) and messages[index + 1].role == "tool"
        answers = message.role == "assistant" and not calls and bool(units) and [m.role for m in units[-1]] == ["user"]
        if (message.role == "tool" and units) or answers:
            units[-1].append(message)
        else:
            units.append([message])
    return units


def _protected_units(units: Sequence[Sequence[Message]], preserve_recent: int) -> set[int]:
    """Return the indexes of the units with the newest messages, and of the unit with the newest question."""
    protected: set[int] = set()
    count = 0
    for index in range(len(units) - 1, -1, -1):
        if count >= max(preserve_recent, PRESERVED_HISTORY):
            break
        protected.add(index)
        count += len(units[index])
    questions = [index for index, unit in enumerate(units) if unit[0].role == "user"]
    return protected | set(questions[-1:])


def _cut_old(
    units: Sequence[list[Message]], protected: set[int], room: int, is_affected: Callable[[Message], bool]
) -> list[list[Message]]:
    """Cut the old messages for which the predicate holds, the oldest first, until all messages fit."""
    excess = sum(map(message_chars, units)) - room
    shorter: list[list[Message]] = []
    for index, unit in enumerate(units):
        cut = list(unit)
        for at, message in enumerate(unit if index not in protected else ()):
            if excess > 0 and is_affected(message):
                cut[at] = _cut(message, MAX_CUT_CHARS)
                excess -= message.n_chars - cut[at].n_chars
        shorter.append(cut)
    return shorter


def _oldest_left_out(
    units: Sequence[list[Message]], protected: set[int], excess: int
) -> tuple[list[list[Message] | None], int]:
    """Replace the oldest units by None until the excess is gone; return the units and the remaining excess.

    The excess includes the markers of gaps; otherwise the longest message would be cut to make room for markers.
    """
    remaining: list[list[Message] | None] = []
    for index, unit in enumerate(units):
        if excess <= 0 or index in protected:
            remaining.append(unit)
            continue
        excess += (_MARKER_CHARS if not remaining or remaining[-1] is not None else 0) - message_chars(unit)
        remaining.append(None)
    return remaining, excess


def _joined(units: Sequence[Sequence[Message] | None]) -> list[Message]:
    """Return the messages of units, with a marker for each gap (None)."""
    body: list[Message] = []
    gap = False
    for unit in units:
        if unit is None:
            gap = True
            continue
        if not gap:
            body += unit
        elif unit[0].role == "user":
            body += [replace(unit[0], content=f"{OMITTED_NOTE}\n\n{unit[0].content}"), *unit[1:]]
        elif body and body[-1].role != "assistant":
            body += [*unit[:-1], replace(unit[-1], content=f"{OMITTED_NOTE}\n\n{unit[-1].content}")]
        else:  # the text of an assistant message is never changed
            body += [Message("user", OMITTED_NOTE), *unit]
        gap = False
    return body


def _cut(message: Message, chars: int) -> Message:
    """Cut a message to about this number of characters, in the middle of the text and of each value in a call."""
    if message.n_chars <= chars:
        return message
    share = chars // (1 + sum(len(call.params) for call in message.calls))

    def cut_value(value: Any) -> Any:
        text = value if isinstance(value, str) else to_json(value)
        return cut_text(text, share) if len(text) > share else value

    calls = tuple(
        replace(call, params={name: cut_value(value) for name, value in call.params.items()}) for call in message.calls
    )
    return replace(message, content=cut_text(message.content, share), calls=calls)


def cut_text(text: str, chars: int, note: str = "") -> str:
    """Cut a text that is too long in the middle, and insert a marker there.

    `note` follows the number of omitted characters in the marker.
    """
    left_out = len(text) - chars
    if left_out <= 0:
        return text
    head, tail = chars * 3 // 4, chars // 4
    return f"{text[:head]}\n[... {left_out} characters left out{note} ...]\n{text[len(text) - tail :]}"


def _cut_to_fit(messages: list[Message], limit: int) -> list[Message]:
    """Cut the longest messages, the system message last, until all messages fit."""
    fitted = list(messages)
    excess = message_chars(fitted) - limit
    if excess <= 0:
        return fitted
    longest_first = sorted(range(len(messages)), key=lambda index: messages[index].n_chars, reverse=True)
    talk = [index for index in longest_first if messages[index].role != "system"]
    system = [index for index in longest_first if messages[index].role == "system"]
    # Many short messages, such as the results of native calls, are cut again before the system message is cut.
    for indexes, least in ((talk, MAX_CUT_CHARS // 4), (talk, MAX_CUT_CHARS // 20), (system, MAX_CUT_CHARS // 4)):
        for index in indexes if excess > 0 else ():
            message = fitted[index]
            shorter = _cut(message, max(message.n_chars - excess - 100, least))
            if shorter.n_chars < message.n_chars:
                fitted[index] = shorter
                excess -= message.n_chars - shorter.n_chars
    return fitted


def message_chars(messages: Sequence[Message]) -> int:
    """Count the characters of messages, including native calls."""
    return sum(message.n_chars for message in messages)
