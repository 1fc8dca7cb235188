"""How the text of a model call arrived: in which pieces, when, and between which other events.

Kept as short lists beside the text, in which repetitions are counted: `16*311 7` is 311 times 16, then 7.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from itertools import accumulate, chain, groupby, repeat
from operator import sub
from typing import Any, NamedTuple, overload

from artifactflow_nb.models.base import DeltaKind
from artifactflow_nb.recordings.counted import counted, each

_KINDS: tuple[DeltaKind, ...] = ("answer", "reasoning", "call")
_MS = timedelta(milliseconds=1)


class Piece(NamedTuple):
    """A piece of text as it arrived.

    Attributes:
        kind: `answer`, `reasoning` or `call`.
        tool: Which tool a native call is for, as far as it was known; else empty.
        text: The piece.
        at: When it arrived, in whole milliseconds.
        seq: The number of the event that told it.
    """

    kind: DeltaKind
    tool: str
    text: str
    at: datetime
    seq: int


Noted = tuple[DeltaKind, str, str, datetime, int]
"""A piece as it is noted while it arrives, thousands of times in a turn: the fields of a `Piece`, and no more."""


class KeptPieces(Sequence[Piece]):
    """Pieces as `pack` gave them, which become values when somebody looks: most are kept again as they are.

    Args:
        packed: What `pack` gave.
        started_at: When the call began.
        texts: What the call gave, by kind.

    Attributes:
        packed: The same.

    Errors: `ValueError` as of `unpack`, when somebody looks.
    """

    def __init__(self, packed: Mapping[str, Any], started_at: datetime, texts: Mapping[str, str]) -> None:
        self.packed = packed
        self._started_at = started_at
        self._texts = texts

    @cached_property
    def _pieces(self) -> tuple[Piece, ...]:
        return tuple(unpack(self.packed, self._started_at, self._texts))

    @property
    def said(self) -> list[str]:
        """What the pieces say, the texts of their kinds."""
        told = {**self._texts, **self.packed.get("said", {})}
        return [told.get(kind, "") for kind in {kind for kind, _, _ in self.packed["kinds"]}]

    @property
    def numbers(self) -> Iterator[int]:
        """The numbers of their events."""
        return accumulate(each(self.packed["seq"]))

    def fit(self, started_at: datetime, texts: Mapping[str, str]) -> bool:
        """Whether they are kept in the same way beside these."""
        same = all(texts.get(kind, "") == self._texts.get(kind, "") for kind in _KINDS)
        return same and started_at == self._started_at

    def __len__(self) -> int:
        return sum(number for _, _, number in self.packed["kinds"])

    @overload
    def __getitem__(self, index: int) -> Piece: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Piece, ...]: ...
    def __getitem__(self, index: int | slice) -> Piece | tuple[Piece, ...]:
        return self._pieces[index]

    def __iter__(self) -> Iterator[Piece]:
        return iter(self._pieces)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple | KeptPieces) and self._pieces == tuple(other)

    def __hash__(self) -> int:
        return hash(self._pieces)

    def __repr__(self) -> str:
        return repr(self._pieces)


def pack(pieces: Sequence[Noted], started_at: datetime, texts: Mapping[str, str]) -> dict[str, Any] | None:
    """The pieces as JSON; None if there are none.

    Args:
        pieces: In the order of their arrival.
        started_at: When the call began.
        texts: What the call gave, by kind: what the pieces say is kept only where it differs from that.
    """
    if not pieces:
        return None
    if isinstance(pieces, KeptPieces) and pieces.fit(started_at, texts):
        return dict(pieces.packed)
    of_kinds, tools, parts, moments, numbers = zip(*pieces, strict=True)
    kinds, said, end = [], dict.fromkeys(_KINDS, ""), 0
    for (kind, tool), group in groupby(zip(of_kinds, tools, strict=True)):
        start, end = end, end + len(list(group))
        kinds.append([kind, tool, end - start])
        said[kind] += "".join(parts[start:end])
    packed = {
        "kinds": kinds,
        "chars": counted(map(len, parts)),
        "ms": counted(_waits(moments, started_at)),
        "seq": counted(_steps(numbers)),
    }
    differing = {kind: text for kind, text in said.items() if text != texts.get(kind, "")}
    return packed | ({"said": differing} if differing else {})


def unpack(packed: Mapping[str, Any] | None, started_at: datetime, texts: Mapping[str, str]) -> list[Piece]:
    """The pieces from what `pack` gave; the other arguments as they were there.

    Errors: `ValueError` if the lists do not fit to each other or to the texts.
    """
    if packed is None:
        return []
    told = {**texts, **packed.get("said", {})}
    kinds = chain.from_iterable(repeat((kind, tool), times) for kind, tool, times in packed["kinds"])
    moments, numbers = _moments(each(packed["ms"]), started_at), accumulate(each(packed["seq"]))
    done = dict.fromkeys(_KINDS, 0)
    pieces = []
    for (kind, tool), chars, at, seq in zip(kinds, each(packed["chars"]), moments, numbers, strict=True):
        start = done[kind]
        done[kind] = end = start + chars
        pieces.append(Piece(kind, tool, told.get(kind, "")[start:end], at, seq))
    if any(done[kind] != len(told.get(kind, "")) for kind in done):
        raise ValueError("the pieces of a text are not as long as the text")
    return pieces


def _steps(values: Sequence[int]) -> Iterator[int]:
    """The first value, then how much each is above the one before it."""
    return map(sub, values, chain([0], values))


def _waits(moments: Iterable[datetime], start: datetime) -> Iterator[int]:
    """How many milliseconds each is behind the one before; many pieces share theirs."""
    before = 0
    for moment, same in groupby(moments):
        ms = (moment - start) // _MS
        yield ms - before
        yield from repeat(0, len(list(same)) - 1)
        before = ms


def _moments(steps: Iterable[int], start: datetime) -> Iterator[datetime]:
    """The times after so many milliseconds each; many pieces share theirs."""
    moment = start
    for ms in steps:
        if ms:
            moment += ms * _MS
        yield moment
