"""Flows of an engine by name: the built-in ones, and adapted graphs of users.

A name can be registered again for another graph; unfinished runs keep the graph with which they started.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from artifactflow_nb.agents.settings import GraphConfig
from artifactflow_nb.core.runs import GRAPH_SETTING
from artifactflow_nb.engine.checkpoints import Checkpoints
from artifactflow_nb.errors import UsageError
from artifactflow_nb.flows.base import Flow, FlowSpec
from artifactflow_nb.flows.compose.spec import COMPOSE_FLOW
from artifactflow_nb.flows.langgraph.adapt import AdaptedGraph
from artifactflow_nb.flows.langgraph.fingerprint import graph_differences
from artifactflow_nb.flows.langgraph.flow import AdaptedFlow
from artifactflow_nb.flows.loop import LoopFlow
from artifactflow_nb.flows.plan.spec import PLAN_FLOW
from artifactflow_nb.flows.research.spec import RESEARCH_FLOW
from artifactflow_nb.store.runs import StoredRun

BUILT_IN_FLOWS: dict[str, FlowSpec] = {flow.name: flow for flow in (RESEARCH_FLOW, PLAN_FLOW, COMPOSE_FLOW)}
"""The built-in flows by name. The first agent of the first flow is the lead: the agent that tools are offered to if no
other is named."""

DEFAULT_FLOW = RESEARCH_FLOW.name
"""The flow of a question that names none."""


def load_graph_config(source: str | Path | Mapping[str, Any] | None = None) -> GraphConfig:
    """Load the configuration of the built-in flows; see `GraphConfig.load`."""
    return GraphConfig.load(
        {name: node for flow in BUILT_IN_FLOWS.values() for name, node in flow.nodes.items()}, source
    )


class FlowRegistry(Mapping[str, Flow]):
    """Flows by name. `checkpoints` store the positions of runs in their graphs and exist from `open` on."""

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self._built_in: dict[str, Flow] = {}
        self._own: dict[str, AdaptedFlow] = {}
        self._of_runs: dict[str, Flow] = {}

    def open(self) -> None:
        """Create the built-in flows, which need the checkpoints."""
        self._built_in = {
            name: LoopFlow(flow, lambda: self._checkpoints.saver) for name, flow in BUILT_IN_FLOWS.items()
        }

    def register(self, name: str, adapted: AdaptedGraph) -> None:
        """Add an adapted graph, or replace one of the same name.

        Errors: `UsageError` for another type of value, or the name of a built-in flow.
        """
        self._own[self._checked(name)] = self._flow(adapted)

    def add(self, adapted: AdaptedGraph) -> str:
        """Add a graph under its own name, and return the name; errors as for `register`.

        A default name gets a number if a different graph has it already.
        """
        flow = self._flow(adapted)
        name, n = self._checked(adapted.name), 1
        while not adapted.has_explicit_name and name in self._own and self._own[name].fingerprint != flow.fingerprint:
            n += 1
            name = f"{adapted.name}_{n}"
        self._own[name] = flow
        return name

    def _flow(self, adapted: AdaptedGraph) -> AdaptedFlow:
        if not isinstance(adapted, AdaptedGraph):
            raise UsageError(
                "Pass af.adapt(graph), made of a compiled LangGraph graph, or the name of a flow: a "
                f"{type(adapted).__name__} is neither."
            )
        return AdaptedFlow(adapted, lambda: self._checkpoints.saver)

    def _checked(self, name: str) -> str:
        if not isinstance(name, str) or not name.strip() or name in BUILT_IN_FLOWS:
            raise UsageError(f"A flow cannot be named {name!r}: choose a name that no built-in flow has.")
        return name

    def __getitem__(self, name: str) -> Flow:
        return self._built_in.get(name) or self._own[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._built_in, *self._own])

    def __len__(self) -> int:
        return len(self._built_in) + len(self._own)

    def require(self, name: str) -> Flow:
        """Return the flow of this name; `UsageError` with the known names if there is none."""
        if name not in self:
            raise UsageError(f"There is no flow {name!r}; known are: {', '.join(self)}.")
        return self[name]

    def pin(self, run_id: str, flow: Flow) -> None:
        """Bind a run to its flow, whichever flow gets the name later."""
        self._of_runs[run_id] = flow

    def for_run(self, run_id: str, name: str) -> Flow:
        """Return the flow to which a run is bound; by default the current flow of its name."""
        return self._of_runs.setdefault(run_id, self[name])

    def release(self, run_id: str) -> None:
        """Release the flow of a finished run."""
        self._of_runs.pop(run_id, None)

    def graph_settings(self, name: str, model: str | None = None) -> dict[str, Any]:
        """Return the settings of a run that identify its adapted graph; empty for a built-in flow.

        Errors: `UsageError` if `model` is set, since an adapted graph chooses its own models.
        """
        if (own := self._own.get(name)) is None:
            return {}
        if model is not None:
            raise UsageError(f"The flow {name!r} is a graph with models of its own; leave model={model!r} out.")
        return {GRAPH_SETTING: dict(own.fingerprint)}

    def check_available(self, run: StoredRun) -> None:
        """Raise `UsageError`, with the code that registers it, if the graph of a run is not registered."""
        if run.flow not in self or (GRAPH_SETTING in run.settings and run.flow not in self._own):
            raise UsageError(
                f"The flow {run.flow!r} of the run {run.run_id} is a graph that is not registered here. "
                f"Call wb.register_flow({run.flow!r}, af.adapt(graph)) with that graph first."
            )

    def check(self, run: StoredRun) -> None:
        """Raise `UsageError` if the graph of a run is not registered, or differs from the registered one."""
        if run.run_id in self._of_runs:
            return
        self.check_available(run)
        own = self._own.get(run.flow)
        if own is not None and (differences := graph_differences(run.settings.get(GRAPH_SETTING), own.fingerprint)):
            raise UsageError(
                f"The run {run.run_id} cannot continue: the graph that is registered as {run.flow!r} is not the one of "
                f"its start: {'; '.join(differences)}. Register the graph of its start, or cancel the run and ask "
                "again."
            )
