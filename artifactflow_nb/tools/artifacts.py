"""The four artifact tools: create, update, rewrite and read.

A write is keyed by its tool call, so that a call repeated after a crash has no second effect.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel

from artifactflow_nb.errors import NotFound, ToolError
from artifactflow_nb.events import StreamEventType
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.store.artifacts import TASK_PLAN, Artifact, ArtifactManager, Authorship
from artifactflow_nb.tools.base import Tool, ToolContext, ToolPermission, tool
from artifactflow_nb.tools.passages import nearest_passages

ArtifactId = Annotated[str, "The artifact's id, for example research_report."]


async def _own_or_confirm(ctx: ToolContext, args: BaseModel) -> ToolPermission:
    """A run may change what it made itself; anything else is the person's."""
    artifact_id = str(getattr(args, "id", ""))
    mine = await ctx.service(ArtifactManager).written_by_run(ctx.run_id, artifact_id)
    return ToolPermission.AUTO if mine else ToolPermission.CONFIRM


def _is_plan(args: BaseModel) -> bool:
    """The plan of a turn is a note of the agent, not a result."""
    return getattr(args, "id", "") == TASK_PLAN


def _field(name: str) -> Any:
    return lambda args: str(getattr(args, name))


@tool(category="core", idempotent=True, preview=_field("content"), is_note=_is_plan)
async def create_artifact(
    ctx: ToolContext,
    id: ArtifactId,  # noqa: A002 - the name is the protocol's
    title: Annotated[str, "A title for people."],
    content: Annotated[str, "The whole text."],
    content_type: Annotated[str, "Its media type."] = "text/markdown",
) -> ToolResult:
    """Write a new artifact: a document that the person keeps and that later turns can change.

    Use it for the plan of this turn (id `task_plan`) and for every result that is longer than a few sentences.
    """
    artifact = await ctx.service(ArtifactManager).create(_by(ctx), id, title, content, content_type)
    return _written(ctx, artifact)


@tool(category="core", idempotent=True, permission=_own_or_confirm, preview=_field("new"), is_note=_is_plan)
async def update_artifact(
    ctx: ToolContext,
    id: ArtifactId,  # noqa: A002 - the name is the protocol's
    old: Annotated[str, "The passage to replace, exactly as it stands and long enough to be unique."],
    new: Annotated[str, "What to put in its place."],
) -> ToolResult:
    """Replace one passage of an artifact. Use it for small changes; use rewrite_artifact when most of it changes."""
    manager = ctx.service(ArtifactManager)
    if (written := await manager.written_by_call(ctx.tool_call_id)) is not None:
        return _written(ctx, written)
    present = await _read(ctx, id, None)
    count = present.content.count(old) if old else 0
    if count != 1:
        raise ToolError(_no_single_passage(present, old, count))
    content = present.content.replace(old, new, 1)
    artifact = await manager.revise(_by(ctx), id, content, update_type="update", expected_version=present.version)
    return _written(ctx, artifact)


@tool(category="core", idempotent=True, permission=_own_or_confirm, preview=_field("content"), is_note=_is_plan)
async def rewrite_artifact(
    ctx: ToolContext,
    id: ArtifactId,  # noqa: A002 - the name is the protocol's
    content: Annotated[str, "The whole new text."],
) -> ToolResult:
    """Replace the whole text of an artifact; earlier versions are kept."""
    manager = ctx.service(ArtifactManager)
    artifact = await manager.revise(_by(ctx), id, content, update_type="rewrite")
    return _written(ctx, artifact)


@tool(category="core", idempotent=True)
async def read_artifact(
    ctx: ToolContext,
    id: ArtifactId,  # noqa: A002 - the name is the protocol's
    version: Annotated[int | None, "A version number; the newest one if left out."] = None,
) -> ToolResult:
    """Read an artifact exactly as it stands. Read before you change a passage that you have not just written."""
    artifact = await _read(ctx, id, version)
    return ToolResult(success=True, data=artifact.content, metadata=_summary(artifact))


ARTIFACT_TOOLS: tuple[Tool, ...] = (create_artifact, update_artifact, rewrite_artifact, read_artifact)


def _by(ctx: ToolContext) -> Authorship:
    return Authorship(ctx.conversation_id, ctx.message_id, ctx.agent, ctx.run_id, ctx.tool_call_id)


async def _read(ctx: ToolContext, artifact_id: str, version: int | None) -> Artifact:
    manager = ctx.service(ArtifactManager)
    try:
        return await manager.read(ctx.conversation_id, artifact_id, version, message_id=ctx.message_id)
    except NotFound as error:
        raise ToolError(str(error)) from error


def _written(ctx: ToolContext, artifact: Artifact) -> ToolResult:
    summary = _summary(artifact)
    ctx.notify(StreamEventType.ARTIFACT_CHANGED, {"tool_call_id": ctx.tool_call_id, **summary})
    done = {"create": "Created", "update": "Updated", "rewrite": "Rewrote"}[artifact.update_type]
    text = f"{done} {artifact.artifact_id} (version {artifact.version}, {len(artifact.content)} characters)."
    return ToolResult(success=True, data=text, metadata=summary)


def _summary(artifact: Artifact) -> Mapping[str, Any]:
    return {
        "artifact_id": artifact.artifact_id,
        "version": artifact.version,
        "title": artifact.title,
        "content_type": artifact.content_type,
        "update_type": artifact.update_type,
    }


def _no_single_passage(artifact: Artifact, old: str, count: int) -> str:
    where = f"{artifact.artifact_id} (version {artifact.version})"
    if not old:
        return f"{where} was not changed: `old` is empty. Give the passage to replace, or use rewrite_artifact."
    if count > 1:
        problem = f"the passage stands there {count} times. Make `old` longer, so that it is unique"
    else:
        problem = "it does not hold the passage. Copy `old` exactly, white space included"
    return f"{where} was not changed: {problem}. Nearest lines:\n{nearest_passages(artifact.content, old)}"
