"""Going through the lines of a cassette once, so that nothing of it is believed that does not fit.

What only an edit can bring about (a hash that does not fit, runs that were taken out) is kept apart from what makes the
file unreadable: an edit may be meant.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from artifactflow_nb.errors import CassetteError
from artifactflow_nb.recordings.cassette_lines import loaded
from artifactflow_nb.recordings.cassette_values import JsonObject, Unpacking, text_key
from artifactflow_nb.recordings.form_checks import check_settings
from artifactflow_nb.recordings.identity import Place, key_at
from artifactflow_nb.text.width import clip

FORMAT = 2
"""The version of the format that this release writes; it reads all up to this one.

Version 2 says of a run whether a click ended it.
"""

HEAD = b'{"cassette": '
_LAST = b'{"end": "cassette", "runs": '
_PREFIXES = {
    "text": b'{"text": "',
    "run": b'{"run": ',
    "turn": b'{"turn": "',
    "timing": b'{"timing": "',
    "last": _LAST,
    "end": b'{"end": "',
}
_CONFLICT = re.compile(rb"<<<<<<<|=======|>>>>>>>|\|\|\|\|\|\|\|")
_REFERENCE = re.compile(rb'\{"\$": "([0-9a-f]{16})"\}')
_NO_TIME = datetime(2026, 1, 1, tzinfo=UTC)
_SHOWN_COLUMNS = 60

RESTORE = "Restore it (git restore, or a copy), or move it away and record again. It is left as it is."
_TWICE = "Delete the lines of one of them, its end too, then af.accept_cassette on the file; or record again."
_MEANT = 'If the edit is meant, af.accept_cassette("{path}") takes it over; otherwise restore the file.'


@dataclass(frozen=True, slots=True)
class RunHead:
    """A run of a cassette, without what happened in it.

    Attributes:
        place: Where it stands among others that ask the same.
        status: How it ended, or `waiting`.
        n_turns: How many attempts of model turns it has.
    """

    place: Place
    run_id: str
    conversation_id: str
    message_id: str
    question: str
    flow: str
    status: str
    n_turns: int

    @property
    def run_key(self) -> str:
        """What it is found by when its notebook is executed again."""
        return self.place.key


@dataclass(frozen=True, slots=True)
class Block:
    """The lines of a run.

    Attributes:
        head: The run.
        number: Which run it is, from 1.
        line: The number of its first line.
        start: Where it begins, in bytes.
        end: Where it is over.
        keys: Of the long texts that it uses.
    """

    head: RunHead
    number: int
    line: int
    start: int
    end: int
    keys: frozenset[str]


@dataclass(slots=True)
class Scan:
    """What stands where.

    Attributes:
        data: The file.
        texts: Where each long text's line begins and ends, by its key.
        blocks: The runs by their ids, in their order.
        edits: What was changed since it was written, as it is told to a person.
        version: The version of its format.
    """

    data: bytes
    texts: dict[str, tuple[int, int]] = field(default_factory=dict)
    blocks: dict[str, Block] = field(default_factory=dict)
    edits: list[str] = field(default_factory=list)
    version: int = FORMAT

    def text_reader(self) -> Callable[[str], str]:
        """Gives the text of a key, read once for as long as the function is used; `ValueError` if it is missing."""
        read: dict[str, str] = {}

        def text_of(key: str) -> str:
            if key not in read:
                if key not in self.texts:
                    raise ValueError(f"the text {key!r:.40} is missing")
                start, end = self.texts[key]
                read[key] = str(loaded(self.data[start:end])["is"])
            return read[key]

        return text_of


def scan(path: Path, data: bytes) -> Scan:
    """Go through a cassette; `CassetteError` for the first thing that does not fit."""
    return _Scanner(path, data, accept=False).scan()


def scan_edited(path: Path, data: bytes) -> Scan:
    """Go through a cassette in which edits are accepted; `CassetteError` for what no edit explains."""
    return _Scanner(path, data, accept=True).scan()


def told_of_line(path: Path, line: int, what: str, advice: str = RESTORE) -> str:
    """What a person is told of a line."""
    return f"{path}, line {line}: {what}. {advice}"


class _Scanner:
    """Goes from line to line.

    Args:
        path: The file, for messages.
        data: What it holds.
        accept: Whether edits are collected; otherwise the first one is an error.
    """

    def __init__(self, path: Path, data: bytes, *, accept: bool) -> None:
        self._path = path
        self._data = data
        self._accept = accept
        self._found = Scan(data)
        self._by_key: dict[str, Block] = {}
        self._text_of = self._found.text_reader()
        self._at = 0
        self._line = 0

    def scan(self) -> Scan:
        self._header()
        while self._kind() == "text":
            self._text()
        while self._kind() == "run":
            self._run()
        self._last()
        return self._found

    # --- lines ---

    def _next(self) -> tuple[int, int]:
        """Go on by a line: where it begins and ends, without its end."""
        start, end = self._at, self._data.find(b"\n", self._at)
        self._line += 1
        if start == len(self._data):
            self._fail("the file ends before this line: it is truncated")
        if end < 0:
            self._fail("the line has no end: the file is truncated")
        if self._data[end - 1 : end] == b"\r":
            self._fail(
                "the line ends in \\r\\n, and lines of a cassette end in \\n. A program has changed that; "
                "for git, put `*.jsonl -text` into .gitattributes and check the file out again",
                "",
            )
        self._at = end + 1
        return start, end

    def _kind(self) -> str:
        """What the next line is; empty if it is nothing that is known, or if there is none."""
        return next((kind for kind, prefix in _PREFIXES.items() if self._data.startswith(prefix, self._at)), "")

    def _object(self, kind: str) -> JsonObject:
        """The next line, which must be of this kind."""
        found = self._kind()
        start, end = self._next()
        if found != kind:
            self._unexpected(kind, found, start, end)
        try:
            return loaded(self._data[start:end])
        except ValueError as error:
            self._fail(f"it cannot be read as JSON: {error}")

    def _unexpected(self, kind: str, found: str, start: int, end: int) -> NoReturn:
        if _CONFLICT.match(self._data, start):
            self._fail(
                "a conflict that git left to be resolved begins or ends here",
                "Take one side whole (git checkout --ours or --theirs), or record again.",
            )
        if found:
            self._fail(f"a line `{found}` stands where a line `{kind}` is expected: lines were reordered or taken out")
        try:
            loaded(self._data[start:end])
        except ValueError as error:
            self._fail(f"it is no JSON object ({error}), and a line `{kind}` is expected")
        self._fail(f"it is not written as a line `{kind}` is, which is expected here", _MEANT.format(path=self._path))

    def _fail(self, what: str, advice: str = RESTORE) -> NoReturn:
        raise CassetteError(told_of_line(self._path, self._line, what, advice).rstrip())

    def _edited(self, what: str, line: int) -> None:
        if not self._accept:
            raise CassetteError(told_of_line(self._path, line, what, _MEANT.format(path=self._path)))
        self._found.edits.append(f"line {line}: {what}")

    # --- what stands in them ---

    def _header(self) -> None:
        if not self._data:
            raise CassetteError(f"{self._path} is empty and so no cassette. Delete it, or restore it.")
        if _CONFLICT.match(self._data):
            self._unexpected("cassette", "", *self._next())
        value: Any = None
        if self._data.startswith(HEAD):
            start, end = self._next()
            try:
                value = loaded(self._data[start:end])
            except ValueError as error:
                self._fail(f"it cannot be read as JSON: {error}")
        version = value.get("cassette") if value else None
        if type(version) is not int or version < 1:
            raise CassetteError(
                f"{self._path}, line 1: this is no cassette, whose first line begins with {HEAD.decode()!r}. "
                "Choose another path; nothing was written."
            )
        if version > FORMAT:
            raise CassetteError(
                f"{self._path}, line 1: this is a cassette of version {version}, written by "
                f"{clip(str(value.get('package')), _SHOWN_COLUMNS)}. This release reads versions up to {FORMAT}: "
                "install a newer artifactflow-nb. Nothing was written."
            )
        self._found.version = version

    def _text(self) -> None:
        start = self._at
        value = self._object("text")
        match value:
            case {"text": str(key), "is": str(text)} if len(value) == 2:  # noqa: PLR2004 - these two
                pass
            case _:
                self._fail("it is not written as a line `text` is")
        if not re.fullmatch("[0-9a-f]{16}", key):
            self._fail(f"{clip(key, _SHOWN_COLUMNS)!r} is no hash")
        if key <= next(reversed(self._found.texts), ""):
            self._fail("texts are not sorted by their hashes, or one is there twice: lines were reordered")
        if text_key(text) != key:
            self._edited(f"the text does not have the hash {key}: it was edited", self._line)
        self._found.texts[key] = start, self._at

    def _run(self) -> None:
        start, line = self._at, self._line + 1
        head = self._object("run")
        while self._kind() == "turn":
            self._next()
        n_turns = self._line - line
        self._pass("timing")
        end = self._at
        ending = self._object("end")
        block = self._block(head, line, start, end, n_turns)
        if ending.get("end") != block.head.run_id:
            self._fail(f"it ends the run {ending.get('end')!r:.60}, and {block.head.run_id!r} began in line {line}")
        self._check_run(block, ending)

    def _pass(self, kind: str) -> None:
        """Go on by a line of this kind without reading it."""
        found = self._kind()
        start, end = self._next()
        if found != kind:
            self._unexpected(kind, found, start, end)

    def _block(self, head: JsonObject, line: int, start: int, end: int, n_turns: int) -> Block:
        text = Unpacking(_NO_TIME, self._text_of).text
        names = ("run_id", "conversation_id", "message_id", "question", "flow", "status")
        try:
            said = {name: text(head.get(name)) for name in names}
            settings = Unpacking(_NO_TIME, self._text_of).json_object(head.get("settings"))
            check_settings(settings)
            number, after, nth = head.get("run"), head.get("after"), head.get("nth")
            if type(number) is not int or not isinstance(after, str) or type(nth) is not int:
                raise ValueError("its number, or what it comes after, is damaged")
            place = Place(key_at(said["flow"], said["question"], settings, after, nth), after, nth)
        except (ValueError, TypeError) as error:
            raise CassetteError(told_of_line(self._path, line, f"the run cannot be read: {error}")) from error
        keys = frozenset(key.decode() for key in _REFERENCE.findall(self._data, start, end))
        return Block(RunHead(place, **said, n_turns=n_turns), number, line, start, end, keys)

    def _check_run(self, block: Block, ending: JsonObject) -> None:
        """Hold a run against its hash, the texts and the runs before it."""
        if missing := sorted(block.keys - self._found.texts.keys()):
            self._fail(f"{_told(block)} uses the text {missing[0]}, which is missing")
        head = block.head
        same = self._found.blocks.get(head.run_id) or self._by_key.get(head.run_key)
        if same is not None:
            self._fail(f"{_told(block)} is there twice: it also stands in line {same.line}", _TWICE)
        if hashlib.sha256(memoryview(self._data)[block.start : block.end]).hexdigest() != ending.get("sha256"):
            lines = f"the lines {block.line} to {self._line - 1} of {_told(block)}"
            self._edited(f"{lines} do not have the hash that stands here: one was edited or moved", self._line)
        if block.number != (expected := len(self._found.blocks) + 1):
            moved = f"{_told(block)} stands in the place of run {expected}: runs were reordered or taken out"
            self._edited(moved, block.line)
        self._found.blocks[head.run_id] = self._by_key[head.run_key] = block

    def _last(self) -> None:
        value = self._object("last")
        told = value.get("runs"), value.get("texts")
        found = len(self._found.blocks), len(self._found.texts)
        if told != found:
            self._edited(
                f"it tells of {told[0]} runs and {told[1]} texts, and there are {found[0]} and {found[1]}", self._line
            )
        if self._at != len(self._data):
            self._next()
            self._fail("the file goes on after its last line")


def _told(block: Block) -> str:
    return f"run {block.number} ({block.head.run_id}, {clip(block.head.question, _SHOWN_COLUMNS)!r})"
