"""The agents of the plan flow: who answers and plans, who carries out a step, who looks again, who summarizes.

What they may do stands in `graph_config.yaml`; what a replanner and a summarizer do is always the same.
"""

from dataclasses import replace

from artifactflow_nb.agents.base import AgentConfig

AGENT = AgentConfig(
    name="agent",
    description="Answers, and makes a plan for what takes several steps.",
)

AGENT_WITHOUT_PLANS = replace(AGENT, description="Answers.", prompt="agent_without_plans")
"""The same where it cannot make plans, and is not told to."""

EXECUTOR = AgentConfig(
    name="executor",
    description="Carries out one step of a plan.",
)

REPLANNER = AgentConfig(
    name="replanner",
    description="Looks at a plan after a step and decides how it goes on.",
    max_tool_rounds=3,
)

SUMMARIZER = AgentConfig(
    name="summarizer",
    description="Says what a plan has done and what it has not.",
    max_tool_rounds=0,
)
