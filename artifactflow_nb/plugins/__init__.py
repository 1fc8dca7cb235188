"""The plugins that come with the package, each a folder. To take one out, remove its folder and its lines here."""

from collections.abc import Iterable
from importlib.metadata import entry_points

from artifactflow_nb.analysis.frames.api import Frames
from artifactflow_nb.engine.plugin import BUILT_IN_PLUGINS, Plugin, add_plugin
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.plugins.graphs import GRAPHS
from artifactflow_nb.plugins.projects import PROJECTS
from artifactflow_nb.plugins.projects.workbench import ProjectFrames, ProjectMethods

GROUP = "artifactflow_nb.plugins"
"""The group of the entry points of packages that bring a plugin; a workbench uses those that it names."""

for _plugin in (
    # One line for each plugin:
    GRAPHS,
    PROJECTS,
):
    BUILT_IN_PLUGINS[_plugin.name] = add_plugin(_plugin)


class PluginFrames(
    # One line for each plugin that has methods for frames:
    ProjectFrames,
    Frames,
):
    """The frames of the built-in plugins, as methods of a workbench and of a sealed run."""


class PluginMethods(
    # One line for each plugin that has other methods:
    ProjectMethods,
    PluginFrames,
):
    """The methods that the built-in plugins add to a workbench."""


def load_plugins(plugins: Iterable[Plugin | str]) -> list[Plugin]:
    """Return plugins, those passed by name from the installed packages; `UsageError` for an unknown name."""
    loaded: list[Plugin] = []
    for plugin in plugins:
        if isinstance(plugin, str):
            installed = {entry.name: entry for entry in entry_points(group=GROUP)}
            if plugin not in installed:
                known = ", ".join(installed) or "none"
                raise UsageError(f"No installed package has a plugin {brief(plugin)}. Installed plugins: {known}.")
            loaded.append(installed[plugin].load())
        else:
            loaded.append(plugin)
    return loaded
