"""The plan flow as a `FlowSpec`: its tools get the rules of plans, its agents get the plan."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from artifactflow_nb.agents.base import PromptContext
from artifactflow_nb.core.approvals import ApprovalPolicy
from artifactflow_nb.core.plan import PLAN_CREATE_TOOL, PLAN_DECIDE_TOOL
from artifactflow_nb.flows.base import FlowSpec
from artifactflow_nb.flows.plan import PLAN
from artifactflow_nb.flows.plan.agents import EXECUTOR, PLAN_AGENTS, PLAN_CONFIG
from artifactflow_nb.flows.plan.graph import plan_loop, plan_policy
from artifactflow_nb.flows.plan.ledger import abort_plans
from artifactflow_nb.flows.plan.tools import (
    PLAN_TOOLS,
    RESERVED_PLAN,
    PlanPolicy,
    plan_rules,
    refusal_reason,
    with_step_tools,
)
from artifactflow_nb.flows.services import RunContext, Services
from artifactflow_nb.flows.turn import ContextManager
from artifactflow_nb.store.runs import StoredRun
from artifactflow_nb.tools.artifacts import ReservedArtifacts
from artifactflow_nb.tools.base import Tool


async def _prompt_context(ctx: RunContext, agent: str, job_id: str) -> PromptContext:
    """The default context, with the plan that the job belongs to or has made."""
    context = await ContextManager.default_context(ctx, agent, job_id)
    key = await ctx.services.plans.tool_call_of_job(job_id)
    if key is None:
        calls = [call for turn in await ctx.transcript(job_id).read() for call in turn.calls]
        key = next((call.tool_call_id for call in reversed(calls) if call.call.name == PLAN_CREATE_TOOL), None)
    progress = key and await ctx.services.plans.progress(ctx.run.conversation_id, ctx.run.message_id, key)
    if not progress:
        return context
    return replace(context, plan=progress, choices=progress.choices(plan_rules(ctx.services.graph_config)))


def _tool_services(services: Services, policy: ApprovalPolicy, _run: StoredRun) -> Mapping[type, Any]:
    return {PlanPolicy: plan_policy(services, policy), ReservedArtifacts: RESERVED_PLAN}


def _describe_tool(entry: Tool, tools_of: Callable[[str], Sequence[Tool]]) -> Tool:
    """Name the tools of steps in the descriptions of the tools that write steps."""
    if entry.name not in {PLAN_CREATE_TOOL, PLAN_DECIDE_TOOL}:
        return entry
    return with_step_tools(entry, tuple(tool.name for tool in tools_of(EXECUTOR.name)))


PLAN_FLOW = FlowSpec(
    PLAN,
    plan_loop,
    PLAN_AGENTS,
    tools=PLAN_TOOLS,
    config=PLAN_CONFIG,
    prompt_context=_prompt_context,
    tool_services=_tool_services,
    describe_tool=_describe_tool,
    check_edit=refusal_reason,
    abort=abort_plans,
    depths={
        "quick": {"executor": {"max_steps": 3, "max_iterations": 10}},
        "deep": {"executor": {"max_steps": 16}, "replanner": {"skip_on_success": False, "max_revisions": 6}},
    },
    cites_sources=True,
)
