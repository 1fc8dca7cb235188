"""A plan in the views: events folded into a checklist, live and frozen."""

import re
from typing import Any

import pytest
from conftest import OpenWorkbench
from support.pages import ShownView
from support.played_runs import PlayedRun, Script, with_shared_text
from support.replies import by_agent, call, decide
from support.replies import plan as planned

from artifactflow_nb.core.approvals import ApprovalRequest
from artifactflow_nb.core.events import StreamEvent
from artifactflow_nb.notebook.lists import RequestList
from artifactflow_nb.widgets.chat.view import ChatView
from artifactflow_nb.widgets.page.nodes import Node
from artifactflow_nb.widgets.page.saved import saved_html
from artifactflow_nb.widgets.run.labels import steps as told_steps
from artifactflow_nb.widgets.run.parts import TranscriptPlan
from artifactflow_nb.widgets.run.render import RunRenderer
from artifactflow_nb.widgets.run.saved import saved_run
from artifactflow_nb.widgets.run.transcript import RunTranscript
from artifactflow_nb.widgets.run.view import announcement

WHERE = {"tool_call_id": "tc-1", "plan_id": "plan-1"}


def described(*titles: str, **status: str) -> list[dict[str, str]]:
    """Steps as events carry them; `s2="pending"` for another status than that."""
    return [
        {"id": str(n), "title": title, "description": "", "status": status.get(f"s{n}", "pending")}
        for n, title in enumerate(titles, 1)
    ]


class Planned:
    """Writes the events of a plan."""

    def __init__(self, *titles: str) -> None:
        self.script = Script()
        self.script.add("metadata", None, question="What is to be done?")
        self.script.say("A plan.", "A plan.", call="llm-1", agent="agent")
        params = {"title": "The plan", "steps": [{"title": title} for title in titles]}
        self.script.add("tool_start", "agent", "plan_create", job_id="main", tool_call_id="tc-1", params=params)
        self.script.add("plan_created", "agent", job_id="main", title="The plan", steps=described(*titles), **WHERE)
        self.n = 0

    def step(self, step_id: str, title: str, status: str = "", result: str = "", attempt: int = 1) -> None:
        """A step that an agent works on, to its end if it has a status."""
        self.n += 1
        told = {**WHERE, "job_id": f"job-{self.n}", "step_id": step_id, "title": title, "attempt": attempt}
        self.script.add("step_start", "executor", **told)
        self.work("executor", f"job-{self.n}", f"Said in job {self.n}." if status != "completed" else result)
        if status:
            self.script.add("step_complete", "executor", **told, status=status, result=result)

    def look(self, agent: str, said: str) -> None:
        """An agent at work of which no event of the plan tells."""
        self.n += 1
        self.work(agent, f"job-{self.n}", said)

    def work(self, agent: str, job: str, said: str) -> None:
        self.script.add("agent_start", agent, job_id=job, step=1, instruction="Do it.", model="m")
        self.script.call("read_artifact", f"tc-{job}", {"id": "x"}, job=job)
        self.script.say(said, said, call=f"llm-{job}", job=job, agent=agent)

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
    """A plan whose second step fails twice, is then replaced, and of which the last is not done."""
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


def nodes(events: list[StreamEvent], **how: Any) -> tuple[Node, ...]:
    return RunRenderer(PlayedRun(events), **how).nodes(fold(events))


def test_work_is_nested_below_its_step(worked: Planned) -> None:
    """Each attempt, the looks between them, and at the end the summary; nothing becomes a delegation."""
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
    assert told_steps(transcript) == "7 agents · 7 tool calls · plan: 1 of 3 steps, 1 failed, 1 skipped"


def test_plan_reports_progress(worked: Planned) -> None:
    """Status, attempts, result or reason, and the time of all attempts, without the time between them."""
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
    """A run that is shown again, or of which every event comes twice, looks like the one that was watched."""
    watched = nodes(worked.script.events)
    assert nodes(worked.script.stored) == watched
    assert nodes([event for event in worked.script.events for _ in range(2)]) == watched
    assert nodes(with_shared_text(worked.script.events)) == watched


def test_checklist_shows_statuses_as_words(worked: Planned) -> None:
    """An item for each step with its number, title and status; the sign beside it says nothing to a screen reader."""
    html = saved_html(nodes(worked.script.events))
    items = re.search('<ol class="af-steps" role="list">(.*)</ol>', html, re.DOTALL)
    assert items
    lines = re.findall(r'<span class="af-step-title">(.*?)</span>.*?<span class="af-step-state">(.*?)</span>', items[1])
    assert lines == [("1. Find", "completed"), ("2. Compare", "failed · 2 attempts"), ("3. Look", "skipped")]
    assert items[1].count('aria-hidden="true"') == 3
    assert "The plan was changed: There is no B." in html


def test_result_equal_to_last_reply_is_displayed_once(worked: Planned) -> None:
    """What a completed step gave is its agent's last words; why a step failed stands above what was done."""
    html = saved_html(nodes(worked.script.events))
    assert html.count("Found A.") == 1
    assert html.index("Still no B.") < html.index("Said in job 2.")


def test_running_step_counts_up() -> None:
    """Its clock goes on from the time of the attempts before; it says what its agent does; others have none."""
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
    assert '<span class="af-arg">slow it</span>' in html
    assert "data-since" not in saved_html(nodes(plan.script.events, with_metrics=False))
    assert announcement(fold(plan.script.events)) == "Step 1 of 2: Find."


@pytest.mark.parametrize(("ending", "status"), [("cancelled", "cancelled"), ("error", "failed")])
def test_end_of_run_ends_running_step(ending: str, status: str) -> None:
    """No step goes on when its run is over; those that were to come are as they were."""
    plan = Planned("Find", "Compare")
    plan.step("1", "Find")
    plan.script.add(ending, None)
    steps = plan_of(plan.script.events).steps
    assert [(step.status, step.started_at) for step in steps] == [(status, None), ("pending", None)]
    assert f'af-step-state">{status}<' in saved_html(nodes(plan.script.events))


def test_aborted_step_shows_reason() -> None:
    """The plan tells it before the run does, and the step goes on no longer."""
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


def test_step_without_process_is_interrupted() -> None:
    """It says so until somebody goes on with the run."""
    plan = Planned("Find")
    plan.step("1", "Find")
    transcript = fold(plan.script.events)
    transcript.set_gone(is_gone=True)
    assert transcript.plans[0].steps[0].status == "interrupted"
    assert "interrupted" in saved_html(RunRenderer(PlayedRun([])).nodes(transcript))
    transcript.set_gone(is_gone=False)
    assert transcript.plans[0].steps[0].status == "running"


def test_second_plan_has_its_own_agents() -> None:
    """What begins after a plan has ended belongs to the one that goes on, or is a delegation if none does."""
    plan = Planned("Find")
    plan.step("1", "Find", "completed", "A.")
    plan.script.add("tool_complete", "agent", "plan_create", job_id="main", tool_call_id="tc-1", success=True)
    plan.look("search_agent", "Searched.")
    transcript = fold(plan.script.events)
    assert [use.tool for use in transcript.lead_job.tools] == ["plan_create", "call_subagent"]
    assert not transcript.plans[0].jobs


def test_every_saved_format_contains_checklist(worked: Planned) -> None:
    """Plain text, Markdown and HTML: titles, statuses, attempts and reasons; the style comes along."""
    bundle = saved_run(PlayedRun(worked.script.events, "What is to be done?"))
    assert bundle["text/plain"] == (
        "Run completed: What is to be done?\n\n"
        "Plan: The plan (1 of 3 steps, 1 failed, 1 skipped)\n"
        "1. [completed] Find\n"
        "2. [failed · 2 attempts] Compare: Still no B.\n"
        "3. [skipped] Look: It is enough.\n\n"
        "The answer."
    )
    for told in (
        "<summary>✕ Plan The plan 1 of 3 steps, 1 failed, 1 skipped",
        "- <details><summary>✕ 2. Compare failed · 2 attempts",
    ):
        assert told in bundle["text/markdown"]
    assert ".af-steps" in bundle["text/html"]
    assert "plan: 1 of 3 steps, 1 failed, 1 skipped" in bundle["text/html"]


def test_plan_style_is_omitted_without_plan(finished: PlayedRun) -> None:
    """What a notebook does not show it does not hold."""
    assert ".af-steps" not in saved_run(finished)["text/html"]


def test_unknown_step_status_is_pending() -> None:
    """A file that somebody sent may say anything; the step counts as one that is to come."""
    plan = Planned("Find")
    plan.step("1", "Find", "exploded", "Boom.")
    assert plan_of(plan.script.events).steps[0].status == "pending"
    assert nodes(plan.script.events)


def test_chat_shows_plan_of_real_run(workbench: OpenWorkbench) -> None:
    """The checklist is in the page and in what is saved; the run's card and the workbench's say how far it is."""
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
    face = page.view.saved_output()
    assert ".af-steps" in face["text/html"]
    assert "2. [failed] Compare: No B." in face["text/plain"]
    assert "The plan (1 of 2 steps, 1 failed)" in run._card().plain()
    assert "1 of 2 steps, 1 failed" in wb._card().plain()


def test_every_saved_format_shows_steps_of_waiting_plan(workbench: OpenWorkbench) -> None:
    """Who decides in code, or in a saved notebook, sees the steps: in the run's faces, its card and in what waits."""
    steps = [{"title": "Find_it", "tools": ["web_search"], "description": "Far <b>away</b>."}, {"title": "Compare"}]
    script = by_agent(agent=[call("plan_create", title="The plan", steps=steps)])
    wb = workbench(script, interactive=False, graph_config={"approval": {"enabled": True}})
    run = wb.ask("Compare.", flow="plan").wait(10)
    face = saved_run(run._client)
    asked = "Waiting for approval of plan_create: agent wants to carry out a plan: The plan"
    assert f"{asked}\n  1. Find_it\n  2. Compare\n\n" in face["text/plain"]
    assert "1. **Find_it**: Far" in face["text/markdown"]
    assert "2. **Compare**" in face["text/markdown"]
    for shown in (run._card().plain(), run.pending[0]._card().plain()):
        assert re.search(r"1\. Find_it +Far <b>away</b>\. +web_search\n +2\. Compare", shown), shown
    assert "agent wants to carry out a plan: The plan: 1. Find_it; 2. Compare" in repr(wb.pending())
    for markdown in (run._repr_markdown_(), wb.pending()._repr_markdown_(), run.pending[0]._repr_markdown_()):
        assert "2. Compare" in markdown.replace("\\", "")


@pytest.mark.parametrize(
    "steps", [None, 3, "One", [3, None, {}, {"title": {}, "tools": 1, "description": []}], {"a": 1}]
)
def test_malformed_steps_in_request_are_tolerated(steps: Any) -> None:
    """A file that somebody sent may say anything of a plan that waits."""
    asked = Script()
    asked.add("metadata", None, question="What?")
    asked.add(
        "permission_request", "agent", "plan_create", job_id="main", tool_call_id="tc-1", id="ask-1", kind="plan",
        params={"title": "The plan", "steps": steps}, title="A plan", preview="", message="",
    )  # fmt: skip
    face = saved_run(PlayedRun(asked.events))
    assert "Waiting for approval of plan_create: A plan" in face["text/plain"]
    request = ApprovalRequest("ask-1", "run-1", "plan", "agent", "plan_create", {"steps": steps}, "A plan")
    assert RequestList([request])._repr_html_()
    assert request._card().markdown()


def test_plan_note_is_displayed_with_steps() -> None:
    """A note of the preview, such as a limit, stands where the steps are shown and the preview is not."""
    asked = Script()
    params = {"title": "The plan", "steps": [{"title": "One"}]}
    asked.add(
        "permission_request", "agent", "plan_create", job_id="main", tool_call_id="tc-1", id="ask-1", kind="plan",
        params=params, title="A plan", preview="1. **One**\n\nAt most none.", message="",
    )  # fmt: skip
    assert "A plan\n  1. One\n  At most none.\n\n" in saved_run(PlayedRun(asked.events))["text/plain"]
    request = ApprovalRequest("ask-1", "run-1", "plan", "agent", "plan_create", params, "A plan", "1.\n\nAt most none.")
    assert "At most none." in request._card().plain()
