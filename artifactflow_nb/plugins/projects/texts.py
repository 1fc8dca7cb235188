"""Tools that read, write and review the texts of blocks.

A call of `generate_field_content` is a job of a writer, a call of `modify_field` a job of an editor. Each job sees its
block and the block's dependencies.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Annotated, Any

from pydantic import BaseModel, Field

from artifactflow_nb.core.messages import ToolResult
from artifactflow_nb.core.text.comparison import fenced_diff
from artifactflow_nb.errors import Conflict, ToolError, UsageError
from artifactflow_nb.flows.services import RunContext
from artifactflow_nb.flows.state import AgentState
from artifactflow_nb.plugins.projects.access import (
    FieldName,
    change_blocks,
    current_project,
    current_tree,
    job_tool,
    overwrite_permission,
    project_tool,
    require_grounding,
    valid_call_preview,
)
from artifactflow_nb.plugins.projects.agents import EDITOR, WRITER, editor_task, writer_task
from artifactflow_nb.plugins.projects.edits import write_block
from artifactflow_nb.plugins.projects.named_texts import Persona
from artifactflow_nb.plugins.projects.project import GENERATE_TOOL, MODIFY_TOOL, REVIEW_TOOL
from artifactflow_nb.plugins.projects.research import (
    Jobs,
    check_ready,
    find_skills,
    find_text_block,
    finish_proposing,
    job_authorship,
    publish_versions,
    run_texts,
    start_block_job,
    wait_until_ready,
)
from artifactflow_nb.plugins.projects.store import BlockJob, BlockJobStore, ProjectStore, block_from_version
from artifactflow_nb.plugins.projects.tree import Block, BlockTree
from artifactflow_nb.store.approvals import ApprovalStore
from artifactflow_nb.store.artifacts import USER
from artifactflow_nb.tools.artifacts import previewed_version, version_label
from artifactflow_nb.tools.base import ObjectParam, ToolContext, ToolParams, ToolPermission
from artifactflow_nb.tools.passages import MAX_SUGGESTIONS, find_passage, lines_around, nearest_passages

PROPOSE_EDITS_TOOL = "propose_edits"

EXCERPT_CHARS = 600

# --- reading ---------------------------------------------------------------------------------------------------------


@project_tool()
async def query_field(ctx: ToolContext, field_name: FieldName) -> str:
    """Show a block in short: status, dependencies and the start of its text. Use it before deciding about the block."""
    tree = await current_tree(ctx)
    block = tree.find(field_name)
    changed = tree.stale.get(block.block_id)
    lines = [
        f"{tree.path(block.block_id)} ({'group' if block.is_group else tree.status(block.block_id)})",
        f"phase: {block.phase}",
        f"depends on: {', '.join(map(tree.block_name, block.depends_on)) or 'nothing'}",
        *([f"stale: {', '.join(changed)} changed since it was written"] if changed else []),
        *(["has to be reviewed by the person"] if block.need_review else []),
        *([f"prompt: {block.prompt}"] if block.prompt else []),
    ]
    if block.is_group:
        lines.append(f"contains: {', '.join(child.name for child in tree.children(block.block_id)) or 'nothing'}")
    elif block.content.strip():
        lines.append(f"start of the text ({len(block.content)} characters):\n{block.content[:EXCERPT_CHARS]}")
    return "\n".join(lines)


@project_tool(max_result_chars=60_000)
async def read_field(ctx: ToolContext, field_name: FieldName) -> str:
    """Read the whole text of a block, exactly as it is stored, or all texts of a group."""
    tree = await current_tree(ctx)
    block = tree.find(field_name)
    if not block.is_group:
        return block.content or f"{block.name!r} has no text yet."
    texts = [f"## {tree.path(b.block_id)}\n\n{b.content}" for b in tree.descendants(block.block_id) if b.sha256]
    return "\n\n".join(texts) or f"No block in {block.name!r} has a text yet."


# --- writing ---------------------------------------------------------------------------------------------------------


class GenerateField(ToolParams):
    """Parameters of `generate_field_content`."""

    field_name: Annotated[str, Field(description="The block to write, by its name or path.", min_length=1)]
    style_hint: Annotated[str, Field(description="How to write it, if the person said so.")] = ""


generate_field_content = job_tool(
    GENERATE_TOOL,
    "Have a block written from its prompt and the blocks that it depends on. Use it for a block that is empty or "
    "stale, or that should be rewritten as a whole; to change an existing text use modify_field. Consecutive calls run "
    "in parallel.",
    GenerateField,
    overwrite_permission,
)


async def start_writing(ctx: RunContext, state: AgentState, key: str, args: GenerateField) -> BlockJob:
    """Store the job of a call of `generate_field_content`."""
    tree = await wait_until_ready(ctx, state, key, args.field_name)
    block = find_text_block(tree, args.field_name)
    if block.writer == USER and not await ctx.services.approvals.decisions([key]):
        raise ToolError(f"The person wrote {block.name!r} meanwhile. Their text stays, unless they ask for a new text.")
    check_ready(tree, block)
    info, _ = await current_project(ctx)
    skills = await find_skills(ctx, block.prompt, args.style_hint)
    task = writer_task(info, tree, block, args.style_hint, await run_texts(ctx, Persona), skills)
    return await start_block_job(ctx, key, WRITER.name, task, block, tree.basis(block.block_id))


async def finish_writing(ctx: RunContext, job: BlockJob, _args: GenerateField, text: str) -> ToolResult:
    """Store the writer's text; `Conflict` if the block's text changed since the job started."""
    edit = partial(
        write_block,
        block_id=job.block_id,
        text=text,
        writer=job.agent,
        basis=job.basis,
        expected=job.original_text,
        is_finished=True,
    )
    info, tree = await current_project(ctx)
    authorship = job_authorship(ctx, job.job_id, job.agent, f"{GENERATE_TOOL} for: {ctx.run.question[:200]}")
    written = await ctx.services.service(ProjectStore).change(authorship, require_grounding(edit, info.research_phases))
    publish_versions(ctx, job.job_id, job.agent, written)
    block = block_from_version(written[0]) if written else tree[job.block_id]  # no version: the text is unchanged
    review = " The person has to review it." if block.status == "draft" else ""
    message = f"{block.name!r} is written ({len(block.content)} characters).{review}"
    return ToolResult(success=True, data=message, metadata={"agent": job.agent, "block_id": block.block_id})


async def _is_edited_by_person(ctx: ToolContext, params: Mapping[str, Any]) -> bool:
    """Return whether the person changed the agent's parameters on approving the call."""
    request = await ctx.service(ApprovalStore).get_by_call(ctx.tool_call_id)
    return request is not None and any(request.params.get(name) != value for name, value in params.items())


@valid_call_preview
async def _content_diff(ctx: ToolContext, args: BaseModel) -> str:
    params = args.model_dump()
    block = (await current_tree(ctx)).find(params["field_name"])
    name = version_label(block.name, block.version)
    return await asyncio.to_thread(fenced_diff, block.content, params["content"], name, f"{block.name} as proposed")


@project_tool(overwrite_permission, preview=_content_diff)
async def update_field(
    ctx: ToolContext, field_name: FieldName, content: Annotated[str, "The whole new text."]
) -> ToolResult:
    """Write a block's whole text yourself. Use it for a text that the person dictated or that you wrote together."""
    block = (await current_tree(ctx)).find(field_name)
    previewed = await previewed_version(ctx, field_name=field_name)
    writer = USER if await _is_edited_by_person(ctx, {"content": content}) else ctx.agent

    def edit(tree: BlockTree) -> Sequence[Block]:
        if previewed not in {None, block.version}:
            raise Conflict(
                f"{block.name!r} was changed after the person was asked. Nothing was written. Read it again and "
                "repeat the change."
            )
        return write_block(tree, block.block_id, content, writer, expected=block.content)

    return await change_blocks(ctx, edit, "update_field", f"{block.name!r} is written.")


# --- editing ---------------------------------------------------------------------------------------------------------


class ModifyField(ToolParams):
    """Parameters of `modify_field`."""

    field_name: Annotated[str, Field(description="The block to change, by its name or path.", min_length=1)]
    modification_instruction: Annotated[str, Field(description="What to change.", min_length=1)]
    reference_fields: Annotated[list[str], Field(description="Other blocks that the editor needs to see.")] = Field(
        default_factory=list
    )


modify_field = job_tool(
    MODIFY_TOOL,
    "Have passages of a block's text changed as the person asks. An editor proposes the edits; the person sees them as "
    "a diff and decides. Use it for every change of an existing text.",
    ModifyField,
)


async def start_editing(ctx: RunContext, _state: AgentState, key: str, args: ModifyField) -> BlockJob:
    """Store the job of a call of `modify_field`."""
    tree = await current_tree(ctx)
    block = find_text_block(tree, args.field_name)
    if not block.sha256:
        raise ToolError(f"{block.name!r} has no text yet. Have it written with {GENERATE_TOOL}.")
    references = [tree[key] for name in args.reference_fields for key in tree.text_ids(tree.find(name).block_id)]
    skills = await find_skills(ctx, args.modification_instruction)
    task = editor_task(tree, block, args.modification_instruction, references, skills)
    hashes = {reference.block_id: reference.sha256 for reference in references}
    visible = {need: sha256 for need, sha256 in tree.basis(block.block_id).items() if hashes.get(need) == sha256}
    return await start_block_job(ctx, key, EDITOR.name, task, block, {**block.basis, **visible})


class PassageEdit(ObjectParam):
    """The replacement of a passage."""

    anchor: Annotated[str, Field(description="The passage, verbatim, and long enough to be unique.")]
    replacement: Annotated[str, Field(description="The text in its place; empty to remove the passage.")]


async def _apply_to_block(ctx: ToolContext, edits: Sequence[PassageEdit]) -> tuple[BlockJob, Block, str]:
    """Return the job of the calling editor, the job's block, and the block's text after the edits."""
    job = await ctx.service(BlockJobStore).get_by_call(ctx.tool_call_id)
    block = None if job is None else (await current_tree(ctx)).get(job.block_id)
    if job is None or block is None:
        raise ToolError(f"The call {ctx.tool_call_id} belongs to no block. Only a block's editor can propose edits.")
    return job, block, apply_edits(block.content, edits)


@valid_call_preview
async def _edits_diff(ctx: ToolContext, args: BaseModel) -> str:
    _, block, text = await _apply_to_block(ctx, getattr(args, "edits", ()))
    return await asyncio.to_thread(fenced_diff, block.content, text, block.name, f"{block.name} as proposed")


@project_tool(name=PROPOSE_EDITS_TOOL, preview=_edits_diff)
async def propose_edits(
    ctx: ToolContext,
    edits: Annotated[list[PassageEdit], "Each with `anchor`, a passage of the text, and `replacement`."],
) -> ToolResult:
    """Propose all edits of the text in one call; the person sees them as a diff and decides."""
    job, block, text = await _apply_to_block(ctx, edits)
    is_by_person = await _is_edited_by_person(ctx, {"edits": [edit.model_dump() for edit in edits]})
    writer = USER if block.writer == USER or is_by_person else ctx.agent
    edit = partial(
        write_block, block_id=block.block_id, text=text, writer=writer, basis=job.basis, expected=block.content
    )
    return await change_blocks(ctx, edit, f"{len(edits)} approved edits", "The person agreed; the edits are written.")


def apply_edits(text: str, edits: Sequence[PassageEdit]) -> str:
    """Replace the anchors in a text; `ToolError` for an anchor that is not unique, and for overlapping anchors."""
    if not edits:
        raise ToolError("There are no edits in this call. Pass at least one, or answer that nothing must change.")
    spans = []
    for number, edit in enumerate(edits, 1):
        matches = find_passage(text, edit.anchor, 2)
        if len(matches) != 1:
            problem = "is empty" if not edit.anchor else "occurs more than once" if matches else "is not in the text"
            near = (
                lines_around(text, find_passage(text, edit.anchor, MAX_SUGGESTIONS))
                if matches
                else nearest_passages(text, edit.anchor)
            )
            suggestion = f" The nearest passages are:\n{near}" if near else ""
            raise ToolError(f"Nothing was changed: the anchor of edit {number} {problem}.{suggestion}")
        spans.append((*matches[0], edit.replacement))
    spans.sort()
    if any(after[0] < before[1] for before, after in pairwise(spans)):
        raise ToolError("Nothing was changed: two anchors overlap. Combine them into one edit.")
    for start, end, replacement in reversed(spans):
        text = text[:start] + replacement + text[end:]
    return text


# --- reviewing -------------------------------------------------------------------------------------------------------


@valid_call_preview
async def _draft_preview(ctx: ToolContext, args: BaseModel) -> str:
    return (await current_tree(ctx)).find(getattr(args, "field_name", "")).content


@project_tool(ToolPermission.CONFIRM, name=REVIEW_TOOL, preview=_draft_preview)
async def review_field(
    ctx: ToolContext,
    field_name: FieldName,
    content: Annotated[str | None, "Another text to replace it; default: keep the draft."] = None,
) -> ToolResult:
    """Submit a draft to the person; if they agree, it is completed, as it is or with their changes."""
    draft = (await current_tree(ctx)).find(field_name)
    if not draft.sha256:
        raise ToolError(f"{draft.name!r} has no text to review. Have it written with {GENERATE_TOOL} first.")

    def edit(tree: BlockTree) -> Sequence[Block]:
        block = tree[draft.block_id]
        if content is not None and not content.strip():
            raise UsageError(f"{draft.name!r} cannot be approved with an empty text. Deny it and say what to change.")
        if content is not None and content != block.content:
            (block,) = write_block(tree, block.block_id, content, USER)
        return (replace(block, status="completed"),)

    return await change_blocks(ctx, edit, "reviewed", f"{draft.name!r} is approved.")


TEXT_JOBS: Jobs = {
    GENERATE_TOOL: (start_writing, finish_writing),
    MODIFY_TOOL: (start_editing, finish_proposing(PROPOSE_EDITS_TOOL, "Nothing was changed.")),
}
TEXT_TOOLS = (generate_field_content, modify_field, query_field, read_field, update_field)
EDITOR_TOOLS = (replace(propose_edits, request_kind="edit", request_action="change a text"),)
GENERATOR_TOOLS = (replace(review_field, request_kind="edit", request_action="have a text reviewed"),)
