"""`Plugin`: the additions of an optional feature to the workbench."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from artifactflow_nb.core.language import EnglishText, add_names
from artifactflow_nb.core.plan import DELEGATING_TOOLS, MODEL_TEXT_TOOLS
from artifactflow_nb.core.text.content_style import CONTENT_STYLES
from artifactflow_nb.engine.cited_sources import REFERENCE_EXPORTS, TEXT_MARKS
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.flows.base import FlowSpec
from artifactflow_nb.sources.formats.sections import Extractors
from artifactflow_nb.sources.rows import RELATED_ADDRESSES, RelatedAddresses
from artifactflow_nb.sources.values import TextMarks
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.artifacts import ArtifactHook
from artifactflow_nb.store.frames import Frame, add_frame
from artifactflow_nb.store.schema import ROW_CHECKS, RowCheck, Table, add_table
from artifactflow_nb.store.storage import KEPT_CONVERSATIONS, KeptConversations
from artifactflow_nb.tools.base import Tool

if TYPE_CHECKING:
    from artifactflow_nb.engine.engine import Engine


@dataclass(frozen=True, slots=True)
class RouteCall:
    """A request to a path of a plugin: the user, the values of the path's placeholders, and the body or None."""

    user: str
    params: Mapping[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class ServedRoute:
    """A path that a plugin adds to the HTTP interface.

    Attributes:
        method: `GET`, or `POST` for a change, which a read-only server refuses.
        path: The path below the prefix; `{name}` matches one segment.
        summary: The purpose of the path.
        handler: Returns the answer, a JSON value; called on the engine's loop.
        body: The JSON object of the request; None for a request without a body.
    """

    method: str
    path: str
    summary: str
    handler: "Callable[[Engine, RouteCall], Awaitable[Any]]"
    body: type[BaseModel] | None = None


@dataclass(frozen=True, slots=True)
class Plugin:
    """An optional feature. Pass a plugin as `Workbench(plugins=[...])`; CONTRIBUTING.md has an example.

    Attributes that concern stored rows, such as tables, frames and labels, hold for the process, since readers of files
    have no workbench. Flows, tools, services, hooks and references hold for the workbenches that have the plugin.

    Attributes:
        name: The name, which no other plugin has.
        flows: Returns the flows when an engine is created: importing flows takes a second.
        tools: The tools, which the lead agent gets.
        tables: The tables in the store.
        frames: The frames, which `wb.query` and `wb.columns_df` know.
        services: Returns, for an engine, the objects that tools and flows of the plugin get by class; the engine closes
            the objects that have a coroutine `aclose`.
        labels: Names for readers by kind (`tool`, `agent`, `parameter`, `status`, `sentence`, `activity`) and by the
            name in code; see `NAMES`.
        delegating_tools: The tools with calls that are jobs or runs; see `DELEGATING_TOOLS`.
        model_text_tools: The tools with results that are texts of models, which prove nothing about sources.
        on_artifact_written: Called in the transaction that writes a version of an artifact; see `ArtifactHook`.
        kept_conversations: Returns the ids of conversations that are never pruned.
        references: Returns the references that a question can contain, each as a text to insert, a label and a kind.
            The arguments are the engine, the conversation and the last message of the branch.
        accessor: Returns, for a workbench, the attribute with the name of the plugin, such as `wb.notes`.
        routes: Returns the paths in the HTTP interface when a server starts.
        readers: Extractors by kind of file, such as `.bib`; see `Extractors`.
        exports: Functions that write references in a form; see `REFERENCE_EXPORTS`.
        text_marks: Loads marks at the statements of texts; see `TEXT_MARKS`.
        styles: CSS by the first class of the elements in rendered Markdown; see `CONTENT_STYLES`.
        related_addresses: Returns the addresses of sources that a sealed file needs beside the sources that its run
            cites; see `RelatedAddresses`.
        check_row: Checks a row of a file, such as a sealed run: `ValueError` refuses the file.
    """

    name: str
    flows: Callable[[], Sequence[FlowSpec]] = tuple
    tools: tuple[Tool, ...] = ()
    tables: tuple[Table, ...] = ()
    frames: tuple[Frame, ...] = ()
    services: "Callable[[Engine], Mapping[type, Any]]" = lambda _engine: {}
    labels: Mapping[str, Mapping[str, EnglishText]] = field(default_factory=dict)
    delegating_tools: Mapping[str, str | None] = field(default_factory=dict)
    model_text_tools: frozenset[str] = frozenset()
    on_artifact_written: ArtifactHook | None = None
    kept_conversations: KeptConversations | None = None
    references: "Callable[[Engine, str, str | None], Awaitable[Sequence[tuple[str, str, str]]]] | None" = None
    accessor: Callable[[Any], Any] | None = None
    routes: Callable[[], Sequence[ServedRoute]] = tuple
    readers: Extractors = field(default_factory=dict)
    exports: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    text_marks: Callable[[Connection, str, Artifact | None], TextMarks] | None = None
    styles: Mapping[str, str] = field(default_factory=dict)
    related_addresses: RelatedAddresses | None = None
    check_row: RowCheck | None = None


BUILT_IN_PLUGINS: dict[str, Plugin] = {}
"""The plugins of all engines, by name; `artifactflow_nb.plugins` adds them."""


def add_plugin(plugin: Plugin) -> Plugin:
    """Register a plugin's declarations about stored rows, in place of a plugin of the same name; return the plugin.

    Errors: `UsageError` for a value that is not a plugin, and for a table or a frame whose name is in use.
    """
    if not isinstance(plugin, Plugin):
        raise UsageError(f"plugins has {brief(plugin)}; each must be a Plugin.")
    for table in plugin.tables:
        add_table(table)
    for frame in plugin.frames:
        add_frame(plugin.name, frame)
    add_names(plugin.labels)
    DELEGATING_TOOLS.update(plugin.delegating_tools)
    MODEL_TEXT_TOOLS.update(plugin.model_text_tools)
    REFERENCE_EXPORTS.update(plugin.exports)
    CONTENT_STYLES.update(plugin.styles)
    if plugin.text_marks is not None:
        TEXT_MARKS[plugin.name] = plugin.text_marks
    if plugin.kept_conversations is not None:
        KEPT_CONVERSATIONS[plugin.name] = plugin.kept_conversations
    if plugin.related_addresses is not None:
        RELATED_ADDRESSES[plugin.name] = plugin.related_addresses
    if plugin.check_row is not None:
        ROW_CHECKS[plugin.name] = plugin.check_row
    return plugin
