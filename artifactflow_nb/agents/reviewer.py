"""A model that decides on tool calls before a person is asked."""

from dataclasses import dataclass

from artifactflow_nb.agents.base import AgentConfig
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.models.base import Model, check_model

REVIEWER = "reviewer"
"""Name of the agent that reviews calls, and the author of its decisions."""


@dataclass(frozen=True, slots=True)
class Reviewer:
    """A model that answers approval requests, for `Workbench(approvals=...)`.

    It approves a call, denies the call, or leaves the decision to the person. The person also decides if the model
    fails, if the answer cannot be parsed, and on all questions, budgets and interrupts of adapted graphs. The model
    calls are stored, priced and counted like the calls of other agents, under the agent `reviewer`.

    Attributes:
        model: The name of a model at the endpoint, or a model object; None for the model of the workbench.
        rules: What the reviewer must allow and forbid, in plain words; empty to leave the rules to the model.
    """

    model: str | Model | None = None
    rules: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.model, str | None):
            check_model("Reviewer.model", self.model)
        if not isinstance(self.rules, str):
            raise UsageError(f"rules is {brief(self.rules)}; write in plain words what is allowed and forbidden.")

    @property
    def agent_config(self) -> AgentConfig:
        """The configuration of the reviewing agent, which has no tools."""
        description = "Decides whether calls may run, in the person's place."
        return AgentConfig(
            REVIEWER,
            description,
            model=self.model,
            temperature=0.0,
            temperature_is_optional=True,
            max_tool_rounds=0,
            streaming=False,
        )
