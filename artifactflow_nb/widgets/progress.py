"""`IndexingLine`: progress of indexing as one line, in a notebook cell or a terminal.

Indexing that takes less than half a second shows nothing, so that most cells only output their value.
"""

import sys
import time

from artifactflow_nb.widgets.page.display import Display, has_kernel

_DISPLAY_DELAY_S = 0.5
_TERMINAL_WIDTH = 79


class IndexingLine:
    """Progress line of one folder. Any thread may call `note`; only the cell's thread may call the other methods.

    Args:
        folder: Display name of the folder, or of the embedding model.
        is_attended: False in unattended notebook runs, which show no progress.
        action: Verb of the line, such as `Indexing`.
        unit: Unit of the counts, such as `files`.
    """

    def __init__(self, folder: str, *, is_attended: bool, action: str = "Indexing", unit: str = "files") -> None:
        self._folder = folder
        self._action = action
        self._unit = unit
        self._in_cell = has_kernel() and is_attended
        self._in_terminal = not has_kernel() and sys.stderr.isatty()
        self._started_s = time.monotonic()
        self._progress: tuple[int, int, str] | None = None
        self._display: Display | None = None

    def note(self, done: int, total: int, path: str) -> None:
        """Record the progress for the next `draw`."""
        self._progress = (done, total, path)

    def draw(self) -> None:
        """Display the recorded progress."""
        if self._progress and time.monotonic() - self._started_s >= _DISPLAY_DELAY_S:
            done, total, path = self._progress
            self.announce(f"{self._action} {self._folder}: {done:,} of {total:,} {self._unit}, {path}")

    def end(self, outcome: str) -> None:
        """Display a final line, if indexing took long enough: `Indexed data: 40 of 40 files read, 3.2 s`."""
        if self._progress and self._display:
            self.announce(self._final_line(outcome, self._progress))
        elif self._progress and self._in_terminal and time.monotonic() - self._started_s >= _DISPLAY_DELAY_S:
            self.announce(self._final_line(outcome, self._progress))
            sys.stderr.write("\n")

    def _final_line(self, outcome: str, progress: tuple[int, int, str]) -> str:
        elapsed_s = time.monotonic() - self._started_s
        return f"{outcome} {self._folder}: {progress[0]:,} of {progress[1]:,} {self._unit} read, {elapsed_s:.1f} s"

    def announce(self, line: str) -> None:
        """Display a line at once."""
        if self._in_terminal:
            sys.stderr.write(f"\r{line[:_TERMINAL_WIDTH]:<{_TERMINAL_WIDTH}}")
            sys.stderr.flush()
        elif self._in_cell and self._display is None:
            self._display = Display({"text/plain": line})
        elif self._display is not None:
            self._display.replace({"text/plain": line})
