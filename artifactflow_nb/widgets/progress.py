"""One line that tells how far indexing has come: in the cell of a notebook, or in a terminal.

Nothing is shown of what takes less than half a second, so that the output of most cells is only their value.
"""

import sys
import time

from artifactflow_nb.widgets.display import Display, has_kernel

_SHOWN_AFTER_S = 0.5
_TERMINAL_WIDTH = 79


class IndexingLine:
    """The line of one folder; drawn by the cell's own thread, told by any.

    Args:
        folder: What is indexed, as it is named in the line.
        watched: Whether a person looks at the cell; nothing is drawn in a notebook that nobody watches.
    """

    def __init__(self, folder: str, *, watched: bool) -> None:
        self._folder = folder
        self._drawn = has_kernel() and watched
        self._written = not has_kernel() and sys.stderr.isatty()
        self._started = time.monotonic()
        self._reached: tuple[int, int, str] | None = None
        self._display: Display | None = None

    def note(self, done: int, total: int, path: str) -> None:
        """Keep how far it has come, for the next drawing."""
        self._reached = (done, total, path)

    def draw(self) -> None:
        """Show how far it has come."""
        if self._reached and time.monotonic() - self._started >= _SHOWN_AFTER_S:
            done, total, path = self._reached
            self._show(f"Indexing {self._folder}: {done:,} of {total:,} files, {path}")

    def end(self, outcome: str) -> None:
        """Leave one last line, such as `Indexed data: 40 of 40 files read, 3.2 s`, where any was shown."""
        if self._reached and self._display:
            self._show(self._last(outcome, self._reached))
        elif self._reached and self._written and time.monotonic() - self._started >= _SHOWN_AFTER_S:
            self._show(self._last(outcome, self._reached))
            sys.stderr.write("\n")

    def _last(self, outcome: str, reached: tuple[int, int, str]) -> str:
        took = time.monotonic() - self._started
        return f"{outcome} {self._folder}: {reached[0]:,} of {reached[1]:,} files read, {took:.1f} s"

    def _show(self, line: str) -> None:
        if self._written:
            sys.stderr.write(f"\r{line[:_TERMINAL_WIDTH]:<{_TERMINAL_WIDTH}}")
            sys.stderr.flush()
        elif self._drawn and self._display is None:
            self._display = Display({"text/plain": line})
        elif self._display is not None:
            self._display.replace({"text/plain": line})
