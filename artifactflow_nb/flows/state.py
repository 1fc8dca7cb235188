"""The state of an agent's loop in a checkpoint: ids, counters and a phase. Texts are in the store.

Each loop, of the lead and of each job, has its own state; nodes return updates and mutate nothing. `state_classes`
finds the classes that a checkpoint may contain, which LangGraph collects only in its strict mode.
"""

from collections.abc import Iterable, Sequence
from dataclasses import is_dataclass
from enum import Enum, StrEnum
from typing import Any, TypedDict, get_args, get_type_hints

from pydantic import BaseModel

from artifactflow_nb.core.events import MAIN_JOB


class ExecutionPhase(StrEnum):
    """The next step of a loop, by which the graph chooses the next node."""

    LEAD_EXECUTING = "lead_executing"
    SUBAGENT_EXECUTING = "subagent_executing"
    TOOL_EXECUTING = "tool_executing"
    WAITING_PERMISSION = "waiting_permission"
    COMPLETED = "completed"


class AgentMemory(TypedDict):
    """The counters of a loop between two turns: `step` counts model turns, `call_id` is the last model call."""

    tool_round_count: int
    step: int
    call_id: str


class GraphResponse(TypedDict):
    """The end of a loop; the text is the reply of the model call."""

    success: bool
    call_id: str


class AgentState(TypedDict, total=False):
    """The state of one loop: plain JSON only.

    Attributes:
        current_task: The task, cut to a label; the message or the delegating call has the full text.
        session_id: The conversation, which is the scope of artifacts.
        thread_id: The LangGraph thread: one for each message.
        job_id: `main`, the tool call that delegated, or the id of a job for a plan.
        pending: Tool calls of the last reply that wait: for a decision, or as jobs of sub-agents.
        graph_response: The end of the loop; None while the loop runs.
        tools: The tools to which the loop is restricted; absent for all tools of its agent.
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


def executing_phase(job_id: str) -> ExecutionPhase:
    """Return the phase in which the agent of the loop takes a turn."""
    return ExecutionPhase.LEAD_EXECUTING if job_id == MAIN_JOB else ExecutionPhase.SUBAGENT_EXECUTING


def merge_agent_response_to_state(
    state: AgentState, *, call_id: str, has_calls: bool, waiting: Sequence[str] = (), level: str | None = None
) -> dict[str, Any]:
    """Create the update of the state after a model turn.

    Args:
        state: The state before the turn.
        call_id: The model call.
        has_calls: Whether the reply has tool calls; without tool calls, the loop is done.
        waiting: The calls of the reply that wait for a person.
        level: The compression that the turn's prompt needed; None keeps the level of the state.
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


def state_classes(graph: Any) -> set[type]:
    """Find the dataclasses, models and enums that annotate the state of a compiled graph and its subgraphs."""
    classes: set[type] = set()
    for part in (graph, *(subgraph for _, subgraph in graph.get_subgraphs(recurse=True))):
        for schema in getattr(getattr(part, "builder", None), "schemas", ()):
            _add_classes(schema, classes)
        for channel in part.channels.values():
            _add_classes(getattr(channel, "ValueType", None), classes)
            _add_classes(getattr(channel, "UpdateType", None), classes)
    return {cls for cls in classes if is_dataclass(cls) or issubclass(cls, BaseModel | Enum)}


def _add_classes(annotation: Any, classes: set[type]) -> None:
    """Add the classes of an annotation, of its arguments, and of the fields of annotated classes."""
    for part in get_args(annotation):
        _add_classes(part, classes)
    if hasattr(annotation, "__supertype__"):  # a NewType
        _add_classes(annotation.__supertype__, classes)
    if isinstance(annotation, type) and annotation not in classes:
        classes.add(annotation)
        if is_dataclass(annotation) or issubclass(annotation, BaseModel) or hasattr(annotation, "__total__"):
            for part in _annotations(annotation):
                _add_classes(part, classes)


def _annotations(annotated: type) -> Iterable[Any]:
    """Return the annotations of a class's fields; none if an annotation cannot be resolved."""
    try:
        return get_type_hints(annotated, include_extras=True).values()
    except (NameError, TypeError):  # pydantic resolves names defined inside a function
        return [field.annotation for field in getattr(annotated, "model_fields", {}).values()]
