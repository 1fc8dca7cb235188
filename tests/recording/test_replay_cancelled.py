"""Runs that a click cancels at any of their events are recorded and played completely."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from flows.test_generate import Writer
from recording.test_replay_plan import CONFIG, plan_script, with_tools
from support.recorded_scenes import WAIT_S, Stage, jobs, play_both, searching, step_of, with_look
from support.replies import call

import artifactflow_nb as af
from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.engine.engine import max_running_runs
from artifactflow_nb.models.base import ModelRequest


@dataclass
class Clicks:
    """Approves every request at once, and cancels the run at event number `left`; 0 means never."""

    stage: Stage
    left: int
    working: set["asyncio.Task[None]"] = field(default_factory=set)

    def __call__(self, event: StreamEvent) -> None:
        self.left -= 1
        controller = self.stage.wb._thread.engine.controller
        if not self.left:
            self._do(controller.cancel(event.run_id, by_code=False))
        elif event.type is StreamEventType.PERMISSION_REQUEST:
            self._do(controller.decide(event.data["id"], Decision(approved=True, by_code=False)))

    def _do(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.working.add(task)
        task.add_done_callback(self.working.discard)


def researching(request: ModelRequest) -> Any:
    """Two jobs look up words at the same time and ask each time; then the lead asks twice in one reply."""
    if request.messages[1].content in {"a", "bb"}:
        return searching(request)
    both = call("look", word="c") + call("look", word="dd")
    return [jobs("a", "bb"), f"Now these. {both}", "Done."][min(step_of(request), 2)]


def composing(stage: Stage) -> dict[str, Any]:
    """Four blocks: two blocks are written at the same time, and one of the two blocks is reviewed."""
    project = stage.wb.projects.start("Essay", template="paper")
    for name, needs in (("A", []), ("B", ["A"]), ("C", ["A"]), ("D", ["B", "C"])):
        project.add(name, depends_on=needs, auto_generate=True, need_review=name == "B")
    block_ids = [project[name].block_id for name in "ABCD"]
    return {"conversation_id": project.conversation_id, "flow": "compose", "work": {"write": block_ids}}


Prepare = Callable[[Stage], dict[str, Any]]
FLOWS: dict[str, tuple[Any, Prepare, dict[str, Any]]] = {
    "research": (researching, lambda _: {}, {"setup": lambda wb: with_look(wb, permission="confirm")}),
    "plan": (plan_script, lambda _: {"flow": "plan"}, {"setup": with_tools, "graph_config": CONFIG}),
    "compose": ("", composing, {"agent_models": {"writer": Writer(0.002)}}),
}


def clicked_through(stage: Stage, flow: str, last: int) -> af.Run:
    """A run with a click for each request and, in a recording, a click that cancels the run at event `last`."""
    decider = FLOWS[flow][1](stage)
    controller, events, clicks = stage.wb._thread.engine.controller, list[StreamEvent](), Clicks(stage, last)

    async def begin() -> Any:
        stored = await controller.begin("What?", **decider)
        await controller.subscribe(stored.run_id, events.append)
        if not stage.is_played:
            await controller.subscribe(stored.run_id, clicks)
        await controller.start(stored)
        return stored

    run = stage.wb._handle(stage.wb._thread.call(begin()))
    stage.runs.append(run)
    stage.events.append(events)
    while run.wait(WAIT_S).status == "waiting":
        pass
    return run


@pytest.fixture(scope="module")
def n_events(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The number of events of each flow's run without a cancellation; the run is also played."""
    found = {}
    for flow, (script, _, options) in FLOWS.items():

        def scene(stage: Stage, flow: str = flow) -> tuple[Any, int]:
            return clicked_through(stage, flow, 0).status, len(stage.events[0])

        status, found[flow] = play_both(tmp_path_factory.mktemp(flow), scene, script, **options)
        assert status == "completed"
    return found


@pytest.mark.parametrize("part", [0.05, 0.25, 0.45, 0.65, 0.85])
@pytest.mark.parametrize("flow", FLOWS)
def test_run_can_be_cancelled_at_any_event(tmp_path: Path, n_events: dict[str, int], flow: str, part: float) -> None:
    """The replay has the same rows, events and views, cancelled in a request, between two requests or in a pause."""
    script, _, options = FLOWS[flow]

    def scene(stage: Stage) -> Any:
        return clicked_through(stage, flow, int(n_events[flow] * part)).status

    assert play_both(tmp_path, scene, script, **options) in {"cancelled", "completed"}


@pytest.mark.parametrize("decider", ["click", "code"])
def test_queued_run_can_be_cancelled(tmp_path: Path, decider: str) -> None:
    """The run has only the first and the terminal event."""

    def scene(stage: Stage) -> Any:
        controller = stage.wb._thread.engine.controller
        ramp = controller._engine.places_of_new_runs

        async def begin_and_end() -> None:
            for _ in range(0 if stage.is_played else max_running_runs()):
                await ramp.acquire()
            stored = await controller.begin("What?")
            await controller.start(stored)
            await controller.cancel(stored.run_id, by_code=decider == "code")
            for _ in range(0 if stage.is_played else max_running_runs()):
                ramp.release()

        if decider == "code" or not stage.is_played:
            stage.wb._thread.call(begin_and_end())
            stage.runs.append(stage.wb.run(stage.wb.runs_df()["run_id"][0]))
        else:
            stage.ask("What?").wait(WAIT_S)
            stage.events.clear()
        return stage.runs[0].status, len(stage.wb.events_df(stage.runs[0]))

    assert play_both(tmp_path, scene, lambda _: "Done.") == ("cancelled", 2)
