"""An artifact as a person holds it: one version, and all that can be done with it.

A handle never changes: what is written gives a new one. So what a person changes is what they have seen, and who was
faster is told: a run that goes on on the same branch may write too, and the store takes whichever comes first.
"""

import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from artifactflow_nb.engine_thread import EngineThread
from artifactflow_nb.errors import UsageError
from artifactflow_nb.export import AnyPath, TakenAlong, write_artifact
from artifactflow_nb.settings import Settings
from artifactflow_nb.store.artifact_versions import Artifact, current, list_seen, load_history, read_version
from artifactflow_nb.store.artifacts import USER, ArtifactManager, Authorship
from artifactflow_nb.store.database import Work, connect, reading
from artifactflow_nb.text.cards import Cell, Code, Fold, Table, framed, html_text, markdown_text
from artifactflow_nb.text.diff_html import Layout
from artifactflow_nb.text.figures import count, moment
from artifactflow_nb.text.markdown import MarkdownRenderer, portable
from artifactflow_nb.text.text_diff import ShownAsDiff, TextDiff

T = TypeVar("T")

DONE = {
    "create": "created",
    "update": "changed",
    "rewrite": "rewritten",
    "restore": "restored",
    "rename": "renamed",
    "arrange": "arranged",
    "delete": "deleted",
}
"""What was done to make a version, by its `update_type`."""


def is_watched(settings: Settings, interactive: bool | None) -> bool:
    """Whether a person may be looking: unless told, where nobody stands in for them, or a page has the kernel."""
    return interactive if interactive is not None else settings.approvals == "ask" or "JPY_SESSION_NAME" in os.environ


@dataclass(frozen=True, slots=True)
class Branch:
    """Where a person reads and writes artifacts.

    Attributes:
        thread: The engine's thread, which writes; reading is done in the caller's.
        conversation_id: The conversation.
        message_id: The last message of the branch; None for what belongs to the conversation as a whole.
        dated: Whether outputs say when a version was written; without, they are the same each time.
    """

    thread: EngineThread
    conversation_id: str
    message_id: str | None
    dated: bool = True

    def read(self, work: Work[T]) -> T:
        """Do something with a reading connection to the store."""
        path = self.thread.engine.database.path
        with reading(path), closing(connect(path, read_only=True)) as db:
            return work(db)

    def write(self, work: Callable[[ArtifactManager, Authorship], Coroutine[Any, Any, Artifact]]) -> "ArtifactHandle":
        """Write a version by hand; its handle."""
        by = Authorship(self.conversation_id, self.message_id, USER)
        return self.hold(self.thread.call(work(self.thread.engine.artifacts, by)))

    def hold(self, artifact: Artifact) -> "ArtifactHandle":
        """The handle of a version."""
        values = (getattr(artifact, field.name) for field in fields(Artifact))
        return ArtifactHandle(*values, branch=self)  # type: ignore[misc]  # the fields, in their order

    def when(self, artifact: Artifact) -> list[str]:
        """When a version was written, if that is to be said."""
        return [moment(artifact.created_at)] if self.dated else []


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ArtifactHandle(TakenAlong, Artifact):
    """A version of an artifact, with all that an `Artifact` has, and what a person can do with it.

    Attributes:
        branch: The branch that it was read on, where changes are written.
    """

    branch: Branch

    @property
    def newest(self) -> "ArtifactHandle":
        """The version that the branch has by now."""
        where = self.branch
        found = where.read(lambda db: current(db, where.conversation_id, self.artifact_id, where.message_id))
        return self if found is None else where.hold(found)

    @property
    def versions(self) -> "Versions":
        """The versions that the branch sees, by number; the last is its present one."""
        where = self.branch
        seen = where.read(lambda db: load_history(db, where.conversation_id, self.artifact_id, where.message_id))
        return Versions(map(where.hold, seen))

    def diff(self, before: int | None = None, after: int | None = None, *, layout: Layout = "inline") -> "ArtifactDiff":
        """What differs between two versions, on whichever branch they were written; it shows itself in a cell.

        Args:
            before: The number of the one; None for the version before the other one.
            after: The number of the other; None for this one.
            layout: `inline` or `side_by_side`.

        Errors: `NotFound` for a number that there is not; `UsageError` for another layout.
        """
        new = self if after is None else self._version(after)
        if before is not None:
            return ArtifactDiff(self._version(before), new, layout)
        seen = list(self.versions)
        at = seen.index(new.version) if new.version in seen else 0
        return ArtifactDiff(self._version(seen[at - 1]) if at else None, new, layout)

    def _version(self, number: int) -> Artifact:
        where = self.branch
        return where.read(lambda db: read_version(db, where.conversation_id, self.artifact_id, number))

    def edit(self, text: str) -> "ArtifactHandle":
        """Write a new version with this text, by hand.

        Returns:
            The new version; this one if the text is the same.

        Errors: `Conflict` if the branch has a newer version than this one: read `newest`, and change that.
        """
        if not isinstance(text, str):
            raise UsageError(f"The new text is {type(text).__name__}, not text.")
        if text == self.content:
            return self
        return self.branch.write(
            lambda store, by: store.revise(
                by, self.artifact_id, text, update_type="update", expected_version=self.version
            )
        )

    def restore(self, version: int) -> "ArtifactHandle":
        """Write a new version with the text and title of an earlier one, on whichever branch that was written.

        Errors: `NotFound` for a number that there is not; `Conflict` as for `edit`.
        """
        return self.branch.write(
            lambda store, by: store.restore(by, self.artifact_id, version, expected_version=self.version)
        )

    def rename(self, title: str) -> "ArtifactHandle":
        """Write a new version with another title; errors as for `edit`, and `UsageError` for an empty one."""
        return self.branch.write(
            lambda store, by: store.rename(by, self.artifact_id, title, expected_version=self.version)
        )

    def _write(self, form: str, path: AnyPath | None, *, overwrite: bool) -> Path:
        return write_artifact(self, form, path, overwrite=overwrite)

    @property
    def cell(self) -> str:
        """The source of a code cell that shows the text: Python as it is, everything else as harmless Markdown."""
        return self.content if self.content_type == "text/x-python" else f"%%markdown\n{portable(self.markdown)}"

    def to_cell(self) -> None:
        """Put the text into a new cell below the one that runs; `UsageError` outside of IPython."""
        from IPython.core.getipython import get_ipython

        shell = get_ipython()
        if shell is None:
            raise UsageError("There is no cell to add another to: this is plain Python. Use to_markdown instead.")
        shell.set_next_input(self.cell)

    @property
    def _said(self) -> list[str]:
        """What is said of the version beside its title and id."""
        return [f"version {self.version}", f"{_done(self)} by {self.created_by}", *self.branch.when(self)]

    def _list(self) -> Fold:
        versions = self.versions
        return Fold(count(len(versions), "version"), versions.table(self.branch.dated))

    def _repr_markdown_(self) -> str:
        head = " · ".join([markdown_text(Code(self.artifact_id)), *map(markdown_text, self._said)])
        parts = [f"**{markdown_text(self.title)}**", head, portable(self.markdown), self._list().markdown()]
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        said = " · ".join([html_text(Code(self.artifact_id)), *map(html_text, self._said)])
        head = f'<p><strong>{html_text(self.title)}</strong></p><p class="af-card-quiet">{said}</p>'
        text = MarkdownRenderer().html(self.markdown)
        return f'{framed(head + self._list().html())}<div class="mathjax_ignore tex2jax_ignore">{text}</div>'

    def __repr__(self) -> str:
        when = "".join(f", created_at={said!r}" for said in self.branch.when(self))
        known = f"{self.artifact_id!r}, version={self.version}, title={self.title!r}, created_by={self.created_by!r}"
        return f"Artifact({known}{when})"


class _Shelf(Mapping[Any, ArtifactHandle]):
    """Handles by their names, shown as a table."""

    def __init__(self, handles: Mapping[Any, ArtifactHandle]) -> None:
        self._handles = handles

    def __iter__(self) -> Iterator[Any]:
        return iter(self._handles)

    def __len__(self) -> int:
        return len(self._handles)

    def _dated(self) -> bool:
        return any(handle.branch.dated for handle in self.values())

    def table(self, dated: bool) -> Table:
        """The table; with times or without."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.table(self._dated()).plain() if self else "No artifacts."

    def _repr_markdown_(self) -> str:
        return self.table(self._dated()).markdown() if self else "No artifacts."

    def _repr_html_(self) -> str:
        return framed(self.table(self._dated()).html() if self else "<p>No artifacts.</p>")


class Artifacts(_Shelf):
    """The artifacts that a branch sees, by id, each in its present version.

    Args:
        branch: The branch.
    """

    def __init__(self, branch: Branch) -> None:
        seen = branch.read(lambda db: list_seen(db, branch.conversation_id, branch.message_id))
        super().__init__({artifact.artifact_id: branch.hold(artifact) for artifact in seen})

    def __getitem__(self, artifact_id: str) -> ArtifactHandle:
        if artifact_id not in self._handles:
            raise KeyError(f"There is no artifact {artifact_id!r} on this branch. It has: {', '.join(self) or 'none'}.")
        return self._handles[artifact_id]

    def table(self, dated: bool) -> Table:
        """A row for each artifact."""
        rows = [[Code(one.artifact_id), one.title, *_row(one, dated)] for one in self.values()]
        return Table.of(["id", "title", *_columns(dated)], rows)


class Versions(_Shelf):
    """Versions of one artifact by their numbers, in the order in which a branch has them.

    Args:
        versions: The versions.
    """

    def __init__(self, versions: Iterable[ArtifactHandle]) -> None:
        super().__init__({version.version: version for version in versions})

    def __getitem__(self, number: int) -> ArtifactHandle:
        if number not in self._handles:
            raise KeyError(f"There is no version {number!r} on this branch. It has: {', '.join(map(str, self))}.")
        return self._handles[number]

    def table(self, dated: bool) -> Table:
        """A row for each version, the newest first."""
        return Table.of(_columns(dated), [_row(one, dated) for one in reversed(list(self.values()))])


def _columns(dated: bool) -> list[str]:
    return ["version", "what", "by", *(["when"] if dated else [])]


def _row(version: Artifact, dated: bool) -> list[Cell]:
    when = [moment(version.created_at)] if dated else []
    return [version.version, _done(version), version.created_by, *when]


def _done(version: Artifact) -> str:
    return DONE.get(version.update_type, version.update_type)


@dataclass(frozen=True, slots=True, repr=False)
class ArtifactDiff(ShownAsDiff):
    """What differs between two versions of an artifact.

    Attributes:
        before: The one version; None for nothing, before there was a first one.
        after: The other.
        layout: How a page shows it: `inline` or `side_by_side`.
    """

    before: Artifact | None
    after: Artifact
    layout: Layout = "inline"

    @property
    def side_by_side(self) -> "ArtifactDiff":
        """The same, the old text left of the new one."""
        return replace(self, layout="side_by_side")

    @property
    def diff(self) -> TextDiff:
        """What differs in the text; nothing counts as empty."""
        name = self.after.artifact_id
        old = f"{name} v{self.before.version}" if self.before else "nothing"
        before = self.before.content if self.before else ""
        return TextDiff(before, self.after.content, (old, f"{name} v{self.after.version}"), self.layout)
