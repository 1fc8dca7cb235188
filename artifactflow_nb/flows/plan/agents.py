"""The agents of the plan flow, and the configuration of its nodes."""

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from artifactflow_nb.agents.base import AgentConfig
from artifactflow_nb.agents.lead import LeadAgent
from artifactflow_nb.agents.settings import (
    ConfigNode,
    Enabled,
    ModelName,
    NonNegativeInteger,
    OptionalTemperature,
    PositiveInteger,
    ToolNames,
)
from artifactflow_nb.core.plan import PLAN_CREATE_TOOL, PLAN_DECIDE_TOOL, REPLANNING_AGENT
from artifactflow_nb.flows.base import FlowAgent
from artifactflow_nb.flows.plan.tools import REPORT_FAILURE_TOOL


class PlannerNode(ConfigNode):
    """The node `planner`: whether the agent can make plans."""

    enabled: Enabled = True


class ApprovalNode(ConfigNode):
    """The node `approval`: which plans need an approval. `confirm`: plans with a tool that needs approvals itself."""

    enabled: Annotated[bool | Literal["confirm"], Field(description="true, false or 'confirm'")] = False


class ExecutorNode(ConfigNode):
    """The agent that carries out a step; `max_steps` counts each attempt at a step of a plan."""

    max_iterations: PositiveInteger = 30
    max_steps: PositiveInteger = 8
    tools: ToolNames = ("core", "mcp")
    model: ModelName = None
    temperature: OptionalTemperature = None


class ReplannerNode(ConfigNode):
    """The agent that decides after a step how the plan continues.

    Attributes:
        enabled: Whether it is called; otherwise a plan continues until a step fails.
        skip_on_success: Whether it is called only after a step that did not succeed.
        max_revisions: Revisions of a plan.
        max_retries: Retries of a step.
        max_plans: Plans in a turn.
        model: As for any agent.
        temperature: As for any agent.
    """

    enabled: Enabled = True
    skip_on_success: Enabled = True
    max_revisions: NonNegativeInteger = 3
    max_retries: NonNegativeInteger = 2
    max_plans: PositiveInteger = 3
    model: ModelName = None
    temperature: OptionalTemperature = None


class SummarizerNode(ConfigNode):
    """The agent that summarizes a finished plan; without it the answer is written from the plan."""

    enabled: Enabled = True
    model: ModelName = None
    temperature: OptionalTemperature = None


class GraphSettings(ConfigNode):
    """Limits of the whole graph.

    Attributes:
        recursion_limit: Jobs for the plans of a turn: attempts at steps, replanning and summaries.
    """

    recursion_limit: PositiveInteger = 100


PLAN_CONFIG = {
    "planner": PlannerNode(),
    "approval": ApprovalNode(),
    "executor": ExecutorNode(),
    "replanner": ReplannerNode(),
    "summarizer": SummarizerNode(),
    "settings": GraphSettings(),
}

AGENT = AgentConfig(
    name="agent",
    description="Answers, and makes a plan for what takes several steps.",
    required_tools=("all",),
    temperature=None,
    max_tool_rounds=50,
)

EXECUTOR = AgentConfig(name="executor", description="Carries out one step of a plan.")

REPLANNER = AgentConfig(
    name=REPLANNING_AGENT, description="Looks at a plan after a step and decides how it goes on.", max_tool_rounds=3
)

SUMMARIZER = AgentConfig(
    name="summarizer", description="Says what a plan has done and what it has not.", max_tool_rounds=0
)

_WITH_PLANS = FlowAgent(AGENT, LeadAgent, own_tools=(PLAN_CREATE_TOOL,))
_WITHOUT_PLANS = FlowAgent(replace(AGENT, description="Answers.", prompt="agent_without_plans"), LeadAgent)


PLAN_AGENTS = (
    replace(_WITH_PLANS, for_config=lambda config: _WITH_PLANS if config.planner.enabled else _WITHOUT_PLANS),
    FlowAgent(EXECUTOR, own_tools=(REPORT_FAILURE_TOOL,)),
    FlowAgent(REPLANNER, own_tools=(PLAN_DECIDE_TOOL,)),
    FlowAgent(SUMMARIZER),
)
