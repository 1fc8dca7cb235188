"""The cost of a plan step beyond the bare loop, in processor time and checkpoints.

Both sides take the same model turns and make the same tool calls with a scripted model in the same process, and store
everything: one as steps of a plan, each in a loop of its own, one as rounds of a single loop. The cost of a step is
that of many steps less that of few, so that what a run and a plan cost once does not count.

- The own cost of a step: the plan's cost for a step, less the loop's for as many turns and calls.
- The checkpoints of a step: what is in the file just before the run ends, of a step that answers at once, and of one
  with rounds of tools less what the same rounds leave in a single loop.
"""

import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

from bench.figures import Figure, cpu_seconds
from bench.tool_rounds import count_words_tool, stored_bytes

from artifactflow_nb.core.toolcalls.xml import format_call
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel

FEW, MANY = 2, 8
TURNS = 3  # of a step; its calls are as many
OWN_MS = 12
CHECKPOINT_BYTES = 8 * 1024

_REPEATS = 15
_STEP = re.compile(r"^Your step, (\d+) of \d+:", re.MULTILINE)
_TEXT = "I look this up before I go on, because the next step rests on it."


async def figures() -> AsyncIterator[Figure]:
    """The own cost of a step, and its checkpoints."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sides = {}
        for flow in ("plan", "research"):
            for steps in (FEW, MANY):
                engine = await stack.enter_async_context(open_engine(folder / f"{flow}-{steps}", flow, steps))
                sides[flow, steps] = partial(run, engine, flow, steps)
        seconds = await cpu_seconds(sides, repeats=_REPEATS)
        sizes = {
            (flow, turns, steps): await checkpoint_bytes(folder / f"{flow}-{turns}-{steps}-bytes", flow, steps, turns)
            for flow, turns in (("plan", 1), ("plan", TURNS), ("research", TURNS))
            for steps in (FEW, MANY)
        }

    def of_a_step(found: Any, *side: Any) -> float:
        return float(found[*side, MANY] - found[*side, FEW]) / (MANY - FEW)

    own_ms = (of_a_step(seconds, "plan") - of_a_step(seconds, "research")) * 1000
    yield Figure("plan: CPU of a step beyond the bare loop", own_ms, OWN_MS, "ms", 1.0)
    at_once = of_a_step(sizes, "plan", 1)
    yield Figure("plan: checkpoints of a step without tools", at_once, CHECKPOINT_BYTES, "bytes", 1.0)
    beyond = of_a_step(sizes, "plan", TURNS) - of_a_step(sizes, "research", TURNS)
    yield Figure("plan: checkpoints of a step beyond its rounds", beyond, CHECKPOINT_BYTES, "bytes", 1.0)


def open_engine(folder: Path, flow: str, steps: int, turns: int = TURNS) -> Engine:
    """An engine whose model goes through so many steps of so many turns."""
    rounds = {"max_iterations": steps * turns}
    settings = Settings.load(data_dir=folder, graph_config={"lead_agent": rounds, "executor": {"max_steps": steps}})
    reply = partial(planned if flow == "plan" else looped, steps=steps, turns=turns)
    engine = Engine(settings, model=ScriptedModel(reply))
    engine.register_tool(count_words_tool, agent="executor" if flow == "plan" else None)
    return engine


def call(n: int) -> str:
    """One call, of its own each time."""
    return format_call("count_words", {"text": f"round {n} of the task"})


def looped(request: ModelRequest, *, steps: int, turns: int) -> str:
    """The turns of all steps in one loop, a call in each, and an answer."""
    done = sum(message.role == "assistant" for message in request.messages)
    return f"{_TEXT} {call(done)}" if done < steps * turns else _TEXT


def planned(request: ModelRequest, *, steps: int, turns: int) -> str:
    """The turns of a plan: its steps with a call in each turn, the summary and the answer."""
    done = sum(message.role == "assistant" for message in request.messages)
    asked = request.messages[1].content
    if (step := _STEP.search(asked)) is None:
        is_plan = asked == "question" and not done
        titles = [{"title": f"Step {n}", "tools": ["count_words"]} for n in range(1, steps + 1)]
        return format_call("plan_create", {"title": "The plan", "steps": titles}) if is_plan else _TEXT
    if done >= turns - 1:
        return _TEXT
    first = (int(step[1]) - 1) * turns
    return f"{_TEXT} {call(first + done + 1)}" + (call(first) if done == 0 else "")


async def run(engine: Engine, flow: str, steps: int, turns: int = TURNS) -> None:
    """Execute the task as a plan or in one loop."""
    result = await engine.controller.execute("question", flow=flow)
    n_turns = len(result.metrics.agent_executions)
    expected = steps * turns + (3 if flow == "plan" else 1)
    n_calls = sum(each.tool_name == "count_words" for each in result.metrics.tool_calls)
    if (result.status, n_turns, n_calls) != ("completed", expected, steps * turns if turns > 1 else 0):
        raise AssertionError(f"{flow}: {result.status} after {n_turns} turns, {n_calls} calls: {result.error_message}")


async def checkpoint_bytes(folder: Path, flow: str, steps: int, turns: int) -> int:
    """The bytes of the checkpoints just before the end of a run, with metadata and pending writes."""
    sizes = [0]
    async with open_engine(folder, flow, steps, turns) as engine:
        run = await engine.controller.begin("question", flow=flow)
        await engine.controller.subscribe(run.run_id, lambda _: sizes.append(stored_bytes(folder)))
        await (await engine.controller.start(run))
    return max(sizes)
