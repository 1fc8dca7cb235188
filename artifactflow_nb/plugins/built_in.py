"""The values of the plugins that come with the package, with their accessors; an engine needs them."""

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from artifactflow_nb.analysis.frames.catalog import FRAMES
from artifactflow_nb.engine.plugin import BUILT_IN_PLUGINS, Plugin, add_plugin
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.plugins.claims import frame as claims_frame
from artifactflow_nb.plugins.claims.accessor import ClaimAccessor
from artifactflow_nb.plugins.claims.plugin import CLAIMS
from artifactflow_nb.plugins.crate import CRATE, Crate
from artifactflow_nb.plugins.data.plugin import DATA, Data, DataResults
from artifactflow_nb.plugins.graphs import GRAPHS
from artifactflow_nb.plugins.literature import LITERATURE
from artifactflow_nb.plugins.literature.references import Literature
from artifactflow_nb.plugins.otel import OTEL, Traces
from artifactflow_nb.plugins.projects import PROJECTS
from artifactflow_nb.plugins.projects.accessor import ProjectFrames, Projects
from artifactflow_nb.plugins.studies.plugin import STUDIES, Studies

T_co = TypeVar("T_co", covariant=True)

GROUP = "artifactflow_nb.plugins"
"""The group of the entry points of packages that bring a plugin; a workbench uses the plugins that it names."""

for _plugin in (
    CLAIMS,
    CRATE,
    DATA,
    GRAPHS,
    LITERATURE,
    OTEL,
    PROJECTS,
    STUDIES,
):
    BUILT_IN_PLUGINS[_plugin.name] = add_plugin(_plugin)


class Accessor(Generic[T_co]):
    """A property of a workbench or a sealed run that a plugin adds; `create` makes its value from the object."""

    def __init__(self, create: Callable[[Any], T_co]) -> None:
        self._create = create

    def __get__(self, owner: Any, _owner_type: type) -> T_co:
        return self._create(owner)


class SealedRunAccessors:
    """The accessors of the built-in plugins on a sealed run, a line for each plugin."""

    claims = Accessor(ClaimAccessor)
    claims_df = claims_frame.claims_df
    literature = Accessor(Literature)
    crate = Accessor(Crate)
    data = Accessor(DataResults)
    otel = Accessor(Traces)
    projects = Accessor(ProjectFrames)


class WorkbenchAccessors(SealedRunAccessors):
    """The accessors of the built-in plugins on a workbench, where some can do more than on a sealed run."""

    data = Accessor(Data)
    projects = Accessor(Projects)
    studies = Accessor(Studies)


def load_plugins(plugins: Iterable[Plugin | str]) -> list[Plugin]:
    """Return plugins; a name stands for a plugin of an installed package. `UsageError` for what cannot be used."""
    if isinstance(plugins, str | Plugin):
        raise UsageError(f"plugins is {brief(plugins)}; pass a list: plugins=[...].")
    loaded: list[Plugin] = []
    for plugin in plugins:
        installed = {entry.name: entry for entry in entry_points(group=GROUP)} if isinstance(plugin, str) else {}
        if isinstance(plugin, str) and plugin not in installed:
            raise UsageError(f"No package has a plugin {brief(plugin)}. Installed: {', '.join(installed) or 'none'}.")
        loaded.append(installed[plugin].load() if isinstance(plugin, str) else plugin)
        _check_declarations(loaded[-1])
    return loaded


def _check_declarations(plugin: Plugin) -> None:
    for name in {frame.name for frame in getattr(plugin, "frames", ())} & {frame.name for frame in FRAMES}:
        raise UsageError(f"The plugin {plugin.name!r} cannot have a frame {name!r}: the package has one.")
    with closing(sqlite3.connect(":memory:")) as db:
        for table in getattr(plugin, "tables", ()):
            try:
                db.executescript(";".join(table.statements))
            except sqlite3.Error as error:
                raise UsageError(f"SQLite refuses the table {table.name!r} of {plugin.name!r}: {error}.") from None
