"""A sealed run is one file: it is read back completely, and no file is written that cannot be opened."""

import json
import stat
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from conftest import OpenWorkbench
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recording.conftest import SampleStore
from support.sealed_files import members_of
from support.sealed_store import SECRET, sealed_parts

import artifactflow_nb as af
from artifactflow_nb.core.messages import ToolCall
from artifactflow_nb.errors import CassetteError, UsageError
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recording.files import Limits
from artifactflow_nb.recording.rows import RunRows
from artifactflow_nb.recording.seal import ReadSource, SealedParts, read_sealed, sealed_bytes, write_sealed


@pytest.fixture
def parts(samples: SampleStore) -> SealedParts:
    return sealed_parts(samples.path, samples.second)


@pytest.fixture
def file(parts: SealedParts, tmp_path: Path) -> Path:
    return write_sealed(tmp_path / "run.afrun", parts)


def test_parts_of_a_sealed_run_are_read_back(parts: SealedParts, file: Path) -> None:
    """The parts are rows, sources and metrics, with a manifest that names the run and the releases."""
    found, manifest = read_sealed(file)
    assert found == parts
    assert found.local_sources["sections"][0]["text"] == "# Letters\n\nA letter is sent once."
    assert manifest["run"]["question"] == "Ask: two"
    assert {"artifactflow-nb", "langgraph", "openai", "python"} <= set(manifest["packages"])


def test_hash_of_the_manifest_covers_everything_else_in_the_file(file: Path) -> None:
    """The hash can be computed without the package, and each other member is listed with a hash."""
    members = members_of(file)
    manifest = json.loads(members.pop("manifest.json"))
    stored = manifest.pop("sha256")
    text = json.dumps(manifest, sort_keys=True, indent=2, ensure_ascii=False) + "\n"
    assert sha256(text.encode()).hexdigest() == stored
    assert {name: entry["sha256"] for name, entry in manifest["members"].items()} == {
        name: sha256(data).hexdigest() for name, data in members.items()
    }


def test_sealed_run_is_a_zip_file_that_a_person_can_read(parts: SealedParts, file: Path) -> None:
    """The file contains question, answer, artifacts, sources and metrics as plain text."""
    found = members_of(file)
    assert found["question.md"] == b"Ask: two"
    assert found["report.md"].decode() == parts.rows.message["response"]
    assert found["artifacts/rasktwo.v2.md"].startswith(b"Ask: two\n\nRead local:notes")
    assert found["sources/1.txt"] == b"# Letters\n\nA letter is sent once."
    assert json.loads(found["sources.json"])[0]["address"] == "local:notes/letters.md#letters"
    assert json.loads(found["metrics.json"])["tool_calls"]
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None


def test_sealing_twice_gives_the_same_bytes(samples: SampleStore, file: Path) -> None:
    """The bytes depend neither on the time nor on reading the file in between."""
    assert sealed_bytes(sealed_parts(samples.path, samples.second)) == file.read_bytes()
    assert sealed_bytes(read_sealed(file)[0]) == file.read_bytes()
    with zipfile.ZipFile(file) as archive:
        assert {about.date_time for about in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert archive.namelist() == sorted(archive.namelist())


def test_known_secret_is_in_no_member(samples: SampleStore, tmp_path: Path) -> None:
    """JSON escapes are searched, too."""
    file = write_sealed(tmp_path / "redacted.afrun", sealed_parts(samples.path, samples.second, SECRET))
    for spelling in (SECRET, json.dumps(SECRET)[1:-1], json.dumps(SECRET, ensure_ascii=False)[1:-1]):
        assert not any(spelling.encode() in data for data in members_of(file).values())
    assert b"[secret]" in members_of(file)["report.md"]
    read_sealed(file)


def test_artifact_ids_become_distinct_file_names(parts: SealedParts) -> None:
    """Ids may collide as file names, lead out of the folder, be too long, or have no letters."""
    row = parts.rows["artifact_versions"][0]
    ids = ["Plan", "plan", "../../plan", "…", "报告", "x" * 300, "plan.v1", "a/b"]
    versions = tuple({**row, "artifact_id": entry, "version": 1, "tool_call_id": None} for entry in ids)
    rows = RunRows(parts.rows.run_id, {**parts.rows.tables, "artifact_versions": versions})
    path = Path("many.afrun").absolute()
    path.write_bytes(sealed_bytes(replace(parts, rows=rows)))
    names = [name for name in members_of(path) if name.startswith("artifacts/")]
    assert len(names) == len(ids)
    assert not any(".." in name or name.count("/") > 1 or len(name) > 120 for name in names)
    assert [row["artifact_id"] for row in read_sealed(path)[0].rows["artifact_versions"]] == ids


# --- writing ---------------------------------------------------------------------------------------------------------


def test_existing_file_is_replaced_only_on_request(parts: SealedParts, tmp_path: Path) -> None:
    """Nothing else is left behind."""
    path = tmp_path / "mine.afrun"
    path.write_text("mine")
    with pytest.raises(UsageError, match=r"mine\.afrun' already\. Pass replace=True"):
        write_sealed(path, parts)
    assert path.read_text() == "mine"
    write_sealed(path, parts, replace=True)
    assert read_sealed(path)[0].rows == parts.rows
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["data", "mine.afrun"]


def test_replacing_through_a_link_keeps_the_link(parts: SealedParts, tmp_path: Path) -> None:
    (tmp_path / "real.afrun").write_text("old")
    link = tmp_path / "link.afrun"
    link.symlink_to("real.afrun")
    write_sealed(link, parts, replace=True)
    assert link.is_symlink()
    assert read_sealed(tmp_path / "real.afrun")[0].rows == parts.rows


@pytest.mark.parametrize("name", ["no/such/folder.afrun", "x" * 300, "a\0b", "folder"])
def test_path_that_cannot_be_written_is_named_and_nothing_is_left(
    parts: SealedParts, tmp_path: Path, name: str
) -> None:
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    for is_replaced in (False, True):
        with pytest.raises(UsageError, match="another path"):
            write_sealed(tmp_path / name, parts, replace=is_replaced)
    assert sorted(tmp_path.rglob("*")) == before


def test_sealed_file_has_the_rights_of_any_new_file(parts: SealedParts, tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    path = write_sealed(tmp_path / "run.afrun", parts)
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_one_of_several_parallel_writers_succeeds(parts: SealedParts, tmp_path: Path) -> None:
    path = tmp_path / "run.afrun"

    def write(_: int) -> bool:
        try:
            return bool(write_sealed(path, parts))
        except UsageError:
            return False

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(write, range(8))) == [False] * 7 + [True]
    assert read_sealed(path)[0].rows == parts.rows
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["data", "run.afrun"]


# --- nothing is written that opening refuses -------------------------------------------------------------------------

LIMITS = {
    "file": (Limits(file_bytes=1000), r"The file has more than 1,000 bytes"),
    "members": (Limits(members=3), r"\d+ members, which exceeds the limit"),
    "total": (Limits(total_bytes=5000), r"bytes of the file would unpack to"),
    "ratio": (Limits(free_bytes=1, ratio=1), r"bytes of the file would unpack to"),
}


@pytest.mark.parametrize("limit", list(LIMITS))
def test_sealing_refuses_a_run_that_could_not_be_opened_again(parts: SealedParts, limit: str) -> None:
    limits, problem = LIMITS[limit]
    match = rf"cannot be sealed, since af\.open_run would reject .*{problem}.* Its largest members: .*\([\d,]+ bytes\)"
    with pytest.raises(CassetteError, match=match):
        sealed_bytes(parts, limits)


def test_refused_run_leaves_the_existing_file(parts: SealedParts, tmp_path: Path) -> None:
    path = write_sealed(tmp_path / "run.afrun", parts)
    before = path.read_bytes()
    deep = {"a": eval("[" * 150 + "]" * 150)}  # noqa: S307 - brackets
    for odd, problem in (
        (replace(parts, metrics=deep), r"metrics\.json is nested too deeply"),
        (replace(parts, sources=(ReadSource("a", "u", "t", "\ud800"),)), "surrogates not allowed"),
        (replace(parts, metrics={"n": 2**70}), "64-bit"),
    ):
        with pytest.raises(CassetteError, match=rf"{problem}.*Nothing was written"):
            write_sealed(path, odd, replace=True)
        assert path.read_bytes() == before
    assert list(tmp_path.glob("*.part")) == []


def nested(depth: int) -> Any:
    return {"a": nested(depth - 1)} if depth else 2**63


TEXTS = st.one_of(
    st.text(st.characters(), max_size=20),
    st.sampled_from(["", "\0", "\ud800 \udfff", "x" * 100_000, '",[{' * 50_000, "\n\r\u2028"]),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**24), 10**24) | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(question=TEXTS, answer=TEXTS, value=VALUES, result=TEXTS, depth=st.integers(0, 120), metadata=VALUES)
def test_run_with_any_texts_and_values_can_be_sealed_and_opened(
    tmp_path_factory: pytest.TempPathFactory,
    question: str,
    answer: str,
    value: Any,
    result: str,
    depth: int,
    metadata: Any,
) -> None:
    folder = tmp_path_factory.mktemp("sealed")

    @af.tool()
    async def give(_ctx: af.ToolContext, value: object = None, deep: object = None) -> af.ToolResult:
        """Give a text."""
        del value, deep
        return af.ToolResult(success=True, data=result, metadata={"deep": nested(depth), "value": metadata})

    calls = [ToolCall("give", {"value": value, "deep": nested(depth)})]
    model = ScriptedModel([calls, answer], chunk_chars=100_000)
    with af.Workbench(model=model, data_dir=folder / "data", tool_protocol="native", interactive=False) as wb:
        wb.tool(give)
        run = wb.ask(f"Why? {question}").wait(60)
        path = folder / "run.afrun"
        run.seal(path)
        with af.open_run(path) as opened:
            assert (opened.status, opened.error, opened.events) == (run.status, run.error, run.events)


def test_failed_and_cancelled_runs_can_be_sealed_and_opened(tmp_path: Path, workbench: OpenWorkbench) -> None:
    """The runs have an empty answer, a failed model, or a cancellation while the run waited."""

    @af.tool(permission="confirm")
    async def ask_first(_ctx: af.ToolContext) -> str:
        """Ask."""
        return "asked"

    wb = workbench(["", ValueError("no"), [ToolCall("ask_first", {})]], tool_protocol="native", interactive=False)
    wb.tool(ask_first)
    runs = [wb.ask(f"Number {number}?").wait() for number in range(3)]
    runs[2].cancel().wait()
    for number, run in enumerate(runs):
        with af.open_run(run.seal(tmp_path / f"{number}.afrun")) as opened:
            assert opened.status == run.status
    assert [run.status for run in runs] == ["failed", "failed", "cancelled"]
