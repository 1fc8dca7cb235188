"""How much of a chat stays in a saved notebook, which is read over the network and shown whole by whatever opens it.

The newest question stays whole, whatever its size, and those before it as long as there is room; of the others the
beginning stays, and of those for which there is no room at all their number.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from artifactflow_nb.text.figures import count
from artifactflow_nb.widgets.turns import ChatTurn
from artifactflow_nb.widgets.view import Face

WHOLE_BYTES = 280_000
BRIEF_BYTES = 80_000
"""With what stands around them, and the escapes of the notebook's JSON, both together are less than 400 KB."""

_HOW = "run.view() shows one whole, wb.conversation(run).to_html() writes all of them to a file."


@dataclass(frozen=True, slots=True)
class KeptTurn:
    """What is kept of a question.

    Attributes:
        face: It.
        is_whole: Whether it is all that there is.
    """

    face: Face
    is_whole: bool


def kept(turns: Sequence[ChatTurn]) -> Iterator[KeptTurn]:
    """What is kept of these questions, the newest first; the oldest may be missing.

    Args:
        turns: The questions, the oldest first. Of those that are not kept whole the long form is not even made.
    """
    whole, brief = WHOLE_BYTES, BRIEF_BYTES
    for turn in reversed(turns):
        if whole > 0 and ((size := _size(turn.face())) <= whole or turn is turns[-1]):
            whole -= size
            yield KeptTurn(turn.face(), is_whole=True)
            continue
        whole = 0
        brief -= _size(turn.brief_face())
        if brief < 0:
            return
        yield KeptTurn(turn.brief_face(), is_whole=False)


def _size(face: Face) -> int:
    return sum(len(text.encode("utf-8", "replace")) for text in face.values())


def left_out(n_before: int, shown: Sequence[KeptTurn]) -> list[str]:
    """What a reader of the kept questions has to know of the others.

    Args:
        n_before: How many stand before those that are kept.
        shown: Those that are kept.
    """
    notes = []
    if n_before:
        notes.append(f"Before these: {count(n_before, 'question')} that are not shown here.")
    if n_brief := sum(not turn.is_whole for turn in shown):
        notes.append(f"Of {count(n_brief, 'older answer')} only the beginning is kept here; {_HOW}")
    return notes
