"""How far an answer answers its question, as the lead says in the last line of the answer.

::

    The state's GDP was 2.3 trillion dollars.
    <outcome>partly</outcome>

The line is for the workbench: it is taken out of the text, also while the text streams.
"""

import re
from collections.abc import Mapping
from typing import Literal, get_args

Outcome = Literal["answered", "partly", "not_in_sources"]
"""Whether the question is answered, in part, or not because the sources do not say."""

RUN_OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

OUTCOME_LABELS: Mapping[str, str] = {
    "answered": "Answered",
    "partly": "Partly answered",
    "not_in_sources": "Not in the sources",
}
"""The outcomes in views."""

_OPENING = "<outcome>"
_LINE = re.compile(r"\s*`*\s*<outcome>([^<>]{0,40})(?:</outcome>)?\s*`*\s*$")


def split_outcome(text: str) -> tuple[str, Outcome | None]:
    """Split a text into what the person reads and its outcome; None if it names none, or an unknown one."""
    line = _LINE.search(text)
    if line is None:
        return text, None
    word = "_".join(re.findall("[a-z]+", line[1].lower()))
    return text[: line.start()], next((outcome for outcome in RUN_OUTCOMES if outcome == word), None)


class OutcomeFilter:
    """Withholds the outcome from a streamed text, and a tail that may be the beginning of one.

    Attributes:
        is_open: Whether text is withheld. While it is false, a piece without `<` need not be fed.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._withheld = ""

    def feed(self, piece: str) -> str:
        """The text that can be published after a piece."""
        text = self._withheld + piece
        cut = text.find(_OPENING)
        if cut < 0:
            sizes = range(len(_OPENING) - 1, 0, -1)
            cut = len(text) - next((size for size in sizes if text.endswith(_OPENING[:size])), 0)
        self._withheld, self.is_open = text[cut:], cut < len(text)
        return text[:cut]

    def finish(self) -> str:
        """Return the withheld text that turned out to be not an outcome; called at the end of the reply."""
        withheld, self._withheld = self._withheld, ""
        return split_outcome(withheld)[0]
