"""Sealed runs: one file with a run's rows, its sources and a manifest.

::

    manifest.json                         the run, the packages, the hash of each member, and `sha256` of all these
    question.md  report.md  artifacts/*   for reading
    rows.jsonl                            the run and the earlier runs of its branch, in the form of a cassette
    sources.json  sources/*.txt           the texts that agents read, with addresses
    local_sources.json                    the sections of local sources that were read or are cited, with metadata
    metrics.json                          tokens, times and costs

`sha256` is the hash of manifest.json without the line `sha256`. This hash covers the whole content of the file, because
the manifest has the hashes of all other members. Hashes reveal changes, but a person who changes the file can compute
new hashes: as a proof, publish `sealed.file_manifest["sha256"]` where nobody can change the hash, and compare.
"""

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from artifactflow_nb.core.local_files import is_shallow, loads, read_at_most, reason, shown_path
from artifactflow_nb.core.redaction.redactor import Redactor
from artifactflow_nb.engine.manifest import versions
from artifactflow_nb.errors import CassetteError
from artifactflow_nb.recording.cassette import Cassette, Head, one_recording
from artifactflow_nb.recording.files import Limits, find_member, pack, unpack, write_bytes
from artifactflow_nb.recording.rows import RunRows, load_branch_rows, redacted, redacted_json
from artifactflow_nb.recording.schema import LOCAL_SOURCES, check_ended, check_local_sources
from artifactflow_nb.sources.citations import documents_read, find_addresses
from artifactflow_nb.sources.formats.sections import AnchorAllocator, slug
from artifactflow_nb.sources.rows import RELATED_ADDRESSES, SCHEME
from artifactflow_nb.store.encoding import add_functions, insert, to_json
from artifactflow_nb.store.metrics import load_metrics
from artifactflow_nb.store.schema import KEYS, SCHEMA_VERSION, create_schema, from_microseconds

FORMAT = "artifactflow-nb sealed run"

_MANIFEST = "manifest.json"
ENDINGS = {"text/markdown": "md", "text/x-python": "py", "text/html": "html", "text/csv": "csv",
           "application/json": "json"}  # fmt: skip
_MAX_NAME_CHARS = 80
_MAX_LISTED_MEMBERS = 3
_FLAWS = (CassetteError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
_PRETTY = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


_QUERIES = {
    "sources": f"SELECT {', '.join(LOCAL_SOURCES['sources'])} FROM sources "  # noqa: S608 - constants
    "WHERE source_id IN (SELECT value FROM json_each(?)) ORDER BY source_id",
    "sections": f"SELECT {', '.join(LOCAL_SOURCES['sections'])} FROM sections "  # noqa: S608 - the same
    "WHERE source_id || '#' || anchor IN (SELECT value FROM json_each(?)) ORDER BY source_id, position",
    "source_metadata": f"SELECT {', '.join(LOCAL_SOURCES['source_metadata'])} FROM source_metadata "  # noqa: S608 - the same
    "WHERE source_id || '#' || anchor IN (SELECT value FROM json_each(?)) ORDER BY source_id, rowid",
}


@dataclass(frozen=True, slots=True)
class ReadSource:
    """A source with the text that an agent read.

    Attributes:
        address: The address by which the source was fetched and is cited.
        uri: The file of a local source; the address of a page.
    """

    address: str
    uri: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class SealedParts:
    """The content of a sealed file.

    Attributes:
        rows: The rows of the run and of the earlier runs of its branch.
        metrics: Tokens, times and costs, as plain JSON.
        local_sources: The rows of the local sources and sections that were read or are cited.
        packages: The versions of the packages with which the run was sealed.
    """

    rows: RunRows
    metrics: Mapping[str, Any]
    sources: tuple[ReadSource, ...]
    local_sources: Mapping[str, Any]
    packages: Mapping[str, str]


def load_parts(db: sqlite3.Connection, run_id: str, redactor: Redactor) -> SealedParts:
    """Load all data of a run that has ended, without secrets; `db` must be in one transaction.

    Errors: `NotFound` for an unknown run; `Conflict` if the run or an earlier run of its branch has not ended.
    """
    rows = load_branch_rows(db, run_id)
    sources, local = load_sources(db, rows)
    metrics = to_json(load_metrics(db, run_id, from_microseconds(rows.run["completed_at"])).as_json())
    masked = tuple(ReadSource(*(redactor.text(value) for value in asdict(source).values())) for source in sources)
    return SealedParts(
        redacted(rows, redactor),
        orjson.loads(redacted_json(metrics, redactor)),
        masked,
        orjson.loads(redacted_json(to_json(local), redactor)),
        dict(versions()),
    )


def load_sources(
    db: sqlite3.Connection, rows: RunRows
) -> tuple[tuple[ReadSource, ...], dict[str, list[dict[str, Any]]]]:
    """Load the sources of a run.

    Returns:
        The documents that agents read, and the rows of the tables `sources`, `sections` and `source_metadata` for each
        local source that was read, or that an answer or an artifact cites.
    """
    documents = documents_read(rows["tool_calls"])
    texts = [row["response"] or "" for row in rows["messages"]]
    texts += [row["content"] for row in rows["artifact_versions"]]
    addresses = [document.address for document in documents]
    addresses += [address for text in texts for address in find_addresses(text)]
    local = sorted({address.removeprefix(SCHEME) for address in addresses if address.startswith(SCHEME)})
    of_plugins = [address for find in RELATED_ADDRESSES.values() for address in find(db, addresses)]
    related = [address.removeprefix(SCHEME) for address in of_plugins]
    keys = {
        "sources": [address.partition("#")[0] for address in (*local, *related)],
        "sections": local,
        "source_metadata": [address if "#" in address else f"{address}#" for address in related],
    }
    tables = {name: [dict(row) for row in db.execute(sql, (to_json(keys[name]),))] for name, sql in _QUERIES.items()}
    files = {row["source_id"]: row["uri"] for row in tables["sources"]}
    read = []
    for each in documents:
        uri = files.get(each.address.removeprefix(SCHEME).partition("#")[0], each.address)
        read.append(ReadSource(each.address, uri, each.title, each.text))
    return tuple(read), tables


def write_sealed(path: Path, parts: SealedParts, *, replace: bool = False) -> Path:
    """Write a sealed file atomically; `UsageError` if a file exists and must not be replaced."""
    return write_bytes(path, sealed_bytes(parts), replace=replace)


def sealed_bytes(parts: SealedParts, limits: Limits | None = None) -> bytes:
    """Build the bytes of a sealed file; equal parts give equal bytes.

    Errors: `CassetteError` with the largest members, for parts that `read_sealed` would reject.
    """
    members: dict[str, bytes] = {}
    try:
        check_ended(parts.rows)
        members = _members(parts)
        data = pack({_MANIFEST: _dump(_manifest(parts, members)), **members})
        _checked(unpack(data, limits))
    except _FLAWS as error:
        largest = sorted(members, key=lambda name: len(members[name]), reverse=True)[:_MAX_LISTED_MEMBERS]
        sizes = ", ".join(f"{name} ({len(members[name]):,} bytes)" for name in largest)
        advice = f"Its largest members: {sizes}. " if sizes else ""
        raise CassetteError(
            f"The run cannot be sealed, since af.open_run would reject the file: {error!s:.400} {advice}"
            "Nothing was written."
        ) from error
    return data


def read_sealed(path: Path, limits: Limits | None = None) -> tuple[SealedParts, Mapping[str, Any]]:
    """Read the parts and the manifest of a sealed file. No part is written to disk or executed.

    Errors: `CassetteError` with the path, the member and what to do, for a file that is damaged, was changed, comes
    from another release, or is not a sealed run.
    """
    limits, name = limits or Limits(), shown_path(path)
    try:
        data = read_at_most(path, limits.file_bytes)
    except OSError as error:
        raise CassetteError(f"The sealed file {name} cannot be read: {reason(error)}. Check the path.") from error
    try:
        return _checked(unpack(data, limits))
    except _FLAWS as error:
        problem: str | None = None
        with suppress(*_FLAWS):  # another release may pack members in another way
            manifest = loads(find_member(data, _MANIFEST, limits))
            problem = _version_problem(manifest["version"]) if manifest["format"] == FORMAT else None
        problem = problem or f"{error!s:.400}"
        raise CassetteError(f"The sealed file {name} cannot be used: {problem} Nothing was loaded.") from error


@contextmanager
def memory_store(parts: SealedParts) -> Iterator[sqlite3.Connection]:
    """Create a store in memory with the parts."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        db.row_factory = sqlite3.Row
        add_functions(db)
        write_store(db, parts)
        yield db


def write_store(db: sqlite3.Connection, parts: SealedParts) -> None:
    """Write the parts into an empty store for reading; `CassetteError` for rows that contradict each other."""
    create_schema(db)
    db.execute("BEGIN")
    try:
        for table in KEYS:
            for row in parts.rows[table]:
                insert(db, table, row)
        for table in LOCAL_SOURCES:
            for row in parts.local_sources[table]:
                insert(db, table, row)
    except sqlite3.Error as error:
        raise CassetteError(f"The rows contradict each other ({table}: {error}): seal the run again.") from error
    db.execute("COMMIT")


def _checked(members: Mapping[str, bytes]) -> tuple[SealedParts, Mapping[str, Any]]:
    """Return the parts and the manifest; `CassetteError` if manifest and members do not match."""
    if _MANIFEST not in members:
        raise CassetteError(f"{_MANIFEST} is missing. Pass a file that run.seal(path) wrote.")
    manifest = _json(members, _MANIFEST, dict)
    if manifest.get("format") != FORMAT:
        raise CassetteError(f"{_MANIFEST} is not the manifest of a sealed run. Pass a file that run.seal(path) wrote.")
    if problem := _version_problem(manifest.get("version")):
        raise CassetteError(problem)
    hashes, packages = manifest.get("members"), manifest.get("packages")
    if not isinstance(hashes, dict) or not isinstance(packages, dict):
        raise CassetteError(f"{_MANIFEST} does not list the packages and the members.")
    for name in sorted({*hashes, *members} - {_MANIFEST}):
        if name not in members or name not in hashes or hashes[name] != _digest(members[name]):
            raise CassetteError(f"{name!a:.120} differs from its hash in the manifest.")
    sources = []
    for number, entry in enumerate(_json(members, "sources.json", list), 1):
        values = entry if isinstance(entry, dict) else {}
        about: dict[str, Any] = {name: values.get(name) for name in ("address", "uri", "title")}
        text = members.get(f"sources/{number}.txt")
        if text is None or not all(isinstance(value, str) for value in about.values()):
            raise CassetteError(f"Entry {number} of sources.json describes no source.")
        sources.append(ReadSource(**about, text=text.decode()))
    cassette = Cassette.parse(Path("rows.jsonl"), members["rows.jsonl"])
    (head,) = cassette.heads
    parts = SealedParts(
        check_ended(cassette.rows(head)),
        _json(members, "metrics.json", dict),
        tuple(sources),
        check_local_sources(_json(members, "local_sources.json", dict)),
        packages,
    )
    again = _members(parts)
    for name in sorted({*again, *members} - {_MANIFEST}):
        if again.get(name) != members.get(name):
            raise CassetteError(f"{name!a:.120} contradicts the other members. Seal the run again.")
    if _dump(_manifest(parts, again)) != members[_MANIFEST]:
        raise CassetteError(f"{_MANIFEST} does not describe the other members.")
    return parts, manifest


def _version_problem(version: Any) -> str | None:
    if version == SCHEMA_VERSION:
        return None
    return (
        f"{_MANIFEST} has the version {version!r:.40}, and this release reads version {SCHEMA_VERSION} only. Open "
        "the file with the release that sealed the run."
    )


def _json(members: Mapping[str, bytes], name: str, kind: type) -> Any:
    if name not in members:
        raise CassetteError(f"{name} is missing.")
    try:
        value = loads(members[name])
    except ValueError as error:
        raise CassetteError(f"{name} is not JSON ({error!s:.100}).") from error
    if not is_shallow(value):
        raise CassetteError(f"{name} is nested too deeply.")
    if not isinstance(value, kind):
        raise CassetteError(f"{name} is not {'an object' if kind is dict else 'a list'}.")
    return value


# --- members ---------------------------------------------------------------------------------------------------------


def _members(parts: SealedParts) -> dict[str, bytes]:
    rows, run = parts.rows, parts.rows.run
    names = AnchorAllocator()
    texts = {"question.md": str(run["question"]), "report.md": str(rows.message["response"] or "")}
    for row in rows["artifact_versions"]:
        ending = ENDINGS.get(row["content_type"], "txt")
        name = names.allocate(f"{slug(row['artifact_id'], 'artifact')[:_MAX_NAME_CHARS]}.v{row['version']}")
        texts[f"artifacts/{name}.{ending}"] = row["content"]
    sources = []
    for n, source in enumerate(parts.sources, 1):
        file = f"sources/{n}.txt"
        texts[file] = source.text
        about = _digest(source.text.encode())
        sources.append({"file": file, "address": source.address, "uri": source.uri, "title": source.title, **about})
    return {
        **{name: text.encode() for name, text in texts.items()},
        "rows.jsonl": one_recording(Head.of("", rows), rows),
        "metrics.json": _dump(parts.metrics),
        "sources.json": _dump(sources),
        "local_sources.json": _dump(parts.local_sources),
    }


def _manifest(parts: SealedParts, members: Mapping[str, bytes]) -> dict[str, Any]:
    row = parts.rows.run
    run = {name: row[name] for name in ("run_id", "question", "status", "flow")}
    times = {name: from_microseconds(row[name]).isoformat() for name in ("started_at", "completed_at")}
    manifest = {
        "format": FORMAT,
        "version": SCHEMA_VERSION,
        "packages": dict(parts.packages),
        "run": {**run, **times},
        "members": {name: _digest(data) for name, data in members.items()},
    }
    return {**manifest, "sha256": hashlib.sha256(_dump(manifest)).hexdigest()}


def _digest(data: bytes) -> dict[str, Any]:
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def _dump(value: Any) -> bytes:
    return orjson.dumps(value, option=_PRETTY)
