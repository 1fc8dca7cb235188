"""The tools that an engine knows, and which of them are meant by names and categories."""

import difflib
from collections.abc import Iterable, Iterator

from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.tools.base import Tool

ALL = "all"
"""Means every tool."""

CORE, MCP = "core", "mcp"
"""The categories of the built-in tools and of those of MCP servers; known also while they have no tool."""


def select_tools(specs: Iterable[str], tools: Iterable[Tool], *, skip_unknown: bool = False) -> tuple[Tool, ...]:
    """The tools that are meant, in the order in which they are named, each once.

    Args:
        specs: `all`, names of tools and categories, mixed; a name goes before a category that is called the same.
        tools: Those to select from; the tools of a category come in their order.
        skip_unknown: Whether what means none of them yet is left out.

    Errors: `UsageError` for what is neither, with the names and categories that are known.
    """
    known = {entry.name: entry for entry in tools}
    found: dict[str, Tool] = {}
    for spec in specs:
        meant = [known[spec]] if spec in known else [one for one in known.values() if spec in {ALL, one.category}]
        if not meant and not skip_unknown and spec not in {ALL, CORE, MCP}:
            categories = dict.fromkeys([ALL, CORE, MCP, *(entry.category for entry in known.values())])
            raise UsageError(
                f"There is no tool {spec!r} and no category of this name; known are the tools "
                f"{', '.join(known) or 'none'}, and the categories {', '.join(categories)}."
            )
        found |= {entry.name: entry for entry in meant if entry.name not in found}
    return tuple(found.values())


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

    def select(self, specs: Iterable[str]) -> tuple[Tool, ...]:
        """The tools that are meant, as `select_tools` says; `UsageError` for what means none."""
        return select_tools(specs, self._tools.values())

    def find(self, name: str, offered: Iterable[str]) -> Tool:
        """The tool that a model called; `ToolError`, for the model, if it was not offered one of this name."""
        names = list(offered)
        if name in names:
            return self._tools[name]
        close = difflib.get_close_matches(name, names, 1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise ToolError(f"You have no tool {name!r}.{hint} Your tools are: {', '.join(names) or 'none'}.")
