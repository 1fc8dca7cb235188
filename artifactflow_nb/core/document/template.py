"""Project templates: phases and initial blocks.

`default` and `paper` are packaged; a user's YAML file has the same form::

    name: course
    phases:
      - {name: goals, en: Goals, zh: 目标}
      - {name: lessons}
    blocks:
      - {name: Audience, phase: goals, need_review: true, prompt: "Who is it for?"}
      - {name: Outline, phase: lessons, depends_on: [Audience], auto_generate: true}
"""

import os
from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from artifactflow_nb.core.document.edits import BlockPosition, NewBlock, add_block
from artifactflow_nb.core.document.tree import BlockTree
from artifactflow_nb.core.local_files import read_text
from artifactflow_nb.core.text.cards import Card, CardMixin, CardRows, CardTable, Details
from artifactflow_nb.core.text.format import first_lines
from artifactflow_nb.core.text.yaml_text import load_yaml
from artifactflow_nb.errors import UsageError

TEMPLATES_FOLDER = "project_templates"
DEFAULT_TEMPLATE = "default"

SingleLine = Annotated[str, Field(min_length=1, max_length=120, pattern=r"^[^\n]*\S[^\n]*$")]


class Phase(BaseModel):
    """A phase of a project.

    Attributes:
        name: Identifier in code and tool calls.
        en: English display name; derived from the identifier by default.
        zh: Chinese display name; the English one by default.
        research: Whether its texts must be based on research.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,59}$")]
    en: SingleLine = "-"
    zh: SingleLine = "-"
    research: bool = False

    @model_validator(mode="before")
    @classmethod
    def _fill_defaults(cls, source: Any) -> Any:
        """Accept a plain text as name, and derive the display names."""
        fields = {"name": source} if isinstance(source, str) else source
        if not isinstance(fields, Mapping) or not isinstance(fields.get("name"), str):
            return fields  # left to pydantic, which reports the problem
        en = fields.get("en") or fields["name"].replace("_", " ").capitalize()
        return {**fields, "en": en, "zh": fields.get("zh") or en}


def phases_by_label(phases: Collection[Phase]) -> dict[str, str]:
    """Map the names and display names of phases, in lower case, to the names; a name precedes a display name."""
    by_label = {label.casefold(): phase.name for phase in phases for label in (phase.zh, phase.en)}
    return by_label | {phase.name.casefold(): phase.name for phase in phases}


class BlockDraft(BaseModel):
    """An initial block of a project; `parent` and `depends_on` refer to earlier blocks by name."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: SingleLine
    phase: str = ""
    parent: str = ""
    depends_on: tuple[str, ...] = ()
    need_review: bool = False
    auto_generate: bool = False
    is_group: bool = False
    prompt: str = ""


class ProjectTemplate(CardMixin, BaseModel):
    """A project template.

    Attributes:
        name: Name of the template.
        phases: Phases in order.
        blocks: Initial blocks, each after the blocks it refers to.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: SingleLine
    phases: Annotated[tuple[Phase, ...], Field(min_length=1, max_length=40)]
    blocks: Annotated[tuple[BlockDraft, ...], Field(max_length=500)] = ()

    @model_validator(mode="after")
    def _checked(self) -> Self:
        names = self.phase_names
        if len(set(names)) < len(names):
            raise ValueError(f"two phases have the same name; there are: {', '.join(names)}")
        _ = self.initial_blocks  # raises for an invalid block
        return self

    @property
    def initial_blocks(self) -> BlockTree:
        """The initial blocks as a tree; `ValueError` with the index of an invalid one."""
        tree, last_phase = BlockTree((), self.phase_names, phases_by_label=phases_by_label(self.phases)), ""
        for n, draft in enumerate(self.blocks):
            try:
                parent = tree.find(draft.parent).block_id if draft.parent else ""
                position = BlockPosition(draft.phase or ("" if parent else last_phase), parent)
                settings = draft.model_dump(exclude={"name", "phase", "parent"}, exclude_defaults=True)
                tree = tree.with_blocks(add_block(tree, NewBlock(draft.name, position, settings)))
                last_phase = list(tree)[-1].phase
            except UsageError as error:
                raise ValueError(f"blocks.{n}: {error}") from None
        return tree

    @property
    def phase_names(self) -> tuple[str, ...]:
        """Names of the phases in order."""
        return tuple(phase.name for phase in self.phases)

    def _card(self) -> Card:
        phases = CardTable.from_rows(
            ["phase", "English", "Chinese"], [[phase.name, phase.en, phase.zh] for phase in self.phases]
        )
        blocks = CardTable.from_rows(["block", "phase"], [[block.name, block.phase] for block in self.initial_blocks])
        folds = [Details("Phases", phases, is_open=True), *([Details("Blocks", blocks)] if self.blocks else [])]
        rows: CardRows = [("phases", len(self.phases)), ("blocks to begin with", len(self.blocks))]
        return Card("Project template", self.name, rows, folds)

    def __repr__(self) -> str:
        return f"ProjectTemplate({self.name!r}, phases={len(self.phases)}, blocks={len(self.blocks)})"

    @classmethod
    def load(cls, source: str | os.PathLike[str] | Mapping[str, Any] = DEFAULT_TEMPLATE) -> Self:
        """Load a template.

        Args:
            source: Name of a packaged template, path of a YAML file, or a mapping with the same content.

        Errors: `UsageError` with the problems and their locations.
        """
        label, fields = "The template", source
        if not isinstance(source, Mapping):
            path = Path(source).expanduser()
            if str(source) in packaged_templates():
                path = Path(str(files(__package__) / TEMPLATES_FOLDER / f"{source}.yaml"))
            elif path.suffix not in {".yaml", ".yml"}:
                raise UsageError(
                    f"There is no template {str(source)!r}. Packaged templates: {', '.join(packaged_templates())}. "
                    "Pass the path of a YAML file for a template of your own."
                )
            label = f"The template {source}"
            fields = load_yaml(read_text(path, "The template"), label)
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            lines = [f"{'.'.join(map(str, problem['loc'])) or 'it'}: {problem['msg']}" for problem in error.errors()]
            raise UsageError(f"{label} cannot be used.\n" + "\n".join(first_lines(lines))) from None


@cache
def packaged_templates() -> tuple[str, ...]:
    """List the names of the packaged templates."""
    names = (Path(entry.name) for entry in (files(__package__) / TEMPLATES_FOLDER).iterdir())
    return tuple(sorted(path.stem for path in names if path.suffix == ".yaml"))
