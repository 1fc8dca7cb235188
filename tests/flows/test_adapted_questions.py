"""Where an adapted graph interrupts, the person is asked, and what they decide is what the interrupt gives back."""

import asyncio
import operator
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from conftest import OpenEngine, OpenWorkbench
from graphs import react_agent, said
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt

import artifactflow_nb as af
from artifactflow_nb.approvals import Decision
from artifactflow_nb.engine import Engine
from artifactflow_nb.widgets.transcript import Transcript

TESTS = Path(__file__).parent.parent

DIES_AFTER_THE_ANSWER = """
import asyncio, os, sys
sys.path[:0] = [sys.argv[2], sys.argv[2] + "/flows"]
from pathlib import Path
import artifactflow_nb as af
from artifactflow_nb.engine import Engine
from artifactflow_nb.widgets.transcript import Transcript
from artifactflow_nb.settings import Settings
from test_adapted_questions import asking

async def main():
    async with Engine(Settings.load(data_dir=Path(sys.argv[1]))) as engine:
        engine.flows.register("mine", af.adapt(asking("Go on?", then=lambda: os.kill(os.getpid(), 9)), answer=str))
        waiting = await engine.controller.execute("Ask me.", flow="mine")
        await engine.controller.resume(waiting.thread_id, approved=True)

asyncio.run(main())
"""


class Heard(TypedDict, total=False):
    messages: list[Any]
    heard: Annotated[list[Any], operator.add]


def asking(*values: Any, then: Any = lambda: None, **compiled: Any) -> Any:
    """A graph whose nodes, all at once, interrupt with these values and note what they get back."""
    graph = StateGraph(Heard)
    for n, value in enumerate(values):

        def node(_state: Heard, n: int = n, value: Any = value) -> dict[str, Any]:
            heard = interrupt(value)
            then()
            return {"heard": [[n, heard]]}

        graph.add_node(f"asks_{n}", node)
        graph.add_edge(START, f"asks_{n}")
    return graph.compile(**compiled)


@dataclass
class Draft:
    text: str


class Drafting(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    draft: Draft


def drafting() -> Any:
    """A graph that writes a draft, asks, and shows it."""

    def show(state: Drafting) -> dict[str, Any]:
        interrupt("Show it?")
        return {"messages": [AIMessage(f"Draft: {state['draft'].text}")]}

    graph = StateGraph(Drafting)
    graph.add_node("write", lambda state: {"draft": Draft(state["messages"][-1].content)})
    graph.add_node("show", show)
    graph.add_edge(START, "write")
    graph.add_edge("write", "show")
    return graph.compile()


def heard(state: Any) -> str:
    return str([what for _, what in sorted(state["heard"], key=lambda one: one[0])])


async def waiting(engine: Engine, *values: Any, **compiled: Any) -> Any:
    engine.flows.register("mine", af.adapt(asking(*values, **compiled), answer=heard))
    return await engine.controller.execute("Ask me.", flow="mine")


async def test_an_interrupt_asks_the_person_in_its_own_words(open_engine: OpenEngine) -> None:
    """Text asks just that; the run waits with a request of the node."""
    result = await waiting(await open_engine(), "Publish it?")
    [request] = result.pending
    assert (result.status, request.kind, request.title) == ("waiting", "tool", "Publish it?")
    assert (request.agent, request.tool, dict(request.params)) == ("asks_0", "asks_0", {})


async def test_a_question_of_several_lines_is_told_once(open_engine: OpenEngine) -> None:
    """Its first line is the title, and what follows is the message; a first line that is too long stands in both."""
    engine = await open_engine()
    [request] = (await waiting(engine, "Publish it?\n\nIt cannot be taken back.")).pending
    assert (request.title, request.message) == ("Publish it?", "It cannot be taken back.")
    long = f"{'Shall it be published ' * 10}?\nIt is new."
    [request] = (await waiting(engine, long)).pending
    assert request.title.endswith("…")
    assert request.message == long


async def test_an_interrupt_can_say_more_about_what_it_asks(open_engine: OpenEngine) -> None:
    """A mapping names kind, tool, title, message, preview and parameters; what else it holds are parameters."""
    value = {"kind": "edit", "tool": "publish", "question": "Publish?", "message": "It is new.", "preview": "# Text"}
    result = await waiting(await open_engine(), {**value, "draft": "Text", "n": 2})
    [request] = result.pending
    assert (request.kind, request.tool, request.title) == ("edit", "publish", "Publish?")
    assert (request.message, request.preview) == ("It is new.", "# Text")
    assert dict(request.params) == {"draft": "Text", "n": 2}


@pytest.mark.parametrize(
    ("decision", "given"),
    [
        (Decision(approved=True), True),
        (Decision(approved=False), False),
        (Decision(approved=True, params={"n": 3}), {"n": 3}),
        (Decision(approved=False, instruction="Ada", instead=True), "Ada"),
    ],
)
async def test_what_the_person_decides_is_what_the_interrupt_gives(
    open_engine: OpenEngine, decision: Decision, given: Any
) -> None:
    """Approved is True, denied False, edited parameters are those, and an answer is its text."""
    engine = await open_engine()
    result = await waiting(engine, {"question": "Who?", "n": 2})
    done = await engine.controller.resume(result.thread_id, decisions={result.pending[0].id: decision})
    assert (done.status, done.response) == ("completed", str([given]))


async def test_a_graph_can_read_decisions_in_its_own_way(open_engine: OpenEngine) -> None:
    """With `resume` a graph says what its interrupts give back."""
    engine = await open_engine()
    adapted = af.adapt(asking("Go on?"), answer=heard, resume=lambda decision: {"type": decision.word})
    engine.flows.register("mine", adapted)
    result = await engine.controller.execute("Ask me.", flow="mine")
    done = await engine.controller.resume(result.thread_id, approved=True)
    assert done.response == "[{'type': 'approved'}]"


async def test_a_policy_answers_for_the_person(open_engine: OpenEngine) -> None:
    """Where the policy approves, the graph goes on without waiting, and the decision is kept as its."""
    engine = await open_engine(approvals="approve")
    result = await waiting(engine, "Go on?")
    assert (result.status, result.response) == ("completed", "[True]")
    told = [event.type.value for event in await engine.runs.events(result.run_id)]
    assert told == ["metadata", "permission_request", "permission_result", "complete"]


async def test_interrupts_at_the_same_time_wait_for_all_decisions(open_engine: OpenEngine) -> None:
    """Several nodes that interrupt at once are several requests; the graph goes on when all are decided."""
    engine = await open_engine()
    result = await waiting(engine, "One?", "Two?")
    by_title = {request.title: request.id for request in result.pending}
    first = await engine.controller.resume(result.thread_id, decisions={by_title["Two?"]: False})
    assert [request.title for request in first.pending] == ["One?"]
    done = await engine.controller.resume(result.thread_id, decisions={by_title["One?"]: True})
    assert done.response == "[True, False]"


async def test_a_tool_may_ask_twice_and_runs_once(open_engine: OpenEngine) -> None:
    """Each interrupt within a tool is a request of its own; the tool is told to start and to end once."""

    def send(to: str) -> str:
        """Send a letter."""
        return f"{to}: {interrupt('Sure?')}, {interrupt('Really sure?')}"

    engine = await open_engine()
    graph = react_agent([said("", ("send", {"to": "Ada"})), said("Sent.")], send)
    engine.flows.register("mine", af.adapt(graph))
    result = await engine.controller.execute("Send.", flow="mine")
    assert [(request.title, request.tool) for request in result.pending] == [("Sure?", "send")]
    result = await engine.controller.resume(result.thread_id, approved=True)
    assert [request.title for request in result.pending] == ["Really sure?"]
    result = await engine.controller.resume(result.thread_id, approved=False)
    assert result.response == "Sent."
    events = await engine.runs.events(result.run_id)
    assert [event.timestamp for event in events] == sorted(event.timestamp for event in events)
    told = [event.type.value for event in events]
    assert (told.count("tool_start"), told.count("tool_complete"), told.count("agent_start")) == (1, 1, 2)
    sql = "SELECT result FROM tool_calls"
    assert await engine.database.read(lambda db: db.execute(sql).fetchone()[0]) == "Ada: True, False"


async def test_a_waiting_graph_goes_on_in_another_engine(open_engine: OpenEngine) -> None:
    """An interrupt survives its process; without the graph, or with another one, the error says what to do."""
    engine = await open_engine()
    result = await waiting(engine, "Go on?")
    await engine.aclose()
    other = await open_engine()
    with pytest.raises(af.UsageError, match=r"wb.register_flow\('mine', af.adapt\(graph\)\)"):
        await other.controller.resume(result.thread_id, approved=True)
    other.flows.register("mine", af.adapt(asking("One?", "Two?"), answer=heard))
    with pytest.raises(af.UsageError, match="begun with: nodes: asks_1 is new; edges"):
        await other.controller.resume(result.thread_id, approved=True)
    assert [request.title for request in await other.requests.open_requests()] == ["Go on?"]
    other.flows.register("mine", af.adapt(asking("Go on?"), answer=heard))
    assert (await other.controller.resume(result.thread_id, approved=True)).response == "[True]"


async def test_a_waiting_run_can_be_cancelled_without_its_graph(open_engine: OpenEngine) -> None:
    """To end a run that waits its graph need not be registered."""
    engine = await open_engine()
    result = await waiting(engine, "Go on?")
    await engine.aclose()
    other = await open_engine()
    await other.controller.cancel(result.run_id)
    assert (await other.controller.result(result.run_id)).status == "cancelled"


async def test_a_decision_outlives_a_kill_within_the_node_that_asked(open_engine: OpenEngine, tmp_path: Path) -> None:
    """Killed after the answer was given, the graph gets it again, and nobody is asked twice."""
    folder = tmp_path / "killed"
    code = [sys.executable, "-c", DIES_AFTER_THE_ANSWER, str(folder), str(TESTS)]
    killed = await asyncio.to_thread(subprocess.run, code, check=False)
    assert killed.returncode == -signal.SIGKILL
    engine = await open_engine(folder=folder)
    engine.flows.register("mine", af.adapt(asking("Go on?"), answer=heard))
    [stored] = await engine.runs.unfinished()
    await (await engine.controller.start(stored))
    result = await engine.controller.result(stored.run_id)
    assert (result.status, result.response) == ("completed", "[True]")
    told = [event.type.value for event in await engine.runs.events(stored.run_id)]
    assert (told.count("permission_request"), told.count("permission_result")) == (1, 1)


async def test_what_a_graph_holds_survives_the_wait(open_engine: OpenEngine) -> None:
    """Messages and values of a state's own classes are the same after the run waited and went on elsewhere."""
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(drafting()))
    result = await engine.controller.execute("Write.", flow="mine")
    await engine.aclose()
    other = await open_engine()
    other.flows.register("mine", af.adapt(drafting()))
    done = await other.controller.resume(result.thread_id, approved=True)
    assert (done.status, done.response) == ("completed", "Draft: Write.")


async def test_a_graph_within_a_graph_asks_too(open_engine: OpenEngine) -> None:
    """An interrupt of a subgraph is asked once and answered there."""
    outer = StateGraph(Heard)
    outer.add_node("team", asking("Go on?"))
    outer.add_edge(START, "team")
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(outer.compile(), answer=heard))
    result = await engine.controller.execute("Ask me.", flow="mine")
    assert [request.title for request in result.pending] == ["Go on?"]
    assert (await engine.controller.resume(result.thread_id, approved=True)).response == "[True]"


async def test_a_graph_keeps_its_own_checkpoints_if_it_has_any(open_engine: OpenEngine) -> None:
    """A graph that was compiled with a checkpointer goes on from that, and leaves nothing in ours."""
    engine = await open_engine()
    saver = InMemorySaver()
    result = await waiting(engine, "Go on?", checkpointer=saver)
    assert saver.get({"configurable": {"thread_id": result.thread_id}}) is not None
    done = await engine.controller.resume(result.thread_id, approved=True)
    assert done.response == "[True]"


async def test_a_breakpoint_where_nobody_can_be_asked_is_an_error(open_engine: OpenEngine) -> None:
    """A graph that is compiled to stop before a node fails with what to do instead, and never runs past it."""
    engine = await open_engine()
    result = await waiting(engine, "Go on?", interrupt_before=["asks_0"])
    assert result.status == "failed"
    assert "stopped before asks_0" in result.error_message


def test_an_interrupt_is_answered_by_its_run(workbench: OpenWorkbench) -> None:
    """A run's requests and its `approve` work for a graph's interrupts as for tools, and views show no call for it."""
    wb = workbench(interactive=False)
    run = wb.ask("Ask me.", flow=af.adapt(asking("Who?"), name="asks", answer=heard)).wait()
    assert run.status == "waiting"
    assert [request.title for request in wb.pending()] == ["Who?"]
    assert run.approve().wait().response == "[True]"
    shown = Transcript()
    for event in run.events:
        shown.apply(event)
    assert ([use.status for use in shown.tool_uses], shown.totals.n_tool_calls) == (["ok"], 0)
    assert len(wb.approvals_df()) == 1


def test_a_chat_asks_a_graph_that_was_not_registered(workbench: OpenWorkbench) -> None:
    """`wb.chat` takes what `wb.ask` takes: a graph is registered by its name."""
    wb = workbench(interactive=False)
    wb.chat(flow=af.adapt(asking("Who?"), name="asks"))
    assert "asks" in wb.flows
