"""Kill recording processes at random times and let others finish: `killed_recording.py FOLDER SEED NUMBER FLOW`.

Each process is a forked child: one records until it is killed or closes its workbench, one finishes the run, one plays
the cassette and compares. A JSON line lists the differences of each run.
"""

import asyncio
import json
import os
import pickle
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # a script's own folder is on the path, the tests' is not

from recording.busy_graph import BUSY, busy
from support.recorded_scenes import FRAMES, Uneven, assert_equal_results, open_scene, rows, step_of
from support.replies import call, delegate, report, requesting_agent

import artifactflow_nb as af
from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.errors import ContextOverflow
from artifactflow_nb.models.base import ModelDelta, ModelEvent, ModelRequest, RetryNotice
from artifactflow_nb.tools.base import ToolContext

QUESTION = "What?"
ABOUT = ("seq", "event_type", "job_id", "step", "tool_name", "title")
Work = Callable[[Path, int, str], None]
ASKED: dict[str, Any] = {"approvals": {"rewrite_artifact": "ask", "put": "ask"}, "interactive": False}


class Faulty(Uneven):
    """A model with streams that break off and are retried; some prompts are refused as too long."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        is_search = requesting_agent(request) != "lead"
        if is_search and step_of(request) == 1 and len(str(request.messages)) > 11_000:
            await asyncio.sleep(0.01)
            raise ContextOverflow("Too long.")
        if is_search and self._random.random() < 0.4:
            for word in ("Half ", "a ", "text"):
                yield ModelDelta(word)
                await asyncio.sleep(0.004)
            yield RetryNotice(1, 0.01, "It broke.")
            await asyncio.sleep(0.01)
        async for event in super().stream(request):
            yield event


def script(request: ModelRequest) -> Any:
    """A plan, three jobs at once, a report that a person is asked about twice, an answer."""
    step = step_of(request)
    if requesting_agent(request) != "lead":
        word = request.messages[1].content
        looks = call("look", word=word) + call("put", word=word)
        return [f"Looking for {word}. {looks}", call("look", word=word), "Found. " * 9][min(step, 2)]
    jobs = "".join(delegate("search_agent", word) for word in ("apples", "pears", "figs"))
    plan = report("- [ ] look", "task_plan")
    rewrite = call("rewrite_artifact", id="research_report", content="Better.")
    return [plan + jobs, report() + call("look", word="x"), rewrite + report("New.", "other"), "Done. " * 30][step]


def with_tools(wb: af.Workbench) -> None:
    """Register two slow tools; one tool may be run again."""

    @wb.tool(agent="search_agent", idempotent=True)
    async def look(ctx: ToolContext, word: str) -> str:
        """Look a word up."""
        await asyncio.sleep(0.005)
        ctx.notify("step_start", {"word": word})
        await asyncio.sleep(0.005)
        return f"{word}, seen at {ctx.now.isoformat()} " + "and so on " * 400

    @wb.tool(agent="search_agent")
    async def put(ctx: ToolContext, word: str) -> str:
        """Put a word somewhere."""
        await asyncio.sleep(0.005)
        return word

    wb.tool(look, agent="lead_agent")


def workbench(folder: Path, seed: int, flow: str) -> af.Workbench:
    setup = with_tools if flow == "research" else with_graph(seed)
    return open_scene(folder, model=Faulty(script, seed), record=folder / "c.jsonl", setup=setup, **ASKED)


def with_graph(seed: int, *, is_played: bool = False) -> Callable[[af.Workbench], None]:
    return lambda wb: wb.register_flow(BUSY, busy(seed, is_played=is_played))


def click_through(run: af.Run, seconds: float = 20, enough: Callable[[], bool] = lambda: False) -> None:
    """Decide open requests as clicks do, until the run ends, the time is over, or `enough` returns true."""
    until = time.monotonic() + seconds
    while run.status in {"running", "waiting"} and time.monotonic() < until and not enough():
        for request in run.pending:
            run._client._thread.call(run._client.decide(request.id, Decision(approved=True)))
        time.sleep(0.002)


def record(folder: Path, seed: int, flow: str) -> None:
    with workbench(folder, seed, flow) as wb:
        run = wb.ask(QUESTION, flow=flow)
        (folder / "started").write_text(run.run_id)
        click_through(run)
        (folder / "over").touch()


def close_after(seconds: float) -> Work:
    def work(folder: Path, seed: int, flow: str) -> None:
        with workbench(folder, seed, flow) as wb:
            run = wb.ask(QUESTION, flow=flow)
            (folder / "started").write_text(run.run_id)
            click_through(run, seconds)

    return work


def finish(folder: Path, seed: int, flow: str) -> None:
    """Finish the run and store its visible results."""
    with workbench(folder, seed + 1, flow) as wb:
        run = wb.run((folder / "started").read_text())
        if run.status == "abandoned" or (run.status == "waiting" and not run.pending):
            (folder / "resumed").touch()
            run.resume()
        click_through(run)
        (folder / "results").write_bytes(pickle.dumps(stored_state(wb, run)))


def play(folder: Path, seed: int, flow: str) -> None:
    """Play the recording and write a file with the differences, if there are any."""
    setup = with_tools if flow == "research" else with_graph(seed, is_played=True)
    with open_scene(folder, replay=folder / "c.jsonl", setup=setup, **ASKED) as wb:
        run = wb.ask(QUESTION, flow=flow).wait(20)
        now, recorded = stored_state(wb, run), pickle.loads((folder / "results").read_bytes())  # noqa: S301 - just written here
        try:
            assert_equal_results(now, recorded)
        except AssertionError:
            (folder / "differs").write_text("\n".join(differing_rows(now, recorded)) or "what is shown, or a frame")


def differing_rows(now: dict[str, Any], recorded: dict[str, Any]) -> Iterator[str]:
    """A line for each value that differs, which says more than a failed assertion."""
    for table, rows_before in recorded["rows"].items():
        rows_after = now["rows"][table]
        if len(rows_before) != len(rows_after):
            yield f"{table}: {len(rows_before)} rows were recorded, {len(rows_after)} played"
        for before, after in zip(rows_before, rows_after, strict=False):
            about = [str(before[name]) for name in ABOUT if name in before]
            yield from (
                f"{table} {about} {name}: {before[name]!r:.300} was recorded, {after[name]!r:.300} played"
                for name in before
                if before[name] != after[name]
            )


def stored_state(wb: af.Workbench, run: af.Run) -> dict[str, Any]:
    frames = {
        name: attrgetter(name)(wb)(columns="all").drop(columns=["mode", "cassette"], errors="ignore") for name in FRAMES
    }
    shown = [repr(run), run.response]
    return {"frames": frames, "rows": rows(wb), "events": [], "ends": [(run.status, run.error)], "shown": shown}


def run_in_child(work: Work, folder: Path, seed: int, flow: str) -> int:
    """Run a function in a child process; return its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            work(folder, seed, flow)
        except BaseException as error:  # noqa: BLE001 - the parent reads it
            (folder / "differs").write_text(f"{work.__name__}: {error!r}"[:3000])
        finally:
            os._exit(0)
    return pid


def whole_s(folder: Path, seed: int, flow: str) -> float:
    """The current duration of an undisturbed run, in seconds."""
    folder.mkdir(parents=True)
    os.waitpid(run_in_child(record, folder, seed, flow), 0)
    return (folder / "over").stat().st_mtime - (folder / "started").stat().st_mtime


def main(root: Path, seed: int, number: int, flow: str) -> None:
    chance = random.Random(seed)  # noqa: S311 - nothing secret is drawn
    longest_s = whole_s(root / "whole", seed, flow) * 0.9
    for n in range(number):
        folder = root / f"{n:03d}"
        folder.mkdir(parents=True)
        moment = chance.uniform(0, longest_s)
        if n % 3 == 2:
            os.waitpid(run_in_child(close_after(moment), folder, seed + 2 * n, flow), 0)
        else:
            pid = run_in_child(record, folder, seed + 2 * n, flow)
            while not (folder / "started").exists() or not (folder / "started").read_text():
                time.sleep(0.0005)
            time.sleep(moment)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.waitpid(run_in_child(finish, folder, seed + 2 * n, flow), 0)
        midway = (folder / "resumed").exists()
        if midway:  # one that was killed between its end and its recording is not recorded
            os.waitpid(run_in_child(play, folder, seed + 2 * n, flow), 0)
        differs = (folder / "differs").read_text() if (folder / "differs").exists() else ""
        print(json.dumps({"midway": midway, "differs": differs}), flush=True)  # noqa: T201 - the result


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
