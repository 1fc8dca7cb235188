"""The tools that make an outline: the composer has one made, and the outliner puts it before the person.

Agreed to, all of its blocks are added in one transaction; what cannot be is told to the outliner, and nothing is added.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from artifactflow_nb.block_outline import Entry, outlined, told_outline
from artifactflow_nb.errors import UsageError
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.projects import OUTLINE
from artifactflow_nb.text.figures import count
from artifactflow_nb.tools.base import Tool, ToolContext, ToolPermission, tool
from artifactflow_nb.tools.block_access import CATEGORY, change, head_of, project_of, told
from artifactflow_nb.tools.given import Given

PROPOSE_OUTLINE = "propose_outline"


class GenerateOutline(BaseModel):
    """The parameters of `generate_outline`."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    style: Annotated[str, Field(description="What kind of structure: a report, a course of six lessons, ...")] = ""
    additional_instructions: Annotated[str, Field(description="What else the person said of it.")] = ""


class OutlineBlock(Given):
    """A block of an outline; one that others name as their parent is a group."""

    name: Annotated[str, Field(description="Its name.", min_length=1)]
    parent: Annotated[str, Field(description="The group that it goes into; one of the list stands before it.")] = ""
    phase: Annotated[str, Field(description="Its phase, at the top; the present one if left out.")] = ""
    depends_on: Annotated[list[str], Field(description="The blocks that it is written from.")] = Field(
        default_factory=list
    )
    prompt: Annotated[str, Field(description="What it shall say; nothing for a group.")] = ""
    need_review: Annotated[bool, Field(description="Whether the person has to approve its text.")] = False
    auto_generate: Annotated[bool, Field(description="Whether it is written by itself when its time has come.")] = False

    @property
    def entry(self) -> Entry:
        """What it is to the outline."""
        settings = {"prompt": self.prompt, "need_review": self.need_review, "auto_generate": self.auto_generate}
        given = {name: value for name, value in settings.items() if value}
        return Entry(self.name, self.parent.strip(), self.phase.strip(), self.depends_on, given)


generate_outline = Tool(
    OUTLINE,
    "Have a structure of blocks proposed for the document, or for its present phase. The person sees it as a list and "
    "decides; agreed to, all blocks are added at once, still empty. Use it when several blocks are missing; add a "
    "single one with manage_architecture.",
    GenerateOutline,
    None,
    ToolPermission.AUTO,
    CATEGORY,
    idempotent=True,
)


def _entries(args: BaseModel) -> Sequence[Entry]:
    blocks: Sequence[OutlineBlock] = getattr(args, "blocks", ())
    return [block.entry for block in blocks]


async def _if_it_fits(ctx: ToolContext, args: BaseModel) -> ToolPermission:
    """Nobody is asked about an outline that cannot be: the agent is told."""
    head, tree = await project_of(ctx)
    try:
        outlined(tree, _entries(args), head.phase)
    except UsageError:
        return ToolPermission.AUTO
    return ToolPermission.CONFIRM


async def _as_a_list(ctx: ToolContext, args: BaseModel) -> str:
    """The blocks that would be added; empty for an outline that cannot be."""
    head, tree = await project_of(ctx)
    try:
        return told_outline(tree, outlined(tree, _entries(args), head.phase))
    except UsageError:
        return ""


@tool(
    name=PROPOSE_OUTLINE,
    category=CATEGORY,
    idempotent=True,
    runs_in_replay=True,
    permission=_if_it_fits,
    preview=_as_a_list,
)
async def _propose_outline(
    ctx: ToolContext,
    blocks: Annotated[list[OutlineBlock], "All blocks, in the order of the document; a group before what is in it."],
) -> ToolResult:
    """Propose the whole outline in one call; the person sees it as a list and decides."""
    head, entries = await head_of(ctx), [block.entry for block in blocks]
    made = await change(ctx, lambda tree: outlined(tree, entries, head.phase), "The outline was agreed to.")
    return told(ctx, made, f"The outline was agreed to: {count(len(entries), 'block')} added.")


propose_outline = replace(_propose_outline, asks_as="edit", wants_to="add the blocks of an outline")

OUTLINE_TOOLS = (generate_outline, propose_outline)
