"""Every call of a reply has a result in the next prompt, and its status comes from a field."""

from contextlib import closing

import pytest
from conftest import OpenEngine
from support.replies import by_agent, call, delegate, report

from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.toolcalls.xml import parse_results
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.store.database import connect
from artifactflow_nb.tools.base import ToolContext, tool

PROTOCOLS = ["xml", "native"]

REPLY = (
    report("- [ ] look", "task_plan"),
    call("send", to="Ada"),
    delegate("search_agent", "look"),
    call("no_such_tool"),
    call("send", to="Bob"),
    delegate("oracle", "tell"),
    call("create_artifact", id="x"),
    delegate("search_agent", "look again"),
    call("fail"),
    report("- [ ] look again", "task_plan"),
)
"""A plan, calls that are approved and denied, jobs, and calls that cannot be run, in one reply."""


@tool(permission="confirm")
async def send(ctx: ToolContext, to: str) -> str:
    """Send a letter."""
    del ctx
    return f"sent to {to}"


@tool
async def fail(ctx: ToolContext) -> str:
    """Fail."""
    del ctx
    raise OSError("the printer is on fire")


@tool
async def log(ctx: ToolContext) -> str:
    """Read the log."""
    del ctx
    return "3 tests failed. Error: it failed, permission denied."


def answers(request: ModelRequest) -> list[str]:
    """The results at the end of a prompt, in either protocol."""
    last = request.messages[-1].content
    if request.tool_protocol == "xml":
        return [result.data or result.error or "" for _, result in parse_results(last)]
    calls = max(n for n, message in enumerate(request.messages) if message.role == "assistant")
    following = request.messages[calls + 1 :]
    assert {message.role for message in following} == {"tool"}
    assert len(following) == len(request.messages[calls].calls)
    return [message.content for message in following]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_every_call_of_a_reply_has_a_result_in_order(open_engine: OpenEngine, protocol: str) -> None:
    """Each plan, job, and approved, denied, unknown, invalid or failing call has a result, in order."""
    script = by_agent(lead=["".join(REPLY), "Done."], search=["found", "found again"])
    engine = await open_engine(script, settings={"tool_protocol": protocol})
    for entry in (send, fail):
        engine.register_tool(entry)
    waiting = await engine.controller.execute("Do it all.")
    decisions = {request.id: Decision(approved=request.params["to"] == "Ada") for request in waiting.pending}
    result = await engine.controller.resume(waiting.thread_id, decisions=decisions)
    assert (result.status, result.response) == ("completed", "Done.")
    text = answers(engine.model.requests[-1])  # type: ignore[attr-defined]
    expected = [
        "Created task_plan",
        "sent to Ada",
        "found",
        "no tool 'no_such_tool'",
        "Permission denied",
        "no agent 'oracle'",
        "'title' is missing",
        "found again",
        "printer is on fire",
        "task_plan",
    ]
    assert len(text) == len(REPLY)
    assert [part for part, answer in zip(expected, text, strict=True) if part not in answer] == [], text


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_every_call_of_a_compressed_prompt_has_a_result(open_engine: OpenEngine, protocol: str) -> None:
    """In every round of a compressed prompt each call has its result and each result its call."""
    long = "A long line of a long text.\n" * 1_000
    rounds = [report(long, f"a{n}") + call("read_artifact", id=f"a{n}") for n in range(4)]
    engine = await open_engine([*rounds, "Done."], settings={"tool_protocol": protocol})
    result = await engine.controller.execute("Write much.")
    assert result.response == "Done."
    for number, request in enumerate(engine.model.requests[1:], start=1):  # type: ignore[attr-defined]
        assert len(answers(request)) == 2
        replies = [message for message in request.messages if message.role == "assistant"]
        results = sum(message.role == "tool" for message in request.messages)
        assert results == sum(len(reply.calls) if protocol == "native" else 1 for reply in replies)
        assert 1 <= len(replies) <= number


async def test_success_does_not_depend_on_the_text(open_engine: OpenEngine) -> None:
    """A result, a job and a run that mention failures in their texts are successes."""
    gloomy = "Error: the build failed. Permission denied."
    script = by_agent(lead=[call("log") + delegate("search_agent", "look"), gloomy], search=[gloomy])
    engine = await open_engine(script)
    engine.register_tool(log)
    result = await engine.controller.execute("What does the log say?")
    assert (result.status, result.response, result.error_type) == ("completed", gloomy, None)
    assert [tool_call.success for tool_call in result.metrics.tool_calls] == [True, True]
    with closing(connect(engine.database.path)) as db:
        rows = [tuple(row) for row in db.execute("SELECT success, error_type FROM tool_calls")]
    assert rows == [(1, None), (1, None)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_later_job_of_an_agent_starts_fresh(open_engine: OpenEngine, protocol: str) -> None:
    """A sub-agent's second job sees nothing of the first job and has all rounds."""
    script = by_agent(
        lead=[delegate("search_agent", "first"), delegate("search_agent", "second"), "Done."],
        search=[*[call("log")] * 3, "first is done", *[call("log")] * 3, "second is done"],
    )
    engine = await open_engine(script, settings={"tool_protocol": protocol})
    engine.register_tool(log, agent="search_agent")
    result = await engine.controller.execute("Two things, one after the other.")
    assert (result.status, result.error_message) == ("completed", None)
    requests = engine.model.requests  # type: ignore[attr-defined]
    second = [request for request in requests if request.messages[1].content.startswith("second")]
    assert [len(request.messages) for request in second[:1]] == [2]
    assert len(second) == 4
    assert not any("first" in message.content for request in second for message in request.messages[1:])
    calls = [sum(message.role == "assistant" for message in request.messages) for request in second]
    assert calls == [0, 1, 2, 3]
