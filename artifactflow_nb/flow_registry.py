"""The flows of an engine by their names: the built-in ones, and graphs of a user's own."""

from collections.abc import Iterator, Mapping
from typing import Any

from artifactflow_nb.agents.planning import AGENT
from artifactflow_nb.checkpoints import Checkpoints
from artifactflow_nb.errors import UsageError
from artifactflow_nb.flows.adapted import AdaptedGraph
from artifactflow_nb.flows.adapted_flow import AdaptedFlow
from artifactflow_nb.flows.adapted_replay import PlayedFlow
from artifactflow_nb.flows.flow import Flow
from artifactflow_nb.flows.loop import LoopFlow
from artifactflow_nb.flows.plan import compile_plan
from artifactflow_nb.flows.research import ExtendableGraph
from artifactflow_nb.flows.state import PLAN, RESEARCH
from artifactflow_nb.recordings.graph_steps import GRAPH
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

    def open(self, research: ExtendableGraph) -> None:
        """Compile the built-in flows, now that there are checkpoints."""
        saver = self._checkpoints.saver
        self._built_in = {
            RESEARCH: LoopFlow(research.compile(saver), research.lead.config.name),
            PLAN: LoopFlow(compile_plan(saver), AGENT.name),
        }

    def register(self, name: str, adapted: AdaptedGraph) -> None:
        """Add a graph of a user's own, made with `adapt`; one that was added before may be defined anew.

        Errors: `UsageError` for something else, or the name of a built-in flow.
        """
        if not isinstance(adapted, AdaptedGraph):
            raise UsageError(f"{adapted!r} is no flow. Make one of a compiled LangGraph graph with af.adapt(graph).")
        if not isinstance(name, str) or not name.strip() or name in {RESEARCH, PLAN}:
            raise UsageError(f"A flow cannot be named {name!r}: choose a name that no built-in flow has.")
        self._own[name] = AdaptedFlow(adapted, lambda: self._checkpoints.saver)

    def play(self, name: str, described: Mapping[str, Any]) -> None:
        """Add a graph that is not here, of which recorded runs are played, and which was described so."""
        self._own[name] = PlayedFlow(described)

    def __getitem__(self, name: str) -> Flow:
        return self._built_in.get(name) or self._own[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._built_in, *self._own])

    def __len__(self) -> int:
        return len(self._built_in) + len(self._own)

    def own_choices(self, name: str, model: str | None = None, question: str | None = None) -> dict[str, Any]:
        """What a run of a graph of a user's own keeps of it, checked; nothing for a built-in flow.

        Args:
            name: The flow.
            model: The model that was chosen for the run: such a graph takes none.
            question: What is asked, if what the graph gets of it is kept too, because the run is recorded or played.
        """
        if (own := self._own.get(name)) is None:
            return {}
        if model is not None:
            raise UsageError(f"The flow {name!r} is a graph with models of its own; leave model={model!r} out.")
        return {GRAPH: own.described if question is None else {**own.described, "input": own.asked(question)}}

    def check(self, run: StoredRun) -> None:
        """Refuse a run whose graph is not here, or has other nodes by now; `UsageError` says what to do."""
        own, begun_with = self._own.get(run.flow), run.settings.get(GRAPH, {}).get("nodes")
        if run.flow not in self or (begun_with is not None and own is None):
            raise UsageError(
                f"The run {run.run_id} cannot go on here: its flow {run.flow!r} is a graph that is not registered. "
                f"Call wb.register_flow({run.flow!r}, af.adapt(graph)) with that graph, then go on."
            )
        if own is not None and (nodes := own.described["nodes"]) != begun_with:
            raise UsageError(
                f"The run {run.run_id} cannot go on with the graph that is registered as {run.flow!r}: it was begun "
                f"with the nodes {', '.join(begun_with or ())}, and this one has {', '.join(nodes)}. "
                "Register the graph that it was begun with, or cancel the run and ask again."
            )
