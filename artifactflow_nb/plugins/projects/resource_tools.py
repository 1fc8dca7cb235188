"""Tools that manage a project's personas and skills: one mechanism for every type of resource."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, Field

from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.core.text.comparison import fenced_diff
from artifactflow_nb.core.text.markdown import safe_markdown_line
from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.plugins.projects.access import change_result, project_tool
from artifactflow_nb.plugins.projects.resource_store import ResourceStore
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
    merge_skills,
    resource_values,
    with_fields,
)
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.tools.artifacts import call_authorship
from artifactflow_nb.tools.base import ObjectParam, ToolContext, ToolPermission

V = TypeVar("V", bound=NamedValue)


class NamedData(ObjectParam):
    """A resource in a call; an update changes only the fields that are present."""

    name: Annotated[str, Field(description="Its name.", min_length=1)]
    new_name: Annotated[str | None, Field(description="With update: another name.")] = None

    @property
    def changes(self) -> dict[str, str | None]:
        """The fields of the value; None for those that the call leaves out."""
        return {"name": self.new_name, **self.model_dump(exclude={"name", "new_name"})}


@dataclass(frozen=True, slots=True)
class ResourceActions(Generic[V]):
    """The actions of a tool on one type of resource.

    Attributes:
        param_name: The tool's parameter with the resource, a `NamedData`.
    """

    resource_type: ResourceType[V]
    make_value: Callable[..., V]
    param_name: str

    async def list_resources(self, ctx: ToolContext) -> list[StoredResource[V]]:
        """Return the resources on the run's branch."""
        return await ctx.service(ResourceStore).list_resources(ctx.conversation_id, ctx.message_id, self.resource_type)

    async def permission(self, ctx: ToolContext, args: BaseModel) -> ToolPermission:
        """Ask the person before a resource is removed, or before one that they wrote is changed."""
        stored, after = await self._load_change(ctx, args)
        if stored is None or (after is not None and stored.created_by != USER):
            return ToolPermission.AUTO
        return ToolPermission.CONFIRM

    async def preview(self, ctx: ToolContext, args: BaseModel) -> str:
        """Show what a valid update or removal changes."""
        stored, after = await self._load_change(ctx, args)
        if stored is None:
            return ""
        name = stored.value.name
        if after is None:
            return f"Removes the {self.resource_type.noun} {safe_markdown_line(name)}; its versions are kept."
        texts = self.resource_type.write(stored.value), self.resource_type.write(after)
        return await asyncio.to_thread(fenced_diff, *texts, name, f"{name} as proposed")

    async def _load_change(self, ctx: ToolContext, args: BaseModel) -> tuple[StoredResource[V] | None, V | None]:
        """Return the resource that a call changes and its new value, None for a removal.

        Both are None for other actions and for a call that the tool will refuse.
        """
        action, data = getattr(args, "action", ""), getattr(args, self.param_name)
        if action not in {"update", "remove"} or data is None:
            return None, None
        try:
            stored = find_resource(await self.list_resources(ctx), data.name, self.resource_type.noun)
            return stored, with_fields(stored.value, data.changes) if action == "update" else None
        except UsageError:
            return None, None

    async def execute(self, ctx: ToolContext, action: str, data: NamedData | None) -> ToolResult:
        """Create, update or remove a resource."""
        noun = self.resource_type.noun
        if data is None:
            raise ToolError(f"The call names no {noun}. Name it in {self.param_name}.")
        store, changes = ctx.service(ResourceStore), data.changes
        authorship = call_authorship(ctx, f"manage_{noun}: {action}")
        if action == "create":
            fields = {name: value for name, value in {**changes, "name": data.name}.items() if value is not None}
            try:
                value = self.make_value(**fields)
            except TypeError:
                missing = ", ".join(name for name, text in changes.items() if text is None and name != "name")
                raise ToolError(f"The {noun} {data.name!r} is incomplete: it also needs {missing}.") from None
            written = await store.create(authorship, self.resource_type, value)
        elif action == "update":
            written = await store.update(
                authorship, self.resource_type, data.name, lambda value: with_fields(value, changes)
            )
        else:
            written = await store.remove(authorship, self.resource_type, data.name)
        return change_result(ctx, written, f"The {noun} {data.name!r} is {action.removesuffix('e')}ed.")


_PERSONAS = ResourceActions(PERSONA_RESOURCE, Persona, "persona_data")
_SKILLS = ResourceActions(SKILL_RESOURCE, Skill, "skill_data")


class PersonaData(NamedData):
    """A persona in a call."""

    description: Annotated[str | None, Field(description="Who they are.")] = None
    knows: Annotated[str | None, Field(description="What they know already.")] = None
    wants: Annotated[str | None, Field(description="What they want from the document.")] = None


class SkillData(NamedData):
    """A skill in a call."""

    description: Annotated[str | None, Field(description="Its purpose in a line.")] = None
    instructions: Annotated[str | None, Field(description="The instructions, in Markdown.")] = None


@project_tool(_PERSONAS.permission, preview=_PERSONAS.preview)
async def manage_persona(
    ctx: ToolContext,
    action: Annotated[Literal["create", "update", "remove", "list"], "What to do."],
    persona_data: Annotated[PersonaData | None, "The persona; not with list."] = None,
) -> ToolResult:
    """Manage the intended readers of the document: who they are, what they know, what they want.

    Use it when the person says for whom they write, or corrects that. Every writer sees all personas, and an evaluation
    can take the view of one.
    """
    if action != "list":
        return await _PERSONAS.execute(ctx, action, persona_data)
    listed = "\n\n".join(persona.prompt_text for persona in resource_values(await _PERSONAS.list_resources(ctx)))
    return ToolResult(success=True, data=listed or "There are no personas yet.")


@dataclass(frozen=True, slots=True)
class SharedSkills:
    """The shared skills at the start of the run, as a service for the tool `manage_skill`."""

    texts: Mapping[str, str]


@project_tool(_SKILLS.permission, preview=_SKILLS.preview)
async def manage_skill(
    ctx: ToolContext,
    action: Annotated[Literal["create", "update", "remove", "list", "use"], "What to do; use reads a skill."],
    skill_data: Annotated[SkillData | None, "The skill; not with list."] = None,
) -> ToolResult:
    """Manage the project's reusable instructions: writing style, checks, terminology.

    Use it when the person wants something done the same way from now on. Create and update change the project's own
    skills; these take precedence over shared skills of the same name. To have a writer, an editor or an outliner follow
    a skill, write @skill:name into its instructions (style_hint, modification_instruction, additional_instructions) or
    into a block's prompt.
    """
    if action in {"create", "update", "remove"}:
        return await _SKILLS.execute(ctx, action, skill_data)
    known = merge_skills(resource_values(await _SKILLS.list_resources(ctx)), ctx.service(SharedSkills).texts)
    if action == "list":
        listed = "\n".join(f"- {skill.name}: {skill.description}" for skill in known)
        return ToolResult(success=True, data=listed or "There are no skills yet.")
    if skill_data is None:
        raise ToolError("The call names no skill. Name it in skill_data.")
    return ToolResult(success=True, data=find_named(known, skill_data.name, SKILL_RESOURCE.noun).instructions)


RESOURCE_TOOLS = (manage_persona, manage_skill)
