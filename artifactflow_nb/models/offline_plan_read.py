"""What the offline model knows of a plan: the texts that the plan flow gives to the agents, read back."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from artifactflow_nb.text.citations import Quotes, read_quotes

Ended = Literal["completed", "failed", "skipped"]

_ENDED: dict[str, Ended] = {"was completed": "completed", "failed": "failed", "was skipped": "skipped"}
_TASK = re.compile(r"The task: (.*?)\n\nThe plan: ", re.DOTALL)
_RESULT = re.compile(rf"^Step (\d+) \((.*)\) ({'|'.join(_ENDED)}):\n", re.MULTILINE)
_OWN = re.compile(r"^Your step, \d+ of \d+: (.*)$", re.MULTILINE)
_TRIED_BEFORE = "\n\nIt was tried before and failed: "
_LAST = re.compile(r"^The step .*? \((.*)\) (failed|was completed|was skipped)\.$", re.MULTILINE)
_CHOICES = re.compile(r"^You may choose: ([\w, ]+) \(", re.MULTILINE)
_LINE = re.compile(r"^\d+\. \[(\w+)\] (.*)$", re.MULTILINE)
_OVER = re.compile(r"^The plan .* is over: ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class StepResult:
    """A step that has ended.

    Attributes:
        number: Its number, from 1.
        title: What was to be done.
        ended: How it ended.
        text: What came of it, or why it failed or was skipped.
    """

    number: int
    title: str
    ended: Ended
    text: str

    @property
    def head(self) -> str:
        """The line before its text, as the flow writes it."""
        words = next(words for words, ended in _ENDED.items() if ended == self.ended)
        return f"Step {self.number} ({self.title}) {words}:"

    @property
    def quotes(self) -> tuple[Quotes, ...]:
        """What it quotes; nothing of a step that was not completed."""
        return tuple(read_quotes(self.text)) if self.ended == "completed" else ()


@dataclass(frozen=True, slots=True)
class StepTask:
    """What an executor is asked.

    Attributes:
        task: The person's question.
        title: The step, in a line.
        description: What it takes.
        results: The steps that have ended.
    """

    task: str
    title: str
    description: str
    results: tuple[StepResult, ...]

    @classmethod
    def read(cls, instruction: str) -> Self:
        """The task that an instruction holds."""
        own = [*_OWN.finditer(instruction)]
        start, title = (own[-1], own[-1][1]) if own else (None, "")
        before = instruction[: start.start()] if start else instruction
        after = instruction[start.end() :].partition(_TRIED_BEFORE)[0] if start else ""
        return cls(task_of(instruction), title.strip(), after.strip(), results_in(before))


def task_of(instruction: str) -> str:
    """The person's question, as an instruction of the plan flow begins with it; all of any other instruction."""
    found = _TASK.match(instruction)
    return (found[1] if found else instruction).strip()


def is_summary(instruction: str) -> bool:
    """Whether an agent is asked to sum up a plan."""
    return _TASK.match(instruction) is not None and not _OWN.search(instruction) and not _CHOICES.search(instruction)


def results_in(text: str) -> tuple[StepResult, ...]:
    """The steps whose results a text holds, in order."""
    found = [*_RESULT.finditer(text)]
    starts = [*(one.start() for one in found), len(text)]
    return tuple(
        StepResult(int(one[1]), one[2], _ENDED[one[3]], text[one.end() : end].strip())
        for one, end in zip(found, starts[1:], strict=True)
    )


@dataclass(frozen=True, slots=True)
class Look:
    """What a replanner is asked.

    Attributes:
        task: The person's question.
        failed: Whether the last step failed.
        reason: Why it did.
        pending: The titles of the steps that are to come.
        choices: What may be chosen.
        results: The steps that have ended.
    """

    task: str
    failed: bool
    reason: str
    pending: tuple[str, ...]
    choices: tuple[str, ...]
    results: tuple[StepResult, ...]

    @classmethod
    def read(cls, instruction: str) -> Self:
        """What an instruction holds of it."""
        last = [*_LAST.finditer(instruction)]
        ended = instruction[: last[-1].start()] if last else instruction
        results = results_in(ended)
        title, failed = (last[-1][1], last[-1][2] == "failed") if last else ("", False)
        choices = _CHOICES.findall(instruction)
        return cls(
            task_of(instruction),
            failed,
            next((one.text for one in reversed(results) if one.title == title and one.ended == "failed"), ""),
            tuple(title for status, title in _LINE.findall(ended) if status == "pending"),
            tuple(choices[-1].split(", ")) if choices else (),
            results,
        )


def is_report(text: str) -> bool:
    """Whether a text is a plan's report, and not the reason why it was not carried out."""
    return _OVER.match(text) is not None


def undone(report: str) -> Sequence[str]:
    """The steps that a plan's report says were not done: those that failed, then those that were skipped, with why."""
    lines = _LINE.findall(report)
    skipped: dict[str, list[str]] = {}  # for one reason often several
    for title, colon, why in (told.rpartition(": ") for status, told in lines if status == "skipped"):
        skipped.setdefault(colon + why if title else "", []).append(title or why)
    failed = [told for status, told in lines if status == "failed"]
    return [*failed, *("; ".join(titles) + why for why, titles in skipped.items())]
