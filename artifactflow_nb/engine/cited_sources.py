"""The sources that a run cites: the texts that the run read, the locations, and the changes since then."""

import os
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

import orjson

from artifactflow_nb.core.plan import MODEL_TEXT_TOOLS
from artifactflow_nb.core.runs import GRAPH_SETTING, WORK_SETTING
from artifactflow_nb.engine.flow_registry import BUILT_IN_FLOWS
from artifactflow_nb.errors import NotFound, UsageError
from artifactflow_nb.sources.changes import SourceChange, SourceOfRun, UncheckedSource
from artifactflow_nb.sources.citation_marks import Citations, addresses_of, listed_sources
from artifactflow_nb.sources.citations import find_addresses, read_documents, read_hits
from artifactflow_nb.sources.cited_pages import cited_section, place_in_file
from artifactflow_nb.sources.manager import SCHEME, SourceManager
from artifactflow_nb.sources.values import NO_MARKS, Evidence, TextMarks, is_same_source
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.database import DatabaseWork
from artifactflow_nb.store.runs import load_run
from artifactflow_nb.tools.artifacts import ARTIFACT_TOOLS
from artifactflow_nb.tools.lead import ask_person, call_subagent
from artifactflow_nb.tools.web.fetch import Fetcher
from artifactflow_nb.tools.web.tools import web_fetch, web_search

T = TypeVar("T")

_MAX_PARENTS = 2
_TOOLS_WITH_MODEL_TEXTS = frozenset(
    {tool.name for tool in (*ARTIFACT_TOOLS, ask_person, call_subagent)}
    | {tool.name for flow in BUILT_IN_FLOWS.values() for tool in flow.all_tools}
)
"""Tools whose results are texts of models."""
_CALLS = """
WITH RECURSIVE branch(message_id) AS (
    SELECT message_id FROM runs WHERE run_id = ?
    UNION SELECT parent_id FROM messages JOIN branch USING (message_id)
), of_branch(run_id) AS (
    SELECT run_id FROM runs JOIN branch USING (message_id)
    UNION SELECT runs.run_id FROM runs JOIN of_branch ON parent_run_id = of_branch.run_id
)
SELECT tool_call_id, tool_name, stored_text(metadata_json) AS metadata FROM tool_calls JOIN of_branch USING (run_id)
WHERE success ORDER BY called_at
"""
_TEXTS = "SELECT stored_text(args_json) AS args, stored_text(result) AS result FROM tool_calls WHERE tool_call_id = ?"


def load_evidence(db: sqlite3.Connection, run_id: str | None, cited: Collection[str]) -> Evidence:
    """Load the texts of sources that a run, its subruns and earlier runs of its branch read; empty for an unknown run.

    The result is incomplete for runs of adapted graphs, whose own nodes may read sources, and for runs that write
    blocks from the texts of other blocks.

    Args:
        db: The store.
        run_id: The run.
        cited: The addresses of the sources. Results about other sources are not read: a long branch has many results.
    """
    try:
        run = load_run(db, run_id or "")
    except NotFound:
        return Evidence()
    texts: dict[str, str] = {}
    snippets: dict[str, str] = {}
    named = set(find_addresses(run.question))
    for row in db.execute(_CALLS, (run_id,)).fetchall() if cited else ():
        name = row["tool_name"]
        is_reading = name in {web_fetch.name, web_search.name}
        metadata = orjson.loads(row["metadata"] or "{}")
        results = metadata.get("results", ()) if is_reading else ()
        addresses = [str(result.get("address")) for result in results if isinstance(result, dict)]
        if (
            name in _TOOLS_WITH_MODEL_TEXTS
            or name in MODEL_TEXT_TOOLS
            or (is_reading and not any(is_same_source(address, each) for address in addresses for each in cited))
        ):
            continue
        args, result = (text or "" for text in db.execute(_TEXTS, (row["tool_call_id"],)).fetchone())
        if name == web_fetch.name:
            texts |= {document.address: document.text for document in read_documents(result) if document.error is None}
        elif name == web_search.name:
            snippets |= {hit.address: hit.snippet for hit in read_hits(result)}
        elif "evidence_id" in metadata:
            texts[str(metadata["evidence_id"])] = result
        else:
            named.update(find_addresses(f"{args} {result}"))
    is_complete = not {GRAPH_SETTING, WORK_SETTING} & run.settings.keys()
    return Evidence(texts, snippets, frozenset(named), is_complete=is_complete)


def artifact_evidence(db: sqlite3.Connection, artifact: Artifact, cited: Collection[str] | None = None) -> Evidence:
    """Load the texts of sources that the run of a version read; a manual edit has the run of its message.

    If `cited` is None, the sources that the version lists are loaded.
    """
    row = db.execute("SELECT run_id FROM runs WHERE message_id = ?", (artifact.message_id,)).fetchone()
    cited = addresses_of(artifact.markdown) if cited is None else cited
    run_id = artifact.run_id or (row and row["run_id"])
    return replace(load_evidence(db, run_id, cited), marks=load_marks(db, run_id, artifact))


TEXT_MARKS: dict[str, Callable[[sqlite3.Connection, str, Artifact | None], TextMarks]] = {}
"""Functions of plugins, by plugin, that load the marks of a version or else of all versions that a run wrote.

The table is of the process, as is `REFERENCE_EXPORTS`.
"""


def load_marks(db: sqlite3.Connection, run_id: str | None, artifact: Artifact | None = None) -> TextMarks:
    """Load the marks at the statements of a version, or of the texts of a run; the first plugin with marks counts."""
    loaded = (load(db, run_id or "", artifact) for load in TEXT_MARKS.values())
    return next((marks for marks in loaded if marks is not NO_MARKS), NO_MARKS)


class StoreReader(Protocol):
    """Reads a store."""

    def __call__(self, work: DatabaseWork[T], /) -> T:
        """Call a function with a read-only connection to the store, and return the result."""


@dataclass(frozen=True, slots=True)
class CitedTexts:
    """The texts of a run or of an artifact, as a value from which plugins make references.

    Attributes:
        texts: Texts in Markdown with their lists of sources.
        read: Reads the store.
        load_evidence: Loads the texts of sources that the run has read; takes a connection and the sources' addresses.
    """

    texts: Sequence[str]
    read: StoreReader
    load_evidence: Callable[[sqlite3.Connection, Collection[str]], Evidence]


REFERENCE_EXPORTS: dict[str, Callable[..., Any]] = {}
"""Functions of plugins by the form of the references, such as `BibTeX`; each gets `CitedTexts` first.

The table is of the process, because a sealed run, which has no engine and no plugins of its own, exports with it, too.
"""


def export_references(form: str, cited: CitedTexts, *args: object) -> Any:
    """Return the references of texts in a form; `UsageError` if no plugin has the form."""
    if form not in REFERENCE_EXPORTS:
        raise UsageError(f"No plugin writes references in {form}. Install the plugin that does.")
    return REFERENCE_EXPORTS[form](cited, *args)


def source_link(db: sqlite3.Connection, address: str, passage: str = "") -> str:
    """Return the web address of a source, or the relative path of a file near the working folder, or an empty text.

    The fragment of a path leads to the passage, or to the section if `passage` is empty; see `place_in_file`.
    """
    return _link(_location(db, address), address, passage or _section_text(db, address))


def _location(db: sqlite3.Connection, address: str) -> str:
    """Return the web address or the relative path of a source; empty for an unknown source and for a distant file."""
    if not address.startswith(SCHEME):
        return address if address.startswith(("http://", "https://")) else ""
    source_id = address.removeprefix(SCHEME).partition("#")[0]
    row = db.execute("SELECT uri FROM sources WHERE source_id = ?", (source_id,)).fetchone()
    uri = urlsplit(row["uri"]) if row else None
    if uri is None or uri.scheme != "file":
        return row["uri"] if uri and uri.scheme in {"http", "https"} else ""
    path = os.path.relpath(url2pathname(uri.path))
    # A path with many `..` would tell readers of the notebook the names of folders of this computer.
    return "" if path.count("..") > _MAX_PARENTS else path


def _section_text(db: sqlite3.Connection, address: str) -> str:
    """Return the text of a section of a local source in the index; empty for other addresses."""
    try:
        return cited_section(db, address).text if address.startswith(SCHEME) else ""
    except NotFound:
        return ""


def _link(location: str, address: str, passage: str) -> str:
    if not location or location.startswith(("http://", "https://")):
        return location
    path = Path(location)
    fragment = place_in_file(path, address.partition("#")[2], passage)
    return quote(path.as_posix()) + (f"#{fragment}" if fragment else "")


def linked_file(db: sqlite3.Connection, path: str) -> Path | None:
    """Return the file of a source by the path in a `source_link`; None for a file that is not a source."""
    file = Path(os.path.abspath(path))  # noqa: PTH100 - the index does not follow links
    return file if db.execute("SELECT 1 FROM sources WHERE uri = ?", (file.as_uri(),)).fetchone() else None


def artifact_citations(
    db: sqlite3.Connection, artifact: Artifact, page_button: Callable[[str, str], str] = lambda _address, _passage: ""
) -> Citations:
    """Return the citations of a version of an artifact, with the texts of the sources that the version's run read."""
    cited = listed_sources(artifact.markdown)
    addresses = [source.address for source in cited.values()]
    sections = {address: (_location(db, address), _section_text(db, address)) for address in addresses}

    def link(address: str, passage: str) -> str:
        location, text = sections.get(address, ("", ""))
        return _link(location, address, passage or text)

    return Citations(cited, artifact_evidence(db, artifact), link, page_button)


_GONE = ("status 404", "status 410")


@dataclass(frozen=True, slots=True)
class SourceReview:
    """The changes of sources since a run read them.

    Attributes:
        changes: The sources that have changed, without the statements that cite the sources.
        unchecked: The sources that could not be compared.
        urls: The address of each page after redirects, by the address of the source.
    """

    changes: tuple[SourceChange, ...]
    unchecked: tuple[UncheckedSource, ...]
    urls: Mapping[str, str] = field(default_factory=dict)


async def review_sources(used: Sequence[SourceOfRun], sources: SourceManager, fetcher: Fetcher | None) -> SourceReview:
    """Read the local sources and web pages again and compare the texts.

    Changed local files are indexed again; without a fetcher, pages are reported as unchecked.
    """
    changes: list[SourceChange] = []
    unchecked: list[UncheckedSource] = []
    urls: dict[str, str] = {}
    indexed = {source.source_id for source in await sources.sources()}
    folders = {source_id.partition("/")[0] for source_id in indexed}
    pages = [source for source in used if not source.address.startswith(SCHEME)]
    for source in used:
        if source in pages:
            continue
        source_id = source.address.removeprefix(SCHEME).partition("#")[0]
        if source_id not in indexed and source_id.partition("/")[0] not in folders:
            reason = "is not in the index; add its folder with wb.sources.add(...)"
            unchecked.append(UncheckedSource(source.address, reason))
            continue
        try:
            section = await sources.read(source.address)
        except NotFound:
            changes.append(SourceChange(source.address, source.title, "removed"))
        except UsageError:
            unchecked.append(UncheckedSource(source.address, "is in a folder that does not exist now"))
        else:
            if not source.is_same_as(section.text):
                changes.append(SourceChange(source.address, source.title, "changed"))
    if fetcher is None:
        unchecked += [UncheckedSource(page.address, "was not fetched again") for page in pages]
        return SourceReview(tuple(changes), tuple(unchecked))
    for page, fetched in zip(pages, await fetcher.fetch_all([page.address for page in pages]), strict=True):
        if fetched.error is None:
            urls[page.address] = fetched.url
            if not page.is_same_as(fetched.text):
                changes.append(SourceChange(page.address, page.title, "changed"))
        elif any(status in fetched.error for status in _GONE):
            changes.append(SourceChange(page.address, page.title, "removed"))
        else:
            unchecked.append(UncheckedSource(page.address, f"could not be fetched: {fetched.error}"))
    return SourceReview(tuple(changes), tuple(unchecked), urls)
