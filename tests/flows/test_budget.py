"""Budgets: limits on tokens, cost and time, and the approvals that raise them."""

import asyncio
from typing import Any

import pytest
from conftest import OpenEngine
from support.replies import by_agent, call, delegate

from artifactflow_nb.analysis.frames.catalog import LLM_CALLS
from artifactflow_nb.analysis.frames.reading import load_frame
from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.budget import Budget, BudgetUsage, Price, cost_usd
from artifactflow_nb.core.messages import Usage
from artifactflow_nb.errors import UsageError
from artifactflow_nb.models.base import ModelReply
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.tools.base import Tool, ToolContext, tool

PRICES = {"scripted": {"input": 2.0, "output": 10.0, "cache_read": 1.0}}


def turn(text: str, tokens: int = 100, model: str = "scripted") -> ModelReply:
    """A reply that used this many tokens, a tenth of the tokens for its text."""
    return ModelReply(text, Usage(tokens * 9 // 10, tokens // 10), "stop", model)


@tool
def look(ctx: ToolContext) -> str:
    """Look around."""
    del ctx
    return "seen"


async def with_look(open_engine: OpenEngine, turns: Any, tools: tuple[Tool, ...] = (look,), **options: Any) -> Any:
    engine = await open_engine(turns, **options)
    for entry in tools:
        engine.register_tool(entry)
    return engine


async def with_two_jobs(open_engine: OpenEngine) -> Any:
    """The lead delegates two parallel jobs, each of which calls a tool and then reports."""
    job = [turn(call("look")), turn("Found.")]
    engine = await with_look(
        open_engine,
        by_agent(
            lead=[turn(delegate("search_agent", "a") + delegate("crawl_agent", "b")), turn("Done.")],
            search=iter(job),
            reading=iter(job),
        ),
    )
    for agent in ("search_agent", "crawl_agent"):
        engine.register_tool(look, agent=agent)
    return engine


def looks(rounds: int) -> list[ModelReply]:
    return [*(turn(call("look")) for _ in range(rounds)), turn("Done.")]


async def test_run_stops_at_its_budget(open_engine: OpenEngine) -> None:
    """No further model call is made, the error states the usage, and finished work is stored."""
    engine = await with_look(open_engine, looks(4))
    result = await engine.controller.execute("Look.", budget={"tokens": 200})
    assert (result.status, result.error_type, result.response) == ("failed", "BudgetExceeded", None)
    assert "200 of 200 tokens" in result.error_message
    assert "when_spent='ask'" in result.error_message
    assert len(engine.model.requests) == 2
    assert [call.success for call in result.metrics.tool_calls] == [True, True]


async def test_last_answer_may_exceed_the_budget(open_engine: OpenEngine) -> None:
    """The run completes although its last answer exceeds the limit."""
    engine = await with_look(open_engine, looks(1))
    result = await engine.controller.execute("Look.", budget=Budget(tokens=101))
    assert (result.status, result.response) == ("completed", "Done.")


async def test_approval_extends_the_budget(open_engine: OpenEngine) -> None:
    """The request states the usage; an approval allows the same amount again, and no work is repeated."""
    engine = await with_look(open_engine, looks(3))
    waiting = await engine.controller.execute("Look.", budget={"tokens": 150, "when_spent": "ask"})
    (request,) = waiting.pending
    assert (waiting.status, request.kind, request.tool) == ("waiting", "budget", "budget")
    assert "200 of 150 tokens" in request.title
    assert request.params == {"tokens": 350}
    result = await engine.controller.resume(waiting.thread_id, approved=True)
    assert (result.status, result.response) == ("completed", "Done.")
    assert len(engine.model.requests) == 4


async def test_run_waits_again_at_new_limits(open_engine: OpenEngine) -> None:
    """The person sets limits with the approval; the run waits again at these limits."""
    engine = await with_look(open_engine, looks(4))
    waiting = await engine.controller.execute("Look.", budget={"tokens": 100, "when_spent": "ask"})
    more = {waiting.pending[0].id: Decision(approved=True, params={"tokens": 300})}
    resumed = await engine.controller.resume(waiting.thread_id, decisions=more)
    assert (resumed.status, len(engine.model.requests)) == ("waiting", 3)
    assert "300 of 300 tokens" in resumed.pending[0].title
    always = {resumed.pending[0].id: Decision(approved=True, scope="run")}
    result = await engine.controller.resume(resumed.thread_id, decisions=always)
    assert (result.status, len(engine.model.requests)) == ("completed", 5)


async def test_denied_budget_fails_the_run(open_engine: OpenEngine) -> None:
    """The error contains the person's reason."""
    engine = await with_look(open_engine, looks(3))
    waiting = await engine.controller.execute("Look.", budget={"tokens": 100, "when_spent": "ask"})
    no = {waiting.pending[0].id: Decision(approved=False, instruction="Enough.")}
    result = await engine.controller.resume(waiting.thread_id, decisions=no)
    assert (result.status, result.error_type) == ("failed", "BudgetExceeded")
    assert "Enough." in result.error_message
    assert len(engine.model.requests) == 1


async def test_invalid_limits_cannot_be_approved(open_engine: OpenEngine) -> None:
    """The error states the problem, and the request stays open."""
    engine = await with_look(open_engine, looks(3))
    waiting = await engine.controller.execute("Look.", budget={"tokens": 100, "when_spent": "ask"})
    with pytest.raises(UsageError, match="tokens: input should be greater than 0"):
        await engine.controller.decide(waiting.pending[0].id, Decision(approved=True, params={"tokens": -1}))
    assert len((await engine.controller.result(waiting.run_id)).pending) == 1


async def test_parallel_jobs_share_one_budget_request(open_engine: OpenEngine) -> None:
    """Parallel jobs that reach the budget make one request; after the approval all jobs continue."""
    engine = await with_two_jobs(open_engine)
    waiting = await engine.controller.execute("Look.", budget={"tokens": 150, "when_spent": "ask"})
    assert [request.kind for request in waiting.pending] == ["budget"]
    result = await engine.controller.resume(
        waiting.thread_id, decisions={waiting.pending[0].id: Decision(approved=True, scope="run")}
    )
    assert (result.status, result.response) == ("completed", "Done.")
    assert len(engine.model.requests) == 6


async def test_decision_between_two_jobs_releases_both(open_engine: OpenEngine) -> None:
    """A job that waits continues too if another job finds the budget decided when it reaches the gate."""
    engine = await with_two_jobs(open_engine)
    read, at_the_gate = engine.approvals.decisions, 0

    async def decided_before_the_second_looks(subjects: Any) -> Any:
        nonlocal at_the_gate
        at_the_gate += any(subject.startswith("budget") for subject in subjects)
        if at_the_gate == 2 and (open_requests := await engine.approvals.open_requests()):
            await engine.controller.decide(open_requests[0].id, Decision(approved=True))
        return await read(subjects)

    engine.approvals.decisions = decided_before_the_second_looks
    result = await engine.controller.execute("Look.", budget={"tokens": 250, "when_spent": "ask"})
    assert (result.status, at_the_gate) == ("completed", 3)


async def test_decided_budget_does_not_keep_the_run_from_waiting(open_engine: OpenEngine) -> None:
    """After a budget decision without a waiting job, the run still waits for the next tool approval."""
    first = await with_look(open_engine, looks(1), approvals={"look": "approve"})
    waiting = await first.controller.execute("Look.", budget={"tokens": 100, "when_spent": "ask"})
    await first.aclose()
    (first.folder / "checkpoints.db").unlink()
    second = await with_look(open_engine, looks(1), approvals={"look": "ask"})
    async with asyncio.timeout(5):
        resumed = await second.controller.resume(waiting.thread_id, approved=True)
    assert (resumed.status, [request.tool for request in resumed.pending]) == ("waiting", ["look"])


async def test_standing_approval_does_not_lift_a_hard_limit(open_engine: OpenEngine) -> None:
    """An approval for the conversation covers later runs, except runs with `when_spent='stop'`."""
    engine = await with_look(open_engine, [*looks(3), *looks(3)])
    waiting = await engine.controller.execute("Look.", budget={"tokens": 100, "when_spent": "ask"})
    more = {waiting.pending[0].id: Decision(approved=True, scope="conversation")}
    done = await engine.controller.resume(waiting.thread_id, decisions=more)
    assert done.status == "completed"
    later = await engine.controller.execute("Again.", conversation_id=done.conversation_id, budget={"tokens": 100})
    assert later.error_type == "BudgetExceeded"


async def test_waiting_budget_survives_the_engine(open_engine: OpenEngine) -> None:
    """Another engine approves, the limits apply in that engine too, and no call is made twice."""
    first = await with_look(open_engine, looks(1))
    waiting = await first.controller.execute("Look.", budget={"tokens": 100, "when_spent": "ask"})
    await first.aclose()
    second = await with_look(open_engine, looks(2)[1:])
    resumed = await second.controller.resume(waiting.thread_id, approved=True)
    assert resumed.status == "waiting"
    assert "200 of 200 tokens" in resumed.pending[0].title
    result = await second.controller.resume(waiting.thread_id, approved=True)
    assert (result.status, len(second.model.requests)) == ("completed", 2)


@pytest.mark.parametrize(
    ("approvals", "stand_in", "status"),
    [
        ("approve", "ask", "failed"),
        ("ask", "approve", "failed"),
        ("deny", "ask", "failed"),
        ({"budget": "approve"}, "ask", "completed"),
        (lambda request: "approve" if request.kind == "budget" else "deny", "ask", "completed"),
        ({"look": "deny"}, "ask", "waiting"),
    ],
)
async def test_blanket_approval_does_not_lift_a_budget(
    open_engine: OpenEngine, approvals: Any, stand_in: str, status: str
) -> None:
    """Only a rule for `budget` or a function can approve a budget without a person."""
    engine = await with_look(open_engine, looks(1), approvals=approvals, settings={"approvals": stand_in})
    result = await engine.controller.execute("Look.", budget={"tokens": 50, "when_spent": "ask"})
    assert result.status == status


async def test_cost_is_stored_and_limited(open_engine: OpenEngine) -> None:
    """Each call has the cost by its model's price, in the frame too, and the run stops at the limit."""
    engine = await with_look(open_engine, looks(4), settings={"prices": PRICES})
    result = await engine.controller.execute("Look.", budget={"usd": 0.0005})
    assert result.error_type == "BudgetExceeded"
    assert "0.00056 USD of 0.0005 USD" in result.error_message
    costs = load_frame(engine.database.path, LLM_CALLS)["cost_usd"]
    assert [round(cost, 6) for cost in costs] == [0.00028, 0.00028]


async def test_cost_limit_without_a_price_is_rejected(open_engine: OpenEngine) -> None:
    """The error names the model without a price, and no model is called."""
    engine = await open_engine(["Done."])
    with pytest.raises(UsageError, match="no price for the model 'scripted'"):
        await engine.controller.execute("Look.", budget={"usd": 1})
    assert engine.model.requests == []


async def test_cost_limit_without_a_price_cannot_be_approved(open_engine: OpenEngine) -> None:
    """A cost limit for a model without a price would never be reached, so an approval cannot set such a limit."""
    engine = await with_look(open_engine, looks(3))
    waiting = await engine.controller.execute("Look.", budget={"tokens": 150, "when_spent": "ask"})
    (request,) = waiting.pending
    with pytest.raises(UsageError, match="no price for the model 'scripted' of lead_agent"):
        await engine.controller.decide(request.id, Decision(approved=True, params={"tokens": None, "usd": 0.01}))
    assert (await engine.controller.result(waiting.run_id)).pending == (request,)
    result = await engine.controller.resume(waiting.thread_id, approved=True)
    assert result.status == "completed"


async def test_machine_time_is_limited(open_engine: OpenEngine) -> None:
    """The time of models and tools counts, parallel work once; waiting for a person does not count."""
    engine = await with_look(open_engine, None, model=ScriptedModel(looks(9), delay_s=0.03), approvals={"look": "ask"})
    result = await engine.controller.execute("Look.", budget={"seconds": 0.05})
    while result.status == "waiting":
        result = await engine.controller.resume(result.thread_id, approved=True)
    assert result.error_type == "BudgetExceeded"
    assert "of 0.05 s" in result.error_message
    assert len(engine.model.requests) < 6


async def test_configured_budget_applies_to_every_run(open_engine: OpenEngine) -> None:
    """A budget that is passed to a run replaces the configured budget."""
    engine = await with_look(open_engine, [*looks(1)[:1], *looks(1)], settings={"budget": {"tokens": 100}})
    assert (await engine.controller.execute("Look.")).error_type == "BudgetExceeded"
    assert (await engine.controller.execute("Look.", budget={"tokens": 1_000})).status == "completed"


@pytest.mark.parametrize(
    ("limits", "problem"),
    [
        ({"tokens": 0}, "tokens: input should be greater than 0"),
        ({"token": 5}, "token is not one of tokens, usd, seconds, when_spent"),
        ({"when_spent": "shout"}, "when_spent: input should be 'stop' or 'ask'"),
        ({"usd": float("inf")}, "usd: input should be a finite number"),
    ],
)
def test_invalid_budget_is_rejected(limits: dict[str, Any], problem: str) -> None:
    """The error names the limit and the allowed values."""
    with pytest.raises(UsageError, match=problem):
        Budget.from_limits(limits)


def test_cached_tokens_have_their_own_price() -> None:
    """Cached tokens without a price cost as much as other tokens; the cost of a model without a price is unknown."""
    prices = {"a": Price(input=2, output=10, cache_read=1), "b": Price(input=2, output=10)}
    usage = Usage(1_000_000, 100_000, cache_read_tokens=400_000)
    assert cost_usd(prices, ["a"], usage) == pytest.approx(1.2 + 0.4 + 1.0)
    assert cost_usd(prices, ["b"], usage) == pytest.approx(3.0)
    assert cost_usd(prices, [None, "b"], usage) == pytest.approx(3.0)
    assert cost_usd(prices, ["c"], usage) is None
    assert cost_usd(prices, ["a"], None) is None
    assert cost_usd(prices, ["a"], Usage(100, 0, cache_read_tokens=500)) == pytest.approx(0.0001)


def test_extension_adds_the_limit_to_the_usage() -> None:
    """Only limits that were reached are raised, so that each approval lets the run continue."""
    agreed = Budget(tokens=100, seconds=60)
    assert agreed.extended(BudgetUsage(tokens=250, seconds=10), agreed) == Budget(tokens=350, seconds=60)
