"""The handle of a sealed run, which can be displayed and queried without its original store.

::

    with af.open_run("run.afrun") as run:
        run.response
        run.llm_calls_df()

The rows are loaded into a store in a temporary folder, which is removed with the handle. Nothing in the file is
executed.
"""

import os
import shutil
import sqlite3
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Never, Self, TypeVar

from artifactflow_nb.agents.base import AgentLike
from artifactflow_nb.analysis.frames.api import Frames
from artifactflow_nb.core.language import in_language, translate
from artifactflow_nb.core.local_files import absolute_path, shown_path
from artifactflow_nb.core.text.cards import Card, CardMixin, CardRows, CardTable, Code, Details, MarkdownText
from artifactflow_nb.core.text.format import count, duration, format_local_time
from artifactflow_nb.core.text.panels import panel_html, scroll_box
from artifactflow_nb.engine.folder_file import STORE_FILE
from artifactflow_nb.engine.plugin import Plugin
from artifactflow_nb.engine.run_client import READ_ONLY, RunReader
from artifactflow_nb.errors import UsageError
from artifactflow_nb.export.report import write_report
from artifactflow_nb.flows.base import FlowSpec
from artifactflow_nb.notebook.artifact import Artifacts, Branch
from artifactflow_nb.notebook.run import RunRecord
from artifactflow_nb.plugins.built_in import SealedRunAccessors, load_plugins
from artifactflow_nb.recording.seal import ReadSource, SealedParts, read_sealed, write_store
from artifactflow_nb.recording.verify import VerificationReport, verify
from artifactflow_nb.store.database import DatabaseWork, connect
from artifactflow_nb.store.faults import store_error
from artifactflow_nb.store.runs import StoredRun, load_run
from artifactflow_nb.tools.base import Tool

T = TypeVar("T")


def open_run(path: str | os.PathLike[str]) -> "SealedRun":
    """Open a file that `run.seal(path)` wrote, for reading.

    Errors: `CassetteError` for a file that is damaged, was changed, comes from another release or is not a sealed run;
        the message has the path, the part of the file and what to do.
    """
    file = absolute_path(path)
    return SealedRun(file, *read_sealed(file))


class SealedRun(SealedRunAccessors, Frames, CardMixin, RunRecord):
    """A run in a sealed file, with the properties of a `Run` and the frames of a workbench.

    Args:
        path: The file.
        parts: The content of the file.
        manifest: The manifest of the file.

    Attributes:
        path: The file.
        file_manifest: The manifest of the file: packages, the run, a hash of each part and a hash of the whole.
        sources: The documents that the run and the earlier runs of its branch read, with the texts that agents got.
    """

    def __init__(self, path: Path, parts: SealedParts, manifest: Mapping[str, Any]) -> None:
        folder = Path(tempfile.mkdtemp(prefix="artifactflow-"))
        self.close = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        store = folder / STORE_FILE
        try:
            with closing(connect(store)) as db:
                db.execute("PRAGMA synchronous = OFF")  # the store is deleted with this handle
                write_store(db, parts)
                stored = load_run(db, parts.rows.run_id)
        except sqlite3.Error as error:
            self.close()
            raise store_error(store, f"The sealed file {path} cannot be opened", error, salvage=False) from error
        RunRecord.__init__(self, stored)
        Frames.__init__(self, store)
        self.path = path
        self.file_manifest: Mapping[str, Any] = MappingProxyType(dict(manifest))
        self.sources: tuple[ReadSource, ...] = parts.sources
        self._row = stored
        self._rows = parts.rows

    @property
    def _store(self) -> Path:
        if not self.close.alive:
            raise UsageError(f"This run was closed. Open it again with af.open_run({str(self.path)!r}).")
        return super()._store

    def _how_to_open(self) -> str:
        return f"af.open_run({str(self.path)!r})"

    def _stored(self) -> StoredRun:
        return self._row

    @property
    def _client(self) -> RunReader:
        return RunReader(self._store, self._row)

    @property
    def artifacts(self) -> Artifacts:
        """The current version of each artifact on the run's branch, by id, read-only."""
        branch = _SealedBranch(None, self.conversation_id, self.message_id, read_run=self._read)
        return Artifacts(branch, self._problem)

    def _read(self, work: DatabaseWork[T]) -> T:
        return self._client.read(work)

    def to_notebook(self, path: str | os.PathLike[str], *, replace: bool = False) -> Path:
        """Write a report as a notebook whose cells read this file; arguments and errors as for `Run.to_notebook`."""
        return write_report(absolute_path(path), self.run_id, lambda _path: None, sealed=self.path, replace=replace)

    def verify(
        self,
        *,
        tools: Iterable[Tool] = (),
        agents: Iterable[AgentLike] = (),
        flows: Sequence[FlowSpec] = (),
        plugins: Sequence[Plugin | str] = (),
        prompts: str | os.PathLike[str] | None = None,
    ) -> VerificationReport:
        """Execute the run again with recorded model, results and decisions, and compare; needs no network and no key.

        Args:
            tools: Your own tools that the run used; descriptions are compared, and tools are not called.
            agents: Your own agents that the run used.
            flows: Your own flows, as for `Workbench`.
            plugins: Your own plugins, as for `Workbench`.
            prompts: The folder with your own prompts; without the folder, the report lists your prompts as changed.

        Errors: `UsageError` if an agent or a flow is missing.
        """
        folder = None if prompts is None else absolute_path(prompts)
        own_plugins = load_plugins(plugins)
        return verify(self._rows, tools=tools, agents=agents, flows=flows, plugins=own_plugins, prompts=folder)

    @property
    def panel(self) -> "SavedRunView":
        """The saved view of the run: question, steps, answer, artifacts."""
        from artifactflow_nb.widgets.run.saved import saved_run

        return SavedRunView(saved_run(self._client))

    def timeline(self) -> "SavedRunView":
        """Return a drawing of the calls of the run over time, with a lane per agent."""
        from artifactflow_nb.analysis.plots.frame_spans import spans_from_frames
        from artifactflow_nb.analysis.plots.svg import BOTH_STYLE, figure
        from artifactflow_nb.analysis.plots.waterfall import describe_spans, waterfall_svg

        calls = self.llm_calls_df(self)
        frames = calls, self.tool_calls_df(self), self.approvals_df(self), self.plan_steps_df(self)
        spans = [replace(span, group="") for span in spans_from_frames(*frames)]
        with in_language(self._client.language):
            title, description = translate("Timeline"), describe_spans(spans, None)
            drawing = figure(waterfall_svg(spans), title, description)
        html = panel_html(scroll_box(drawing, "af-drawing", title), BOTH_STYLE)
        return SavedRunView({"text/plain": f"{title}: {description}", "text/html": html})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SealedRun({self.question!r}, status={self.status!r}, path={shown_path(self.path)!r})"

    def _card(self) -> Card:
        metrics = self.metrics
        titles = [f"{artifact.title} (v{artifact.version})" for artifact in self.artifacts.values()]
        packages = ", ".join(f"{name} {version}" for name, version in self.file_manifest["packages"].items())
        rows: CardRows = [
            ("status", self.status),
            ("error", self.error),
            ("artifacts", ", ".join(titles)),
            ("began", format_local_time(self.started_at)),
            ("time", duration(metrics.total_duration_ms)),
            ("tokens", metrics.total_tokens),
            ("sealed with", packages),
            ("file", Code(shown_path(self.path))),
            ("sha256", Code(self.file_manifest["sha256"])),
            ("run_id", Code(self.run_id)),
        ]
        folds = []
        if self._row.response:
            folds.append(Details("The answer", MarkdownText(self._row.response), is_open=True))
        if self.sources:
            addresses = [(source.title, Code(source.address)) for source in self.sources]
            table = CardTable.from_rows(("title", "address"), addresses)
            folds.append(Details(count(len(self.sources), "source"), table))
        return Card("Sealed run", self.question, rows, folds)


@dataclass(frozen=True, slots=True)
class _SealedBranch(Branch):
    """The branch of a sealed run, which cannot be written."""

    thread: None  # type: ignore[assignment]  # nothing is written
    with_dates: bool = True
    read_run: Callable[[DatabaseWork[Any]], Any] = field(kw_only=True)

    def read(self, work: DatabaseWork[T]) -> T:
        result: T = self.read_run(work)
        return result

    def write(self, work: object) -> Never:
        """Refuse to write."""
        del work
        raise UsageError(READ_ONLY)


@dataclass(frozen=True, slots=True)
class SavedRunView:
    """The saved view of a run, which needs no kernel.

    Attributes:
        bundle: The output: `text/plain`, `text/html`.
    """

    bundle: Mapping[str, str]

    def _repr_mimebundle_(self, **_wanted: object) -> dict[str, str]:
        return dict(self.bundle)

    def __repr__(self) -> str:
        return self.bundle["text/plain"]
