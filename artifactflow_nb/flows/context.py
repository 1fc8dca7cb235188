"""What a model is shown: the prompt of a turn, and what is left out when it grows too long.

::

    system | history (lead only) | instruction | reply, results | reply, results | ...
"""

from collections.abc import Sequence
from dataclasses import dataclass

from artifactflow_nb.agents.base import PromptContext
from artifactflow_nb.flows.services import RunContext, is_main
from artifactflow_nb.messages import Message
from artifactflow_nb.store.artifacts import TASK_PLAN
from artifactflow_nb.store.calls import StoredTurn
from artifactflow_nb.xml_calls import format_results, is_results

COMPRESSION_LEVELS = {"full": 160_000, "normal": 80_000, "compact": 40_000, "minimal": 20_000}
"""Characters that a whole prompt may have."""

PRESERVED_HISTORY = 4
CUT_CHARS = 2_000
LEFT_OUT = "[Earlier messages were left out here to save space.]"


class ContextManager:
    """Builds prompts from the store; it holds nothing itself."""

    @staticmethod
    async def prepare_agent_context(ctx: RunContext, job_id: str) -> PromptContext:
        """What the system prompt needs to know now: for the lead the inventory and the plan, else the plan."""
        services, run = ctx.services, ctx.run
        artifacts = await services.artifacts.list_artifacts(run.conversation_id, message_id=run.message_id)
        plan = next((artifact.content for artifact in artifacts if artifact.artifact_id == TASK_PLAN), "")
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
        level: str = "normal",
        note: str = "",
    ) -> tuple[Message, ...]:
        """The prompt of a turn, compressed to its level.

        Args:
            system: The whole system message.
            history: Earlier turns of the conversation.
            instruction: What is to be done.
            turns: The job's replies so far, with the results of their calls.
            level: A key of `COMPRESSION_LEVELS`.
            note: What is added to the last message, such as that the rounds are used up.
        """
        messages = [Message("system", system), *history, Message("user", instruction)]
        for turn in turns:
            results = [(call.call.name, call.result) for call in turn.calls if call.result is not None]
            messages += [Message("assistant", turn.content), Message("user", format_results(results))]
        if note:
            messages[-1] = Message("user", f"{messages[-1].content}\n\n{note}")
        return tuple(compress_messages(messages, level) if should_compress(messages, level) else messages)


def should_compress(messages: Sequence[Message], level: str) -> bool:
    """Whether the messages have more characters than the level allows."""
    return _size(messages) > COMPRESSION_LEVELS[level]


def stronger_level(messages: Sequence[Message], level: str) -> str | None:
    """The mildest level that at least halves a prompt; None if the strongest one is in use already."""
    stronger = [name for name, limit in COMPRESSION_LEVELS.items() if limit < COMPRESSION_LEVELS[level]]
    halving = [name for name in stronger if COMPRESSION_LEVELS[name] * 2 <= _size(messages)]
    candidates = halving or stronger[-1:]
    return candidates[0] if candidates else None


def compress_messages(messages: Sequence[Message], level: str, preserve_recent: int = 5) -> list[Message]:
    """Fit messages into a level's characters: cut old long ones, drop old ones, then cut whatever is left too long.

    The system message, the newest `preserve_recent` messages and the newest instruction are kept; a result is never
    kept without its call; where something is missing, a marker says so. White space and text inside a kept message are
    not changed but for a cut, which is marked.
    """
    limit = COMPRESSION_LEVELS[level]
    system = list(messages[:1]) if messages and messages[0].role == "system" else []
    units = _units(messages[len(system) :])
    kept = _kept(units, preserve_recent)
    if _size(system) + _total(units) > limit:
        units = [unit if index in kept else [_cut(m, CUT_CHARS) for m in unit] for index, unit in enumerate(units)]
    excess = _size(system) + _total(units) - limit
    body: list[Message] = []
    gap = False
    for index, unit in enumerate(units):
        if excess > 0 and index not in kept:
            excess -= _size(unit)
            gap = True
            continue
        body += _after_gap(body, unit) if gap else unit
        gap = False
    return _cut_to_fit([*system, *body], limit)


def _units(messages: Sequence[Message]) -> list[list[Message]]:
    """Messages that stay or go together: a reply with the results of its calls, a question with its answer."""
    units: list[list[Message]] = []
    for index, message in enumerate(messages):
        following = messages[index + 1] if index + 1 < len(messages) else None
        answers_unit = bool(units) and units[-1][-1].role == "user" and len(units[-1]) == 1
        has_results = following is not None and is_results(following.content)
        joins = (message.role == "user" and is_results(message.content) and bool(units)) or (
            message.role == "assistant" and answers_unit and not has_results
        )
        if joins:
            units[-1].append(message)
        else:
            units.append([message])
    return units


def _kept(units: Sequence[Sequence[Message]], preserve_recent: int) -> set[int]:
    """The units that hold the newest messages, and the one with the newest instruction."""
    kept: set[int] = set()
    count = 0
    for index in range(len(units) - 1, -1, -1):
        if count >= max(preserve_recent, PRESERVED_HISTORY):
            break
        kept.add(index)
        count += len(units[index])
    asked = [i for i, unit in enumerate(units) if unit[0].role == "user" and not is_results(unit[0].content)]
    return kept | set(asked[-1:])


def _after_gap(body: Sequence[Message], unit: Sequence[Message]) -> list[Message]:
    """The unit with a marker that something is missing before it; an assistant's own words are never changed."""
    if unit[0].role == "user":
        return [Message("user", f"{LEFT_OUT}\n\n{unit[0].content}"), *unit[1:]]
    if body and body[-1].role == "user":
        return [*unit[:-1], Message(unit[-1].role, f"{LEFT_OUT}\n\n{unit[-1].content}")]
    return [Message("user", LEFT_OUT), *unit]


def _cut(message: Message, chars: int) -> Message:
    left_out = len(message.content) - chars
    if left_out <= 0:
        return message
    head, tail = chars * 3 // 4, chars // 4
    marker = f"\n[... {left_out} characters left out ...]\n"
    return Message(message.role, message.content[:head] + marker + message.content[len(message.content) - tail :])


def _cut_to_fit(messages: list[Message], limit: int) -> list[Message]:
    """Cut the longest messages, the system message last, until all fit."""
    fitted = list(messages)
    for _ in range(len(messages)):
        excess = _size(fitted) - limit
        if excess <= 0:
            break
        body = [index for index, message in enumerate(fitted) if message.role != "system"] or range(len(fitted))
        longest = max(body, key=lambda index: len(fitted[index].content))
        size = len(fitted[longest].content)
        fitted[longest] = _cut(fitted[longest], max(size - excess - 100, CUT_CHARS // 4))
    return fitted


def _size(messages: Sequence[Message]) -> int:
    return sum(len(message.content) for message in messages)


def _total(units: Sequence[Sequence[Message]]) -> int:
    return sum(_size(unit) for unit in units)


@dataclass(frozen=True, slots=True)
class RoundNotes:
    """What an agent is told of its rounds."""

    max_rounds: int

    def note(self, used: int) -> str:
        """The note for an agent that has used so many rounds; empty while there is room."""
        left = self.max_rounds - used
        if left <= 0:
            return (
                f"You have used all {self.max_rounds} rounds of tool calls. No tool can be called any more: "
                "answer now with what you have, and say what is missing."
            )
        if left == 1 and used > 0:
            return "One round of tool calls is left. Conclude with it, or answer now."
        return ""
