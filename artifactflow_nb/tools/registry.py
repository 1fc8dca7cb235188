"""The tools that an engine knows, by name."""

import difflib
from collections.abc import Iterable, Iterator

from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.tools.base import Tool


class ToolRegistry:
    """A set of tools with unique names.

    Args:
        tools: Those that it begins with; they stay as they are.
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools = {entry.name: entry for entry in tools}
        self._built_in = dict(self._tools)

    def register(self, entry: Tool) -> None:
        """Add a tool, or put it in the place of an added one of its name, as a cell that is run again does.

        Errors: `UsageError` for the name of a built-in tool that it is not.
        """
        if self._built_in.get(entry.name, entry) != entry:
            raise UsageError(f"A tool {entry.name!r} is built in; choose another name.")
        self._tools[entry.name] = entry

    def exchange(self, before: Iterable[Tool], now: Iterable[Tool]) -> None:
        """Take some tools away, as far as they are there still, and add others, of names that are free then."""
        gone = set(map(id, before))
        kept = {name: entry for name, entry in self._tools.items() if id(entry) not in gone}
        self._tools = {**kept, **{entry.name: entry for entry in now}}

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def select(self, names: Iterable[str]) -> tuple[Tool, ...]:
        """The tools of these names, in this order; `UsageError` for a name that is not known."""
        wanted = list(names)
        if unknown := [name for name in wanted if name not in self._tools]:
            raise UsageError(f"There is no tool {unknown[0]!r}; known are: {', '.join(self._tools)}.")
        return tuple(self._tools[name] for name in wanted)

    def find(self, name: str, offered: Iterable[str]) -> Tool:
        """The tool that a model called; `ToolError`, for the model, if it was not offered one of this name."""
        names = list(offered)
        if name in names:
            return self._tools[name]
        close = difflib.get_close_matches(name, names, 1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise ToolError(f"You have no tool {name!r}.{hint} Your tools are: {', '.join(names) or 'none'}.")
