"""The compose flow: one agent's loop over the blocks of a project, the agent's tools, and the values of the prompts.

::

    START -> composer --respond--> END
               |  generate_field_content      |  modify_field
               v                              v
             writer: its answer is         editor: proposes edits --> the person sees the diff --> written
             the block's text

`generate_outline` works like `modify_field`, with an outliner; `run_evaluation` is in `evaluation.py`. Each such call
is a job with a loop of its own, which sees the block and its dependencies. A job never overwrites a text that changed
during the job.
"""

import asyncio
from collections.abc import Mapping
from functools import cache
from typing import Any

from artifactflow_nb.agents.base import NextCalls, PromptContext
from artifactflow_nb.core.approvals import ApprovalPolicy
from artifactflow_nb.core.events import MAIN_JOB
from artifactflow_nb.core.runs import WORK_SETTING
from artifactflow_nb.core.text.chinese import is_chinese
from artifactflow_nb.errors import UsageError
from artifactflow_nb.flows.approval import effective_params
from artifactflow_nb.flows.base import FlowAgent, FlowQuestion, FlowSpec
from artifactflow_nb.flows.loop import Delegate, LoopGraph, build_loop, job_loop
from artifactflow_nb.flows.services import RunContext, Services, is_main
from artifactflow_nb.models.base import WritingTask
from artifactflow_nb.plugins.projects.access import current_project, is_grounded
from artifactflow_nb.plugins.projects.agents import (
    COMPOSER,
    EDITOR,
    EVALUATOR,
    GENERATOR,
    GRADER,
    OUTLINER,
    WRITER,
    ComposerAgent,
    GeneratorAgent,
    dependencies_of,
    project_sections,
    referenced_blocks,
)
from artifactflow_nb.plugins.projects.evaluation import (
    EVALUATION_JOBS,
    GRADING_JOBS,
    grade,
    grade_field,
    next_evaluation_calls,
    next_evaluator_calls,
    run_evaluation,
)
from artifactflow_nb.plugins.projects.named_text_store import NamedTextStore
from artifactflow_nb.plugins.projects.named_text_tools import NAMED_TEXT_TOOLS, SharedSkills
from artifactflow_nb.plugins.projects.named_texts import (
    SKILLS_FOLDER,
    SKILLS_SETTING,
    Persona,
    Skill,
    load_shared_skills,
    merge_skills,
    referenced_skills,
)
from artifactflow_nb.plugins.projects.outline import (
    OUTLINE_JOBS,
    OUTLINER_TOOLS,
    STRUCTURE_TOOLS,
    generate_outline,
)
from artifactflow_nb.plugins.projects.project import (
    COMPOSE,
    GENERATE_TOOL,
    RESEARCH_TOOL,
    REVIEW_TOOL,
    TEXTS,
    ProjectInfo,
)
from artifactflow_nb.plugins.projects.research import (
    RESEARCH_TOOLS,
    Jobs,
    block_job_delegate,
    run_research_call,
    run_skills,
    run_texts,
    target_id,
)
from artifactflow_nb.plugins.projects.schedule import BlockResult, schedule_writing
from artifactflow_nb.plugins.projects.store import BlockJobStore, ProjectStore
from artifactflow_nb.plugins.projects.texts import (
    EDITOR_TOOLS,
    GENERATOR_TOOLS,
    TEXT_JOBS,
    TEXT_TOOLS,
)
from artifactflow_nb.plugins.projects.tree import Block, BlockTree
from artifactflow_nb.store.runs import StoredRun


@cache
def compose_loop() -> LoopGraph:
    """Return the composer's loop, which has no state and is compiled once for all engines."""
    loop = job_loop()

    def delegates(jobs: Jobs, loop: LoopGraph) -> dict[str, Delegate]:
        return {tool: block_job_delegate(loop, *steps) for tool, steps in jobs.items()}

    grader_loop = build_loop(delegates(GRADING_JOBS, loop)).compile()
    of_blocks = delegates({**TEXT_JOBS, **OUTLINE_JOBS}, loop) | delegates(EVALUATION_JOBS, grader_loop)
    return build_loop({**of_blocks, RESEARCH_TOOL: run_research_call}).compile()


def by_hand(work: str, text: str, name: str = "") -> str:
    """Say, in the language of a text, how a person does the work (`write`, `change` or `compose`) by hand."""
    return str(TEXTS["by_hand"]["zh" if is_chinese(text) else "en"][work].format(name=name))


def writing_task(tree: BlockTree, block: Block, wish: str, *, is_edit: bool) -> WritingTask:
    """Describe the text of a block for a model that can only quote sources."""
    if is_edit:
        return WritingTask(by_hand=by_hand("change", wish, block.name))
    language, needs = block.prompt or block.name, tuple(need.content for need in dependencies_of(tree, block))
    sentences = by_hand("write", language, block.name), by_hand("change", language, block.name)
    return WritingTask(block.prompt, block.name, wish, needs, *sentences)


async def _prompt_context(ctx: RunContext, agent: str, job_id: str) -> PromptContext | None:
    """Return the context of a prompt: the project, the next calls, or the block, depending on the agent."""
    now = ctx.run.started_at
    if not is_main(job_id):
        if agent == EVALUATOR.name:
            return PromptContext(now=now, next_calls=await next_evaluator_calls(ctx, job_id))
        if agent not in {WRITER.name, EDITOR.name}:
            return None
        _, tree = await current_project(ctx)
        job = await ctx.services.service(BlockJobStore).get(job_id)
        block = tree.get(job.block_id) if job else None
        requests = await ctx.services.approvals.decisions([job_id])  # a job has the id of its call
        params = effective_params(await ctx.services.calls.call(job_id), requests.get(job_id))
        wish = str(params.get("style_hint") or params.get("modification_instruction") or "").strip()
        if block is None:
            return None
        task = writing_task(tree, block, wish, is_edit=agent == EDITOR.name)
        return PromptContext(now=now, task=task)
    work = ctx.run.settings.get(WORK_SETTING, {})
    if "evaluate" in work:
        return PromptContext(now=now, next_calls=await next_evaluation_calls(ctx, work["evaluate"]))
    info, tree = await current_project(ctx)
    skills = await run_skills(ctx)
    sections = project_sections(
        info,
        tree,
        referenced_blocks(tree, ctx.run.question, strict=False),
        await run_texts(ctx, Persona),
        skills,
        referenced_skills(ctx.run.question, skills, strict=False),
    )
    return PromptContext(
        now=now,
        task=WritingTask(by_hand=by_hand("compose", ctx.run.question)),
        sections=tuple(sections),
        next_calls=await _scheduled_calls(ctx, info, tree) if work else None,
    )


async def _scheduled_calls(ctx: RunContext, info: ProjectInfo, tree: BlockTree) -> NextCalls:
    """Compute the next calls of a run that writes blocks in dependency order, from the finished calls."""
    turns = await ctx.transcript(MAIN_JOB).read()
    calls = [call for turn in turns for call in turn.calls]
    requests = await ctx.services.approvals.decisions([call.tool_call_id for call in calls if call.result is not None])
    blocks = await ctx.services.service(BlockJobStore).blocks_by_job(ctx.run.run_id)
    results = []
    for call in calls:
        block_id = blocks.get(call.tool_call_id) or target_id(tree, call)
        if not block_id or call.result is None:
            continue
        if call.call.name == REVIEW_TOOL:
            request = requests.get(call.tool_call_id)
            instruction = request.decision.instruction if request is not None and request.decision is not None else ""
            results.append(BlockResult(block_id, "review", call.result.success, instruction))
        else:
            results.append(BlockResult(block_id, "write", call.result.success, call.result.error or ""))
    schedule = schedule_writing(tree, ctx.run.settings[WORK_SETTING]["write"], results)
    next_calls: list[tuple[str, dict[str, Any]]] = []
    for key, style in schedule.write.items():
        block, params = tree[key], {"field_name": tree.path(key)}
        if block.phase not in info.research_phases or is_grounded(tree, block):
            next_calls.append((GENERATE_TOOL, {**params, **({"style_hint": style} if style else {})}))
        else:
            query = "\n\n".join(filter(None, [block.prompt or block.name, style]))
            next_calls.append((RESEARCH_TOOL, {"query": query, **params}))
    next_calls += [(REVIEW_TOOL, {"field_name": tree.path(key)}) for key in schedule.review]
    return NextCalls(next_calls, schedule.summary)


def _tool_services(_services: Services, _policy: ApprovalPolicy, run: StoredRun) -> Mapping[type, Any]:
    return {SharedSkills: SharedSkills(run.settings.get(SKILLS_SETTING, {}))}


async def _check_question(services: Services, question: FlowQuestion) -> Mapping[str, Any]:
    """Check that a project has the question's blocks and skills; return the shared skills to store."""
    conversation_id, parent_id = question.conversation_id, question.parent_message_id
    if conversation_id is None:
        raise UsageError('The compose flow writes a project. Ask it: wb.projects["name"].ask("...").')
    if question.recorded is None:
        shared = await asyncio.to_thread(load_shared_skills, question.folder / SKILLS_FOLDER)
    else:
        shared = question.recorded.get(SKILLS_SETTING, {})
    text = question.text if question.work is None else ""
    referenced_blocks(await services.service(ProjectStore).tree(conversation_id, parent_id), text)
    own = await services.service(NamedTextStore).texts(conversation_id, parent_id, Skill)
    referenced_skills(text, merge_skills(tuple(own), shared))
    return {SKILLS_SETTING: shared} if shared else {}


COMPOSE_FLOW = FlowSpec(
    COMPOSE,
    compose_loop,
    (
        FlowAgent(COMPOSER, ComposerAgent),
        FlowAgent(WRITER),
        FlowAgent(EDITOR, tools=EDITOR_TOOLS),
        FlowAgent(OUTLINER, tools=OUTLINER_TOOLS),
        FlowAgent(GRADER, tools=(grade,)),
        FlowAgent(EVALUATOR, GeneratorAgent, tools=(grade_field,)),
        FlowAgent(GENERATOR, GeneratorAgent, tools=GENERATOR_TOOLS),
    ),
    tools=(*TEXT_TOOLS, *STRUCTURE_TOOLS, generate_outline, *RESEARCH_TOOLS, *NAMED_TEXT_TOOLS, run_evaluation),
    # The generator carries out a run that writes or grades blocks without a conversation.
    main_agent=lambda run: (GENERATOR if WORK_SETTING in run.settings else COMPOSER).name,
    prompt_context=_prompt_context,
    tool_services=_tool_services,
    check_question=_check_question,
)
