"""Metadata of projects: name, phases and current phase, templates, and the names of the compose tools."""

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from artifactflow_nb.core.clock_ids import derived_id
from artifactflow_nb.core.local_files import absolute_path, read_text
from artifactflow_nb.core.text.format import first_lines, storable_text
from artifactflow_nb.core.text.yaml_text import load_yaml
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.plugins.projects.edits import BlockPosition, NewBlock, add_block, configure_block
from artifactflow_nb.plugins.projects.tree import Block, BlockTree, fold_name
from artifactflow_nb.tools.base import ObjectParam

COMPOSE = "compose"
"""The name of the flow."""

TEXTS: Mapping[str, Any] = orjson.loads((files(__package__) / "texts.json").read_bytes())
"""The names of the tools for readers, and how the person does a work by hand that needs a language model."""

TEMPLATES_FOLDER = "project_templates"
DEFAULT_TEMPLATE = "default"

SingleLine = Annotated[str, Field(min_length=1, max_length=120, pattern=r"^[^\n]*\S[^\n]*$")]


class Phase(BaseModel):
    """A phase of a project.

    Attributes:
        name: Identifier in code and tool calls.
        en: English display name; derived from the identifier by default.
        zh: Chinese display name; the English name by default.
        research: Whether texts of the phase must be based on research.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,59}$")]
    en: SingleLine = "-"
    zh: SingleLine = "-"
    research: bool = False

    @model_validator(mode="before")
    @classmethod
    def _fill_defaults(cls, source: Any) -> Any:
        """Accept a text as the name of a phase, and derive the display names."""
        fields = {"name": source} if isinstance(source, str) else source
        if not isinstance(fields, Mapping) or not isinstance(fields.get("name"), str):
            return fields  # pydantic reports the problem
        en = fields.get("en") or fields["name"].replace("_", " ").capitalize()
        return {**fields, "en": en, "zh": fields.get("zh") or en}


def phases_by_label(phases: Collection[Phase]) -> dict[str, str]:
    """Map the names and display names of phases, in lower case, to the names; names take precedence."""
    by_label = {label.casefold(): phase.name for phase in phases for label in (phase.zh, phase.en)}
    return by_label | {phase.name.casefold(): phase.name for phase in phases}


class BlockDraft(ObjectParam):
    """A block of a template or of a proposed outline; a block that another block names as parent is a group."""

    model_config = ConfigDict(frozen=True)

    name: Annotated[SingleLine, Field(description="The block's name.")]
    parent: Annotated[str, Field(description="Its group, which exists or comes earlier in the list.")] = ""
    phase: Annotated[str, Field(description="Its phase, for a block outside of groups; default: the current one.")] = ""
    depends_on: Annotated[tuple[str, ...], Field(description="The blocks that it is written from.")] = ()
    prompt: Annotated[str, Field(description="What it should say; empty for a group.")] = ""
    need_review: Annotated[bool, Field(description="Whether the person has to approve its text.")] = False
    auto_generate: Annotated[bool, Field(description="Whether it is written automatically when it can be.")] = False
    is_group: Annotated[bool, Field(description="Whether it is a group, even if it is empty.")] = False


def add_drafts(tree: BlockTree, drafts: Sequence[BlockDraft], phase: str) -> tuple[Block, ...]:
    """Create the blocks of a template or an outline after the existing blocks; `phase` is the default.

    Errors: `UsageError` with the number of the draft for an invalid name, parent, phase or dependency.
    """
    groups = {fold_name(draft.parent.rpartition("/")[2].strip()) for draft in drafts if draft.parent}
    ids: list[str] = []
    for n, draft in enumerate(drafts):
        try:
            parent = tree.find(draft.parent).block_id if draft.parent.strip() else ""
            settings = draft.model_dump(include={"prompt", "need_review", "auto_generate"}, exclude_defaults=True)
            if draft.is_group or fold_name(draft.name.strip()) in groups:
                settings["is_group"] = True
            position = BlockPosition(draft.phase.strip() or ("" if parent else phase), parent)
            blocks = add_block(tree, NewBlock(draft.name, position, settings))
        except UsageError as error:
            raise UsageError(f"blocks.{n}: {error} A group must come before its blocks.") from None
        ids.append(blocks[0].block_id)
        tree = tree.with_blocks(blocks)
    for n, (block_id, draft) in enumerate(zip(ids, drafts, strict=True)):
        try:
            if draft.depends_on:
                tree = tree.with_blocks(configure_block(tree, block_id, {"depends_on": draft.depends_on}))
        except UsageError as error:
            raise UsageError(f"blocks.{n}: {error}") from None
    return tuple(tree[block_id] for block_id in ids)


class ProjectTemplate(BaseModel):
    """A project template; `default` and `paper` are packaged, and a user's YAML file has the same form.

    ::

        name: course
        phases:
          - {name: goals, en: Goals, zh: 目标}
          - {name: lessons}
        blocks:
          - {name: Audience, phase: goals, need_review: true, prompt: "Who is it for?"}
          - {name: Outline, phase: lessons, depends_on: [Audience], auto_generate: true}

    Attributes:
        name: Name of the template.
        phases: Phases in order.
        blocks: Initial blocks; a block may refer to earlier blocks only.
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
    def initial_blocks(self) -> tuple[Block, ...]:
        """The initial blocks; `ValueError` with the index of an invalid block."""
        tree = BlockTree((), self.phase_names, phases_by_label=phases_by_label(self.phases))
        phase, drafts = self.phase_names[0], list[BlockDraft]()
        for draft in self.blocks:
            phase = phase if draft.parent else draft.phase or phase  # by default the phase of the block before
            drafts.append(draft if draft.parent else draft.model_copy(update={"phase": phase}))
        try:
            return add_drafts(tree, drafts, phase)
        except UsageError as error:
            raise ValueError(str(error)) from None

    @property
    def phase_names(self) -> tuple[str, ...]:
        """Names of the phases in order."""
        return tuple(phase.name for phase in self.phases)

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
            path = absolute_path(source)
            if str(source) in packaged_templates():
                path = Path(str(files(__package__) / TEMPLATES_FOLDER / f"{source}.yaml"))
            elif path.suffix not in {".yaml", ".yml"}:
                raise UsageError(
                    f"There is no template {brief(str(source))}. "
                    f"Packaged templates: {', '.join(packaged_templates())}. "
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


PROJECT_ID = "project"
"""Id of the artifact with the project's metadata."""

GENERATE_TOOL, MODIFY_TOOL, OUTLINE_TOOL = "generate_field_content", "modify_field", "generate_outline"
"""Names of the tools that delegate work on a block or the whole document."""

RESEARCH_TOOL = "run_research"
"""Name of the tool that starts a run of the research flow."""

EVALUATE_TOOL, GRADE_FIELD_TOOL = "run_evaluation", "grade_field"
"""Names of the tools that grade blocks: a whole evaluation, and one block by one dimension."""

JOB_TOOLS = frozenset({GENERATE_TOOL, MODIFY_TOOL, OUTLINE_TOOL, EVALUATE_TOOL, RESEARCH_TOOL})
"""Delegating tools of the composer; consecutive calls of these run in parallel."""

REVIEW_TOOL = "review_field"
"""Name of the tool that submits a draft to the person for review."""

MAX_NAME_COLUMNS = 80

PROJECT_MEDIA_TYPE = "application/vnd.artifactflow.project+json"


@dataclass(frozen=True, slots=True, repr=False)
class PhaseChange:
    """The change of a project to another phase.

    Attributes:
        before: The phase before the change.
        after: The phase after the change.
        open: The paths of the unfinished blocks of the phases before `after`, each with its status.
    """

    before: str
    after: str
    open: Mapping[str, str]

    def __repr__(self) -> str:
        return f"PhaseChange({self.before!r} -> {self.after!r}, open={dict(self.open)})"


@dataclass(frozen=True, slots=True)
class ProjectInfo:
    """Metadata of a project.

    Attributes:
        name: Name, unique in a store.
        template: Name of the template.
        phases: Phases in order.
        phase: Name of the current phase.
        profile: Information about the creator for the writing agents.
    """

    name: str
    template: str
    phases: tuple[Phase, ...]
    phase: str
    profile: str = ""

    @classmethod
    def create(cls, name: str, template: ProjectTemplate) -> Self:
        """Create a project in the first phase of a template."""
        return cls(name, template.name, template.phases, template.phases[0].name)

    @property
    def phase_names(self) -> tuple[str, ...]:
        """Names of the phases in order."""
        return tuple(phase.name for phase in self.phases)

    @property
    def research_phases(self) -> tuple[str, ...]:
        """Names of the phases whose texts must be based on research."""
        return tuple(phase.name for phase in self.phases if phase.research)

    @property
    def next_phase(self) -> str | None:
        """Name of the phase after the current phase, or None."""
        names = self.phase_names
        at = names.index(self.phase) + 1
        return names[at] if at < len(names) else None

    def phase_name(self, label: str) -> str:
        """Return the name of the phase with a name or display name, in any case; `UsageError` for an unknown phase."""
        name = phases_by_label(self.phases).get(label.strip().casefold())
        if name is None:
            raise UsageError(f"There is no phase {brief(label)}. There are: {', '.join(self.phase_names)}.")
        return name

    def advanced(self, phase: str | None) -> Self:
        """Return a copy with another current phase, by default the next phase.

        Errors: `UsageError` for an unknown phase, or if no phase follows the current phase.
        """
        target = self.phase_name(phase) if phase else self.next_phase
        if target is None:
            raise UsageError(f"{brief(self.phase)} is the last phase of {self.name!r}. Name the phase to go back to.")
        return replace(self, phase=target)

    def to_json(self) -> str:
        """Serialise for the artifact, one line per field."""
        fields: dict[str, Any] = {
            "name": self.name,
            "template": self.template,
            "phase": self.phase,
            "profile": self.profile,
            "phases": [phase.model_dump() for phase in self.phases],
        }
        return orjson.dumps(fields, option=orjson.OPT_INDENT_2).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the JSON of an artifact; `UsageError` for invalid JSON."""
        try:
            fields = orjson.loads(text)
            phases = tuple(Phase.model_validate(phase) for phase in fields["phases"])
            project = cls(fields["name"], fields["template"], phases, fields["phase"], fields["profile"])
            return project.advanced(project.phase)
        except (KeyError, TypeError, ValueError, UsageError) as error:
            raise UsageError(
                f"The artifact {PROJECT_ID!r} is no longer a project ({error}). Restore one of its earlier versions."
            ) from None


def project_conversation_id(name: str) -> str:
    """Derive the id of a project's conversation from the project's name, so that a replay finds the conversation."""
    return derived_id("conv", PROJECT_ID, name)


def validate_project_name(name: str) -> str:
    """Normalise a project's name for storage; `UsageError` for an invalid name."""
    stored = " ".join(storable_text(name).split()) if isinstance(name, str) else ""
    if not stored or len(stored) > MAX_NAME_COLUMNS:
        raise UsageError(f"A project cannot be called {brief(name)}: a name has 1 to {MAX_NAME_COLUMNS} characters.")
    return stored


DELEGATES: Mapping[str, str | None] = {
    RESEARCH_TOOL: "query",
    **dict.fromkeys((GENERATE_TOOL, MODIFY_TOOL, OUTLINE_TOOL, EVALUATE_TOOL, GRADE_FIELD_TOOL)),
}
"""The delegating tools of projects; see `DELEGATING_TOOLS`."""
