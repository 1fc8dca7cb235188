"""A cassette: a file of recorded runs that people read and git compares, one record a line.

::

    {"cassette": 1, "package": ...}                   the version of the format
    {"text": "9f86d081884c7d65", "is": ...}           long texts, each once, sorted by their hashes
    {"run": 1, ...} {"turn": ...} ... {"timing": ...} {"end": "run-...", "sha256": ...}
    {"end": "cassette", "runs": 1, "texts": 1}

Opening it checks every hash and reads no turn; a run is read when it is asked for.
"""

import os
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Self, TypeVar

from artifactflow_nb.errors import CassetteError, NotFound
from artifactflow_nb.recordings.cassette_lines import BadLine, TurnOutline, read_outline, read_run
from artifactflow_nb.recordings.cassette_scan import Block, RunHead, Scan, scan, told_of_line
from artifactflow_nb.recordings.cassette_values import JsonObject
from artifactflow_nb.recordings.values import RecordedRun

T = TypeVar("T")


class Cassette:
    """The runs of a file, as they were when it was opened.

    Attributes:
        path: The file.
        version: The version of its format.
        runs: Its runs in the order in which they were first recorded.
    """

    def __init__(self, path: Path, found: Scan) -> None:
        self.path = path
        self.version = found.version
        self._found = found

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Open a file; `CassetteError` if it is none, is damaged, was changed, or is of a newer release."""
        place = Path(path)
        return cls(place, scan(place, read_bytes(place)))

    @cached_property
    def runs(self) -> tuple[RunHead, ...]:
        """Its runs."""
        return tuple(block.head for block in self._found.blocks.values())

    def find(self, run_key: str) -> RunHead | None:
        """The run of this key; None if there is none."""
        return next((head for head in self.runs if head.run_key == run_key), None)

    def first_of(self, conversation_id: str) -> RecordedRun | None:
        """The run with which a conversation began; None if it is not here. Errors: as of `run`."""
        runs = (self.run(head.run_id) for head in self.runs if head.conversation_id == conversation_id)
        return next((run for run in runs if run.is_new_conversation), None)

    def run(self, run_id: str) -> RecordedRun:
        """A run with all its turns; `NotFound` if it holds none of this id, `CassetteError` for what cannot be read."""
        block = self._found.blocks.get(run_id)
        if block is None:
            held = ", ".join(self._found.blocks) or "none"
            raise NotFound(f"There is no run {run_id!r} in {self.path}. Its runs: {held}.")
        return run_of(self.path, self._found, block)

    def outlines(self) -> Iterator[tuple[JsonObject, list[TurnOutline]]]:
        """The settings of each run, and who asked in its turns; `CassetteError` for what cannot be read."""
        text_of = self._found.text_reader()
        for block in self._found.blocks.values():
            yield _read_block(self.path, self._found, block, lambda lines: read_outline(lines, text_of))

    def __repr__(self) -> str:
        return f"Cassette({str(self.path)!r}, runs={len(self._found.blocks)})"


def read_bytes(path: Path) -> bytes:
    """What a file holds; `CassetteError` if it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise CassetteError(f'There is no cassette {path}. Record one: af.Workbench(record="{path}").') from None
    except (OSError, ValueError) as error:  # a ValueError for characters that no path can have
        raise CassetteError(f"The cassette {path} cannot be read: {error}.") from error


def run_of(path: Path, found: Scan, block: Block) -> RecordedRun:
    """The run of a block of lines."""
    return _read_block(path, found, block, lambda lines: read_run(lines, found.text_reader()))


def _read_block(path: Path, found: Scan, block: Block, read: Callable[[list[bytes]], T]) -> T:
    lines = found.data[block.start : block.end].split(b"\n")[:-1]
    try:
        return read(lines)
    except BadLine as bad:
        raise CassetteError(told_of_line(path, block.line + bad.index, f"it cannot be read: {bad}")) from bad
