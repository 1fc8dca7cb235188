"""Names of adapted graphs: which graph a run continues with, and the errors if it cannot."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from conftest import OpenEngine, OpenWorkbench
from langchain.chat_models import init_chat_model
from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import interrupt
from support.graphs import ScriptedChat, ai_message, prebuilt, react_agent

import artifactflow_nb as af
from artifactflow_nb.core.runs import GRAPH_SETTING
from artifactflow_nb.engine.flow_registry import BUILT_IN_FLOWS


class Chat(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}: {interrupt('Pay?')}"


def payer(answer: str = "Paid by the first.") -> Any:
    return react_agent([ai_message("", ("pay", {"amount": 5})), ai_message(answer), ai_message(answer)], pay)


def adder(answer: str = "Added.") -> Any:
    return react_agent([ai_message(answer)] * 9, add)


def one_node(node: Callable[[Any], Any], name: str = "work", **compiled: Any) -> Any:
    graph = StateGraph(Chat)
    graph.add_node(name, node)
    graph.add_edge(START, name)
    return graph.compile(**compiled)


def test_unnamed_graphs_get_numbers(workbench: OpenWorkbench) -> None:
    """A different graph gets a number; open and repeated runs keep their graph."""
    wb = workbench(interactive=False)
    waiting = wb.ask("Pay 5.", flow=af.adapt(payer())).wait()
    added = wb.ask("Add.", flow=af.adapt(adder())).wait()
    assert list(wb.runs_df(columns="all").sort_values("started_at").flow) == ["graph", "graph_2"]
    assert waiting.approve().wait().response == "Paid by the first."
    assert wb.query("SELECT result FROM main.tool_calls").result.tolist() == ["paid 5: True"]
    assert wb.conversation(added).regenerate().wait().response == "Added."


def test_equal_graphs_keep_their_names(workbench: OpenWorkbench) -> None:
    """The same graphs, compiled again, have the same names in any order."""
    wb = workbench(interactive=False)
    for graph in (adder, payer, payer, adder, adder):
        wb.ask("Do it.", flow=af.adapt(graph())).wait()
    assert list(wb.runs_df(columns="all").sort_values("started_at").flow) == [
        "graph",
        "graph_2",
        "graph_2",
        "graph",
        "graph",
    ]
    assert set(wb.flows) - {*BUILT_IN_FLOWS, "compose", "judge"} == {"graph", "graph_2"}


def test_graphs_with_different_models_have_different_names(workbench: OpenWorkbench) -> None:
    """Everything but the model is equal."""
    wb = workbench(interactive=False)
    for name in ("small", "large", "small"):
        model = ScriptedChat(script=[ai_message("I.")], model_name=name)
        wb.ask("Who?", flow=af.adapt(prebuilt(model, [add]))).wait()
    assert list(wb.runs_df(columns="all").sort_values("started_at").flow) == ["graph", "graph_2", "graph"]


def test_explicit_name_passes_to_the_newer_graph(workbench: OpenWorkbench) -> None:
    """New runs use the graph that was registered last; a waiting run keeps its own graph."""
    wb = workbench(interactive=False)
    waiting = wb.ask("Pay 5.", flow=af.adapt(payer(), name="mine")).wait()
    assert wb.ask("Add.", flow=af.adapt(adder(), name="mine")).wait().response == "Added."
    wb.register_flow("mine", af.adapt(payer("Paid by the second.")))
    assert waiting.approve().wait().response == "Paid by the first."
    repeated = wb.conversation(waiting).regenerate().wait()
    assert repeated.approve().wait().response == "Paid by the second."


async def test_queued_run_keeps_its_graph(open_engine: OpenEngine) -> None:
    """A run that has not started when its name passes to another graph uses the graph of its question."""
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(adder("First.")))
    started = await engine.controller.begin("Add.", flow="mine")
    engine.flows.register("mine", af.adapt(adder("Second.")))
    await (await engine.controller.start(started))
    assert (await engine.controller.result(started.run_id)).response == "First."


def test_finished_run_releases_its_graph(workbench: OpenWorkbench) -> None:
    """The graph is released when the run completes, fails or is cancelled."""
    wb = workbench(interactive=False)
    of_runs = wb._thread.engine.flows._of_runs
    waiting = wb.ask("Pay 5.", flow=af.adapt(payer())).wait()
    assert list(of_runs) == [waiting.run_id]
    waiting.cancel()
    wb.ask("Add.", flow=af.adapt(adder())).wait()
    assert not of_runs


def nested_graph() -> Any:
    """A graph that contains another graph, a chain in a global, and models in an object, a closure and a tool."""
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
    """A node with a model in an attribute, and a long list of models, which the fingerprint does not search."""

    def __init__(self) -> None:
        self.data = [ScriptedChat(script=[], model_name="of-many")] * 101
        self.model = ScriptedChat(script=[], model_name="of-an-object")

    def write(self, state: Any) -> Any:
        return {"messages": [self.model.invoke(state["messages"])]}


def test_fingerprint_finds_nested_tools_and_models() -> None:
    """The fingerprint has the graph's nodes and edges, and the tools and models of its parts."""
    assert af.adapt(nested_graph()).fingerprint == {
        "nodes": ["alone", "team", "writer"],
        "edges": ["__start__ -> team", "alone -> writer", "team -> alone", "writer -> __end__"],
        "tools": ["add", "look"],
        "models": ["of-a-chain", "of-a-node", "of-an-agent", "of-an-object"],
    }


def test_configurable_model_is_not_made_for_the_fingerprint() -> None:
    """A model of `init_chat_model` may get a name, a key and a package only when the model is called."""
    model = init_chat_model(configurable_fields="any", temperature=0)
    graph = StateGraph(Chat).add_node("ask", lambda state: {"messages": [model.invoke(state["messages"])]})
    assert af.adapt(graph.add_edge(START, "ask").compile()).fingerprint["models"] == []


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: react_agent([], pay, add), "tools: add is new"),
        (lambda: react_agent([], add), "tools: pay is missing now; tools: add is new"),
        (
            lambda: one_node(lambda state: state, "agent"),
            "nodes: tools is missing now; edges: agent -> tools is missing",
        ),
    ],
)
def test_run_does_not_continue_with_a_different_graph(
    workbench: OpenWorkbench, other: Callable[[], Any], message: str
) -> None:
    """In a new workbench nodes, edges and tools must be equal; the error lists the differences."""
    wb = workbench(interactive=False)
    run_id = wb.ask("Pay 5.", flow=af.adapt(payer(), name="mine")).wait().run_id
    wb.close()
    new = workbench(interactive=False)
    new.register_flow("mine", af.adapt(other()))
    with pytest.raises(af.errors.UsageError, match=f"that is registered as 'mine': {message}"):
        new.run(run_id).approve()
    new.register_flow("mine", af.adapt(react_agent([ai_message("Paid.")], pay)))
    assert new.run(run_id).approve().wait().response == "Paid."


async def test_run_without_recorded_tools_continues(open_engine: OpenEngine) -> None:
    """Only nodes and edges are compared if the recorded fingerprint has no tools."""
    engine = await open_engine()
    engine.flows.register("mine", af.adapt(payer()))
    waiting = await engine.controller.execute("Pay 5.", flow="mine")
    path = f"$.{GRAPH_SETTING}"
    remove = "UPDATE runs SET settings_json = json_remove(settings_json, ?, ?)"
    await engine.database.write(lambda db: db.execute(remove, (f"{path}.tools", f"{path}.models")))
    await engine.aclose()
    other = await open_engine()
    other.flows.register("mine", af.adapt(react_agent([ai_message("Paid.")], pay, add)))
    assert (await other.controller.resume(waiting.thread_id, approved=True)).response == "Paid."


def test_unknown_graph_error_says_how_to_register_it(workbench: OpenWorkbench) -> None:
    """The error is the same when a run is asked again."""
    wb = workbench(interactive=False)
    run_id = wb.ask("Add.", flow=af.adapt(adder(), name="mine")).wait().run_id
    wb.close()
    new = workbench(interactive=False)
    for ask_again in (
        lambda: new.conversation(run_id).regenerate(),
        lambda: new.conversation(run_id).edit("Add more."),
    ):
        with pytest.raises(af.errors.UsageError, match=r"'mine'(?s:.*)wb.register_flow\('mine', af.adapt\(graph\)\)"):
            ask_again()


@pytest.mark.parametrize("flow", [adder(), StateGraph(Chat), 1])
def test_unadapted_graph_is_rejected(workbench: OpenWorkbench, flow: Any) -> None:
    """The error names `af.adapt(graph)` and does not print the graph."""
    with pytest.raises(af.errors.UsageError, match=r"^Pass .* af.adapt\(graph\) .*: a \w+ is neither\.$"):
        workbench(interactive=False).ask("Add.", flow=flow)


def test_synchronous_checkpointer_is_rejected() -> None:
    """The error names the checkpointer and suitable checkpointers; an asynchronous checkpointer is accepted."""
    with (
        SqliteSaver.from_conn_string(":memory:") as saver,
        pytest.raises(af.errors.UsageError, match=r"checkpointer, SqliteSaver, (?s:.*)AsyncSqliteSaver, InMemorySaver"),
    ):
        af.adapt(react_agent([], add, checkpointer=saver))
    af.adapt(react_agent([], add, checkpointer=InMemorySaver()))


def test_run_with_lost_own_checkpoint_fails(workbench: OpenWorkbench) -> None:
    """A graph with checkpoints in memory fails in a new workbench, and does nothing twice."""
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
    assert "own checkpointer, InMemorySaver, has no checkpoint of the run" in run.error
    assert "or without one" in run.error


def test_run_with_lost_workbench_checkpoint_fails(workbench: OpenWorkbench, tmp_path: Path) -> None:
    """Without checkpoints.db a waiting graph fails, and does nothing twice."""
    wb = workbench(interactive=False)
    waiting = wb.ask("Pay 5.", flow=af.adapt(payer(), name="mine")).wait()
    wb.close()
    for path in (tmp_path / "data").glob("checkpoints.db*"):
        path.unlink()
    new = workbench(interactive=False)
    new.register_flow("mine", af.adapt(payer()))
    run = new.run(waiting.run_id).approve().wait()
    assert (run.status, len(new.llm_calls_df())) == ("failed", 1)
    assert "the checkpoint of its graph is not in this data folder" in run.error
