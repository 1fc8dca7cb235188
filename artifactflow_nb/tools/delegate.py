"""Delegation to a sub-agent by a tool call, which the flow itself executes."""

from typing import Annotated

from pydantic import Field

from artifactflow_nb.tools.base import Tool, ToolParams


class Delegation(ToolParams):
    """The parameters of `call_subagent`."""

    agent_name: Annotated[str, Field(description="The agent that shall do it, one of those listed.", min_length=1)]
    instruction: Annotated[
        str, Field(description="What it shall do; it sees nothing but this and the plan.", min_length=1)
    ]


call_subagent = Tool(
    name="call_subagent",
    description=(
        "Hand a job to a sub-agent and get its answer as the result. The agent starts fresh: "
        "put everything that it needs into the instruction."
    ),
    params=Delegation,
    handler=None,
    category="core",
    idempotent=True,
)
