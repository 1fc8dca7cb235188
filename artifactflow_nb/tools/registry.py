"""Registry of an engine's tools, and their selection by names and categories."""

from collections.abc import Iterable, Iterator

from artifactflow_nb.core.text.format import did_you_mean
from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.tools.base import Tool

ALL = "all"
"""Spec that selects every tool."""

CORE, MCP = "core", "mcp"
"""Categories of built-in tools and of MCP tools; valid specs also while no tool has the category."""

GROUP_NAMES = (ALL, CORE, MCP)
"""Reserved names: in a configuration each of them selects a group of tools."""


def select_tools(specs: Iterable[str], tools: Iterable[Tool], *, skip_unknown: bool = False) -> tuple[Tool, ...]:
    """Select tools by names and categories, in the order of the specs, each tool once.

    Args:
        specs: Tool names, categories and `all`, mixed. A tool's name takes precedence over a user's category of the
            same name; `all`, `core` and `mcp` always select groups.
        tools: The tools to select from; the tools of a category keep this order.
        skip_unknown: Whether to ignore specs without a tool, instead of raising an error.

    Errors: `UsageError` for an unknown spec, with the known names and categories.
    """
    by_name = {entry.name: entry for entry in tools}
    selected: dict[str, Tool] = {}
    for spec in specs:
        is_name = spec in by_name and spec not in GROUP_NAMES
        matches = [by_name[spec]] if is_name else [entry for entry in by_name.values() if spec in {ALL, entry.category}]
        # A group may be empty: the MCP servers of a workbench are started after its agents were configured.
        if not matches and not skip_unknown and spec not in GROUP_NAMES:
            categories = dict.fromkeys([*GROUP_NAMES, *(entry.category for entry in by_name.values())])
            raise UsageError(
                f"There is no tool {spec!r} and no category of this name. Tools: {', '.join(by_name) or 'none'}; "
                f"categories: {', '.join(categories)}."
            )
        selected |= {entry.name: entry for entry in matches if entry.name not in selected}
    return tuple(selected.values())


class ToolRegistry:
    """A set of tools with unique names.

    Args:
        tools: The built-in tools, which cannot be replaced; `UsageError` if two tools have the same name.
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._built_in: dict[str, Tool] = {}
        for entry in tools:
            self.register(entry)
            self._built_in[entry.name] = entry

    def register(self, entry: Tool) -> None:
        """Add a tool, or replace an added tool of the same name, so that a notebook cell can be run again.

        Errors: `UsageError` for the name of a different built-in tool, and for `all`, `core` and `mcp`.
        """
        if entry.name in GROUP_NAMES:
            raise UsageError(
                f"A tool cannot be called {entry.name!r}: this name selects a group of tools in a configuration. "
                "Choose another name."
            )
        if self._built_in.get(entry.name, entry) != entry:
            raise UsageError(f"A tool {entry.name!r} is built in. Choose another name.")
        self._tools[entry.name] = entry

    def is_built_in(self, entry: Tool) -> bool:
        """Return whether the tool is one of the built-in tools."""
        return self._built_in.get(entry.name) == entry

    def replace_tools(self, before: Iterable[Tool], now: Iterable[Tool]) -> None:
        """Remove the tools `before` that are still registered, then add the tools `now`."""
        removed = set(map(id, before))  # by identity: a tool that took the name of a removed tool must stay
        remaining = {name: entry for name, entry in self._tools.items() if id(entry) not in removed}
        self._tools = {**remaining, **{entry.name: entry for entry in now}}

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def select(self, specs: Iterable[str]) -> tuple[Tool, ...]:
        """Select registered tools, as `select_tools` does; `UsageError` for an unknown spec."""
        return select_tools(specs, self._tools.values())

    def find(self, name: str, offered: Iterable[str]) -> Tool:
        """Return the tool that a model called; `ToolError`, for the model, if the name is not in `offered`."""
        names = list(offered)
        if name in names:
            return self._tools[name]
        raise ToolError(
            f"You have no tool {name!r}.{did_you_mean(name, names)} Your tools are: {', '.join(names) or 'none'}."
        )
