"""Plans in views: checklists from events, live and saved."""

import re
from typing import Any

import pytest
from conftest import OpenWorkbench
from support.pages import ShownView, visible_text
from support.played_runs import PlayedRun, Script, with_shared_text
from support.replies import by_agent, call, decide
from support.replies import plan as planned

from artifactflow_nb.core.approvals import ApprovalRequest
from artifactflow_nb.core.events import StreamEvent
from artifactflow_nb.notebook.lists import RequestList
from artifactflow_nb.widgets.chat.view import ChatView
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.saved import saved_html
from artifactflow_nb.widgets.run.labels import steps as steps_label
from artifactflow_nb.widgets.run.parts import TranscriptCall, TranscriptPlan
from artifactflow_nb.widgets.run.plan import PlanRenderer
from artifactflow_nb.widgets.run.render import RunRenderer
from artifactflow_nb.widgets.run.saved import saved_run
from artifactflow_nb.widgets.run.transcript import RunTranscript
from artifactflow_nb.widgets.run.view import announcement

WHERE = {"tool_call_id": "tc-1", "plan_id": "plan-1"}


def described(*titles: str, **status: str) -> list[dict[str, str]]:
    """Steps as in events; `s2="pending"` sets the status of the second step."""
    return [
        {"id": str(n), "title": title, "description": "", "status": status.get(f"s{n}", "pending")}
        for n, title in enumerate(titles, 1)
    ]


class Planned:
    """Writes the events of a plan."""

    def __init__(self, *titles: str, title: str = "The plan") -> None:
        self.script = Script()
        self.script.add("metadata", None, question="What is to be done?")
        self.script.say("A plan.", "A plan.", call="llm-1", agent="agent")
        params = {"title": title, "steps": [{"title": step} for step in titles]}
        self.script.add("tool_start", "agent", "plan_create", job_id="main", tool_call_id="tc-1", params=params)
        self.script.add("plan_created", "agent", job_id="main", title=title, steps=described(*titles), **WHERE)
        self.n = 0

    def step(self, step_id: str, title: str, status: str = "", result: str = "", attempt: int = 1) -> None:
        """Add the start of a step and the work of its agent, and its end if a status is passed."""
        self.n += 1
        error_text = {**WHERE, "job_id": f"job-{self.n}", "step_id": step_id, "title": title, "attempt": attempt}
        self.script.add("step_start", "executor", **error_text)
        self.work("executor", f"job-{self.n}", f"Said in job {self.n}." if status != "completed" else result)
        if status:
            self.script.add("step_complete", "executor", **error_text, status=status, result=result)

    def look(self, agent: str, sentence: str) -> None:
        """Add a job of an agent without an event of the plan."""
        self.n += 1
        self.work(agent, f"job-{self.n}", sentence)

    def work(self, agent: str, job: str, sentence: str) -> None:
        self.script.add("agent_start", agent, job_id=job, step=1, instruction="Do it.", model="m")
        self.script.call("read_artifact", f"tc-{job}", {"id": "x"}, job=job)
        self.script.say(sentence, sentence, call=f"llm-{job}", job=job, agent=agent)

    def tell(self, event: str, **data: Any) -> None:
        self.script.add(event, "replanner", job_id="main", **WHERE, **data)

    def end(self, *, success: bool) -> None:
        self.script.add(
            "tool_complete", "agent", "plan_create", job_id="main", tool_call_id="tc-1", success=success,
            duration_ms=900.0, error=None if success else "The plan is over.", metadata={},
        )  # fmt: skip
        self.script.say("The answer.", "The answer.", call="llm-last", agent="agent")
        self.script.add("complete", None, success=True, response="The answer.", interrupted=False)


@pytest.fixture
def worked() -> Planned:
    """A plan whose second step fails twice and is replaced by a step that is skipped."""
    plan = Planned("Find", "Compare", "Write")
    plan.step("1", "Find", "completed", "Found A.")
    plan.step("2", "Compare", "failed", "No B.")
    plan.look("replanner", "Once more.")
    plan.tell("plan_updated", reason="It may work now.", steps=described("Find", "Compare")[1:])
    plan.step("2", "Compare", "failed", "Still no B.", attempt=2)
    plan.look("replanner", "Another way.")
    changed = [*described("Find", "Compare", s1="completed", s2="failed"), *described("", "", "Look")[2:]]
    plan.tell("plan_revised", reason="There is no B.", steps=changed)
    plan.tell("plan_updated", reason="It is enough.", steps=[{**changed[2], "status": "skipped"}])
    plan.look("summarizer", "It is A.")
    plan.end(success=False)
    return plan


def fold(events: list[StreamEvent]) -> RunTranscript:
    transcript = RunTranscript()
    for event in events:
        transcript.apply(event)
    return transcript


def plan_of(events: list[StreamEvent]) -> TranscriptPlan:
    (plan,) = fold(events).plans
    return plan


def nodes(events: list[StreamEvent], **options: Any) -> tuple[Node, ...]:
    return RunRenderer(PlayedRun(events), **options).nodes(fold(events))


def test_work_is_nested_below_its_step(worked: Planned) -> None:
    """Attempts and replannings are jobs of their step, the summary is a job of the plan; there are no delegations."""
    transcript = fold(worked.script.events)
    (plan,) = transcript.plans
    assert [[job.id for job in step.jobs] for step in plan.steps] == [
        ["job-1"],
        ["job-2", "job-3", "job-4", "job-5"],
        [],
    ]
    assert [job.agent for job in plan.steps[1].jobs] == ["executor", "replanner"] * 2
    assert [(job.agent, job.id) for job in plan.jobs] == [("summarizer", "job-6")]
    (use,) = transcript.lead_job.tools
    assert (use.tool, use.plan) == ("plan_create", plan)
    assert all(found.tool != "call_subagent" for found in transcript.tool_uses)
    assert steps_label(transcript) == "7 agents · 7 tool calls · plan: 1 of 3 steps, 1 failed, 1 skipped"


def test_plan_reports_progress(worked: Planned) -> None:
    """Each step has its status, attempts, result or reason, and the sum of the times of its attempts."""
    steps = plan_of(worked.script.events).steps
    assert [(step.title, step.status, step.n_attempts, step.result) for step in steps] == [
        ("Find", "completed", 1, "Found A."),
        ("Compare", "failed", 2, "Still no B."),
        ("Look", "skipped", 0, "It is enough."),
    ]
    attempt = steps[0].duration_ms
    assert attempt > 0
    assert steps[1].duration_ms == pytest.approx(2 * attempt, abs=500)
    assert steps[2].duration_ms == 0


def test_stored_events_give_same_checklist(worked: Planned) -> None:
    """Stored and repeated events give the same nodes as live events."""
    watched = nodes(worked.script.events)
    assert nodes(worked.script.stored) == watched
    assert nodes([event for event in worked.script.events for _ in range(2)]) == watched
    assert nodes(with_shared_text(worked.script.events)) == watched


def test_checklist_shows_statuses_as_words(worked: Planned) -> None:
    """Each step is an item with number, title and status; its mark is hidden from screen readers."""
    html = saved_html(nodes(worked.script.events))
    items = re.search('<ol class="af-steps" role="list">(.*)</ol>', html, re.DOTALL)
    assert items
    lines = re.findall(r'<span class="af-step-title">(.*?)</span>.*?<span class="af-step-state">(.*?)</span>', items[1])
    assert lines == [("1. Find", "completed"), ("2. Compare", "failed · 2 attempts"), ("3. Look", "skipped")]
    assert items[1].count('aria-hidden="true"') == 3
    assert "The plan was changed: There is no B." in html


def test_result_equal_to_last_reply_is_displayed_once(worked: Planned) -> None:
    """The result of a completed step is its agent's last reply; the reason of a failure is displayed above the work."""
    html = saved_html(nodes(worked.script.events))
    assert html.count("Found A.") == 1
    assert html.index("Still no B.") < html.index("Said in job 2.")


def test_running_step_counts_up() -> None:
    """The time of a running step includes its earlier attempts; the step shows the activity of its agent."""
    plan = Planned("Find", "Compare")
    plan.step("1", "Find", "failed", "No.")
    plan.tell("plan_updated", reason="Again.", steps=described("Find")[:1])
    plan.step("1", "Find", attempt=2)
    plan.script.add("tool_start", "executor", "slow", job_id="job-2", tool_call_id="tc-9", params={"id": "it"})
    html = saved_html(nodes(plan.script.events))
    (since,) = re.findall(r'af-step-state">running · attempt 2</span> <span class="af-time" data-since="(\d+)"', html)
    (step, _) = plan_of(plan.script.events).steps
    assert step.started_at
    assert int(since) == pytest.approx(step.started_at.timestamp() * 1000 - step.duration_ms, abs=1)
    assert '<span class="af-arg">Running “slow”: it</span>' in html
    assert "data-since" not in saved_html(nodes(plan.script.events, with_metrics=False))
    assert announcement(fold(plan.script.events)) == "Step 1 of 2: Find."


@pytest.mark.parametrize(("ending", "status"), [("cancelled", "cancelled"), ("error", "failed")])
def test_end_of_run_ends_running_step(ending: str, status: str) -> None:
    """The end of a run ends its running step; pending steps remain pending."""
    plan = Planned("Find", "Compare")
    plan.step("1", "Find")
    plan.script.add(ending, None)
    steps = plan_of(plan.script.events).steps
    assert [(step.status, step.started_at) for step in steps] == [(status, None), ("pending", None)]
    assert f'af-step-state">{status}<' in saved_html(nodes(plan.script.events))


def test_aborted_step_shows_reason() -> None:
    """The step has failed with the reason before the run ends."""
    plan = Planned("Find", "Compare")
    plan.step("1", "Find")
    plan.tell("plan_updated", reason="Cancelled.", steps=described("Find", "Compare", s1="failed", s2="skipped"))
    plan.script.add("cancelled", None)
    steps = plan_of(plan.script.events).steps
    assert [(step.status, step.result, step.started_at) for step in steps] == [
        ("failed", "Cancelled.", None),
        ("skipped", "Cancelled.", None),
    ]
    assert steps[0].duration_ms > 0


def test_time_of_a_plan_is_without_the_waiting_of_the_person() -> None:
    call = TranscriptCall("tc-1", "plan_create", {}, "ok", duration_ms=61_000.0, wait_ms=40_000.0)
    plans = PlanRenderer(lambda _job: (), str, with_metrics=True)
    assert "21.0 s + 40.0 s waiting for you" in plans.node(call, TranscriptPlan("The plan")).html


def test_step_without_process_is_abandoned() -> None:
    """The running step is abandoned until the run is resumed."""
    plan = Planned("Find")
    plan.step("1", "Find")
    transcript = fold(plan.script.events)
    transcript.set_gone(is_gone=True)
    assert transcript.plans[0].steps[0].status == "abandoned"
    assert "abandoned" in saved_html(RunRenderer(PlayedRun([])).nodes(transcript))
    transcript.set_gone(is_gone=False)
    assert transcript.plans[0].steps[0].status == "running"


def test_second_plan_has_its_own_agents() -> None:
    """A job that starts after the end of a plan belongs to the unfinished plan, or is a delegation."""
    plan = Planned("Find")
    plan.step("1", "Find", "completed", "A.")
    plan.script.add("tool_complete", "agent", "plan_create", job_id="main", tool_call_id="tc-1", success=True)
    plan.look("search_agent", "Searched.")
    transcript = fold(plan.script.events)
    assert [use.tool for use in transcript.lead_job.tools] == ["plan_create", "call_subagent"]
    assert not transcript.plans[0].jobs


def test_every_saved_format_contains_checklist(worked: Planned) -> None:
    """Plain text, Markdown and HTML have titles, statuses, attempts and reasons; the HTML has the style."""
    bundle = saved_run(PlayedRun(worked.script.events, "What is to be done?"))
    assert bundle["text/plain"] == (
        "Run completed: What is to be done?\n\n"
        "Plan: The plan (1 of 3 steps, 1 failed, 1 skipped)\n"
        "1. [completed] Find\n"
        "2. [failed · 2 attempts] Compare: Still no B.\n"
        "3. [skipped] Look: It is enough.\n\n"
        "The answer."
    )
    for error_text in ("✕ Plan The plan 1 of 3 steps, 1 failed, 1 skipped", "✕ 2. Compare failed · 2 attempts"):
        assert error_text in visible_text(bundle["text/html"])
    assert ".af-steps" in bundle["text/html"]
    assert "plan: 1 of 3 steps, 1 failed, 1 skipped" in bundle["text/html"]


@pytest.mark.parametrize("title", ["Plan: The plan", "计划：The plan", "The plan"])
def test_saved_plan_says_once_that_it_is_a_plan(title: str) -> None:
    """Models often begin the title of a plan with the word "plan"."""
    worked = Planned("Find", title=title)
    bundle = saved_run(PlayedRun(worked.script.events, "What is to be done?"))
    assert "Plan: The plan (" in bundle["text/plain"]
    assert "Plan The plan" in visible_text(bundle["text/html"])


def test_plan_style_is_omitted_without_plan(finished: PlayedRun) -> None:
    """The saved output of a run without a plan does not contain the style of plans."""
    assert ".af-steps" not in saved_run(finished)["text/html"]


def test_unknown_step_status_is_pending() -> None:
    """An unknown status, for example from a foreign file, counts as pending."""
    plan = Planned("Find")
    plan.step("1", "Find", "exploded", "Boom.")
    assert plan_of(plan.script.events).steps[0].status == "pending"
    assert nodes(plan.script.events)


def test_chat_shows_plan_of_real_run(workbench: OpenWorkbench) -> None:
    """The checklist with its progress is in the page and in the saved output."""
    script = by_agent(
        agent=[planned("Find", "Compare"), "Done."],
        executor=["Found.", call("report_failure", reason="No B."), "It failed."],
        replanner=[decide("finish", "It is enough."), "So be it."],
        summarizer=["One of two."],
    )
    wb = workbench(script, interactive=False)
    run = wb.ask("Compare.", flow="plan").wait(10)
    page = ShownView(wb._thread, ChatView(wb._thread, run.conversation_id))
    assert "1 of 2 steps, 1 failed" in page.text
    kinds = [kind for key, kind in page.kinds.items() if "-step-" in key and kind in {"list", "item"}]
    assert kinds == ["item", "item"]
    saved_form = page.view.saved_output()
    assert ".af-steps" in saved_form["text/html"]
    assert "2. [failed] Compare: No B." in saved_form["text/plain"]


def test_every_saved_format_shows_steps_of_waiting_plan(workbench: OpenWorkbench) -> None:
    """The steps are in the saved outputs and the list of pending requests."""
    steps = [{"title": "Find_it", "tools": ["web_search"], "description": "Far <b>away</b>."}, {"title": "Compare"}]
    script = by_agent(agent=[call("plan_create", title="The plan", steps=steps)])
    wb = workbench(script, interactive=False, graph_config={"approval": {"enabled": True}})
    run = wb.ask("Compare.", flow="plan").wait(10)
    saved_form = saved_run(run._client)
    label = "Waiting for your approval: Carry out a plan: The plan"
    assert f"{label}\n  1. Find_it\n  2. Compare" in saved_form["text/plain"]
    assert "<strong>Find_it</strong>: Far" in saved_form["text/html"]
    assert "<strong>Compare</strong>" in saved_form["text/html"]
    shown = run.pending[0]._card().plain()
    assert re.search(r"1\. Find_it +Far <b>away</b>\. +web_search\n +2\. Compare", shown), shown
    assert "agent wants to carry out a plan: The plan: 1. Find_it; 2. Compare" in repr(wb.pending())
    for page in (wb.pending()._repr_html_(), run.pending[0]._repr_html_()):
        assert "2. Compare" in visible_text(page)


@pytest.mark.parametrize(
    "steps", [None, 3, "One", [3, None, {}, {"title": {}, "tools": 1, "description": []}], {"a": 1}]
)
def test_malformed_steps_in_request_are_tolerated(steps: Any) -> None:
    """Malformed steps, for example from a foreign file, do not break the views of a waiting plan."""
    script = Script()
    script.add("metadata", None, question="What?")
    script.add(
        "permission_request", "agent", "plan_create", job_id="main", tool_call_id="tc-1", id="ask-1", kind="plan",
        params={"title": "The plan", "steps": steps}, title="A plan", preview="", message="",
    )  # fmt: skip
    saved_form = saved_run(PlayedRun(script.events))
    assert "Waiting for your approval: A plan" in saved_form["text/plain"]
    request = ApprovalRequest("ask-1", "run-1", "plan", "agent", "plan_create", {"steps": steps}, "A plan")
    assert RequestList([request])._repr_html_()
    assert request._card().html()


def test_plan_note_is_displayed_with_steps() -> None:
    """A note of the preview, for example a limit, is displayed with the steps where the preview is not displayed."""
    script = Script()
    params = {"title": "The plan", "steps": [{"title": "One"}]}
    script.add(
        "permission_request", "agent", "plan_create", job_id="main", tool_call_id="tc-1", id="ask-1", kind="plan",
        params=params, title="A plan", preview="1. **One**\n\nAt most none.", message="",
    )  # fmt: skip
    assert "A plan\n  1. One\n  At most none." in saved_run(PlayedRun(script.events))["text/plain"]
    request = ApprovalRequest("ask-1", "run-1", "plan", "agent", "plan_create", params, "A plan", "1.\n\nAt most none.")
    assert "At most none." in request._card().plain()
