"""What a person keeps with a project beside its blocks: for whom it is written, how, and by what it is judged.

A list is as it was when it was asked for; whatever changes it gives the list as it is then.
"""

import os
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from artifactflow_nb.belongings import Held, Kind, Named, changed, named, named_value, values
from artifactflow_nb.errors import UsageError
from artifactflow_nb.evaluations import DIMENSIONS, Dimension, known_dimensions, load_dimensions
from artifactflow_nb.personas import PERSONAS, Persona
from artifactflow_nb.skills import SKILLS, Skill, known_skills, load_shared, write_skill
from artifactflow_nb.store.artifact_versions import Artifact
from artifactflow_nb.store.artifacts import Authorship
from artifactflow_nb.store.belongings import BelongingStore, load_belongings
from artifactflow_nb.text.cards import Cell
from artifactflow_nb.text.listing import Listing

if TYPE_CHECKING:
    from artifactflow_nb.project import Project

V = TypeVar("V", bound=Named)


class _Belongings(Listing[V], Generic[V]):
    """A project's belongings of a kind, in the order of their artifacts' ids.

    Args:
        project: The project.
        some: Some of them; all that there are if left out.
    """

    _kind: Kind[V]

    def __init__(self, project: "Project", some: Sequence[V] | None = None) -> None:
        super().__init__(self._all(project) if some is None else some)
        self._project = project

    def _all(self, project: "Project") -> Sequence[V]:
        return values(_load(project, self._kind))

    def _slice(self, values: Sequence[V]) -> Self:
        return type(self)(self._project, values)

    def remove(self, name: str, why: str = "") -> Self:
        """Take one away; its versions are kept. `UsageError` for a name that none has."""
        return self._after(lambda store, by: store.remove(by, self._kind, name), why)

    def change(self, name: str, /, *, why: str = "", **fields: str) -> Self:
        """Set some of its fields, `name` too; `UsageError` for a name that none has, or that is taken."""
        return self._after(
            lambda store, by: store.update(by, self._kind, name, lambda value: changed(value, fields)), why
        )

    def _created(self, value: V, why: str) -> Self:
        return self._after(lambda store, by: store.create(by, self._kind, value), why)

    def _after(
        self, work: Callable[[BelongingStore, Authorship], Coroutine[Any, Any, list[Artifact]]], why: str
    ) -> Self:
        self._project.write_belongings(work, why)
        return type(self)(self._project)


def _load(project: "Project", kind: Kind[V]) -> list[Held[V]]:
    where = project.branch
    return where.read(lambda db: load_belongings(db, where.conversation_id, where.message_id, kind))


class Personas(_Belongings[Persona]):
    """Those for whom a project is written."""

    _kind = PERSONAS

    def add(self, name: str, description: str, *, knows: str = "", wants: str = "", why: str = "") -> Self:
        """Add one.

        Args:
            name: Their name, once in the project.
            description: Who they are.
            knows: What they know already.
            wants: What they want of the document.
            why: Why.

        Errors: `UsageError` for a text that cannot be, and for a name that is taken.
        """
        return self._created(Persona(name, description, knows, wants), why)

    def _columns(self) -> Sequence[str]:
        return ["persona", "who they are", "what they know", "what they want"]

    def _cells(self, value: Persona, /) -> Sequence[Cell]:
        return [value.name, value.description, value.knows, value.wants]

    def _nothing(self) -> str:
        return 'No personas yet. Add one with project.personas.add("name", "who they are").'


class Skills(_Belongings[Skill]):
    """The reusable instructions of a project, and behind them those that all projects of the data folder share.

    `@skill:name` in a message, in a block's prompt or in what you say to a draft has them followed.
    """

    _kind = SKILLS

    def _all(self, project: "Project") -> Sequence[Skill]:
        return known_skills(values(_load(project, self._kind)), load_shared(project.skill_folder))

    def add(self, name: str, description: str, instructions: str, *, why: str = "") -> Self:
        """Add one to the project.

        Args:
            name: Its name, once in the project: letters, digits, `_` and `-`.
            description: What it is for, in a line.
            instructions: What it says, in Markdown.
            why: Why.

        Errors: `UsageError` for a text that cannot be, and for a name that is taken.
        """
        return self._created(Skill(name, description, instructions), why)

    def share(self, name: str) -> Path:
        """Write one of the project's as a file for all projects of the data folder; the path of the file.

        Errors: `UsageError` for a name that no skill of the project has, and if the file says something else by now.
        """
        skill = named(_load(self._project, self._kind), name, self._kind.noun).value
        path, text = self._project.skill_folder / f"{skill.name}.md", write_skill(skill)
        if path.exists() and path.read_text(encoding="utf-8") != text:
            raise UsageError(f"{path} is there and says something else. Change it by hand, or delete it first.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def _columns(self) -> Sequence[str]:
        return ["skill", "what it is for", "kept"]

    def _cells(self, value: Skill, /) -> Sequence[Cell]:
        own = values(_load(self._project, self._kind))
        return [value.name, value.description, "in the project" if value in own else "shared"]

    def _nothing(self) -> str:
        return 'No skills yet. Add one with project.skills.add("name", "what it is for", "what it says").'


class Dimensions(_Belongings[Dimension]):
    """By what a project's blocks are judged: the packaged dimensions, with the project's own in their places."""

    _kind = DIMENSIONS

    def _all(self, project: "Project") -> Sequence[Dimension]:
        return known_dimensions(values(_load(project, self._kind)))

    def add(self, name: str, description: str, prompt: str, *, why: str = "") -> Self:
        """Add one to the project, or put it in the place of a packaged one.

        Args:
            name: Its name, once among the project's own.
            description: What it is about, in a line.
            prompt: What its grader is asked, and what the scores from 1 to 10 mean.
            why: Why.

        Errors: `UsageError` for a text that cannot be, and for a name that the project's own has.
        """
        return self._created(Dimension(name, description, prompt), why)

    def load(self, path: str | os.PathLike[str], *, why: str = "") -> Self:
        """Take over all of a YAML file, which has the form of the packaged `evaluation_dimensions.yaml`.

        Errors: `UsageError` for a file that cannot be read, and for a dimension that is none; then none is taken over.
        """
        for one in load_dimensions(path):
            self._project.write_belongings(partial(_put_dimension, value=one), why)
        return type(self)(self._project)

    def _columns(self) -> Sequence[str]:
        return ["dimension", "what it is about"]

    def _cells(self, value: Dimension, /) -> Sequence[Cell]:
        return [value.name, value.description]


async def _put_dimension(store: BelongingStore, by: Authorship, *, value: Dimension) -> list[Artifact]:
    return await store.put(by, DIMENSIONS, value)


def evaluation_of(project: "Project", blocks: Sequence[str], dimensions: Sequence[str], persona: str) -> dict[str, Any]:
    """What a run has judged, as the parameters of `run_evaluation`.

    Args:
        project: The project.
        blocks: The blocks, by ids; all that have a text if there are none.
        dimensions: The names of dimensions; all if there are none.
        persona: The name of a persona; empty for none.

    Errors: `UsageError` if one has no text, or there is none, and for a dimension or a persona that there is not.
    """
    tree = project.tree
    wanted = blocks or [block.block_id for block in tree if block.sha256]
    if gone := [key for key in wanted if key not in tree]:
        names = ", ".join(block.name for block in tree) or "none yet"
        raise UsageError(f"There is no block {gone[0]!r} to judge. There are: {names}.")
    texts = [tree[text] for key in wanted for text in tree.texts_in(key)]
    if not texts or not all(text.sha256 for text in texts):
        empty = ", ".join(repr(text.name) for text in texts if not text.sha256)
        raise UsageError(f"There is no text to judge in {empty or repr(project.name)}. Write it, or have it written.")
    by = [named_value(project.dimensions, name, DIMENSIONS.noun).name for name in dimensions]
    view = named_value(project.personas, persona, PERSONAS.noun).name if persona else ""
    params = {"target_fields": [tree.path(key) for key in wanted], "eval_dimensions": by, "persona": view}
    return {name: value for name, value in params.items() if value}
