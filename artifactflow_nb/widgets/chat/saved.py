"""Size limit of a saved chat, because a notebook is loaded over the network and rendered as a whole.

The newest turn is always saved in full, earlier turns in full within `FULL_TURN_BYTES`, then in brief within
`BRIEF_TURN_BYTES`; a note has the number of the omitted turns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from artifactflow_nb.core.language import translate
from artifactflow_nb.core.text.format import translate_count
from artifactflow_nb.widgets.chat.turn import ChatTurn
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.saved import SavedOutput

FULL_TURN_BYTES = 280_000
BRIEF_TURN_BYTES = 80_000
"""Both limits together, with the frame and the escapes of the notebook's JSON, stay below 400 KB."""


@dataclass(frozen=True, slots=True)
class SavedTurn:
    """Node of a turn in the saved output.

    Attributes:
        is_complete: False for the brief form.
    """

    node: Node
    is_complete: bool


def saved_turns(turns: Sequence[ChatTurn]) -> Iterator[SavedTurn]:
    """Yield the saved output of turns (passed with the oldest first), newest first, until the size limit is reached."""
    full_bytes, brief_bytes = FULL_TURN_BYTES, BRIEF_TURN_BYTES
    for turn in reversed(turns):
        if full_bytes > 0 and ((size := _size(turn.saved_output())) <= full_bytes or turn is turns[-1]):
            full_bytes -= size
            yield SavedTurn(turn.saved_node, is_complete=True)
            continue
        full_bytes = 0  # do not render the full form of earlier turns, which takes long
        brief_bytes -= _size(turn.brief_saved_output())
        if brief_bytes < 0:
            return
        yield SavedTurn(turn.brief_node, is_complete=False)


def _size(output: SavedOutput) -> int:
    return sum(len(text.encode("utf-8", "replace")) for text in output.values())


def omission_notes(n_before: int, shown: Sequence[SavedTurn]) -> list[str]:
    """Write notes about the omitted and the shortened turns."""
    notes = []
    if n_before:
        questions = translate_count(n_before, "question")
        notes.append(translate("Earlier: {questions} that are not shown here.", questions=questions))
    if n_brief := sum(not turn.is_complete for turn in shown):
        notes.append(
            translate(
                "Only the beginning of {answers} is kept here; run.panel shows a whole answer, "
                "wb.conversation(run).to_html() writes all answers to a file.",
                answers=translate_count(n_brief, "older answer"),
            )
        )
    return notes
