"""Graphs of one name: which is which, what a run goes on with, and what is told where it cannot."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from conftest import OpenEngine, OpenWorkbench
from graphs import ScriptedChat, prebuilt, react_agent, said
from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt

import artifactflow_nb as af
from artifactflow_nb.recordings.graph_steps import GRAPH


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}: {interrupt('Pay?')}"


def payer(answer: str = "Paid by the first.") -> Any:
    return react_agent([said("", ("pay", {"amount": 5})), said(answer), said(answer)], pay)


def adder(answer: str = "Added.") -> Any:
    return react_agent([said(answer)] * 9, add)


def one_node(node: Callable[[Any], Any], name: str = "work", **compiled: Any) -> Any:
    graph = StateGraph(Chat)
    graph.add_node(name, node)
    graph.add_edge(START, name)
    return graph.compile(**compiled)


def test_graphs_without_a_name_are_told_apart(workbench: OpenWorkbench) -> None:
    """A different graph gets a number, and neither an open run nor one that is asked again passes to it."""
    wb = workbench(interactive=False)
    waiting = wb.ask("Pay 5.", flow=af.adapt(payer())).wait()
    added = wb.ask("Add.", flow=af.adapt(adder())).wait()
    assert list(wb.runs_df().sort_values("started_at").flow) == ["graph", "graph_2"]
    assert waiting.approve().wait().response == "Paid by the first."
    assert wb.query("SELECT result FROM main.tool_calls").result.tolist() == ["paid 5: True"]
    assert wb.regenerate(added).wait().response == "Added."


def test_a_cell_that_is_executed_again_makes_no_new_names(workbench: OpenWorkbench) -> None:
    """The same graphs, made anew, have the names that they had, whichever comes first."""
    wb = workbench(interactive=False)
    for graph in (adder, payer, payer, adder, adder):
        wb.ask("Do it.", flow=af.adapt(graph())).wait()
    assert list(wb.runs_df().sort_values("started_at").flow) == ["graph", "graph_2", "graph_2", "graph", "graph"]
    assert set(wb.flows) == {"research", "plan", "compose", "graph", "graph_2"}


def test_another_model_is_another_graph(workbench: OpenWorkbench) -> None:
    """Where nothing but the model differs, the names do too."""
    wb = workbench(interactive=False)
    for name in ("small", "large", "small"):
        model = ScriptedChat(script=[said("I.")], model_name=name)
        wb.ask("Who?", flow=af.adapt(prebuilt(model, [add]))).wait()
    assert list(wb.runs_df().sort_values("started_at").flow) == ["graph", "graph_2", "graph"]


def test_a_name_that_was_chosen_passes_to_the_newer_graph(workbench: OpenWorkbench) -> None:
    """New runs get the graph that was registered last; one that waits keeps the one that it was begun with."""
    wb = workbench(interactive=False)
    waiting = wb.ask("Pay 5.", flow=af.adapt(payer(), name="mine")).wait()
    assert wb.ask("Add.", flow=af.adapt(adder(), name="mine")).wait().response == "Added."
    wb.register_flow("mine", af.adapt(payer("Paid by the second.")))
    assert waiting.approve().wait().response == "Paid by the first."
    again = wb.regenerate(waiting).wait()
    assert again.approve().wait().response == "Paid by the second."


async def test_a_run_keeps_its_graph_before_it_starts(open_engine: OpenEngine) -> None:
    """A run that was begun, and whose turn comes after another graph took the name, has the graph of its question."""
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(adder("First.")))
    begun = await engine.controller.begin("Add.", flow="mine")
    engine.flows.register("mine", af.adapt(adder("Second.")))
    await (await engine.controller.start(begun))
    assert (await engine.controller.result(begun.run_id)).response == "First."


def test_a_run_that_is_over_keeps_no_graph(workbench: OpenWorkbench) -> None:
    """What runs keep is let go of when they end, however they do."""
    wb = workbench(interactive=False)
    of_runs = wb._thread.engine.flows._of_runs
    waiting = wb.ask("Pay 5.", flow=af.adapt(payer())).wait()
    assert list(of_runs) == [waiting.run_id]
    waiting.cancel()
    wb.ask("Add.", flow=af.adapt(adder())).wait()
    assert not of_runs


def nested() -> Any:
    """A graph within a graph, a chain in the module's words, a model that a function encloses, and one in a tool."""
    chain = RunnableLambda(str) | ScriptedChat(script=[], model_name="of-a-chain")

    def look(word: str) -> str:
        """Look."""
        return str(chain.invoke(word))

    agent = prebuilt(ScriptedChat(script=[], model_name="of-an-agent"), [look, add])
    graph = StateGraph(Chat)
    graph.add_node("team", agent)
    graph.add_node("alone", NAMED)
    graph.add_node("writer", Writer().write)
    graph.add_edge(START, "team")
    graph.add_edge("team", "alone")
    graph.add_edge("alone", "writer")
    return graph.compile()


NAMED = RunnableLambda(lambda state: state) | ScriptedChat(script=[], model_name="of-a-node")


class Writer:
    """Has a model, as classes of nodes do, and data."""

    def __init__(self) -> None:
        self.data = [ScriptedChat(script=[], model_name="of-many")] * 101
        self.model = ScriptedChat(script=[], model_name="of-an-object")

    def write(self, state: Any) -> Any:
        return {"messages": [self.model.invoke(state["messages"])]}


def test_a_graph_is_described_by_what_can_be_read_of_it() -> None:
    """Its own nodes and edges, and the tools and models within it, wherever they are held."""
    assert af.adapt(nested()).described == {
        "nodes": ["alone", "team", "writer"],
        "edges": ["__start__ -> team", "alone -> writer", "team -> alone", "writer -> __end__"],
        "tools": ["add", "look"],
        "models": ["of-a-chain", "of-a-node", "of-an-agent", "of-an-object"],
    }


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (lambda: react_agent([], pay, add), "tools: add is new"),
        (lambda: react_agent([], add), "tools: pay is not there now; tools: add is new"),
        (lambda: one_node(lambda state: state, "agent"), "nodes: tools is not there now; edges: agent -> tools is not"),
    ],
)
def test_a_run_does_not_go_on_with_a_graph_that_differs(
    workbench: OpenWorkbench, other: Callable[[], Any], told: str
) -> None:
    """In a new kernel nodes, edges and tools have to be those that it was begun with; the error says what differs."""
    wb = workbench(interactive=False)
    run_id = wb.ask("Pay 5.", flow=af.adapt(payer(), name="mine")).wait().run_id
    wb.close()
    new = workbench(interactive=False)
    new.register_flow("mine", af.adapt(other()))
    with pytest.raises(af.UsageError, match=f"begun with: {told}"):
        new.run(run_id).approve()
    new.register_flow("mine", af.adapt(react_agent([said("Paid.")], pay)))
    assert new.run(run_id).approve().wait().response == "Paid."


async def test_a_run_that_was_begun_before_tools_were_told_goes_on(open_engine: OpenEngine) -> None:
    """Of a run whose graph was described by its nodes and edges alone, nothing else is compared."""
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(payer()))
    waiting = await engine.controller.execute("Pay 5.", flow="mine")
    path = f"$.{GRAPH}"
    remove = "UPDATE runs SET settings_json = json_remove(settings_json, ?, ?)"
    await engine.database.write(lambda db: db.execute(remove, (f"{path}.tools", f"{path}.models")))
    await engine.aclose()
    other = await open_engine()
    other.flows.register("mine", af.adapt(react_agent([said("Paid.")], pay, add)))
    assert (await other.controller.resume(waiting.thread_id, approved=True)).response == "Paid."


def test_an_unknown_graph_is_told_with_what_to_do(workbench: OpenWorkbench) -> None:
    """To ask again what a graph answered that is not registered here says how to register it."""
    wb = workbench(interactive=False)
    run_id = wb.ask("Add.", flow=af.adapt(adder(), name="mine")).wait().run_id
    wb.close()
    new = workbench(interactive=False)
    for again in (lambda: new.regenerate(run_id), lambda: new.edit(run_id, "Add more.")):
        with pytest.raises(af.UsageError, match=r"'mine'(?s:.*)wb.register_flow\('mine', af.adapt\(graph\)\)"):
            again()


@pytest.mark.parametrize("flow", [adder(), StateGraph(Chat), 1])
def test_a_graph_that_was_not_adapted_is_told_so(workbench: OpenWorkbench, flow: Any) -> None:
    """A compiled graph in the place of a flow is answered with `af.adapt(graph)`, and not with the graph in words."""
    with pytest.raises(af.UsageError, match=r"^Pass af.adapt\(graph\), .*: a \w+ is neither\.$"):
        workbench(interactive=False).ask("Add.", flow=flow)


def test_a_checkpointer_that_cannot_be_awaited_is_refused() -> None:
    """LangGraph's synchronous saver is named, with those that work; one that can be awaited is taken."""
    with (
        SqliteSaver.from_conn_string(":memory:") as saver,
        pytest.raises(af.UsageError, match=r"checkpointer, SqliteSaver, (?s:.*)AsyncSqliteSaver or InMemorySaver"),
    ):
        af.adapt(react_agent([], add, checkpointer=saver))
    af.adapt(react_agent([], add, checkpointer=InMemorySaver()))


def test_a_run_whose_checkpoints_are_lost_does_not_begin_anew(workbench: OpenWorkbench) -> None:
    """A graph that kept its checkpoints in memory fails in a new kernel with what to do, and does nothing twice."""
    done: list[str] = []

    def work(_state: Chat) -> dict[str, Any]:
        done.append("work")
        return {"messages": [("ai", str(interrupt("Pay?")))]}

    wb = workbench(interactive=False)
    waiting = wb.ask("Pay.", flow=af.adapt(one_node(work, checkpointer=InMemorySaver()), name="mine")).wait()
    wb.close()
    new = workbench(interactive=False)
    new.register_flow("mine", af.adapt(one_node(work, checkpointer=InMemorySaver())))
    run = new.run(waiting.run_id).approve().wait()
    assert (run.status, done) == ("failed", ["work"])
    assert "own checkpointer, InMemorySaver, knows nothing of it" in run.error
    assert "or without one" in run.error


def test_a_run_that_lost_our_checkpoints_does_not_begin_anew(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Without the file of checkpoints a graph that had asked fails, and does nothing twice."""
    wb = workbench(interactive=False)
    waiting = wb.ask("Pay 5.", flow=af.adapt(payer(), name="mine")).wait()
    wb.close()
    for path in (tmp_path / "data").glob("checkpoints.db*"):
        path.unlink()
    new = workbench(interactive=False)
    new.register_flow("mine", af.adapt(payer()))
    run = new.run(waiting.run_id).approve().wait()
    assert (run.status, len(new.llm_calls_df())) == ("failed", 1)
    assert "how far its graph has come is not in this data folder" in run.error
