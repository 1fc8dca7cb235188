"""What a project is beside its blocks: its name, its phases and which of them it is in. Values only."""

from dataclasses import dataclass, replace
from typing import Any, Self

import orjson

from artifactflow_nb.ambient import derived_id
from artifactflow_nb.block_names import plain
from artifactflow_nb.errors import UsageError
from artifactflow_nb.project_template import Phase, ProjectTemplate

PROJECT = "project"
"""The id of the artifact that holds it."""

GENERATE, MODIFY, OUTLINE = "generate_field_content", "modify_field", "generate_outline"
"""The names of the tools whose calls are jobs with a block, or with the whole document."""

RUN_RESEARCH = "run_research"
"""The name of the tool whose call is a run of the research flow."""

EVALUATE, GRADE_FIELD = "run_evaluation", "grade_field"
"""The names of the tools whose calls have blocks judged: all that is asked for, and one block by one dimension."""

JOBS = frozenset({GENERATE, MODIFY, OUTLINE, EVALUATE, RUN_RESEARCH})
"""Those of them that the composer has: calls of these that stand beside each other are carried out at the same time."""

REVIEW = "review_field"
"""The name of the tool whose call puts a draft before the person."""

WORK = "compose"
"""The setting of a run that says which blocks it writes or judges; one that talks with the person has none."""

NAME_COLUMNS = 80

PROJECT_TYPE = "application/vnd.artifactflow.project+json"


@dataclass(frozen=True, slots=True)
class ProjectHead:
    """A project without its blocks.

    Attributes:
        name: Its name, once in a store.
        template: The name of the template that it was made with.
        phases: Its phases, in order.
        phase: The phase that it is in, by name.
        profile: What those who write for it know of its creator.
    """

    name: str
    template: str
    phases: tuple[Phase, ...]
    phase: str
    profile: str = ""

    @classmethod
    def begun(cls, name: str, template: ProjectTemplate) -> Self:
        """A new project, in its first phase."""
        return cls(name, template.name, template.phases, template.phases[0].name)

    @property
    def phase_names(self) -> tuple[str, ...]:
        """The names of the phases, in order."""
        return tuple(phase.name for phase in self.phases)

    @property
    def research_phases(self) -> tuple[str, ...]:
        """The names of the phases whose texts rest on research."""
        return tuple(phase.name for phase in self.phases if phase.research)

    @property
    def next_phase(self) -> str | None:
        """The phase behind the present one; None if that is the last."""
        names = self.phase_names
        at = names.index(self.phase) + 1
        return names[at] if at < len(names) else None

    def in_phase(self, phase: str) -> Self:
        """The project in a phase; `UsageError` for one that it does not have."""
        if phase not in self.phase_names:
            raise UsageError(f"There is no phase {phase!r:.80}. There are: {', '.join(self.phase_names)}.")
        return replace(self, phase=phase)

    def to_json(self) -> str:
        """The project as its artifact holds it, a line for each field."""
        held: dict[str, Any] = {
            "name": self.name,
            "template": self.template,
            "phase": self.phase,
            "profile": self.profile,
            "phases": [phase.model_dump() for phase in self.phases],
        }
        return orjson.dumps(held, option=orjson.OPT_INDENT_2).decode()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The project that an artifact holds; `UsageError` for what is none."""
        try:
            held = orjson.loads(text)
            phases = tuple(Phase.model_validate(phase) for phase in held["phases"])
            found = cls(held["name"], held["template"], phases, held["phase"], held["profile"])
            return found.in_phase(found.phase)
        except (KeyError, TypeError, ValueError, UsageError) as error:
            raise UsageError(
                f"The artifact {PROJECT!r} is no project any more ({error}). Restore one of its earlier versions."
            ) from None


def project_conversation(name: str) -> str:
    """The id of the conversation of a project: the same name has the same, so that a replay finds it again."""
    return derived_id("conv", PROJECT, name)


def checked_project_name(name: str) -> str:
    """A project's name as it is stored; `UsageError` for what can be none."""
    wanted = " ".join(plain(name).split()) if isinstance(name, str) else ""
    if not wanted or len(wanted) > NAME_COLUMNS:
        raise UsageError(f"A project cannot be called {name!r:.140}: a name is text of 1 to {NAME_COLUMNS} characters.")
    return wanted
