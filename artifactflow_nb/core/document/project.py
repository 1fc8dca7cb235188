"""Project metadata besides the blocks: name, phases and current phase; names of the compose tools."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import orjson

from artifactflow_nb.core.clock_ids import derived_id
from artifactflow_nb.core.document.template import Phase, ProjectTemplate, phases_by_label
from artifactflow_nb.core.plan import PLAN_CREATE_TOOL
from artifactflow_nb.core.text.format import storable_text
from artifactflow_nb.errors import UsageError

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


@dataclass(frozen=True, slots=True)
class ProjectInfo:
    """Metadata of a project.

    Attributes:
        name: Name, unique in a store.
        template: Name of the template it was created from.
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
        """Name of the phase after the current one; None if it is the last."""
        names = self.phase_names
        at = names.index(self.phase) + 1
        return names[at] if at < len(names) else None

    def phase_name(self, label: str) -> str:
        """The name of the phase with this name or display name, in any case; `UsageError` if there is none."""
        name = phases_by_label(self.phases).get(label.strip().casefold())
        if name is None:
            raise UsageError(f"There is no phase {label!r:.80}. There are: {', '.join(self.phase_names)}.")
        return name

    def with_phase(self, phase: str) -> Self:
        """Copy with another current phase; errors as for `phase_name`."""
        return replace(self, phase=self.phase_name(phase))

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
        """Parse the JSON of an artifact; `UsageError` if it is invalid."""
        try:
            fields = orjson.loads(text)
            phases = tuple(Phase.model_validate(phase) for phase in fields["phases"])
            project = cls(fields["name"], fields["template"], phases, fields["phase"], fields["profile"])
            return project.with_phase(project.phase)
        except (KeyError, TypeError, ValueError, UsageError) as error:
            raise UsageError(
                f"The artifact {PROJECT_ID!r} is no longer a project ({error}). Restore one of its earlier versions."
            ) from None


def project_conversation_id(name: str) -> str:
    """Derive the id of a project's conversation from its name, so that a replay finds it again."""
    return derived_id("conv", PROJECT_ID, name)


def validate_project_name(name: str) -> str:
    """Normalise a project's name for storage; `UsageError` if it is invalid."""
    wanted = " ".join(storable_text(name).split()) if isinstance(name, str) else ""
    if not wanted or len(wanted) > MAX_NAME_COLUMNS:
        raise UsageError(
            f"A project cannot be called {name!r:.140}: a name is text of 1 to {MAX_NAME_COLUMNS} characters."
        )
    return wanted


DELEGATING_TOOLS: Mapping[str, str | None] = {
    "call_subagent": "agent_name",
    PLAN_CREATE_TOOL: "title",
    RESEARCH_TOOL: "query",
    GENERATE_TOOL: None,
    MODIFY_TOOL: None,
    OUTLINE_TOOL: None,
    EVALUATE_TOOL: None,
    GRADE_FIELD_TOOL: None,
}
"""Delegating tools by name, each with the parameter that labels the delegated work in a timeline.

None for a tool that the timeline draws like a tool that works by itself. The table is not with the tools, because
metrics, charts and verification read stored rows without loading the flows, which takes a second.
"""
