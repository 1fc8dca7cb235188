"""Kills a working engine repeatedly and finishes its run with another one.

`python killed_engine.py FOLDER FLOW` kills it each time that a change of a plan is stored;
`python killed_engine.py FOLDER FLOW SEED KILLS` kills it at KILLS random moments. The libraries are imported once; each
run, and each resume, is a forked child. A line of JSON says how each run ended, and what is wrong with it.
"""

import asyncio
import itertools
import json
import os
import random
import signal
import sqlite3
import sys
import time
from contextlib import closing
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # a script's own folder is on the path, the tests' is not

from support.replies import call, decide, delegate, plan, report, requesting_agent

from artifactflow_nb.core.events import StreamEvent, StreamEventType
from artifactflow_nb.engine.engine import CHECKPOINT_FILE, Engine
from artifactflow_nb.engine.folder_file import STORE_FILE
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.store.database import connect
from artifactflow_nb.tools.base import ToolContext, tool


@tool(permission="confirm")
async def send(ctx: ToolContext, folder: str) -> str:
    """Send a letter: an effect that must not happen twice."""
    with (Path(folder) / "sent").open("a", encoding="utf-8") as file:
        file.write(f"{ctx.tool_call_id}\n")
    await asyncio.sleep(0.002)
    return "sent"


def researched(request: ModelRequest, folder: str, n_turns: int) -> str:
    """Turns for a plan, two parallel jobs that send a letter each, a report and an answer."""
    if requesting_agent(request) != "lead":
        return [call("send", folder=folder), "Sent."][n_turns]
    jobs = report("- [ ] send", "task_plan") + delegate("search_agent", "one") + delegate("search_agent", "two")
    return [jobs, report() + call("rewrite_artifact", id="task_plan", content="- [x] send"), "Done."][n_turns]


def planned(request: ModelRequest, folder: str, n_turns: int) -> str:
    """Turns for two steps that send a letter each (the second fails once), a summary and an answer."""
    instruction = request.messages[-1 - 2 * n_turns].content
    letter = [call("send", folder=folder), "Sent."]
    failing = "Your step, 2 of 2" in instruction and "It was tried before" not in instruction
    turns = {
        "agent": [plan("One", "Two"), "Done."],
        "executor": [call("report_failure", reason="Not yet."), "It failed."] if failing else letter,
        "replanner": [decide("retry"), "Again."],
        "summarizer": ["Two letters."],
    }
    return turns[requesting_agent(request)][n_turns]


RESEARCH_CHECKS = {
    "versions": (
        "SELECT artifact_id, count(*) FROM artifact_versions GROUP BY 1 ORDER BY 1",
        [("research_report", 1), ("task_plan", 2)],
    )
}
PLAN_CHECKS = {
    "versions": ("SELECT count(*) FROM artifact_versions", [(8,)]),
    "statuses": (
        (
            "SELECT json_extract(content, '$.steps[0].status'), json_extract(content, '$.steps[1].status') "
            "FROM artifact_versions ORDER BY version DESC LIMIT 1"
        ),
        [("completed", "completed")],
    ),
    "jobs over": (
        "SELECT kind, step_id, attempt, outcome FROM plan_jobs ORDER BY n",
        [
            ("execute", "1", 1, "completed"),
            ("execute", "2", 1, "failed"),
            ("replan", "2", 1, "retry"),
            ("execute", "2", 2, "completed"),
            ("summarize", "", 1, "completed"),
        ],
    ),
    "published once": (
        (
            "SELECT event_type, count(*) FROM events WHERE event_type LIKE 'plan%' OR event_type LIKE 'step%' "
            "GROUP BY 1 ORDER BY 1"
        ),
        [("plan_created", 1), ("plan_updated", 1), ("step_complete", 3), ("step_start", 3)],
    ),
    "version events": ("SELECT count(*) FROM events WHERE event_type = 'artifact_changed'", [(8,)]),
}
CHANGES = {kind for kind in StreamEventType if kind.startswith(("plan_", "step_"))}
FLOWS = {"research": (researched, RESEARCH_CHECKS), "plan": (planned, PLAN_CHECKS)}


def engine(folder: Path, flow: str = "research") -> Engine:
    turns = FLOWS[flow][0]

    def turn(request: ModelRequest) -> str:
        n_turns = sum(message.role == "assistant" for message in request.messages)
        return turns(request, str(folder), n_turns)

    engine = Engine(Settings.load(data_dir=folder), model=ScriptedModel(turn, delay_s=0.0005), approvals="approve")
    for agent in ("search_agent", "executor"):
        engine.register_tool(send, agent=agent)
    return engine


async def work(folder: Path, flow: str, last_change: int = 0) -> None:
    """Drive the run to its end, or die once this number of changes of its plan is stored."""
    changes = itertools.count(1)

    def die(event: StreamEvent) -> None:
        if event.type in CHANGES and next(changes) == last_change:
            os.kill(os.getpid(), signal.SIGKILL)

    async with engine(folder, flow) as working:
        run = await working.controller.begin("Send two letters.", flow=flow)
        await working.controller.subscribe(run.run_id, die)
        (folder / "started").touch()
        await (await working.controller.start(run))
        (folder / "over").touch()


async def finish(folder: Path, flow: str = "research") -> None:
    """Continue all unfinished runs."""
    async with engine(folder, flow) as later:
        for run in await later.runs.unfinished():
            await (await later.controller.start(run))


def forked(coroutine_of: object, folder: Path) -> int:
    """Run a function in a child process; return its process id."""
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.run(coroutine_of(folder))  # type: ignore[operator]
        finally:
            os._exit(0)
    return pid


def problems(folder: Path, flow: str = "research") -> list[str]:
    """The inconsistencies in the store of a run that was killed and finished."""
    with closing(connect(folder / STORE_FILE)) as db:
        db.row_factory = None
        ask = lambda sql: db.execute(sql.replace("data_json", "stored_text(data_json)")).fetchall()  # noqa: E731
        sent = (folder / "sent").read_text().split() if (folder / "sent").exists() else []
        rows = ask("SELECT tool_call_id, error_type FROM tool_calls WHERE tool_name = 'send'")
        checks = {
            "status": ask("SELECT r.status, m.status, m.response FROM runs r JOIN messages m USING (message_id)")
            == [("completed", "completed", "Done.")],
            "one end": ask(
                "SELECT count(*) FROM events WHERE event_type IN ('error', 'cancelled', 'complete') "
                "AND NOT coalesce(json_extract(data_json, '$.interrupted'), 0)"
            )
            == [(1,)],
            "hello once": ask("SELECT count(*) FROM events WHERE event_type = 'metadata'") == [(1,)],
            "asked and answered once": ask(
                "SELECT 1 FROM events WHERE event_type LIKE 'permission%' "
                "GROUP BY event_type, json_extract(data_json, '$.id') HAVING count(*) > 1"
            )
            == [],
            "an event for every answer": ask(
                "SELECT (SELECT count(*) FROM approvals WHERE decision IS NOT NULL) = "
                "(SELECT count(*) FROM events WHERE event_type = 'permission_result')"
            )
            == [(1,)],
            "calls finished": ask("SELECT 1 FROM tool_calls WHERE status <> 'finished'") == [],
            "turns once": ask(
                "SELECT 1 FROM llm_calls WHERE error_type IS NULL GROUP BY job_id, step HAVING count(*) > 1"
            )
            == [],
            **{name: ask(sql) == expected for name, (sql, expected) in FLOWS[flow][1].items()},
            "no letter twice": len(sent) == len(set(sent)),
            "known letters sent": {key for key, error in rows if error is None} <= set(sent),
        }
    with closing(sqlite3.connect(folder / CHECKPOINT_FILE)) as db:
        checks["checkpoints swept"] = db.execute("SELECT count(*) FROM checkpoints").fetchone() == (0,)
    return [name for name, fine in checks.items() if not fine]


def is_unfinished(folder: Path) -> bool:
    """True if the store contains an unfinished run."""
    with closing(sqlite3.connect(folder / STORE_FILE)) as db:
        tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master")}
        sql = "SELECT 1 FROM runs WHERE status = 'running'"
        return "runs" in tables and db.execute(sql).fetchone() is not None


def whole_run_s(folder: Path, flow: str) -> float:
    """The duration of an undisturbed run, in seconds."""
    folder.mkdir(parents=True)
    os.waitpid(forked(partial(work, flow=flow), folder), 0)
    if found := problems(folder, flow):
        raise AssertionError(f"A run that nobody killed has problems: {found}")
    return (folder / "over").stat().st_mtime - (folder / "started").stat().st_mtime


def at_changes(root: Path, flow: str) -> None:
    """For each change of a plan, kill a run when that change is stored."""
    for number in itertools.count(1):
        folder = root / f"{number:03d}"
        folder.mkdir(parents=True)
        os.waitpid(forked(partial(work, flow=flow, last_change=number), folder), 0)
        if (folder / "over").exists():
            return
        report_problems(folder, flow)


def report_problems(folder: Path, flow: str) -> None:
    """Finish a killed run and return its inconsistencies."""
    midway = is_unfinished(folder)
    for _ in range(2):  # the second opening sweeps what the first may have left
        os.waitpid(forked(partial(finish, flow=flow), folder), 0)
    print(json.dumps({"midway": midway, "problems": problems(folder, flow)}), flush=True)  # noqa: T201 - the result


def at_moments(root: Path, flow: str, seed: int, kills: int) -> None:
    """Kill a number of runs at random moments."""
    chance = random.Random(seed)  # noqa: S311 - nothing secret is drawn
    (root / "first").mkdir(parents=True)
    asyncio.run(work(root / "first", flow))  # here, so that the children have what a process makes once
    longest = min(whole_run_s(root / f"whole-{attempt}", flow) for attempt in range(2))
    for number in range(kills):
        folder = root / f"{number:03d}"
        folder.mkdir(parents=True)
        pid = forked(partial(work, flow=flow), folder)
        while not (folder / "started").exists():
            time.sleep(0.0005)
        time.sleep(chance.uniform(0, 1) * longest)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        report_problems(folder, flow)


if __name__ == "__main__":
    _, where, name, *drawn = sys.argv
    at_moments(Path(where), name, *map(int, drawn)) if drawn else at_changes(Path(where), name)
