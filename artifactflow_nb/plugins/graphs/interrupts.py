"""Interrupts of adapted graphs as approval requests, and decisions as the values that the interrupts return.

A graph interrupts with any value, and only the graph knows the form of the answer. These forms are recognised:

- `{"action_requests": [...], "review_configs": [...]}` of LangChain's `HumanInTheLoopMiddleware`, which deepagents uses
  for `interrupt_on`: a request for each action, and one answer `{"decisions": [...]}` for all of them.
- `{"type": "tool_approval", ...}` of the same middleware with `interrupt_mode="per_call"`: one decision.
- `[{"action_request": {"action", "args"}, "config": {"allow_accept", ...}, "description"}]` of Agent Inbox: a request
  for each item, and a list of `{"type": "accept" | "edit" | "response" | "ignore", "args": ...}` as the answer.
- `{"question": "...", "tool_call": {"name", "args"}}` of LangGraph's guide to the review of tool calls: the answer is
  `{"action": "continue" | "update" | "feedback", "data": ...}`.
- `{"query": "..."}` of LangGraph's tutorial: the answer is `{"data": "..."}`.

`interrupt("Publish it?")` is the simplest request. Another mapping can contain more: `title` or `question`, `message`,
`preview`, `kind` (`tool`, `plan` or `edit`), `tool`, and in `params` values that the person can edit; other keys are
shown as parameters. The answer is True if approved, False if denied, the edited parameters, or the text of an
instruction.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from langgraph.types import Interrupt

from artifactflow_nb.core.approvals import CHOICES, ApprovalRequest, Decision, RequestKind
from artifactflow_nb.core.clock_ids import request_id
from artifactflow_nb.core.text.format import clip, storable_text
from artifactflow_nb.flows.approval import TITLE_COLUMNS
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.plugins.graphs.messages import to_plain_json
from artifactflow_nb.store.encoding import to_json

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

_KINDS = ("tool", "plan", "edit")
_REQUEST_KEYS = ("title", "question", "message", "preview", "kind", "tool", "params")
_CHOICES_BY_TYPE: Mapping[str, tuple[str, ...]] = {
    "approve": ("approved",),
    "edit": ("edited",),
    "reject": ("denied", "instructed"),
    "respond": ("instructed",),
    "accept": ("approved",),
    "ignore": ("denied",),
    "response": ("instructed",),
}
"""The choices of `Decision` by type of decision in LangChain's reviews, then in Agent Inbox."""

RESUME_CHANNEL = "__resume__"
"""LangGraph's channel for the answers to the interrupts of a task, the oldest first."""

StoredAnswers = Mapping[tuple[str, str, str], Any]
"""The stored answers by checkpoint namespace, checkpoint id and task id."""

_QUERY_ANSWERS = {True: "Approved.", False: "Denied."}
"""Answers to `{"query": ...}` without an instruction, by approval."""

_FIELDS_ADVICE = (
    "The node reads fields of the answer, such as {field!r}. Answer with fields: edit the parameters, or call "
    'run.approve(params={{"{field}": "..."}}).'
)


@dataclass(frozen=True, slots=True)
class InterruptPart:
    """A part of an interrupt with a request and a decision of its own.

    Attributes:
        fields: The fields of the request; see the module docstring.
        types: The types of decision that a review allows; empty for another interrupt.
    """

    fields: Mapping[str, Any]
    types: tuple[str, ...] = ()

    @property
    def allowed(self) -> tuple[str, ...]:
        """The possible choices of a decision; empty if all choices are possible."""
        possible = {choice for kind in self.types for choice in _CHOICES_BY_TYPE.get(kind, ())}
        return tuple(choice for choice in CHOICES if choice in possible)


def interrupt_parts(interrupt: Interrupt) -> tuple[InterruptPart, ...]:
    """Return the parts of an interrupt, each of which becomes a request."""
    value = interrupt.value
    if inbox := _inbox_requests(value):
        return tuple(map(_inbox_part, inbox))
    if not isinstance(value, Mapping):
        return (InterruptPart({"question": _text(to_plain_json(value))}),)
    if actions := _review_actions(value):
        configs = value.get("review_configs")
        types = {
            config.get("action_name"): tuple(config.get("allowed_decisions") or ())
            for config in (configs if isinstance(configs, list) else ())
            if isinstance(config, Mapping)
        }
        return tuple(_action_part(action, types.get(action["name"], ())) for action in actions)
    if _is_tool_approval(value):
        return (_action_part(value, _types_in_schema(interrupt.response_schema)),)
    if _is_action(value.get("tool_call")):
        call = _action_part(value["tool_call"], ())
        return (InterruptPart({**call.fields, "message": _text(value.get("question"))}),)
    if _is_query(value):
        return (InterruptPart({"question": value["query"], "params": {"data": ""}}),)
    return (InterruptPart(to_plain_json(value)),)


def _action_part(action: Mapping[str, Any], types: tuple[str, ...]) -> InterruptPart:
    """Return the part for a tool call in a review."""
    name, args = str(action["name"]), to_plain_json(action["args"])
    first = " ".join(_text(next(iter(args.values()), "")).split())
    # LangChain's default description repeats the call, which the request already shows as tool and parameters.
    message = str(action.get("description") or "").partition(f"\n\nTool: {name}\nArgs: ")[0]
    title = f"Run {name}: {first}" if first else f"Run {name}"
    fields = {"title": clip(title, TITLE_COLUMNS), "tool": name, "params": args, "message": message}
    return InterruptPart(fields, types or tuple(_CHOICES_BY_TYPE))


def _review_actions(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the action requests of a review, or an empty list for another value."""
    actions = value.get("action_requests")
    is_review = isinstance(actions, list) and "review_configs" in value and all(map(_is_action, actions))
    return cast("list[Mapping[str, Any]]", actions) if is_review else []


def _is_action(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("name"), str) and isinstance(value.get("args"), Mapping)


def _inbox_requests(value: Any) -> list[Mapping[str, Any]]:
    """Return the requests of an interrupt in the form of Agent Inbox, or an empty list."""
    requests = value if isinstance(value, list) else [value]
    is_inbox = all(isinstance(each, Mapping) and isinstance(each.get("action_request"), Mapping) for each in requests)
    return requests if is_inbox else []


def _inbox_part(request: Mapping[str, Any]) -> InterruptPart:
    action, config = request["action_request"], request.get("config")
    fields = {
        "name": action.get("action", ""),
        "args": action.get("args") or {},
        "description": request.get("description"),
    }
    config = config if isinstance(config, Mapping) else {}
    names = {"allow_accept": "accept", "allow_edit": "edit", "allow_respond": "response", "allow_ignore": "ignore"}
    return _action_part(fields, tuple(kind for name, kind in names.items() if config.get(name)))


def _inbox_answer(request: Mapping[str, Any], part: InterruptPart, decision: Decision) -> dict[str, Any]:
    """Convert a decision to the form of Agent Inbox."""
    if decision.params is not None:
        action = {"action": request["action_request"].get("action", ""), "args": dict(decision.params)}
        return {"type": "edit", "args": action}
    if decision.approved:
        return {"type": "accept", "args": None}
    if decision.instruction and "response" in part.types:
        return {"type": "response", "args": decision.instruction}
    return {"type": "ignore", "args": None}


def _is_tool_approval(value: Mapping[str, Any]) -> bool:
    return value.get("type") == "tool_approval" and _is_action(value)


def _is_query(value: Mapping[str, Any]) -> bool:
    return set(value) == {"query"} and isinstance(value["query"], str)


def _types_in_schema(schema: Any) -> tuple[str, ...]:
    """Return the types of decision that the JSON schema of an answer allows: a union of types, or a single type."""
    if not isinstance(schema, Mapping):
        return ()
    if mapping := schema.get("discriminator", {}).get("mapping"):
        return tuple(mapping)
    kind = schema.get("properties", {}).get("type", {}).get("const")
    return () if kind is None else (str(kind),)


def resume_value(interrupt: Interrupt, decisions: Sequence[Decision]) -> Any:
    """Return the value that an interrupt returns in the graph, from the decisions on its parts."""
    value, decision = interrupt.value, decisions[0]
    if inbox := _inbox_requests(value):
        return list(map(_inbox_answer, inbox, interrupt_parts(interrupt), decisions))
    if isinstance(value, Mapping):
        parts = interrupt_parts(interrupt)
        if actions := _review_actions(value):
            answered = zip(actions, parts, decisions, strict=True)
            return {"decisions": [_review_decision(action, part, each) for action, part, each in answered]}
        if _is_tool_approval(value):
            return _review_decision(value, parts[0], decision)
        if _is_action(value.get("tool_call")):
            if decision.params is not None:
                return {"action": "update", "data": dict(decision.params)}
            denied = {"action": "feedback", "data": decision.instruction or "Denied."}
            return {"action": "continue"} if decision.approved else denied
        if _is_query(value):
            answer = decision.instruction or _QUERY_ANSWERS[decision.approved]
            return {"data": answer} if decision.params is None else dict(decision.params)
    if decision.replaces_call:
        return decision.instruction
    return decision.approved if decision.params is None else dict(decision.params)


async def stored_answers(saver: "BaseCheckpointSaver[Any]", thread_id: str) -> StoredAnswers:
    """Return the answers in the checkpoints of a LangGraph thread.

    LangGraph stores an answer before the node runs, and would use the answer again after a failure of the node. So the
    answers are read before a new answer is sent, and `restore_answers` restores the answers if the node fails.
    """
    answers = {}
    async for saved in saver.alist({"configurable": {"thread_id": thread_id}}):
        checkpoint = saved.config["configurable"]
        for task_id, channel, value in saved.pending_writes or ():
            if channel == RESUME_CHANNEL:
                answers[checkpoint["checkpoint_ns"], checkpoint["checkpoint_id"], task_id] = value
    return answers


async def restore_answers(saver: "BaseCheckpointSaver[Any]", thread_id: str, before: StoredAnswers) -> None:
    """Restore the answers of a LangGraph thread from a result of `stored_answers`."""
    for key, value in (await stored_answers(saver, thread_id)).items():
        if value != before.get(key):
            namespace, checkpoint_id, task_id = key
            task = {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}
            await saver.aput_writes({"configurable": task}, [(RESUME_CHANNEL, before.get(key, []))], task_id)


def _review_decision(action: Mapping[str, Any], part: InterruptPart, decision: Decision) -> dict[str, Any]:
    """Convert a decision to the form of LangChain's reviews."""
    if decision.params is not None:
        return {"type": "edit", "edited_action": {"name": action["name"], "args": dict(decision.params)}}
    if decision.approved:
        return {"type": "approve"}
    if decision.replaces_call and "respond" in part.types:
        return {"type": "respond", "message": decision.instruction}
    return {"type": "reject", **({"message": decision.instruction} if decision.instruction else {})}


def interrupt_request(
    ctx: RunContext, part: InterruptPart, subject: str, node: str, tool: str, problem: str = ""
) -> ApprovalRequest:
    """Create the request for a part of an interrupt.

    `problem` is the error of the node on the last answer.
    """
    fields = ctx.secrets.value(part.fields)
    question = _text(fields.get("title") or fields.get("question") or f"{node} asks before it continues")
    first, _, rest = question.strip().partition("\n")
    line = " ".join(first.split())
    title = clip(line, TITLE_COLUMNS)
    params = to_plain_json(fields.get("params", {key: fields[key] for key in fields if key not in _REQUEST_KEYS}))
    message = _text(fields.get("message")) or (rest.strip() if title == line else question)
    if problem:
        missing = re.search(r"KeyError: ['\"]?(\w+)", problem)
        key = missing[1] if missing else ""
        reads_fields = re.search(r"KeyError|not subscriptable|has no attribute|indices must be", problem)
        advice = _FIELDS_ADVICE.format(field=key or "action") if reads_fields else ""
        failure = f"The graph failed with the last answer: {problem}"
        message = "\n\n".join(filter(None, (failure, advice, message)))
        if key and isinstance(params, dict):
            params = {**params, key: params.get(key, "")}
    return ApprovalRequest(
        id=request_id(subject),
        run_id=ctx.run.run_id,
        kind=cast("RequestKind", fields["kind"] if fields.get("kind") in _KINDS else "tool"),
        agent=node,
        tool=_text(fields.get("tool")) or tool,
        params=params if isinstance(params, dict) else {"value": params},
        title=title,
        preview=_text(fields.get("preview")),
        message=message,
        about=subject,
        allowed=part.allowed,
    )


def _text(value: Any) -> str:
    if value is None:
        return ""
    return storable_text(value if isinstance(value, str) else to_json(value))
