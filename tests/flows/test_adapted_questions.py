"""Interrupts of adapted graphs are requests to the person, and return the decision."""

import asyncio
import operator
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from conftest import OpenEngine, OpenWorkbench
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt
from support.forked_python import fast_python
from support.graphs import ai_message, react_agent

import artifactflow_nb as af
from artifactflow_nb.core.approvals import Decision
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.widgets.run.transcript import RunTranscript

TESTS = Path(__file__).parent.parent

DIES_AFTER_THE_ANSWER = """
import asyncio, os, sys
sys.path[:0] = [sys.argv[2]]
from pathlib import Path
import artifactflow_nb as af
from artifactflow_nb.engine.engine import Engine
from artifactflow_nb.engine.settings import Settings
from flows.test_adapted_questions import asking_graph

async def main():
    async with Engine(Settings.load(data_dir=Path(sys.argv[1]))) as engine:
        graph = asking_graph("Go on?", after=lambda: os.kill(os.getpid(), 9))
        engine.flows.register("mine", af.adapt(graph, answer=str))
        waiting = await engine.controller.execute("Ask me.", flow="mine")
        await engine.controller.resume(waiting.thread_id, approved=True)

asyncio.run(main())
"""


class State(TypedDict, total=False):
    messages: list[Any]
    decisions: Annotated[list[Any], operator.add]


def asking_graph(*values: Any, after: Any = lambda: None, **compiled: Any) -> Any:
    """A graph whose nodes, in parallel, interrupt with these values and store the decisions."""
    graph = StateGraph(State)
    for n, value in enumerate(values):

        def node(_state: State, n: int = n, value: Any = value) -> dict[str, Any]:
            decision = interrupt(value)
            after()
            return {"decisions": [[n, decision]]}

        graph.add_node(f"asks_{n}", node)
        graph.add_edge(START, f"asks_{n}")
    return graph.compile(**compiled)


@dataclass
class Draft:
    text: str


class Drafting(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    draft: Draft


def draft_graph() -> Any:
    """A graph that writes a draft, asks, and shows the draft."""

    def show(state: Drafting) -> dict[str, Any]:
        interrupt("Show it?")
        return {"messages": [AIMessage(f"Draft: {state['draft'].text}")]}

    graph = StateGraph(Drafting)
    graph.add_node("write", lambda state: {"draft": Draft(state["messages"][-1].content)})
    graph.add_node("show", show)
    graph.add_edge(START, "write")
    graph.add_edge("write", "show")
    return graph.compile()


def format_decisions(state: Any) -> str:
    return str([decision for _, decision in sorted(state["decisions"], key=lambda entry: entry[0])])


async def wait_at_graph(engine: Engine, *values: Any, **compiled: Any) -> Any:
    engine.flows.register("mine", af.adapt(asking_graph(*values, **compiled), answer=format_decisions))
    return await engine.controller.execute("Ask me.", flow="mine")


async def test_text_interrupt_is_a_request(open_engine: OpenEngine) -> None:
    """The text is the title, and the run waits."""
    result = await wait_at_graph(await open_engine(), "Publish it?")
    [request] = result.pending
    assert (result.status, request.kind, request.title) == ("waiting", "tool", "Publish it?")
    assert (request.agent, request.tool, dict(request.params)) == ("asks_0", "asks_0", {})


async def test_first_line_of_an_interrupt_is_the_title(open_engine: OpenEngine) -> None:
    """The rest is the message; a long first line is in both."""
    engine = await open_engine()
    [request] = (await wait_at_graph(engine, "Publish it?\n\nIt cannot be taken back.")).pending
    assert (request.title, request.message) == ("Publish it?", "It cannot be taken back.")
    long = f"{'Shall it be published ' * 10}?\nIt is new."
    [request] = (await wait_at_graph(engine, long)).pending
    assert request.title.endswith("…")
    assert request.message == long


async def test_mapping_interrupt_sets_the_fields_of_the_request(open_engine: OpenEngine) -> None:
    """A mapping sets kind, tool, title, message, preview and parameters; its other keys are parameters, too."""
    value = {"kind": "edit", "tool": "publish", "question": "Publish?", "message": "It is new.", "preview": "# Text"}
    result = await wait_at_graph(await open_engine(), {**value, "draft": "Text", "n": 2})
    [request] = result.pending
    assert (request.kind, request.tool, request.title) == ("edit", "publish", "Publish?")
    assert (request.message, request.preview) == ("It is new.", "# Text")
    assert dict(request.params) == {"draft": "Text", "n": 2}


@pytest.mark.parametrize(
    ("decision", "returned"),
    [
        (Decision(approved=True), True),
        (Decision(approved=False), False),
        (Decision(approved=True, params={"n": 3}), {"n": 3}),
        (Decision(approved=False, instruction="Ada", replaces_call=True), "Ada"),
    ],
)
async def test_interrupt_returns_the_decision(open_engine: OpenEngine, decision: Decision, returned: Any) -> None:
    """The interrupt returns True if approved, False if denied, edited parameters, or the text of an instruction."""
    engine = await open_engine()
    result = await wait_at_graph(engine, {"question": "Who?", "n": 2})
    done = await engine.controller.resume(result.thread_id, decisions={result.pending[0].id: decision})
    assert (done.status, done.response) == ("completed", str([returned]))


async def test_resume_function_converts_decisions(open_engine: OpenEngine) -> None:
    """With `resume` the graph chooses what its interrupts return."""
    engine = await open_engine()
    adapted = af.adapt(
        asking_graph("Go on?"), answer=format_decisions, resume=lambda decision: {"type": decision.choice}
    )
    engine.flows.register("mine", adapted)
    result = await engine.controller.execute("Ask me.", flow="mine")
    done = await engine.controller.resume(result.thread_id, approved=True)
    assert done.response == "[{'type': 'approved'}]"


async def test_policy_decides_interrupts(open_engine: OpenEngine) -> None:
    """If the policy approves, the graph does not wait, and the policy is stored as the author of the decision."""
    engine = await open_engine(approvals="approve")
    result = await wait_at_graph(engine, "Go on?")
    assert (result.status, result.response) == ("completed", "[True]")
    events = [event.type.value for event in await engine.runs.events(result.run_id)]
    assert events == ["metadata", "permission_request", "permission_result", "complete"]


async def test_parallel_interrupts_wait_for_all_decisions(open_engine: OpenEngine) -> None:
    """Each interrupt is a request; the graph continues when all requests are decided."""
    engine = await open_engine()
    result = await wait_at_graph(engine, "One?", "Two?")
    by_title = {request.title: request.id for request in result.pending}
    first = await engine.controller.resume(result.thread_id, decisions={by_title["Two?"]: False})
    assert [request.title for request in first.pending] == ["One?"]
    done = await engine.controller.resume(result.thread_id, decisions={by_title["One?"]: True})
    assert done.response == "[True, False]"


async def test_tool_with_two_interrupts_is_one_call(open_engine: OpenEngine) -> None:
    """Each interrupt is a request; the tool starts and ends once in the events."""

    def send(to: str) -> str:
        """Send a letter."""
        return f"{to}: {interrupt('Sure?')}, {interrupt('Really sure?')}"

    engine = await open_engine()
    graph = react_agent([ai_message("", ("send", {"to": "Ada"})), ai_message("Sent.")], send)
    engine.flows.register("mine", af.adapt(graph))
    result = await engine.controller.execute("Send.", flow="mine")
    assert [(request.title, request.tool) for request in result.pending] == [("Sure?", "send")]
    result = await engine.controller.resume(result.thread_id, approved=True)
    assert [request.title for request in result.pending] == ["Really sure?"]
    result = await engine.controller.resume(result.thread_id, approved=False)
    assert result.response == "Sent."
    events = await engine.runs.events(result.run_id)
    assert [event.timestamp for event in events] == sorted(event.timestamp for event in events)
    published = [event.type.value for event in events]
    assert (published.count("tool_start"), published.count("tool_complete"), published.count("agent_start")) == (
        1,
        1,
        2,
    )
    sql = "SELECT result FROM tool_calls"
    assert await engine.database.read(lambda db: db.execute(sql).fetchone()[0]) == "Ada: True, False"


async def test_waiting_graph_continues_in_another_engine(open_engine: OpenEngine) -> None:
    """Without the graph, or with a different graph, the error says what to do."""
    engine = await open_engine()
    result = await wait_at_graph(engine, "Go on?")
    await engine.aclose()
    other = await open_engine()
    with pytest.raises(af.errors.UsageError, match=r"wb.register_flow\('mine', af.adapt\(graph\)\)"):
        await other.controller.resume(result.thread_id, approved=True)
    other.flows.register("mine", af.adapt(asking_graph("One?", "Two?"), answer=format_decisions))
    with pytest.raises(af.errors.UsageError, match="that is registered as 'mine': nodes: asks_1 is new; edges"):
        await other.controller.resume(result.thread_id, approved=True)
    assert [request.title for request in await other.approvals.open_requests()] == ["Go on?"]
    other.flows.register("mine", af.adapt(asking_graph("Go on?"), answer=format_decisions))
    assert (await other.controller.resume(result.thread_id, approved=True)).response == "[True]"


async def test_waiting_run_is_cancelled_without_its_graph(open_engine: OpenEngine) -> None:
    """The graph need not be registered."""
    engine = await open_engine()
    result = await wait_at_graph(engine, "Go on?")
    await engine.aclose()
    other = await open_engine()
    await other.controller.cancel(result.run_id)
    assert (await other.controller.result(result.run_id)).status == "cancelled"


async def test_decision_survives_a_killed_process(open_engine: OpenEngine, tmp_path: Path) -> None:
    """The graph gets the decision again, and nobody is asked twice."""
    folder = tmp_path / "killed"
    code = [*fast_python(), "-c", DIES_AFTER_THE_ANSWER, str(folder), str(TESTS)]
    killed = await asyncio.to_thread(subprocess.run, code, check=False)
    assert killed.returncode == -signal.SIGKILL
    engine = await open_engine(folder=folder)
    engine.flows.register("mine", af.adapt(asking_graph("Go on?"), answer=format_decisions))
    [stored] = await engine.runs.unfinished()
    await (await engine.controller.start(stored))
    result = await engine.controller.result(stored.run_id)
    assert (result.status, result.response) == ("completed", "[True]")
    events = [event.type.value for event in await engine.runs.events(stored.run_id)]
    assert (events.count("permission_request"), events.count("permission_result")) == (1, 1)


async def test_state_survives_a_pause(open_engine: OpenEngine) -> None:
    """Messages and values of the state's own classes are the same in another engine."""
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(draft_graph()))
    result = await engine.controller.execute("Write.", flow="mine")
    await engine.aclose()
    other = await open_engine()
    other.flows.register("mine", af.adapt(draft_graph()))
    done = await other.controller.resume(result.thread_id, approved=True)
    assert (done.status, done.response) == ("completed", "Draft: Write.")


async def test_subgraph_may_interrupt(open_engine: OpenEngine) -> None:
    """The interrupt of a subgraph is one request, and the subgraph gets the answer."""
    outer = StateGraph(State)
    outer.add_node("team", asking_graph("Go on?"))
    outer.add_edge(START, "team")
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(outer.compile(), answer=format_decisions))
    result = await engine.controller.execute("Ask me.", flow="mine")
    assert [request.title for request in result.pending] == ["Go on?"]
    assert (await engine.controller.resume(result.thread_id, approved=True)).response == "[True]"


async def test_own_checkpointer_is_used(open_engine: OpenEngine) -> None:
    """The graph continues from its own checkpoint, and the workbench stores no checkpoint."""
    engine = await open_engine()
    saver = InMemorySaver()
    result = await wait_at_graph(engine, "Go on?", checkpointer=saver)
    assert saver.get({"configurable": {"thread_id": result.thread_id}}) is not None
    done = await engine.controller.resume(result.thread_id, approved=True)
    assert done.response == "[True]"


@pytest.mark.parametrize("option", ["interrupt_before", "interrupt_after"])
async def test_breakpoint_asks_whether_the_graph_goes_on(open_engine: OpenEngine, option: str) -> None:
    """Another process continues from the breakpoint, and nothing before the breakpoint runs again."""
    ran: list[str] = []

    def graph() -> Any:
        steps = StateGraph(Drafting)
        for name in ("write", "publish"):
            steps.add_node(
                name, lambda _state, name=name: ran.append(name) or {"messages": [AIMessage(f"{name}: done")]}
            )
        steps.add_edge(START, "write")
        steps.add_edge("write", "publish")
        return af.adapt(steps.compile(**{option: ["publish" if option == "interrupt_before" else "write"]}))

    engine = await open_engine()
    engine.flows.register("mine", graph())
    result = await engine.controller.execute("Ask me.", flow="mine")
    [request] = result.pending
    assert (result.status, request.title, request.agent, ran) == (
        "waiting",
        "Go on with publish?",
        "publish",
        ["write"],
    )
    await engine.aclose()
    other = await open_engine()
    other.flows.register("mine", graph())
    done = await other.controller.resume(result.thread_id, approved=True)
    assert (done.status, done.response, ran) == ("completed", "publish: done", ["write", "publish"])


async def test_graph_that_may_not_go_on_ends_with_the_answer_so_far(open_engine: OpenEngine) -> None:
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(draft_graph().copy({"interrupt_before_nodes": ["show"]})))
    result = await engine.controller.execute("Ask me.", flow="mine")
    denied = Decision(approved=False, instruction="It is too early.")
    done = await engine.controller.resume(result.thread_id, decisions={result.pending[0].id: denied})
    assert done.status == "completed"
    [event] = [event for event in await engine.runs.events(done.run_id) if event.is_terminal]
    assert event.data["notices"] == ["The graph was stopped before show, as you decided. It is too early."]


async def test_breakpoint_in_a_subgraph_asks_each_time(open_engine: OpenEngine) -> None:
    inner = StateGraph(Drafting)
    for name in ("one", "two"):
        inner.add_node(name, lambda _state, name=name: {"messages": [AIMessage(name)]})
    inner.add_edge(START, "one")
    inner.add_edge("one", "two")
    outer = StateGraph(Drafting)
    outer.add_node("inside", inner.compile(interrupt_before=["one", "two"]))
    outer.add_edge(START, "inside")
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(outer.compile()))
    result = await engine.controller.execute("Ask me.", flow="mine")
    n_requests = 0
    while result.status == "waiting":
        n_requests += len(result.pending)
        result = await engine.controller.resume(result.thread_id, approved=True)
    assert (result.status, result.response, n_requests) == ("completed", "two", 2)


def test_run_approves_interrupts(workbench: OpenWorkbench) -> None:
    """`pending` and `approve` of a run work as for tools, and views show no tool call."""
    wb = workbench(interactive=False)
    run = wb.ask("Ask me.", flow=af.adapt(asking_graph("Who?"), name="asks", answer=format_decisions)).wait()
    assert run.status == "waiting"
    assert [request.title for request in wb.pending()] == ["Who?"]
    assert run.approve().wait().response == "[True]"
    transcript = RunTranscript()
    for event in run.events:
        transcript.apply(event)
    assert ([use.status for use in transcript.tool_uses], transcript.totals.n_tool_calls) == (["ok"], 0)
    assert len(wb.approvals_df()) == 1


def test_chat_accepts_a_graph(workbench: OpenWorkbench) -> None:
    """Like `wb.ask`, `wb.chat` registers the graph by its name."""
    wb = workbench(interactive=False)
    wb.chat(flow=af.adapt(asking_graph("Who?"), name="asks"))
    assert "asks" in wb.flows
