"""The tool that says for whom a document is written."""

from typing import Annotated, Literal

from pydantic import Field

from artifactflow_nb.belongings import values
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.personas import PERSONAS, Persona
from artifactflow_nb.tools.base import ToolContext, tool
from artifactflow_nb.tools.belongings import Managing, NamedData
from artifactflow_nb.tools.block_access import CATEGORY

_PERSONAS = Managing(PERSONAS, Persona, "persona_data")


class PersonaData(NamedData):
    """What a call says of a persona."""

    description: Annotated[str | None, Field(description="Who they are.")] = None
    knows: Annotated[str | None, Field(description="What they know already.")] = None
    wants: Annotated[str | None, Field(description="What they want of the document.")] = None


@tool(
    category=CATEGORY,
    idempotent=True,
    runs_in_replay=True,
    permission=_PERSONAS.permission,
    preview=_PERSONAS.preview,
)
async def manage_persona(
    ctx: ToolContext,
    action: Annotated[Literal["create", "update", "remove", "list"], "What is done."],
    persona_data: Annotated[PersonaData | None, "Which persona, and what is said of it; not with list."] = None,
) -> ToolResult:
    """Keep for whom the document is written: who they are, what they know, what they want.

    Use it when the person says for whom they write, or that these are others than was thought. Whoever writes a block
    sees all personas, and an evaluation can be done from the view of one.
    """
    if action != "list":
        return await _PERSONAS.act(ctx, action, persona_data)
    listed = "\n\n".join(persona.told for persona in values(await _PERSONAS.held(ctx)))
    return ToolResult(success=True, data=listed or "There are no personas yet.")


PERSONA_TOOLS = (manage_persona,)
