"""Tools that manage a project's personas and skills: one mechanism for every kind of named text."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, Field

from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.core.text.comparison import fenced_diff
from artifactflow_nb.core.text.markdown import safe_markdown_line
from artifactflow_nb.errors import ToolError, UsageError
from artifactflow_nb.plugins.projects.access import change_result, project_tool
from artifactflow_nb.plugins.projects.named_text_store import NamedTextStore
from artifactflow_nb.plugins.projects.named_texts import NamedText, Persona, Skill, find_named, merge_skills
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.tools.artifacts import call_authorship
from artifactflow_nb.tools.base import ObjectParam, ToolContext, ToolPermission

T = TypeVar("T", bound=NamedText)


class TextData(ObjectParam):
    """A named text in a call; an update changes only the fields that are present."""

    name: Annotated[str, Field(description="Its name.", min_length=1)]
    new_name: Annotated[str | None, Field(description="With update: another name.")] = None

    @property
    def changes(self) -> dict[str, str | None]:
        """The fields of the text; None for a field that the call leaves out."""
        return {"name": self.new_name, **self.model_dump(exclude={"name", "new_name"})}


@dataclass(frozen=True, slots=True)
class TextActions(Generic[T]):
    """The actions of a tool on one kind of named text; the tool's parameter `<noun>_data` is a `TextData`."""

    kind: type[T]

    async def texts(self, ctx: ToolContext) -> tuple[T, ...]:
        """Return the texts on the run's branch."""
        return tuple(await ctx.service(NamedTextStore).texts(ctx.conversation_id, ctx.message_id, self.kind))

    async def permission(self, ctx: ToolContext, args: BaseModel) -> ToolPermission:
        """Ask before a text is removed, or before a person's text is changed."""
        before, after, author = await self._load_change(ctx, args)
        is_asked = before is not None and (after is None or author == USER)
        return ToolPermission.CONFIRM if is_asked else ToolPermission.AUTO

    async def preview(self, ctx: ToolContext, args: BaseModel) -> str:
        """Show what a valid update or removal changes."""
        before, after, _author = await self._load_change(ctx, args)
        if before is None:
            return ""
        if after is None:
            return f"Removes the {self.kind.noun} {safe_markdown_line(before.name)}; its versions are kept."
        texts = before.format(), after.format()
        return await asyncio.to_thread(fenced_diff, *texts, before.name, f"{before.name} as proposed")

    async def _load_change(self, ctx: ToolContext, args: BaseModel) -> tuple[T | None, T | None, str]:
        """Return the text that a call changes, the new text and the author; the new text is None for a removal.

        Both texts are None for other actions and for a call that the tool will refuse.
        """
        action, data = getattr(args, "action", ""), getattr(args, f"{self.kind.noun}_data")
        if action not in {"update", "remove"} or data is None:
            return None, None, ""
        texts = await ctx.service(NamedTextStore).texts(ctx.conversation_id, ctx.message_id, self.kind)
        try:
            before = find_named(texts, data.name, self.kind.noun)
            after = before.with_fields(data.changes) if action == "update" else None
            return before, after, texts[before].created_by
        except UsageError:
            return None, None, ""

    async def execute(self, ctx: ToolContext, action: str, data: TextData | None) -> ToolResult:
        """Create, update or remove a text."""
        noun = self.kind.noun
        if data is None:
            raise ToolError(f"The call names no {noun}. Name it in {noun}_data.")
        store, changes = ctx.service(NamedTextStore), data.changes
        authorship = call_authorship(ctx, f"manage_{noun}: {action}")
        if action == "create":
            fields = {name: text for name, text in {**changes, "name": data.name}.items() if text is not None}
            if missing := [name for name in self.kind.required_fields() if name not in fields]:
                raise ToolError(f"The {noun} {data.name!r} is incomplete: it also needs {', '.join(missing)}.")
            written = await store.create(authorship, self.kind(**fields))
        else:
            is_update = action == "update"
            written = await store.change(
                authorship, self.kind, data.name, lambda text: text.with_fields(changes) if is_update else None
            )
        return change_result(ctx, written, f"The {noun} {data.name!r} is {action.removesuffix('e')}ed.")


_PERSONAS = TextActions(Persona)
_SKILLS = TextActions(Skill)


class PersonaData(TextData):
    """A persona in a call."""

    description: Annotated[str | None, Field(description="Who they are.")] = None
    knows: Annotated[str | None, Field(description="What they know already.")] = None
    wants: Annotated[str | None, Field(description="What they want from the document.")] = None


class SkillData(TextData):
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
    text = "\n\n".join(persona.prompt_text for persona in await _PERSONAS.texts(ctx))
    return ToolResult(success=True, data=text or "There are no personas yet.")


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
    skills = merge_skills(await _SKILLS.texts(ctx), ctx.service(SharedSkills).texts)
    if action == "list":
        text = "\n".join(f"- {skill.name}: {skill.description}" for skill in skills)
        return ToolResult(success=True, data=text or "There are no skills yet.")
    if skill_data is None:
        raise ToolError("The call names no skill. Name it in skill_data.")
    return ToolResult(success=True, data=find_named(skills, skill_data.name, Skill.noun).instructions)


NAMED_TEXT_TOOLS = (manage_persona, manage_skill)
