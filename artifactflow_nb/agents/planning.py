"""The agents of the plan flow: who answers and plans, who carries out a step, who looks again, who summarizes.

What they may do stands in `graph_config.yaml`; what a replanner and a summarizer do is always the same.
"""

from artifactflow_nb.agents.base import AgentConfig
from artifactflow_nb.tools.plan import PLAN_DECIDE

AGENT = AgentConfig(
    name="agent",
    description="Answers, and makes a plan for what takes several steps.",
)

EXECUTOR = AgentConfig(
    name="executor",
    description="Carries out one step of a plan.",
)

REPLANNER = AgentConfig(
    name="replanner",
    description="Looks at a plan after a step and decides how it goes on.",
    required_tools=(PLAN_DECIDE,),
    max_tool_rounds=3,
)

SUMMARIZER = AgentConfig(
    name="summarizer",
    description="Says what a plan has done and what it has not.",
    max_tool_rounds=0,
)
