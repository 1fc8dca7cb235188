"""Lists of the resources of a project: personas, skills and dimensions.

A list is a snapshot; each change returns a new list.
"""

import os
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from artifactflow_nb.core.local_files import read_text
from artifactflow_nb.core.text.cards import CardCell, DisplayList
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.plugins.projects.resource_store import ResourceStore, load_resources
from artifactflow_nb.plugins.projects.resources import (
    PERSONA_RESOURCE,
    SKILL_RESOURCE,
    NamedValue,
    Persona,
    ResourceType,
    Skill,
    StoredResource,
    find_named,
    find_resource,
    format_skill,
    load_shared_skills,
    merge_skills,
    resource_values,
    with_fields,
)
from artifactflow_nb.plugins.projects.rubrics import DIMENSION_RESOURCE, Dimension, load_dimensions, merge_dimensions
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.artifacts import Authorship

if TYPE_CHECKING:
    from artifactflow_nb.plugins.projects.handle import Project

V = TypeVar("V", bound=NamedValue)


class _ResourceList(DisplayList[V], Generic[V]):
    """The resources of one type, in the order of their artifacts' ids.

    `values` is a selection of them; None for all.
    """

    _kind: ResourceType[V]

    def __init__(self, project: "Project", values: Sequence[V] | None = None) -> None:
        self._project = project
        super().__init__(self._load() if values is None else values)

    def _stored(self) -> list[StoredResource[V]]:
        branch = self._project.branch
        return branch.read(lambda db: load_resources(db, branch.conversation_id, branch.message_id, self._kind))

    def _load(self) -> Sequence[V]:
        return resource_values(self._stored())

    def _slice(self, values: Sequence[V]) -> Self:
        return type(self)(self._project, values)

    def remove(self, name: str, reason: str = "") -> Self:
        """Remove the resource of this name; its versions stay in the store. `UsageError` for an unknown name."""
        return self._apply(lambda store, by: store.remove(by, self._kind, name), reason)

    def change(self, name: str, /, *, reason: str = "", **fields: str) -> Self:
        """Set fields of the resource of this name, including `name`; `UsageError` for an unknown name or one in use."""
        return self._apply(
            lambda store, by: store.update(by, self._kind, name, lambda value: with_fields(value, fields)), reason
        )

    def _create(self, value: V, reason: str) -> Self:
        return self._apply(lambda store, by: store.create(by, self._kind, value), reason)

    def _apply(
        self, work: Callable[[ResourceStore, Authorship], Coroutine[Any, Any, list[Artifact]]], reason: str
    ) -> Self:
        self._project.write_resources(work, reason)
        return type(self)(self._project)


class Personas(_ResourceList[Persona]):
    """The personas of a project: the readers for whom it is written."""

    _kind = PERSONA_RESOURCE

    def add(self, name: str, description: str, *, knows: str = "", wants: str = "", reason: str = "") -> Self:
        """Add a persona.

        Args:
            name: The name, which is unique in the project.
            description: Who they are.
            knows: What they know already.
            wants: What they expect from the document.
            reason: The reason of the edit.

        Errors: `UsageError` for an invalid text or a used name.
        """
        return self._create(Persona(name, description, knows, wants), reason)

    def _columns(self) -> Sequence[str]:
        return ["persona", "who they are", "what they know", "what they want"]

    def _cells(self, value: Persona, /) -> Sequence[CardCell]:
        return [value.name, value.description, value.knows, value.wants]

    def _nothing(self) -> str:
        return 'No personas yet. Add one with project.personas.add("name", "who they are").'


class Skills(_ResourceList[Skill]):
    """The reusable instructions of a project, followed by those that all projects of the data folder share.

    `@skill:name` in a message, in the prompt of a block or in an instruction about a draft applies a skill.
    """

    _kind = SKILL_RESOURCE

    def _load(self) -> Sequence[Skill]:
        return merge_skills(resource_values(self._stored()), load_shared_skills(self._project.skill_folder))

    def add(self, name: str, description: str, instructions: str, *, reason: str = "") -> Self:
        """Add a skill to the project.

        Args:
            name: The name, which is unique in the project: letters, digits, `_` and `-`.
            description: The purpose, in one line.
            instructions: The instructions, in Markdown.
            reason: The reason of the edit.

        Errors: `UsageError` for an invalid text or a used name.
        """
        return self._create(Skill(name, description, instructions), reason)

    def share(self, name: str) -> Path:
        """Write a skill of the project to a file for all projects of the data folder, and return the path of the file.

        Errors: `UsageError` for an unknown name, or if the file exists with another text.
        """
        skill = find_resource(self._stored(), name, self._kind.noun).value
        path, text = self._project.skill_folder / f"{skill.name}.md", format_skill(skill)
        if path.exists() and read_text(path, "The skill") != text:
            raise UsageError(f"{path} exists with another text. Edit it by hand, or delete it first.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def _columns(self) -> Sequence[str]:
        return ["skill", "what it is for", "kept"]

    def _cells(self, value: Skill, /) -> Sequence[CardCell]:
        own = resource_values(self._stored())
        return [value.name, value.description, "in the project" if value in own else "shared"]

    def _nothing(self) -> str:
        return 'No skills yet. Add one with project.skills.add("name", "what it is for", "what it says").'


class Dimensions(_ResourceList[Dimension]):
    """The criteria of evaluations: the packaged dimensions, and those of the project, which replace them by name."""

    _kind = DIMENSION_RESOURCE

    def _load(self) -> Sequence[Dimension]:
        return merge_dimensions(resource_values(self._stored()))

    def add(self, name: str, description: str, prompt: str, *, reason: str = "") -> Self:
        """Add a dimension to the project; it replaces a packaged one of the same name.

        Args:
            name: The name, which is unique among the dimensions of the project.
            description: The subject, in one line.
            prompt: The question to the grader, and the meaning of the scores from 1 to 10.
            reason: The reason of the edit.

        Errors: `UsageError` for an invalid text or a used name.
        """
        return self._create(Dimension(name, description, prompt), reason)

    def load(self, path: str | os.PathLike[str], *, reason: str = "") -> Self:
        """Add all dimensions of a YAML file in the form of the packaged `evaluation_dimensions.yaml`.

        Errors: `UsageError` for a file that cannot be read, or an invalid dimension; nothing is added then.
        """
        for dimension in load_dimensions(path):

            async def put(store: ResourceStore, by: Authorship, value: Dimension = dimension) -> list[Artifact]:
                return await store.put(by, DIMENSION_RESOURCE, value)

            self._project.write_resources(put, reason)
        return type(self)(self._project)

    def _columns(self) -> Sequence[str]:
        return ["dimension", "what it is about"]

    def _cells(self, value: Dimension, /) -> Sequence[CardCell]:
        return [value.name, value.description]


def evaluation_params(
    project: "Project", blocks: Sequence[str], dimensions: Sequence[str], persona: str
) -> dict[str, Any]:
    """Return the parameters of `run_evaluation` for a run that evaluates texts.

    By default all blocks with a text are evaluated, in all dimensions.

    Errors: `UsageError` if there is no text, or for an unknown block, dimension or persona.
    """
    tree = project.tree
    block_ids = blocks or [block.block_id for block in tree if block.sha256]
    if missing := [block_id for block_id in block_ids if block_id not in tree]:
        names = ", ".join(block.name for block in tree) or "none yet"
        raise UsageError(f"There is no block {brief(missing[0])} to evaluate. There are: {names}.")
    texts = [tree[text_id] for block_id in block_ids for text_id in tree.text_ids(block_id)]
    if not texts or not all(text.sha256 for text in texts):
        empty = ", ".join(repr(text.name) for text in texts if not text.sha256)
        raise UsageError(f"There is no text to evaluate in {empty or repr(project.name)}. Write it, or generate it.")
    params = {
        "target_fields": [tree.path(block_id) for block_id in block_ids],
        "eval_dimensions": [find_named(project.dimensions, name, DIMENSION_RESOURCE.noun).name for name in dimensions],
        "persona": find_named(project.personas, persona, PERSONA_RESOURCE.noun).name if persona else "",
    }
    return {name: value for name, value in params.items() if value}
