"""The four artifact tools: create, update, rewrite and read.

A write is keyed by its tool call, so that a call repeated after a crash has no second effect. What is read is the text
to the byte, so that a passage copied out of it is found again.
"""

import asyncio
from typing import Annotated, Any

from pydantic import BaseModel, StringConstraints

from artifactflow_nb.errors import NotFound, ToolError
from artifactflow_nb.events import StreamEventType
from artifactflow_nb.messages import ToolResult
from artifactflow_nb.store.artifact_versions import TASK_PLAN, Artifact
from artifactflow_nb.store.artifacts import ArtifactManager, Authorship
from artifactflow_nb.text.lines import fenced_diff, split_lines
from artifactflow_nb.tools.base import Tool, ToolContext, ToolPermission, tool
from artifactflow_nb.tools.passages import SHOWN, lines_around, nearest_passages, places, unlike_in_space
from artifactflow_nb.tools.plan import PlanDuty
from artifactflow_nb.tools.shown import shown_version, versioned

ArtifactId = Annotated[str, "The artifact's id, for example research_report.", StringConstraints(strip_whitespace=True)]
_MOST_CHARS = 60_000  # of one reading; a longer artifact is read in parts, by its lines


class _NotOnce(Exception):
    """A passage to replace does not stand once in the text."""

    def __init__(self, artifact: Artifact) -> None:
        super().__init__(artifact.artifact_id)
        self.artifact = artifact


async def _own_or_confirm(ctx: ToolContext, args: BaseModel) -> ToolPermission:
    """A run may change what it made itself; anything else is the person's."""
    artifact_id = str(getattr(args, "id", ""))
    mine = await ctx.service(ArtifactManager).written_by_run(ctx.run_id, artifact_id)
    return ToolPermission.AUTO if mine else ToolPermission.CONFIRM


def _is_plan(args: BaseModel) -> bool:
    """The plan of a turn is a note of the agent, not a result."""
    return getattr(args, "id", "") == TASK_PLAN


def _check_writable(ctx: ToolContext, artifact_id: str) -> None:
    """Refuse the plan of a run that carries out plans: its steps are as they were agreed, or as a person edits them."""
    if artifact_id == TASK_PLAN and PlanDuty in ctx.services:
        raise ToolError(
            f"{TASK_PLAN} was not written: in this run it is the plan that the workbench keeps. Steps are made and "
            "changed by the calls for plans alone; write anything else under another id."
        )


async def _content(ctx: ToolContext, args: BaseModel) -> str:
    """The text that would be written."""
    del ctx
    return str(getattr(args, "content", ""))


async def _change(ctx: ToolContext, args: BaseModel) -> str:
    """What would change, as a unified diff: of the whole document where the call fits it, else of the passage."""
    artifact_id, params = str(getattr(args, "id", "")), args.model_dump()
    try:
        present = await ctx.service(ArtifactManager).read(ctx.conversation_id, artifact_id, message_id=ctx.message_id)
    except NotFound:
        return ""
    before, after, name = present.content, params.get("content"), versioned(artifact_id, present.version)
    if after is None:
        old, new = params["old"], params["new"]
        before, after = (before, before.replace(old, new, 1)) if before.count(old) == 1 else (old, new)
    return await asyncio.to_thread(fenced_diff, before, after, name, f"{artifact_id} as proposed")


_WRITES: dict[str, Any] = {"category": "core", "idempotent": True, "runs_in_replay": True, "is_note": _is_plan}


@tool(**_WRITES, preview=_content)
async def create_artifact(
    ctx: ToolContext,
    id: ArtifactId,  # noqa: A002 - the name is the protocol's
    title: Annotated[str, "A title for people."],
    content: Annotated[str, "The whole text."],
    content_type: Annotated[str, "Its media type."] = "text/markdown",
) -> ToolResult:
    """Write a new artifact: a document that the person keeps and that later turns can change.

    Use it for every result that is longer than a few sentences.
    """
    _check_writable(ctx, id)
    artifact = await ctx.service(ArtifactManager).create(_by(ctx), id, title, content, content_type)
    return _written(ctx, artifact)


@tool(**_WRITES, permission=_own_or_confirm, preview=_change)
async def update_artifact(
    ctx: ToolContext,
    id: ArtifactId,  # noqa: A002 - the name is the protocol's
    old: Annotated[str, "The passage to replace, exactly as it stands and long enough to be unique."],
    new: Annotated[str, "What to put in its place."],
) -> ToolResult:
    """Replace one passage of an artifact. Use it for small changes; use rewrite_artifact when most of it changes."""
    _check_writable(ctx, id)

    def replaced(present: Artifact) -> str:
        found = places(present.content, old, 2)
        if len(found) != 1:
            raise _NotOnce(present)
        ((start, end),) = found
        return present.content[:start] + new + present.content[end:]

    try:
        artifact = await ctx.service(ArtifactManager).revise(_by(ctx), id, replaced, update_type="update")
    except _NotOnce as miss:
        raise ToolError(await asyncio.to_thread(_no_single_passage, miss.artifact, old)) from None
    return _written(ctx, artifact)


@tool(**_WRITES, permission=_own_or_confirm, preview=_change)
async def rewrite_artifact(
    ctx: ToolContext,
    id: ArtifactId,  # noqa: A002 - the name is the protocol's
    content: Annotated[str, "The whole new text."],
    title: Annotated[str | None, "Another title, where the old one does not fit any more."] = None,
) -> ToolResult:
    """Replace the whole text of an artifact; earlier versions are kept."""
    _check_writable(ctx, id)
    manager, agreed = ctx.service(ArtifactManager), await shown_version(ctx, id=id)
    artifact = await manager.revise(_by(ctx), id, content, update_type="rewrite", title=title, expected_version=agreed)
    return _written(ctx, artifact)


@tool(category="core", idempotent=True, runs_in_replay=True, max_result_chars=_MOST_CHARS)
async def read_artifact(
    ctx: ToolContext,
    id: ArtifactId,  # noqa: A002 - the name is the protocol's
    version: Annotated[int | None, "A version number; the newest one if left out."] = None,
    from_line: Annotated[int | None, "The first line to read, counting from 1; the beginning if left out."] = None,
    n_lines: Annotated[int | None, "How many lines to read; all that follow if left out."] = None,
) -> ToolResult:
    """Read an artifact exactly as it stands. Read before you change a passage that you have not just written.

    Read a long one in parts, by its lines; a part is preceded by one line in brackets that says which lines it is.
    """
    artifact = await ctx.service(ArtifactManager).read(ctx.conversation_id, id, version, message_id=ctx.message_id)
    text = _part(artifact, 1 if from_line is None else from_line, n_lines)
    return ToolResult(success=True, data=text, metadata=artifact.told)


ARTIFACT_TOOLS: tuple[Tool, ...] = (create_artifact, update_artifact, rewrite_artifact, read_artifact)


def _by(ctx: ToolContext) -> Authorship:
    return Authorship(ctx.conversation_id, ctx.message_id, ctx.agent, ctx.run_id, ctx.tool_call_id, ctx.now)


def _part(artifact: Artifact, from_line: int, n_lines: int | None) -> str:
    """Some lines, with a line before them that says which; the bare text if it is all of them."""
    lines = split_lines(artifact.content)
    if not 1 <= from_line <= max(len(lines), 1) or (n_lines is not None and n_lines < 1):
        raise ToolError(
            f"{artifact.artifact_id} (version {artifact.version}) has {len(lines)} lines; from_line={from_line}, "
            f"n_lines={n_lines} is none of them. Lines count from 1, and n_lines is at least 1."
        )
    part = lines[from_line - 1 :][:n_lines]
    if len(part) == len(lines):
        return artifact.content
    return f"[Lines {from_line}-{from_line + len(part) - 1} of {len(lines)}]\n" + "".join(part)


def _written(ctx: ToolContext, artifact: Artifact) -> ToolResult:
    ctx.notify(StreamEventType.ARTIFACT_CHANGED, {"tool_call_id": ctx.tool_call_id, **artifact.told})
    done = {"create": "Created", "update": "Updated", "rewrite": "Rewrote"}[artifact.update_type]
    text = f"{done} {artifact.artifact_id} (version {artifact.version}, {len(artifact.content)} characters)."
    return ToolResult(success=True, data=text, metadata=artifact.told)


def _no_single_passage(artifact: Artifact, old: str) -> str:
    """What the model is told: what is wrong with the passage, and the lines that it may have meant."""
    where = f"{artifact.artifact_id} (version {artifact.version}) was not changed"
    if not old:
        return f"{where}: `old` is empty. Give the passage to replace, or use rewrite_artifact."
    if found := places(artifact.content, old, SHOWN):
        times = f"{len(found)} times" if len(found) < SHOWN else f"at least {SHOWN} times"
        problem, near = f"the passage stands there {times}. Make `old` longer, so that it is unique. Its", found
    elif (span := unlike_in_space(artifact.content, old)) is not None:
        problem = "it holds the passage only with other white space or invisible characters. Copy `old` exactly. Its"
        near = [span]
    else:
        problem, near = "it does not hold the passage. Copy `old` exactly, white space included. Nearest", []
    shown = lines_around(artifact.content, near) if near else nearest_passages(artifact.content, old)
    return f"{where}: {problem} lines:\n{shown}"
