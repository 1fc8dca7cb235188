"""The cost of storing the steps of an adapted graph, against LangGraph's own `AsyncSqliteSaver`, which keeps them all.

Both sides run the same graph on a file of their own, and delete its checkpoints at the end.
"""

import asyncio
import operator
import tempfile
from collections.abc import AsyncIterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Annotated, Any, TypedDict

from bench.figures import Figure, cpu_seconds
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph

from artifactflow_nb.engine.checkpoints import NewestCheckpointSaver

SIZES = {"3 rounds": (3, 1), "1,000 rounds": (1000, 1), "50 graphs of 3 rounds": (3, 50)}
"""By name: the rounds of a graph, and how many run at the same time."""

TARGET = 1.0
SIZE_TARGET = 0.5
TEXT = "x" * 4_000

_REPEATS = 5
_numbers = count()


class Counted(TypedDict, total=False):
    n: Annotated[int, operator.add]
    text: str


def counting_graph(rounds: int) -> Any:
    """A graph that runs for this many rounds, with a text in its state."""
    graph = StateGraph(Counted).add_node("step", lambda _state: {"n": 1, "text": TEXT}).add_edge(START, "step")
    return graph.add_conditional_edges("step", lambda state: END if state["n"] >= rounds else "step")


async def run_graphs(saver: Any, rounds: int, n_graphs: int) -> list[str]:
    """Run some graphs at the same time; return their LangGraph threads."""
    graph = counting_graph(rounds).compile(checkpointer=saver)
    threads = [str(next(_numbers)) for _ in range(n_graphs)]
    configs = [{"configurable": {"thread_id": thread}, "recursion_limit": rounds + 5} for thread in threads]
    await asyncio.gather(*(graph.ainvoke({"n": 0}, config, durability="async") for config in configs))
    return threads


async def run_and_delete(saver: Any, rounds: int, n_graphs: int) -> None:
    """Run some graphs at the same time, and delete their checkpoints."""
    for thread in await run_graphs(saver, rounds, n_graphs):
        await saver.adelete_thread(thread)


def file_bytes(path: Path) -> int:
    """Bytes of a file and of its write-ahead log."""
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))


async def figures() -> AsyncIterator[Figure]:
    """CPU time for each size, and the bytes of the files after a graph of 1,000 rounds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours = await NewestCheckpointSaver.open(folder / "ours.db")
        async with AsyncSqliteSaver.from_conn_string(str(folder / "plain.db")) as plain:
            await plain.setup()
            for size, (rounds, n_graphs) in SIZES.items():
                savers = {"ours": ours, "plain": plain}
                sides = {side: partial(run_and_delete, saver, rounds, n_graphs) for side, saver in savers.items()}
                seconds = await cpu_seconds(sides, repeats=_REPEATS)
                yield Figure(f"checkpoints, {size}", *(seconds[side] * 1000 for side in savers), "ms", TARGET)
            for saver in (ours, plain):
                await run_graphs(saver, *SIZES["1,000 rounds"])
            sizes = [file_bytes(folder / f"{side}.db") for side in savers]
            yield Figure("checkpoints, files after 1,000 rounds", *sizes, "bytes", SIZE_TARGET)
        await ours.conn.close()
