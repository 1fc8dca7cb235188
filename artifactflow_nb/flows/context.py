"""What a model is shown: the prompt of a turn, and what is left out when it grows too long.

::

    system | history (lead only) | instruction | reply, results | reply, results | ...
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from artifactflow_nb.agents.base import PromptContext
from artifactflow_nb.agents.composing import EVALUATOR
from artifactflow_nb.agents.protocols import PROTOCOLS, CallProtocol
from artifactflow_nb.flows.compose_texts import next_in_order, project_context
from artifactflow_nb.flows.grading import due_of_evaluation, due_of_evaluator
from artifactflow_nb.flows.services import RunContext, is_main
from artifactflow_nb.flows.state import COMPOSE
from artifactflow_nb.messages import Message, ToolResult
from artifactflow_nb.plans import plan_of
from artifactflow_nb.projects import WORK
from artifactflow_nb.store.artifact_versions import TASK_PLAN, Artifact
from artifactflow_nb.store.calls import StoredCall, StoredTurn
from artifactflow_nb.store.storable import to_json

COMPRESSION_LEVELS = {"full": 160_000, "normal": 80_000, "compact": 40_000, "minimal": 20_000}
"""Characters that a whole prompt may have."""

PRESERVED_HISTORY = 4
CUT_CHARS = 2_000
LEFT_OUT = "[Earlier messages were left out here to save space.]"


class ContextManager:
    """Builds prompts from the store; it holds nothing itself."""

    @staticmethod
    async def prepare_agent_context(ctx: RunContext, agent: str, job_id: str) -> PromptContext:
        """What the system prompt needs to know now: for the lead the inventory and the plan, else the plan.

        Nothing for an agent that works for a plan: all that it has to know of that stands in its instruction.
        """
        services, run = ctx.services, ctx.run
        if is_main(job_id) and run.flow == COMPOSE:
            project = await project_context(ctx)
            work = run.settings.get(WORK, {})
            if "evaluate" in work:
                return PromptContext(now=run.started_at, due=await due_of_evaluation(ctx, work["evaluate"]))
            order = await next_in_order(ctx, project.tree) if work else None
            return PromptContext(now=run.started_at, project=project, order=order)
        if agent == EVALUATOR.name:
            return PromptContext(now=run.started_at, due=await due_of_evaluator(ctx, job_id))
        if not is_main(job_id) and agent not in services.agents:
            return PromptContext(now=run.started_at)
        artifacts = await services.artifacts.list_artifacts(run.conversation_id, message_id=run.message_id)
        plan = next((_plan_told(artifact) for artifact in artifacts if artifact.artifact_id == TASK_PLAN), "")
        if not is_main(job_id):
            return PromptContext(now=run.started_at, task_plan=plan)
        inventory = [(artifact.artifact_id, artifact.title, artifact.version) for artifact in artifacts]
        return PromptContext(run.started_at, services.lead.subagents, inventory, plan)

    @staticmethod
    def build_agent_messages(
        system: str,
        history: Sequence[Message],
        instruction: str,
        turns: Sequence[StoredTurn],
        *,
        protocol: CallProtocol = PROTOCOLS["xml"],
        level: str = "normal",
        note: str = "",
    ) -> tuple[Message, ...]:
        """The prompt of a turn, compressed to its level.

        Args:
            system: The whole system message.
            history: Earlier turns of the conversation.
            instruction: What is to be done.
            turns: The job's replies so far, with the results of their calls.
            protocol: How the replies' calls and their results are written.
            level: A key of `COMPRESSION_LEVELS`.
            note: What is added to the last message, such as that the rounds are used up.
        """
        messages = [Message("system", system), *history, Message("user", instruction)]
        for turn in turns:
            results = [(call.call, _shown(call, call.result)) for call in turn.calls if call.result is not None]
            messages += protocol.write(turn.content, results)
        if note:
            messages[-1] = replace(messages[-1], content=f"{messages[-1].content}\n\n{note}")
        return tuple(compress_messages(messages, level) if should_compress(messages, level) else messages)


def _plan_told(artifact: Artifact) -> str:
    """The plan of the turn: what an agent wrote, or of one that is carried out its steps without their results."""
    plan = plan_of(artifact.content, artifact.content_type)
    return artifact.content if plan is None else plan.checklist


def _shown(call: StoredCall, result: ToolResult) -> ToolResult:
    """The result as far as the model is shown it; the store keeps all of it."""
    if call.shown_chars is None:
        return result
    told = " of this result; ask for less, or for this part alone"
    if result.success:
        return replace(result, data=cut_text(result.data, call.shown_chars, told))
    return replace(result, error=cut_text(result.error or "", call.shown_chars, told))


def should_compress(messages: Sequence[Message], level: str) -> bool:
    """Whether the messages have more characters than the level allows."""
    return size(messages) > COMPRESSION_LEVELS[level]


def stronger_level(messages: Sequence[Message], level: str) -> str | None:
    """The mildest level that at least halves a prompt; None if the strongest one is in use already."""
    stronger = [name for name, limit in COMPRESSION_LEVELS.items() if limit < COMPRESSION_LEVELS[level]]
    halving = [name for name in stronger if COMPRESSION_LEVELS[name] * 2 <= size(messages)]
    candidates = halving or stronger[-1:]
    return candidates[0] if candidates else None


def compress_messages(messages: Sequence[Message], level: str, preserve_recent: int = 5) -> list[Message]:
    """Fit messages into a level's characters: the least important is shortened first, and no more than it takes.

    1. old results of tools are cut, the oldest first;
    2. other old messages are cut, the oldest first;
    3. old messages are left out, the oldest first;
    4. the longest of those that are left are cut.

    The system message, the newest `preserve_recent` messages (at least 4 of the history) and the newest question are
    kept; a result is never kept without its call; where something is missing, a marker says so. White space and text
    inside a kept message are not changed but for a cut, which is marked.
    """
    limit = COMPRESSION_LEVELS[level]
    system = list(messages[:1]) if messages and messages[0].role == "system" else []
    units = _units(messages[len(system) :])
    kept = _kept(units, preserve_recent)
    room = limit - size(system)
    units = _cut_old(units, kept, room, lambda message: message.role == "tool")
    units = _cut_old(units, kept, room, lambda _message: True)
    return _cut_to_fit([*system, *_without_oldest(units, kept, room)], limit)


def _units(messages: Sequence[Message]) -> list[list[Message]]:
    """Messages that stay or go together: a reply with the results of its calls, a question with its answer."""
    units: list[list[Message]] = []
    for index, message in enumerate(messages):
        calls = index + 1 < len(messages) and messages[index + 1].role == "tool"
        answers = message.role == "assistant" and not calls and bool(units) and [m.role for m in units[-1]] == ["user"]
        if (message.role == "tool" and units) or answers:
            units[-1].append(message)
        else:
            units.append([message])
    return units


def _kept(units: Sequence[Sequence[Message]], preserve_recent: int) -> set[int]:
    """The units that hold the newest messages, and the one with the newest question."""
    kept: set[int] = set()
    count = 0
    for index in range(len(units) - 1, -1, -1):
        if count >= max(preserve_recent, PRESERVED_HISTORY):
            break
        kept.add(index)
        count += len(units[index])
    asked = [index for index, unit in enumerate(units) if unit[0].role == "user"]
    return kept | set(asked[-1:])


def _cut_old(
    units: Sequence[list[Message]], kept: set[int], room: int, concerns: Callable[[Message], bool]
) -> list[list[Message]]:
    """Cut the old messages that are concerned, the oldest first, until all fit."""
    excess = sum(map(size, units)) - room
    shorter: list[list[Message]] = []
    for index, unit in enumerate(units):
        cut = list(unit)
        for at, message in enumerate(unit if index not in kept else ()):
            if excess > 0 and concerns(message):
                cut[at] = _cut(message, CUT_CHARS)
                excess -= message.n_chars - cut[at].n_chars
        shorter.append(cut)
    return shorter


def _without_oldest(units: Sequence[list[Message]], kept: set[int], room: int) -> list[Message]:
    """The messages without the oldest units that are not kept, as many as it takes; markers stand in their places."""
    excess = sum(map(size, units)) - room
    body: list[Message] = []
    gap = False
    for index, unit in enumerate(units):
        if excess > 0 and index not in kept:
            excess -= size(unit)
            gap = True
            continue
        body += _after_gap(body, unit) if gap else unit
        gap = False
    return body


def _after_gap(body: Sequence[Message], unit: Sequence[Message]) -> list[Message]:
    """The unit with a marker that something is missing before it; an assistant's own words are never changed."""
    if unit[0].role == "user":
        return [_marked(unit[0]), *unit[1:]]
    if body and body[-1].role != "assistant":
        return [*unit[:-1], _marked(unit[-1])]
    return [Message("user", LEFT_OUT), *unit]


def _marked(message: Message) -> Message:
    return replace(message, content=f"{LEFT_OUT}\n\n{message.content}")


def _cut(message: Message, chars: int) -> Message:
    """The message with about so many characters: its text and its native calls' values are cut in their middle."""
    if message.n_chars <= chars:
        return message
    share = chars // (1 + sum(len(call.params) for call in message.calls))
    calls = tuple(replace(call, params=_cut_params(call.params, share)) for call in message.calls)
    return replace(message, content=cut_text(message.content, share), calls=calls)


def _cut_params(params: Mapping[str, Any], chars: int) -> dict[str, Any]:
    texts = {name: value if isinstance(value, str) else to_json(value) for name, value in params.items()}
    return {name: cut_text(texts[name], chars) if len(texts[name]) > chars else params[name] for name in params}


def cut_text(text: str, chars: int, told: str = "") -> str:
    """The text, or its beginning and end of so many characters in all with a marker between them.

    Args:
        text: What may be too long.
        chars: How many of its characters may stay.
        told: What the marker says besides how much is missing.
    """
    left_out = len(text) - chars
    if left_out <= 0:
        return text
    head, tail = chars * 3 // 4, chars // 4
    return f"{text[:head]}\n[... {left_out} characters left out{told} ...]\n{text[len(text) - tail :]}"


def _cut_to_fit(messages: list[Message], limit: int) -> list[Message]:
    """Cut the longest messages, the system message last, until all fit."""
    fitted = list(messages)
    excess = size(fitted) - limit
    longest_first = sorted(enumerate(messages), key=lambda one: (one[1].role != "system", one[1].n_chars), reverse=True)
    for index, message in longest_first:
        if excess <= 0:
            break
        shorter = _cut(message, max(message.n_chars - excess - 100, CUT_CHARS // 4))
        if shorter.n_chars < message.n_chars:
            fitted[index] = shorter
            excess -= message.n_chars - shorter.n_chars
    return fitted


def size(messages: Sequence[Message]) -> int:
    """The characters of messages, native calls included."""
    return sum(message.n_chars for message in messages)
