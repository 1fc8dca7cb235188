"""The numbers of a recorded run's events, whatever order they come in when the run is played."""

from collections import deque
from collections.abc import Callable, Collection, Sequence

from artifactflow_nb.recordings.clock import ASIDE, RUN


class RecordedNumbers:
    """The numbers that events had: those of each lane in their order, whichever lane is faster now.

    Args:
        order: The lane of each event by its number, from 1; empty where it is not known.
        last: The number of the last event so far.
        over: Called when the last number of the jobs is given: those that are left are of the run's end.
        late: Lanes of which some events are told with the run's end: those of its plans.
    """

    def __init__(
        self, order: Sequence[str], last: int, over: Callable[[], None] = lambda: None, late: Collection[str] = ()
    ) -> None:
        self._over = over
        of_jobs = [seq for seq, lane in enumerate(order, 1) if lane and lane != RUN and lane not in late]
        self._last_of_jobs = max(of_jobs, default=0)
        self._n_left = sum(last < seq <= self._last_of_jobs and bool(lane) for seq, lane in enumerate(order, 1))
        self._left: dict[str, deque[int]] = {}
        for seq, lane in enumerate(order, 1):
            if seq > last and lane:
                self._left.setdefault(lane, deque()).append(seq)
        self._gaps = deque(seq for seq, lane in enumerate(order, 1) if seq > last and not lane)
        self._told = last
        self._last = max(last, len(order))
        self._waited_for = deque(sorted(seq for left in self._left.values() for seq in left))
        self._all_up_to = 0

    def next(self, lane: str) -> int:
        """The next recorded number of the lane; a new one above all others if there is none."""
        if lane == ASIDE:
            return self._aside()
        if left := self._left.get(lane):
            seq = left.popleft()
            if seq <= self._last_of_jobs:
                self._n_left -= 1
                if not self._n_left:
                    self._over()
        else:
            seq = self._last = self._last + 1
        if lane == RUN:  # nothing of the run comes later, whatever the recording says
            self._all_up_to = seq
        return seq

    @property
    def has_more(self) -> bool:
        """Whether there are numbers to come that are not of the run's end."""
        return self._n_left > 0

    def _aside(self) -> int:
        """A number that nobody waits for, if there is one to come; else one above all others, as all that follow."""
        while self._gaps:
            if (seq := self._gaps.popleft()) > self._told:
                return seq
        self.forget()
        self._over()
        self._last += 1
        return self._last

    def is_due(self, seq: int) -> bool:
        """Whether all events of lower numbers are told."""
        is_next = bool(self._waited_for) and seq == self._waited_for[0]
        if is_next:
            self._waited_for.popleft()
        is_due = is_next or not self._waited_for or seq <= self._all_up_to or seq < self._waited_for[0]
        self._told = max(self._told, seq) if is_due else self._told
        return is_due

    def forget(self) -> None:
        """Count on from the highest number: the run goes another way."""
        self._left.clear()
        self._n_left = 0
        self._waited_for.clear()
