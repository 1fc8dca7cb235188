"""What is otherwise in a run that was forked from another, kept in its settings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Change:
    """What is otherwise, and from where.

    Attributes:
        of: The run that was forked.
        number: The number of the first step that was made anew.
        path: The job of that step.
        step: The number of its model turn in the job.
        prompt: What the agent of that step is asked instead, in that turn and the later ones of its job.
        model: The model that is asked from there on.
        tool_result: What the tool gives instead.
        decision: What the person decides instead, as `Decision` has it.
    """

    of: str
    number: int
    path: str
    step: int
    prompt: str | None = None
    model: str | None = None
    tool_result: str | None = None
    decision: Mapping[str, Any] | None = None

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> Self | None:
        """The change that a run's settings tell; None for a run that was not forked."""
        told = settings.get("fork")
        return None if told is None else cls(**told)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON, without what is left as it was."""
        told = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in told.items() if value is not None}

    def instruction(self, changed_job: str | None, job_id: str, step: int, told: str) -> str:
        """What a job is asked in a step, where the job of `path` has the id `changed_job`."""
        return told if self.prompt is None or job_id != changed_job or step < self.step else self.prompt
