"""Plans as values, and their next action."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artifactflow_nb.core.plan import (
    STEP_STATUSES,
    Plan,
    PlanAction,
    PlanJob,
    PlanProgress,
    PlanRules,
    PlanStep,
    assign_step_ids,
)
from artifactflow_nb.errors import UsageError

RULES = PlanRules(max_steps=4, max_retries=1, max_revisions=1)


def steps(*statuses: Any) -> tuple[PlanStep, ...]:
    return tuple(PlanStep(str(n), f"Step {n}", status=status) for n, status in enumerate(statuses, 1))


def progress(*statuses: Any, jobs: tuple[tuple[Any, str, str], ...] = ()) -> PlanProgress:
    """A plan with steps of these statuses, and jobs of kind, step and outcome."""
    plan_jobs = [
        PlanJob(f"job-{n}", n, kind, step, outcome=end, text="Said.") for n, (kind, step, end) in enumerate(jobs, 1)
    ]
    return PlanProgress(Plan("p", "A plan", steps(*statuses)), tuple(plan_jobs))


DONE, FAILED = ("execute", "1", "completed"), ("execute", "1", "failed")


@pytest.mark.parametrize(
    ("found", "rules", "expected"),
    [
        (progress("pending", "pending"), RULES, PlanAction("execute", "1")),
        (progress("completed", "pending", jobs=(DONE,)), RULES, PlanAction("execute", "2")),
        (progress("completed", jobs=(DONE,)), RULES, PlanAction("finish")),
        (progress("failed", "pending", jobs=(FAILED,)), RULES, PlanAction("replan", "1")),
        (progress("failed", jobs=(FAILED,)), RULES, PlanAction("replan", "1")),
        (
            progress("failed", "pending", jobs=(FAILED,)),
            replace(RULES, replanner=False),
            PlanAction("finish", reason="The step 1 failed."),
        ),
        (
            progress("completed", "pending", "pending", jobs=(DONE,)),
            replace(RULES, skip_on_success=False),
            PlanAction("replan", "1"),
        ),
        (
            progress("completed", "pending", jobs=(DONE,)),
            replace(RULES, skip_on_success=False),
            PlanAction("execute", "2"),
        ),
        (
            progress("completed", "pending", "pending", jobs=(DONE,)),
            replace(RULES, skip_on_success=False, replanner=False),
            PlanAction("execute", "2"),
        ),
        (
            progress("completed", "pending", jobs=(DONE,)),
            replace(RULES, max_steps=1),
            PlanAction("finish", reason="The limit of 1 executed step was reached."),
        ),
        (
            progress("failed", jobs=(FAILED,)),
            replace(RULES, max_steps=1),
            PlanAction("finish", reason="The limit of 1 executed step was reached."),
        ),
        (progress("failed", "pending", jobs=(FAILED, ("replan", "1", "continue"))), RULES, PlanAction("execute", "2")),
        (progress("failed", jobs=(FAILED, ("replan", "1", "continue"))), RULES, PlanAction("finish")),
        (progress("pending", "pending", jobs=(FAILED, ("replan", "1", "retry"))), RULES, PlanAction("execute", "1")),
        (
            progress("failed", "pending", jobs=(FAILED, ("replan", "1", "finish"))),
            RULES,
            PlanAction("finish", reason="Said."),
        ),
    ],
)
def test_next_action_follows_from_steps_and_rules(found: PlanProgress, rules: PlanRules, expected: PlanAction) -> None:
    """The next action follows from the statuses of the steps, the last job and the rules."""
    assert found.next_action(rules) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (progress("completed", "pending", jobs=(DONE,)), ("continue", "revise", "finish")),
        (progress("failed", "pending", jobs=(FAILED,)), ("continue", "retry", "revise", "finish")),
        (progress("failed", jobs=(FAILED,)), ("retry", "revise", "finish")),
        (progress("failed", jobs=(FAILED, ("replan", "1", "retry"), FAILED)), ("revise", "finish")),
        (progress("failed", jobs=(("replan", "1", "revise"), FAILED)), ("retry", "finish")),
    ],
)
def test_replanner_may_retry_or_revise_within_the_limits(found: PlanProgress, expected: tuple[str, ...]) -> None:
    """A retry needs a failed step and a remaining retry, a revision a remaining revision."""
    assert found.choices(RULES) == expected


SUMMED_UP = ("summarize", "", "completed")


@pytest.mark.parametrize(
    ("jobs", "rules", "expected"),
    [
        ((DONE,), RULES, True),
        ((DONE, ("summarize", "", "")), RULES, True),
        ((DONE, SUMMED_UP), RULES, False),
        ((DONE, ("summarize", "", "failed")), RULES, False),
        ((DONE,), replace(RULES, summarizer=False), False),
        ((DONE,), replace(RULES, recursion_limit=1), False),
        ((DONE, ("summarize", "", "")), replace(RULES, recursion_limit=2), True),
    ],
)
def test_plan_is_summarized_once(jobs: Any, rules: PlanRules, expected: bool) -> None:
    """A running summary continues; a summary that has ended, successfully or not, is not repeated."""
    assert progress("completed", jobs=jobs).needs_summary(rules) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (progress("completed", jobs=(DONE, SUMMED_UP)), ""),
        (progress("failed", jobs=(FAILED, ("replan", "1", "finish"), SUMMED_UP)), "Said."),
        (progress("failed", jobs=(FAILED,) * 4), "The limit of 4 executed steps was reached."),
    ],
)
def test_end_reason_of_a_plan(found: PlanProgress, expected: str) -> None:
    """The reason for an early end is known during the summary too; a plan that was executed in full has no reason."""
    assert found.end_reason(RULES) == expected


@given(
    st.lists(
        st.builds(PlanStep, st.just(""), st.text(), st.text(), st.sampled_from(STEP_STATUSES), st.text()), min_size=1
    ),
    st.text(),
)
def test_plan_round_trips_through_json(drafts: list[PlanStep], title: str) -> None:
    """Any texts survive, and each step has a unique id."""
    plan = Plan("plan-1", title, assign_step_ids(drafts))
    assert Plan.from_json(plan.to_json()) == plan
    assert len({step.id for step in plan.steps}) == len(drafts)
    assert plan.markdown.count("\n") >= len(drafts)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no json", "JSONDecodeError"),
        ("[]", "TypeError"),
        ('{"plan_id": "p", "title": "t"}', "KeyError: 'steps'"),
        ('{"plan_id": "p", "title": 1, "steps": []}', "1 is not a text"),
        ('{"plan_id": "p", "title": "t", "steps": [{"id": "1", "title": "a", "status": "odd"}]}', "'odd' is not a sta"),
        ('{"plan_id": "p", "title": "t", "steps": [1]}', "AttributeError"),
        ('{"plan_id": "p", "title": "\\ud800", "steps": []}', "UnicodeEncodeError"),
        ("[" * 100_000, "RecursionError"),
        (
            json.dumps({"plan_id": "p", "title": "t", "steps": [{"id": "1", "title": "a"}] * 2}),
            "Two steps of the plan have the same id",
        ),
    ],
)
def test_invalid_plan_is_reported(text: str, message: str) -> None:
    """The error has the reason why the text is not a plan."""
    with pytest.raises(UsageError, match=message):
        Plan.from_json(text)


def test_revision_keeps_finished_steps() -> None:
    """Finished steps stay, and new steps get unused ids."""
    plan = Plan("p", "A plan", steps("completed", "failed", "pending"))
    revised = plan.revise([PlanStep("2", "Another"), PlanStep("", "And one")])
    assert [(step.id, step.title, step.status) for step in revised.steps] == [
        ("1", "Step 1", "completed"),
        ("2", "Step 2", "failed"),
        ("3", "Another", "pending"),
        ("4", "And one", "pending"),
    ]


def test_unfinished_steps_are_skipped_with_the_reason() -> None:
    """Closing a plan skips the unfinished steps and changes nothing else."""
    closed = Plan("p", "A plan", steps("completed", "running", "pending", "failed")).skip_remaining("No time.")
    assert [(step.status, step.result) for step in closed.steps] == [
        ("completed", ""),
        ("skipped", "No time."),
        ("skipped", "No time."),
        ("failed", ""),
    ]
    assert closed.counts == {"completed": 1, "failed": 1, "skipped": 2}


def test_abort_fails_running_steps() -> None:
    """A running step fails with the reason, and later steps are skipped with the same reason."""
    broken = Plan("p", "A plan", steps("completed", "running", "pending")).abort("No power.")
    assert [(step.status, step.result) for step in broken.steps] == [
        ("completed", ""),
        ("failed", "No power."),
        ("skipped", "No power."),
    ]
