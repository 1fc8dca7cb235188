"""The settings of a run: checked before the run is stored, and again before another engine continues the run."""

from collections.abc import Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from artifactflow_nb.core.budget import Budget
from artifactflow_nb.core.runs import (
    CLARIFIES,
    CLARIFY_SETTING,
    DEPTH_SETTING,
    DEPTHS,
    GRAPH_SETTING,
    REVIEWER_SETTING,
    VARIATION_SETTING,
)
from artifactflow_nb.engine.flow_registry import load_graph_config
from artifactflow_nb.engine.folder_file import store_problem
from artifactflow_nb.engine.manifest import model_origin
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.models.offline.model import OfflineModel
from artifactflow_nb.models.openai.client import OpenAIModel
from artifactflow_nb.store.encoding import storable_json
from artifactflow_nb.store.provenance import load_manifest
from artifactflow_nb.store.runs import StoredRun
from artifactflow_nb.tools.lead import ask_person

if TYPE_CHECKING:
    from artifactflow_nb.engine.engine import Engine


class RunConfigBuilder:
    """Checks the settings of runs against the flows, models, tools and prices of an engine."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine

    async def build(
        self,
        flow: str,
        budget: Budget | None,
        model: str | None,
        depth: str = "standard",
        clarify: str | None = None,
        variation: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Check the options of a new run, and return its settings as JSON.

        The settings include the changes to the packaged configuration. For an adapted graph, the settings include the
        fingerprint of the graph, since only the graph knows its models.
        """
        variation = storable_json(dict(variation or {}))
        changes = self._changes_for(flow, depth, variation)
        budget = budget or self._engine.settings.budget
        limits = {} if budget is None else {"budget": budget.model_dump(exclude_none=True)}
        if fingerprint := self._engine.flows.graph_settings(flow, model):
            return {**fingerprint, **limits}
        await self._engine.mcp.open(flow)
        self._engine.agent_registry.check(self._engine.graph_config, None if self._engine.mcp.is_fully_listed else flow)
        if self._engine.mcp.is_fully_listed:
            self._engine.policy.check_tools(entry.name for entry in self._engine.tools)
        for name in self._engine.agent_models:
            self._engine.agent_registry.agent(name)
        if budget is not None:
            self.check_budget(budget, model)
        changed: dict[str, Any] = {"graph_config": changes} if changes else {}
        changed |= {} if depth == "standard" else {DEPTH_SETTING: depth}
        changed |= {VARIATION_SETTING: variation} if variation else {}
        changed |= self._clarify_for(flow, depth, clarify)
        changed |= {} if self._engine.reviewer is None else {REVIEWER_SETTING: self._engine.reviewer.rules}
        if model is None:
            return {**limits, **changed}
        await self._check_model(model)
        return {**limits, "model": model, **changed}

    def _changes_for(self, flow: str, depth: str, variation: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration changes of a run of this depth; `UsageError` for an unknown depth or node."""
        if not isinstance(depth, str) or depth not in DEPTHS:
            raise UsageError(f"depth is {brief(depth)}; it must be one of {', '.join(map(repr, DEPTHS))}.")
        if depth == "standard" and not variation:
            return self._engine.graph_config.changed
        spec, specs = self._engine.flows.specs.get(flow), self._engine.flows.specs
        if spec is None:
            raise UsageError(
                f"The flow {brief(flow)} is your own graph: depth, seed, prompts and graph_config are its own."
            )
        if depth != "standard" and not spec.depths:
            raise UsageError(f"Runs of the flow {brief(flow)} have no depth; remove depth={brief(depth)}.")
        merged = {name: dict(values) for name, values in (spec.depths[depth] if depth != "standard" else {}).items()}
        own = load_graph_config(variation.get("graph_config"), specs).changed
        prompts, seed = variation.get("prompts", {}), variation.get("seed")
        if not isinstance(prompts, Mapping) or isinstance(seed, bool) or not isinstance(seed, int | None):
            raise UsageError(
                f"prompts is {brief(prompts)} and seed {brief(seed)}; prompts are texts by agent, seed a whole number."
            )
        texts = {name: {"prompt": text} for name, text in prompts.items()}
        for name, values in chain(self._engine.graph_config.changed.items(), own.items(), texts.items()):
            merged[name] = {**merged.get(name, {}), **values}
        config = load_graph_config(merged, specs)
        if seed is None:
            return config.changed
        for name in self._engine.agent_registry.agents_of_flow(flow).keys() & config.nodes.keys():
            merged[name] = {
                **merged.get(name, {}),
                "extra_body": {**getattr(config.nodes[name], "extra_body", {}), "seed": seed},
            }
        return load_graph_config(merged, specs).changed

    def _clarify_for(self, flow: str, depth: str, clarify: str | None) -> dict[str, str]:
        """Return the setting `clarify` of a run if the flow can ask the person before research; empty for other flows.

        A quick run asks only with `always`. The offline model never asks.
        """
        if clarify is not None and (not isinstance(clarify, str) or clarify not in CLARIFIES):
            raise UsageError(f"clarify is {brief(clarify)}; it must be one of {', '.join(map(repr, CLARIFIES))}.")
        agents = self._engine.agent_registry.agents_of_flow(flow)
        asking = [agent for agent in agents.values() if ask_person.name in agent.tool_names]
        if clarify == "always" and not asking:
            raise UsageError(f"The flow {brief(flow)} has no agent that can ask the person; remove clarify='always'.")
        chosen = clarify or self._engine.settings.clarify
        is_left_out = chosen == "never" or (chosen == "auto" and depth == "quick")
        if is_left_out or not asking or isinstance(asking[0].model, OfflineModel):
            return {}
        return {CLARIFY_SETTING: chosen}

    async def _check_model(self, model: str) -> None:
        """Raise `UsageError` for an unknown model; names at an endpoint are checked by the endpoint."""
        if not isinstance(model, str) or not model.strip():
            raise UsageError(f"model is {brief(model)}; for one run it must be a model's name at the endpoint.")
        own = self._engine.model
        if isinstance(own, OpenAIModel) and model == OfflineModel.default_model:
            raise UsageError(
                f"{model!r} is the model without an endpoint, and this workbench would send the question to "
                f"{own.endpoint}. Ask in another workbench: af.Workbench(model=af.OfflineModel())."
            )
        if not isinstance(own, OpenAIModel) and model not in (names := await own.list_models()):
            raise UsageError(f"There is no model {brief(model)}. Known: {', '.join(names)}.")

    def check_budget(self, budget: Budget, model: str | None) -> None:
        """Raise `UsageError` for a cost limit if a model has no price: the limit would never be reached."""
        for agent in self._engine.agent_registry.agents.values() if budget.usd is not None else ():
            if (name := agent.model_for_run(model)) not in self._engine.prices:
                raise UsageError(
                    f"The budget limits the cost, and there is no price for the model {brief(name)} of "
                    f"{agent.config.name}. Pass prices={{{brief(name)}: {{'input': ..., 'output': ...}}}}, in "
                    "US dollars for a million tokens."
                )

    async def check_models(self, run: StoredRun, *, may_be_better: bool = False) -> None:
        """Raise `UsageError` unless the agents have the models with which the run started, at the same endpoints.

        With `may_be_better`, any model may follow the offline model.
        """
        if GRAPH_SETTING in run.settings or run.flow not in self._engine.flows.specs:
            return
        config = load_graph_config(run.settings.get("graph_config"), self._engine.flows.specs)
        agents = self._engine.agent_registry.agents_of_flow(run.flow, config)
        manifest = await self._engine.database.read(partial(load_manifest, run_id=run.run_id))
        entries = manifest.get("agents", {})
        for name, agent in agents.items():
            entry = entries.get(name, {})
            if not entry or (may_be_better and entry.get("provider") == OfflineModel.provider):
                continue
            pinned = {key: entry[key] for key in ("provider", "endpoint", "model") if key in entry}
            present = {**model_origin(agent), "model": agent.model_for_run(run.settings.get("model"))}
            if pinned != present:
                raise UsageError(
                    f"The run {run.run_id} was started with the model {_model_label(pinned)} for {name}, and here "
                    f"{name} has {_model_label(present)}."
                )

    async def check_resume(self, run: StoredRun, *, keeps_models: bool = True) -> None:
        """Raise `UsageError` for a run whose flow, model, tools or prices are not available in this engine.

        A run that this engine has checked already is not checked again: an engine keeps flows, tools and models.
        """
        if self._engine.flows.is_pinned(run.run_id):
            return
        self._engine.flows.check(run)
        if (since := self._engine.grants_count_since()) is not None and run.started_at < since:
            raise UsageError(store_problem(self._engine.settings.data_dir))
        if GRAPH_SETTING in run.settings:
            return
        model, budget = run.settings.get("model"), run.settings.get("budget")
        try:
            config = load_graph_config(run.settings.get("graph_config"), self._engine.flows.specs)
            await self._engine.mcp.open(run.flow, config)
            self._engine.agent_registry.check(config, None if self._engine.mcp.is_fully_listed else run.flow)
            if model is not None:
                await self._check_model(model)
            if budget is not None:
                self.check_budget(Budget.from_limits(budget), model)
            if keeps_models:
                await self.check_models(run)
        except UsageError as error:
            raise UsageError(
                f"The run {run.run_id} cannot continue here with its settings. {error} Resume the run in a workbench "
                "with the settings with which the run started, or cancel the run and ask again."
            ) from error


def _model_label(model: Mapping[str, str]) -> str:
    """Name a model and its endpoint; a model that has no endpoint is named with its provider."""
    return f"{model.get('model')} ({model.get('endpoint') or model.get('provider')})"
