"""The four artifact tools: create, update, rewrite and read.

A write is identified by its tool call, so that a call repeated after a crash has no second effect. Reading returns the
exact text, so that a copied passage can be replaced. An approval covers the version that its preview compared with;
with `previewed_version`, a rewrite rejects a newer version.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, StringConstraints

from artifactflow_nb.core.events import StreamEventType
from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.core.text.comparison import fenced_diff, split_lines
from artifactflow_nb.errors import NotFound, ToolError
from artifactflow_nb.store.approvals import ApprovalStore
from artifactflow_nb.store.artifact_versions import TASK_PLAN_ID, Artifact
from artifactflow_nb.store.artifacts import ArtifactManager, Authorship
from artifactflow_nb.tools.base import Tool, ToolContext, ToolPermission, tool
from artifactflow_nb.tools.passages import (
    MAX_SUGGESTIONS,
    find_ignoring_whitespace,
    find_passage,
    lines_around,
    nearest_passages,
)

_VERSION = re.compile(r"^--- (.*) \(version (\d+)\)$", re.MULTILINE)


def call_authorship(ctx: ToolContext, reason: str = "") -> Authorship:
    """Return the author and the reason of the versions that a call writes."""
    call = ctx.tool_call_id
    return Authorship(ctx.conversation_id, ctx.message_id, ctx.agent, ctx.run_id, call, ctx.now, reason)


def version_label(name: str, version: int) -> str:
    """Return the name of the old text in the header of a diff; `previewed_version` parses it."""
    return f"{name} (version {version})"


async def previewed_version(ctx: ToolContext, **target: str) -> int | None:
    """Return the version that the diff in the call's approval request was based on.

    None if the call needed no approval, if the diff was empty, or if the person changed the target of the call.

    Args:
        ctx: Context of the call.
        target: The target of the call, as the parameter that names it, for example `id=...`.
    """
    request = await ctx.service(ApprovalStore).get_by_call(ctx.tool_call_id)
    if request is None or any(request.params.get(name) != value for name, value in target.items()):
        return None
    header = _VERSION.search(request.preview)
    return None if header is None else int(header[2])


def previewed_name(preview: str) -> str:
    """Return the name of the text that the diff of a preview changes, or an empty string."""
    header = _VERSION.search(preview)
    return header[1] if header else ""


ArtifactId = Annotated[str, "The artifact's id, for example research_report.", StringConstraints(strip_whitespace=True)]
_MAX_READ_CHARS = 60_000  # limit of one read; a longer artifact is read in parts, by its lines


class _PassageNotUnique(Exception):
    """The passage to replace does not occur exactly once in the artifact, which is the argument."""


async def _own_or_confirm(ctx: ToolContext, args: BaseModel) -> ToolPermission:
    """Let a run change its own artifacts freely; ask the person about all other artifacts."""
    is_own = await ctx.service(ArtifactManager).written_by_run(ctx.run_id, str(getattr(args, "id", "")))
    return ToolPermission.AUTO if is_own else ToolPermission.CONFIRM


@dataclass(frozen=True, slots=True)
class ReservedArtifacts:
    """Service for tools: the artifacts that agents must not change in this run, with the reasons for the model."""

    reasons: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WriteReview:
    """Service for tools: returns what the model is to know about the version that a call has written."""

    review: Callable[[ToolContext, Artifact], Awaitable[str]]


def _check_writable(ctx: ToolContext, artifact_id: str) -> None:
    """Raise `ToolError` for a reserved artifact. The plan flow, for example, reserves the plan."""
    if ReservedArtifacts in ctx.services and (reason := ctx.service(ReservedArtifacts).reasons.get(artifact_id)):
        raise ToolError(f"{artifact_id} was not written: {reason}")


async def _preview_diff(ctx: ToolContext, args: BaseModel) -> str:
    """Return a unified diff of the document, or of the passage alone if the passage is not unique."""
    artifact_id, params = str(getattr(args, "id", "")), args.model_dump()
    try:
        artifact = await ctx.service(ArtifactManager).read(ctx.conversation_id, artifact_id, message_id=ctx.message_id)
    except NotFound:
        return ""
    before, after, title = artifact.content, params.get("content"), " ".join(artifact.title.split()) or artifact_id
    if after is None:
        old, new = params["old"], params["new"]
        before, after = (before, before.replace(old, new, 1)) if before.count(old) == 1 else (old, new)
    # The diff is made in a thread, since a diff of two long texts would block the loop for all other runs.
    names = version_label(title, artifact.version), f"{title} as proposed"
    return await asyncio.to_thread(fenced_diff, before, after, *names)


_WRITES: dict[str, Any] = {
    "category": "core",
    "idempotent": True,
    "uses_store_only": True,
    "is_note": lambda args: args.id == TASK_PLAN_ID,  # the plan of a turn is not a result
}


@tool(**_WRITES, preview=lambda _ctx, args: str(args.content))  # type: ignore[attr-defined]  # this tool's model
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
    artifact = await ctx.service(ArtifactManager).create(call_authorship(ctx), id, title, content, content_type)
    return await _result(ctx, artifact)


@tool(**_WRITES, permission=_own_or_confirm, preview=_preview_diff)
async def update_artifact(
    ctx: ToolContext,
    id: ArtifactId,  # noqa: A002 - the name is the protocol's
    old: Annotated[str, "The passage to replace, exactly as it stands and long enough to be unique."],
    new: Annotated[str, "What to put in its place."],
) -> ToolResult:
    """Replace one passage of an artifact. Use it for small changes; use rewrite_artifact when most of it changes."""
    _check_writable(ctx, id)

    def replace_passage(current: Artifact) -> str:
        matches = find_passage(current.content, old, 2)
        if len(matches) != 1:
            raise _PassageNotUnique(current)
        ((start, end),) = matches
        return current.content[:start] + new + current.content[end:]

    try:
        # Pass a function, so that each of several concurrent updates is applied to the latest version.
        artifact = await ctx.service(ArtifactManager).revise(
            call_authorship(ctx), id, replace_passage, update_type="update"
        )
    except _PassageNotUnique as error:
        raise ToolError(await asyncio.to_thread(_mismatch_message, error.args[0], old)) from None
    return await _result(ctx, artifact)


@tool(**_WRITES, permission=_own_or_confirm, preview=_preview_diff)
async def rewrite_artifact(
    ctx: ToolContext,
    id: ArtifactId,  # noqa: A002 - the name is the protocol's
    content: Annotated[str, "The whole new text."],
    title: Annotated[str | None, "Another title, where the old one does not fit any more."] = None,
) -> ToolResult:
    """Replace the whole text of an artifact; earlier versions are kept."""
    _check_writable(ctx, id)
    manager, approved = ctx.service(ArtifactManager), await previewed_version(ctx, id=id)
    artifact = await manager.revise(
        call_authorship(ctx), id, content, update_type="rewrite", title=title, expected_version=approved
    )
    return await _result(ctx, artifact)


@tool(category="core", idempotent=True, uses_store_only=True, max_result_chars=_MAX_READ_CHARS)
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
    lines, start = split_lines(artifact.content), 1 if from_line is None else from_line
    if not 1 <= start <= max(len(lines), 1) or (n_lines is not None and n_lines < 1):
        raise ToolError(
            f"{id} (version {artifact.version}) has {len(lines)} lines; from_line={start}, n_lines={n_lines} "
            "selects none of them. Lines count from 1, and n_lines is at least 1."
        )
    part = lines[start - 1 :][:n_lines]
    text = artifact.content
    if len(part) < len(lines):
        text = f"[Lines {start}-{start + len(part) - 1} of {len(lines)}]\n" + "".join(part)
    return ToolResult(success=True, data=text, metadata=artifact.event_payload)


ARTIFACT_TOOLS: tuple[Tool, ...] = (create_artifact, update_artifact, rewrite_artifact, read_artifact)


async def _result(ctx: ToolContext, artifact: Artifact) -> ToolResult:
    ctx.notify(StreamEventType.ARTIFACT_CHANGED, {"tool_call_id": ctx.tool_call_id, **artifact.event_payload})
    verb = {"create": "Created", "update": "Updated", "rewrite": "Rewrote"}[artifact.update_type]
    text = f"{verb} {artifact.artifact_id} (version {artifact.version}, {len(artifact.content)} characters)."
    if WriteReview in ctx.services and (review := await ctx.service(WriteReview).review(ctx, artifact)):
        text = f"{text}\n\n{review}"
    return ToolResult(success=True, data=text, metadata=artifact.event_payload)


def _mismatch_message(artifact: Artifact, old: str) -> str:
    """Explain to the model why the passage cannot be replaced, with the most similar lines."""
    where = f"{artifact.artifact_id} (version {artifact.version}) was not changed"
    if not old:
        return f"{where}: `old` is empty. Give the passage to replace, or use rewrite_artifact."
    if matches := find_passage(artifact.content, old, MAX_SUGGESTIONS):
        times = f"{len(matches)} times" if len(matches) < MAX_SUGGESTIONS else f"at least {MAX_SUGGESTIONS} times"
        problem, spans = f"the passage stands there {times}. Make `old` longer, so that it is unique. Its", matches
    elif (span := find_ignoring_whitespace(artifact.content, old)) is not None:
        problem = "it holds the passage only with other white space or invisible characters. Copy `old` exactly. Its"
        spans = [span]
    else:
        problem, spans = "it does not hold the passage. Copy `old` exactly, white space included. Nearest", []
    lines = lines_around(artifact.content, spans) if spans else nearest_passages(artifact.content, old)
    return f"{where}: {problem} lines:\n{lines}"
