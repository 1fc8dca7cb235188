"""Which call of which run began a run: one that works for another, with its own id, approvals and metrics."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

SUBRUN = "subrun"
"""The setting of a run that another began."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The call for which a run works.

    Attributes:
        run_id: The run that began it.
        message_id: The message that that run answers.
        tool_call_id: The call.
        place: Where the call stands in its run, as `main/2.1`: the same when a notebook is executed again.
    """

    run_id: str
    message_id: str
    tool_call_id: str
    place: str

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> Self | None:
        """What a run keeps of it; None for a run that a person or code began, and for what is no origin."""
        kept = settings.get(SUBRUN)
        names = [field.name for field in fields(cls)]
        if not isinstance(kept, Mapping) or not all(isinstance(kept.get(name), str) for name in names):
            return None
        return cls(**{name: kept[name] for name in names})

    def as_json(self) -> dict[str, str]:
        """As a run keeps it."""
        return asdict(self)
