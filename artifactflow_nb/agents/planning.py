"""The agents of the plan flow: who answers and plans, who carries out a step, who looks again, who summarizes."""

from artifactflow_nb.agents.base import AgentConfig

AGENT = AgentConfig(
    name="agent",
    description="Answers, and makes a plan for what takes several steps.",
    temperature=0.7,
    max_tool_rounds=50,
)

EXECUTOR = AgentConfig(
    name="executor",
    description="Carries out one step of a plan.",
    temperature=0.3,
    max_tool_rounds=30,
)

REPLANNER = AgentConfig(
    name="replanner",
    description="Looks at a plan after a step and decides how it goes on.",
    required_tools=("plan_decide",),
    temperature=0.2,
    max_tool_rounds=3,
)

SUMMARIZER = AgentConfig(
    name="summarizer",
    description="Says what a plan has done and what it has not.",
    temperature=0.3,
    max_tool_rounds=0,
)
