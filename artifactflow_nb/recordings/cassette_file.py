"""A cassette that is recorded into: each run takes its place, and the file is replaced as a whole.

What cannot be read is never overwritten. Runs that are not recorded anew keep their lines to the byte.
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import artifactflow_nb
from artifactflow_nb.errors import CassetteError
from artifactflow_nb.recordings.cassette import read_bytes, run_of
from artifactflow_nb.recordings.cassette_lines import dumped, run_lines, text_line
from artifactflow_nb.recordings.cassette_scan import FORMAT, Block, scan, scan_edited
from artifactflow_nb.recordings.identity import Asked, Place, continued, key_at, places
from artifactflow_nb.recordings.secrets import Masker
from artifactflow_nb.recordings.values import RecordedRun
from artifactflow_nb.recordings.whole_file import OnlyWriter, one_at_a_time, write_whole
from artifactflow_nb.text.cards import Card, Rows, Shown


@dataclass(frozen=True, slots=True)
class _Kept:
    """A run as it stands in the file: its place, its message and its lines."""

    run_id: str
    message_id: str
    place: Place
    lines: bytes
    keys: frozenset[str]


class CassetteFile:
    """A cassette for one process to record into, until it is closed; also as a context.

    Several of one process may record into a file: the cell that makes a workbench is executed again.

    Args:
        path: The file; it and its folder are made if they are not there.
        masker: Takes secrets out of what is recorded; None for one that knows their well-known forms only.

    Errors: `CassetteError` if another process records into it, and as for `Cassette.open`.
    """

    def __init__(self, path: str | os.PathLike[str], masker: Masker | None = None) -> None:
        self.path = Path(path)
        self._place = _resolved(self.path)
        self._masker = masker or Masker(())
        self._asked: list[Asked] = []
        self._runs: list[_Kept] = []
        self._texts: dict[str, bytes] = {}
        self._seen: tuple[int, ...] | None = None
        self._pid = os.getpid()
        self._lock = _only_writer(self._place, is_shared=True)
        try:
            self._look()
        except BaseException:
            self._lock.close()
            raise

    def skip(self, run: Asked) -> None:
        """Note that a run was asked: it counts among those that ask the same, whether it is recorded later or never.

        Runs that go on at the same time are told apart by the order in which they were noted; one that is added
        without having been noted counts from then on.
        """
        if all(before.message_id != run.message_id for before in self._asked):
            self._asked.append(self._masker.ask(run))

    def add(self, run: RecordedRun) -> None:
        """Record a run, in the place of an earlier one with the same key, or of itself, if there is one.

        Any thread may call; one after the other has its turn.

        Errors: `CassetteError` if it cannot be written, or if the file has been changed into what cannot be read;
        what the file held stays.
        """
        self._check_open()
        try:
            self._lock.renew()
            with one_at_a_time(self._place):
                self._add(run)
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def _add(self, run: RecordedRun) -> None:
        self._look()
        masked = self._masker.run(run)
        index, place = self._find(masked)
        texts: dict[str, str] = {}
        try:
            lines = run_lines(masked, index + 1, place, texts)
            new = {key: text_line(text) for key, text in texts.items()}
        except ValueError as error:
            raise CassetteError(f"The run {run.run_id} cannot be recorded into {self.path}: {error}.") from error
        kept = _Kept(run.run_id, run.message_id, place, b"".join(lines), frozenset(texts))
        if any(self._texts.get(key, line) != line for key, line in new.items()):
            raise CassetteError(
                f"Two texts have the same hash, one of them of the run {run.run_id}; it is not recorded."
            )
        runs = [*self._runs[:index], kept, *self._runs[index + 1 :]]
        self._write(runs, self._texts | new)
        self.skip(run)

    def close(self) -> None:
        """Let another process record into the file."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"CassetteFile({str(self.path)!r}, runs={len(self._runs)})"

    def _check_open(self) -> None:
        if self._pid != os.getpid():
            raise CassetteError(
                f"{self.path} is recorded into by the process {self._pid}, from which this one was forked. "
                "Open another file in this process. Nothing was written."
            )
        if self._lock.closed:
            raise CassetteError(f"{self.path} was closed; open it again to record into it. Nothing was written.")

    def _look(self) -> None:
        """Read the file if it is another one than was last read or written."""
        if (present := _state(self._place)) == self._seen:
            return
        runs: list[_Kept] = []
        texts: dict[str, bytes] = {}
        if present is not None:
            found = scan(self.path, read_bytes(self._place))
            texts = {key: found.data[start:end] for key, (start, end) in found.texts.items()}
            for block in found.blocks.values():
                end = found.data.index(b"\n", block.end) + 1
                lines = found.data[block.start : end]
                head = block.head
                runs.append(_Kept(head.run_id, head.message_id, head.place, lines, block.keys))
        self._runs, self._texts, self._seen = runs, texts, present

    def _find(self, run: RecordedRun) -> tuple[int, Place]:
        """Where a run belongs: its index among the runs, and its place."""
        for index, kept in enumerate(self._runs):
            if kept.run_id == run.run_id:
                return index, kept.place
        keys = {kept.message_id: kept.place.key for kept in self._runs}
        known = [before.message_id for before in self._asked]
        noted = known.index(run.message_id) if run.message_id in known else len(known)
        place = places([*self._asked, run], keys)[noted]
        matching = (index for index, kept in enumerate(self._runs) if kept.place.key == place.key)
        return next(matching, len(self._runs)), place

    def _write(self, runs: list[_Kept], texts: dict[str, bytes]) -> None:
        used = frozenset[str]().union(*(kept.keys for kept in runs))
        texts = {key: line for key, line in texts.items() if key in used}
        content = whole_cassette([kept.lines for kept in runs], texts)
        try:
            write_whole(self._place, content)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        self._runs, self._texts, self._seen = runs, texts, _state(self._place)


def whole_cassette(blocks: Sequence[bytes], texts: dict[str, bytes]) -> bytes:
    """The file: its runs, each with all its lines, and the lines of its texts by their keys."""
    head = {"cassette": FORMAT, "package": f"artifactflow-nb {artifactflow_nb.__version__}"}
    last = {"end": "cassette", "runs": len(blocks), "texts": len(texts)}
    return b"".join([dumped(head), *(texts[key] for key in sorted(texts)), *blocks, dumped(last)])


def cassette_bytes(runs: Iterable[RecordedRun], masker: Masker | None = None) -> bytes:
    """A cassette of its own with these runs, asked in this order; `CassetteError` for what cannot be written."""
    masker = masker or Masker(())
    masked = [masker.run(run) for run in runs]
    try:
        return _written(masked, places(masked))
    except ValueError as error:
        raise CassetteError(f"The runs cannot be written as a cassette: {error}.") from error


def _written(runs: Sequence[RecordedRun], at: Sequence[Place]) -> bytes:
    texts: dict[str, str] = {}
    numbered = enumerate(zip(runs, at, strict=True), 1)
    blocks = [b"".join(run_lines(run, number, place, texts)) for number, (run, place) in numbered]
    return whole_cassette(blocks, {key: text_line(text) for key, text in texts.items()})


@dataclass(frozen=True, slots=True)
class Accepted(Shown):
    """What accepting the edits of a cassette came to.

    Attributes:
        path: The file.
        edits: What did not fit any more, each with its line.
        written: Whether the file was written anew.
    """

    path: str
    edits: tuple[str, ...]
    written: bool

    def _card(self) -> Card:
        rows: Rows = [(str(number), edit) for number, edit in enumerate(self.edits, 1)]
        title = "nothing was edited" if not self.edits else "edits accepted" if self.written else "edits found"
        return Card("Cassette", f"{self.path}: {title}", rows)


def accept_cassette(path: str | os.PathLike[str], *, write: bool = True) -> Accepted:
    """Take over edits that were made in a cassette on purpose: its hashes are made anew, if all of it can be read.

    Args:
        path: The file.
        write: Whether to write it; False to look only.

    Returns:
        What had been edited.

    Errors: `CassetteError` for what no edit of values explains; the file stays as it is then.
    """
    shown, place = Path(path), _resolved(Path(path))
    read_bytes(place)  # a path that leads nowhere is told before anything is made there
    with _only_writer(place):
        found = scan_edited(shown, read_bytes(place))
        blocks = list(found.blocks.values())
        runs = [run_of(shown, found, block) for block in blocks]
        content = _written(runs, _linked(runs, blocks))
        if write and content != found.data:
            write_whole(place, content)
    return Accepted(str(shown), tuple(found.edits), write and content != found.data)


def _linked(runs: Sequence[RecordedRun], blocks: Sequence[Block]) -> list[Place]:
    """The places of runs, each after the run that it continues, whose key an edit may have changed."""
    keys = {block.head.message_id: block.head.run_key for block in blocks}
    linked: list[Place] = []
    for run, block in zip(runs, blocks, strict=True):
        before, nth = block.head.place.after, block.head.place.nth
        after = keys.get(continued(run) or "", before)
        key = keys[run.message_id] = key_at(run.flow, run.question, run.settings, after, nth)
        linked.append(Place(key, after, nth))
    return linked


def _resolved(path: Path) -> Path:
    """Where the file really lies; `CassetteError` if nothing can lie there."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError) as error:  # characters that no path can have, links in a circle
        raise _unwritable(path, error) from error


def _only_writer(place: Path, *, is_shared: bool = False) -> OnlyWriter:
    """The lock of a file, whose folder is made."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        return OnlyWriter(place, is_shared=is_shared)
    except OSError as error:
        raise _unwritable(place, error) from error


def _state(place: Path) -> tuple[int, ...] | None:
    """What tells one state of a file from another; None if there is none."""
    try:
        found = place.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _unwritable(path: Path, error: Exception) -> CassetteError:
    why = getattr(error, "strerror", None) or error
    return CassetteError(
        f"The cassette {path} cannot be written: {why}. What it held is intact. "
        "Choose a path in a folder in which you may write, on a disk with space."
    )
