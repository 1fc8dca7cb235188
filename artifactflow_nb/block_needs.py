"""What rests on what among the texts of a project, by ids: in which turn they come, and what goes round in a circle."""

from collections.abc import Mapping
from functools import cached_property
from heapq import heapify, heappop, heappush


class Needs:
    """What each text rests on.

    Args:
        of: The ids that each text rests on, by its own, in the order of the document; ids that are gone, too.

    Attributes:
        of: The same.
    """

    def __init__(self, of: Mapping[str, tuple[str, ...]]) -> None:
        self.of = of

    @cached_property
    def users(self) -> Mapping[str, list[str]]:
        """The texts that rest on an id, where there are any."""
        found: dict[str, list[str]] = {}
        for key, needs in self.of.items():
            for need in needs:
                found.setdefault(need, []).append(key)
        return found

    def rests_on_any(self, keys: set[str]) -> set[str]:
        """The ids of the texts that rest on some of these, at first or at second hand, without these."""
        left, found = list(keys), set[str]()
        while left:
            for key in self.users.get(left.pop(), ()):
                if key not in found:
                    found.add(key)
                    left.append(key)
        return found - keys

    @cached_property
    def in_turn(self) -> tuple[str, ...]:
        """The ids, each after those that it rests on, else in order; without those of `in_circles`."""
        return tuple(self.of) if self._stand_in_turn else tuple(self._brought_in_turn())

    @property
    def _stand_in_turn(self) -> bool:
        """Whether each stands behind those that it rests on, as in most documents."""
        before = set[str]()
        for key, needs in self.of.items():
            if any(need not in before and need in self.of for need in needs):
                return False
            before.add(key)
        return True

    def _brought_in_turn(self) -> list[str]:
        keys = tuple(self.of)
        place = {key: n for n, key in enumerate(keys)}
        waits = [sum(map(place.__contains__, needs)) for needs in self.of.values()]
        ready = [n for n, waited_for in enumerate(waits) if not waited_for]
        heapify(ready)
        done: list[str] = []
        while ready:
            done.append(keys[heappop(ready)])
            for user in self.users.get(done[-1], ()):
                n = place[user]
                waits[n] -= 1
                if not waits[n]:
                    heappush(ready, n)
        return done

    @cached_property
    def in_circles(self) -> frozenset[str]:
        """The ids of texts that rest on themselves, or on such."""
        return frozenset(self.of).difference(self.in_turn)

    def circle(self) -> tuple[str, ...]:
        """The ids of one of the circles, the first at the end again; there must be one."""
        way: list[str] = []
        key = next(key for key in self.of if key in self.in_circles)
        while key not in way:
            way.append(key)
            key = next(need for need in self.of[key] if need in self.in_circles)
        return (*way[way.index(key) :], key)
