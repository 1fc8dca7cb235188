"""Dependency graph of a project's blocks, by id: dependents, topological order and cycles."""

from collections.abc import Mapping
from functools import cached_property
from heapq import heapify, heappop, heappush


class DependencyGraph:
    """The ids that each block depends on, by block id in document order; they may include deleted ids."""

    def __init__(self, dependencies: Mapping[str, tuple[str, ...]]) -> None:
        self.dependencies = dependencies

    @cached_property
    def dependents(self) -> Mapping[str, list[str]]:
        """Direct dependents by id; ids without dependents are missing."""
        dependents: dict[str, list[str]] = {}
        for key, needs in self.dependencies.items():
            for need in needs:
                dependents.setdefault(need, []).append(key)
        return dependents

    def all_dependents(self, keys: set[str]) -> set[str]:
        """Return the ids of all direct and indirect dependents, without `keys` themselves."""
        pending, reached = list(keys), set[str]()
        while pending:
            for key in self.dependents.get(pending.pop(), ()):
                if key not in reached:
                    reached.add(key)
                    pending.append(key)
        return reached - keys

    @cached_property
    def topological_order(self) -> tuple[str, ...]:
        """The ids, each after its dependencies and otherwise in document order, without `cyclic_ids`."""
        keys, seen = tuple(self.dependencies), set[str]()
        for key, needs in self.dependencies.items():
            if any(need not in seen and need in self.dependencies for need in needs):
                break
            seen.add(key)
        else:  # as in most documents
            return keys
        # Kahn's algorithm; the heap keeps independent blocks in document order.
        indices = {key: n for n, key in enumerate(keys)}
        n_missing = [sum(map(indices.__contains__, needs)) for needs in self.dependencies.values()]
        ready = [n for n, missing in enumerate(n_missing) if not missing]
        heapify(ready)
        result: list[str] = []
        while ready:
            result.append(keys[heappop(ready)])
            for dependent in self.dependents.get(result[-1], ()):
                n = indices[dependent]
                n_missing[n] -= 1
                if not n_missing[n]:
                    heappush(ready, n)
        return tuple(result)

    @cached_property
    def cyclic_ids(self) -> frozenset[str]:
        """The ids of blocks in a cycle, or that depend on one."""
        return frozenset(self.dependencies).difference(self.topological_order)

    def find_cycle(self) -> tuple[str, ...]:
        """Return the ids of a cycle, with the first id repeated at the end; a cycle must exist."""
        path: list[str] = []
        key = next(key for key in self.dependencies if key in self.cyclic_ids)
        while key not in path:
            path.append(key)
            key = next(need for need in self.dependencies[key] if need in self.cyclic_ids)
        return (*path[path.index(key) :], key)
