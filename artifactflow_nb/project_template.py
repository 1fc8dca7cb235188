"""What a kind of project is made of: its phases, in order, and the blocks that it begins with.

Packaged are `default` and `paper`; a YAML file of one's own has the same form::

    name: course
    phases:
      - {name: goals, en: Goals, zh: 目标}
      - {name: lessons}
    blocks:
      - {name: Audience, phase: goals, need_review: true, prompt: "Who is it for?"}
      - {name: Outline, phase: lessons, depends_on: [Audience], auto_generate: true}
"""

import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from artifactflow_nb.block_edits import NewBlock, Place, added
from artifactflow_nb.blocks import Block, BlockTree
from artifactflow_nb.errors import UsageError
from artifactflow_nb.text.cards import Card, Fold, Rows, Shown, Table

FOLDER = "project_templates"
DEFAULT = "default"

Line = Annotated[str, Field(min_length=1, max_length=120, pattern=r"^[^\n]*\S[^\n]*$")]


class Phase(BaseModel):
    """A phase: an ordered label.

    Attributes:
        name: What it is called in code and calls.
        en: Its name for readers, in English; the name itself with spaces if left out.
        zh: Its name for readers, in Chinese; the English one if left out.
        research: Whether its texts rest on research: an agent writes in it only what does.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,59}$")]
    en: Line = "-"
    zh: Line = "-"
    research: bool = False

    @model_validator(mode="before")
    @classmethod
    def _filled(cls, given: Any) -> Any:
        """A bare text is a name."""
        told = {"name": given} if isinstance(given, str) else given
        if not isinstance(told, Mapping) or not isinstance(told.get("name"), str):
            return told
        en = told.get("en") or told["name"].replace("_", " ").capitalize()
        return {**told, "en": en, "zh": told.get("zh") or en}


class BlockDraft(BaseModel):
    """A block that a project begins with; `parent` and `depends_on` name blocks before it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Line
    phase: str = ""
    parent: str = ""
    depends_on: tuple[str, ...] = ()
    need_review: bool = False
    auto_generate: bool = False
    is_group: bool = False
    prompt: str = ""


class ProjectTemplate(Shown, BaseModel):
    """A template.

    Attributes:
        name: What it is called.
        phases: The phases, in order.
        blocks: The blocks that a project begins with, each behind those that it names.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Line
    phases: Annotated[tuple[Phase, ...], Field(min_length=1, max_length=40)]
    blocks: Annotated[tuple[BlockDraft, ...], Field(max_length=500)] = ()

    @model_validator(mode="after")
    def _checked(self) -> Self:
        names = self.phase_names
        if len(set(names)) < len(names):
            raise ValueError(f"two phases have the same name; there are: {', '.join(names)}")
        _ = self.first_blocks  # which fails for what cannot be
        return self

    @property
    def first_blocks(self) -> BlockTree:
        """The blocks that a project begins with; `ValueError` for one that cannot be, by its number."""
        tree = BlockTree((), self.phase_names)
        for n, draft in enumerate(self.blocks):
            try:
                tree = BlockTree((*tree, *_drafted(tree, draft)), tree.phases)
            except UsageError as error:
                raise ValueError(f"blocks.{n}: {error}") from None
        return tree

    @property
    def phase_names(self) -> tuple[str, ...]:
        """The names of the phases, in order."""
        return tuple(phase.name for phase in self.phases)

    def _card(self) -> Card:
        phases = Table.of(["phase", "English", "Chinese"], [[one.name, one.en, one.zh] for one in self.phases])
        blocks = Table.of(["block", "phase"], [[block.name, block.phase] for block in self.first_blocks])
        folds = [Fold("Phases", phases, is_open=True), *([Fold("Blocks", blocks)] if self.blocks else [])]
        rows: Rows = [("phases", len(self.phases)), ("blocks to begin with", len(self.blocks))]
        return Card("Project template", self.name, rows, folds)

    def __repr__(self) -> str:
        return f"ProjectTemplate({self.name!r}, phases={len(self.phases)}, blocks={len(self.blocks)})"

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, Any] = DEFAULT) -> Self:
        """A template.

        Args:
            source: The name of a packaged one, the path of a YAML file, or a mapping of what that would hold.

        Errors: `UsageError` with what is wrong, and where.
        """
        if isinstance(source, Mapping):
            return cls._of(source, "the template")
        if str(source) in packaged():
            return cls._of(_read(Path(str(files(__package__) / FOLDER / f"{source}.yaml"))), f"the template {source}")
        path = Path(source).expanduser()
        if path.suffix not in {".yaml", ".yml"}:
            raise UsageError(
                f"There is no template {str(source)!r}. Packaged are: {', '.join(packaged())}; one of your own is a "
                "YAML file, named by its path."
            )
        return cls._of(_read(path), f"the template {path}")

    @classmethod
    def _of(cls, given: Any, told: str) -> Self:
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            lines = [f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}" for one in error.errors()]
            raise UsageError(f"{told[0].upper()}{told[1:]} cannot be used.\n" + "\n".join(lines)) from None


def _drafted(tree: BlockTree, draft: BlockDraft) -> Sequence[Block]:
    """A block of a template behind those before it, in the place that it names."""
    parent = tree.find(draft.parent).block_id if draft.parent else ""
    given = draft.model_dump(exclude={"name", "phase", "parent"}, exclude_defaults=True)
    phase = draft.phase or ("" if parent else next((block.phase for block in reversed(list(tree))), ""))
    return added(tree, NewBlock(draft.name, Place(phase, parent), given))


@cache
def packaged() -> tuple[str, ...]:
    """The names of the packaged templates."""
    found = (Path(entry.name) for entry in (files(__package__) / FOLDER).iterdir())
    return tuple(sorted(path.stem for path in found if path.suffix == ".yaml"))


def _read(path: Path) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The template {path} cannot be read: {error}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"The template {path} is no YAML: {str(error)[:200]}") from None
