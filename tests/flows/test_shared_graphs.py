"""The graphs of the built-in flows are compiled once per process, and engines share nothing else."""

import asyncio
import gc
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from conftest import OpenEngine
from langgraph.checkpoint.memory import InMemorySaver
from support.replies import by_agent, delegate, plan, report, requesting_agent

from artifactflow_nb.engine.controller import ExecutionController
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.flow_registry import BUILT_IN_FLOWS
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.errors import UsageError
from artifactflow_nb.flows.research.spec import ExtendableGraph
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel

AT_ONCE = 4


async def test_engines_share_graphs_and_not_checkpoints(open_engine: OpenEngine, tmp_path: Path) -> None:
    """Two engines run the same nodes of each built-in flow, each with its own checkpoints."""
    first, second = await open_engine(), await open_engine(folder=tmp_path / "other")
    assert set(first.flows) == {*BUILT_IN_FLOWS, "compose", "judge"}
    for name in first.flows:
        savers = [engine.flows[name].saver() for engine in (first, second)]  # type: ignore[attr-defined]
        assert savers == [engine.checkpoints.saver for engine in (first, second)]
        assert first.flows.specs[name].graph() is second.flows.specs[name].graph()
        assert first.flows.specs[name].graph().checkpointer is None


async def test_interrupt_before_does_not_affect_shared_graphs(open_engine: OpenEngine) -> None:
    """A research graph with `interrupt_before` leaves engines unaffected; unknown nodes are rejected."""
    engine = await open_engine([report(), "Done."])
    graph, saver = ExtendableGraph(engine.lead, {}), engine.checkpoints.saver
    assert graph.compile(saver, interrupt_before=["tools"]).interrupt_before_nodes == ["tools"]
    with pytest.raises(ValueError, match="kitchen"):
        graph.compile(saver, interrupt_before=["kitchen"])
    assert (await engine.controller.execute("Go.")).response == "Done."


def run_both_flows(folder: Path, name: str, all_there: Barrier) -> tuple[list[str], set[str], list[str]]:
    """Run both flows in an event loop of their own; return the answers and the threads of checkpoints and runs."""
    plans = by_agent(agent=[plan(name), f"{name} planned."], executor=[f"{name} done."], summarizer=["Sum."])

    def turn(request: ModelRequest) -> object:
        match requesting_agent(request):
            case "lead":
                return report(name) if len(request.messages) > 2 else delegate("search_agent", name)
            case "search":
                return f"{name} found."
            case _:
                return plans(request)

    async def work() -> tuple[list[str], set[str], list[str]]:
        settings = Settings.load(data_dir=folder / name)
        async with Engine(settings, model=ScriptedModel(turn), approvals={"create_artifact": "ask"}) as engine:
            all_there.wait(60)
            waiting = await engine.controller.execute("Ask.")
            planned = await engine.controller.execute("Plan.", flow="plan")
            answers = [waiting.pending[0].params["content"], planned.response]
            runs = [(await engine.runs.get(run.run_id)).thread_id for run in (waiting, planned)]
            return answers, await engine.checkpoints.saver.thread_ids(), runs

    return asyncio.run(work())


def test_engines_in_threads_are_independent(tmp_path: Path) -> None:
    """Engines in parallel threads keep their answers and checkpoints apart."""
    names = [f"Engine {n}" for n in range(AT_ONCE)]
    all_there = Barrier(AT_ONCE)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ended = list(pool.map(lambda name: run_both_flows(tmp_path, name, all_there), names))
    for name, (answers, threads, (waiting, _)) in zip(names, ended, strict=True):
        assert answers == [name, f"{name} planned."]
        assert threads == {waiting}


async def test_closed_engine_is_garbage_collected(tmp_path: Path) -> None:
    """The shared graphs hold no reference to an engine or its checkpoints."""
    engine = Engine(Settings.load(data_dir=tmp_path), model=ScriptedModel(lambda _request: "Done."))
    async with engine:
        for flow in ("research", "plan"):
            assert (await engine.controller.execute("Go.", flow=flow)).response == "Done."
    references = [
        weakref.ref(target) for target in (engine, engine.checkpoints.saver, engine.database, engine.controller)
    ]
    del engine
    gc.collect()
    assert [target() for target in references] == [None] * len(references)


async def test_graph_and_controller_say_that_they_need_an_engine() -> None:
    graph = ExtendableGraph().compile(InMemorySaver())
    with pytest.raises(UsageError, match=r"engine\.controller\.execute"):
        await graph.ainvoke({"messages": []}, {"configurable": {"thread_id": "1"}})  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="A CompiledStateGraph is no engine"):
        ExecutionController(graph)  # type: ignore[arg-type]
