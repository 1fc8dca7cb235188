"""The cost of a plan step beyond the bare loop, in processor time.

Both sides take the same model turns and make the same tool calls with a scripted model in the same process, and store
everything: one as steps of a plan, each in a loop of its own, one as rounds of a single loop. The own cost of a step is
the plan's cost for a step, less the loop's for as many turns and calls. It is that of many steps less that of few, so
that what a run and a plan cost once does not count. Only a run that waits has checkpoints; `tool_rounds` measures them.
"""

import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from bench.figures import Figure, cpu_seconds
from bench.tool_rounds import count_words_of_call

from artifactflow_nb.core.toolcalls.xml import format_call
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.settings import Settings
from artifactflow_nb.models.base import ModelRequest
from artifactflow_nb.models.scripted import ScriptedModel
from artifactflow_nb.tools.base import tool

FEW, MANY = 2, 8
TURNS = 3  # of a step; its calls are as many
OWN_MS = 12

_REPEATS = 15
_STEP = re.compile(r"^Your step, (\d+) of \d+:", re.MULTILINE)
_TEXT = "I look this up before I go on, because the next step rests on it."


async def figures() -> AsyncIterator[Figure]:
    """The own cost of a step."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sides = {}
        for flow in ("plan", "research"):
            for steps in (FEW, MANY):
                engine = await stack.enter_async_context(open_engine(folder / f"{flow}-{steps}", flow, steps))
                sides[flow, steps] = partial(run, engine, flow, steps)
        seconds = await cpu_seconds(sides, repeats=_REPEATS)
    plan_s, loop_s = ((seconds[flow, MANY] - seconds[flow, FEW]) / (MANY - FEW) for flow in ("plan", "research"))
    own_ms = (plan_s - loop_s) * 1000
    yield Figure("plan: CPU of a step beyond the bare loop", own_ms, OWN_MS, "ms", 1.0)


def open_engine(folder: Path, flow: str, steps: int) -> Engine:
    """Create an engine whose agents have rounds enough for this number of steps."""
    rounds = {"max_tool_rounds": steps * TURNS}
    settings = Settings.load(data_dir=folder, graph_config={"lead_agent": rounds, "executor": {"max_steps": steps}})
    reply = partial(planned if flow == "plan" else looped, steps=steps)
    engine = Engine(settings, model=ScriptedModel(reply))
    count_words = tool(name="count_words", idempotent=True)(count_words_of_call)
    engine.register_tool(count_words, agent="executor" if flow == "plan" else None)
    return engine


def call(n: int) -> str:
    """One call, of its own each time."""
    return format_call("count_words", {"text": f"round {n} of the task"})


def looped(request: ModelRequest, *, steps: int) -> str:
    """The turns of all steps in one loop, a call in each, and an answer."""
    done = sum(message.role == "assistant" for message in request.messages)
    return f"{_TEXT} {call(done)}" if done < steps * TURNS else _TEXT


def planned(request: ModelRequest, *, steps: int) -> str:
    """The turns of a plan: its steps with a call in each turn, the summary and the answer."""
    done = sum(message.role == "assistant" for message in request.messages)
    prompt = request.messages[1].content
    if (step := _STEP.search(prompt)) is None:
        is_plan = prompt == "question" and not done
        titles = [{"title": f"Step {n}", "tools": ["count_words"]} for n in range(1, steps + 1)]
        return format_call("plan_create", {"title": "The plan", "steps": titles}) if is_plan else _TEXT
    if done >= TURNS - 1:
        return _TEXT
    first = (int(step[1]) - 1) * TURNS
    return f"{_TEXT} {call(first + done + 1)}" + (call(first) if done == 0 else "")


async def run(engine: Engine, flow: str, steps: int) -> None:
    """Execute the task as a plan or in one loop."""
    result = await engine.controller.execute("question", flow=flow)
    n_turns = len(result.metrics.agent_executions)
    expected = steps * TURNS + (3 if flow == "plan" else 1)
    n_calls = sum(each.tool_name == "count_words" for each in result.metrics.tool_calls)
    if (result.status, n_turns, n_calls) != ("completed", expected, steps * TURNS):
        raise AssertionError(f"{flow}: {result.status} after {n_turns} turns, {n_calls} calls: {result.error_message}")
