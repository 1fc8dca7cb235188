"""Cassettes: the rows of recorded runs in one text file, one row per line.

::

    {"format": "artifactflow-nb cassette", "version": 1}
    {"recording": {"key": ..., "question": ..., "run_id": ..., ...}}     a line for each recorded run
    {"messages": {...}}  {"runs": {...}}  {"events": {...}}              the rows of the run, JSON columns as JSON
    {"text": {"sha256": ..., "content": ...}}                            each long text once, after all runs
    {"sha256": ...}                                                      the hash of all lines above

Rows refer to a long text by `{"$text": hash}`.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

import orjson

from artifactflow_nb.core.local_files import absolute_path, loads, loads_shallow, read_at_most, reason
from artifactflow_nb.errors import CassetteError, brief
from artifactflow_nb.recording.files import OnlyWriter, one_at_a_time, write_whole
from artifactflow_nb.recording.rows import RunRows
from artifactflow_nb.recording.schema import check_rows
from artifactflow_nb.store.encoding import sha256
from artifactflow_nb.store.schema import KEYS, SCHEMA_VERSION

FORMAT = "artifactflow-nb cassette"
MAX_BYTES = 1024 * 2**20
LONG_TEXT = 200
"""The length in characters from which a text is written once, and rows name the text by its hash."""

_FREE_CHARS = 64 * 2**20
_MOST_COPIES = 100
"""The largest size of a recording, in multiples of the texts in the file, above `_FREE_CHARS`. Without a limit, rows of
a few bytes could name a long text many times."""

_NO_PLACE = (OSError, ValueError, RuntimeError)
"""Errors of paths: missing rights, invalid characters, circular links before Python 3.13."""

_TEXT, _LITERAL = "$text", "$literal"
_TEXT_BYTES, _REFERENCE_BYTES = b"$text", b'"$text":"'
_RE_RECORD = 'Record it again: execute the notebook with mode="record" (AF_MODE=record).'


@dataclass(frozen=True, slots=True)
class Head:
    """An entry of a cassette for a recorded run.

    Attributes:
        key: The identity of the question; see `identity`.
        started_at: Start of the run, in microseconds since 1970.
    """

    key: str
    run_id: str
    message_id: str
    question: str
    flow: str
    started_at: int

    @classmethod
    def of(cls, key: str, rows: RunRows) -> Self:
        """Create the entry of a recording with these rows."""
        run = rows.run
        return cls(key, rows.run_id, run["message_id"], run["question"], run["flow"], run["started_at"])


class Cassette:
    """The recordings of a cassette file. The rows of a recording are checked when the rows are read."""

    def __init__(self, path: Path, recordings: Mapping[Head, Sequence[bytes]], texts: Mapping[str, str]) -> None:
        self.path = path
        self._lines = dict(recordings)
        self._texts = texts
        self.heads = tuple(self._lines)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read a cassette; `CassetteError` for a file that is missing, damaged, edited or of another release."""
        return cls.parse(path, _read(path))

    @classmethod
    def parse(cls, path: Path, data: bytes) -> Self:
        """Parse the bytes of a cassette; `CassetteError` that names a line which cannot be used."""
        lines = data.split(b"\n")
        _check_format(path, lines[0])
        body, last = data[: data.rfind(b"\n", 0, -1) + 1], lines[-2] if len(lines) > 1 else b""
        if not data.endswith(b"\n") or last != _dump({"sha256": hashlib.sha256(body).hexdigest()})[:-1]:
            raise CassetteError(
                f"The cassette {path} was modified: a line was changed, or the end is missing. Restore the "
                f"file, accept an edit with af.accept_cassette(path), or delete the file. {_RE_RECORD}"
            )
        recordings: dict[Head, list[bytes]] = {}
        texts: dict[str, str] = {}
        names: set[str] = set()
        is_usual = body.count(_TEXT_BYTES) == body.count(_REFERENCE_BYTES)  # saves a walk through the rows
        for number, line in enumerate(lines[1:-2], 2):
            try:
                value = loads_shallow(line)
                ((kind, row),) = value.items()
                if kind == "recording":
                    head = Head(**row)
                    for field in fields(head):
                        if type(value := getattr(head, field.name)) is not field.type:
                            raise ValueError(f"{field.name} is {value!r:.80}, which has the wrong type")
                    if head.run_id in names:
                        raise ValueError(f"two recordings have the run id {head.run_id!r:.80}")
                    if head.key in names:
                        raise ValueError(f"{head.question!r:.80} is recorded twice")
                    names |= {head.run_id, head.key}
                    recordings[head] = current = []
                elif kind == "text":
                    if sha256(row["content"]) != row["sha256"] or len(row) != len(("sha256", "content")):
                        raise ValueError("the text does not match its hash: the file was edited or damaged")
                    texts[row["sha256"]] = row["content"]
                elif kind in KEYS:
                    if not is_usual and not all(isinstance(key, str) for key in _texts_of(row)):
                        raise ValueError("the row refers to a text by a value that is not a hash")
                    current.append(line)
                else:
                    raise ValueError(f"the kind {kind!r:.40} is unknown; open a Workbench(plugins=[...]) first")
            except (ValueError, TypeError, KeyError, AttributeError, UnboundLocalError) as error:
                raise CassetteError(f"Line {number} of the cassette {path} cannot be used: {error!s:.200}.") from error
        return cls(path, recordings, texts)

    def find(self, key: str) -> Head | None:
        """Return the recording of a question, or None."""
        return next((head for head in self.heads if head.key == key), None)

    def rows(self, head: Head) -> RunRows:
        """Return the checked rows of a recording; `CassetteError` that names a row which cannot be used."""
        tables: dict[str, list[dict[str, Any]]] = {table: [] for table in KEYS}
        try:
            values = self._values(head)
            self._check_size(values)
            for value in values:
                ((table, row),) = value.items()
                decoded = {name: _decoded(item, self._texts) for name, item in row.items()}
                tables[table].append(
                    {
                        name: orjson.dumps(item).decode()
                        if name.endswith("_json") and isinstance(item, dict | list)
                        else item
                        for name, item in decoded.items()
                    }
                )
            rows = check_rows(RunRows(head.run_id, {table: tuple(tables[table]) for table in KEYS}))
        except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise CassetteError(
                f"The recording of {head.question!r:.80} in {self.path} cannot be used: {error!s:.200}. {_RE_RECORD}"
            ) from error
        except CassetteError as error:
            raise CassetteError(f"The cassette {self.path} cannot be used: {error}") from error
        for name in ("message_id", "question", "flow", "started_at"):
            if (stored := rows.run[name]) != (declared := getattr(head, name)):
                problem = f"the {name} of a run is {stored!r:.80}, and the recording says {declared!r:.80}"
                raise CassetteError(f"The cassette {self.path} cannot be used: {problem}")
        return rows

    def _values(self, head: Head) -> list[dict[str, Any]]:
        """Parse the lines of a recording again; holding the parsed rows of all recordings would take longer."""
        return [orjson.loads(line) for line in self._lines[head]]

    def _check_size(self, values: Sequence[Mapping[str, Any]]) -> None:
        """Raise an error for a recording that refers to texts so often that the memory would be exhausted."""
        named = [key for value in values for key in _texts_of(value)]
        if missing := [key for key in named if key not in self._texts]:
            raise ValueError(f"a row refers to the text {missing[0]!r:.40}, which is missing")
        n_chars = sum(len(self._texts[key]) for key in named)
        if n_chars > max(_FREE_CHARS, _MOST_COPIES * sum(map(len, self._texts.values()))):
            raise ValueError(f"the texts of the recording would have {n_chars:,} characters")

    def models(self) -> list[tuple[str, str]]:
        """Return the provider and name of each called model, in the order of the calls."""
        calls = (row["llm_calls"] for head in self.heads for row in self._values(head) if "llm_calls" in row)
        return list(dict.fromkeys((str(row.get("provider")), str(row.get("request_model"))) for row in calls))

    def lines(self, head: Head) -> tuple[Sequence[bytes], Mapping[str, str]]:
        """Return the lines of a recording, and the texts to which they refer."""
        named = {key for value in self._values(head) for key in _texts_of(value)}
        return self._lines[head], {key: self._texts[key] for key in named if key in self._texts}


class CassetteWriter:
    """Writes recordings into a cassette atomically, one process at a time. The folder of the file is created.

    Errors: `CassetteError` if the file cannot be written or is not a cassette, or if another process records into it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pid = os.getpid()
        self._written: tuple[bytes, Cassette] | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = OnlyWriter(path.resolve())
        except _NO_PLACE as error:
            raise self._failed(error) from error
        try:
            if path.exists():
                Cassette.open(path)
        except CassetteError:
            self.close()
            raise

    def put(self, head: Head, rows: RunRows) -> None:
        """Add a recording, which replaces a recording of the same key or run."""
        if self._lock.closed or self._pid != os.getpid():
            state = "was closed" if self._lock.closed else "belongs to the parent process of this process"
            raise CassetteError(f"The workbench that records into {self.path} {state}. Create another workbench.")
        file = self.path.resolve()
        try:
            self._lock.renew()
            with one_at_a_time(file):
                current = _read(file) if file.exists() else cassette_bytes({}, {})
                digest, before = self._written or (b"", None)
                if before is None or digest != hashlib.sha256(current).digest():
                    before = Cassette.parse(self.path, current)
                others = [other for other in before.heads if other.key != head.key and other.run_id != head.run_id]
                texts: dict[str, str] = {}
                recordings: dict[Head, Sequence[bytes]] = {}
                for other in others:
                    recordings[other], named = before.lines(other)
                    texts |= named
                recordings[head] = _encoded_lines(rows, texts)
                data = cassette_bytes(recordings, texts)
                write_whole(file, data)
                self._written = hashlib.sha256(data).digest(), Cassette(self.path, recordings, texts)
        except _NO_PLACE as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Release the file, so that another process can record."""
        self._lock.close()

    def _failed(self, error: OSError | ValueError | RuntimeError) -> CassetteError:
        return CassetteError(f"The cassette {self.path} cannot be written: {reason(error)}. Choose another path.")


def cassette_bytes(recordings: Mapping[Head, Iterable[bytes]], texts: Mapping[str, str]) -> bytes:
    """Return the bytes of a cassette; equal recordings give equal bytes."""
    lines = [_dump({"format": FORMAT, "version": SCHEMA_VERSION})]
    for head in sorted(recordings, key=lambda head: (head.started_at, head.run_id)):
        lines.append(_dump({"recording": asdict(head)}))
        lines += (line + b"\n" for line in recordings[head])
    lines += (_dump({"text": {"sha256": key, "content": texts[key]}}) for key in sorted(texts))
    body = b"".join(lines)
    return body + _dump({"sha256": hashlib.sha256(body).hexdigest()})


def one_recording(head: Head, rows: RunRows) -> bytes:
    """Return a cassette with a single recording."""
    texts: dict[str, str] = {}
    return cassette_bytes({head: _encoded_lines(rows, texts)}, texts)


def accept_cassette(path: str | os.PathLike[str]) -> None:
    """Accept intended edits of a cassette: update the hashes of the texts and of the file.

    Errors: `CassetteError` if the file cannot be read or an edited recording cannot be used; the file stays unchanged.
    """
    path = absolute_path(path)
    *lines, last = _read(path).rstrip(b"\r\n").split(b"\n")
    _check_format(path, [*lines, last][0])
    if not last.startswith(b'{"sha256":'):
        raise CassetteError(f"The cassette {path} is incomplete: its last line has no hash. Restore the file.")
    renamed: dict[bytes, bytes] = {}
    for line in lines:
        if line.startswith(b'{"text":'):
            with suppress(ValueError, LookupError, TypeError, AttributeError):  # `Cassette.parse` names a damaged line
                text = loads(line)["text"]
                renamed[text["sha256"].encode()] = sha256(text["content"]).encode()
    body = b"".join(line + b"\n" for line in lines)
    body = re.sub(rb"\b[0-9a-f]{64}\b", lambda found: renamed.get(found[0], found[0]), body)
    data = body + _dump({"sha256": hashlib.sha256(body).hexdigest()})
    cassette = Cassette.parse(path, data)
    for head in cassette.heads:
        cassette.rows(head)
    try:
        with one_at_a_time(path.resolve()):
            write_whole(path.resolve(), data)
    except OSError as error:
        raise CassetteError(f"The cassette {path} cannot be written: {reason(error)}. Check permissions.") from error


# --- reading ---------------------------------------------------------------------------------------------------------


def _read(path: Path) -> bytes:
    try:
        data = read_at_most(path, MAX_BYTES)
    except FileNotFoundError as error:
        advice = 'To record one, execute the notebook with mode="record" (AF_MODE=record).'
        raise CassetteError(f"There is no cassette {path}. Check the path. {advice}") from error
    except OSError as error:
        raise CassetteError(f"The cassette {path} cannot be read: {reason(error)}. Check the path.") from error
    if len(data) > MAX_BYTES:
        raise CassetteError(f"The cassette {path} is larger than {MAX_BYTES:,} bytes. Check the path.")
    return data


def _check_format(path: Path, line: bytes) -> None:
    try:
        first_line = loads(line)
        file_format, version = first_line.get("format"), first_line.get("version")
    except (ValueError, AttributeError):
        file_format = version = None
    if file_format != FORMAT:
        raise CassetteError(f"{path} is not a cassette. Pass a file that Workbench(record=...) wrote.")
    if version != SCHEMA_VERSION:
        raise CassetteError(
            f"The cassette {path} has the version {brief(version)}, and this release reads version {SCHEMA_VERSION} "
            f"only. Delete the file. {_RE_RECORD}"
        )


# --- values ----------------------------------------------------------------------------------------------------------


def _dump(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)


def _encoded_lines(rows: RunRows, texts: dict[str, str]) -> list[bytes]:
    """Return the lines of a recording: rows without empty columns, with JSON columns as JSON, and hashes of long texts.

    The long texts are added to `texts` by hash.
    """
    lines: list[bytes] = []
    for table in KEYS:
        for row in rows[table]:
            encoded = {}
            for name, value in row.items():
                nested = _nested(value) if name.endswith("_json") and isinstance(value, str) else None
                if value is not None:
                    encoded[name] = _encoded(value if nested is None else nested, texts)
            lines.append(orjson.dumps({table: encoded}))
    return lines


def _nested(text: str) -> Any:
    """Return the value of a JSON text; None if the text cannot be reproduced from the value."""
    try:
        value = loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict | list) and orjson.dumps(value).decode() == text else None


def _encoded(value: Any, texts: dict[str, str]) -> Any:
    if isinstance(value, str):
        if len(value) < LONG_TEXT:
            return value
        key = sha256(value)
        texts[key] = value
        return {_TEXT: key}
    if isinstance(value, dict):
        encoded = {name: _encoded(item, texts) for name, item in value.items()}
        return {_LITERAL: encoded} if _TEXT in value or _LITERAL in value else encoded
    return [_encoded(item, texts) for item in value] if isinstance(value, list) else value


def _decoded(value: Any, texts: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        if set(value) == {_TEXT}:
            return texts[value[_TEXT]]
        inner = value[_LITERAL] if set(value) == {_LITERAL} else value
        return {name: _decoded(item, texts) for name, item in inner.items()}
    return [_decoded(item, texts) for item in value] if isinstance(value, list) else value


def _texts_of(value: Any) -> Iterator[str]:
    """Return the hash of each text to which a value refers; a hash can occur several times."""
    if isinstance(value, dict):
        if set(value) == {_TEXT}:
            yield value[_TEXT]
            return
        inner = value[_LITERAL] if set(value) == {_LITERAL} else value
        for item in inner.values():
            yield from _texts_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts_of(item)
