"""What a checkpoint holds of an agent's loop: ids, counters and a phase. Texts are in the store.

Every loop, the lead's and each job's, has a state of its own; nodes return updates and mutate nothing.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, TypedDict

from artifactflow_nb.events import MAIN_JOB

RESEARCH, PLAN, COMPOSE = "research", "plan", "compose"
"""The flows."""

LABEL_CHARS = 120


class ExecutionPhase(StrEnum):
    """What a loop does next; it routes the graph."""

    LEAD_EXECUTING = "lead_executing"
    SUBAGENT_EXECUTING = "subagent_executing"
    TOOL_EXECUTING = "tool_executing"
    WAITING_PERMISSION = "waiting_permission"
    COMPLETED = "completed"


class AgentMemory(TypedDict):
    """What a loop remembers between two turns: `step` counts model turns, `call_id` names the last one."""

    tool_round_count: int
    step: int
    call_id: str


class GraphResponse(TypedDict):
    """How a loop ended; the text is that of the model call."""

    success: bool
    call_id: str


class AgentState(TypedDict, total=False):
    """The state of one loop: plain JSON only.

    Attributes:
        current_task: What it works on, cut to a label; the full text is the message's or the delegating call's.
        session_id: The conversation, which is the scope of artifacts.
        thread_id: The LangGraph thread: one for each message.
        user_message_id: The message that the run answers.
        current_agent: Whose loop it is.
        job_id: `main`, the tool call that delegated, or the id of a job for a plan.
        phase: What comes next.
        pending: Tool calls of the last reply that wait: for a decision, or as jobs of sub-agents.
        agent_memory: Counters.
        compression_level: How strongly the next prompt is compressed.
        graph_response: How the loop ended; None until then.
        tools: The tools that the loop is restricted to; not there for all that its agent has.
    """

    current_task: str
    session_id: str
    thread_id: str
    user_message_id: str
    current_agent: str
    job_id: str
    phase: str
    pending: list[str]
    agent_memory: AgentMemory
    compression_level: str
    graph_response: GraphResponse | None
    tools: list[str]


def initial_state(
    *,
    task: str,
    agent: str,
    session_id: str,
    thread_id: str,
    user_message_id: str,
    job_id: str = MAIN_JOB,
    tools: Sequence[str] = (),
) -> AgentState:
    """The state in which a loop starts."""
    restricted = AgentState(tools=list(tools)) if tools else AgentState()
    return AgentState(
        **restricted,
        current_task=" ".join(task.split())[:LABEL_CHARS],
        session_id=session_id,
        thread_id=thread_id,
        user_message_id=user_message_id,
        current_agent=agent,
        job_id=job_id,
        phase=executing_phase(job_id).value,
        pending=[],
        agent_memory=AgentMemory(tool_round_count=0, step=0, call_id=""),
        compression_level="normal",
        graph_response=None,
    )


def start_of_job(
    caller: Mapping[str, Any], job_id: str, agent: str, instruction: str, tools: Sequence[str] = ()
) -> AgentState:
    """The state in which the loop of a job starts, in the run of the loop that delegated it."""
    return initial_state(
        task=instruction,
        agent=agent,
        session_id=caller["session_id"],
        thread_id=caller["thread_id"],
        user_message_id=caller["user_message_id"],
        job_id=job_id,
        tools=tools,
    )


def executing_phase(job_id: str) -> ExecutionPhase:
    """The phase in which this loop's agent thinks."""
    return ExecutionPhase.LEAD_EXECUTING if job_id == MAIN_JOB else ExecutionPhase.SUBAGENT_EXECUTING


def merge_agent_response_to_state(
    state: AgentState, *, call_id: str, has_calls: bool, waiting: Sequence[str] = (), level: str | None = None
) -> dict[str, Any]:
    """The update that a model turn makes; the one place where turns become state.

    Args:
        state: The state before the turn.
        call_id: The model call.
        has_calls: Whether its reply asked for tools; without any the loop is done.
        waiting: The calls of the reply that wait for a person.
        level: The compression that the turn's prompt needed; None for the state's.
    """
    memory = state["agent_memory"]
    rounds = memory["tool_round_count"] + (1 if has_calls else 0)
    update: dict[str, Any] = {
        "agent_memory": AgentMemory(tool_round_count=rounds, step=memory["step"] + 1, call_id=call_id),
        "pending": list(waiting),
        "compression_level": level or state["compression_level"],
    }
    if not has_calls:
        return update | {
            "phase": ExecutionPhase.COMPLETED.value,
            "graph_response": GraphResponse(success=True, call_id=call_id),
        }
    phase = ExecutionPhase.WAITING_PERMISSION if waiting else ExecutionPhase.TOOL_EXECUTING
    return update | {"phase": phase.value}
