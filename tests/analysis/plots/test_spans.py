"""Spans from events and from frames: the same run gives the same."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from support.charts import planned, ran, seconds, tool_frame
from support.played_runs import START, Script

from artifactflow_nb.analysis.plots.spans import SpanLog, TimelineSpan
from artifactflow_nb.analysis.plots.timeline import spans_from_frames
from artifactflow_nb.core.events import StreamEvent, StreamEventType


def spans(script: Script) -> tuple[TimelineSpan, ...]:
    return spans_of_events(script.events)


def spans_of_events(events: Iterable[StreamEvent]) -> tuple[TimelineSpan, ...]:
    log = SpanLog()
    for event in events:
        log.apply(event)
    return log.spans


def test_events_and_frames_agree(tmp_path: Path) -> None:
    """A finished run gives the same spans from its stored events as from its rows, to a few milliseconds."""
    run = ran(tmp_path)
    told = spans_of_events(run.events)
    stored = spans_from_frames(run.llm_calls, run.tool_calls, run.approvals)
    key = [(span.lane, span.kind, span.name, span.status, span.detail) for span in told]
    assert sorted(key) == sorted((span.lane, span.kind, span.name, span.status, span.detail) for span in stored)
    assert len(told) == 17
    apart = told[0].start_ms - stored[0].start_ms  # the frames do not know when the run was asked for
    pairs = [
        (mine, theirs)
        for kind in ("model", "tool", "wait")
        for mine, theirs in zip(*([s for s in both if s.kind == kind] for both in (told, stored)), strict=True)
    ]
    for mine, theirs in pairs:
        assert mine.end_ms is not None
        assert theirs.end_ms is not None
        assert mine.start_ms - apart == pytest.approx(theirs.start_ms, abs=60)
        assert mine.end_ms - apart == pytest.approx(theirs.end_ms, abs=60)


def test_each_step_of_a_plan_has_a_lane(tmp_path: Path) -> None:
    """Its calls and waits are its own in the events and in the frames; the plan's call only covers them."""
    run, steps = planned(tmp_path)
    told = spans_of_events(run.events)
    stored = spans_from_frames(run.llm_calls, run.tool_calls, run.approvals, steps)
    assert sorted((span.lane, span.kind, span.name, span.status, span.detail) for span in told) == sorted(
        (span.lane, span.kind, span.name, span.status, span.detail) for span in stored
    )
    lanes = list(dict.fromkeys(span.lane for span in told))
    assert lanes == ["agent", "executor: Find", "executor: Send", "replanner", "summarizer"]
    of_step = [(span.kind, span.name) for span in told if span.lane == "executor: Send"]
    assert of_step.count(("wait", "create_artifact")) == of_step.count(("tool", "report_failure")) == 1
    (plan,) = (span for span in told if span.name == "plan_create")
    assert (plan.is_delegation, plan.detail) == (True, "The plan")
    assert all(plan.start_ms <= span.start_ms for span in told if span.lane.startswith("executor"))


def test_without_the_steps_an_executor_has_one_lane(tmp_path: Path) -> None:
    """The frames of calls alone do not say which step a call belongs to."""
    run, _ = planned(tmp_path)
    lanes = {span.lane for span in spans_from_frames(run.llm_calls, run.tool_calls, run.approvals)}
    assert lanes == {"agent", "executor", "replanner", "summarizer"}


def test_waits_are_known_from_tool_calls_alone(tmp_path: Path) -> None:
    """Without the approvals, the waits for a person are those that the tool calls tell of."""
    run = ran(tmp_path)
    with_them = spans_from_frames(None, run.tool_calls, run.approvals)
    without = spans_from_frames(None, run.tool_calls, None)
    waits = [[(s.name, s.status) for s in both if s.kind == "wait"] for both in (with_them, without)]
    assert waits == [[("create_artifact", "approved"), ("create_artifact", "denied")]] * 2


def test_decision_of_a_policy_is_no_wait() -> None:
    """Neither in the frames nor in the events."""
    frame = tool_frame(decided_by=["policy"] * 3, approval_wait_ms=[0.0] * 3)
    assert {span.kind for span in spans_from_frames(None, frame, None)} == {"tool"}
    script = Script()
    script.add("permission_request", tool="t", id="req-1", tool_call_id="tc-1", job_id="main")
    script.add("permission_result", tool="t", id="req-1", approved=True, decided_by="policy", job_id="main")
    assert spans(script) == ()


def test_call_that_did_not_start_has_no_span() -> None:
    """It has no time."""
    found = spans_from_frames(None, tool_frame(called_at=seconds(1.5, None, None)), None)
    assert [span.name for span in found] == ["call_subagent"]


def test_a_running_span_has_no_end() -> None:
    """The span of a running model, tool or wait is open; a chunk gives the first token."""
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
def test_the_end_of_a_run_ends_all_spans(ending: str, word: str) -> None:
    """Every terminal event ends all open spans."""
    script = Script()
    script.add("agent_start", job_id="main", model="m")
    script.add("permission_request", tool="write", job_id="main", tool_call_id="tc-2", id="req-1")
    script.add("complete", None, interrupted=True)
    assert spans(script)[1].end_ms is None
    script.add(ending, None)
    assert [(span.status, span.end_ms) for span in spans(script)] == [(word, 300.0), ("cancelled", 300.0)]


def test_a_retry_is_two_calls() -> None:
    """An attempt that failed is a span of its own, and the next one begins where it ended."""
    script = Script()
    script.add("agent_start", job_id="main", model="m")
    script.add("retry", job_id="main", call_id="c1", attempt=1, delay_s=0.0, reason="No answer.\nAt all.")
    script.add("llm_complete", job_id="main", call_id="c2", model="m2")
    first, second = spans(script)
    assert (first.status, first.end_ms, first.detail) == ("failed", 100.0, "No answer. At all.")
    assert (second.status, second.start_ms, second.name) == ("ok", 100.0, "m2")


def test_repeated_turn_has_one_span() -> None:
    """The model call of an ended process has no span; that of the repeated turn has one."""
    script = Script()
    script.add("agent_start", job_id="main", model="m")
    script.add("agent_start", job_id="main", model="m")
    script.add("llm_complete", job_id="main", call_id="c", model="m")
    assert [span.start_ms for span in spans(script)] == [100.0]


def test_repeated_tool_call_keeps_its_start() -> None:
    """After a crash it is one span from its first start on."""
    script = Script()
    for _ in range(2):
        script.add("tool_start", tool="t", job_id="main", tool_call_id="tc-1", params={})
    script.add("tool_complete", tool="t", job_id="main", tool_call_id="tc-1", success=False, error="Gone.")
    assert spans(script) == (TimelineSpan("lead_agent", "tool", "t", 0.0, 200.0, None, "failed", "Gone."),)


def test_repeated_event_changes_nothing() -> None:
    """A run whose clock was set back has no negative times."""
    log = SpanLog()
    later = StreamEvent(StreamEventType.AGENT_START, START, 1, "r", "a", None, {"job_id": "main", "model": "m"})
    log.apply(later)
    log.apply(later)
    back = StreamEvent(StreamEventType.TOOL_START, START.replace(year=2025), 2, "r", "a", "t", {"tool_call_id": "x"})
    log.apply(back)
    assert [(span.kind, span.start_ms) for span in log.spans] == [("model", 0.0), ("tool", 0.0)]


def test_the_live_part_needs_no_pandas() -> None:
    """A view can draw a running run without loading pandas."""
    modules = "artifactflow_nb.analysis.plots.spans, artifactflow_nb.analysis.plots.waterfall"
    code = f"import sys, {modules}; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
