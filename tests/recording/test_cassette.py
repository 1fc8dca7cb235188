"""A cassette is text that a person can review: rows by table, long texts once, no secrets, the same bytes again."""

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.cpu_time import within
from support.recorded_scenes import WAIT_S, open_scene
from support.replies import delegate, report
from support.sample_recordings import LONG, head_of, recording, with_row

import artifactflow_nb as af
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.recording.cassette import Cassette, CassetteWriter, cassette_bytes, one_recording
from artifactflow_nb.recording.rows import RunRows, load_run_rows


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Path, RunRows]:
    """A cassette of one run, and the run's rows in the store."""
    path = tmp_path / "c.jsonl"
    model = ScriptedModel([report(LONG), LONG])
    with open_scene(tmp_path, record=path, model=model, approvals="approve") as wb:
        run = wb.ask("Who? My key is sk-0123456789abcdef0123.").wait(WAIT_S)
        rows = wb._thread.call(wb._thread.engine.database.read(lambda db: load_run_rows(db, run.run_id)))
    return path, rows


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def read_back(rows: RunRows) -> RunRows:
    """The rows after writing a cassette and reading the cassette."""
    head = head_of(rows)
    data = one_recording(head, rows)
    cassette = Cassette.parse(Path("c.jsonl"), data)
    assert cassette.heads == (head,)
    assert one_recording(head, cassette.rows(head)) == data
    return cassette.rows(head)


def test_rows_are_read_back_without_secrets(recorded: tuple[Path, RunRows]) -> None:
    path, rows = recorded
    cassette = Cassette.open(path)
    found = cassette.rows(cassette.heads[0])
    assert found.run["question"] == "Who? My key is [secret]."
    for table in ("llm_calls", "tool_calls", "approvals", "artifact_versions"):
        columns = [name for name in (rows[table][0] if rows[table] else ()) if not name.endswith(("hash", "json"))]
        stored = [{name: row[name] for name in columns if name != "cassette"} for row in rows[table]]
        assert [{name: row[name] for name in columns if name != "cassette"} for row in found[table]] == stored
    assert "sk-0123456789abcdef0123" not in path.read_text(encoding="utf-8")


def test_each_line_is_a_row_and_long_texts_are_written_once(recorded: tuple[Path, RunRows]) -> None:
    path, _ = recorded
    first, head, *rest, last = lines(path)
    assert first == {"format": "artifactflow-nb cassette", "version": 1}
    assert head["recording"]["question"] == "Who? My key is [secret]."
    assert all(len(line) == 1 for line in rest)
    assert set(last) == {"sha256"}
    assert path.read_text(encoding="utf-8").count(LONG) == 2  # by itself, and in the call that wrote it
    assert not any("_json" in key and isinstance(value, str) for line in rest for row in line.values()
                   for key, value in row.items())  # fmt: skip


def test_second_recording_replaces_the_first(tmp_path: Path) -> None:
    for _ in range(2):
        with open_scene(tmp_path, record=tmp_path / "c.jsonl", model=ScriptedModel(["Yes.", "No."])) as wb:
            wb.ask("One?").wait(WAIT_S)
            wb.ask("Two?").wait(WAIT_S)
    assert [head.question for head in Cassette.open(tmp_path / "c.jsonl").heads] == ["One?", "Two?"]


# --- values ----------------------------------------------------------------------------------------------------------

ODD = (
    *("\u2028", "\u2029\x85", "\r\n", "]]>", "<![CDATA[x]]>", '{"$text": "0123456789abcdef"}', "\x00", "\ufeff", "😀"),
    "\\u2028",
)
characters = st.characters(exclude_categories=["Cs"])
texts = (
    st.text(characters, max_size=30)
    | st.sampled_from(ODD)
    | st.builds(lambda text: text + LONG, st.text(characters, max_size=5))
)
names = st.text(characters, max_size=10) | st.sampled_from(["$", "$text", "$literal", "text"])
leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=8
)
objects = st.dictionaries(names, values, max_size=3)


@given(texts, texts, texts, objects, objects)
@settings(max_examples=150, deadline=None)
def test_every_value_is_read_back_unchanged(
    question: str, response: str, result: str, params: dict[str, Any], metadata: dict[str, Any]
) -> None:
    """Rows with any text and any JSON are read back, and each row is one line."""
    _, rows = recording(question=question, error_message=response)
    rows = with_row(rows, "messages", response=response)
    args, meta = orjson.dumps(params).decode(), orjson.dumps(metadata).decode()
    rows = with_row(rows, "tool_calls", result=result, args_json=args, metadata_json=meta)
    assert read_back(rows) == rows
    data = one_recording(head_of(rows), rows)
    n_texts = data.count(b'\n{"text":')
    assert data.count(b"\n") == 3 + n_texts + sum(map(len, rows.tables.values()))


@pytest.mark.parametrize("text", ['{"a": 1}', '{"a":1.50}', '{"a":1,"a":2}', '{"a":"\\u00e9"}', '{"a":-0.0,"b":1E5}'])
def test_json_is_read_back_in_its_stored_form(text: str) -> None:
    """JSON that would not be written again in the same form is stored as a text."""
    _, rows = recording()
    rows = with_row(rows, "tool_calls", metadata_json=text)
    assert read_back(rows) == rows


def test_recordings_are_sorted_by_their_start_and_texts_by_their_hashes(tmp_path: Path) -> None:
    """The same recordings give the same bytes, in whatever order they are added."""
    recordings = [recording(str(n), f"Question {n}?", started_at=1_000_000 * n) for n in range(3)]
    for path, order in ((tmp_path / "a.jsonl", recordings), (tmp_path / "b.jsonl", recordings[::-1])):
        with closing(CassetteWriter(path)) as writer:
            for head, rows in order:
                writer.put(head, rows)
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()
    assert [head.question for head in Cassette.open(tmp_path / "a.jsonl").heads] == [f"Question {n}?" for n in range(3)]


def test_every_process_writes_the_same_bytes(tmp_path: Path) -> None:
    """The bytes do not depend on Python's random hashes of strings."""
    path = tmp_path / "c.jsonl"
    path.write_bytes(one_recording(*recording()))
    script = (
        "import sys, hashlib; from pathlib import Path\n"
        "from artifactflow_nb.recording.cassette import Cassette, one_recording\n"
        "cassette = Cassette.open(Path(sys.argv[1])); head = cassette.heads[0]\n"
        "sys.stdout.buffer.write(one_recording(head, cassette.rows(head)))"
    )
    for seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", script, str(path)], capture_output=True, env=environment, check=True
        )
        assert done.stdout == path.read_bytes()


def test_rows_without_columns_of_later_releases_take_their_defaults() -> None:
    head, rows = recording()
    earlier = with_row(rows, "tool_calls", cassette=...)
    cassette = Cassette.parse(Path("c.jsonl"), one_recording(head, earlier))
    assert {row["cassette"] for row in cassette.rows(head)["tool_calls"]} == {"off"}


def test_models_of_a_cassette_are_listed_in_the_order_of_their_calls() -> None:
    head, rows = recording()
    other = with_row(rows, "llm_calls", provider="other", request_model="b")
    recordings = {
        head_of(each): [orjson.dumps({"llm_calls": row}) for row in each["llm_calls"]] for each in (rows, other)
    }
    assert head in recordings
    cassette = Cassette.parse(Path("c.jsonl"), cassette_bytes(recordings, {}))
    first = rows["llm_calls"][0]
    assert cassette.models() == [(first["provider"], first["request_model"]), ("other", "b")]


def test_cassette_holds_no_path_of_this_machine(recorded: tuple[Path, RunRows]) -> None:
    path, _ = recorded
    assert str(path.parent).encode() not in path.read_bytes()


@pytest.mark.timed
def test_long_cassette_opens_at_once(tmp_path: Path) -> None:
    """The cassette has ten megabytes of runs; the rows of a run are checked when the run is played."""
    path, n_runs = tmp_path / "c.jsonl", 60
    texts: dict[str, str] = {}
    recordings = {}
    for n in range(n_runs):
        head, rows = recording(str(n), f"Question {n}?", error_message=f"{n} " * 60_000)
        cassette = Cassette.parse(path, one_recording(head, rows))
        recordings[head], named = cassette.lines(head)
        texts |= named
    path.write_bytes(cassette_bytes(recordings, texts))
    assert path.stat().st_size > 9_000_000
    for attempt in within(0.5):
        with attempt:
            assert len(Cassette.open(path).heads) == n_runs


def test_agents_with_their_own_models_are_played_without_models(tmp_path: Path) -> None:
    """Each agent is first called in a separate run, and the replay gets no model."""
    n_agents = 3
    (tmp_path / "prompts").mkdir()
    for n in range(n_agents):
        (tmp_path / "prompts" / f"agent_{n}.md").write_text("You know.", encoding="utf-8")
    models = {f"agent_{n}": ScriptedModel(lambda _: "Found.") for n in range(n_agents)}
    for n, model in enumerate(models.values()):
        model.default_model = f"model-{n}"  # type: ignore[misc]
    turns = [turn for n in range(n_agents) for turn in (delegate(f"agent_{n}", "Find."), "Done.")]

    def register(wb: af.Workbench) -> None:
        for n in range(n_agents):
            wb.register_agent(af.AgentConfig(f"agent_{n}", f"Knows {n}."))

    def called_models(**options: Any) -> list[list[str]]:
        with open_scene(tmp_path, setup=register, prompts=tmp_path / "prompts", **options) as wb:
            runs = [wb.ask(f"Ask {n}?").wait(WAIT_S) for n in range(n_agents)]
            assert [run.status for run in runs] == ["completed"] * n_agents
            return [wb.llm_calls_df(run)["request_model"].tolist() for run in runs]

    recorded_models = called_models(record=tmp_path / "c.jsonl", model=ScriptedModel(turns), agent_models=models)
    assert [f"model-{n}" in found for n, found in enumerate(recorded_models)] == [True] * n_agents
    assert called_models(replay=tmp_path / "c.jsonl") == recorded_models
