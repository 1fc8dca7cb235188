"""What a run is begun with: what was chosen, checked before anything is stored, and whether it can go on so."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from artifactflow_nb.approvals import ApprovalPolicy
from artifactflow_nb.budget import Budget, Price
from artifactflow_nb.crew import Crew, config_of
from artifactflow_nb.errors import UsageError
from artifactflow_nb.flow_registry import FlowRegistry
from artifactflow_nb.graph_config import GraphConfig
from artifactflow_nb.mcp_bench import McpBench
from artifactflow_nb.models.base import Model
from artifactflow_nb.models.openai import OpenAIModel
from artifactflow_nb.recordings.deck import Deck
from artifactflow_nb.recordings.graph_steps import GRAPH
from artifactflow_nb.settings import Settings
from artifactflow_nb.store.runs import StoredRun
from artifactflow_nb.tools.registry import ToolRegistry


@dataclass(frozen=True, slots=True)
class RunChoices:
    """Checks what is chosen for runs against what an engine has.

    Attributes:
        own_models: The agents that have models of their own, by name.
    """

    settings: Settings
    graph_config: GraphConfig
    flows: FlowRegistry
    crew: Crew
    tools: ToolRegistry
    mcp: McpBench
    policy: ApprovalPolicy
    model: Model
    own_models: Collection[str]
    prices: Mapping[str, Price]
    deck: Deck

    async def of_run(self, flow: str, budget: Budget | None, model: str | None) -> dict[str, Any]:
        """What was chosen for a run, checked: its budget, its model, and what is configured otherwise than packaged.

        Of a graph of a user's own what it looks like; which models it asks, only it knows.
        """
        if own := self.flows.own_choices(flow, model):
            budget = budget or self.settings.budget
            return {**own, **({} if budget is None else {"budget": budget.model_dump(exclude_none=True)})}
        await self.mcp.open(flow)
        if not self.deck.is_strict:
            self.crew.check(self.graph_config, None if self.mcp.knows_all else flow)
        if self.mcp.knows_all and not (self.deck.is_strict and self.settings.mcp):  # else not all tools are known yet
            self.policy.check_tools(entry.name for entry in self.tools)
        for name in self.own_models:
            self.crew.agent(name)
        budget = budget or self.settings.budget
        if budget is not None:
            self.check_budget(budget, model)
        limits = {} if budget is None else {"budget": budget.model_dump(exclude_none=True)}
        chosen = {} if model is None else {"model": await self._checked(model)}
        changed = self.graph_config.changed
        return {**limits, **chosen, **({"graph_config": changed} if changed else {})}

    async def _checked(self, model: str) -> str:
        """The name of a model that can be asked for; an endpoint itself refuses a name that it does not know."""
        if not isinstance(model, str) or not model.strip():
            raise UsageError(f"model is {model!r}; for one run it must be a model's name at the endpoint.")
        if self.deck.is_strict or isinstance(self.model, OpenAIModel):
            return model
        if model not in (known := await self.model.list_models()):
            raise UsageError(f"There is no model {model!r} here; known are: {', '.join(known)}.")
        return model

    def check_budget(self, budget: Budget, model: str | None) -> None:
        """Refuse a limit on the cost where the cost of a model is not known: it would never be reached."""
        for agent in self.crew.agents.values() if budget.usd is not None and not self.deck.is_strict else ():
            if (name := agent.model_in_a_run(model)) not in self.prices:
                raise UsageError(
                    f"The budget limits the cost, and there is no price for the model {name!r} of "
                    f"{agent.config.name}. Pass prices={{{name!r}: {{'input': ..., 'output': ...}}}}, in "
                    "US dollars for a million tokens."
                )

    async def check_resumed(self, run: StoredRun) -> None:
        """Refuse a run that another engine began with what is not to be had here: a flow, a model, tools, a price."""
        self.flows.check(run)
        if GRAPH in run.settings:
            self._check_played(run)
            return
        model, budget = run.settings.get("model"), run.settings.get("budget")
        try:
            await self.mcp.open(run.flow, config_of(run))
            self.crew.check(config_of(run), None if self.mcp.knows_all else run.flow)
            if model is not None:
                await self._checked(model)
            if budget is not None:
                self.check_budget(Budget.of(budget), model)
        except UsageError as error:
            raise UsageError(
                f"The run {run.run_id} cannot go on here as it was begun. {error} Resume it in a workbench with the "
                "settings that it was begun with, or cancel it and ask again."
            ) from error

    def _check_played(self, run: StoredRun) -> None:
        """Refuse to go on with what another engine plays of a graph: the graph would run."""
        if run.mode == "replay" and self.deck.player(run.run_id) is None:
            raise UsageError(
                f"The run {run.run_id} was played from a cassette by another workbench, and cannot go on without that. "
                "Ask again in a workbench with replay=."
            )
