"""Breakpoints of adapted graphs (`interrupt_before`, `interrupt_after`): a person decides whether the graph goes on."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langgraph.types import StateSnapshot

from artifactflow_nb.core.approvals import ApprovalRequest, Decision
from artifactflow_nb.core.clock_ids import request_id
from artifactflow_nb.core.events import MAIN_JOB
from artifactflow_nb.core.text.format import clip
from artifactflow_nb.flows.approval import TITLE_COLUMNS, request_approval
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.tools.base import ToolPermission

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A stop of a graph before some nodes.

    Attributes:
        nodes: The names of the nodes, as text.
        decision: Whether the graph goes on; None while the request is open.
    """

    nodes: str
    request_id: str
    decision: Decision | None

    @property
    def is_denied(self) -> bool:
        """Whether the person has decided that the graph ends here."""
        return self.decision is not None and not self.decision.approved

    @property
    def notice(self) -> str:
        """The person's decision as a text for the answer."""
        reason = self.decision.instruction if self.decision is not None else ""
        return f"The graph was stopped before {self.nodes}, as you decided. {reason}".strip()


async def decide_at_breakpoint(
    ctx: RunContext, graph: Any, config: "RunnableConfig", state: StateSnapshot, *, has_stopped: bool
) -> Breakpoint | None:
    """Ask the person once whether a stopped graph goes on; return the stop with the decision, or None without a stop.

    Args:
        ctx: The run.
        graph: The graph.
        config: The configuration of the graph's thread.
        state: The state of the graph.
        has_stopped: Whether the graph has just stopped in this process. In another process, a graph has stopped if the
            person was asked, or if the graph has a breakpoint here.
    """
    if not state.next or state.interrupts:
        return None
    whole = await graph.aget_state(config, subgraphs=True)
    subject = ":".join(("breakpoint", ctx.run.run_id, *_checkpoint_ids(whole)))
    nodes = ", ".join(state.next)
    if subject not in (states := await ctx.services.approvals.decisions([subject])):
        before = graph.interrupt_before_nodes or ()
        is_named = before == "*" or any(node in before for node in state.next)
        if not (has_stopped or is_named or graph.interrupt_after_nodes):
            return None
        title = clip(f"Go on with {nodes}?", TITLE_COLUMNS)
        request = ApprovalRequest(
            id=request_id(subject),
            run_id=ctx.run.run_id,
            kind="tool",
            agent=state.next[0],
            tool=state.next[0],
            params={},
            title=title,
            about=subject,
            allowed=("approved", "denied"),
        )
        await request_approval(ctx, MAIN_JOB, request, ToolPermission.CONFIRM)
        states = await ctx.services.approvals.decisions([subject])
    return Breakpoint(nodes, states[subject].request_id, states[subject].decision)


def _checkpoint_ids(state: StateSnapshot) -> Iterator[str]:
    """Yield the ids of the checkpoints of a graph and of the subgraphs that have started."""
    yield str(state.config["configurable"].get("checkpoint_id"))
    for task in state.tasks:
        if isinstance(task.state, StateSnapshot):
            yield from _checkpoint_ids(task.state)
