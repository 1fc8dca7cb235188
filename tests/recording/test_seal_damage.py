"""A sealed file that is damaged, changed or built to do harm is refused with the member and advice."""

import hashlib
import io
import pickle
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from recording.conftest import SampleStore
from support.cpu_time import within
from support.sealed_files import Members, cassette_with_new_hash, manifest_bytes, members_of, with_new_hashes
from support.sealed_store import sealed_parts

from artifactflow_nb.errors import CassetteError
from artifactflow_nb.recording.files import Limits, find_member, pack, unpack
from artifactflow_nb.recording.seal import read_sealed, write_sealed


@pytest.fixture
def file(samples: SampleStore, tmp_path: Path) -> Path:
    return write_sealed(tmp_path / "run.afrun", sealed_parts(samples.path, samples.second))


# --- damage ----------------------------------------------------------------------------------------------------------


def test_every_changed_byte_is_noticed(file: Path) -> None:
    """Headers and names are changed byte by byte, the rest in steps; bytes are added around and within the file."""
    data = file.read_bytes()
    directory = data.index(b"PK\x01\x02")
    places = {*range(64), *range(64, directory, 97), *range(directory, len(data), 3), *range(len(data) - 22, len(data))}
    for at in sorted(places):
        file.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        with pytest.raises(CassetteError):
            read_sealed(file)
    for changed in (data + b"\0", b"\0" + data, data[:-1], data[:directory] + b"gap" + data[directory:], data + data):
        file.write_bytes(changed)
        with pytest.raises(CassetteError):
            read_sealed(file)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_cut_file_is_refused(file: Path, share: float) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(
        CassetteError, match=r"run\.afrun cannot be used: The file (is not a complete zip|was modified).* Obtain"
    ):
        read_sealed(file)


def test_exchanged_member_is_named(file: Path) -> None:
    members = members_of(file)
    for name in set(members) - {"manifest.json"}:
        file.write_bytes(pack({**members, name: b"x"}))
        with pytest.raises(CassetteError, match=f"'{name}' differs from its hash in the manifest"):
            read_sealed(file)


def test_added_and_missing_members_are_named(file: Path) -> None:
    members = members_of(file)
    file.write_bytes(pack({**members, "run.py": b"print()"}))
    with pytest.raises(CassetteError, match=r"'run\.py' differs from its hash"):
        read_sealed(file)
    for name in members:
        file.write_bytes(pack({other: data for other, data in members.items() if other != name}))
        with pytest.raises(CassetteError, match=f"{name}'? (is missing|differs from)"):
            read_sealed(file)


def test_other_files_are_distinguished_from_sealed_files(tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("hello")
    (tmp_path / "other.zip").write_bytes(pack({"hello.txt": b"hello"}))
    (tmp_path / "foreign.zip").write_bytes(archive([("manifest.json", b'{"format": "wheel"}')]))
    problems = {
        "other.txt": "The file is not a complete zip file",
        "other.zip": r"manifest\.json is missing\. Pass a file that run\.seal",
        "foreign.zip": "some bytes were changed",
        "none.afrun": "cannot be read: No such file or directory. Check the path",
        ".": "cannot be read: it is a folder, not a file",
    }
    for name, match in problems.items():
        with pytest.raises(CassetteError, match=match):
            read_sealed(tmp_path / name)


def test_file_of_another_version_says_what_to_do(tmp_path: Path) -> None:
    """Another release may pack the members in another way."""
    path = tmp_path / "old.afrun"
    path.write_bytes(archive([("manifest.json", b'{"format": "artifactflow-nb sealed run", "version": 2}')]))
    with pytest.raises(CassetteError, match=r"version 2, .* reads version 1 only\. Open the file with the release"):
        read_sealed(path)


# --- changes with hashes that fit ------------------------------------------------------------------------------------


def edited_rows(old: bytes, new: bytes, *, line: int | None = None) -> Callable[[Members], Members]:
    """Change the member with the rows and update its hash."""

    def change(members: Members) -> Members:
        lines = members["rows.jsonl"].splitlines()
        changed = [text.replace(old, new) if line in {None, n} else text for n, text in enumerate(lines)]
        assert changed != lines
        return {"rows.jsonl": cassette_with_new_hash(changed)}

    return change


def local_sources(**changes: Any) -> Callable[[Members], Members]:
    def change(members: Members) -> Members:
        tables = orjson.loads(members["local_sources.json"])
        row = {**tables["sources"][0], **changes}
        tables["sources"] = [{name: value for name, value in row.items() if value is not ...}]
        return {"local_sources.json": orjson.dumps(tables)}

    return change


FORGED: dict[str, tuple[Callable[[Members], Members], str]] = {
    "another answer than in the rows": (lambda _: {"report.md": b"Trust me."}, "'report.md' contradicts"),
    "another artifact": (lambda _: {"artifacts/rasktwo.v2.md": b"x"}, "'artifacts/rasktwo.v2.md' contradicts"),
    "a member of no kind": (lambda _: {"run.py": b"import os"}, "'run.py' contradicts"),
    "a pickle": (lambda _: {"rows.pickle": pickle.dumps(print)}, "'rows.pickle' contradicts"),
    "rows that are not JSON": (lambda _: {"rows.jsonl": b"{]\n"}, "rows.jsonl is not a cassette"),
    "no rows": (lambda _: {"rows.jsonl": b""}, "rows.jsonl is not a cassette"),
    "rows with another hash": (
        lambda found: {"rows.jsonl": found["rows.jsonl"] + b" "}, "rows.jsonl was modified",
    ),
    "a run that waits": (edited_rows(b'"status":"completed"', b'"status":"waiting"'), "the status is 'waiting'"),
    "a key with no run": (edited_rows(b'"key":""', b'"key":"x"', line=1), "'rows.jsonl' contradicts"),
    "a source that is not a text": (lambda _: {"sources/1.txt": b"\xff\xfe"}, "invalid start byte"),
    "a source too few": (lambda _: {"sources.json": b"[]\n"}, "'sources/1.txt' contradicts"),
    "a source too many": (lambda _: {"sources.json": b"[1]\n"}, "Entry 1 of sources.json describes no source"),
    "a source without its text": (
        lambda found: {"sources.json": orjson.dumps(orjson.loads(found["sources.json"]) * 2)},
        "Entry 2 of sources.json describes no source",
    ),
    "a source of no address": (
        lambda found: {"sources.json": found["sources.json"].replace(b'"address": "', b'"address": 5, "x": "')},
        "Entry 1 of sources.json describes no source",
    ),
    "metrics that are a list": (lambda _: {"metrics.json": b"[]\n"}, "metrics.json is not an object"),
    "metrics that are not JSON": (lambda _: {"metrics.json": b"{"}, "metrics.json is not JSON"),
    "deep metrics": (lambda _: {"metrics.json": b'{"a":' * 150 + b"1" + b"}" * 150}, "nested too deeply"),
    "a list of sources": (lambda _: {"local_sources.json": b"[]\n"}, "sources.json is not an object"),
    "another table": (
        lambda _: {"local_sources.json": b'{"runs": []}\n'},
        "The tables of local_sources.json are not sources, sections, source_metadata",
    ),
    "another column": (local_sources(mtime_ns=1), "sources.0.mtime_ns: Extra inputs"),
    "a column that is SQL": (
        local_sources(**{"uri) SELECT sql FROM sqlite_master --": "x"}), "Extra inputs are not permitted",
    ),
    "a column less": (local_sources(title=...), "sources.0.title: Field required"),
    "a column of another type": (local_sources(n_chars="1"), "sources.0.n_chars: Input should be a valid integer"),
    "a manifest of a list": (lambda _: {"manifest.json": b"[]"}, "manifest.json is not an object"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FORGED)
def test_members_that_contradict_each_other_are_refused(file: Path, kind: str) -> None:
    """The file is refused even with matching hashes: a person and a program always read the same text."""
    change, match = FORGED[kind]
    members = {**members_of(file), **change(members_of(file))}
    file.write_bytes(pack(members) if members["manifest.json"] == b"[]" else with_new_hashes(members))
    with pytest.raises(CassetteError, match=match):
        read_sealed(file)


MANIFESTS: dict[str, tuple[dict[str, Any], str]] = {
    "another version": ({"version": 2}, "has the version 2, and this release reads version 1 only. Open the file with"),
    "another format": (
        {"format": "cassette"},
        r"not the manifest of a sealed run. Pass a file that run\.seal\(path\) wrote",
    ),
    "another question": ({"run": {"run_id": "...", "question": "Else?"}}, "does not describe the other members"),
    "no run": ({"run": []}, "does not describe the other members"),
    "no packages": ({"packages": None}, "does not list the packages and the members"),
    "no members": ({"members": []}, "does not list the packages and the members"),
    "more than ours": ({"code": "import os"}, "does not describe the other members"),
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_manifest_that_does_not_describe_the_file_is_refused(file: Path, kind: str) -> None:
    """The file is refused even with a matching hash."""
    change, match = MANIFESTS[kind]
    members = members_of(file)
    manifest = manifest_bytes({**orjson.loads(members["manifest.json"]), **change})
    file.write_bytes(pack({**members, "manifest.json": manifest}))
    with pytest.raises(CassetteError, match=match):
        read_sealed(file)


def test_manifest_with_another_hash_is_refused(file: Path) -> None:
    members = members_of(file)
    changed = members["manifest.json"].replace(b"Ask: two", b"Ask: six")
    file.write_bytes(pack({**members, "manifest.json": changed}))
    with pytest.raises(CassetteError, match="manifest.json does not describe the other members"):
        read_sealed(file)


# --- files that are made to do harm ----------------------------------------------------------------------------------


def archive(entries: list[tuple[str, bytes]], **about: Any) -> bytes:
    """A zip file as Python's own module writes it."""
    packed = io.BytesIO()
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in entries:
            info = zipfile.ZipInfo(name)
            info.compress_type = about.get("method", zipfile.ZIP_DEFLATED)
            info.extra, info.comment = about.get("extra", b""), about.get("comment", b"")
            target.writestr(info, data)
        target.comment = about.get("archive_comment", b"")
    return packed.getvalue()


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/evil", "a/../../evil", "C:/evil", "a\\..\\evil", "./evil", "a//b", "d/"]
)
def test_member_name_that_leads_elsewhere_is_refused(file: Path, name: str, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    file.write_bytes(archive([*members_of(file).items(), (name, b"x")]))
    with pytest.raises(CassetteError, match="is outside of the archive"):
        read_sealed(file)
    assert sorted(tmp_path.rglob("*")) == before


def test_duplicate_member_is_refused(file: Path) -> None:
    file.write_bytes(archive([*members_of(file).items(), ("report.md", b"Other.")]))
    with pytest.raises(CassetteError, match=r"The name 'report.md' .* occurs twice"):
        read_sealed(file)


@pytest.mark.parametrize(
    "about",
    [
        {"method": zipfile.ZIP_LZMA},
        {"method": zipfile.ZIP_BZIP2},
        {"method": zipfile.ZIP_STORED},
        {"extra": b"\x99\x99\x01\x00x"},
        {"comment": b"x"},
        {"archive_comment": b"x"},
    ],
)
def test_other_zip_encodings_are_refused(file: Path, about: dict[str, Any]) -> None:
    """A sealed file contains no bytes that the hashes do not cover."""
    file.write_bytes(archive(list(members_of(file).items()), **about))
    with pytest.raises(CassetteError, match="compressed with an unknown method|some bytes were changed"):
        read_sealed(file)


def test_bomb_is_refused_before_it_is_unpacked(file: Path) -> None:
    file.write_bytes(pack({**members_of(file), "bomb": bytes(100 * 2**20)}))
    assert file.stat().st_size < 2**20
    with pytest.raises(CassetteError, match=r"would unpack to 10\d,\d{3},\d{3}"):
        read_sealed(file)
    file.write_bytes(pack(members_of(file)))
    for limits in ({"members": 3}, {"total_bytes": 5000}, {"file_bytes": 1000}):
        with pytest.raises(CassetteError, match="exceeds the limit"):
            read_sealed(file, Limits(**limits))


@pytest.mark.timed
def test_bomb_whose_header_lies_is_not_unpacked() -> None:
    """No more of a member is unpacked than the size in its header."""
    data = pack({"bomb": bytes(300 * 2**20)})
    size = struct.pack("<L", 300 * 2**20)
    assert data.count(size) == 2
    content = data.replace(size, struct.pack("<L", 10))[:-64]
    for attempt in within(0.5):
        with attempt, pytest.raises(CassetteError, match="'bomb' is damaged .Bad CRC"):
            unpack(content + hashlib.sha256(content).hexdigest().encode())


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_member_that_unpacks_without_a_limit_is_refused(method: int) -> None:
    with pytest.raises(CassetteError, match="'a' is compressed with an unknown method"):
        find_member(archive([("a", bytes(1000))], method=method), "a")


def test_changed_padding_bit_is_noticed() -> None:
    """Some bits of the last byte of a compressed member do not change its content."""
    data = pack({"a": b"content"})
    last = data.index(b"PK\x01\x02") - 1
    changed = data[:last] + bytes([data[last] ^ 128]) + data[last + 1 :]
    with zipfile.ZipFile(io.BytesIO(changed)) as found:
        assert found.read("a") == b"content"
    with pytest.raises(CassetteError, match="some bytes were changed"):
        unpack(changed)
