"""Spans from events and from frames."""

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from support.charts import run_parallel_jobs, run_plan, seconds, tool_frame
from support.played_runs import START, Script

from artifactflow_nb.analysis.plots.frame_spans import spans_from_frames
from artifactflow_nb.analysis.plots.spans import TOOL, SpanLog, TimelineSpan
from artifactflow_nb.analysis.plots.waterfall import span_detail
from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.core.language import in_language


def spans(script: Script) -> tuple[TimelineSpan, ...]:
    return spans_of_events(script.events)


def spans_of_events(events: Iterable[StreamEvent]) -> tuple[TimelineSpan, ...]:
    log = SpanLog()
    for event in events:
        log.apply(event)
    return log.spans


def test_events_and_frames_give_the_same_spans(tmp_path: Path) -> None:
    """A finished run has the same spans from its events as from its rows, apart from delays between the two."""
    run = run_parallel_jobs(tmp_path)
    published = spans_of_events(run.events)
    stored = spans_from_frames(run.llm_calls, run.tool_calls, run.approvals)
    key = [(span.lane, span.kind, span.name, span.status) for span in published]
    assert sorted(key) == sorted((span.lane, span.kind, span.name, span.status) for span in stored)
    assert len(published) == 17
    offset = published[0].start_ms - stored[0].start_ms  # the frames do not have the time of the question
    pairs = [
        (from_event, from_frame)
        for kind in ("model", "tool", "wait")
        for from_event, from_frame in zip(
            *([s for s in both if s.kind == kind] for both in (published, stored)), strict=True
        )
    ]
    delay_ms = max(span.end_ms or 0 for span in stored) / 4  # a busy machine slows the whole run
    for from_event, from_frame in pairs:
        assert from_event.end_ms is not None
        assert from_frame.end_ms is not None
        assert from_event.start_ms - offset == pytest.approx(from_frame.start_ms, abs=delay_ms)
        assert from_event.end_ms - offset == pytest.approx(from_frame.end_ms, abs=delay_ms)


def test_each_plan_step_has_a_lane(tmp_path: Path) -> None:
    """The calls and waits of a step are in the lane of the step, from events and from frames."""
    run, steps = run_plan(tmp_path)
    published = spans_of_events(run.events)
    stored = spans_from_frames(run.llm_calls, run.tool_calls, run.approvals, steps)
    assert sorted((span.lane, span.kind, span.name, span.status) for span in published) == sorted(
        (span.lane, span.kind, span.name, span.status) for span in stored
    )
    lanes = list(dict.fromkeys(span.lane for span in published))
    assert lanes == ["agent", "executor: Find", "executor: Send", "replanner", "summarizer"]
    of_step = [(span.kind, span.name) for span in published if span.lane == "executor: Send"]
    assert of_step.count(("wait", "create_artifact")) == of_step.count(("tool", "report_failure")) == 1
    (plan,) = (span for span in published if span.name == "plan_create")
    assert (plan.is_delegation, plan.detail) == (True, "The plan")
    assert all(plan.start_ms <= span.start_ms for span in published if span.lane.startswith("executor"))


def test_without_plan_steps_an_executor_has_one_lane(tmp_path: Path) -> None:
    """The frames of calls do not contain the step of a call."""
    run, _ = run_plan(tmp_path)
    lanes = {span.lane for span in spans_from_frames(run.llm_calls, run.tool_calls, run.approvals)}
    assert lanes == {"agent", "executor", "replanner", "summarizer"}


def test_waits_are_derived_from_tool_calls(tmp_path: Path) -> None:
    """Without the frame of approvals, the waits come from the tool calls."""
    run = run_parallel_jobs(tmp_path)
    with_them = spans_from_frames(None, run.tool_calls, run.approvals)
    without = spans_from_frames(None, run.tool_calls, None)
    waits = [[(s.name, s.status) for s in both if s.kind == "wait"] for both in (with_them, without)]
    assert waits == [[("create_artifact", "approved"), ("create_artifact", "denied")]] * 2


def test_decision_of_a_policy_is_not_a_wait() -> None:
    """A decision by a policy has no span, neither from frames nor from events."""
    frame = tool_frame(decided_by=["policy"] * 3, approval_wait_ms=[0.0] * 3)
    assert {span.kind for span in spans_from_frames(None, frame, None)} == {"tool"}
    script = Script()
    script.add("permission_request", tool="t", id="req-1", tool_call_id="tc-1", job_id="main")
    script.add("permission_result", tool="t", id="req-1", approved=True, decided_by="policy", job_id="main")
    assert spans(script) == ()


def test_call_that_did_not_start_has_no_span() -> None:
    """A tool call without a start has no place in a timeline."""
    found = spans_from_frames(None, tool_frame(called_at=seconds(1.5, None, None)), None)
    assert [span.name for span in found] == ["call_subagent"]


def test_running_span_has_no_end() -> None:
    """The span of a running model call, tool call or wait is open; a chunk sets the first token."""
    script = Script()
    script.add("metadata", None)
    script.add("agent_start", job_id="main", model="m")
    assert spans(script) == (TimelineSpan("lead_agent", "model", "m", 100.0),)
    script.add("llm_chunk", job_id="main", call_id="c", kind="answer", delta="Hm")
    script.add("llm_chunk", job_id="main", call_id="c", kind="answer", delta="m")
    assert spans(script)[0].first_token_ms == 200.0
    script.add("tool_start", tool="slow", job_id="main", tool_call_id="tc-1", params={})
    script.add("permission_request", tool="write", job_id="main", tool_call_id="tc-2", id="req-1")
    assert [(span.kind, span.status, span.end_ms) for span in spans(script)] == [
        ("model", "running", None),
        ("tool", "running", None),
        ("wait", "waiting", None),
    ]


@pytest.mark.parametrize(("ending", "word"), [("cancelled", "cancelled"), ("error", "failed"), ("complete", "ok")])
def test_end_of_a_run_ends_all_spans(ending: str, word: str) -> None:
    """Every terminal event ends the open spans."""
    script = Script()
    script.add("agent_start", job_id="main", model="m")
    script.add("permission_request", tool="write", job_id="main", tool_call_id="tc-2", id="req-1")
    script.add("complete", None, interrupted=True)
    assert spans(script)[1].end_ms is None
    script.add(ending, None)
    assert [(span.status, span.end_ms) for span in spans(script)] == [(word, 300.0), ("cancelled", 300.0)]


def test_retry_has_a_span_of_its_own() -> None:
    """A failed attempt has its own span, and the next attempt starts at the end of that span."""
    script = Script()
    script.add("agent_start", job_id="main", model="m")
    script.add("retry", job_id="main", call_id="c1", attempt=1, delay_s=0.0, reason="No answer.\nAt all.")
    script.add("llm_complete", job_id="main", call_id="c2", model="m2")
    first, second = spans(script)
    assert (first.status, first.end_ms, first.detail) == ("failed", 100.0, "No answer. At all.")
    assert (second.status, second.start_ms, second.name) == ("ok", 100.0, "m2")


def test_repeated_turn_has_one_span() -> None:
    """If a process ends during a model call, only the repeated call has a span."""
    script = Script()
    script.add("agent_start", job_id="main", model="m")
    script.add("agent_start", job_id="main", model="m")
    script.add("llm_complete", job_id="main", call_id="c", model="m")
    assert [span.start_ms for span in spans(script)] == [100.0]


def test_repeated_tool_call_keeps_its_start() -> None:
    """A tool call that is repeated after a crash has one span from its first start."""
    script = Script()
    for _ in range(2):
        script.add("tool_start", tool="t", job_id="main", tool_call_id="tc-1", params={})
    script.add("tool_complete", tool="t", job_id="main", tool_call_id="tc-1", success=False, error="Gone.")
    assert spans(script) == (TimelineSpan("lead_agent", "tool", "t", 0.0, 200.0, None, "failed", "Gone."),)


def test_repeated_event_changes_nothing() -> None:
    """A repeated event is ignored, and a clock that was set back causes no negative times."""
    log = SpanLog()
    later = StreamEvent(StreamEventType.AGENT_START, START, 1, "r", "a", None, {"job_id": "main", "model": "m"})
    log.apply(later)
    log.apply(later)
    back = StreamEvent(StreamEventType.TOOL_START, START.replace(year=2025), 2, "r", "a", "t", {"tool_call_id": "x"})
    log.apply(back)
    assert [(span.kind, span.start_ms) for span in log.spans] == [("model", 0.0), ("tool", 0.0)]


def test_live_timeline_does_not_import_pandas() -> None:
    """Spans from events and the waterfall do not import pandas."""
    modules = "artifactflow_nb.analysis.plots.spans, artifactflow_nb.analysis.plots.waterfall"
    code = f"import sys, {modules}; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_delegation_names_its_agent_in_words() -> None:
    """An agent is named in words, in the language of the reader; an error stays as it is."""
    span = TimelineSpan("lead_agent", TOOL, "call_subagent", 0.0, detail="search_agent")
    assert span_detail(span) == "search agent"
    with in_language("zh"):
        assert span_detail(span) == "搜索智能体"
    failed = replace(span, detail="There is no agent search_agnt.")
    assert span_detail(failed) == "There is no agent search_agnt."
