"""The sealed file of a run: a zip that a person can look into, and that is checked as a whole before it is used.

::

    manifest.json          what is in here, with the hash of each member and one over all of this
    question.md  report.md  artifacts/*        for reading
    cassette.jsonl         what came from outside, to run it again
    rows/*.jsonl           the run in the store
    sources.json  sources/*.txt                what was read, with where it was found
    metrics.json           what it cost

The hashes tell that nothing was changed since they were made. Who wants to change something can make them anew: publish
the manifest's own hash where nobody can change it, and compare.
"""

import hashlib
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

from artifactflow_nb import __version__
from artifactflow_nb.errors import CassetteError
from artifactflow_nb.formats.parts import Anchors, slug
from artifactflow_nb.recordings.bounded import is_shallow, loads
from artifactflow_nb.recordings.row_import import import_rows
from artifactflow_nb.recordings.rows import LATER_TABLES, TABLES, Row, Rows
from artifactflow_nb.recordings.scratch import empty_store
from artifactflow_nb.recordings.zipped import Flaw, Limits, read_bytes, unzip, write_bytes, zipped
from artifactflow_nb.store.schema import from_us

FORMAT, VERSION = "artifactflow-nb sealed run", 1

_MANIFEST = "manifest.json"
_ENDINGS = {
    "text/markdown": "md",
    "text/x-python": "py",
    "text/html": "html",
    "text/csv": "csv",
    "application/json": "json",
}
_MOST_NAME = 80
_MOST_ROWS = 1_000_000
_PRETTY = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
_LINE = orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE


@dataclass(frozen=True, slots=True)
class ReadSource:
    """A source as it was given to an agent.

    Attributes:
        address: What it was fetched and is cited by.
        uri: Where it came from: of a local source its file, of a page its address.
        title: Its title.
        text: What the agent saw of it.
    """

    address: str
    uri: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Parts:
    """What goes into a sealed file.

    Attributes:
        rows: The run in the store, masked and checked.
        cassette: The cassette of the run, as its file is.
        metrics: What the run cost, as plain JSON.
        sources: What was read.
    """

    rows: Rows
    cassette: bytes
    metrics: Mapping[str, Any]
    sources: tuple[ReadSource, ...]


@dataclass(frozen=True, slots=True)
class Sealed(Parts):
    """What came out of a sealed file, all of it checked.

    Attributes:
        manifest: What the file says of itself.
    """

    manifest: Mapping[str, Any]


def write_sealed(path: Path, parts: Parts, *, replace: bool = False) -> Path:
    """Write a sealed file, whole or not at all; the same parts give the same bytes.

    Args:
        path: The file.
        parts: What goes into it.
        replace: Take the place of a file that is there.

    Returns:
        Where it lies.

    Errors: `UsageError` with the path if there is such a file, or if it cannot be written.
    """
    return write_bytes(path, seal(parts), replace=replace)


def seal(parts: Parts) -> bytes:
    """The bytes of a sealed file."""
    members = _members(parts)
    return zipped({_MANIFEST: _dump(_manifest(parts.rows, members)), **members})


def read_sealed(path: Path, limits: Limits | None = None) -> Sealed:
    """Read a sealed file. Nothing of it is written anywhere, and nothing in it is run.

    Args:
        path: The file.
        limits: How large it may be; None for what a run can come to.

    Errors: `CassetteError` with the path, the member and what to do, for a file that is damaged, was changed, is of a
        newer release, or is none of ours.
    """
    limits = limits or Limits()
    try:
        return _checked(unzip(read_bytes(path, limits), limits))
    except Flaw as flaw:
        raise CassetteError(f"The sealed file {path} cannot be used: {flaw} Nothing of it was used.") from flaw


# --- parts and members -----------------------------------------------------------------------------------------------


def _members(parts: Parts) -> dict[str, bytes]:
    """The members by name, but for the manifest."""
    rows = parts.rows
    names = [f"sources/{number}.txt" for number in range(1, len(parts.sources) + 1)]
    listed = [_about(name, source) for name, source in zip(names, parts.sources, strict=True)]
    return {
        **_for_reading(rows),
        "cassette.jsonl": parts.cassette,
        "metrics.json": _dump(parts.metrics),
        "sources.json": _dump(listed),
        **{name: source.text.encode() for name, source in zip(names, parts.sources, strict=True)},
        **{
            _member_of(table): b"".join(orjson.dumps(row, option=_LINE) for row in rows[table])
            for table in TABLES
            if rows[table] or table not in LATER_TABLES
        },
    }


def _member_of(table: str) -> str:
    return f"rows/{table}.jsonl"


def _for_reading(rows: Rows) -> dict[str, bytes]:
    """What a person finds in the file: question, answer, artifacts."""
    names = Anchors()
    said = {"question.md": str(rows.run["question"]), "report.md": str(rows.message["response"] or "")}
    for row in rows["artifact_versions"]:
        ending = _ENDINGS.get(row["content_type"], "txt")
        name = names.unused(f"{slug(row['artifact_id'], 'artifact')[:_MOST_NAME]}.v{row['version']}")
        said[f"artifacts/{name}.{ending}"] = row["content"]
    return {name: text.encode() for name, text in said.items()}


def _about(name: str, source: ReadSource) -> dict[str, Any]:
    about = {"file": name, "address": source.address, "uri": source.uri, "title": source.title}
    return {**about, "sha256": _sha256(source.text.encode()), "characters": len(source.text)}


def _manifest(rows: Rows, members: Mapping[str, bytes]) -> dict[str, Any]:
    listed = {name: {"sha256": _sha256(data), "bytes": len(data)} for name, data in members.items()}
    run = {name: rows.run[name] for name in ("run_id", "question", "status", "flow")}
    times = {name: from_us(rows.run[name]).isoformat() for name in ("started_at", "completed_at")}
    told = {
        "format": FORMAT,
        "version": VERSION,
        "packages": _packages(),
        "run": {**run, **times},
        "schema": rows.schema,
        "members": listed,
    }
    return {**told, "sha256": _sha256(_dump(told))}


def _packages() -> dict[str, str]:
    others = {name: version(name) for name in ("langgraph", "openai")}
    return {"artifactflow-nb": __version__, "python": platform.python_version(), **others}


def _dump(value: Any) -> bytes:
    return orjson.dumps(value, option=_PRETTY)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- what was read ---------------------------------------------------------------------------------------------------


def _checked(members: Mapping[str, bytes]) -> Sealed:
    """The parts, once the manifest fits to them and they fit to each other."""
    manifest = _read_manifest(members)
    _compare(manifest["members"], members)
    rows = Rows(manifest["run"]["run_id"], manifest["schema"], dict(_read_tables(members)))
    with empty_store() as db:
        try:
            import_rows(db, rows, alone=True)
        except CassetteError as error:
            raise Flaw("rows", str(error)) from error
    parts = Parts(rows, members["cassette.jsonl"], _read(members, "metrics.json", dict), tuple(_read_sources(members)))
    again = _members(parts)
    for name in {**again, **members}:
        if name != _MANIFEST and again.get(name) != members.get(name):
            raise Flaw(name, "it does not fit to the other members.")
    if manifest != {**_manifest(rows, again), "packages": manifest["packages"], "sha256": manifest["sha256"]}:
        raise Flaw(_MANIFEST, "it does not tell what the other members hold.")
    return Sealed(parts.rows, parts.cassette, parts.metrics, parts.sources, manifest)


def _read_manifest(members: Mapping[str, bytes]) -> dict[str, Any]:
    manifest: dict[str, Any] = _read(members, _MANIFEST, dict)
    if manifest.get("format") != FORMAT:
        raise Flaw(_MANIFEST, "it is not that of a sealed run.", advice="Pass a file that run.seal(path) wrote.")
    found = manifest.get("version")
    if found != VERSION:
        newer = isinstance(found, int) and found > VERSION
        advice = "Update artifactflow-nb." if newer else None
        raise Flaw(_MANIFEST, f"it has the version {found!r:.40}, and {VERSION} is known.", advice=advice)
    told = {name: value for name, value in manifest.items() if name != "sha256"}
    if manifest.get("sha256") != _sha256(_dump(told)) or _dump(manifest) != members[_MANIFEST]:
        raise Flaw(_MANIFEST, "it is not what it was when its hash was made.")
    run, listed = manifest.get("run"), manifest.get("members")
    if not (isinstance(run, dict) and isinstance(listed, dict) and isinstance(manifest.get("packages"), dict)):
        raise Flaw(_MANIFEST, "it does not tell the run, the packages and the members.")
    if not (isinstance(run.get("run_id"), str) and isinstance(manifest.get("schema"), int)):
        raise Flaw(_MANIFEST, "it does not name the run and the schema of its rows.")
    return manifest


def _compare(listed: Mapping[str, Any], members: Mapping[str, bytes]) -> None:
    for name in sorted({*listed, *members} - {_MANIFEST}):
        if name not in members:
            raise Flaw(name, "it is missing.")
        if name not in listed:
            raise Flaw(name, "the manifest does not list it.")
        if listed[name] != {"sha256": _sha256(members[name]), "bytes": len(members[name])}:
            raise Flaw(name, "it is not what it was when the manifest was made.")
    needed = [_member_of(table) for table in TABLES if table not in LATER_TABLES]
    for name in ("cassette.jsonl", "metrics.json", "sources.json", *needed):
        if name not in members:
            raise Flaw(name, "it is missing.")


def _read(members: Mapping[str, bytes], name: str, kind: type) -> Any:
    if name not in members:
        raise Flaw(name, "it is missing.", advice="Pass a file that run.seal(path) wrote.")
    try:
        value = loads(members[name])
    except ValueError as error:
        raise Flaw(name, f"it cannot be read as JSON ({error}).") from error
    if not isinstance(value, kind):
        raise Flaw(name, f"it is a {type(value).__name__}, not a {kind.__name__}.")
    if name.endswith(".json") and not is_shallow(value):
        raise Flaw(name, "it is nested too deep.")
    return value


def _read_tables(members: Mapping[str, bytes]) -> Iterable[tuple[str, tuple[Row, ...]]]:
    found = {table: members.get(_member_of(table), b"") for table in TABLES}
    n_rows = sum(lines.count(b"\n") for lines in found.values())
    if n_rows > _MOST_ROWS:
        raise Flaw("rows", f"they are {n_rows:,}, and at most {_MOST_ROWS:,} are read.")
    for table, lines in found.items():
        name = _member_of(table)
        yield table, tuple(_read({name: line}, name, dict) for line in lines.split(b"\n")[:-1])


def _read_sources(members: Mapping[str, bytes]) -> Iterable[ReadSource]:
    for number, about in enumerate(_read(members, "sources.json", list), 1):
        names = ("address", "uri", "title")
        told = [about[name] for name in names if isinstance(about.get(name), str)] if isinstance(about, dict) else []
        data = members.get(f"sources/{number}.txt")
        if data is None or len(told) != len(names):
            raise Flaw("sources.json", f"its entry {number} does not tell a source that is in the file.")
        try:
            yield ReadSource(told[0], told[1], told[2], data.decode())
        except UnicodeDecodeError as error:
            raise Flaw(f"sources/{number}.txt", "it is no text in UTF-8.") from error
