"""The frames: types, values, and equality after a restart."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from support import frames
from support.replies import by_agent, call, plan

import artifactflow_nb as af
from artifactflow_nb.analysis.frames.reading import open_store
from artifactflow_nb.core.plan import Plan, PlanStep
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.models.base import ModelEvent, ModelReply, ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.store.artifacts import Authorship
from artifactflow_nb.store.frames import FLOAT, IDS, INT, TIME, char_count_sql, line_count_sql
from artifactflow_nb.tools.base import ToolContext, tool
from artifactflow_nb.widgets.run.transcript import RunTranscript

OpenWorkbench = Callable[..., af.Workbench]
OpenEngine = Callable[..., Awaitable[Engine]]
ALL = {frame.name: frame for frame in frames.all_frames()}

CONTRACT = {
    "runs": (
        "question, status, outcome, error_type, flow, models, started_at, total_duration_s, total_tokens, cost_usd, "
        "n_artifacts, n_llm_calls, n_tool_calls, n_tool_errors, n_interrupts, n_retries, completed_at, mode, "
        "response_models, total_duration_ms, active_ms, wait_ms, llm_ms, tool_ms, ttft_ms, input_tokens, "
        "output_tokens, reasoning_tokens, cache_read_tokens, tokens_estimated, package_version, manifest_json, run_id, "
        "conversation_id, thread_id, message_id, parent_run_id"
    ),
    "llm_calls": (
        "agent_name, step, request_model, response_model, finish_reason, llm_duration_ms, ttft_ms, tokens_per_s, "
        "input_tokens, output_tokens, total_tokens, cost_usd, error_type, error_message, started_at, "
        "completed_at, provider, temperature, reasoning_tokens, cache_read_tokens, cached_share, tokens_estimated, "
        "context_chars, attempt, retries, cassette, request_hash, call_id, run_id"
    ),
    "tool_calls": (
        "agent_name, tool_name, args_json, success, error_message, error_type, duration_ms, approval, called_at, "
        "completed_at, step, approval_scope, approval_wait_ms, decided_by, result_chars, result_truncated, "
        "cassette, tool_call_id, run_id"
    ),
    "plan_steps": (
        "number, title, status, agent_name, result, attempts, duration_ms, total_tokens, cost_usd, result_chars, "
        "started_at, completed_at, wait_ms, n_llm_calls, n_tool_calls, plan_id, run_id, tool_call_id, step_id"
    ),
    "events": ("event_type, agent_name, tool_name, t_rel_ms, data_json, ts, run_id, seq"),
    "messages": (
        "content, response, status, is_active, created_at, depth, sibling_index, n_siblings, message_id, "
        "conversation_id, parent_id, run_id"
    ),
    "artifacts": (
        "artifact_id, version, title, update_type, created_by, edited_by, created_at, n_chars, n_lines, lines_added, "
        "lines_removed, content_type, sha256, conversation_id, run_id, message_id"
    ),
    "blocks": (
        "path, phase, status, is_stale, n_chars, version, updated_at, created_by, reason, project, name, "
        "parent_id, position, depends_on_json, need_review, auto_generate, is_group, stale_because_json, "
        "block_id, conversation_id"
    ),
    "evaluations": (
        "block, dimension, persona, score, advice, evidence_json, grader_model, created_at, is_active, "
        "artifact_id, version, conversation_id, run_id, tool_call_id, block_id, block_version"
    ),
    "project_runs": (
        "project, work, question, status, outcome, error_type, flow, models, started_at, total_duration_s, "
        "total_tokens, cost_usd, n_artifacts, n_llm_calls, n_tool_calls, n_tool_errors, n_interrupts, n_retries, "
        "completed_at, mode, response_models, total_duration_ms, active_ms, wait_ms, llm_ms, tool_ms, ttft_ms, "
        "input_tokens, output_tokens, reasoning_tokens, cache_read_tokens, tokens_estimated, package_version, "
        "manifest_json, n_blocks, n_block_versions, n_grades, run_id, conversation_id, thread_id, message_id, "
        "parent_run_id, project_id"
    ),
    "approvals": (
        "agent_name, tool_name, kind, decision, decided_by, wait_ms, params_json, edited_json, instruction, "
        "asked_at, decided_at, scope, request_id, run_id"
    ),
    "sources": ("title, uri, media_type, n_chars, omitted, fetched_at, sha256, extractor, source_id"),
    "claims": (
        "text, status, method, reason, quote, address, n, kind, n_figures, score, source_title, start, end, page, "
        "checker, source_sha256, checked_at, claim_id, run_id, conversation_id, artifact_id, version"
    ),
    "evidence": "evidence_id, title, sql, tables, n_rows, duration_ms, created_at, tool_call_id, run_id",
}


def read(path: Path) -> dict[str, pd.DataFrame]:
    """Load the frames of runs and sources; the frames of studies have tests of their own."""
    return {name: frames.load_frame(path, frame) for name, frame in ALL.items() if "study" not in frame.filters}


def types(frame: pd.DataFrame) -> list[tuple[str, str]]:
    return [(name, str(kind)) for name, kind in frame.dtypes.items()]


# --- what every frame keeps to --------------------------------------------------------------------------------------


def test_columns_of_the_frames_are_a_contract(sample_store: Path) -> None:
    """Notebooks depend on the names and the order of the columns: those for readers come first, the ids last."""
    assert {name: ", ".join(frame.columns) for name, frame in read(sample_store).items()} == CONTRACT


def test_empty_frames_have_the_same_types(sample_store: Path, open_workbench: OpenWorkbench) -> None:
    """Columns and types do not depend on whether there are rows."""
    with open_workbench("empty") as wb:
        empty = read(wb.data_dir / "store.db")
    for name, frame in read(sample_store).items():
        assert len(empty[name]) == 0
        assert len(frame) > 0
        assert (
            types(empty[name])
            == types(frame)
            == [(column.name, column.dtype) for column in ALL[name].columns if not column.is_optional]
        )
        assert frame.attrs["schema"] == f"artifactflow_nb/{name}/1"


def test_frames_are_the_same_after_a_restart(sample_store: Path) -> None:
    """Frames come from stored rows, so another process loads the same frames."""
    code = (
        "import sys, artifactflow_nb.plugins.built_in; from pathlib import Path\n"
        "from artifactflow_nb.analysis.frames.catalog import all_frames\n"
        "from artifactflow_nb.analysis.frames.reading import load_frame\n"
        "for frame in [frame for frame in all_frames() if 'study' not in frame.filters]:\n"
        "    frame_rows = load_frame(Path(sys.argv[1]), frame)\n"
        "    print(frame_rows.drop(columns='wait_ms', errors='ignore').to_csv())"
    )
    done = subprocess.run([sys.executable, "-c", code, str(sample_store)], capture_output=True, text=True, check=True)
    moving = "wait_ms"  # grows as long as a run waits
    here = "".join(frame.drop(columns=moving, errors="ignore").to_csv() + "\n" for frame in read(sample_store).values())
    assert done.stdout == here


@pytest.mark.parametrize("name", list(ALL))
def test_columns_follow_the_conventions(name: str) -> None:
    """Names are unique and in snake case, each unit has one type, and every column has a meaning."""
    columns = ALL[name].columns
    assert len({column.name for column in columns}) == len(columns)
    assert all(column.name == column.name.lower() and column.meaning.endswith(".") for column in columns)
    assert all(column.dtype == TIME for column in columns if column.name.endswith("_at"))
    assert all(column.dtype == FLOAT for column in columns if column.name.endswith(("_ms", "_usd")))
    assert all(column.dtype == INT for column in columns if column.name.endswith(("_tokens", "_chars")))
    read_first = {"artifact_id", "version"} if name == "artifacts" else set()
    ids = [column.group == IDS for column in columns if column.name not in read_first]
    assert ids == sorted(ids)


def test_column_name_has_one_type_in_all_frames() -> None:
    """No column has the name of a group of its frame."""
    columns = [column for frame in frames.all_frames() for column in frame.columns]
    assert len({(column.name, column.dtype) for column in columns}) == len({column.name for column in columns})
    for frame in frames.all_frames():
        assert not {column.name for column in frame.columns} & {column.group for column in frame.columns}


def test_columns_df_lists_every_column(sample_store: Path, open_workbench: OpenWorkbench) -> None:
    """One row per column of every frame, with its group, type and meaning."""
    with open_workbench() as wb:
        described = wb.columns_df()
    assert described.columns.tolist() == ["frame", "column", "group", "dtype", "meaning"]
    assert len(described) == sum(len(frame.columns) for frame in frames.all_frames())
    row = described.query("frame == 'llm_calls' and column == 'ttft_ms'").iloc[0]
    assert row.tolist() == ["llm_calls", "ttft_ms", "time", "Float64", "Until the first text."]


def test_workbench_has_a_method_per_frame(sample_store: Path, open_workbench: OpenWorkbench) -> None:
    """Each frame has a method of the workbench, or of a plugin's accessor."""
    with open_workbench() as wb:
        of_plugins = {"blocks": wb.projects.blocks_df, "evaluations": wb.projects.evaluations_df}
        of_plugins |= {"project_runs": wb.projects.runs_df, "evidence": wb.data.evidence_df}
        for name, frame in read(sample_store).items():
            load = of_plugins.get(name) or getattr(wb, f"{name}_df")
            assert types(load(columns="all")) == types(frame)
            assert len(load(columns="all")) == len(frame)


def test_workbench_imports_pandas_only_for_frames(tmp_path: Path) -> None:
    """Importing pandas takes half a second."""
    code = (
        "import sys, artifactflow_nb as af\n"
        "with af.Workbench(data_dir=sys.argv[1]) as wb:\n"
        "    print('pandas' in sys.modules, len(wb.runs_df()), 'pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "0", "True"]


# --- what they say --------------------------------------------------------------------------------------------------


def test_rows_have_the_values_of_a_run(sample_store: Path) -> None:
    """There is a row for each run, model call, tool call and event; unknown values are NA, never 0."""
    run_id = frames.load_frame(sample_store, frames.RUNS)["run_id"][0]
    found = {
        name: frames.load_frame(sample_store, ALL[name], run_id)
        for name in ("runs", "llm_calls", "tool_calls", "events")
    }
    run = found["runs"].iloc[0]
    assert (run["status"], run["n_llm_calls"], run["n_tool_calls"], run["n_tool_errors"]) == ("completed", 4, 3, 1)
    assert (run["n_interrupts"], run["n_artifacts"], run["n_retries"]) == (1, 1, 0)
    assert run["wait_ms"] > 0
    assert run["active_ms"] == pytest.approx(run["total_duration_ms"] - run["wait_ms"])
    assert run["total_tokens"] == found["llm_calls"]["total_tokens"].sum()
    assert pd.isna(run["cost_usd"])
    tools = found["tool_calls"]
    assert tools["tool_name"].tolist() == ["call_subagent", "read_artifact", "create_artifact"]
    assert tools["success"].tolist() == [True, False, True]
    assert tools["approval"].tolist() == ["not_needed", "not_needed", "approved"]
    assert tools["decided_by"].iloc[2] == "user"
    assert tools["approval_wait_ms"].isna().tolist() == [True, True, False]
    calls = found["llm_calls"]
    assert calls["agent_name"].tolist() == ["lead_agent", "search_agent", "lead_agent", "lead_agent"]
    assert calls["request_hash"].nunique() == 4
    events = found["events"]
    assert events["seq"].is_monotonic_increasing
    assert (events["t_rel_ms"] >= 0).all()
    assert "llm_chunk" not in events["event_type"].tolist()


def test_plan_steps_have_status_and_durations(sample_store: Path) -> None:
    """Each step has the sums of its attempts; a step that was not started has no time."""
    steps = frames.load_frame(sample_store, frames.PLAN_STEPS)
    assert steps[["number", "step_id", "title", "status", "attempts", "result"]].to_numpy().tolist() == [
        [1, "1", "Find", "completed", 1, "Found."],
        [2, "2", "Compare", "failed", 2, "No."],
        [3, "3", "Write", "skipped", 0, "It is enough."],
    ]
    assert steps["agent_name"].astype(object).fillna("").tolist() == ["executor", "executor", ""]
    assert steps[["n_llm_calls", "n_tool_calls"]].to_numpy().tolist() == [[1, 0], [4, 2], [0, 0]]
    assert steps["result_chars"].tolist() == [6, 3, 13]
    calls = frames.load_frame(sample_store, frames.LLM_CALLS)
    of_steps = calls.query("agent_name == 'executor'")["total_tokens"]
    assert steps["total_tokens"].dropna().tolist() == [of_steps.iloc[0], of_steps.iloc[1:].sum()]
    assert (steps["duration_ms"][:2] > 0).all()
    assert (steps["started_at"][:2] < steps["completed_at"][:2]).all()
    assert steps.iloc[2][["started_at", "completed_at", "duration_ms", "wait_ms", "total_tokens"]].isna().all()
    (run,) = frames.load_frame(sample_store, frames.RUNS).query("flow == 'plan'").to_dict("records")
    assert run["tool_ms"] < steps["duration_ms"].sum(), "the plan's own call is not the work of a tool"


async def test_duration_of_a_step_excludes_waits(open_engine: OpenEngine) -> None:
    """The wait for a person is separate from the duration of an attempt, in frames and in views."""

    @tool(permission="confirm")
    async def send(ctx: ToolContext) -> str:
        """Send."""
        return "sent"

    script = by_agent(agent=[plan("One", "Two"), "Done."], executor=[call("send"), "1.", "2."], summarizer=["Sum."])
    engine = await open_engine(script)
    engine.register_tool(send, agent="executor")
    result = await engine.controller.execute("What?", flow="plan")
    await asyncio.sleep(0.6)
    await engine.controller.resume(result.thread_id, approved=True)
    steps = frames.load_frame(engine.database.path, frames.PLAN_STEPS)
    lasted = (steps["completed_at"] - steps["started_at"]).dt.total_seconds() * 1000
    assert steps["wait_ms"][0] >= 600
    assert steps["wait_ms"][1] == 0
    assert (steps["duration_ms"] + steps["wait_ms"]).tolist() == pytest.approx(lasted.tolist())
    assert steps["duration_ms"][0] > 0
    transcript = RunTranscript("What?")
    for event in await engine.runs.events(result.run_id):
        transcript.apply(event)
    shown = [step.duration_ms for step in transcript.plans[0].steps]
    assert shown == pytest.approx(steps["duration_ms"].tolist())


async def test_plan_steps_come_from_the_newest_valid_plan(sample_store: Path, open_engine: OpenEngine) -> None:
    """Edits by a person count; invalid texts, other plans and versions by agents are skipped."""
    (row,) = frames.load_frame(sample_store, frames.RUNS).query("flow == 'plan'").to_dict("records")
    engine = await open_engine()
    where = Authorship(row["conversation_id"], row["message_id"], "user")
    plan = Plan.from_json((await engine.artifacts.versions(row["conversation_id"], "task_plan"))[-1].content)
    hostile = replace(plan, title="\0", steps=(*plan.steps, PlanStep("four'", '</td>\0"<b>', result="a\0b")))
    half = replace(plan, title="half").to_json().replace("half", "\\ud800")
    texts = [hostile.to_json(), half, "{}", "no JSON", '{"plan_id": 1}', "[" * 100_000]
    for text in [*texts, replace(plan, plan_id="another").to_json()]:
        await engine.artifacts.revise(where, "task_plan", text, update_type="update")
    by_a_call = replace(where, created_by="executor", run_id=row["run_id"], tool_call_id="tool-x")
    await engine.artifacts.revise(by_a_call, "task_plan", replace(plan, steps=()).to_json(), update_type="update")
    steps = frames.load_frame(sample_store, frames.PLAN_STEPS)
    assert steps["title"].tolist() == ["Find", "Compare", "Write", '</td>\0"<b>']
    assert steps["result"].tolist()[3] == "a\0b"
    assert steps["result_chars"].tolist()[3] == 3
    assert steps["plan_id"].unique().tolist() == [plan.plan_id]


def test_approvals_have_decisions(sample_store: Path) -> None:
    """Each request has a row with its decision; an open request has no decision."""
    found = frames.load_frame(sample_store, frames.APPROVALS)
    assert found["decision"].tolist()[:2] == ["approved", "denied"]
    assert found["instruction"].isna().tolist() == [True, False, True]
    assert found["instruction"][1] == "No."
    open_one = found.iloc[2]
    assert open_one[["decision", "decided_at", "wait_ms", "scope", "decided_by", "edited_json"]].isna().all()
    assert (open_one["kind"], open_one["tool_name"], open_one["agent_name"]) == (
        "tool",
        "create_artifact",
        "lead_agent",
    )
    assert (found["wait_ms"][:2] >= 0).all()
    assert json.loads(open_one["params_json"])["id"] == "research_report"


def test_sources_list_indexed_files(sample_store: Path) -> None:
    """One row per indexed file."""
    (row,) = frames.load_frame(sample_store, frames.SOURCES).to_dict("records")
    assert (row["title"], row["media_type"]) == ("Letters", "text/markdown")
    assert row["uri"].endswith("/letters.md")
    assert row["n_chars"] > 0


async def test_messages_have_their_position_in_the_tree(open_engine: OpenEngine) -> None:
    """The frame has depth, sibling index, and whether a message is on the active branch."""
    engine = await open_engine()
    conversations = engine.conversations
    conversation = await conversations.start_conversation("Tree")
    root = (await conversations.add(conversation, "one", "1")).message_id
    two = (await conversations.add(conversation, "two", "2")).message_id
    await conversations.edit(two, "two, again", "2")
    await conversations.branch(two, "three", "3")
    await conversations.edit(root, "another root", "1")
    await conversations.activate(two)
    other = await conversations.start_conversation("Other")
    await conversations.add(other, "alone", "0")
    found = frames.load_frame(engine.database.path, frames.MESSAGES).set_index("content")
    columns = ["depth", "sibling_index", "n_siblings", "is_active"]
    assert {content: row.tolist() for content, row in found[columns].iterrows()} == {
        "one": [0, 0, 2, True],
        "two": [1, 0, 2, True],
        "two, again": [1, 1, 2, False],
        "three": [2, 0, 1, True],
        "another root": [0, 1, 2, False],
        "alone": [0, 0, 1, True],
    }
    assert found["parent_id"].isna().tolist() == [True, False, False, False, True, True]
    assert found["run_id"].isna().all()
    alone = frames.load_frame(engine.database.path, frames.MESSAGES, conversation=conversation).set_index("content")
    pd.testing.assert_frame_equal(alone, found.iloc[:5])


async def test_artifacts_have_a_row_per_version(open_engine: OpenEngine) -> None:
    """Lines are compared with the previous version on the same branch."""
    engine = await open_engine()
    conversation = await engine.conversations.start_conversation("Branches")
    first = (await engine.conversations.add(conversation, "first", "1")).message_id
    second = (await engine.conversations.edit(first, "second", "2")).message_id
    on_first, on_second = (Authorship(conversation, message, "user") for message in (first, second))
    await engine.artifacts.create(on_first, "a", "A", "one\ntwo\n")
    await engine.artifacts.create(on_second, "a", "A", "x\ny\nz")
    await engine.artifacts.revise(on_first, "a", "one\n2\nthree\0\n", update_type="update")
    found = frames.load_frame(engine.database.path, frames.ARTIFACTS)
    columns = ["version", "n_lines", "lines_added", "lines_removed", "n_chars", "update_type"]
    assert found[columns].to_numpy().tolist() == [
        [1, 2, 2, 0, 8, "create"],
        [2, 3, 3, 0, 5, "create"],
        [3, 3, 2, 1, 13, "update"],
    ]
    assert found["message_id"].tolist() == [first, second, first]
    assert found["sha256"].str.len().tolist() == [64] * 3
    assert found["run_id"].isna().all()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a\n",
        "\n",
        "a\nb",
        "\n\n",
        "ä€😀\n漢",
        "a\0b\n\0",
        "\0",
        "\0\n",
        "\\u0000\0\\\\u0000",
        '"\t\\\0\\"\x01',
    ],
)
def test_characters_and_lines_are_counted_as_in_python(text: str) -> None:
    """Counts are exact for any text, also with NUL."""
    lines = text.count("\n") + (not text.endswith("\n") if text else 0)
    with closing(sqlite3.connect(":memory:")) as db:
        found = db.execute(f"SELECT {char_count_sql(':text')}, {line_count_sql(':text')}", {"text": text}).fetchone()
        assert found == (len(text), lines)
        assert db.execute(f"SELECT {char_count_sql('NULL')}, {line_count_sql('NULL')}").fetchone() == (None, None)


# --- runs without a process -----------------------------------------------------------------------------------------


def test_run_without_a_process_is_abandoned(open_workbench: OpenWorkbench) -> None:
    """A running run of a closed engine is shown as abandoned, and so is its message."""
    wb = open_workbench(model=ScriptedModel(["Slowly. " * 100], delay_s=0.02))
    run = wb.ask("Tell.")
    assert wb.runs_df(run)["status"].tolist() == wb.messages_df(run)["status"].tolist() == ["running"]
    wb.close()
    with open_workbench(model=ScriptedModel(["Done."])) as later:
        assert later.runs_df()["status"].tolist() == later.messages_df()["status"].tolist() == ["abandoned"]
        assert later.query("SELECT status FROM runs")["status"].tolist() == ["abandoned"]
        assert len(later.runs_df(status="abandoned")) == 1
        assert len(later.runs_df(status="running")) == 0
        with pytest.warns(DeprecationWarning, match="'interrupted' is called 'abandoned' now"):
            assert len(later.runs_df(status="interrupted")) == 1
        again = later.run(run.run_id)
        assert again.status == "abandoned"
        assert [unfinished.run_id for unfinished in later.runs(unfinished=True)] == [run.run_id]
        assert again.resume().wait().response == "Done."
        assert later.runs_df()["status"].tolist() == later.messages_df()["status"].tolist() == ["completed"]


def test_run_that_ends_during_the_read_is_not_abandoned(open_workbench: OpenWorkbench) -> None:
    """The run releases its lock after its row was read as running."""
    with open_workbench(model=ScriptedModel(["Slowly. " * 100], delay_s=0.02)) as wb:
        run = wb.ask("Tell.")
        with open_store(wb.data_dir / "store.db") as db:
            db.execute("BEGIN")
            db.execute("SELECT 1 FROM runs").fetchall()
            run.cancel().wait()
            assert db.execute(frames.RUNS.select(frames.RUNS.select_columns("results"))).fetchone()[0] == "running"
        assert wb.runs_df(run)["status"].tolist() == ["cancelled"]


@pytest.mark.parametrize(
    ("n_tokens", "duration_ms", "ttft_ms", "rate"),
    [(400, 2500.0, 500.0, 200.0), (400, 2500.0, None, 160.0), (19, 2500.0, 500.0, None), (400, 2.0, 1.9, None)],
)
def test_rate_is_unknown_for_few_tokens_or_a_short_time(
    sample_store: Path, n_tokens: int, duration_ms: float, ttft_ms: float | None, rate: float | None
) -> None:
    """A short reply in one piece would have thousands of tokens per second; `columns_df` explains the rule."""
    with closing(sqlite3.connect(sample_store)) as db, db:
        sql = "UPDATE llm_calls SET output_tokens = ?, llm_duration_ms = ?, ttft_ms = ?"
        db.execute(sql, (n_tokens, duration_ms, ttft_ms))
    rates = frames.load_frame(sample_store, frames.LLM_CALLS)["tokens_per_s"]
    assert set(rates.dropna()) == ({rate} if rate else set())
    meaning = frames.describe_columns().set_index(["frame", "column"])["meaning"]["llm_calls", "tokens_per_s"]
    assert meaning.endswith("NA below 20 tokens or 100 ms.")


def test_run_has_the_requested_models_beside_those_of_the_replies(tmp_path: Path) -> None:
    """A router or a dated version replies with another name; frames and plots go by the requested name."""

    class Dated(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
            async for event in super().stream(request):
                yield replace(event, model="small-2026-01-01") if isinstance(event, ModelReply) else event

    with af.Workbench(model=Dated(["Yes."]), data_dir=tmp_path, interactive=False) as wb:
        run = wb.ask("Why?").wait()
        [row] = wb.runs_df(run, columns="what")[["models", "response_models"]].to_dict("records")
        assert row == {"models": "scripted", "response_models": "small-2026-01-01"}
