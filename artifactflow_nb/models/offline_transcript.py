"""What the offline model knows of the turn that it is in: the question, and what was called and came back so far."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from artifactflow_nb.call_places import CALL
from artifactflow_nb.messages import Message, ToolResult
from artifactflow_nb.text.framing import without_context
from artifactflow_nb.text.wordlists import STOP_WORDS
from artifactflow_nb.text.words import Query, query_of
from artifactflow_nb.xml_calls import parse_reply, parse_results

_QUESTION_LINE = re.compile(r"^Question: *(.+)$", re.MULTILINE)
_EARLIER_LINE = re.compile(r"^Earlier question: *(.+)$", re.MULTILINE)
_POINTS_BACK = re.compile(
    r"\b(?:it|its|they|them|their|that|this|these|those|he|she|him|her|former|latter|ones?|same)\b"
    r"|^(?:and|or|but|so|also|what about|how about)\b"
    r"|[它牠]|[他她][们們]|[这這那]|上述|前者|后者|後者|^[^什怎哪谁誰几幾多如何]{1,10}呢\W*$",
    re.IGNORECASE,
)
_ARTIFACT_LINE = re.compile(r"^- (\S+) \(version \d+\):", re.MULTILINE)
_FAILED = re.compile(r"^(web_\w+ failed: .+)$", re.MULTILINE)
_MANY_WORDS = 4


@dataclass(frozen=True, slots=True)
class Step:
    """A tool call of this turn and what came of it; None while nothing did."""

    name: str
    params: Mapping[str, Any]
    result: ToolResult | None

    @property
    def done(self) -> bool:
        """Whether it succeeded."""
        return self.result is not None and self.result.success

    @property
    def data(self) -> str:
        """The result's text; empty if there is none or the call failed."""
        return self.result.data if self.result is not None and self.result.success else ""

    @property
    def error(self) -> str:
        """Why it failed; empty if it did not."""
        return "" if self.result is None or self.result.success else self.result.error or "it failed"


@dataclass(frozen=True, slots=True)
class Transcript:
    """The current turn.

    Attributes:
        instruction: The message that started it: the person's question, or the job that another agent gave.
        earlier: The person's previous question; empty if there is none.
        steps: The calls so far, in order.
        tools: Names of the tools that may be called now.
        artifacts: Ids of the artifacts that the conversation has, as the system prompt lists them.
        told: The system prompt.
    """

    instruction: str
    earlier: str
    steps: tuple[Step, ...]
    tools: frozenset[str]
    artifacts: frozenset[str] = frozenset()
    told: str = ""

    @classmethod
    def read(cls, messages: Sequence[Message], tools: frozenset[str]) -> "Transcript":
        """Find the current question and pair the calls after it with their results."""
        talk = [message for message in messages if message.role != "system"]
        asked = [i for i, message in enumerate(talk) if message.role == "user" and _asks(talk, i)]
        start = asked[-1] if asked else 0
        earlier = without_context(talk[asked[-2]].content) if len(asked) > 1 else ""
        instruction = without_context(talk[start].content) if talk else ""
        told = "\n".join(message.content for message in messages if message.role == "system")
        return cls(instruction, earlier, tuple(_steps(talk[start + 1 :])), tools, _inventory(told), told)

    def plays(self, tool: str) -> bool:
        """Whether this tool is offered, or was and is not any more."""
        return tool in self.tools or (not self.tools and self.made(tool))

    def made(self, tool: str) -> bool:
        """Whether the tool was called in this turn."""
        return any(step.name == tool for step in self.steps)

    def of(self, tool: str, **params: str) -> list[Step]:
        """The calls of a tool in this turn, those with these parameters."""
        return [
            step
            for step in self.steps
            if step.name == tool and all(step.params.get(key) == value for key, value in params.items())
        ]

    @property
    def question(self) -> str:
        """The question: the line of an instruction that states it, else all of it without its addresses."""
        stated = _QUESTION_LINE.search(self.instruction)
        asked = stated[1] if stated else re.sub(r"\b(?:local:|https?://)\S+", " ", self.instruction)
        return uncalled(asked).strip()

    @property
    def context(self) -> str:
        """The earlier question where this one leans on it; empty where it stands alone."""
        stated = _EARLIER_LINE.search(self.instruction)
        if stated:
            return uncalled(stated[1]).strip()
        return uncalled(self.earlier) if self.earlier and leans(self.question) else ""

    @property
    def query(self) -> Query:
        """What is asked for, the earlier question counting for less."""
        return query_of(self.question, self.context)


def uncalled(text: str) -> str:
    """What somebody else wrote, so that it is no call when the model repeats it."""
    return CALL.sub(lambda mark: f"&lt;{mark[0][1:]}", text)


def _inventory(told: str) -> frozenset[str]:
    """The artifacts that a system prompt lists under its current context; the last listing counts."""
    context = told.rpartition("<current_context>")[2] if "<current_context>" in told else ""
    return frozenset(_ARTIFACT_LINE.findall(context))


def _asks(talk: Sequence[Message], i: int) -> bool:
    """Whether the user message is a person's (or an agent's) request, and not a note between two rounds."""
    before = talk[i - 1] if i else None
    if before is None:
        return True
    if before.role == "assistant":
        return not parse_reply(before.content).calls
    return before.role == "user"


def _steps(talk: Sequence[Message]) -> list[Step]:
    steps: list[Step] = []
    waiting: list[tuple[str, Mapping[str, Any]]] = []
    for message in talk:
        if message.role == "assistant":
            steps += [Step(name, params, None) for name, params in waiting]
            waiting = [(call.name, call.params) for call in parse_reply(message.content).calls]
            continue
        for name, result in parse_results(message.content) if message.role == "tool" else ():
            at = next((i for i, (called, _) in enumerate(waiting) if called == name), None)
            params = waiting.pop(at)[1] if at is not None else {}
            steps.append(Step(name, params, result))
    return [*steps, *(Step(name, params, None) for name, params in waiting)]


def leans(question: str) -> bool:
    """Whether the question is too short to stand alone, or points back to what was said before."""
    query = query_of(question)
    strong = [term for term, weight in query.terms.items() if weight >= 1 and term not in STOP_WORDS]
    chinese = {term for chain in query.chains for term in chain}
    n_words = sum(term not in chinese for term in strong) + sum((len(chain) + 1) / 2 for chain in query.chains)
    return n_words <= 1 or (n_words <= _MANY_WORDS and bool(_POINTS_BACK.search(question)))


def failure(step: Step) -> str:
    """A line of an agent's report that says that its tool failed; `failures` finds it."""
    return f"{step.name} failed: {' '.join(step.error.split())}"


def failures(report: str) -> list[str]:
    """The lines of a report that `failure` wrote."""
    return _FAILED.findall(report)
