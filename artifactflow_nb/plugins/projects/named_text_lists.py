"""Lists of the named texts of a project. A list is a snapshot; each change returns a new list."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from artifactflow_nb.core.local_files import AnyPath, read_text, shown_path
from artifactflow_nb.core.text.cards import CardCell, DisplayList
from artifactflow_nb.errors import UsageError
from artifactflow_nb.plugins.projects.named_text_store import load_named_texts
from artifactflow_nb.plugins.projects.named_texts import (
    Dimension,
    NamedText,
    Persona,
    Skill,
    find_named,
    load_shared_skills,
    merge_dimensions,
    merge_skills,
    read_named_texts,
)

if TYPE_CHECKING:
    from artifactflow_nb.plugins.projects.handle import Project

T = TypeVar("T", bound=NamedText)


class NamedTexts(DisplayList[T], Generic[T]):
    """The named texts of one kind in a project, in the order of their artifacts' ids.

    `values` is a selection of the texts; None for all texts.
    """

    _kind: type[T]

    def __init__(self, project: "Project", values: Sequence[T] | None = None) -> None:
        self._project = project
        branch, kind = project.branch, self._kind
        key = branch.conversation_id, branch.message_id
        self._own: tuple[T, ...] = branch.read(lambda db: tuple(load_named_texts(db, *key, kind)))
        super().__init__(self._merge(self._own) if values is None else values)

    def _merge(self, own: tuple[T, ...]) -> Sequence[T]:
        """Return the texts that the project uses: its own texts, and shared or packaged texts."""
        return own

    def _slice(self, values: Sequence[T]) -> Self:
        return type(self)(self._project, values)

    def add(self, name: str, description: str, *texts: str, reason: str = "", **fields: str) -> Self:
        """Add a text of this kind to the project.

        Args:
            name: The name, which is unique among the project's own texts of the kind.
            description: Who the persona is; what the skill is for; what the dimension is about.
            texts: The fields after the description, in the order of the attributes.
            reason: The reason of the edit.
            fields: The fields after the description, by name: `knows`, `wants`; `instructions`; `prompt`.

        Errors: `UsageError` for an invalid text or a used name.
        """
        text = self._kind(name, description, *texts, **fields)
        self._project.write_texts(lambda store, by: store.create(by, text), reason)
        return type(self)(self._project)

    def load(self, path: AnyPath, *, reason: str = "") -> Self:
        """Add the texts of a Markdown file with front matter, or of all such files in a folder.

        A text replaces the project's text of the same name.

        Errors: `UsageError` for a file that cannot be read, or an invalid text; on an error no text is added.
        """
        texts = [self._kind.parse(text) for text in read_named_texts(path, self._kind).values()]
        if not texts:
            raise UsageError(f"{shown_path(path)} has no Markdown files. Pass a file, or a folder with files NAME.md.")
        self._project.write_texts(lambda store, by: store.put(by, *texts), reason)
        return type(self)(self._project)

    def change(self, name: str, /, *, reason: str = "", **fields: str) -> Self:
        """Set fields of a text, including `name`; `UsageError` for an unknown name or a new name that is in use."""
        kind = self._kind
        self._project.write_texts(
            lambda store, by: store.change(by, kind, name, lambda text: text.with_fields(fields)), reason
        )
        return type(self)(self._project)

    def remove(self, name: str, reason: str = "") -> Self:
        """Remove the text with this name; the versions stay in the store. `UsageError` for an unknown name."""
        kind = self._kind
        self._project.write_texts(lambda store, by: store.change(by, kind, name, lambda _text: None), reason)
        return type(self)(self._project)

    def _columns(self) -> Sequence[str]:
        front = [field.name for field in fields(self._kind) if field.name not in {"name", self._kind.body}]
        return [self._kind.noun, *front, "origin"]

    def _cells(self, value: T, /) -> Sequence[CardCell]:
        front = [getattr(value, name) for name in self._columns()[1:-1]]
        return [value.name, *front, "in the project" if value in self._own else "shared"]

    def _nothing(self) -> str:
        return f'No {self._kind.noun}s yet. Add one with project.{self._kind.noun}s.add("name", "description").'


class Personas(NamedTexts[Persona]):
    """The personas of a project: the readers of the document."""

    _kind = Persona


class Skills(NamedTexts[Skill]):
    """The reusable instructions of a project, followed by the shared instructions of the data folder.

    `@skill:name` in a message, in the prompt of a block or in an instruction about a draft applies a skill.
    """

    _kind = Skill

    def _merge(self, own: tuple[Skill, ...]) -> Sequence[Skill]:
        return merge_skills(own, load_shared_skills(self._project.skill_folder))

    def share(self, name: str) -> Path:
        """Write a skill of the project to a file for all projects of the data folder, and return the path of the file.

        Errors: `UsageError` for an unknown name, or if the file exists with another text.
        """
        skill = find_named(self._own, name, Skill.noun)
        path, text = self._project.skill_folder / f"{skill.name}.md", skill.format()
        if path.exists() and read_text(path, "The skill") != text:
            raise UsageError(f"{path} exists with another text. Edit it by hand, or delete it first.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


class Dimensions(NamedTexts[Dimension]):
    """The criteria of evaluations: packaged dimensions, unless replaced by name, and the project's dimensions."""

    _kind = Dimension

    def _merge(self, own: tuple[Dimension, ...]) -> Sequence[Dimension]:
        return merge_dimensions(own)
