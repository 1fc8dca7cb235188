"""Flows of an engine by name: the built-in flows, and flow specs and graphs of users.

The name of a graph can be registered again for another graph; unfinished runs keep the graph with which they started.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from artifactflow_nb.agents.settings import GraphConfig
from artifactflow_nb.core.runs import GRAPH_SETTING, graph_differences
from artifactflow_nb.engine.checkpoints import Checkpoints
from artifactflow_nb.errors import UsageError, brief
from artifactflow_nb.flows.base import Flow, FlowSpec, OwnFlow
from artifactflow_nb.flows.loop import LoopFlow
from artifactflow_nb.flows.plan.spec import PLAN_FLOW
from artifactflow_nb.flows.research.spec import RESEARCH_FLOW
from artifactflow_nb.store.runs import StoredRun

BUILT_IN_FLOWS: dict[str, FlowSpec] = {flow.name: flow for flow in (RESEARCH_FLOW, PLAN_FLOW)}
"""The built-in flows by name. The first agent of the first flow is the lead: the agent that gets tools if no other
agent is named."""

DEFAULT_FLOW = RESEARCH_FLOW.name
"""The flow of a question that names no flow."""


def load_graph_config(
    source: str | Path | Mapping[str, Any] | None = None, flows: Mapping[str, FlowSpec] = BUILT_IN_FLOWS
) -> GraphConfig:
    """Load the configuration of flows; see `GraphConfig.load`."""
    return GraphConfig.load({name: node for flow in flows.values() for name, node in flow.nodes.items()}, source)


class _RegisteredFlow(NamedTuple):
    """A flow that a caller passed, with its fingerprint."""

    flow: Flow
    fingerprint: dict[str, Any]


class FlowRegistry(Mapping[str, Flow]):
    """Flows by name.

    Args:
        checkpoints: Store the positions of runs in their graphs.
        own_specs: Flow specs of the user.
        of_plugins: Flow specs of plugins.

    Attributes:
        own_specs: The argument `own_specs`.
        specs: All flow specs by name, the built-in flows first.

    Errors: `UsageError` for a value that is not a `FlowSpec`, and for a name of a flow, agent or node that is in use.
    """

    def __init__(
        self, checkpoints: Checkpoints, own_specs: Sequence[FlowSpec] = (), of_plugins: Sequence[FlowSpec] = ()
    ) -> None:
        self._checkpoints = checkpoints
        if not isinstance(own_specs, Iterable):
            raise UsageError(f"flows is {brief(own_specs)}; it must be a list of FlowSpec.")
        self.own_specs = tuple(own_specs)
        self.specs = dict(BUILT_IN_FLOWS)
        for flow in (*of_plugins, *self.own_specs):
            if not isinstance(flow, FlowSpec):
                raise UsageError(f"flows has the {type(flow).__name__} {brief(flow)}; each must be a FlowSpec.")
            used = {name for spec in self.specs.values() for name in spec.names_in_use}
            if repeated := [name for name in flow.names_in_use if name in used]:
                raise UsageError(f"The flow {flow.name!r} cannot be added: the name {repeated[0]!r} is in use.")
            self.specs[flow.name] = flow
        self._of_specs = {name: LoopFlow(flow, lambda: self._checkpoints.saver) for name, flow in self.specs.items()}
        self._own: dict[str, _RegisteredFlow] = {}
        self._of_runs: dict[str, Flow] = {}

    def register(self, name: str, own: OwnFlow) -> None:
        """Add the flow of a user, which replaces a flow of the same name.

        Errors: `UsageError` for a value that is not an `OwnFlow`, and for a name that a flow spec has.
        """
        self._own[self._checked(name)] = self._registered(own)

    def add(self, own: OwnFlow) -> str:
        """Add a flow under the name of the flow, and return the name; errors as for `register`.

        A default name gets a number if a flow with another fingerprint has the name already.
        """
        registered = self._registered(own)
        name, n = self._checked(own.name), 1
        while not own.has_explicit_name and name in self._own and self._own[name].fingerprint != registered.fingerprint:
            n += 1
            name = f"{own.name}_{n}"
        self._own[name] = registered
        return name

    def _registered(self, own: OwnFlow) -> _RegisteredFlow:
        if not isinstance(own, OwnFlow):
            advice = " Pass it to af.Workbench(flows=[...])." if isinstance(own, FlowSpec) else ""
            raise UsageError(
                "Pass the name of a flow, or af.adapt(graph) with a compiled LangGraph graph: a "
                f"{type(own).__name__} is neither.{advice}"
            )
        fingerprint = dict(own.fingerprint)  # read before the flow changes nodes of the graph
        return _RegisteredFlow(own.flow(lambda: self._checkpoints.saver), fingerprint)

    def _checked(self, name: str) -> str:
        if not isinstance(name, str) or not name.strip() or name in self.specs:
            raise UsageError(f"A flow cannot be named {brief(name)}. Pass a name with letters that no flow has.")
        return name

    def __getitem__(self, name: str) -> Flow:
        return self._of_specs.get(name) or self._own[name].flow

    def __iter__(self) -> Iterator[str]:
        return iter([*self._of_specs, *self._own])

    def __len__(self) -> int:
        return len(self._of_specs) + len(self._own)

    def require(self, name: str) -> Flow:
        """Return the flow of this name; `UsageError` with the known names for an unknown name."""
        if name not in self:
            raise UsageError(f"There is no flow {brief(name)}. Known: {', '.join(self)}.")
        return self[name]

    def pin(self, run_id: str, flow: Flow) -> None:
        """Bind a run to a flow, whichever flow gets the name later."""
        self._of_runs[run_id] = flow

    def is_pinned(self, run_id: str) -> bool:
        """Return whether a run is bound to its flow: the run was checked by this engine and has not ended."""
        return run_id in self._of_runs

    def for_run(self, run_id: str, name: str) -> Flow:
        """Return the flow to which a run is bound, or the current flow of this name."""
        return self._of_runs.setdefault(run_id, self[name])

    def release(self, run_id: str) -> None:
        """Release the flow of a finished run."""
        self._of_runs.pop(run_id, None)

    def graph_settings(self, name: str, model: str | None = None) -> dict[str, Any]:
        """Return the settings of a run that identify the graph of a user; empty for the flow of a flow spec.

        Errors: `UsageError` if `model` is set, since the graph of a user chooses its own models.
        """
        if (own := self._own.get(name)) is None:
            return {}
        if model is not None:
            raise UsageError(f"The flow {brief(name)} is a graph with its own models; remove model={brief(model)}.")
        return {GRAPH_SETTING: own.fingerprint}

    def check_available(self, run: StoredRun) -> None:
        """Raise `UsageError`, with the code that adds the flow, if the flow of a run is not available."""
        label = f"The flow {run.flow!r} of the run {run.run_id} is"
        if GRAPH_SETTING not in run.settings and run.flow not in self.specs:
            raise UsageError(f"{label} not available here. Pass its FlowSpec: af.Workbench(flows=[...]).")
        if GRAPH_SETTING in run.settings and run.flow not in self._own:
            raise UsageError(
                f"{label} a graph that is not registered here. "
                f"Call wb.register_flow({run.flow!r}, af.adapt(graph)) with that graph first."
            )

    def check(self, run: StoredRun) -> None:
        """Raise `UsageError` if the graph of a run is not registered, or differs from the registered graph."""
        self.check_available(run)
        own = self._own.get(run.flow)
        if own is not None and (differences := graph_differences(run.settings.get(GRAPH_SETTING), own.fingerprint)):
            raise UsageError(
                f"The run {run.run_id} started with another graph than the graph that is registered as {run.flow!r}: "
                f"{'; '.join(differences)}. Register the first graph, or cancel the run and ask again."
            )
