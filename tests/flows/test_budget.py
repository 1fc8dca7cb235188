"""What a run may spend: the limits, what happens when one is reached, and who may lift it."""

import asyncio
from typing import Any

import pytest
from conftest import OpenEngine
from support.replies import by_agent, call, delegate

from artifactflow_nb.analysis.frames import LLM_CALLS, load_frame
from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.budget import Budget, BudgetUsage, Price, cost_usd
from artifactflow_nb.core.messages import Usage
from artifactflow_nb.errors import UsageError
from artifactflow_nb.models.base import ModelReply
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.tools.base import Tool, ToolContext, tool

PRICES = {"scripted": {"input": 2.0, "output": 10.0, "cache_read": 1.0}}


def turn(text: str, tokens: int = 100, model: str = "scripted") -> ModelReply:
    """A reply that used so many tokens, a tenth of them for its text."""
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
    """The lead delegates two jobs at once, each of which looks and then reports."""
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


async def test_a_run_stops_before_the_call_that_its_budget_does_not_allow(open_engine: OpenEngine) -> None:
    """No further model call is made, the run fails and says how much is spent, and what it did is stored."""
    engine = await with_look(open_engine, looks(4))
    result = await engine.controller.execute("Look.", budget={"tokens": 200})
    assert (result.status, result.error_type, result.response) == ("failed", "BudgetExceeded", None)
    assert "200 of 200 tokens" in result.error_message
    assert "when_spent='ask'" in result.error_message
    assert len(engine.model.requests) == 2
    assert [call.success for call in result.metrics.tool_calls] == [True, True]


async def test_a_budget_that_is_never_reached_changes_nothing(open_engine: OpenEngine) -> None:
    """The run completes; a last answer that goes beyond the limit is not taken away."""
    engine = await with_look(open_engine, looks(1))
    result = await engine.controller.execute("Look.", budget=Budget(tokens=101))
    assert (result.status, result.response) == ("completed", "Done.")


async def test_the_person_lets_a_run_go_on(open_engine: OpenEngine) -> None:
    """It waits with one request that says what is spent; an approval allows as much again, and nothing is repeated."""
    engine = await with_look(open_engine, looks(3))
    waiting = await engine.controller.execute("Look.", budget={"tokens": 150, "when_spent": "ask"})
    (request,) = waiting.pending
    assert (waiting.status, request.kind, request.tool) == ("waiting", "budget", "budget")
    assert "200 of 150 tokens" in request.title
    assert request.params == {"tokens": 350}
    result = await engine.controller.resume(waiting.thread_id, approved=True)
    assert (result.status, result.response) == ("completed", "Done.")
    assert len(engine.model.requests) == 4


async def test_a_run_asks_again_when_the_new_limits_are_reached(open_engine: OpenEngine) -> None:
    """The person sets the limits with the approval; at those the run waits once more."""
    engine = await with_look(open_engine, looks(4))
    waiting = await engine.controller.execute("Look.", budget={"tokens": 100, "when_spent": "ask"})
    more = {waiting.pending[0].id: Decision(approved=True, params={"tokens": 300})}
    again = await engine.controller.resume(waiting.thread_id, decisions=more)
    assert (again.status, len(engine.model.requests)) == ("waiting", 3)
    assert "300 of 300 tokens" in again.pending[0].title
    always = {again.pending[0].id: Decision(approved=True, scope="run")}
    result = await engine.controller.resume(again.thread_id, decisions=always)
    assert (result.status, len(engine.model.requests)) == ("completed", 5)


async def test_a_denied_run_ends_at_its_budget(open_engine: OpenEngine) -> None:
    """The run fails, and its error says what the person said."""
    engine = await with_look(open_engine, looks(3))
    waiting = await engine.controller.execute("Look.", budget={"tokens": 100, "when_spent": "ask"})
    no = {waiting.pending[0].id: Decision(approved=False, instruction="Enough.")}
    result = await engine.controller.resume(waiting.thread_id, decisions=no)
    assert (result.status, result.error_type) == ("failed", "BudgetExceeded")
    assert "Enough." in result.error_message
    assert len(engine.model.requests) == 1


async def test_limits_that_cannot_be_are_not_approved(open_engine: OpenEngine) -> None:
    """The error says what is wrong, and the request stays open."""
    engine = await with_look(open_engine, looks(3))
    waiting = await engine.controller.execute("Look.", budget={"tokens": 100, "when_spent": "ask"})
    with pytest.raises(UsageError, match="tokens: input should be greater than 0"):
        await engine.controller.decide(waiting.pending[0].id, Decision(approved=True, params={"tokens": -1}))
    assert len((await engine.controller.result(waiting.run_id)).pending) == 1


async def test_several_jobs_wait_for_one_decision(open_engine: OpenEngine) -> None:
    """Jobs at work at the same time that reach the budget ask once; with the approval all of them go on."""
    engine = await with_two_jobs(open_engine)
    waiting = await engine.controller.execute("Look.", budget={"tokens": 150, "when_spent": "ask"})
    assert [request.kind for request in waiting.pending] == ["budget"]
    result = await engine.controller.resume(
        waiting.thread_id, decisions={waiting.pending[0].id: Decision(approved=True, scope="run")}
    )
    assert (result.status, result.response) == ("completed", "Done.")
    assert len(engine.model.requests) == 6


async def test_a_decision_between_two_jobs_on_their_way_to_the_gate_frees_both(open_engine: OpenEngine) -> None:
    """A job that stood at the gate goes on too where another one finds the budget decided when it gets there."""
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


async def test_a_run_that_lost_its_counter_waits_after_a_decision(open_engine: OpenEngine) -> None:
    """A budget that was decided on and is waited for no more keeps no run from waiting for its next tool."""
    first = await with_look(open_engine, looks(1), approvals={"look": "approve"})
    waiting = await first.controller.execute("Look.", budget={"tokens": 100, "when_spent": "ask"})
    await first.aclose()
    (first.folder / "checkpoints.db").unlink()
    second = await with_look(open_engine, looks(1), approvals={"look": "ask"})
    async with asyncio.timeout(5):
        again = await second.controller.resume(waiting.thread_id, approved=True)
    assert (again.status, [request.tool for request in again.pending]) == ("waiting", ["look"])


async def test_a_standing_approval_does_not_lift_a_hard_limit(open_engine: OpenEngine) -> None:
    """Who lets a conversation's runs go on is not asked again; a later run with `when_spent` stop still stops."""
    engine = await with_look(open_engine, [*looks(3), *looks(3)])
    waiting = await engine.controller.execute("Look.", budget={"tokens": 100, "when_spent": "ask"})
    more = {waiting.pending[0].id: Decision(approved=True, scope="conversation")}
    done = await engine.controller.resume(waiting.thread_id, decisions=more)
    assert done.status == "completed"
    later = await engine.controller.execute("Again.", conversation_id=done.conversation_id, budget={"tokens": 100})
    assert later.error_type == "BudgetExceeded"


async def test_a_waiting_budget_survives_the_engine(open_engine: OpenEngine) -> None:
    """The run keeps its budget: another engine approves, the limits hold there too, and no call is made twice."""
    first = await with_look(open_engine, looks(1))
    waiting = await first.controller.execute("Look.", budget={"tokens": 100, "when_spent": "ask"})
    await first.aclose()
    second = await with_look(open_engine, looks(2)[1:])
    again = await second.controller.resume(waiting.thread_id, approved=True)
    assert again.status == "waiting"
    assert "200 of 200 tokens" in again.pending[0].title
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
async def test_one_verdict_for_all_calls_never_lifts_a_budget(
    open_engine: OpenEngine, approvals: Any, stand_in: str, status: str
) -> None:
    """A blanket approval stops at the budget; a rule for `budget` or a function may lift it; else a person is asked."""
    engine = await with_look(open_engine, looks(1), approvals=approvals, settings={"approvals": stand_in})
    result = await engine.controller.execute("Look.", budget={"tokens": 50, "when_spent": "ask"})
    assert result.status == status


async def test_what_a_run_costs_is_known_and_limited(open_engine: OpenEngine) -> None:
    """The price of the model gives the cost of each call, in the frame too, and the run stops at the limit."""
    engine = await with_look(open_engine, looks(4), settings={"prices": PRICES})
    result = await engine.controller.execute("Look.", budget={"usd": 0.0005})
    assert result.error_type == "BudgetExceeded"
    assert "0.00056 USD of 0.0005 USD" in result.error_message
    costs = load_frame(engine.database.path, LLM_CALLS)["cost_usd"]
    assert [round(cost, 6) for cost in costs] == [0.00028, 0.00028]


async def test_a_limit_on_a_cost_that_nobody_knows_is_refused(open_engine: OpenEngine) -> None:
    """The error names the model that has no price; nothing was asked."""
    engine = await open_engine(["Done."])
    with pytest.raises(UsageError, match="no price for the model 'scripted'"):
        await engine.controller.execute("Look.", budget={"usd": 1})
    assert engine.model.requests == []


async def test_nor_is_such_a_limit_approved(open_engine: OpenEngine) -> None:
    """Who lets a run go on cannot put it in the place of the other limits: the run would spend without end."""
    engine = await with_look(open_engine, looks(3))
    waiting = await engine.controller.execute("Look.", budget={"tokens": 150, "when_spent": "ask"})
    (request,) = waiting.pending
    with pytest.raises(UsageError, match="no price for the model 'scripted' of lead_agent"):
        await engine.controller.decide(request.id, Decision(approved=True, params={"tokens": None, "usd": 0.01}))
    assert (await engine.controller.result(waiting.run_id)).pending == (request,)
    result = await engine.controller.resume(waiting.thread_id, approved=True)
    assert result.status == "completed"


async def test_time_at_work_is_limited(open_engine: OpenEngine) -> None:
    """The time of models and tools counts, several at once only once; waiting for a person does not."""
    engine = await with_look(open_engine, None, model=ScriptedModel(looks(9), delay_s=0.03), approvals={"look": "ask"})
    result = await engine.controller.execute("Look.", budget={"seconds": 0.05})
    while result.status == "waiting":
        result = await engine.controller.resume(result.thread_id, approved=True)
    assert result.error_type == "BudgetExceeded"
    assert "of 0.05 s" in result.error_message
    assert len(engine.model.requests) < 6


async def test_a_workbench_has_a_budget_for_every_run(open_engine: OpenEngine) -> None:
    """The configured budget holds unless a run is given its own."""
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
def test_a_budget_that_cannot_be_says_why(limits: dict[str, Any], problem: str) -> None:
    """The error names the limit and what is allowed."""
    with pytest.raises(UsageError, match=problem):
        Budget.from_limits(limits)


def test_costs_count_cached_tokens_at_their_own_price() -> None:
    """Cached tokens have their price, or the price of the others; a model without a price costs nobody knows what."""
    prices = {"a": Price(input=2, output=10, cache_read=1), "b": Price(input=2, output=10)}
    usage = Usage(1_000_000, 100_000, cache_read_tokens=400_000)
    assert cost_usd(prices, ["a"], usage) == pytest.approx(1.2 + 0.4 + 1.0)
    assert cost_usd(prices, ["b"], usage) == pytest.approx(3.0)
    assert cost_usd(prices, [None, "b"], usage) == pytest.approx(3.0)
    assert cost_usd(prices, ["c"], usage) is None
    assert cost_usd(prices, ["a"], None) is None
    assert cost_usd(prices, ["a"], Usage(100, 0, cache_read_tokens=500)) == pytest.approx(0.0001)


def test_an_extension_gives_as_much_again_from_what_is_spent() -> None:
    """Only limits that are reached are raised, so that each approval lets the run make progress."""
    agreed = Budget(tokens=100, seconds=60)
    assert agreed.extended(BudgetUsage(tokens=250, seconds=10), agreed) == Budget(tokens=350, seconds=60)
