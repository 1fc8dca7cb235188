"""Handles of artifacts: a handle is one version, to read, edit, compare and export.

A handle does not change: an edit writes a new version and returns the handle of the new version. The edit raises
`Conflict` if a run, or a person in another notebook, has written a newer version meanwhile.
"""

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from artifactflow_nb.core.language import in_language
from artifactflow_nb.core.local_files import AnyPath
from artifactflow_nb.core.text.cards import CardCell, CardTable, Code, Details, card_frame, cell_html
from artifactflow_nb.core.text.diff import DiffMixin, Layout, TextDiff
from artifactflow_nb.core.text.format import count, format_local_time
from artifactflow_nb.core.text.markdown import MarkdownRenderer, safe_markdown
from artifactflow_nb.core.text.shortened import shown_html
from artifactflow_nb.engine.cited_sources import (
    CitedTexts,
    artifact_citations,
    artifact_evidence,
    export_references,
)
from artifactflow_nb.engine.thread import EngineThread
from artifactflow_nb.errors import UsageError
from artifactflow_nb.export.document import artifact_document
from artifactflow_nb.export.files import ExportMixin, write_document
from artifactflow_nb.notebook.citation import CitesSources
from artifactflow_nb.store.artifact_versions import (
    CHANGE_LABELS,
    Artifact,
    current_version,
    list_visible,
    load_history,
    read_version,
)
from artifactflow_nb.store.artifacts import USER, ArtifactManager, Authorship
from artifactflow_nb.store.database import DatabaseWork, read_store

if TYPE_CHECKING:
    from artifactflow_nb.analysis.frames.computed import TableFrames

T = TypeVar("T")
K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch of a conversation on which artifacts are read and written.

    Attributes:
        thread: The engine's thread, which writes; reading happens in the caller's thread.
        message_id: The last message of the branch; None for artifacts that are visible on all branches.
        with_dates: Whether outputs contain the time of each version, which differs from execution to execution.
    """

    thread: EngineThread
    conversation_id: str
    message_id: str | None
    with_dates: bool = True

    def read(self, work: DatabaseWork[T]) -> T:
        """Call a function with a read-only connection to the store."""
        return read_store(self.thread.engine.database.path, work)

    def write(self, work: Callable[[ArtifactManager, Authorship], Coroutine[Any, Any, Artifact]]) -> "ArtifactHandle":
        """Write a version as a manual edit, and return the handle of the version."""
        by = Authorship(self.conversation_id, self.message_id, USER)
        return self.handle(self.thread.call(work(self.thread.engine.artifacts, by)))

    def handle(self, artifact: Artifact) -> "ArtifactHandle":
        """Create the handle of a version."""
        values = (getattr(artifact, field.name) for field in fields(Artifact))
        return ArtifactHandle(*values, branch=self)  # type: ignore[misc]  # the fields, in their order

    def date_text(self, artifact: Artifact) -> list[str]:
        """Return the time of a version as a list of at most one text; empty if `with_dates` is false."""
        return [format_local_time(artifact.created_at)] if self.with_dates else []


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ArtifactHandle(CitesSources, ExportMixin, Artifact):
    """A version of an artifact: the fields of `Artifact`, and methods to edit, compare and export the version.

    Attributes:
        branch: The branch from which the version was read, and to which edits are written.
    """

    branch: Branch

    @property
    def newest(self) -> "ArtifactHandle":
        """The current version on the branch."""
        branch = self.branch
        current = branch.read(
            lambda db: current_version(db, branch.conversation_id, self.artifact_id, branch.message_id)
        )
        return self if current is None else branch.handle(current)

    @property
    def tables(self) -> "TableFrames":
        """The tables of a Markdown version as frames."""
        from artifactflow_nb.analysis.frames.computed import markdown_tables

        return markdown_tables(self.content) if "markdown" in self.content_type else []

    @property
    def versions(self) -> "Versions":
        """The versions on the branch, by number; the last version is the current version."""
        branch = self.branch
        history = branch.read(lambda db: load_history(db, branch.conversation_id, self.artifact_id, branch.message_id))
        return Versions(map(branch.handle, history))

    def diff(self, before: int | None = None, after: int | None = None, *, layout: Layout = "inline") -> "ArtifactDiff":
        """Return the difference between two versions, on any branches; a cell displays the difference.

        Args:
            before: Number of the earlier version; None for the version before `after`.
            after: Number of the later version; None for this version.
            layout: `inline` or `side_by_side`.

        Errors: `NotFound` for an unknown number; `UsageError` for another layout.
        """
        new = self if after is None else self._version(after)
        if before is None:
            numbers = list(self.versions)
            index = numbers.index(new.version) if new.version in numbers else 0
            before = numbers[index - 1] if index else None
        return ArtifactDiff(None if before is None else self._version(before), new, layout)

    def _version(self, number: int) -> Artifact:
        branch = self.branch
        return branch.read(lambda db: read_version(db, branch.conversation_id, self.artifact_id, number))

    def edit(self, text: str) -> "ArtifactHandle":
        """Write a new version with this text.

        Returns:
            The new version, or this version if the text is the same.

        Errors: `Conflict` if the branch has a newer version than this version: edit `newest` then.
        """
        if not isinstance(text, str):
            raise UsageError(f"The new text is of type {type(text).__name__}; it must be a string.")
        if text == self.content:
            return self
        return self.branch.write(
            lambda store, by: store.revise(
                by, self.artifact_id, text, update_type="update", expected_version=self.version
            )
        )

    def restore(self, version: int) -> "ArtifactHandle":
        """Write a new version with the text and title of an earlier version, on any branch.

        Errors: `NotFound` for an unknown number; `Conflict` as for `edit`.
        """
        return self.branch.write(
            lambda store, by: store.restore(by, self.artifact_id, version, expected_version=self.version)
        )

    def rename(self, title: str) -> "ArtifactHandle":
        """Write a new version with another title; errors as for `edit`, and `UsageError` for an empty title."""
        return self.branch.write(
            lambda store, by: store.rename(by, self.artifact_id, title, expected_version=self.version)
        )

    def _cited_texts(self) -> CitedTexts:
        return CitedTexts([self.markdown], self.branch.read, lambda db, cited: artifact_evidence(db, self, cited))

    def _write(self, form: str, path: AnyPath | None, *, overwrite: bool, style: AnyPath | None = None) -> Path:
        with in_language(self.branch.thread.language if self.branch.thread else "en"):
            document = artifact_document(self, self.branch.read(lambda db: artifact_evidence(db, self)))
            if style is not None:
                document = export_references("a citation style", self._cited_texts(), document, style)
            return write_document(document, form, path, overwrite=overwrite)

    def to_markdown(
        self, path: AnyPath | None = None, *, overwrite: bool = False, style: AnyPath | None = None
    ) -> Path:
        """Write a Markdown file: the text, or with `style` the text with citations and a list of sources in the style.

        An entry of the list says if the run has not read the source. All other text is unchanged.

        Args:
            path: Path of the file, or of a folder for a file with the name of the artifact; None for the working
                directory.
            overwrite: Replace an existing file.
            style: Path of a CSL file, or the name of a style, such as `harvard-cite-them-right` (needs
                `artifactflow-nb[cite]`).

        Returns:
            Path of the file.

        Errors: `UsageError` if the file exists or cannot be written, if the style cannot be used, and if a text with a
            style lists no sources.
        """
        return self._write("md", path, overwrite=overwrite, style=style)

    def to_docx(self, path: AnyPath | None = None, *, overwrite: bool = False, style: AnyPath | None = None) -> Path:
        """Write a Word document (needs `artifactflow-nb[docx]`); arguments and errors as for `to_markdown`."""
        return self._write("docx", path, overwrite=overwrite, style=style)

    @property
    def cell(self) -> str:
        """The source of a code cell that displays the text: Python unchanged, any other text as sanitised Markdown."""
        return self.content if self.content_type == "text/x-python" else f"%%markdown\n{safe_markdown(self.markdown)}"

    def to_cell(self) -> None:
        """Insert the text as a new cell below the current cell; `UsageError` outside of IPython."""
        from IPython.core.getipython import get_ipython

        shell = get_ipython()
        if shell is None:
            raise UsageError("Cells can be added in IPython only. Write a file with to_markdown.")
        shell.set_next_input(self.cell)

    def _facts(self) -> list[str]:
        """List version, author and time for the heading of a display."""
        label = f"{_change_label(self)} by {self.author_label}"
        return [f"version {self.version}", label, *self.branch.date_text(self)]

    def _repr_html_(self) -> str:
        from artifactflow_nb.widgets.page.saved import saved_text

        facts = " · ".join([cell_html(Code(self.artifact_id)), *map(cell_html, self._facts())])
        heading = f'<p><strong>{cell_html(self.title)}</strong></p><p class="af-card-quiet">{facts}</p>'
        citations = self.branch.read(lambda db: artifact_citations(db, self))
        text = citations.evidence.marks.head() + shown_html(self.markdown, MarkdownRenderer(), cite=citations.apply)
        versions = self.versions
        card = card_frame(
            heading + Details(count(len(versions), "version"), versions.table(self.branch.with_dates)).html()
        )
        return card + saved_text(text)

    def __repr__(self) -> str:
        date = "".join(f", created_at={text!r}" for text in self.branch.date_text(self))
        fields = f"{self.artifact_id!r}, version={self.version}, title={self.title!r}, created_by={self.created_by!r}"
        return f"Artifact({fields}{date})"


class _HandleMapping(Mapping[K, ArtifactHandle]):
    """Handles by id or number, displayed as a table."""

    def __init__(self, handles: Mapping[K, ArtifactHandle]) -> None:
        self._handles: Mapping[K, ArtifactHandle] = handles

    def _ipython_key_completions_(self) -> list[K]:
        """Return the keys, for completion after `[`."""
        return list(self)

    def __iter__(self) -> Iterator[K]:
        return iter(self._handles)

    def __len__(self) -> int:
        return len(self._handles)

    @abstractmethod
    def table(self, with_dates: bool) -> CardTable:
        """Return the handles as a table, with or without the times of the versions."""

    def _own_table(self) -> CardTable:
        return self.table(any(handle.branch.with_dates for handle in self.values()))

    def __repr__(self) -> str:
        return self._own_table().plain() if self else self._nothing()

    def _repr_html_(self) -> str:
        return card_frame(self._own_table().html() if self else f"<p>{cell_html(self._nothing())}</p>")

    def _nothing(self) -> str:
        """Return the text that an empty mapping displays."""
        return "No artifacts."


class Artifacts(_HandleMapping[str]):
    """The current versions of the artifacts of a branch, by id.

    Args:
        branch: The branch.
        problem: Returns the reason why artifacts of a run may be missing; empty for a completed run.
    """

    def __init__(self, branch: Branch, problem: Callable[[], str] = str) -> None:
        self._problem = problem
        visible = branch.read(lambda db: list_visible(db, branch.conversation_id, branch.message_id))
        super().__init__({artifact.artifact_id: branch.handle(artifact) for artifact in visible})

    def __getitem__(self, artifact_id: str) -> ArtifactHandle:
        if artifact_id not in self._handles:
            message = f"There is no artifact {artifact_id!r} on this branch. It has: {', '.join(self) or 'none'}."
            raise KeyError(f"{message} {self._problem()}".rstrip())
        return self._handles[artifact_id]

    def _nothing(self) -> str:
        return f"{super()._nothing()} {self._problem()}".rstrip()

    def table(self, with_dates: bool) -> CardTable:
        """Return a table with one row per artifact."""
        rows = [[Code(handle.artifact_id), handle.title, *_row(handle, with_dates)] for handle in self.values()]
        return CardTable.from_rows(["id", "title", *_columns(with_dates)], rows)


class Versions(_HandleMapping[int]):
    """Versions of one artifact by number, in the order of the branch."""

    def __init__(self, versions: Iterable[ArtifactHandle]) -> None:
        super().__init__({version.version: version for version in versions})

    def __getitem__(self, number: int) -> ArtifactHandle:
        if number not in self._handles:
            raise KeyError(f"There is no version {number!r} on this branch. It has: {', '.join(map(str, self))}.")
        return self._handles[number]

    def table(self, with_dates: bool) -> CardTable:
        """Return a table with one row per version, the newest version first."""
        rows = [_row(version, with_dates) for version in reversed(list(self.values()))]
        return CardTable.from_rows(_columns(with_dates), rows)


def _columns(with_dates: bool) -> list[str]:
    return ["version", "what", "by", *(["when"] if with_dates else [])]


def _row(version: Artifact, with_dates: bool) -> list[CardCell]:
    dates = [format_local_time(version.created_at)] if with_dates else []
    return [version.version, _change_label(version), version.author_label, *dates]


def _change_label(version: Artifact) -> str:
    return CHANGE_LABELS.get(version.update_type, version.update_type)


@dataclass(frozen=True, slots=True, repr=False)
class ArtifactDiff(DiffMixin):
    """The difference between two versions of an artifact.

    Attributes:
        before: The earlier version; None for an empty text, before the first version.
        after: The later version.
        layout: The layout in HTML: `inline` or `side_by_side`.
    """

    before: Artifact | None
    after: Artifact
    layout: Layout = "inline"

    @property
    def side_by_side(self) -> "ArtifactDiff":
        """The difference with the old text left of the new text."""
        return replace(self, layout="side_by_side")

    @property
    def diff(self) -> TextDiff:
        """The difference between the texts."""
        name = self.after.artifact_id
        old = f"{name} v{self.before.version}" if self.before else "nothing"
        before = self.before.content if self.before else ""
        return TextDiff(before, self.after.content, (old, f"{name} v{self.after.version}"), self.layout)
