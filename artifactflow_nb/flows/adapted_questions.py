"""The interrupts of an adapted graph as requests to the person.

`interrupt("Publish it?")` asks just that. A mapping can say more: `title` or `question`, `message`, `preview`, `kind`
(`tool`, `plan` or `edit`), `tool`, and in `params` what can be edited; what else it holds is shown as parameters.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from artifactflow_nb.approvals import ApprovalRequest, Kind
from artifactflow_nb.flows.adapted_values import plain
from artifactflow_nb.flows.permission import TITLE_COLUMNS
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.recordings.values import request_id
from artifactflow_nb.store.storable import storable_text, to_json
from artifactflow_nb.text.width import clip

if TYPE_CHECKING:
    from langgraph.types import Interrupt

_KINDS = ("tool", "plan", "edit")
_WORDS = ("title", "question", "message", "preview", "kind", "tool", "params")


def subject_of(ctx: RunContext, interrupt: "Interrupt") -> str:
    """What a request about an interrupt is about."""
    return f"interrupt:{ctx.run.run_id}:{interrupt.id}"


def request_of(ctx: RunContext, interrupt: "Interrupt", node: str, tool: str) -> ApprovalRequest:
    """The request about an interrupt.

    Args:
        ctx: The run.
        interrupt: What the graph interrupted with.
        node: The node that did.
        tool: The tool within which it did, or the node.
    """
    said = interrupt.value if isinstance(interrupt.value, Mapping) else {"question": interrupt.value}
    asked = _text(said.get("title") or said.get("question") or f"{node} asks before it goes on")
    first, _, rest = asked.strip().partition("\n")
    line = " ".join(first.split())
    title = clip(line, TITLE_COLUMNS)
    params = said.get("params", {key: said[key] for key in said if key not in _WORDS})
    subject = subject_of(ctx, interrupt)
    return ApprovalRequest(
        id=request_id(subject),
        run_id=ctx.run.run_id,
        kind=cast("Kind", said["kind"] if said.get("kind") in _KINDS else "tool"),
        agent=node,
        tool=_text(said.get("tool")) or tool,
        params=_params(params),
        title=title,
        preview=_text(said.get("preview")),
        message=_text(said.get("message")) or (rest.strip() if title == line else asked),
        about=subject,
    )


def _params(params: Any) -> dict[str, Any]:
    found = plain(params)
    return found if isinstance(found, dict) else {"value": found}


def _text(value: Any) -> str:
    if value is None:
        return ""
    return storable_text(value if isinstance(value, str) else to_json(value))
