"""The flows of an engine by their names: the built-in ones, and graphs of a user's own.

A name may pass to another graph while runs of the earlier one are open: these keep the graph that they were begun with.
"""

from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any

from artifactflow_nb.agents.composing import COMPOSER
from artifactflow_nb.agents.planning import AGENT
from artifactflow_nb.checkpoints import Checkpoints
from artifactflow_nb.errors import UsageError
from artifactflow_nb.flows.adapted import AdaptedGraph, History
from artifactflow_nb.flows.adapted_flow import AdaptedFlow
from artifactflow_nb.flows.adapted_replay import PlayedFlow
from artifactflow_nb.flows.compose import ComposeFlow, compile_compose
from artifactflow_nb.flows.flow import Flow
from artifactflow_nb.flows.loop import LoopFlow
from artifactflow_nb.flows.plan import compile_plan
from artifactflow_nb.flows.research import ExtendableGraph
from artifactflow_nb.flows.state import COMPOSE, PLAN, RESEARCH
from artifactflow_nb.recordings.graph_steps import GRAPH
from artifactflow_nb.recordings.misses import told_of_graph
from artifactflow_nb.store.runs import StoredRun


class FlowRegistry(Mapping[str, Flow]):
    """Flows by name.

    Args:
        checkpoints: What graphs keep their program counters in; needed from `open` on.
    """

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self._built_in: dict[str, Flow] = {}
        self._own: dict[str, AdaptedFlow | PlayedFlow] = {}
        self._of_runs: dict[str, Flow] = {}

    def open(self, research: ExtendableGraph) -> None:
        """Make the built-in flows, now that there are checkpoints."""
        saver = self._checkpoints.saver
        self._built_in = {
            RESEARCH: LoopFlow(cache(partial(research.compile, saver)), research.lead.config.name),
            PLAN: LoopFlow(cache(partial(compile_plan, saver)), AGENT.name),
            COMPOSE: ComposeFlow(cache(partial(compile_compose, saver)), COMPOSER.name),
        }

    def register(self, name: str, adapted: AdaptedGraph) -> None:
        """Add a graph of a user's own, made with `adapt`; one that was added before may be defined anew.

        Errors: `UsageError` for something else, or the name of a built-in flow.
        """
        self._own[self._checked(name)] = self._flow(adapted)

    def add(self, adapted: AdaptedGraph) -> str:
        """Add a graph under its own name, and return that; errors as for `register`.

        Nobody chose the name of a graph without one: where it is that of a graph which differs, it gets a number.
        """
        flow = self._flow(adapted)
        name, n = self._checked(adapted.name), 1
        while not adapted.is_named and name in self._own and self._own[name].described != flow.described:
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
        if not isinstance(name, str) or not name.strip() or name in {RESEARCH, PLAN, COMPOSE}:
            raise UsageError(f"A flow cannot be named {name!r}: choose a name that no built-in flow has.")
        return name

    def play(self, name: str, described: Mapping[str, Any]) -> None:
        """Add a graph that is not here, of which recorded runs are played, and which was described so."""
        self._own[name] = PlayedFlow(described)

    def __getitem__(self, name: str) -> Flow:
        return self._built_in.get(name) or self._own[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._built_in, *self._own])

    def __len__(self) -> int:
        return len(self._built_in) + len(self._own)

    def keep(self, run_id: str, flow: Flow) -> None:
        """Let a run that was begun here keep its flow, whatever its name comes to mean."""
        self._of_runs[run_id] = flow

    def of_run(self, run: StoredRun) -> Flow:
        """The flow of a run: the one that it has kept, or, if it was begun elsewhere, has from now on by its name."""
        return self._of_runs.setdefault(run.run_id, self[run.flow])

    def let_go(self, run_id: str) -> None:
        """Forget what a run kept, now that it is over."""
        self._of_runs.pop(run_id, None)

    def own_choices(self, name: str, model: str | None = None) -> dict[str, Any]:
        """What a run of a graph of a user's own keeps of it, checked; nothing for a built-in flow.

        Args:
            name: The flow.
            model: The model that was chosen for the run: such a graph takes none.
        """
        if (own := self._own.get(name)) is None:
            return {}
        if model is not None:
            raise UsageError(f"The flow {name!r} is a graph with models of its own; leave model={model!r} out.")
        return {GRAPH: dict(own.described)}

    def asked(self, name: str, question: str, history: History) -> Any:
        """What a graph of a user's own gets of a question, as JSON."""
        return self._own[name].asked(question, history)

    def check_is_here(self, run: StoredRun) -> None:
        """Refuse a run whose graph is not here; `UsageError` says how to register it."""
        if run.flow not in self or (GRAPH in run.settings and run.flow not in self._own):
            raise UsageError(
                f"The flow {run.flow!r} of the run {run.run_id} is a graph that is not registered here. "
                f"Call wb.register_flow({run.flow!r}, af.adapt(graph)) with that graph first."
            )

    def check(self, run: StoredRun) -> None:
        """Refuse a run whose graph is not here, or another one by now; `UsageError` says what to do."""
        if run.run_id in self._of_runs:
            return
        self.check_is_here(run)
        own = self._own.get(run.flow)
        if own is not None and (found := told_of_graph(run.settings.get(GRAPH), own.described)):
            raise UsageError(
                f"The run {run.run_id} cannot go on with the graph that is registered as {run.flow!r}, since that is "
                f"not the one that it was begun with: {'; '.join(found)}. "
                "Register the graph that it was begun with, or cancel the run and ask again."
            )
