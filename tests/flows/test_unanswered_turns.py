"""Turns without an answer in the history: the question, and a note on how the turn ended."""

import asyncio
from typing import Any

import pytest
from conftest import OpenEngine
from support.replies import in_request_protocol, report

from artifactflow_nb.errors import ModelRejected, ModelUnavailable
from artifactflow_nb.models.scripted import ScriptedModel

PARTIAL = "Half an answer that "
OMITTED = ("Half an answer", "broke off", "no such model", "empty answer", "The report.", "cancelled by")


async def cancelled_midway(engine: Any) -> str:
    run = await engine.controller.begin("First?")
    arrived = asyncio.Event()
    await engine.controller.subscribe(run.run_id, lambda event: arrived.set() if PARTIAL in event.content else None)
    await engine.controller.start(run)
    await asyncio.wait_for(arrived.wait(), 5)
    await engine.controller.cancel(run.run_id)
    assert (await engine.runs.get(run.run_id)).response.startswith(PARTIAL.strip())
    return run.conversation_id


async def end_run(engine: Any) -> str:
    result = await engine.controller.execute("First?")
    if result.status == "waiting":
        await engine.controller.cancel(result.run_id)
    assert (await engine.controller.result(result.run_id)).status in {"failed", "cancelled"}
    return result.conversation_id


@pytest.mark.parametrize("protocol", ["xml", "native"])
@pytest.mark.parametrize(
    ("turn", "first"),
    [
        (PARTIAL * 200, cancelled_midway),
        (ModelUnavailable("The stream broke off.", partial=PARTIAL), end_run),
        (ModelRejected("There is no such model."), end_run),
        (" ", end_run),
        (report(), end_run),
    ],
    ids=["stopped", "broken", "refused", "empty", "given up while it waited"],
)
async def test_turn_without_an_answer_has_a_note(open_engine: OpenEngine, turn: Any, first: Any, protocol: str) -> None:
    """The roles alternate, and no partial text, error or call appears as the assistant's words."""
    engine = await open_engine(
        model=ScriptedModel(in_request_protocol([turn, "All well."]), delay_s=0.002),
        approvals={"create_artifact": "ask"},
        settings={"tool_protocol": protocol},
    )
    place = await first(engine)
    second = await engine.controller.execute("Second?", conversation_id=place)
    assert (second.status, second.response) == ("completed", "All well.")
    model: Any = engine.model
    history = model.requests[-1].messages[1:]
    assert [(message.role, message.calls) for message in history] == [("user", ()), ("assistant", ()), ("user", ())]
    assert [history[0].content, history[2].content] == ["First?", "Second?"]
    assert history[1].content
    assert not any(words in history[1].content for words in OMITTED)
