"""Transcripts: states of runs from their events."""

from datetime import timedelta

from support.played_runs import PlayedRun, Script, research, with_shared_text

from artifactflow_nb.core.events import StreamEvent
from artifactflow_nb.widgets.run.labels import activity, call_outcome
from artifactflow_nb.widgets.run.render import RunRenderer
from artifactflow_nb.widgets.run.saved import saved_transcript
from artifactflow_nb.widgets.run.transcript import RunTranscript


def fold(events: list[StreamEvent]) -> RunTranscript:
    transcript = RunTranscript("How do context managers end?")
    for event in events:
        transcript.apply(event)
    return transcript


def test_delegated_job_is_nested_below_call(script: Script) -> None:
    """A sub-agent's job with its instruction, turns and calls belongs to the delegating call."""
    lead = fold(research(script).events).lead_job
    job = lead.turns[0].tools[0].job
    assert job is not None
    assert (job.agent, job.instruction) == ("search_agent", "Find what <exit> does.")
    assert [use.tool for use in job.tools] == ["web_search"]
    assert [turn.reply.prose.text for turn in job.turns] == ["", "It **replaces** it."]


def test_parallel_jobs_of_one_agent_are_separate(script: Script) -> None:
    """Alternating chunks of two jobs are assigned to their jobs."""
    for use in ("tc-1", "tc-2"):
        script.add("tool_start", tool="call_subagent", job_id="main", tool_call_id=use, params={"instruction": use})
    for word in ("one ", "two "):
        for use in ("tc-1", "tc-2"):
            script.add("llm_chunk", "search_agent", job_id=use, call_id=f"llm-{use}", kind="answer", delta=word + use)
    jobs = [use.job for use in fold(script.events).lead_job.tools]
    assert [job.turns[0].reply.prose.text for job in jobs if job] == ["one tc-1two tc-1", "one tc-2two tc-2"]


def test_text_with_quoted_call_is_streamed(script: Script) -> None:
    """With native calls, a call in the text is a quotation; in the text protocol, calls are chunks of another kind."""
    quoted = "Write <tool_call><name>note</name></tool_call> to take a note."
    place = {"job_id": "main", "call_id": "llm-1"}
    script.add("llm_chunk", **place, kind="answer", tool_protocol="native", delta=quoted)
    script.add(
        "llm_chunk", tool="note", **place, kind="call", tool_protocol="xml", delta="<tool_call><name>note</name>"
    )
    (turn,) = fold(script.events).lead_job.turns
    assert turn.reply.prose.text == quoted
    assert (turn.reply.call_name, turn.reply.call_chars) == ("note", 28)


def test_stored_and_live_events_give_same_view(finished: PlayedRun) -> None:
    """Stored events give the same nodes as live events."""
    watched, again = fold(finished.events), fold(list(finished.stored_events()))
    renderer = RunRenderer(finished)
    assert saved_transcript(again, renderer, "run-1") == saved_transcript(watched, renderer, "run-1")


def test_repeated_events_are_ignored(finished: PlayedRun) -> None:
    """Events that were applied before change nothing."""
    once, twice = fold(finished.events), fold([event for event in finished.events for _ in range(2)])
    assert RunRenderer(finished).nodes(twice) == RunRenderer(finished).nodes(once)


def test_parallel_artifacts_stand_in_the_order_of_their_calls(script: Script) -> None:
    """The order in which the artifacts are written does not matter."""
    for name in "abc":
        script.add("tool_start", tool="create_artifact", job_id="main", tool_call_id=name, params={"id": name})
    for name in "bac":
        script.add("artifact_changed", tool_call_id=name, artifact_id=name, version=1, title=name)
        ended = {"success": True, "metadata": {"artifact_id": name, "version": 1}}
        script.add("tool_complete", tool="create_artifact", job_id="main", tool_call_id=name, **ended)
    run = PlayedRun(script.events)
    run.artifacts = {(name, 1): "Text." for name in "abc"}
    *_, written = RunRenderer(run).body(fold(script.events))
    assert [node.key for node in written.children] == ["art-a", "art-b", "art-c"]


def test_late_view_has_complete_text(script: Script) -> None:
    """The first chunk that a late view receives contains all earlier text."""
    for delta in ("Once ", "upon ", "a time"):
        script.add("llm_chunk", job_id="main", call_id="llm-1", kind="answer", delta=delta)
    late = fold(with_shared_text(script.events)[1:])
    assert late.lead_job.turns[0].reply.prose.text == "Once upon a time"


def test_retry_discards_text(script: Script) -> None:
    """After a retry the turn has the text of the new attempt and the reason of the retry."""
    script.add("llm_chunk", job_id="main", call_id="llm-1", kind="answer", delta="half a sen")
    script.add("retry", job_id="main", call_id="llm-1", attempt=1, delay_s=1.0, reason="connection lost")
    script.add("llm_chunk", job_id="main", call_id="llm-1", kind="answer", delta="A whole one.")
    turn = fold(script.events).lead_job.turns[0]
    assert turn.reply.prose.text == "A whole one."
    assert turn.retries == [("connection lost", 1000.0)]


def test_retries_stay_with_the_turn(script: Script) -> None:
    """Each attempt has its own id; the turn of the last attempt lists and counts the failures and the waits."""
    script.add("agent_start", job_id="main")
    script.add("llm_chunk", job_id="main", call_id="llm-1", kind="answer", delta="half")
    script.add("retry", job_id="main", call_id="llm-1", attempt=1, delay_s=6.0, reason="too busy")
    waiting = fold(script.events)
    assert waiting.lead_job.awaiting_since == script.events[-1].timestamp + timedelta(seconds=6)
    assert waiting.totals.n_unanswered == 1
    assert activity(waiting.lead_job) == "The model call failed, trying again"
    renderer = RunRenderer(PlayedRun(script.events))
    due_ms = 1000 * waiting.lead_job.awaiting_since.timestamp()
    clock = f'<span data-since="{due_ms:.0f}" data-due>in 6.0 s</span>'
    body = str(renderer.body(waiting)).replace("\\", "")
    assert f"is tried again {clock}: too busy" in body
    assert "Waiting for the first words" not in body  # a second clock beside that of the retry
    script.add("llm_chunk", job_id="main", call_id="llm-2", kind="answer", delta="A whole one.")
    assert activity(fold(script.events).lead_job) == "Writing, 12 characters"
    answering = str(renderer.body(fold(script.events)))
    assert "data-stall" in answering
    assert "was tried again after 6.0 s: too busy" in answering
    assert "data-due" not in answering
    script.add("llm_complete", job_id="main", call_id="llm-2", text="A whole one.", token_usage={"total_tokens": 1})
    done = fold(script.events)
    (turn,) = done.lead_job.turns
    assert (turn.retries, done.totals.n_unanswered) == ([("too busy", 6000.0)], 1)
    page = str(renderer.body(done))
    assert "was tried again after 6.0 s: too busy" in page
    assert "data-stall" not in page


def test_request_waits_until_decided(script: Script) -> None:
    """The run waits for an open request, runs after its decision, and has no open request after its end."""
    events = research(script).events
    at = next(i for i, event in enumerate(events) if event.type == "permission_result")
    waiting, going_on, done = fold(events[:at]), fold(events[: at + 1]), fold(events)
    assert (waiting.status, [q.id for q in waiting.open_requests]) == ("waiting", ["req-1"])
    assert (going_on.status, going_on.open_requests) == ("running", [])
    assert (done.status, done.requests["req-1"].approved) == ("completed", True)


def test_requests_have_the_order_of_their_agents(script: Script) -> None:
    """Parallel agents may ask in any order; the cards have the order of the agents above."""
    for use in ("tc-1", "tc-2", "tc-3"):
        script.add("tool_start", tool="call_subagent", job_id="main", tool_call_id=use, params={"instruction": use})
    for use in ("tc-3", "tc-1", "tc-2"):
        script.add("llm_complete", "crawl_agent", job_id=use, call_id=f"llm-{use}", text="", token_usage={})
        script.add(
            "permission_request", "crawl_agent", "web_fetch", job_id=use, id=f"req-{use}", tool_call_id=f"call-{use}"
        )
    transcript = fold(script.events)
    agents = [call.id for call in transcript.lead_job.tools]
    assert [request.id for request in transcript.open_requests] == [f"req-{use}" for use in agents]


def test_repeated_request_stays_decided(script: Script) -> None:
    """A decided request that a resume repeats stays decided."""
    request = {"id": "req-1", "tool_call_id": "tc-1", "job_id": "main"}
    script.add("permission_request", tool="web_fetch", **request)
    script.add("permission_result", tool="web_fetch", **request, approved=False, decided_by="user")
    script.add("permission_request", tool="web_fetch", **request)
    transcript = fold(script.events)
    assert transcript.open_requests == []
    assert transcript.lead_job.tools[0].status == "failed"


def test_decision_is_displayed(script: Script) -> None:
    """A decision shows its scope; edited parameters replace the original parameters; an instruction is not a denial."""
    for number in (1, 2):
        request = {"id": f"req-{number}", "tool_call_id": f"tc-{number}", "job_id": "main"}
        script.add("permission_request", tool="send", **request, params={"to": "Ada"})
        decision = {"approved": True, "decision": "edited", "params": {"to": "Bob"}, "scope": "run"}
        if number == 2:
            decision = {"approved": False, "decision": "instructed", "instruction": "Call her."}
        script.add("permission_result", tool="send", **request, **decision, decided_by="user")
    edited, instructed = fold(script.events).lead_job.tools
    assert edited.params == {"to": "Bob"}
    assert (edited.request.decision, edited.request.scope) == ("edited", "run")
    assert call_outcome(instructed) == "answered instead: Call her."


def test_tokens_and_calls_are_summed(script: Script) -> None:
    """Totals are the tokens of all completed model calls and the calls of all jobs."""
    totals = fold(research(script).events).totals
    assert (totals.tokens.n, totals.n_llm_calls, totals.n_tool_calls) == (5 * 120, 5, 3)


def test_failed_run_shows_error(script: Script) -> None:
    """An error ends the run as failed, with type and message, and ends the open calls of the run."""
    script.add("tool_start", tool="web_fetch", job_id="main", tool_call_id="tc-1", params={})
    script.add("error", None, error_type="ModelUnavailable", message="no answer")
    transcript = fold(script.events)
    assert (transcript.status, transcript.error) == ("failed", "no answer")
    assert transcript.lead_job.tools[0].status == "failed"


def test_budget_request_is_not_counted_as_call(script: Script) -> None:
    """A budget request belongs to its turn, is done once approved, and is not counted as a tool call."""
    script.add("metadata", None, request="How?")
    script.say("I look.", "I look.", call="llm-1")
    limits = {"tokens": 3500}
    title = "The run has spent 2,000 of 1,500 tokens. Go on?"
    script.add(
        "permission_request",
        tool="budget",
        job_id="main",
        tool_call_id="",
        id="req-1",
        kind="budget",
        params=limits,
        title=title,
    )
    waiting = fold(script.events)
    assert [question.title for question in waiting.open_requests] == [title]
    script.add(
        "permission_result", tool="budget", job_id="main", id="req-1", approved=True, decision="approved", params=None
    )
    lifted = fold(script.events)
    assert [(use.tool, use.status) for use in lifted.lead_job.tools] == [("budget", "ok")]
    assert lifted.totals.n_tool_calls == 0
