"""Events folded into what a view shows."""

from widgets.played import PlayedRun, Script, research, with_shared_text

from artifactflow_nb.events import StreamEvent
from artifactflow_nb.widgets.frozen import bundle
from artifactflow_nb.widgets.labels import outcome
from artifactflow_nb.widgets.render import RunRenderer
from artifactflow_nb.widgets.transcript import Transcript


def fold(events: list[StreamEvent]) -> Transcript:
    transcript = Transcript("How do context managers end?")
    for event in events:
        transcript.apply(event)
    return transcript


def test_a_delegated_job_hangs_under_its_call(script: Script) -> None:
    """A sub-agent's turns and calls stand under the call that delegated them, with its instruction."""
    lead = fold(research(script).events).lead
    job = lead.turns[0].tools[0].job
    assert job is not None
    assert (job.agent, job.instruction) == ("search_agent", "Find what <exit> does.")
    assert [use.tool for use in job.tools] == ["web_search"]
    assert [turn.reply.prose.text for turn in job.turns] == ["", "It **replaces** it."]


def test_parallel_jobs_of_one_agent_stay_apart(script: Script) -> None:
    """Chunks of two jobs that arrive in turn end up each in its own job."""
    for use in ("tc-1", "tc-2"):
        script.add("tool_start", tool="call_subagent", job_id="main", tool_call_id=use, params={"instruction": use})
    for word in ("one ", "two "):
        for use in ("tc-1", "tc-2"):
            script.add("llm_chunk", "search_agent", job_id=use, call_id=f"llm-{use}", kind="answer", delta=word + use)
    jobs = [use.job for use in fold(script.events).lead.tools]
    assert [job.turns[0].reply.prose.text for job in jobs if job] == ["one tc-1two tc-1", "one tc-2two tc-2"]


def test_stored_events_give_the_same_view_as_live_ones(finished: PlayedRun) -> None:
    """A run that is shown again from its stored events looks like the one that was watched."""
    watched, again = fold(finished.events), fold(list(finished.stored_events()))
    renderer = RunRenderer(finished)
    assert bundle(again, finished, renderer) == bundle(watched, finished, renderer)


def test_every_event_may_come_twice(finished: PlayedRun) -> None:
    """Events that were taken in already change nothing."""
    once, twice = fold(finished.events), fold([event for event in finished.events for _ in range(2)])
    assert RunRenderer(finished).nodes(twice) == RunRenderer(finished).nodes(once)


def test_a_view_that_comes_late_has_the_text_from_its_beginning(script: Script) -> None:
    """The first chunk that a late view hears brings the text before it along."""
    for delta in ("Once ", "upon ", "a time"):
        script.add("llm_chunk", job_id="main", call_id="llm-1", kind="answer", delta=delta)
    late = fold(with_shared_text(script.events)[1:])
    assert late.lead.turns[0].reply.prose.text == "Once upon a time"


def test_a_retry_voids_the_text_so_far(script: Script) -> None:
    """After a retry only the text of the new attempt is left, and the reason is kept."""
    script.add("llm_chunk", job_id="main", call_id="llm-1", kind="answer", delta="half a sen")
    script.add("retry", job_id="main", call_id="llm-1", attempt=1, delay_s=1.0, reason="connection lost")
    script.add("llm_chunk", job_id="main", call_id="llm-1", kind="answer", delta="A whole one.")
    turn = fold(script.events).lead.turns[0]
    assert turn.reply.prose.text == "A whole one."
    assert turn.retries == ["connection lost"]


def test_a_question_waits_until_it_is_answered(script: Script) -> None:
    """An open question makes the run wait; its answer lets it run; the end closes everything."""
    events = research(script).events
    at = next(i for i, event in enumerate(events) if event.type == "permission_result")
    waiting, going_on, done = fold(events[:at]), fold(events[: at + 1]), fold(events)
    assert (waiting.status, [q.id for q in waiting.open_questions]) == ("waiting", ["req-1"])
    assert (going_on.status, going_on.open_questions) == ("running", [])
    assert (done.status, done.questions["req-1"].approved) == ("completed", True)


def test_a_question_asked_again_stays_answered(script: Script) -> None:
    """A request that a resume repeats after its answer does not open again."""
    request = {"id": "req-1", "tool_call_id": "tc-1", "job_id": "main"}
    script.add("permission_request", tool="web_fetch", **request)
    script.add("permission_result", tool="web_fetch", **request, approved=False, decided_by="user")
    script.add("permission_request", tool="web_fetch", **request)
    transcript = fold(script.events)
    assert transcript.open_questions == []
    assert transcript.lead.tools[0].status == "failed"


def test_a_decision_shows_what_it_was(script: Script) -> None:
    """Edited parameters take the place of those asked about; an instruction is no denial; a scope is said."""
    for number in (1, 2):
        request = {"id": f"req-{number}", "tool_call_id": f"tc-{number}", "job_id": "main"}
        script.add("permission_request", tool="send", **request, params={"to": "Ada"})
        decision = {"approved": True, "decision": "edited", "params": {"to": "Bob"}, "scope": "run"}
        if number == 2:
            decision = {"approved": False, "decision": "instructed", "instruction": "Call her."}
        script.add("permission_result", tool="send", **request, **decision, decided_by="user")
    edited, instructed = fold(script.events).lead.tools
    assert edited.params == {"to": "Bob"}
    assert (edited.question.decision, edited.question.scope) == ("edited", "run")
    assert outcome(instructed) == "answered instead: Call her."


def test_tokens_and_calls_are_summed(script: Script) -> None:
    """Tokens are those of all completed model calls, calls those of all jobs."""
    totals = fold(research(script).events).totals
    assert (totals.tokens, totals.n_llm_calls, totals.n_tool_calls) == (5 * 120, 5, 3)


def test_a_failure_says_why(script: Script) -> None:
    """An error ends the run as failed, with its type and message, and its open calls with it."""
    script.add("tool_start", tool="web_fetch", job_id="main", tool_call_id="tc-1", params={})
    script.add("error", None, error_type="ModelUnavailable", message="no answer")
    transcript = fold(script.events)
    assert (transcript.status, transcript.problem) == ("failed", "ModelUnavailable: no answer")
    assert transcript.lead.tools[0].status == "failed"


def test_a_budget_that_was_lifted_is_no_tool_call(script: Script) -> None:
    """The question stands where it was asked, is done with its approval, and counts as no call of a tool."""
    script.add("metadata", None, question="How?")
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
    assert [question.title for question in waiting.open_questions] == [title]
    script.add(
        "permission_result", tool="budget", job_id="main", id="req-1", approved=True, decision="approved", params=None
    )
    lifted = fold(script.events)
    assert [(use.tool, use.status) for use in lifted.lead.tools] == [("budget", "ok")]
    assert lifted.totals.n_tool_calls == 0
