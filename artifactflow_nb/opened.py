"""A sealed run, opened: shown and queried without the store that it comes from.

::

    with af.open_run("run.afrun") as run:
        run.response
        run.llm_calls_df()

Its rows lie in a store of their own in a temporary folder, which goes with the handle. Nothing in the file is run.
"""

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Never, Self, TypeVar

from artifactflow_nb.agents.base import AgentConfig
from artifactflow_nb.approvals import Decision
from artifactflow_nb.artifact import Artifacts, Branch
from artifactflow_nb.audit import Replay, replay
from artifactflow_nb.engine import STORE_FILE
from artifactflow_nb.errors import Conflict, UsageError
from artifactflow_nb.events import StreamEvent
from artifactflow_nb.export.report_notebook import write_report
from artifactflow_nb.frames.face import WithFrames
from artifactflow_nb.recordings.scratch import make_store
from artifactflow_nb.recordings.sealed import ReadSource, Sealed, read_sealed
from artifactflow_nb.run_port import RunReader
from artifactflow_nb.run_record import RunRecord
from artifactflow_nb.store.database import Work, connect
from artifactflow_nb.store.runs import StoredRun, load_run
from artifactflow_nb.text.cards import Card, Code, Fold, Prose, Rows, Table
from artifactflow_nb.text.figures import count, duration, moment
from artifactflow_nb.tools.base import Tool

T = TypeVar("T")

_CHANGE = "A sealed run cannot be changed. Bring it into a workbench with wb.import_run(path), and go on there."


def open_run(path: str | os.PathLike[str]) -> "OpenedRun":
    """Open a file that `run.seal(path)` wrote, to look at it.

    Errors: `CassetteError` with the path, the part of the file and what to do, for a file that is damaged, was changed,
        is of a newer release, or is none of ours.
    """
    found = Path(path)
    return OpenedRun(found, read_sealed(found))


class OpenedRun(WithFrames, RunRecord):
    """What a sealed file tells of its run: what was asked, what came of it, and everything in between.

    It has the frames and `query`, as a workbench has. What it cannot give is done in a workbench.

    Args:
        path: The file.
        sealed: What it holds.

    Attributes:
        path: The file.
        file_manifest: What the file says of itself: packages, the run, a hash of each part and one of everything.
        sources: What was read in it and in the runs before it, as the agents saw it.
        cassette: What it takes to run it again, as the file of a cassette.
    """

    def __init__(self, path: Path, sealed: Sealed) -> None:
        folder = Path(tempfile.mkdtemp(prefix="artifactflow-"))
        self.close = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._file = folder / STORE_FILE
        make_store(self._file, sealed.rows)
        with closing(connect(self._file, read_only=True)) as db:
            self._of_file = load_run(db, sealed.rows.run_id)
        super().__init__(self._of_file)
        self.path = path
        self.file_manifest: Mapping[str, Any] = MappingProxyType(dict(sealed.manifest))
        self.sources: tuple[ReadSource, ...] = sealed.sources
        self.cassette = sealed.cassette

    @property
    def _store(self) -> Path:
        if not self.close.alive:
            raise UsageError(f"This run was closed. Open it again with af.open_run({str(self.path)!r}).")
        return self._file

    def _stored(self) -> StoredRun:
        return self._of_file

    @property
    def port(self) -> "StillPort":
        """What views are made from."""
        return StillPort(self._store, self._of_file)

    @property
    def artifacts(self) -> Artifacts:
        """The newest version of each artifact that the run's branch sees, by id; they cannot be changed here."""
        return Artifacts(_Kept(None, self.conversation_id, self.message_id, run=self))

    def to_notebook(self, path: str | os.PathLike[str], *, replace: bool = False) -> Path:
        """Write the run as a notebook that reads this file; as `Run.to_notebook`."""
        return write_report(Path(path), self.run_id, lambda _path: None, sealed=self.path, replace=replace)

    def replay(
        self,
        *,
        tools: Iterable[Tool] = (),
        agents: Iterable[AgentConfig] = (),
        prompts: str | os.PathLike[str] | None = None,
    ) -> Replay:
        """Run it again from what was recorded, and tell whether the same comes out; nothing is asked outside.

        Args:
            tools: The tools of one's own that it used, so that what its models were told of them is compared too; the
                results are the recorded ones in any case.
            agents: The agents that it used beside the built-in ones.
            prompts: The folder with the prompts of one's own that it used; without it, that they differ is told.

        Errors: `UsageError` if such an agent is missing.
        """
        return replay(self.run_id, self._store, self.cassette, tools=tools, agents=agents, prompts=prompts)

    def view(self) -> "StillView":
        """The run as a cell shows one that has ended: question, steps, answer, artifacts."""
        from artifactflow_nb.widgets.frozen import frozen_bundle

        return StillView(frozen_bundle(self.port))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"OpenedRun({self.question!r}, status={self.status!r}, path={str(self.path)!r})"

    def _card(self) -> Card:
        metrics = self.metrics
        titles = [f"{one.title} (v{one.version})" for one in self.artifacts.values()]
        packages = ", ".join(f"{name} {version}" for name, version in self.file_manifest["packages"].items())
        rows: Rows = [
            ("status", self.status),
            ("error", self.error),
            ("artifacts", ", ".join(titles)),
            ("began", moment(self.started_at)),
            ("time", duration(metrics.total_duration_ms)),
            ("tokens", metrics.total_tokens),
            ("sealed with", packages),
            ("file", Code(str(self.path))),
            ("sha256", Code(self.file_manifest["sha256"])),
            ("run_id", Code(self.run_id)),
        ]
        sources = Table.of(("title", "address"), [(one.title, Code(one.address)) for one in self.sources])
        folds = [Fold("The answer", Prose(self._of_file.response), is_open=True)] if self._of_file.response else []
        folds += [Fold(count(len(self.sources), "source"), sources)] if self.sources else []
        return Card("Sealed run", self.question, rows, folds)


@dataclass(frozen=True, slots=True)
class _Kept(Branch):
    """A branch that is read where its run is, which is there for as long, and cannot be written."""

    thread: None  # type: ignore[assignment]  # nothing is written
    dated: bool = True
    run: "OpenedRun" = field(kw_only=True)

    def read(self, work: Work[T]) -> T:
        """Read the run's store."""
        return self.run.port.read(work)

    def write(self, work: object) -> Never:
        """Refuse."""
        del work
        raise UsageError(_CHANGE)


@dataclass(frozen=True, slots=True)
class StillView:
    """A run as a page shows it that needs no kernel.

    Attributes:
        bundle: The output: `text/plain`, `text/markdown`, `text/html`.
    """

    bundle: Mapping[str, str]

    def _repr_mimebundle_(self, **_wanted: object) -> dict[str, str]:
        return dict(self.bundle)

    def __repr__(self) -> str:
        return self.bundle["text/plain"]


class StillPort(RunReader):
    """A run that has ended, in a store that no engine has open, for views that could also decide and stop."""

    def subrun(self, run_id: str) -> "StillPort":
        """A run that this one began; `NotFound` if the file does not hold it."""
        return StillPort(self._store, self.read(lambda db: load_run(db, run_id)))

    def subscribe(self, listener: Callable[[StreamEvent], None]) -> Callable[[], None]:
        """Tell all events at once; nothing comes after them."""
        for event in self.stored_events():
            listener(event)
        return lambda: None

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        """Call it now: there is no other thread."""
        callback(*args)

    async def decide(self, request_id: str, decision: Decision) -> None:
        """Refuse."""
        del request_id, decision
        raise Conflict(_CHANGE)

    async def go_on(self) -> None:
        """Refuse."""
        raise Conflict(_CHANGE)

    async def cancel(self) -> None:
        """Refuse."""
        raise Conflict(_CHANGE)

    def tool(self, name: str) -> None:
        """None: a file has no tools."""
        del name
