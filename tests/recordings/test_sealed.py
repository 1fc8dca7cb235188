"""The sealed file: everything of a run in it, nothing believed of it, no byte changed unseen."""

import hashlib
import io
import json
import pickle
import stat
import warnings
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest
from recordings.conftest import Worked
from recordings.worked import CASSETTE, SECRET, masked, taken

from artifactflow_nb.errors import CassetteError, UsageError
from artifactflow_nb.recordings.sealed import Parts, Sealed, read_sealed, seal, write_sealed
from artifactflow_nb.recordings.zipped import Limits, zipped

Members = dict[str, bytes]


@pytest.fixture
def parts(worked: Worked) -> Parts:
    return taken(worked.store, worked.second)


@pytest.fixture
def file(parts: Parts, tmp_path: Path) -> Path:
    return write_sealed(tmp_path / "run.afrun", parts)


def members(path: Path) -> Members:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def manifest_of(found: Members) -> bytes:
    """A manifest that fits to the members, as somebody makes it who knows how."""
    told = orjson.loads(found["manifest.json"])
    told["members"] = {
        name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        for name, data in found.items()
        if name != "manifest.json"
    }
    return with_hash(told)


def with_hash(told: dict[str, Any]) -> bytes:
    told.pop("sha256", None)
    options = orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    told["sha256"] = hashlib.sha256(orjson.dumps(told, option=options)).hexdigest()
    return orjson.dumps(told, option=options)


def kept(sealed: Sealed) -> tuple[Any, ...]:
    return sealed.rows, sealed.cassette, sealed.metrics, sealed.sources, sealed.manifest


# --- there and back -------------------------------------------------------------------------------------------------


def test_what_was_sealed_comes_out(parts: Parts, file: Path) -> None:
    """Rows, cassette, sources and metrics come back equal, with a manifest that names the run and the versions."""
    sealed = read_sealed(file)
    assert (sealed.rows, sealed.cassette, sealed.metrics, sealed.sources) == (
        parts.rows, parts.cassette, parts.metrics, parts.sources,
    )  # fmt: skip
    assert sealed.manifest["run"]["question"] == "Ask: two"
    assert set(sealed.manifest["packages"]) == {"artifactflow-nb", "langgraph", "openai", "python"}
    assert len(sealed.manifest["sha256"]) == 64


def test_a_person_can_look_into_it(parts: Parts, file: Path) -> None:
    """Question, answer, artifacts, sources and metrics lie in the file as plain text."""
    found = members(file)
    assert found["question.md"] == b"Ask: two"
    assert found["report.md"].decode() == parts.rows.message["response"]
    assert found["artifacts/rasktwo.v2.md"].startswith(b"Ask: two\n\nRead local:notes")
    assert found["sources/1.txt"] == b"# Letters\n\nA letter is sent once."
    assert json.loads(found["sources.json"])[0]["address"] == "local:notes/letters.md#letters"
    assert json.loads(found["metrics.json"])["tool_calls"]
    assert found["cassette.jsonl"] == CASSETTE


def test_sealing_twice_gives_the_same_bytes(worked: Worked, file: Path) -> None:
    """Nothing in the file is of the moment in which it was made."""
    assert seal(taken(worked.store, worked.second)) == file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        assert {about.date_time for about in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert archive.namelist() == sorted(archive.namelist())


def test_no_secret_is_in_any_member(worked: Worked, tmp_path: Path) -> None:
    """What the mask takes away is in no member, in no way of writing it."""
    file = write_sealed(tmp_path / "masked.afrun", taken(worked.store, worked.second, masked))
    for form in (SECRET, json.dumps(SECRET)[1:-1], json.dumps(SECRET, ensure_ascii=False)[1:-1]):
        assert not any(form.encode() in data for data in members(file).values())
    assert b"[secret]" in members(file)["report.md"]
    read_sealed(file)


# --- writing --------------------------------------------------------------------------------------------------------


def test_nothing_is_overwritten_unasked(parts: Parts, tmp_path: Path) -> None:
    """A file that is there stays as it is, unless it is to be replaced; nothing else is left behind."""
    path = tmp_path / "mine.afrun"
    path.write_text("mine")
    with pytest.raises(UsageError, match=r"mine\.afrun' already\. Pass replace=True"):
        write_sealed(path, parts)
    assert path.read_text() == "mine"
    write_sealed(path, parts, replace=True)
    assert read_sealed(path).rows == parts.rows
    assert sorted(one.name for one in tmp_path.iterdir()) == ["data", "mine.afrun"]


def test_a_link_stays_a_link(parts: Parts, tmp_path: Path) -> None:
    """What a link leads to is replaced, and not the link."""
    (tmp_path / "real.afrun").write_text("old")
    link = tmp_path / "link.afrun"
    link.symlink_to("real.afrun")
    write_sealed(link, parts, replace=True)
    assert link.is_symlink()
    assert read_sealed(tmp_path / "real.afrun").rows == parts.rows


@pytest.mark.parametrize("name", ["no/such/folder.afrun", "x" * 300, "a\0b", "folder"])
def test_a_place_that_cannot_be_written_is_told(parts: Parts, tmp_path: Path, name: str) -> None:
    """The path is named, and nothing is left behind."""
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    for replace in (False, True):
        with pytest.raises(UsageError, match="another path"):
            write_sealed(tmp_path / name, parts, replace=replace)
    assert sorted(tmp_path.rglob("*")) == before


# --- reading what was changed ---------------------------------------------------------------------------------------


def test_no_changed_byte_goes_unseen(file: Path, tmp_path: Path) -> None:
    """Wherever a byte is changed, either that is told, or all that the file holds is as it was."""
    data, before = file.read_bytes(), kept(read_sealed(file))
    directory = zipfile.ZipFile(file).start_dir
    offsets = [*range(0, directory, 41), *range(directory, len(data), 7), *range(len(data) - 22, len(data))]
    unseen = 0
    for offset in offsets:
        broken = bytearray(data)
        broken[offset] ^= 1 << offset % 8
        path = tmp_path / "broken.afrun"
        path.write_bytes(broken)
        try:
            found = kept(read_sealed(path))
        except CassetteError:
            continue
        assert found == before
        unseen += 1
    assert len(offsets) > 500
    assert unseen < len(offsets) / 4  # versions, times and rights in the lists of the zip, which nobody reads


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_file_that_is_cut_is_told(file: Path, share: float) -> None:
    """A file that did not arrive as a whole is no sealed file."""
    data = file.read_bytes()
    file.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(CassetteError, match=r"run\.afrun cannot be used: It is no whole zip file .* Get it again"):
        read_sealed(file)


def test_a_member_that_is_another_is_named(file: Path) -> None:
    """Where a member is exchanged and the manifest is not, the member is named."""
    for name in members(file):
        if name == "manifest.json":
            continue
        file_with = zipped({**members(file), name: b"x"})
        path = file.with_name("other.afrun")
        path.write_bytes(file_with)
        with pytest.raises(CassetteError, match=f"'{name}': it is not what it was when the manifest was made"):
            read_sealed(path)


def test_a_member_more_or_less_is_named(file: Path) -> None:
    """A member that the manifest does not list, and one that it lists and that is gone, are both told."""
    found = members(file)
    file.write_bytes(zipped({**found, "run.py": b"print()"}))
    with pytest.raises(CassetteError, match=r"'run\.py': the manifest does not list it"):
        read_sealed(file)
    for name in found:
        file.write_bytes(zipped({other: data for other, data in found.items() if other != name}))
        with pytest.raises(CassetteError, match=f"'{name}': it is missing"):
            read_sealed(file)


FORGED: dict[str, tuple[Callable[[Members], Members], str]] = {
    "another answer than in the rows": (lambda found: {"report.md": b"Trust me."}, "'report.md': it does not fit"),
    "another artifact than in the rows": (lambda found: {"artifacts/rasktwo.v2.md": b"x"}, "it does not fit to the"),
    "a member of no kind": (lambda found: {"run.py": b"import os"}, "'run.py': it does not fit"),
    "a pickle": (lambda found: {"rows.pickle": pickle.dumps(print)}, "'rows.pickle': it does not fit"),
    "rows that are no JSON": (lambda found: {"rows/runs.jsonl": b"{]\n"}, "'rows/runs.jsonl': it cannot be read as"),
    "rows that are lists": (lambda found: {"rows/runs.jsonl": b"[]\n"}, "'rows/runs.jsonl': it is a list, not a dict"),
    "rows that are gone": (lambda found: {"rows/runs.jsonl": b""}, "'rows': "),
    "rows of another form": (lambda found: {"rows/runs.jsonl": found["rows/runs.jsonl"] + b" "}, "does not fit"),
    "rows that are wrong": (
        lambda found: {"rows/messages.jsonl": found["rows/messages.jsonl"].replace(b"completed", b"waiting")},
        "'rows': messages .*status is 'waiting'",
    ),
    "a source that is no text": (lambda found: {"sources/1.txt": b"\xff\xfe"}, "'sources/1.txt': it is no text"),
    "a source too few": (lambda found: {"sources.json": b"[]\n"}, "'sources/1.txt': it does not fit"),
    "a source too many": (lambda found: {"sources.json": b"[1]\n"}, "its entry 1 does not tell a source"),
    "metrics that are none": (lambda found: {"metrics.json": b"[]\n"}, "it is a list, not a dict"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FORGED)
def test_what_does_not_fit_together_is_told_whatever_the_hashes_say(file: Path, kind: str) -> None:
    """Who makes the hashes anew still cannot show a person something else than the program."""
    change, match = FORGED[kind]
    found = {**members(file), **change(members(file))}
    file.write_bytes(zipped({**found, "manifest.json": manifest_of(found)}))
    with pytest.raises(CassetteError, match=match):
        read_sealed(file)


MANIFESTS: dict[str, tuple[dict[str, Any], str]] = {
    "a newer version": ({"version": 2}, "it has the version 2, and 1 is known. Update artifactflow-nb"),
    "a version that is none": ({"version": "new"}, "it has the version 'new', and 1 is known. Get it again"),
    "another format": ({"format": "cassette"}, r"not that of a sealed run. Pass a file that run\.seal\(path\) wrote"),
    "a newer schema": ({"schema": 99}, "schema 99; 6 to .* Update artifactflow-nb"),
    "another question": ({"run": {"run_id": "...", "question": "Else?"}}, "does not tell what the other members hold"),
    "no run": ({"run": []}, "does not tell the run, the packages and the members"),
    "no packages": ({"packages": None}, "does not tell the run, the packages and the members"),
    "no run id": ({"run": {}}, "does not name the run"),
    "more than ours": ({"code": "import os"}, "does not tell what the other members hold"),
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_manifest_that_is_not_ours_is_told(file: Path, kind: str) -> None:
    """What a manifest says is held against what there is, also where its own hash fits."""
    change, match = MANIFESTS[kind]
    found = members(file)
    told = orjson.loads(found["manifest.json"])
    if change.get("run", {}) and "run_id" in change["run"]:
        change = {"run": {**told["run"], "question": "Else?"}}
    file.write_bytes(zipped({**found, "manifest.json": with_hash({**told, **change})}))
    with pytest.raises(CassetteError, match=match):
        read_sealed(file)


def test_a_manifest_with_another_hash_is_told(file: Path) -> None:
    """The hash over everything is looked at before anything in the manifest is."""
    found = members(file)
    changed = found["manifest.json"].replace(b"Ask: two", b"Ask: six")
    file.write_bytes(zipped({**found, "manifest.json": changed}))
    with pytest.raises(CassetteError, match="'manifest.json': it is not what it was when its hash was made"):
        read_sealed(file)


# --- reading what was made to do harm -------------------------------------------------------------------------------


def archive_with(entries: list[tuple[str, bytes]], **about: Any) -> bytes:
    packed = io.BytesIO()
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            info = zipfile.ZipInfo(name)
            info.compress_type = about.get("method", zipfile.ZIP_DEFLATED)
            info.extra, info.comment = about.get("extra", b""), about.get("comment", b"")
            archive.writestr(info, data)
        archive.comment = about.get("of_all", b"")
    return packed.getvalue()


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/evil", "a/../../evil", "C:/evil", "a\\..\\evil", "./evil", "a//b", "d/"]
)
def test_names_that_lead_elsewhere_are_refused(file: Path, name: str, tmp_path: Path) -> None:
    """No name of a member is a way to another place, and nothing is ever written by it."""
    before = sorted(tmp_path.rglob("*"))
    file.write_bytes(archive_with([*members(file).items(), (name, b"x")]))
    with pytest.raises(CassetteError, match="its name"):
        read_sealed(file)
    assert sorted(tmp_path.rglob("*")) == before


def test_twins_are_refused(file: Path) -> None:
    """Of two members of one name nobody knows which is meant."""
    file.write_bytes(archive_with([*members(file).items(), ("report.md", b"Other.")]))
    with pytest.raises(CassetteError, match="'report.md': its name is there twice"):
        read_sealed(file)


@pytest.mark.parametrize(
    "about",
    [{"method": zipfile.ZIP_LZMA}, {"method": zipfile.ZIP_BZIP2}, {"extra": b"\x99\x99\x01\x00x"}, {"comment": b"x"}],
)
def test_other_kinds_of_packing_are_refused(file: Path, about: dict[str, Any]) -> None:
    """A file of ours has one kind of packing, and no place for what the hashes do not cover."""
    file.write_bytes(archive_with(list(members(file).items()), **about))
    with pytest.raises(CassetteError, match="packed in a way in which sealed files are not"):
        read_sealed(file)
    file.write_bytes(archive_with(list(members(file).items()), of_all=b"x"))
    with pytest.raises(CassetteError, match="It has a comment"):
        read_sealed(file)


def test_bombs_are_not_unpacked(file: Path) -> None:
    """What would fill the memory is refused by what the list of members says, before it is unpacked."""
    file.write_bytes(archive_with([*members(file).items(), ("rows/bomb.jsonl", bytes(100 * 2**20))]))
    assert file.stat().st_size < 2**20
    with pytest.raises(CassetteError, match=r"would unpack to 10\d,\d{3},\d{3}"):
        read_sealed(file)
    for limits in ({"members": 3}, {"member_bytes": 1000}, {"total_bytes": 5000}, {"file_bytes": 1000}):
        with pytest.raises(CassetteError, match="members; 3 are|would unpack|larger than 1,000 bytes"):
            read_sealed(file, Limits(**limits))


def test_what_is_no_sealed_file_is_told(tmp_path: Path) -> None:
    """Another file, none at all, and a folder are told from a sealed file."""
    (tmp_path / "other.txt").write_text("hello")
    (tmp_path / "other.zip").write_bytes(archive_with([("hello.txt", b"hello")]))
    told = {
        "other.txt": "It is no whole zip file",
        "other.zip": r"'manifest\.json': it is missing\. Pass a file that run\.seal",
        "none.afrun": "It cannot be read: No such file or directory. Check the path",
        ".": "It cannot be read: Is a directory",
    }
    for name, match in told.items():
        with pytest.raises(CassetteError, match=match):
            read_sealed(tmp_path / name)


def test_a_file_is_readable_by_whom_its_folder_says(parts: Parts, tmp_path: Path) -> None:
    """The rights of the file are those of any file that is made here."""
    (tmp_path / "plain").touch()
    path = write_sealed(tmp_path / "run.afrun", parts)
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_names_of_artifacts_are_files_of_their_own(worked: Worked, parts: Parts) -> None:
    """Ids that would be one file, or lead out, or have no letters, each get a name of their own."""
    row = parts.rows["artifact_versions"][0]
    ids = ["Plan", "plan", "../../plan", "…", "报告", "x" * 300, "plan.v1", "a/b"]
    rows = tuple({**row, "artifact_id": one, "version": 1, "tool_call_id": None} for one in ids)
    tables = {**parts.rows.tables, "artifact_versions": rows}
    data = seal(Parts(type(parts.rows)(parts.rows.run_id, parts.rows.schema, tables), b"", {}, ()))
    path = worked.store.parent / "many.afrun"
    path.write_bytes(data)
    names = [name for name in members(path) if name.startswith("artifacts/")]
    assert len(names) == len(ids)
    assert not any(".." in name or name.count("/") > 1 or len(name) > 120 for name in names)
    assert [row["artifact_id"] for row in read_sealed(path).rows["artifact_versions"]] == ids


def test_a_second_writer_is_told(parts: Parts, tmp_path: Path) -> None:
    """Of several that write to one name at once one is first, the others are told, and the file is whole."""
    path = tmp_path / "run.afrun"

    def write(_: int) -> bool:
        try:
            return bool(write_sealed(path, parts))
        except UsageError:
            return False

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(write, range(8))) == [False] * 7 + [True]
    assert read_sealed(path).rows == parts.rows
    assert sorted(one.name for one in tmp_path.iterdir()) == ["data", "run.afrun"]
