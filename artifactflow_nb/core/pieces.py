"""Pieces of a model call's streamed text: their kinds, lengths, arrival times and event numbers.

Stored as short run-length encoded lists next to the text: `16*311 7` is 16 repeated 311 times, then 7.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate, chain, groupby, islice, pairwise, repeat
from typing import Any, NamedTuple

from artifactflow_nb.core.messages import DeltaKind

MAX_PIECES = 1_000_000
"""Maximum number of pieces of a call. A few characters of a damaged file can encode more pieces than memory holds."""

_KINDS: tuple[DeltaKind, ...] = ("answer", "reasoning", "call")
_MS = timedelta(milliseconds=1)
_LIST = re.compile(r"(?:-?[0-9]{1,15}(?:\*[0-9]{1,7})?(?: (?!$)|$))*+")


class Piece(NamedTuple):
    """A piece of streamed text.

    Attributes:
        kind: `answer`, `reasoning` or `call`.
        tool: The tool of a native call; empty while the tool is unknown, and for other pieces.
        at: Time of arrival, in whole milliseconds.
    """

    kind: DeltaKind
    tool: str
    text: str
    at: datetime
    seq: int


PieceTuple = tuple[DeltaKind, str, str, datetime, int]
"""The fields of a `Piece`. A turn has thousands of them, and a plain tuple takes half the time to create."""


def pack(pieces: Sequence[PieceTuple], started_at: datetime, texts: Mapping[str, str]) -> dict[str, Any] | None:
    """Pack pieces as JSON, or return None for no pieces.

    Args:
        pieces: The pieces in order of arrival.
        started_at: Start of the call.
        texts: The texts of the reply by kind. The joined pieces are stored as `said` if they differ from these texts.
            In the text protocol, `answer` is the whole reply: pieces of kind `answer`, then pieces of kind `call`.
    """
    if not pieces:
        return None
    all_kinds, tools, piece_texts, times, numbers = zip(*pieces, strict=True)
    kinds, joined, end = [], dict.fromkeys(_KINDS, ""), 0
    for (kind, tool), group in groupby(zip(all_kinds, tools, strict=True)):
        start, end = end, end + len(list(group))
        kinds.append([kind, tool, end - start])
        joined[kind] += "".join(piece_texts[start:end])
    # Many pieces arrive in the same millisecond: the offset is computed once for each time.
    groups = ((((time - started_at) // _MS), list(same)) for time, same in groupby(times))
    offsets = chain.from_iterable(repeat(ms, len(same)) for ms, same in groups)
    packed = {
        "kinds": kinds,
        "chars": _encode(map(len, piece_texts)),
        "ms": _encode(after - before for before, after in pairwise(chain([0], offsets))),
        "seq": _encode(after - before for before, after in pairwise(chain([0], numbers))),
    }
    if joined["call"] and joined["answer"] + joined["call"] == texts.get("answer", ""):
        texts = {**texts, "answer": joined["answer"], "call": joined["call"]}
    differing = {kind: text for kind, text in joined.items() if text != texts.get(kind, "")}
    return packed | ({"said": differing} if differing else {})


def unpack(packed: Mapping[str, Any] | None, started_at: datetime, texts: Mapping[str, str]) -> list[Piece]:
    """Unpack the value of `pack`, given the same `started_at` and `texts`.

    Errors: `ValueError` if the lists do not match each other or the texts, or stand for more than `MAX_PIECES`.
    """
    if packed is None:
        return []
    all_texts = {**texts, **packed.get("said", {})}
    if sum(max(times, 0) for _, _, times in packed["kinds"]) > MAX_PIECES:
        raise ValueError(f"it lists more than {MAX_PIECES:,} pieces of a text")
    kinds = list(chain.from_iterable(repeat((kind, tool), times) for kind, tool, times in packed["kinds"]))
    lengths = list(islice(_decode(packed["chars"]), len(kinds) + 1))  # with a length too many, `zip` raises
    offsets, numbers = accumulate(_decode(packed["ms"])), accumulate(_decode(packed["seq"]))
    if "call" not in packed.get("said", {}) and "answer" in all_texts:
        n_prose = sum(chars for (kind, _), chars in zip(kinds, lengths, strict=True) if kind == "answer")
        answer = all_texts["answer"]
        all_texts |= {"answer": answer[:n_prose], "call": answer[n_prose:]}
    ends = dict.fromkeys(_KINDS, 0)
    pieces: list[Piece] = []
    time, time_ms = started_at, 0
    for (kind, tool), chars, ms, seq in zip(kinds, lengths, offsets, numbers, strict=True):
        if ms != time_ms:
            time, time_ms = started_at + ms * _MS, ms
        start = ends[kind]
        ends[kind] = end = start + chars
        pieces.append(Piece(kind, tool, all_texts.get(kind, "")[start:end], time, seq))
    if any(ends[kind] != len(all_texts.get(kind, "")) for kind in ends):
        raise ValueError("the pieces of a text are not as long as the text")
    return pieces


def _encode(values: Iterable[int]) -> str:
    groups = ((value, len(list(group))) for value, group in groupby(values))
    return " ".join(str(value) if times == 1 else f"{value}*{times}" for value, times in groups)


def _decode(text: object) -> Iterator[int]:
    if not isinstance(text, str) or not _LIST.fullmatch(text):
        raise ValueError("a run-length encoded list is damaged")
    words = (word.partition("*") for word in text.split())
    return chain.from_iterable(repeat(int(value), int(times or 1)) for value, _, times in words)
