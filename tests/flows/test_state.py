"""The content of checkpoints: ids, counters and a phase in plain JSON, independent of the length of texts."""

import json
from typing import Any

from conftest import OpenEngine
from support.replies import by_agent, delegate, report

from artifactflow_nb.engine.engine import CHECKPOINT_FILE
from artifactflow_nb.flows.loop import initial_state
from artifactflow_nb.flows.state import ExecutionPhase, merge_agent_response_to_state
from artifactflow_nb.store.database import connect


def state(job_id: str = "main") -> Any:
    return initial_state(
        task="What is it?",
        agent="lead_agent",
        session_id="conv-1",
        thread_id="thd-1",
        user_message_id="msg-1",
        job_id=job_id,
    )


def test_merge_agent_response_to_state() -> None:
    """Calls lead to tools, waiting calls to the gate, no calls to the end; nothing is mutated."""
    start = state()
    before = json.dumps(start)
    tools = merge_agent_response_to_state(start, call_id="c1", has_calls=True)
    gate = merge_agent_response_to_state(start, call_id="c1", has_calls=True, waiting=["t1"])
    end = merge_agent_response_to_state(start, call_id="c1", has_calls=False)
    assert [update["phase"] for update in (tools, gate, end)] == ["tool_executing", "waiting_permission", "completed"]
    assert tools["agent_memory"] == {"tool_round_count": 1, "step": 1, "call_id": "c1"}
    assert end["agent_memory"]["tool_round_count"] == 0
    assert end["graph_response"] == {"success": True, "call_id": "c1"}
    assert json.dumps(start) == before


def test_phase_depends_on_the_loop() -> None:
    """The loops of the lead and of a job have different phases."""
    assert state()["phase"] == ExecutionPhase.LEAD_EXECUTING
    assert state("tool-1")["phase"] == ExecutionPhase.SUBAGENT_EXECUTING


async def test_texts_are_not_in_checkpoints(open_engine: OpenEngine) -> None:
    """With long questions, histories, instructions and results a waiting run's checkpoints stay small."""
    long = "A very long text. " * 3_000
    script = by_agent(lead=[long, delegate("search_agent", long), report(long)], search=[long])
    engine = await open_engine(script, approvals={"create_artifact": "ask"})
    first = await engine.controller.execute(long)
    waiting = await engine.controller.execute(long, conversation_id=first.conversation_id)
    assert waiting.status == "waiting"
    db = connect(engine.folder / CHECKPOINT_FILE)
    size = db.execute("SELECT sum(length(checkpoint) + length(metadata)) FROM checkpoints").fetchone()[0]
    size += db.execute("SELECT sum(length(value)) FROM writes").fetchone()[0]
    rounds = 3
    db.close()
    assert size <= rounds * 6 * 1024
