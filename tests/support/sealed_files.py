"""Reading and rewriting sealed files, as an attacker who knows their format."""

import hashlib
import zipfile
from pathlib import Path
from typing import Any

import orjson

from artifactflow_nb.recording.files import pack

Members = dict[str, bytes]


def members_of(path: Path) -> Members:
    """The members of a file by their names."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def with_new_hashes(members: Members) -> bytes:
    """A file with these members and a matching manifest."""
    manifest = orjson.loads(members["manifest.json"])
    manifest["members"] = {
        name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        for name, data in members.items()
        if name != "manifest.json"
    }
    return pack({**members, "manifest.json": manifest_bytes(manifest)})


def manifest_bytes(manifest: dict[str, Any]) -> bytes:
    """Encode a manifest with the hash of its content."""
    options = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    content = {name: value for name, value in manifest.items() if name != "sha256"}
    digest = hashlib.sha256(orjson.dumps(content, option=options)).hexdigest()
    return orjson.dumps({**content, "sha256": digest}, option=options)


def cassette_with_new_hash(lines: list[bytes]) -> bytes:
    """A cassette with these lines, the last one replaced by the hash of the others."""
    body = b"".join(line + b"\n" for line in lines[:-1])
    return body + orjson.dumps({"sha256": hashlib.sha256(body).hexdigest()}) + b"\n"
