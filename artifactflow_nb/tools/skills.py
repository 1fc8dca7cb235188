"""The tool that keeps reusable instructions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from artifactflow_nb.belongings import values
from artifactflow_nb.errors import ToolError
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.skills import SKILLS, Skill, known_skills
from artifactflow_nb.tools.base import ToolContext, tool
from artifactflow_nb.tools.belongings import Managing, NamedData
from artifactflow_nb.tools.block_access import CATEGORY

_SKILLS = Managing(SKILLS, Skill, "skill_data")


@dataclass(frozen=True, slots=True)
class SharedSkills:
    """The shared skills of a run, as they were when it was begun; a service of the tool.

    Attributes:
        texts: Their texts, by name.
    """

    texts: Mapping[str, str]


class SkillData(NamedData):
    """What a call says of a skill."""

    description: Annotated[str | None, Field(description="What it is for, in a line.")] = None
    instructions: Annotated[str | None, Field(description="What whoever uses it reads, in Markdown.")] = None


@tool(
    category=CATEGORY,
    idempotent=True,
    runs_in_replay=True,
    permission=_SKILLS.permission,
    preview=_SKILLS.preview,
)
async def manage_skill(
    ctx: ToolContext,
    action: Annotated[Literal["create", "update", "remove", "list", "use"], "What is done; use reads one."],
    skill_data: Annotated[SkillData | None, "Which skill, and what is said of it; not with list."] = None,
) -> ToolResult:
    """Keep reusable instructions with the project: how it is written, what is checked, which words are used.

    Use it when the person wants something done so from now on. Create and update change the project's own skills; one
    of the project goes before a shared one of the same name. To have a writer, an editor or an outliner follow a skill,
    write @skill:name into what you tell them (style_hint, modification_instruction, additional_instructions) or into a
    block's prompt.
    """
    if action in {"create", "update", "remove"}:
        return await _SKILLS.act(ctx, action, skill_data)
    known = known_skills(values(await _SKILLS.held(ctx)), ctx.service(SharedSkills).texts)
    if action == "list":
        listed = "\n".join(f"- {skill.name}: {skill.description}" for skill in known)
        return ToolResult(success=True, data=listed or "There are no skills yet.")
    found = [skill for skill in known if skill_data is not None and skill.name.casefold() == skill_data.name.casefold()]
    if not found:
        raise ToolError(
            f"Say in skill_data which skill is meant: {', '.join(one.name for one in known) or 'none yet'}."
        )
    return ToolResult(success=True, data=found[0].instructions)


SKILL_TOOLS = (manage_skill,)
