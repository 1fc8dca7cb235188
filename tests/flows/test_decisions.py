"""Decisions besides yes and no: edited parameters, instructions, notes and scopes."""

import asyncio
from typing import Any

import pytest
from conftest import OpenEngine
from support.replies import call

from artifactflow_nb.analysis.frames.catalog import TOOL_CALLS
from artifactflow_nb.analysis.frames.reading import load_frame
from artifactflow_nb.core.approvals import ApprovalRequest, Decision
from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.core.toolcalls.xml import parse_results
from artifactflow_nb.errors import Conflict, UsageError
from artifactflow_nb.tools.base import ToolContext, tool

sent: list[str] = []


@tool(permission="confirm")
async def send(ctx: ToolContext, to: str) -> str:
    """Send a letter."""
    sent.append(to)
    return f"sent to {to}"


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    sent.clear()


def last_results(engine: Any) -> list[str]:
    text = engine.model.requests[-1].messages[-1].content
    return [result.data or result.error or "" for _, result in parse_results(text)]


async def open_with_send(open_engine: OpenEngine, *turns: str) -> Any:
    engine = await open_engine(turns)
    engine.register_tool(send)
    return engine


async def decide(engine: Any, result: Any, decision: Decision) -> Any:
    return await engine.controller.resume(result.thread_id, decisions={result.pending[0].id: decision})


async def test_tool_runs_with_edited_parameters(open_engine: OpenEngine) -> None:
    """The model is informed about the edit, and the row has both versions."""
    engine = await open_with_send(open_engine, call("send", to="Ada"), "Done.")
    waiting = await engine.controller.execute("Send.")
    await decide(engine, waiting, Decision(approved=True, params={"to": "Bob"}))
    assert sent == ["Bob"]
    assert last_results(engine) == ['sent to Bob\nThe person changed the parameters to: {"to":"Bob"}']
    row = load_frame(engine.database.path, TOOL_CALLS).iloc[0]
    assert (row["approval"], row["approval_scope"], row["decided_by"]) == ("edited", "once", "user")
    (event,) = [e for e in await engine.runs.events(waiting.run_id) if e.type is StreamEventType.PERMISSION_RESULT]
    assert (event.data["decision"], event.data["params"]) == ("edited", {"to": "Bob"})


async def test_invalid_edited_parameters_are_rejected(open_engine: OpenEngine) -> None:
    """The person gets the error, and the request stays open."""
    engine = await open_with_send(open_engine, call("send", to="Ada"), "Done.")
    waiting = await engine.controller.execute("Send.")
    with pytest.raises(UsageError, match="nothing was decided.*'to' is missing"):
        await decide(engine, waiting, Decision(approved=True, params={"too": "Bob"}))
    assert len(await engine.approvals.open_requests()) == 1
    assert sent == []


async def test_instruction_replaces_the_call(open_engine: OpenEngine) -> None:
    """The call does not run; the model gets the instruction, which does not count as a denial."""
    engine = await open_with_send(open_engine, call("send", to="Ada"), "I call her.")
    waiting = await engine.controller.execute("Send.")
    result = await decide(engine, waiting, Decision(approved=False, instruction="Call her.", replaces_call=True))
    assert (result.response, sent) == ("I call her.", [])
    assert last_results(engine) == ["Not run. The person answers instead: Call her."]
    assert load_frame(engine.database.path, TOOL_CALLS)["approval"].tolist() == ["instructed"]


async def test_note_of_an_approval_reaches_the_model(open_engine: OpenEngine) -> None:
    """The tool runs, and the model gets the person's note with the result."""
    engine = await open_with_send(open_engine, call("send", to="Ada"), "Done.")
    waiting = await engine.controller.execute("Send.")
    await decide(engine, waiting, Decision(approved=True, instruction="The last one."))
    assert last_results(engine) == ["sent to Ada\nThe person says: The last one."]


@pytest.mark.parametrize(("scope", "next_run_asks", "other_asks"), [("run", True, True), ("conversation", False, True)])
async def test_scope_limits_a_standing_decision(
    open_engine: OpenEngine, scope: Any, next_run_asks: bool, other_asks: bool
) -> None:
    """An approval for a run or a conversation applies in that run or conversation and nowhere else."""
    letter = call("send", to="Ada")
    engine = await open_with_send(open_engine, letter, letter, "Done.", letter, "Done.", letter, "Done.")
    waiting = await engine.controller.execute("Send twice.")
    first = await decide(engine, waiting, Decision(approved=True, scope=scope))
    assert (first.status, len(sent)) == ("completed", 2)
    rows = load_frame(engine.database.path, TOOL_CALLS)
    assert rows["approval"].tolist() == ["approved", "approved"]
    second = await engine.controller.execute("Again.", conversation_id=first.conversation_id)
    assert (second.status == "waiting") is next_run_asks
    if second.status == "waiting":
        await decide(engine, second, Decision(approved=True))
    other = await engine.controller.execute("Elsewhere.")
    assert (other.status == "waiting") is other_asks


async def test_standing_approval_does_not_override_the_policy(open_engine: OpenEngine) -> None:
    """A call that the policy denies by its parameters stays denied after an approval for the run."""

    def rule(request: ApprovalRequest) -> str:
        return "deny" if request.params["to"] == "Eve" else "ask"

    letters = [call("send", to=to) for to in ("Ada", "Eve", "Bob")]
    engine = await open_engine([*letters, "Done."], approvals=rule)
    engine.register_tool(send)
    waiting = await engine.controller.execute("Send.")
    result = await decide(engine, waiting, Decision(approved=True, scope="run"))
    assert (result.status, sent) == ("completed", ["Ada", "Bob"])
    rows = load_frame(engine.database.path, TOOL_CALLS)
    assert rows["approval"].tolist() == ["approved", "denied", "approved"]
    assert rows["decided_by"].tolist() == ["user", "policy", "user"]


async def test_denying_policy_overrides_a_standing_approval(open_engine: OpenEngine) -> None:
    """An engine that denies a tool also denies it in a conversation with a standing approval."""
    engine = await open_with_send(open_engine, call("send", to="Ada"), "Done.")
    waiting = await engine.controller.execute("Send.")
    await decide(engine, waiting, Decision(approved=True, scope="conversation"))
    for rule in ("deny", {"send": "deny"}):
        strict = await open_engine([call("send", to="Bob"), "Not sent."], approvals=rule)
        strict.register_tool(send)
        result = await strict.controller.execute("Again.", conversation_id=waiting.conversation_id)
        assert (result.status, result.response, sent) == ("completed", "Not sent.", ["Ada"])


async def test_denial_for_the_run_applies_to_later_calls(open_engine: OpenEngine) -> None:
    """The second call makes no request and does not run."""
    letter = call("send", to="Ada")
    engine = await open_with_send(open_engine, letter, letter, "Then not.")
    waiting = await engine.controller.execute("Send twice.")
    result = await decide(engine, waiting, Decision(approved=False, scope="run"))
    assert (result.status, result.response, sent) == ("completed", "Then not.", [])


@pytest.mark.parametrize(
    "invalid",
    [
        {"approved": True, "scope": "ever"},
        {"approved": False, "params": {"to": "Bob"}},
        {"approved": True, "params": ["Bob"]},
        {"approved": False, "replaces_call": True},
        {"approved": True, "replaces_call": True, "instruction": "x"},
    ],
)
def test_contradictory_decision_is_rejected(invalid: dict[str, Any]) -> None:
    """The error names the fields that exclude each other."""
    with pytest.raises(UsageError):
        Decision(**invalid)


@pytest.mark.parametrize("steps", range(8))
async def test_approval_and_cancellation_at_once_run_nothing_twice(open_engine: OpenEngine, steps: int) -> None:
    """Whichever comes first, the run is cancelled, and nothing runs afterwards."""
    ran: list[str] = []

    @tool(permission="confirm")
    async def act(ctx: ToolContext) -> str:
        """Act."""
        ran.append(ctx.tool_call_id)
        return "done"

    engine = await open_engine(lambda _request: call("act"))
    engine.register_tool(act)
    waiting = await engine.controller.execute("Act.")

    async def cancel() -> None:
        await asyncio.sleep(steps * 0.0004)
        await engine.controller.cancel(waiting.run_id)

    approval = Decision(approved=True, scope="run")
    decided = asyncio.ensure_future(engine.controller.decide(waiting.pending[0].id, approval))
    await asyncio.gather(asyncio.wait([decided]), cancel())
    assert decided.exception() is None or isinstance(decided.exception(), Conflict)  # the cancellation was first
    before = len(ran)
    await asyncio.sleep(0.02)
    assert (len(ran), (await engine.runs.get(waiting.run_id)).status) == (before, "cancelled")


async def test_decision_is_published_while_other_requests_are_open(open_engine: OpenEngine) -> None:
    """Listeners get the decision on one of two calls at once, and only once."""
    engine = await open_with_send(open_engine, call("send", to="Ada") + call("send", to="Bob"), "Done.")
    waiting = await engine.controller.execute("Send both.")
    events: list[Any] = []
    await engine.controller.subscribe(waiting.run_id, events.append)
    first, second = waiting.pending
    await engine.controller.decide(first.id, Decision(approved=True))
    assert [event.data["id"] for event in events if event.type is StreamEventType.PERMISSION_RESULT] == [first.id]
    assert sent == []
    assert (await engine.controller.result(waiting.run_id)).status == "waiting"
    await engine.controller.decide(second.id, Decision(approved=False))
    await engine.controller.join(waiting.run_id)
    published = [
        event for event in await engine.runs.events(waiting.run_id) if event.type is StreamEventType.PERMISSION_RESULT
    ]
    assert [event.data["id"] for event in published] == [first.id, second.id]
    assert sent == ["Ada"]
    assert [event.seq for event in events] == sorted({event.seq for event in events})


async def test_standing_decision_decides_open_requests(open_engine: OpenEngine) -> None:
    """Approving one of two waiting calls of a tool for the run releases both; the row has the scope."""
    engine = await open_with_send(open_engine, call("send", to="Ada") + call("send", to="Bob"), "Done.")
    waiting = await engine.controller.execute("Send both.")
    await engine.controller.decide(waiting.pending[1].id, Decision(approved=True, scope="run"))
    await engine.controller.join(waiting.run_id)
    assert sent == ["Ada", "Bob"]
    assert (await engine.controller.result(waiting.run_id)).status == "completed"
    assert load_frame(engine.database.path, TOOL_CALLS)["approval_scope"].tolist() == ["run", "run"]
