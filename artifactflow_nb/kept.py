"""Values of a graph's state that cannot be written: the process that has them keeps them, by a token in the checkpoint.

So a graph runs here as it runs by itself, through interrupts too, and nothing is ever pickled. Another process has the
token and not the value, and says so.
"""

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from artifactflow_nb.errors import RunFailed

Place = tuple[str, str]
"""Where a value was to be written: the namespace and the id of a checkpoint."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Stands in a checkpoint for a value that is kept in memory.

    Attributes:
        token: What it is kept by.
        where: Where in the state the part is that cannot be written, as code would reach it: `messages[2].artifact`.
        kind: The name of that part's type.
    """

    token: str
    where: str
    kind: str


class Memory:
    """What this process keeps of its threads' states. It belongs to one thread of the process."""

    def __init__(self) -> None:
        self._threads: dict[str, dict[str, tuple[Place, Any]]] = {}

    def keep(self, thread_id: str, place: Place, where: str, kind: str, value: Any) -> Kept:
        """Keep a value as it is, until its checkpoint is forgotten; what is to be written in its place."""
        stands = Kept(uuid4().hex, where, kind)
        self._threads.setdefault(thread_id, {})[stands.token] = (place, value)
        return stands

    def given(self, thread_id: str, value: Any) -> Any:
        """A value that was read: itself, or what it stands for; `RunFailed` if another process kept that."""
        if not isinstance(value, Kept):
            return value
        try:
            return self._threads[thread_id][value.token][1]
        except KeyError:
            raise RunFailed(
                f"The graph cannot go on here: {value.where} in its state is of the type {value.kind}, which cannot be "
                "written to a file, so only the workbench in which the run was begun had it. Keep there what can be "
                "written (text, numbers, lists, mappings, classes that the annotations of the state name), or compile "
                "the graph with a checkpointer of its own that can write it. Then ask again."
            ) from None

    def forget(self, thread_id: str, place: Place | None = None) -> None:
        """Forget what was kept for a checkpoint; for all of the thread's, if none is named."""
        held = self._threads.pop(thread_id, {})
        if left := {} if place is None else {token: one for token, one in held.items() if one[0] != place}:
            self._threads[thread_id] = left
