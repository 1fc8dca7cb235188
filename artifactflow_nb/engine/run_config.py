"""The settings of a run: checked before it is stored, and again before another engine continues it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from artifactflow_nb.agents.reviewer import Reviewer
from artifactflow_nb.agents.settings import GraphConfig
from artifactflow_nb.core.approvals import ApprovalPolicy
from artifactflow_nb.core.budget import Budget, Price
from artifactflow_nb.core.runs import CLARIFIES, CLARIFY_SETTING, DEPTH_SETTING, DEPTHS, GRAPH_SETTING, REVIEWER_SETTING
from artifactflow_nb.engine.agent_registry import AgentRegistry
from artifactflow_nb.engine.flow_registry import FlowRegistry, load_graph_config
from artifactflow_nb.engine.mcp_toolset import McpToolset
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.errors import UsageError
from artifactflow_nb.models.base import Model
from artifactflow_nb.models.offline.model import OfflineModel
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.store.runs import StoredRun
from artifactflow_nb.tools.lead import ask_person
from artifactflow_nb.tools.registry import ToolRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfigBuilder:
    """Checks the settings of runs against the flows, models, tools and prices of an engine."""

    settings: Settings
    graph_config: GraphConfig
    flows: FlowRegistry
    agent_registry: AgentRegistry
    tools: ToolRegistry
    mcp: McpToolset
    policy: ApprovalPolicy
    model: Model
    agent_models: Collection[str]
    prices: Mapping[str, Price]
    reviewer: Reviewer | None

    async def build(
        self, flow: str, budget: Budget | None, model: str | None, depth: str = "standard", clarify: str | None = None
    ) -> dict[str, Any]:
        """Check the options of a new run, and return its settings as JSON.

        They include the changes to the packaged configuration or, for an adapted graph, its fingerprint: the models are
        known to the graph only.
        """
        changes = self._changes_for(flow, depth)
        budget = budget or self.settings.budget
        limits = {} if budget is None else {"budget": budget.model_dump(exclude_none=True)}
        if fingerprint := self.flows.graph_settings(flow, model):
            return {**fingerprint, **limits}
        await self.mcp.open(flow)
        self.agent_registry.check(self.graph_config, None if self.mcp.is_fully_listed else flow)
        if self.mcp.is_fully_listed:
            self.policy.check_tools(entry.name for entry in self.tools)
        for name in self.agent_models:
            self.agent_registry.agent(name)
        if budget is not None:
            self.check_budget(budget, model)
        changed: dict[str, Any] = {"graph_config": changes} if changes else {}
        changed |= {} if depth == "standard" else {DEPTH_SETTING: depth}
        changed |= self._clarify_for(flow, depth, clarify)
        changed |= {} if self.reviewer is None else {REVIEWER_SETTING: self.reviewer.rules}
        if model is None:
            return {**limits, **changed}
        await self._check_model(model)
        return {**limits, "model": model, **changed}

    def _changes_for(self, flow: str, depth: str) -> dict[str, Any]:
        """Return the configuration changes of a run of this depth; `UsageError` for an unknown depth."""
        if depth not in DEPTHS:
            raise UsageError(f"depth is {depth!r}; it must be one of {', '.join(map(repr, DEPTHS))}.")
        if depth == "standard":
            return self.graph_config.changed
        spec = self.flows.specs.get(flow)
        if spec is None or not spec.depths:
            raise UsageError(f"Runs of the flow {flow!r} have no depth; remove depth={depth!r}.")
        merged = {name: dict(values) for name, values in spec.depths[depth].items()}
        for name, values in self.graph_config.changed.items():
            merged[name] = {**merged.get(name, {}), **values}
        return load_graph_config(merged, self.flows.specs).changed

    def _clarify_for(self, flow: str, depth: str, clarify: str | None) -> dict[str, str]:
        """Return the setting `clarify` of a run whose flow can ask the person before research; empty for other flows.

        A quick run asks only with `always`. The offline model never asks.
        """
        if clarify not in {None, *CLARIFIES}:
            raise UsageError(f"clarify is {clarify!r}; it must be one of {', '.join(map(repr, CLARIFIES))}.")
        asking = [
            agent for agent in self.agent_registry.agents_of_flow(flow).values() if ask_person.name in agent.tool_names
        ]
        if clarify == "always" and not asking:
            raise UsageError(f"The flow {flow!r} has no agent that can ask the person; remove clarify='always'.")
        chosen = clarify or self.settings.clarify
        is_left_out = chosen == "never" or (chosen == "auto" and depth == "quick")
        if is_left_out or not asking or isinstance(asking[0].model, OfflineModel):
            return {}
        return {CLARIFY_SETTING: chosen}

    async def _check_model(self, model: str) -> None:
        """Raise `UsageError` for an unknown model; names at an endpoint are checked by the endpoint."""
        if not isinstance(model, str) or not model.strip():
            raise UsageError(f"model is {model!r}; for one run it must be a model's name at the endpoint.")
        if not isinstance(self.model, OpenAIModel) and model not in (known := await self.model.list_models()):
            raise UsageError(f"There is no model {model!r}. Known: {', '.join(known)}.")

    def check_budget(self, budget: Budget, model: str | None) -> None:
        """Raise `UsageError` for a cost limit if a model has no price: the limit would never be reached."""
        for agent in self.agent_registry.agents.values() if budget.usd is not None else ():
            if (name := agent.model_for_run(model)) not in self.prices:
                raise UsageError(
                    f"The budget limits the cost, and there is no price for the model {name!r} of "
                    f"{agent.config.name}. Pass prices={{{name!r}: {{'input': ..., 'output': ...}}}}, in "
                    "US dollars for a million tokens."
                )

    async def check_resume(self, run: StoredRun) -> None:
        """Raise `UsageError` for a run whose flow, model, tools or prices are not available in this engine."""
        self.flows.check(run)
        if GRAPH_SETTING in run.settings:
            return
        model, budget = run.settings.get("model"), run.settings.get("budget")
        try:
            config = load_graph_config(run.settings.get("graph_config"), self.flows.specs)
            await self.mcp.open(run.flow, config)
            self.agent_registry.check(config, None if self.mcp.is_fully_listed else run.flow)
            if model is not None:
                await self._check_model(model)
            if budget is not None:
                self.check_budget(Budget.from_limits(budget), model)
        except UsageError as error:
            raise UsageError(
                f"The run {run.run_id} cannot continue here with its settings. {error} Resume it in a workbench with "
                "the settings with which it started, or cancel it and ask again."
            ) from error
